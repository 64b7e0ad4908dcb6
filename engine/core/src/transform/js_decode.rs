//! `jsDecode`: the escapes of JavaScript.

use super::hex::{control, fold_full_width, octal};
use crate::ascii::hex_pair;

/// `jsDecode`: `\uHHHH` (the low byte; full-width ASCII folds to ASCII), `\xHH`, one to three octal
/// digits up to `\377`, `\a \b \f \n \r \t \v`. From any other escape only the backslash is
/// removed; a backslash at the very end stays.
pub(crate) fn js_decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = input;
    let mut changed = false;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (text, escape) = rest.split_at(at);
        out.extend_from_slice(text);
        rest = decode_one(escape, out);
        changed = true;
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// Decodes an escape that starts with its backslash and returns what follows it.
fn decode_one<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    if let [_, b'u', a, b, c, d, tail @ ..] = escape
        && let (Some(high), Some(low)) = (hex_pair(*a, *b), hex_pair(*c, *d))
    {
        out.push(fold_full_width(high, low));
        return tail;
    }
    if let [_, b'x', high, low, tail @ ..] = escape
        && let Some(byte) = hex_pair(*high, *low)
    {
        out.push(byte);
        return tail;
    }
    match escape {
        [_, b'0'..=b'7', ..] => decode_octal(escape.get(1..).unwrap_or_default(), out),
        [_, byte, tail @ ..] => {
            out.push(control(*byte).unwrap_or(*byte));
            tail
        }
        _ => {
            out.extend_from_slice(escape);
            &[]
        }
    }
}

/// Decodes leading octal digits: the third only counts if the value still fits a byte.
fn decode_octal<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (value, digits) = match octal(text) {
        (value @ 0o400.., digits) => (value / 8, digits - 1),
        fitting => fitting,
    };
    out.push((value & 0xff) as u8);
    text.get(digits..).unwrap_or_default()
}
