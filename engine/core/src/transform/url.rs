//! `urlDecode`, `urlDecodeUni`, `urlEncode`.

use memchr::memchr2;

use crate::{ascii::hex_pair, unicode_map::UnicodeMap};

use super::hex::{digits, fold_full_width};

/// `urlDecode`: `%HH` to a byte, `+` to a space; an invalid `%` stays as it is.
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    decode_with(input, out, percent)
}

/// `urlDecodeUni`: as `urlDecode`, and `%uHHHH` to its low byte, full-width ASCII folded to ASCII
/// (what ModSecurity does without a `SecUnicodeMapFile`). An invalid `%u` stays as it is.
pub(crate) fn decode_uni(input: &[u8], out: &mut Vec<u8>) -> bool {
    decode_uni_with(input, out, fold_full_width)
}

/// As [`decode_uni`], with what `map` says of `%uHHHH` first.
pub(crate) fn decode_mapped(input: &[u8], map: &UnicodeMap, out: &mut Vec<u8>) -> bool {
    decode_uni_with(input, out, |high, low| {
        map.byte(u16::from_be_bytes([high, low])).unwrap_or_else(|| fold_full_width(high, low))
    })
}

fn decode_uni_with(input: &[u8], out: &mut Vec<u8>, byte: impl Fn(u8, u8) -> u8) -> bool {
    decode_with(input, out, |escape, out| match escape {
        [_, b'u' | b'U', tail @ ..] => percent_u(escape, tail, &byte, out),
        _ => percent(escape, out),
    })
}

/// Copies runs, turns `+` to spaces and leaves what starts with `%` to `percent`, which returns
/// what follows the escape.
fn decode_with<F>(input: &[u8], out: &mut Vec<u8>, percent: F) -> bool
where
    F: for<'a> Fn(&'a [u8], &mut Vec<u8>) -> &'a [u8],
{
    let mut rest = input;
    let mut changed = false;
    while let Some(at) = memchr2(b'%', b'+', rest) {
        let (text, escape) = rest.split_at(at);
        out.extend_from_slice(text);
        rest = match escape {
            [b'+', tail @ ..] => {
                out.push(b' ');
                tail
            }
            _ => percent(escape, out),
        };
        changed = true;
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// Decodes `%HH`.
fn percent<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    if let [_, high, low, tail @ ..] = escape
        && let Some(byte) = hex_pair(*high, *low)
    {
        out.push(byte);
        return tail;
    }
    out.push(b'%');
    escape.get(1..).unwrap_or_default()
}

/// Decodes `%uHHHH`; `tail` is what follows the `%u`.
fn percent_u<'a>(
    escape: &'a [u8],
    tail: &'a [u8],
    byte: impl Fn(u8, u8) -> u8,
    out: &mut Vec<u8>,
) -> &'a [u8] {
    if let [a, b, c, d, after @ ..] = tail
        && let (Some(high), Some(low)) = (hex_pair(*a, *b), hex_pair(*c, *d))
    {
        out.push(byte(high, low));
        return after;
    }
    out.extend_from_slice(escape.get(..2).unwrap_or_default());
    tail
}

/// `urlEncode`: everything but ASCII letters, digits and `*` as `%hh` with lower-case digits,
/// space as `+`.
pub(crate) fn encode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let plain = |byte: u8| byte == b'*' || byte.is_ascii_alphanumeric();
    if input.iter().all(|&byte| plain(byte)) {
        return false;
    }
    out.reserve(input.len());
    for &byte in input {
        if plain(byte) {
            out.push(byte);
        } else if byte == b' ' {
            out.push(b'+');
        } else {
            let [high, low] = digits(byte);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
    true
}
