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

mod literals;
pub(crate) mod sieve;

use aho_corasick::{Anchored, MatchKind, automaton::Automaton as _, dfa::DFA};

use crate::id::RuleIndex;

pub(crate) use literals::{required, window};

/// The texts of all rules, and which rules each of them names.
#[derive(Debug)]
pub(crate) struct Index {
    automaton: Option<DFA>,
    /// For each text, the rules that need it.
    postings: Vec<Box<[u16]>>,
}

/// Collects the texts of rules.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    texts: std::collections::BTreeMap<Vec<u8>, Vec<u16>>,
}

impl IndexBuilder {
    /// Adds a rule that needs one of `texts`. Says whether it could.
    pub(crate) fn add(&mut self, rule: RuleIndex, texts: &[Vec<u8>]) -> bool {
        let Ok(rule) = u16::try_from(rule.get()) else { return false };
        if texts.is_empty() || texts.iter().any(Vec::is_empty) {
            return false;
        }
        for text in texts {
            let postings = self.texts.entry(text.to_ascii_lowercase()).or_default();
            if postings.last() != Some(&rule) {
                postings.push(rule);
            }
        }
        true
    }

    /// Compiles the automaton. Without one (no texts, or too many), every rule is always named.
    pub(crate) fn build(self) -> Index {
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .ascii_case_insensitive(true)
            .build(self.texts.keys())
            .ok()
            .filter(|_| !self.texts.is_empty());
        let postings = self.texts.into_values().map(Vec::into_boxed_slice).collect();
        Index { automaton, postings }
    }
}

impl Index {
    /// Adds to `set`, bits over rules, those that may match in `value`.
    pub(crate) fn scan(&self, value: &[u8], set: &mut [u64]) {
        let Some(automaton) = &self.automaton else {
            set.fill(u64::MAX);
            return;
        };
        let Ok(mut state) = automaton.start_state(Anchored::No) else {
            set.fill(u64::MAX);
            return;
        };
        for &byte in value {
            state = automaton.next_state(Anchored::No, state, byte);
            if automaton.is_special(state) && automaton.is_match(state) {
                for text in 0..automaton.match_len(state) {
                    self.name(automaton.match_pattern(state, text).as_usize(), set);
                }
            }
        }
    }

    fn name(&self, text: usize, set: &mut [u64]) {
        for &rule in self.postings.get(text).map_or(&[][..], |rules| rules) {
            if let Some(word) = set.get_mut(usize::from(rule / 64)) {
                *word |= 1 << (rule % 64);
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
        assert!(builder.add(RuleIndex(3), &[b"Union".to_vec(), b"select".to_vec()]));
        assert!(builder.add(RuleIndex(70), &[b"<script".to_vec()]));
        assert!(!builder.add(RuleIndex(1 << 16), &[b"a".to_vec()]), "too many rules");
        assert!(!builder.add(RuleIndex(4), &[]) && !builder.add(RuleIndex(4), &[Vec::new()]));
        let index = builder.build();
        let mut set = [0; 2];
        index.scan(b"a UNION b", &mut set);
        assert_eq!(set, [1 << 3, 0]);
        index.scan(b"<SCRIPT", &mut set);
        assert_eq!(set, [1 << 3, 1 << 6]);
        let mut set = [0; 2];
        IndexBuilder::default().build().scan(b"", &mut set);
        assert_eq!(set, [u64::MAX; 2], "what was not computed is unsure");
    }
}
