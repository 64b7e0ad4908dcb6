//! The boundary that a `Content-Type` names.
#![deny(clippy::indexing_slicing)]

use memchr::{memchr, memrchr};

use super::{MEDIA_TYPE, Parser, before_byte, is_token_character};
use crate::body::BodyErrorKind;

/// Bytes of a `Content-Type` beyond which it is an error, as in ModSecurity 3.
const CONTENT_TYPE_BYTES_MAX: usize = 1024;

/// The parameter's name as every client writes it.
const BOUNDARY: &[u8] = b"boundary";

impl Parser<'_> {
    /// The boundary that `content_type` names. Errors do not keep a boundary from being used if
    /// there is one at all: the server behind may be as lenient.
    pub(super) fn boundary<'t>(&mut self, content_type: &'t [u8]) -> Option<&'t [u8]> {
        let value = content_type.trim_ascii_start();
        if value.len() > CONTENT_TYPE_BYTES_MAX {
            self.fail(BodyErrorKind::MultipartBoundaryLength, 0);
        }
        let parameters = match value.split_at_checked(MEDIA_TYPE.len()) {
            Some((start, rest)) if start.eq_ignore_ascii_case(MEDIA_TYPE) => rest,
            _ => {
                self.fail(BodyErrorKind::MultipartMediaType, 0);
                memchr(b';', value).and_then(|at| value.get(at..)).unwrap_or(value)
            }
        };
        let mut mentions = boundary_mentions(parameters);
        let Some(at) = mentions.next() else {
            self.fail(BodyErrorKind::MultipartBoundaryMissing, 0);
            return None;
        };
        if mentions.next().is_some() {
            self.fail(BodyErrorKind::MultipartBoundaryRepeated, 0);
        }
        let (before, parameter) = parameters.split_at_checked(at)?;
        self.before_boundary_parameter(before.trim_ascii());
        let (name, rest) = parameter.split_at_checked(BOUNDARY.len())?;
        if name != BOUNDARY {
            // Parameter names are case-insensitive, but servers exist that look for this spelling.
            self.fail(BodyErrorKind::MultipartBoundaryMalformed, 0);
        }
        let equals = memchr(b'=', rest)?;
        let (gap, value) = rest.split_at_checked(equals)?;
        if !gap.trim_ascii().is_empty() {
            self.fail(BodyErrorKind::MultipartBoundaryMalformed, 0);
        }
        let value = value.get(1..).unwrap_or_default();
        self.flags.boundary_whitespace |=
            gap.iter().chain(value.first()).any(u8::is_ascii_whitespace);
        let boundary = self.boundary_value(value.trim_ascii_start());
        if boundary.is_empty() {
            self.fail(BodyErrorKind::MultipartBoundaryMissing, 0);
            return None;
        }
        if !boundary.iter().all(|&byte| is_boundary_character(byte)) || boundary.ends_with(b" ") {
            self.fail(BodyErrorKind::MultipartBoundaryCharacters, 0);
        }
        Some(boundary)
    }

    /// What stands between the media type and the boundary parameter: a semicolon, and perhaps
    /// other parameters, which RFC 2045 allows. Quoted ones are not: a boundary may hide in them.
    fn before_boundary_parameter(&mut self, before: &[u8]) {
        let plain = |byte: &u8| {
            is_token_character(*byte) || matches!(byte, b';' | b'=') || byte.is_ascii_whitespace()
        };
        if before.is_empty() {
            self.flags.missing_semicolon = true;
        } else if !before.starts_with(b";") || !before.ends_with(b";") || !before.iter().all(plain)
        {
            self.fail(BodyErrorKind::MultipartBoundaryMalformed, 0);
        }
    }

    /// The boundary itself, out of its quotes, without the parameters after it.
    fn boundary_value<'t>(&mut self, value: &'t [u8]) -> &'t [u8] {
        if let Some(quoted) = value.strip_prefix(b"\"") {
            self.flags.boundary_quoted = true;
            let Some(end) = memchr(b'"', quoted) else {
                self.fail(BodyErrorKind::MultipartBoundaryQuote, 0);
                return before_byte(quoted, b';').trim_ascii_end();
            };
            let after = quoted.get(end + 1..).unwrap_or_default().trim_ascii();
            if !after.is_empty() && !after.starts_with(b";") {
                self.fail(BodyErrorKind::MultipartBoundaryQuote, 0);
            }
            return quoted.get(..end).unwrap_or_default();
        }
        let plain = before_byte(value, b';');
        let boundary = plain.trim_ascii_end();
        self.flags.boundary_whitespace |= boundary.len() != plain.len();
        if boundary.contains(&b'"') {
            self.fail(BodyErrorKind::MultipartBoundaryQuote, 0);
        }
        boundary
    }
}

/// Where `parameters` say "boundary", in any case, with a `=` somewhere after it.
fn boundary_mentions(parameters: &[u8]) -> impl Iterator<Item = usize> {
    let last_equals = memrchr(b'=', parameters).unwrap_or(0);
    let windows = parameters.windows(BOUNDARY.len()).enumerate();
    windows
        .filter(move |(at, word)| *at < last_equals && word.eq_ignore_ascii_case(BOUNDARY))
        .map(|(at, _)| at)
}

/// RFC 2046, section 5.1.1.
fn is_boundary_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+_,-./:=?".contains(&byte)
}
