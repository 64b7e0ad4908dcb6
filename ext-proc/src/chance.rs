//! What is left to chance: samples, and names for what came without one.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// The randomness is that of the standard library's hash maps: it cannot be foreseen from outside.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A number from 0 to 99.
pub(crate) fn lot() -> u8 {
    u8::try_from(random() % 100).unwrap_or_default()
}

/// A name for a request that came without one, in the form of a random UUID (RFC 9562, version 4).
pub(crate) fn random_id() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}
