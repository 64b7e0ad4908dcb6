//! `hexDecode`, `hexEncode`, `sqlHexDecode`, and the digits that other escapes share.

use crate::ascii::hex_pair;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The lower-case hexadecimal digits of a byte.
pub(super) fn digits(byte: u8) -> [u8; 2] {
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    [digit(byte >> 4), digit(byte & 15)]
}

/// The byte a 16-bit character becomes: its low byte, except that full-width ASCII (U+FF01 to
/// U+FF5E), a favourite disguise, folds to the ASCII character it looks like.
pub(super) fn fold_full_width(high: u8, low: u8) -> u8 {
    if high == 0xff && (0x01..0x5f).contains(&low) { low + 0x20 } else { low }
}

/// The value of up to three leading octal digits, and how many there are.
pub(super) fn octal(text: &[u8]) -> (u16, usize) {
    let digits = text.iter().take(3).take_while(|digit| (b'0'..=b'7').contains(digit));
    digits.fold((0, 0), |(value, n), digit| (value * 8 + u16::from(digit - b'0'), n + 1))
}

/// The control character that a letter after a backslash stands for.
pub(super) fn control(letter: u8) -> Option<u8> {
    match letter {
        b'a' => Some(0x07),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'v' => Some(0x0b),
        _ => None,
    }
}

/// `hexDecode`: two characters to one byte; an odd last character is dropped.
///
/// As in ModSecurity, characters that are no digits are not refused but computed with, so every
/// value decodes to something. (On a value of one character ModSecurity 3 reads out of bounds;
/// here the result is empty.)
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let (pairs, _) = input.as_chunks::<2>();
    out.extend(
        pairs.iter().map(|&[high, low]| loose(high).wrapping_mul(16).wrapping_add(loose(low))),
    );
    !input.is_empty()
}

/// The digit's value; for other characters what the same arithmetic gives.
fn loose(digit: u8) -> u8 {
    if digit >= b'A' {
        (digit & 0xdf).wrapping_sub(b'A').wrapping_add(10)
    } else {
        digit.wrapping_sub(b'0')
    }
}

/// `hexEncode`: lower-case digits.
pub(crate) fn encode(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.reserve(input.len() * 2);
    for &byte in input {
        out.extend_from_slice(&digits(byte));
    }
    !input.is_empty()
}

/// `sqlHexDecode`: `0x` and as many pairs of digits as follow become bytes; an odd last digit
/// stays as it is.
pub(crate) fn sql_decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = input;
    let mut changed = false;
    // `x` is the rarer half of the mark; the search goes on behind each one found.
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|tail| memchr::memchr2(b'x', b'X', tail)) {
        let x = from + at;
        let (text, literal) = rest.split_at(x);
        match (text, literal) {
            ([text @ .., b'0'], [_, high, low, ..]) if hex_pair(*high, *low).is_some() => {
                out.extend_from_slice(text);
                rest = sql_literal(literal.get(1..).unwrap_or_default(), out);
                from = 0;
                changed = true;
            }
            _ => from = x + 1,
        }
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// Decodes leading pairs of digits and returns what follows them.
fn sql_literal<'a>(mut digits: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    while let [high, low, tail @ ..] = digits
        && let Some(byte) = hex_pair(*high, *low)
    {
        out.push(byte);
        digits = tail;
    }
    digits
}
