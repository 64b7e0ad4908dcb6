//! Patterns: from the PCRE spelling that rules use to a linear-time byte automaton.
//!
//! Rules are written for PCRE in byte mode, with the dot matching every byte and `$` only the very
//! end (ModSecurity 2 compiles with `PCRE_DOTALL | PCRE_DOLLAR_ENDONLY`; CRS expects multi-line mode
//! to be off). The translation keeps that meaning: a byte above 0x7F is a byte and never a character,
//! and case is folded in ASCII only, so that `ſ` is not an `s`.
//!
//! What PCRE has and a finite automaton has not (look-around, back-references, atomic groups,
//! possessive repetition) is matched by back-tracking under a limit of steps, see [`backtrack`].

mod backtrack;
mod posix;
mod translate;

use std::sync::Arc;

use regex_automata::{
    Input, meta,
    util::{
        primitives::{NonMaxUsize, PatternID},
        syntax,
    },
};

use regex_syntax::{ParserBuilder, hir::Hir};

use backtrack::{Backtracker, Found};
use translate::{Refusal, translate};

/// Bytes the automaton of one pattern may take. The longest of CRS takes a tenth of it.
const PATTERN_BYTES_MAX: usize = 32 << 20;

/// Steps of back-tracking where the caller sets no limit of its own.
const BACKTRACK_STEPS_MAX: usize = 100_000;

/// A compiled pattern. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// Linear time.
    Automaton {
        regex: Arc<meta::Regex>,
        /// Slots that a search may fill: two for each group, the whole match included.
        slots: usize,
    },
    /// Bounded by a number of steps.
    Backtracking { program: Arc<Backtracker>, steps_max: usize },
}

/// A search reached its limit of steps and does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GaveUp;

impl Pattern {
    /// Compiles a PCRE pattern.
    ///
    /// # Errors
    /// A message that says what is not supported or malformed, and where.
    pub(crate) fn new(pcre: &str) -> Result<Self, String> {
        Self::within(pcre.as_bytes(), PATTERN_BYTES_MAX)
    }

    /// As [`Self::new`], for a pattern that a request had a part in: `bytes_max` bounds the automaton,
    /// and with it the time to build it. Bytes that are no ASCII stand for themselves.
    pub(crate) fn from_request(pcre: &[u8], bytes_max: usize) -> Result<Self, String> {
        Self::within(pcre, bytes_max)
    }

    fn within(pcre: &[u8], bytes_max: usize) -> Result<Self, String> {
        let matcher = match translate(pcre) {
            Ok(translated) => automaton(&translated, bytes_max)?,
            Err(Refusal::NotRegular(_)) => Matcher::Backtracking {
                program: Arc::new(Backtracker::new(pcre, bytes_max)?),
                steps_max: BACKTRACK_STEPS_MAX,
            },
            Err(Refusal::Malformed(message)) => return Err(message),
        };
        Ok(Self { matcher })
    }

    /// The texts of which every match of a pattern must hold one, see [`crate::scan`].
    pub(crate) fn required_texts(pcre: &str) -> Option<Vec<Vec<u8>>> {
        crate::scan::required(&Self::syntax_tree(pcre)?)
    }

    /// The pattern as a tree, when an automaton can match it.
    pub(crate) fn syntax_tree(pcre: &str) -> Option<Hir> {
        let mut parser =
            ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build();
        parser.parse(&translate(pcre.as_bytes()).ok()?).ok()
    }

    /// Sets the limit of steps, for patterns that need one.
    pub(crate) fn with_steps_max(mut self, max: usize) -> Self {
        if let Matcher::Backtracking { steps_max, .. } = &mut self.matcher {
            *steps_max = max;
        }
        self
    }

    /// Whether there are clones of it.
    pub(crate) fn is_shared(&self) -> bool {
        match &self.matcher {
            Matcher::Automaton { regex, .. } => Arc::strong_count(regex) > 1,
            Matcher::Backtracking { program, .. } => Arc::strong_count(program) > 1,
        }
    }

    /// Whether the pattern is matched by back-tracking.
    pub(crate) const fn backtracks(&self) -> bool {
        matches!(self.matcher, Matcher::Backtracking { .. })
    }

    /// Whether the pattern matches anywhere in `haystack`; a search that gives up has not matched.
    pub(crate) fn is_match(&self, haystack: &[u8]) -> bool {
        self.try_is_match(haystack, &mut 0) == Ok(true)
    }

    /// Whether the pattern matches anywhere in `haystack`.
    ///
    /// The instructions that back-tracking has run are added to `steps`.
    pub(crate) fn try_is_match(&self, haystack: &[u8], steps: &mut usize) -> Result<bool, GaveUp> {
        match &self.matcher {
            Matcher::Automaton { regex, .. } => {
                Ok(regex.search_half(&Input::new(haystack).earliest(true)).is_some())
            }
            Matcher::Backtracking { program, steps_max } => {
                let mut left = *steps_max;
                let found = program.search(haystack, 0, &mut left, &mut []);
                *steps = steps.saturating_add(*steps_max - left);
                known(found)
            }
        }
    }

