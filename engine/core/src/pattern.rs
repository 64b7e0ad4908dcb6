//! Patterns: from the PCRE spelling that rules use to a linear-time byte automaton.
//!
//! Rules are written for PCRE in byte mode, with the dot matching every byte and `$` only the very
//! end (ModSecurity 2 compiles with `PCRE_DOTALL | PCRE_DOLLAR_ENDONLY`; CRS expects multi-line mode
//! to be off). The translation keeps that meaning: a byte above 0x7F is a byte and never a character,
//! and case is folded in ASCII only, so that `ſ` is not an `s`.
//!
//! What PCRE has and a finite automaton has not (look-around, back-references, atomic groups,
//! possessive repetition) is matched under a limit of steps, see [`backtrack`]. A search begins where the pattern
//! without those constructs matches ([`relaxed`]), if it does at all; with no more than look-around in the pattern it
//! takes linear time.
//!
//! [`Pattern::search`] is the only way to match: it answers yes, no, or that it gave up, and charges a [`Meter`].
//! [`NamePattern`] puts a literal gate in front, for patterns that every member of a collection is compared with.

mod backtrack;
pub(crate) mod meter;
mod names;
mod posix;
mod relaxed;
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

use backtrack::Backtracker;
pub(crate) use backtrack::Found;
pub(crate) use meter::Meter;
pub(crate) use names::NamePattern;
use translate::{Refusal, translate};

use crate::scan::ByteSet;

/// Bytes the automaton of one pattern may take. The longest of CRS takes a tenth of it.
const PATTERN_BYTES_MAX: usize = 32 << 20;

/// Instructions of a search where the caller sets no limit of its own, besides those for each byte.
const BACKTRACK_STEPS_MAX: usize = 100_000;

/// Instructions that back-tracking may run for each byte that it is to search.
const BACKTRACK_STEPS_PER_BYTE: usize = 64;

/// Times that each instruction of a pattern without back-tracking may be run for each byte. Without look-around in
/// look-around two are enough.
const RUNS_PER_BYTE: usize = 4;

/// Bytes that a relaxed pattern reads in the time of an instruction.
const RELAXED_BYTES_PER_STEP: usize = 16;

/// A compiled pattern. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// Linear time.
    Automaton(Arc<Automaton>),
    /// Bounded by a number of steps.
    Backtracking { program: Arc<Bounded>, steps_max: usize },
}

/// A pattern that is matched in linear time.
#[derive(Debug)]
struct Automaton {
    regex: meta::Regex,
    /// Slots that a search may fill: two for each group, the whole match included.
    slots: usize,
    /// Sets of bytes, of each of which every match holds one ([`Pattern::needed_signs`]).
    needed_signs: Box<[ByteSet]>,
}

/// A pattern that is matched under a limit of steps.
#[derive(Clone, Debug)]
struct Bounded {
    program: Backtracker,
    /// The pattern without what needs back-tracking, if an automaton of its size is allowed.
    relaxed: Option<meta::Regex>,
    /// Whether it has look-around and nothing else that an automaton has not.
    is_regular: bool,
}

impl Pattern {
    /// Compiles a PCRE pattern.
    ///
    /// # Errors
    /// A message that says what is not supported or malformed, and where.
    pub(crate) fn new(pcre: &str) -> Result<Self, String> {
        Self::within(pcre.as_bytes(), PATTERN_BYTES_MAX)
    }

