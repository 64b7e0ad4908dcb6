//! What is left to chance: samples, and names for what came without one.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// 64 bits. The randomness is that of the standard library's hash maps: it cannot be foreseen from outside.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A number from 0 to 99.
#[must_use]
pub fn lot() -> u8 {
    u8::try_from(random() % 100).unwrap_or_default()
}

/// A name for a request that came without one, in the form of a random UUID (RFC 9562, version 4).
#[must_use]
pub fn random_id() -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_random_uuids() {
        let (one, other) = (random_id(), random_id());
        assert_ne!(one, other);
        for id in [one, other] {
            let lengths: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(id.as_bytes()[14], b'4', "{id}");
            assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
        assert!((0..1_000).all(|_| lot() < 100));
    }
}
