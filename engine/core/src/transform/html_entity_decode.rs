//! `htmlEntityDecode`.

use crate::ascii::nibble;

/// The byte of a no-break space in ISO 8859-1.
const NO_BREAK_SPACE: u8 = 0xa0;

/// Named entities. A name matches when it *starts* with one of these, in any case, in this order.
const NAMES: &[(&[u8], u8)] =
    &[(b"quot", b'"'), (b"amp", b'&'), (b"lt", b'<'), (b"gt", b'>'), (b"nbsp", NO_BREAK_SPACE)];

/// `htmlEntityDecode`: `&#xH…;`, `&#D…;` and five names, each to one byte; the `;` is optional.
///
/// Numbers may have any number of digits (ModSecurity 3.0.13 read only two or three, which zeros
/// in front evaded: CVE-2025-27110, repaired in 3.0.14). A number that fits no `i64` counts as
/// `i64::MAX`; the low byte is what is written. A name swallows all letters and digits that follow
/// it (`&ltx;` is `<`). Everything else is copied.
pub(crate) fn html_entity_decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = input;
    let mut changed = false;
    while let Some(at) = memchr::memchr(b'&', rest) {
        let (text, entity) = rest.split_at(at);
        out.extend_from_slice(text);
        let (byte, length) = entity_at(entity);
        let (entity, tail) = entity.split_at_checked(length).unwrap_or((entity, &[]));
        match byte {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(entity),
        }
        rest = tail;
        changed = true;
    }
    if changed {
        out.extend_from_slice(rest);
    }
    changed
}

/// What an entity that starts with its `&` decodes to, and how many bytes it takes; without a
/// decoding, how many bytes to copy before looking again.
fn entity_at(entity: &[u8]) -> (Option<u8>, usize) {
    let (mark, digits) = match entity {
        [_, b'#', b'x' | b'X', digits @ ..] => (3, number(digits, 16)),
        [_, b'#', digits @ ..] => (2, number(digits, 10)),
        [_, name @ ..] => (1, named(name)),
        [] => (0, (None, 0)),
    };
    let (byte, length) = digits;
    let end = mark + length;
    let semicolon = byte.is_some() && entity.get(end) == Some(&b';');
    (byte, end + usize::from(semicolon))
}

/// The low byte of the number that the leading digits write, and how many digits there are.
fn number(text: &[u8], radix: i64) -> (Option<u8>, usize) {
    let digits = text.iter().map_while(|&byte| nibble(byte).map(i64::from));
    let digits = digits.take_while(|&digit| digit < radix);
    let (value, n) = digits.fold((0_i64, 0), |(value, n), digit| {
        (value.saturating_mul(radix).saturating_add(digit), n + 1)
    });
    (if n > 0 { Some((value & 0xff) as u8) } else { None }, n)
}

/// The byte of a named entity, and the length of its run of letters and digits.
fn named(text: &[u8]) -> (Option<u8>, usize) {
    let length = text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let starts = |name: &[u8]| text.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
    let found = NAMES.iter().find(|(name, _)| starts(name));
    (found.map(|&(_, byte)| byte), length)
}
