//! Patterns that are compiled while a request is evaluated, because macros stand in them.

use crate::{limits::Limits, pattern::Pattern};

/// Bytes of automaton that each byte of a pattern may cost.
const AUTOMATON_BYTES_PER_BYTE: usize = 256;

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
        assert!(patterns.find(b"d", &LIMITS()).is_some());
        assert_eq!(patterns.entries.len(), 2);
    }

    #[test]
    fn patterns_are_bounded() {
        for (text, found) in
            [("0123456789abcdef", true), ("0123456789abcdefg", false), ("(a{99}){99}", false)]
        {
            let mut patterns = ExpandedPatterns::default();
            assert_eq!(patterns.find(text.as_bytes(), &LIMITS()).is_some(), found, "{text}");
        }
    }
}