    /// Finds what is malformed in a pattern, without the automaton: a pattern that passes may still need too large a one.
    ///
    /// # Errors
    /// A message that says what is not supported or malformed, and where.
    pub(crate) fn check(pcre: &str) -> Result<(), String> {
        match Self::syntax_tree(pcre) {
            Some(_) => Ok(()),
            // Something is wrong: the compiler has the words for it.
            None => Self::new(pcre).map(|_| ()),
        }
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
                program: Arc::new(Bounded::new(pcre, bytes_max)?),
                steps_max: BACKTRACK_STEPS_MAX,
            },
            Err(Refusal::Malformed(message)) => return Err(message),
        };
        Ok(Self { matcher })
    }

    /// The pattern as a tree. Of one that no automaton can match it is that of the [`relaxed`] pattern, which matches
    /// wherever that one does.
    pub(crate) fn syntax_tree(pcre: &str) -> Option<Hir> {
        let mut parser =
            ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build();
        match translate(pcre.as_bytes()) {
            Ok(translated) => parser.parse(&translated).ok(),
            Err(Refusal::NotRegular(_)) => {
                Some(relaxed::relaxed(&backtrack::tree(pcre.as_bytes()).ok()?))
            }
            Err(Refusal::Malformed(_)) => None,
        }
    }

    /// Sets the limit of steps, for patterns that need one.
    pub(crate) fn with_steps_max(mut self, max: usize) -> Self {
        if let Matcher::Backtracking { steps_max, .. } = &mut self.matcher {
            *steps_max = max;
        }
        self
    }

    /// Sets of bytes without letters and digits, of each of which every match holds one. Empty where that is not known.
    pub(crate) fn needed_signs(&self) -> &[ByteSet] {
        match &self.matcher {
            Matcher::Automaton(automaton) => &automaton.needed_signs,
            Matcher::Backtracking { .. } => &[],
        }
    }

    /// Computes [`Self::needed_signs`] from the text that the pattern was compiled from, if there is no clone of it yet.
    pub(crate) fn with_needed_signs(mut self, pcre: &str) -> Self {
        if let Matcher::Automaton(automaton) = &mut self.matcher
            && let Some(automaton) = Arc::get_mut(automaton)
            && let Some(tree) = Self::syntax_tree(pcre)
        {
            automaton.needed_signs = crate::scan::needed_signs(&tree).into();
        }
        self
    }

    /// Whether there are clones of it.
    pub(crate) fn is_shared(&self) -> bool {
        match &self.matcher {
            Matcher::Automaton(automaton) => Arc::strong_count(automaton) > 1,
            Matcher::Backtracking { program, .. } => Arc::strong_count(program) > 1,
        }
    }

    /// Whether the pattern is matched by back-tracking.
    pub(crate) const fn backtracks(&self) -> bool {
        matches!(self.matcher, Matcher::Backtracking { .. })
    }

    /// The leftmost match that begins at `from` or later.
    ///
    /// `groups` get the whole match and the groups that follow, as many as there is room for: none where only the
    /// answer is asked for. A search by steps charges `meter`, and no more than is left; one that reaches its limit
    /// gives up, which the meter remembers.
    pub(crate) fn search(
        &self,
        haystack: &[u8],
        from: usize,
        groups: &mut [Option<(usize, usize)>],
        meter: &mut Meter,
    ) -> Found {
        groups.fill(None);
        if from > haystack.len() {
            return Found::No;
        }
        let found = match &self.matcher {
            Matcher::Automaton(automaton) => {
                automaton_search(&automaton.regex, automaton.slots, haystack, from, groups)
            }
            Matcher::Backtracking { program, steps_max } => {
                let steps = steps_max.saturating_add(
                    haystack.len().saturating_sub(from).saturating_mul(program.steps_per_byte()),
                );
                let allowed = meter.allowance(steps);
                let mut left = allowed;
                let found = program.search(haystack, from, groups, &mut left);
                meter.pay((allowed - left) as u64);
                found
            }
        };
        if found == Found::GaveUp {
            meter.give_up();
        }
        found
    }

    /// Whether the pattern matches anywhere in a text that no request has a part in. A search that gives up counts as
    /// a match.
    pub(crate) fn may_match(&self, haystack: &[u8]) -> bool {
        self.search(haystack, 0, &mut [], &mut Meter::at_compile_time()) != Found::No
    }
}

