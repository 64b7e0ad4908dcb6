//! `compressWhitespace` and `removeWhitespace`.

use crate::ascii::is_space;

/// Bytes that are looked at together, before the place of one of them is looked for.
const PIECE_BYTES: usize = 256;

/// `compressWhitespace`: every run of white space becomes one space.
pub(crate) fn compress(input: &[u8], out: &mut Vec<u8>) -> bool {
    let first = first_change(input);
    let Some((same, rest)) = first.map(|first| input.split_at(first)) else {
        return false;
    };
    out.reserve(input.len());
    out.extend_from_slice(same);
    out.resize(input.len(), 0);
    let mut length = same.len();
    let mut in_run = same.last() == Some(&b' ');
    for &byte in rest {
        let is_space = is_space(byte);
        // Always there: not more is written than was read.
        if let Some(place) = out.get_mut(length) {
            *place = if is_space { b' ' } else { byte };
        }
        // No branch: where the spaces of a text are nobody can guess.
        length += usize::from(!(is_space && in_run));
        in_run = is_space;
    }
    out.truncate(length);
    true
}

/// Where the first white space stands that is no single space.
fn first_change(input: &[u8]) -> Option<usize> {
    let changes = |at: usize, byte: u8| {
        let after_space = at > 0 && input.get(at - 1) == Some(&b' ');
        is_space(byte) && (byte != b' ' || after_space)
    };
    let mut begin = 0;
    for piece in input.chunks(PIECE_BYTES) {
        let behind = input.get(begin + 1..).unwrap_or_default();
        let is_last = behind.len() < piece.len();
        if is_last || !is_single(piece, behind) {
            // One more, since the first of two spaces may be the last byte of the piece.
            let end = input.len().min(begin + piece.len() + 1);
            let bytes = input.get(begin..end).unwrap_or_default();
            let found = bytes.iter().zip(begin..).find(|(byte, at)| changes(*at, **byte));
            if let Some((_, at)) = found {
                return Some(at);
            }
        }
        begin += piece.len();
    }
    None
}

/// Whether all white space of a piece are spaces with something else behind them; `behind` is the
/// value from the second byte of the piece on. Without a branch in it, so many bytes go at once.
fn is_single(piece: &[u8], behind: &[u8]) -> bool {
    piece.iter().zip(behind).fold(true, |single, (&one, &next)| {
        single & !(is_space(one) & ((one != b' ') | (next == b' ')))
    })
}

/// `removeWhitespace`: white space, and the bytes 0xA0 and 0xC2 wherever they stand: together they
/// are a no-break space in UTF-8, and ModSecurity removes each on its own.
pub(crate) fn remove(input: &[u8], out: &mut Vec<u8>) -> bool {
    let removed = |byte: u8| is_space(byte) | (byte == 0xa0) | (byte == 0xc2);
    let Some(first) = input.iter().position(|&byte| removed(byte)) else {
        return false;
    };
    let (same, rest) = input.split_at(first);
    out.reserve(input.len());
    out.extend_from_slice(same);
    out.resize(input.len(), 0);
    let mut length = same.len();
    for &byte in rest {
        // Always there: not more is written than was read.
        if let Some(place) = out.get_mut(length) {
            *place = byte;
        }
        // No branch: where the spaces of a text are nobody can guess.
        length += usize::from(!removed(byte));
    }
    out.truncate(length);
    true
}
