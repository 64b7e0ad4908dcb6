//! `removeNulls` and `replaceNulls`.

use memchr::memchr;

/// `removeNulls`.
pub(crate) fn remove(input: &[u8], out: &mut Vec<u8>) -> bool {
    if memchr(0, input).is_none() {
        return false;
    }
    out.reserve(input.len());
    for run in input.split(|&byte| byte == 0) {
        out.extend_from_slice(run);
    }
    true
}

/// `replaceNulls`: by spaces.
pub(crate) fn replace(input: &[u8], out: &mut Vec<u8>) -> bool {
    if memchr(0, input).is_none() {
        return false;
    }
    out.extend(input.iter().map(|&byte| if byte == 0 { b' ' } else { byte }));
    true
}