fn automaton_search(
    regex: &meta::Regex,
    slots_max: usize,
    haystack: &[u8],
    from: usize,
    groups: &mut [Option<(usize, usize)>],
) -> Found {
    let input = Input::new(haystack).range(from..);
    match groups {
        [] => Found::from(regex.search_half(&input.earliest(true)).is_some()),
        [whole] => {
            *whole = regex.search(&input).map(|found| (found.start(), found.end()));
            Found::from(whole.is_some())
        }
        groups => {
            // No more slots than the pattern has groups: the matcher's scratch is sized by the pattern, and
            // more than that makes it panic.
            let mut slots = [None::<NonMaxUsize>; 2 * GROUPS_MAX];
            let slots = slots.get_mut(..slots_max).unwrap_or_default();
            if regex.search_slots(&input, slots).is_none() {
                return Found::No;
            }
            for (group, pair) in groups.iter_mut().zip(slots.chunks_exact(2)) {
                *group = match pair {
                    [Some(start), Some(end)] => Some((start.get(), end.get())),
                    _ => None,
                };
            }
            Found::Yes
        }
    }
}

impl Bounded {
    fn new(pcre: &[u8], bytes_max: usize) -> Result<Self, String> {
        let program = Backtracker::new(pcre, bytes_max)?;
        let tree = relaxed::relaxed(&backtrack::tree(pcre)?);
        let regex =
            meta::Regex::builder().configure(config(pcre.len(), bytes_max)).build_from_hir(&tree);
        Ok(Self { is_regular: program.is_regular(), program, relaxed: regex.ok() })
    }

    /// Instructions that a search may run for each byte.
    fn steps_per_byte(&self) -> usize {
        match self.is_regular {
            true => self.program.instructions().saturating_mul(RUNS_PER_BYTE),
            false => BACKTRACK_STEPS_PER_BYTE,
        }
    }

    fn search(
        &self,
        haystack: &[u8],
        from: usize,
        groups: &mut [Option<(usize, usize)>],
        steps_left: &mut usize,
    ) -> Found {
        let mut next_start = |at: usize, steps_left: &mut usize| {
            let Some(relaxed) = &self.relaxed else { return Some(at) };
            let found = relaxed.search(&Input::new(haystack).range(at..))?;
            // From `at` on it is read for the first time, from the start of the match on perhaps again.
            let steps = (found.end() - found.start()) / RELAXED_BYTES_PER_STEP;
            *steps_left = steps_left.saturating_sub(steps);
            Some(found.start())
        };
        if !self.is_regular {
            return self.program.search(haystack, from, steps_left, groups, next_start);
        }
        let (found, range) =
            self.program.search_threads(haystack, from, steps_left, &mut next_start);
        match (range, groups) {
            (Some(_), []) | (None, _) => found,
            (Some(range), [whole]) => {
                *whole = Some(range);
                found
            }
            (Some(range), groups) => {
                let captured = self.program.search_at(haystack, range.0, steps_left, groups);
                if captured != Found::Yes {
                    groups.fill(None);
                    groups.iter_mut().take(1).for_each(|whole| *whole = Some(range));
                }
                Found::Yes
            }
        }
    }
}

/// Bytes that the states of a pattern's automaton may take for each worker, whatever the pattern is.
const STATES_BYTES_MIN: usize = 1 << 20;

/// As many at most.
const STATES_BYTES_MAX: usize = 8 << 20;

/// Bytes of states for each byte of the pattern. The states of CRS's patterns of commands (932230, 932235, 932260) for
/// any text take 500 to 900; with less, states are computed again and again, which takes forty times as long.
const STATES_BYTES_PER_BYTE: usize = 1 << 10;

fn config(pattern_bytes: usize, bytes_max: usize) -> meta::Config {
    let states = pattern_bytes.saturating_mul(STATES_BYTES_PER_BYTE);
    meta::Config::new()
        .utf8_empty(false)
        .nfa_size_limit(Some(bytes_max))
        .hybrid_cache_capacity(states.clamp(STATES_BYTES_MIN, STATES_BYTES_MAX).min(bytes_max))
}

fn automaton(translated: &str, bytes_max: usize) -> Result<Matcher, String> {
    let regex = meta::Regex::builder()
        .configure(config(translated.len(), bytes_max))
        .syntax(byte_syntax())
        .build(translated)
        .map_err(|error| format!("the pattern does not compile: {}", reason(&error)))?;
    let slots = 2 * regex.group_info().group_len(PatternID::ZERO).min(GROUPS_MAX);
    Ok(Matcher::Automaton(Arc::new(Automaton { regex, slots, needed_signs: Box::default() })))
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
