//! `utf8toUnicode`.

use std::io::Write;

/// `utf8toUnicode`: a character of two to four bytes becomes `%u` and at least four lower-case
/// hexadecimal digits; ASCII is copied.
///
/// What ModSecurity does with the rest is kept. A NUL is dropped unless it ends the value. A first
/// byte without its continuation bytes is dropped. A continuation byte without a first byte, and
/// 0xF8 and above, are copied. After an overlong character or a surrogate its first byte is copied
/// too, and before anything that starts with 0xF5 to 0xF7, that byte.
pub(crate) fn utf8_to_unicode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = input;
    let mut changed = false;
    while let Some(at) = rest.iter().position(|&byte| byte == 0 || !byte.is_ascii()) {
        let (text, special) = rest.split_at(at);
        out.extend_from_slice(text);
        rest = special.get(encode_one(special, out)..).unwrap_or_default();
        changed = true;
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// A multi-byte character: its number, how many bytes it has, and the least number that needs so
/// many.
struct Character {
    number: u32,
    bytes: usize,
    least: u32,
}

/// Encodes what starts with a NUL or a byte outside ASCII and returns how many bytes it took.
fn encode_one(special: &[u8], out: &mut Vec<u8>) -> usize {
    let &[first, ..] = special else { return 0 };
    match first {
        0 => {
            if special.len() == 1 {
                out.push(first);
            }
            return 1;
        }
        0x80..=0xbf | 0xf8.. => {
            out.push(first);
            return 1;
        }
        0xf5..=0xf7 => out.push(first),
        _ => {}
    }
    let Some(character) = decode(special) else { return 1 };
    // Writing to a `Vec` has no way to fail.
    let _ = write!(out, "%u{:04x}", character.number);
    if (0xd800..=0xdfff).contains(&character.number) {
        out.push(first);
    }
    if character.number < character.least {
        out.push(first);
    }
    character.bytes
}

/// The character that the value starts with, if all its continuation bytes are there.
fn decode(text: &[u8]) -> Option<Character> {
    let &[first, ..] = text else { return None };
    let (bytes, bits, least) = match first {
        0xc0..=0xdf => (2, first & 0x1f, 0x80),
        0xe0..=0xef => (3, first & 0x0f, 0x800),
        0xf0..=0xf7 => (4, first & 0x07, 0x1_0000),
        _ => return None,
    };
    let number = text.get(1..bytes)?.iter().try_fold(u32::from(bits), |number, &byte| {
        (byte & 0xc0 == 0x80).then(|| (number << 6) | u32::from(byte & 0x3f))
    })?;
    Some(Character { number, bytes, least })
}