    /// The leftmost match that begins at `from` or later.
    pub(crate) fn find_at(&self, haystack: &[u8], from: usize) -> Option<(usize, usize)> {
        if from > haystack.len() {
            return None;
        }
        match &self.matcher {
            Matcher::Automaton { regex, .. } => {
                let found = regex.search(&Input::new(haystack).range(from..))?;
                Some((found.start(), found.end()))
            }
            Matcher::Backtracking { program, steps_max } => {
                let mut groups = [None];
                program.search(haystack, from, &mut { *steps_max }, &mut groups);
                let [whole] = groups;
                whole
            }
        }
    }

    /// The leftmost match and its first groups.
    pub(crate) fn captures<const N: usize>(
        &self,
        haystack: &[u8],
        groups: &mut [Option<(usize, usize)>; N],
    ) -> bool {
        self.captures_at(haystack, 0, groups)
    }

    /// The leftmost match that begins at `from` or later, and its first groups.
    pub(crate) fn captures_at<const N: usize>(
        &self,
        haystack: &[u8],
        from: usize,
        groups: &mut [Option<(usize, usize)>; N],
    ) -> bool {
        groups.fill(None);
        if from > haystack.len() {
            return false;
        }
        let (regex, slots_max) = match &self.matcher {
            Matcher::Automaton { regex, slots } => (regex, *slots),
            Matcher::Backtracking { program, steps_max } => {
                return program.search(haystack, from, &mut { *steps_max }, groups) == Found::Yes;
            }
        };
        // No more slots than the pattern has groups: the matcher's scratch is sized by the pattern, and
        // more than that makes it panic.
        let mut slots = [None::<NonMaxUsize>; 2 * GROUPS_MAX];
        let slots = slots.get_mut(..slots_max).unwrap_or_default();
        if regex.search_slots(&Input::new(haystack).range(from..), slots).is_none() {
            return false;
        }
        for (group, pair) in groups.iter_mut().zip(slots.chunks_exact(2)) {
            *group = match pair {
                [Some(start), Some(end)] => Some((start.get(), end.get())),
                _ => None,
            };
        }
        true
    }
}

fn known(found: Found) -> Result<bool, GaveUp> {
    match found {
        Found::Yes => Ok(true),
        Found::No => Ok(false),
        Found::GaveUp => Err(GaveUp),
    }
}

fn automaton(translated: &str, bytes_max: usize) -> Result<Matcher, String> {
    let regex = meta::Regex::builder()
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(bytes_max))
                .hybrid_cache_capacity(bytes_max.min(1 << 20)),
        )
        .syntax(byte_syntax())
        .build(translated)
        .map_err(|error| format!("the pattern does not compile: {}", reason(&error)))?;
    let slots = 2 * regex.group_info().group_len(PatternID::ZERO).min(GROUPS_MAX);
    Ok(Matcher::Automaton { regex: Arc::new(regex), slots })
}

/// Groups a search can report: the whole match and nine more.
const GROUPS_MAX: usize = 10;

/// The syntax options under which translated patterns are read.
pub(crate) fn byte_syntax() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false).dot_matches_new_line(true).multi_line(false)
}

