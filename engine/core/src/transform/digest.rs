//! `md5` and `sha1`: raw digests. Rules follow them with `hexEncode` to compare text.
//!
//! Neither is used for security here: rules compare digests of known files and tokens.

use md5::{Digest, Md5};
use sha1::Sha1;

/// `md5`: 16 bytes.
pub(crate) fn md5(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(Md5::digest(input).as_slice());
    true
}

/// `sha1`: 20 bytes.
pub(crate) fn sha1(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(Sha1::digest(input).as_slice());
    true
}
