//! `trim`, `trimLeft`, `trimRight`.

use crate::ascii::is_space;

/// `trim`.
pub(crate) fn both(input: &[u8], out: &mut Vec<u8>) -> bool {
    shortened(trimmed_right(trimmed_left(input)), input, out)
}

/// `trimLeft`.
pub(crate) fn left(input: &[u8], out: &mut Vec<u8>) -> bool {
    shortened(trimmed_left(input), input, out)
}

/// `trimRight`.
pub(crate) fn right(input: &[u8], out: &mut Vec<u8>) -> bool {
    shortened(trimmed_right(input), input, out)
}

fn trimmed_left(input: &[u8]) -> &[u8] {
    let start = input.iter().position(|&byte| !is_space(byte)).unwrap_or(input.len());
    input.get(start..).unwrap_or_default()
}

fn trimmed_right(input: &[u8]) -> &[u8] {
    let end = input.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
    input.get(..end).unwrap_or_default()
}

fn shortened(part: &[u8], input: &[u8], out: &mut Vec<u8>) -> bool {
    if part.len() == input.len() {
        return false;
    }
    out.extend_from_slice(part);
    true
}
