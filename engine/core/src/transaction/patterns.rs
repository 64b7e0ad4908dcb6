//! Patterns that are compiled while a request is evaluated, because macros stand in them.

use crate::{limits::Limits, pattern::Pattern};

/// Bytes of automaton that each byte of a pattern may cost, and as many again for its cache.
const AUTOMATON_BYTES_PER_BYTE: usize = 64;

#[derive(Debug)]
struct Entry {
    text: Box<[u8]>,
    /// `None` for a text that does not compile: it is not tried again.
    pattern: Option<Pattern>,
    /// Whether the current transaction has asked for it.
    used: bool,
}

/// The patterns of one transaction, and those of earlier ones as long as there is room for them.
///
/// Only patterns that the current transaction has asked for count towards its limit, so that what it
/// finds does not depend on those before it.
#[derive(Debug, Default)]
pub(super) struct ExpandedPatterns {
    entries: Vec<Entry>,
}

impl ExpandedPatterns {
    /// Begins a new transaction.
    pub(super) fn clear(&mut self) {
        for entry in &mut self.entries {
            entry.used = false;
        }
    }

    /// Lets go those of earlier transactions.
    pub(super) fn rest(&mut self) {
        self.entries.retain(|entry| entry.used);
    }

    /// The pattern of a text; `None` when it does not compile or the limits do not allow for it.
    pub(super) fn find(&mut self, text: &[u8], limits: &Limits) -> Option<&Pattern> {
        if text.len() > limits.expanded_pattern_bytes_max {
            return None;
        }
        let known = self.entries.iter().position(|entry| *entry.text == *text);
        let at = match known {
            // One that is kept from an earlier transaction counts as if it were new.
            Some(at) if self.entries.get(at)?.used => at,
            _ if self.entries.iter().filter(|entry| entry.used).count()
                >= limits.expanded_patterns_max =>
            {
                return None;
            }
            Some(at) => at,
            None => self.add(text, limits),
        };
        let entry = self.entries.get_mut(at)?;
        entry.used = true;
        entry.pattern.as_ref()
    }

    /// Compiles a text, in the place of one that the current transaction has not asked for if there
    /// is no other.
    fn add(&mut self, text: &[u8], limits: &Limits) -> usize {
        let automaton_bytes_max =
            limits.expanded_pattern_bytes_max.saturating_mul(AUTOMATON_BYTES_PER_BYTE);
        let pattern = Pattern::from_request(text, automaton_bytes_max)
            .ok()
            .map(|pattern| pattern.with_steps_max(limits.backtrack_steps_max));
        let entry = Entry { text: text.into(), pattern, used: false };
        let full = self.entries.len() >= limits.expanded_patterns_max;
        let unused = self.entries.iter().position(|entry| !entry.used);
        match unused.filter(|_| full).and_then(|at| Some((at, self.entries.get_mut(at)?))) {
            Some((at, place)) => {
                *place = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits =
        || Limits { expanded_patterns_max: 2, expanded_pattern_bytes_max: 16, ..Limits::default() };

    #[test]
    fn what_is_found_does_not_depend_on_earlier_transactions() {
        let mut patterns = ExpandedPatterns::default();
        for _ in 0..3 {
            patterns.clear();
            for (text, found) in [
                ("^a", true),
                ("b(", false),
                ("^a", true),
                ("c", false),
                ("b(", false),
                ("^a", true),
            ] {
                assert_eq!(patterns.find(text.as_bytes(), &LIMITS()).is_some(), found, "{text}");
            }
        }
        patterns.clear();
        assert!(patterns.find(b"c", &LIMITS()).is_some());
        // Those that count are kept, so that no more can be asked for.
        patterns.rest();
        assert!(patterns.find(b"d", &LIMITS()).is_some());
        assert_eq!(patterns.entries.len(), 2);
        patterns.rest();
        assert!(patterns.find(b"e", &LIMITS()).is_none());
        patterns.clear();
        patterns.rest();
        assert!(patterns.entries.is_empty());
    }

    #[test]
    fn patterns_are_bounded() {
        for (text, found) in [
            ("01234567|abcdefg", true),
            ("01234567|abcdefgh", false),
            ("(a{99}){99}", false),
            ("(?=a{5})", true),
            ("(?=a{99})", false),
        ] {
            let mut patterns = ExpandedPatterns::default();
            assert_eq!(patterns.find(text.as_bytes(), &LIMITS()).is_some(), found, "{text}");
        }
    }

    /// Whatever a request makes of a pattern, compiling and searching end, without a panic.
    #[test]
    fn hostile_patterns_are_harmless() {
        const PIECES: [&[u8]; 32] = [
            b"(",
            b")",
            b"(?:",
            b"(?=",
            b"(?<!",
            b"(?>",
            b"[",
            b"]",
            b"[^",
            b"-",
            b"{",
            b"}",
            b"{2,}",
            b"{999}",
            b"*",
            b"+",
            b"++",
            b"?",
            b"|",
            b"^",
            b"$",
            b".",
            b"\\",
            b"\\1",
            b"\\b",
            b"\\x",
            b"(?i)",
            b"a",
            b"\xff",
            b"\0",
            b"[:alpha:]",
            b",9}",
        ];
        let limits = Limits { backtrack_steps_max: 1_000, ..Limits::default() };
        let (mut compiled, mut seed) = (0, 1_u64);
        let mut groups = [None; 10];
        for _ in 0..5_000 {
            let mut text = Vec::new();
            for _ in 0..8 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let piece = usize::try_from(seed >> 59).unwrap();
                text.extend_from_slice(PIECES[piece]);
            }
            let mut patterns = ExpandedPatterns::default();
            if let Some(pattern) = patterns.find(&text, &limits) {
                compiled += 1;
                let mut meter = crate::pattern::Meter::new(10_000);
                pattern.search(b"aaaa\xff\0a-a1", 1, &mut groups, &mut meter);
            }
        }
        assert!(compiled > 100, "{compiled}");
    }
}
