//! `lowercase` and `uppercase`: ASCII letters only, so that bytes of UTF-8 stay as they are.

/// `lowercase`.
pub(crate) fn lower(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(u8::is_ascii_uppercase) {
        return false;
    }
    out.extend_from_slice(input);
    out.make_ascii_lowercase();
    true
}

/// `uppercase`.
pub(crate) fn upper(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(u8::is_ascii_lowercase) {
        return false;
    }
    out.extend_from_slice(input);
    out.make_ascii_uppercase();
    true
}