fn reason(error: &meta::BuildError) -> String {
    if let Some(limit) = error.size_limit() {
        return format!("it takes more than {limit} bytes of automaton");
    }
    if let Some(syntax) = error.syntax_error() {
        // The last line of regex-syntax's rendering is the reason; the lines before repeat the pattern.
        let text = syntax.to_string();
        return text.lines().last().unwrap_or("malformed").trim().to_owned();
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pcre: &str, matching: &[&[u8]], not: &[&[u8]]) {
        let pattern = Pattern::new(pcre).unwrap();
        for haystack in matching {
            assert!(pattern.is_match(haystack), "{pcre} must match {haystack:?}");
        }
        for haystack in not {
            assert!(!pattern.is_match(haystack), "{pcre} must not match {haystack:?}");
        }
    }

    #[test]
    fn pcre_spellings_keep_their_meaning() {
        check(r"^[\w-.]+$", &[b"a-b.c"], &[b"a b"]);
        check(r"[^\x21-\x7E][\x21-\x39\x3B-\x7E]*:", &[b"\x01a:"], &[b"aa:"]);
        check(r#"^[^\s\x0b-\"\(\),/:]+$"#, &[b"abc"], &[b"a\"", b"a!"]);
        check(r"[[a]b", &[b"[b", b"ab"], &[b"b"]);
        check(r"[]a]", &[b"]", b"a"], &[b"["]);
        check(r"[^]a]", &[b"b"], &[b"]", b"a"]);
        check(r"^[a[:]b]$", &[b"[b]", b":b]", b"ab]"], &[b"b]", b"a", b":"]);
        check(r"[&&~~a-]", &[b"&", b"~", b"-"], &[b"b"]);
        check(r"a{b", &[b"a{b"], &[b"ab"]);
        check(r"a{,3}", &[b"a{,3}"], &[b"aaa"]);
        check(r"a{2,3}c", &[b"aac"], &[b"ac"]);
        check(r"\Qa.b\Ec", &[b"a.bc"], &[b"axbc"]);
        check(r##"\/\"\'\!\#\@\%\&\-\_"##, &[b"/\"'!#@%&-_"], &[b"x"]);
        check(r"\x{bc}", &[b"\xbc"], &["\u{bd}".as_bytes()]);
        check(r"\h+\R", &[b" \t\r\n"], &[b"\r\n"]);
        check(r"[[:alpha:]]\d", &[b"a1"], &[b"11"]);
        check(r"(?i)select", &[b"SeLeCt"], &["ſelect".as_bytes()]);
        check(r"(?<n>a)(?'m'b)(?#c)", &[b"ab"], &[b"a"]);
        check("(?x)^ a\tb\x0b\x0c # c)\n\r d$", &[b"abd"], &[b"a\tb", b"ab"]);
        check(
            r"(?ix)^[ #]\ A + ? (?# c) \# \Q b\E$",
            &[b"  a# b", b"# AA# b"],
            &[b"#aa# b", b"#aab"],
        );
        check(r"^(?x: a (?-x) b | c)d e(?s-x:f g)$", &[b"a b d ef g", b" cd ef g"], &[b"abde"]);
        check(r"^((?x) a b) c(?x) d | e", &[b"ab cd", b"e"], &[b"abcd", b" f"]);
        check(r"(?x)(?<n> a b )(?'m' c)(?P<x> d)", &[b"abcd"], &[b"a b c d"]);
        check(r"a.b", &[b"a\nb"], &[b"a"]);
        check(r"a$", &[b"a"], &[b"a\n"]);
        check(r"“", &["“".as_bytes()], &[b"\xe2"]);
        check(r"\0\101\x9", &[b"\0A\x09"], &[b"A"]);
    }

    /// The matcher for long values panics when it is asked for more groups than the pattern has.
    #[test]
    fn long_values_have_groups_too() {
        for pcre in [r"(?:a|b)*c", r"(?:a|b)*(c)", r"([ab]|b[a])*?(c)d?"] {
            let pattern = Pattern::new(pcre).unwrap();
            for length in [10, 1_000, 100_000, 1_000_000] {
                let value = [b"ab".repeat(length / 2), b"c".to_vec()].concat();
                let mut groups = [None; 10];
                assert!(pattern.captures(&value, &mut groups), "{pcre}");
                assert_eq!(groups[0], Some((0, value.len())), "{pcre}");
            }
        }
    }

    #[test]
    fn what_an_automaton_cannot_do_is_matched_by_backtracking() {
        for pcre in
            [r"a(?=b)", r"a(?!c)b", r"(?<!c)ab", r"(?>a)b", r"(a)b(?=\1)", r"a++b", r"(?x) a + + b"]
        {
            let pattern = Pattern::new(pcre).unwrap();
            assert!(pattern.backtracks(), "{pcre}");
            assert!(pattern.is_match(b"xaba"), "{pcre}");
            assert_eq!(pattern.find_at(b"xaba", 2), None, "{pcre}");
        }
        assert!(!Pattern::new("ab").unwrap().backtracks());
    }

    /// In both matchers: a byte above 0x7F stands for itself wherever it is.
    #[test]
    fn patterns_of_requests_are_bytes() {
        for pcre in [&b"^\xff$"[..], b"^\\\xff$", b"^[\xfe-\xff]$", b"^[\\\xff]$", b"^\\Q\xff\\E$"]
        {
            for pcre in [pcre.to_vec(), [&b"(?=.)"[..], pcre].concat()] {
                let pattern = Pattern::from_request(&pcre, PATTERN_BYTES_MAX).unwrap();
                let found =
                    [&b"\xff"[..], b"\\", b"\\xff", b"x"].map(|value| pattern.is_match(value));
                assert_eq!(found, [true, false, false, false], "{}", pcre.escape_ascii());
            }
        }
    }

    #[test]
    fn what_nothing_here_can_do_is_refused() {
        for pcre in [
            r"\p{L}",
            "a\\",
            "(?R)",
            "(",
            "[b-a]",
            r"\x{100}",
            "a(?x)*",
            "(?x)(",
            r"[\Q]",
            r"[a-\Qb\E]",
            r"(?=a)[\Qa]\E]",
            "[[:letter:]]",
            "[[:^letter:]]",
            "(?=a)[[:letter:]]",
            r"\x{+4}",
            r"(?=a)\x{+4}",
        ] {
            assert!(Pattern::new(pcre).is_err(), "{pcre}");
        }
    }
}
