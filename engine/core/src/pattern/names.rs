//! Patterns that select members of a collection by name, with a literal gate in front.
//!
//! A ruleset asks such a pattern for every member: CRS sets some 150 members of `TX`, and none of them is called
//! `paramcounter_…` in most requests. A few comparisons say so; an automaton takes several hundred instructions.
//!
//! The law: the gate never says no to a name that the pattern matches.

use super::{Found, Meter, Pattern};

/// Texts that a gate compares a name with. With more, the automaton is as fast.
const TEXTS_MAX: usize = 8;

/// A pattern for names, without regard to case.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    pattern: Pattern,
    /// Texts in lower case of which each name that matches holds one. Empty: there are no such texts.
    texts: Box<[Box<[u8]>]>,
}

impl NamePattern {
    /// Compiles a PCRE pattern. A search that needs back-tracking may run `steps_max` instructions, besides those for
    /// each byte.
    ///
    /// # Errors
    /// A message that says what is not supported or malformed, and where.
    pub(crate) fn new(pcre: &str, steps_max: usize) -> Result<Self, String> {
        let pcre = format!("(?i){pcre}");
        let pattern = Pattern::new(&pcre)?.with_steps_max(steps_max);
        let texts = Pattern::syntax_tree(&pcre).and_then(|tree| crate::scan::needed(&tree));
        let texts = texts.filter(|texts| texts.len() <= TEXTS_MAX).unwrap_or_default();
        Ok(Self { pattern, texts: texts.into_iter().map(Vec::into_boxed_slice).collect() })
    }

    /// Whether the pattern is matched by back-tracking.
    pub(crate) const fn backtracks(&self) -> bool {
        self.pattern.backtracks()
    }

    /// Whether a name matches. Each byte of the name is charged to `meter`, and what a search by steps takes.
    pub(crate) fn search(&self, name: &[u8], meter: &mut Meter) -> Found {
        meter.pay(name.len() as u64);
        if self.may_match(name) { self.pattern.search(name, 0, &mut [], meter) } else { Found::No }
    }

    /// Whether a name that no request has a part in matches. A search that gives up counts as a match.
    pub(crate) fn may_select(&self, name: &[u8]) -> bool {
        self.search(name, &mut Meter::at_compile_time()) != Found::No
    }

    /// The gate: whether the name holds one of the texts, or there are none.
    #[inline]
    fn may_match(&self, name: &[u8]) -> bool {
        self.texts.is_empty() || self.texts.iter().any(|text| holds(name, text))
    }
}

/// Whether a name holds a text in lower case, without regard to the case of the name.
#[inline]
fn holds(name: &[u8], text: &[u8]) -> bool {
    let Some((&first, _)) = text.split_first() else { return true };
    let Some(starts) = (name.len() + 1).checked_sub(text.len()) else { return false };
    let mut starts = name.iter().take(starts).enumerate();
    // With this bit set, letters of both cases are one byte, and so are few others: those are compared in full.
    starts.any(|(at, &byte)| {
        byte | 0x20 == first | 0x20
            && name.get(at..at + text.len()).is_some_and(|part| part.eq_ignore_ascii_case(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    fn gate(pcre: &str) -> Vec<String> {
        let texts = NamePattern::new(pcre, 1_000).unwrap().texts;
        texts.iter().map(|text| text.escape_ascii().to_string()).collect()
    }

    #[test]
    fn texts_of_gates() {
        for (pcre, texts) in [
            ("paramcounter_.*", &["paramcounter_"][..]),
            ("MULTIPART_HEADERS_CONTENT_TYPES_*", &["multipart_headers_conten"]),
            (r"^_ga(?:_\w+)?$", &["_ga"]),
            (r"\x22?\x24Version", &["\\\"$version", "$version"]),
            (r"^[\w]+\[[\w\-]+\]\[[\w\-]*?\]$", &["]["]),
            ("a", &["a"]),
            ("^$", &[]),
            ("a?", &[]),
            (".*", &[]),
            ("[ab][cd][ef][gh]", &[]),
            ("(?=x)ab", &["ab"]),
        ] {
            assert_eq!(gate(pcre), texts, "{pcre}");
        }
    }

    #[test]
    fn names_hold_texts_in_either_case() {
        for (name, text, found) in [
            ("", "", true),
            ("", "a", false),
            ("xA", "a", true),
            ("aaB", "ab", true),
            ("a", "ab", false),
            ("ABAB_", "ab_", true),
            ("[", "{", false),
            ("@@A", "`a", false),
            ("{", "{", true),
        ] {
            assert_eq!(holds(name.as_bytes(), text.as_bytes()), found, "{name} {text}");
        }
    }

    /// The law, on random patterns and names; and names that the gate holds back are some.
    #[test]
    fn whatever_matches_passes_the_gate() {
        const PIECES: &[&str] = &[
            "_", "ab", r"\[", "x_y", "(?:a|B_)", r"[_\[]", "[a-z]", ".", "(?=a)", r"(a)\1", r"\b",
        ];
        const COUNTS: &[&str] = &["", "", "*", "+", "?", "{2}", "{1,3}"];
        let mut numbers = Xorshift(0xA076_1D64_78BD_642F);
        let mut random = |bound: usize| numbers.below(bound);
        let (mut held_back, mut matches) = (0, 0);
        for _ in 0..3_000 {
            let mut pcre = if random(3) == 0 { "^".to_owned() } else { String::new() };
            for _ in 0..=random(4) {
                let piece = PIECES[random(PIECES.len())];
                let count = if piece == r"\b" { "" } else { COUNTS[random(COUNTS.len())] };
                pcre += &format!("(?:{piece}){count}");
                pcre += if random(6) == 0 { "|" } else { "" };
            }
            let pattern = NamePattern::new(&pcre, 10_000).unwrap();
            for _ in 0..40 {
                let name: Vec<u8> = (0..random(9)).map(|_| b"_aAbBxXy[{"[random(10)]).collect();
                held_back += usize::from(!pattern.may_match(&name));
                let mut meter = Meter::at_compile_time();
                if pattern.pattern.search(&name, 0, &mut [], &mut meter) == Found::Yes {
                    matches += 1;
                    assert!(pattern.may_match(&name), "{pcre} {name:?} {:?}", pattern.texts);
                    assert_eq!(pattern.search(&name, &mut meter), Found::Yes);
                }
            }
        }
        assert!(held_back > 10_000 && matches > 10_000, "{held_back} {matches}");
    }
}
