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
//! Values are scanned as they are. A rule that transforms them sees other bytes, so the transformed value
//! is scanned too, but only where it differs: [`Transformation::triggers`] tells from a value's bytes
//! that a chain of transformations cannot change it. Case is no difference here, since the automaton
//! ignores it.

mod literals;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

pub(crate) use literals::{required, window};

/// Patterns that can be told apart. Further rules have no gate.
const PATTERNS_MAX: usize = 4_096;

/// The texts of all patterns, and which patterns each of them names.
#[derive(Debug)]
pub(crate) struct Index {
    automaton: Option<AhoCorasick>,
    /// For each text, the patterns that need it.
    postings: Vec<Box<[u16]>>,
    patterns: usize,
}

/// Collects the texts of patterns.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    texts: std::collections::BTreeMap<Vec<u8>, Vec<u16>>,
    patterns: usize,
}

impl IndexBuilder {
    /// Adds a pattern that needs one of `texts`. `None` when no more fit.
    pub(crate) fn add(&mut self, texts: &[Vec<u8>]) -> Option<PatternId> {
        if self.patterns >= PATTERNS_MAX || texts.is_empty() {
            return None;
        }
        let pattern = u16::try_from(self.patterns).ok()?;
        self.patterns += 1;
        for text in texts {
            let postings = self.texts.entry(text.to_ascii_lowercase()).or_default();
            if postings.last() != Some(&pattern) {
                postings.push(pattern);
            }
        }
        Some(PatternId(pattern))
    }

    /// Compiles the automaton. Without one (no texts, or too many), every pattern is always named.
    pub(crate) fn build(self) -> Index {
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(self.texts.keys())
            .ok()
            .filter(|_| !self.texts.is_empty());
        let postings = self.texts.into_values().map(Vec::into_boxed_slice).collect();
        Index { automaton, postings, patterns: self.patterns }
    }
}

/// A pattern known to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternId(u16);

impl PatternId {
    /// Whether a set names the pattern.
    pub(crate) fn is_in(self, set: &[u64]) -> bool {
        // A set that is too short was not computed: unsure, so the rule runs.
        set.get(usize::from(self.0 / 64)).is_none_or(|word| word & (1 << (self.0 % 64)) != 0)
    }
}

impl Index {
    /// Words of a set of patterns.
    pub(crate) const fn words(&self) -> usize {
        self.patterns.div_ceil(64)
    }

    /// Adds to `set` the patterns that may match in `value`.
    pub(crate) fn scan(&self, value: &[u8], set: &mut [u64]) {
        let Some(automaton) = &self.automaton else {
            set.fill(u64::MAX);
            return;
        };
        let Ok(found) = automaton.try_find_overlapping_iter(value) else {
            set.fill(u64::MAX);
            return;
        };
        for found in found {
            let patterns = self.postings.get(found.pattern().as_usize());
            for &pattern in patterns.map_or(&[][..], |patterns| patterns) {
                if let Some(word) = set.get_mut(usize::from(pattern / 64)) {
                    *word |= 1 << (pattern % 64);
                }
            }
        }
    }
}

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
    }

    #[test]
    fn the_index_names_what_may_match() {
        let mut builder = IndexBuilder::default();
        let union = builder.add(&[b"Union".to_vec(), b"select".to_vec()]).unwrap();
        let script = builder.add(&[b"<script".to_vec()]).unwrap();
        let index = builder.build();
        let mut set = vec![0; index.words()];
        index.scan(b"a UNION b", &mut set);
        assert!(union.is_in(&set) && !script.is_in(&set));
        assert!(script.is_in(&[]), "what was not computed is unsure");
    }
}
