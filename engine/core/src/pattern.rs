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
mod tests;
