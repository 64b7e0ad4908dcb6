//! Texts of a request: how they are decoded, and found in each other.

use crate::path::percent_decoded;

/// `%XX` decoded and `+` as a space, as in forms.
pub(super) fn form_decoded(bytes: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> =
        bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decoded(&spaced)
}

/// In lower case, as far as it is ASCII.
pub(super) fn lower(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.make_ascii_lowercase();
    bytes
}

/// Whether a text has a value that is not empty.
pub(super) fn contains(given: &[u8], value: &[u8]) -> bool {
    find(given, value).is_some()
}

/// Where a value that is not empty begins.
pub(super) fn find(given: &[u8], value: &[u8]) -> Option<usize> {
    // Most places differ at once, and a comparison of slices is a call.
    let mut places = given.windows(value.len().max(1));
    places.position(|place| starts_alike(place, value) && place == value)
}

/// A text as a pattern: whatever is no letter or digit is written as a number.
pub(super) fn escaped(text: &[u8]) -> String {
    let one = |byte: &u8| match byte.is_ascii_alphanumeric() {
        true => char::from(*byte).to_string(),
        false => format!("\\x{byte:02x}"),
    };
    text.iter().map(one).collect()
}

/// Whether the first two bytes of a value that is not empty are those of what is compared with it.
fn starts_alike(given: &[u8], value: &[u8]) -> bool {
    given.first() == value.first() && (value.len() < 2 || given.get(1) == value.get(1))
}

/// Whether an argument has a name, as PHP makes names: leading spaces are cut, a space, `.` or unclosed `[` is `_`, and
/// the name ends at a `[` or NUL.
pub(super) fn is_named(given: &[u8], name: &[u8]) -> bool {
    let start = given.iter().position(|byte| *byte != b' ').unwrap_or(given.len());
    let given = given.get(start..).unwrap_or_default();
    let Some((given, rest)) = given.split_at_checked(name.len()) else { return false };
    let same = |(given, wanted): (&u8, &u8)| {
        given == wanted || *wanted == b'_' && matches!(given, b' ' | b'.' | b'[')
    };
    given.iter().zip(name).all(same) && matches!(rest.first(), None | Some(b'[' | 0))
}

/// The names of [`is_named`] as a pattern.
pub(super) fn name_pattern(name: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'_' => r"[_.\x20\[]".to_owned(),
        other => escaped(&[*other]),
    };
    let name: String = name.iter().map(one).collect();
    format!(r"^\x20*{name}(?:[\[\x00].*)?$")
}
