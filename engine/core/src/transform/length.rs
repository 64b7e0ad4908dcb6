//! `length`.

use std::io::Write;

/// `length`: the number of bytes in decimal ASCII.
pub(crate) fn length(input: &[u8], out: &mut Vec<u8>) -> bool {
    // Writing to a `Vec` has no way to fail.
    write!(out, "{}", input.len()).is_ok()
}
