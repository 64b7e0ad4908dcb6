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
