//! `cssDecode`: CSS 2.1 escapes (section 4.1.3), reduced to bytes.

use super::hex::fold_full_width;
use crate::ascii::{hex_pair, is_space, nibble};

/// The longest run of hexadecimal digits in one escape.
const DIGITS_MAX: usize = 6;

/// `cssDecode`: `\` and one to six hexadecimal digits become one byte, the value of the last two
/// digits; full-width ASCII (U+FF01 to U+FF5E) folds to ASCII. One white space after the digits
/// belongs to the escape. `\` before LF disappears with it, `\` at the end disappears, and `\`
/// before anything else disappears alone.
pub(crate) fn css_decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = input;
    let mut changed = false;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (text, escape) = rest.split_at(at);
        out.extend_from_slice(text);
        rest = decode_one(escape.get(1..).unwrap_or_default(), out);
        changed = true;
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// Decodes what follows a backslash and returns what follows the escape.
fn decode_one<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let digits =
        escape.iter().take(DIGITS_MAX).take_while(|digit| digit.is_ascii_hexdigit()).count();
    let (digits, tail) = escape.split_at(digits);
    if let Some(byte) = decode_digits(digits) {
        out.push(byte);
        return match tail {
            [space, after @ ..] if is_space(*space) => after,
            _ => tail,
        };
    }
    match tail {
        [b'\n', after @ ..] => after,
        [byte, after @ ..] => {
            out.push(*byte);
            after
        }
        [] => tail,
    }
}

/// The byte that one to six digits stand for; `None` without digits.
fn decode_digits(digits: &[u8]) -> Option<u8> {
    match digits {
        [only] => nibble(*only),
        // Five and six digits are folded when they are four with zeros in front.
        [a, b, c, d] | [b'0', a, b, c, d] | [b'0', b'0', a, b, c, d] => {
            Some(fold_full_width(hex_pair(*a, *b)?, hex_pair(*c, *d)?))
        }
        [.., high, low] => hex_pair(*high, *low),
        [] => None,
    }
}
