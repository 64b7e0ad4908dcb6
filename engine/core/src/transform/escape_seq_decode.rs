//! `escapeSeqDecode`: the escapes of ANSI C.

use super::hex::{control, octal};
use crate::ascii::hex_pair;

/// `escapeSeqDecode`: `\a \b \f \n \r \t \v \\ \? \' \"`, `\xHH` (also `\XHH`) and one to three
/// octal digits, of which the low byte counts. From any other escape only the backslash is
/// removed; a backslash at the very end stays.
pub(crate) fn escape_seq_decode(input: &[u8], out: &mut Vec<u8>) -> bool {
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
    if let [_, b'x' | b'X', high, low, tail @ ..] = escape
        && let Some(byte) = hex_pair(*high, *low)
    {
        out.push(byte);
        return tail;
    }
    match escape {
        [_, b'0'..=b'7', ..] => {
            let (value, digits) = octal(escape.get(1..).unwrap_or_default());
            // Three digits reach 0777; like C's assignment to a byte, only eight bits stay.
            out.push((value & 0xff) as u8);
            escape.get(1 + digits..).unwrap_or_default()
        }
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
