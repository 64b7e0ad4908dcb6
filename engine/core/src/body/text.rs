//! Text of any kind: what browsers and SDKs send as `text/plain`, and what comes without a type.
//!
//! Its type says nothing about how the application reads it, and many read JSON or a form whatever the type is.
//! So it is read as what it looks like:
//!
//! - What begins with `{`, `[` or `"` is a sequence of JSON values. Other text may begin so, too: what is no JSON is no
//!   error, and is the argument `text` besides what could be read of it.
//! - What begins with a name of up to 256 bytes and `=` is a form. A name is made of what clients do not escape in forms,
//!   and of escapes.
//! - What begins with `<` is XML; what is no XML is no error. It is the argument `text` besides.
//! - Everything else is one argument with the name `text`; but for bytes of no type (`octet-stream`) with a NUL among
//!   them, which are no text.
//!
//! Only limits are errors.
#![deny(clippy::indexing_slicing)]

use memchr::memchr;

use super::{
    BodyError, BodyErrorKind, BodyScratch, BodySink, Room, json, json::Values, urlencoded, xml,
};
use crate::limits::Limits;

/// The longest name that a form may begin with.
const NAME_BYTES_MAX: usize = 256;

/// The name of text that is neither JSON nor a form.
const NAME: &[u8] = b"text";

/// Reports the arguments of `body` and returns the first limit that was reached.
pub(super) fn parse(
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    separator: u8,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Option<BodyError> {
    if looks_like_a_form(body) {
        return urlencoded::parse(body, separator, scratch, sink).error;
    }
    if looks_like_json(body) {
        let error = json::parse(body, Values::Any, limits.json_depth_max, scratch, sink);
        if error.is_none_or(|error| error.kind.is_limit()) {
            return error;
        }
    }
    if body.trim_ascii_start().starts_with(b"<") {
        let error = xml::parse(body, limits, scratch, sink);
        if error.is_some_and(|error| error.kind.is_limit()) {
            return error;
        }
    }
    if is_of_no_type(content_type) && memchr(0, body).is_some() {
        return None;
    }
    let is_full = sink.argument(NAME, body) == Room::Full;
    is_full.then_some(BodyError { kind: BodyErrorKind::ArgumentsFull, offset: 0 })
}

/// Whether the type says that these are bytes, and no more.
fn is_of_no_type(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    let media_type = media_type.trim_ascii();
    [&b"application/octet-stream"[..], b"binary/octet-stream"]
        .iter()
        .any(|known| media_type.eq_ignore_ascii_case(known))
}

fn looks_like_json(body: &[u8]) -> bool {
    let body = body.strip_prefix(json::BYTE_ORDER_MARK).unwrap_or(body);
    let first = body.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x1e));
    matches!(first, Some(b'{' | b'[' | b'"'))
}

fn looks_like_a_form(body: &[u8]) -> bool {
    let is_of_a_name = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'.' | b'[' | b']' | b'%' | b'+' | b'$' | b'*')
    };
    let name = body.iter().take(NAME_BYTES_MAX + 1).take_while(|byte| is_of_a_name(byte)).count();
    (1..=NAME_BYTES_MAX).contains(&name) && body.get(name) == Some(&b'=')
}
