//! Which rules cannot match: one scan of each value for the text that patterns need.
//!
//! Nearly every pattern of a ruleset can match only where some literal text is ([`literals`]): `union`
//! and `select`, `<script`, `etc/passwd`. All those texts of all rules are one Aho-Corasick automaton
//! ([`Index`]). Each value of a request is run through it once, whatever the number of rules, and gives
//! the set of patterns that *may* match. A rule none of whose values names it is not evaluated at all.
//!
//! **The law: no false negatives.** If a rule matches, the scan names it. Everything here may only err
//! the other way; what it cannot decide, it names. It is tested by running CRS's regression tests, the
//! engine's fixtures and random requests with gates and without: the answers must be the same.
//!
//! It is the wrong tool for rules whose operator is negated, that look at what rules have set, or that
//! count: those have no gate and always run.
//!
//! Patterns without such a text are matched together by a [`sieve`].
//!
//! Values are scanned as they are. A rule that transforms them sees other bytes, so the transformed value
//! is scanned too, but only where it differs: [`Transformation::triggers`] tells from a value's bytes
//! that a chain of transformations cannot change it. Case is no difference here, since the automaton
//! ignores it.

mod index;
mod lanes;
mod literals;
pub(crate) mod sieve;
mod stripped;

pub(crate) use index::Table;
pub(crate) use lanes::{IndexBuilders, Indexes};
use literals::window;
pub(crate) use literals::{needed, needed_signs, required};
pub(crate) use stripped::Marks;
#[cfg(test)]
pub(crate) use stripped::stripped;

/// Which bytes occur in a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    /// Every byte.
    pub(crate) const ALL: Self = Self([u64::MAX; 4]);

    /// No byte.
    pub(crate) const EMPTY: Self = Self([0; 4]);

    /// The bytes of `text`.
    #[must_use]
    pub(crate) const fn of(text: &[u8]) -> Self {
        let mut set = Self::EMPTY;
        let mut at = 0;
        while at < text.len() {
            set = set.with(text[at]);
            at += 1;
        }
        set
    }

    /// The bytes of a text of any length: [`Self::of`] with a table, which is faster for many bytes.
    #[must_use]
    pub(crate) fn of_long(text: &[u8]) -> Self {
        let mut seen = [false; 256];
        for &byte in text {
            seen[usize::from(byte)] = true;
        }
        (0..=u8::MAX).zip(seen).filter_map(|(byte, seen)| seen.then_some(byte)).collect()
    }

    /// The bytes from `first` to `last`.
    #[must_use]
    pub(crate) const fn range(first: u8, last: u8) -> Self {
        let mut set = Self::EMPTY;
        let mut byte = first;
        loop {
            set = set.with(byte);
            if byte >= last {
                return set;
            }
            byte += 1;
        }
    }

    const fn with(mut self, byte: u8) -> Self {
        self.0[(byte >> 6) as usize] |= 1 << (byte & 63);
        self
    }

    /// Adds a byte.
    pub(crate) const fn insert(&mut self, byte: u8) {
        *self = self.with(byte);
    }

    /// Whether the byte is in it.
    #[must_use]
    pub(crate) const fn contains(self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] & (1 << (byte & 63)) != 0
    }

    /// The bytes that are not in it.
    #[must_use]
    pub(crate) const fn negated(self) -> Self {
        let [a, b, c, d] = self.0;
        Self([!a, !b, !c, !d])
    }

    /// The bytes of either.
    #[must_use]
    pub(crate) const fn union(self, other: Self) -> Self {
        let [a, b, c, d] = self.0;
        let [e, f, g, h] = other.0;
        Self([a | e, b | f, c | g, d | h])
    }

    /// Whether some byte is in both.
    #[must_use]
    pub(crate) const fn intersects(self, other: Self) -> bool {
        let [a, b, c, d] = self.0;
        let [e, f, g, h] = other.0;
        a & e != 0 || b & f != 0 || c & g != 0 || d & h != 0
    }

    /// Adds both cases of every letter.
    #[must_use]
    pub(crate) const fn folded(mut self) -> Self {
        const LETTERS: u64 = 0x07FF_FFFE;
        let letters = self.0[1];
        let upper = letters & LETTERS;
        let lower = letters >> 32 & LETTERS;
        self.0[1] |= upper << 32 | lower;
        self
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        bytes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_bytes() {
        let set = ByteSet::of(b"aZ%");
        assert!(set.intersects(ByteSet::of(b"%")) && !set.intersects(ByteSet::of(b"zA")));
        assert!(
            set.folded().intersects(ByteSet::of(b"z"))
                && set.folded().intersects(ByteSet::of(b"A"))
        );
        assert_eq!(ByteSet::range(b'a', b'c'), ByteSet::of(b"abc"));
        assert_eq!(ByteSet::range(0, 255), ByteSet::ALL);
        assert_eq!(ByteSet::of(b"@[`{").folded(), ByteSet::of(b"@[`{"));
        for byte in 0..=u8::MAX {
            let mut more = set;
            more.insert(byte);
            assert!(more.contains(byte) && !more.negated().contains(byte));
            assert_eq!(set.contains(byte), more == set, "{byte}");
        }
    }
}
