//! Which of many patterns match somewhere in a value, told in one pass over its bytes.
//!
//! For patterns of which no literal text is required. They are one automaton together, made
//! deterministic while values are scanned: the first bytes of a kind cost microseconds, all later ones a
//! look into a table. The answer is exact, not a guess.
//!
//! What a hostile value can cost is bounded twice. Steps that are not in the table yet are paid from fuel: a
//! scan that has used it up gives up and names every pattern. The table is emptied when it has grown to its
//! limit.
//!
//! A value without order meets ever new states, since a state says how far each of the patterns has come. Long values
//! are therefore taken through several smaller automata ([`groups`]).
//!
//! A search can begin at each byte, so the threads that begin there are the same everywhere: what they
//! become is computed once, when rules are loaded, and a state holds only those that began before.
//!
//! Assertions are decided when the byte behind them is known, as in the determinisation that Rust's
//! `regex-automata` documents; lines (`(?m)^`) are left out.

mod groups;
mod table;
mod threads;

use core::{fmt, sync::atomic::Ordering};
use std::sync::OnceLock;

use regex_automata::{
    nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures},
    util::primitives::StateID,
};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Repetition};

pub(crate) use groups::Answers;
use table::Group;

/// Patterns of one sieve: one bit each, and one bit is left to the caller.
pub(crate) const PATTERNS_MAX: usize = 63;

/// Names every pattern: the scan gave up.
pub(crate) const ALL: u64 = u64::MAX;

/// Bytes that the automaton of one sieve may take before it is made deterministic.
const NFA_BYTES_MAX: usize = 32 << 20;

/// Bytes of the table of one worker for short values.
const TABLE_BYTES_MAX: usize = 4 << 20;

/// Bytes of the table of one worker for each group that long values are taken through.
const GROUP_TABLE_BYTES_MAX: usize = 1 << 20;

/// Says in the table that a step has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// Says in the table that the next state has matches.
const HIT: u32 = 1 << 31;

/// What a step takes besides its threads.
const STEP_FUEL: usize = 32;

/// Several patterns as one automaton.
pub(crate) struct Sieve {
    nfa: NFA,
    /// The class of each byte: bytes of one class are the same to every pattern.
    classes: Box<[u8; 256]>,
    /// A byte of each class.
    representatives: Box<[u8]>,
    /// Whose each state of the automaton is: one bit, or none where that cannot be said.
    owners: Box<[u64]>,
    /// All patterns, for short values.
    all: Group,
    /// The chain of transformations of each pattern, by a number: those with the same one are asked about together.
    chains: Box<[u16]>,
    /// Each pattern in one of several groups, for long values.
    groups: OnceLock<Box<[Group]>>,
}

impl fmt::Debug for Sieve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sieve").field("patterns", &self.nfa.pattern_len()).finish_non_exhaustive()
    }
}

impl Sieve {
    /// One automaton of patterns that [`sieveable`] gave. `None` when it becomes too large.
    ///
    /// `chains` has a number for each pattern. Those with the same one are asked about together.
    pub(crate) fn new(patterns: &[Hir], chains: &[u16]) -> Option<Self> {
        if patterns.len() > PATTERNS_MAX {
            return None;
        }
        let config = Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(NFA_BYTES_MAX));
        let nfa = Compiler::new().configure(config).build_many_from_hir(patterns).ok()?;
        let classes = nfa.byte_classes();
        let representatives: Box<[u8]> =
            classes.representatives(..).filter_map(|unit| unit.as_u8()).collect();
        Some(Self {
            owners: owners(&nfa),
            classes: Box::new(core::array::from_fn(|byte| {
                u8::try_from(byte).map_or(0, |byte| classes.get(byte))
            })),
            all: Group::new(&nfa, &representatives, ALL >> 1, TABLE_BYTES_MAX),
            representatives,
            nfa,
            chains: chains.into(),
            groups: OnceLock::new(),
        })
    }

    /// Divides the patterns into groups, if that is not done yet: milliseconds, which loading should take, and not the
    /// first long value. Rules that are never evaluated need none.
    pub(crate) fn groups(&self) -> &[Group] {
        self.groups.get_or_init(|| {
            let bytes_max = self.all.table_bytes_max.load(Ordering::Relaxed);
            let bytes_max = bytes_max.min(GROUP_TABLE_BYTES_MAX);
            let group =
                |patterns| Group::new(&self.nfa, &self.representatives, patterns, bytes_max);
            groups::partition(self, &self.chains).into_iter().map(group).collect()
        })
    }

    /// Gives the table of each worker so many bytes. It changes how long scans take, and no answer.
    pub(crate) fn set_table_bytes_max(&self, bytes: usize) {
        self.all.table_bytes_max.store(bytes, Ordering::Relaxed);
        for group in self.groups.get().into_iter().flatten() {
            group.table_bytes_max.store(bytes.min(GROUP_TABLE_BYTES_MAX), Ordering::Relaxed);
        }
    }

    /// The patterns that match anywhere in `value`; all of them when that would take more steps to be
    /// computed than there is fuel for. One unit is a thread that a step ends in: some hundreds of
    /// instructions, with those that the step began with and did not keep.
    pub(crate) fn scan(&self, value: &[u8], fuel: &mut usize) -> u64 {
        let mut table = self.all.tables.get();
        let table = &mut *table;
        let (mut at, mut found) = table.first(self, &self.all);
        let mut rest = value;
        while let Some((class, mut next, behind)) = self.known_steps(&table.next, &mut at, rest) {
            rest = behind;
            if next == UNKNOWN {
                if *fuel == 0 {
                    return ALL;
                }
                let state = at as usize / self.representatives.len();
                let Some(computed) = table.compute(self, &self.all, state, class) else {
                    return ALL;
                };
                next = computed;
                *fuel = fuel.saturating_sub(table.work.list.len() + STEP_FUEL);
            }
            at = next & !HIT;
            if next & HIT != 0 {
                found |= table.matches(at as usize / self.representatives.len());
            }
        }
        found | table.at_end(self, &self.all, at as usize / self.representatives.len())
    }

    /// Takes the steps that are in the table and lead to no match. Gives the first other one: its class,
    /// what the table says, and the bytes behind it.
    fn known_steps<'v>(
        &self,
        steps: &[u32],
        at: &mut u32,
        value: &'v [u8],
    ) -> Option<(usize, u32, &'v [u8])> {
        let mut bytes = value.iter();
        let mut state = *at;
        while let Some(&byte) = bytes.next() {
            let class = usize::from(self.classes[usize::from(byte)]);
            let next = steps.get(state as usize + class).copied().unwrap_or(UNKNOWN);
            if next >= HIT {
                *at = state;
                return Some((class, next, bytes.as_slice()));
            }
            state = next;
        }
        *at = state;
        None
    }
}

/// Which pattern each state of the automaton belongs to.
fn owners(nfa: &NFA) -> Box<[u64]> {
    let mut owners = vec![0; nfa.states().len()];
    let mut shared = vec![false; owners.len()];
    for pattern in nfa.patterns() {
        let bit = 1 << pattern.as_usize();
        let mut stack: Vec<StateID> = nfa.start_pattern(pattern).into_iter().collect();
        while let Some(state) = stack.pop() {
            let Some(owner) = owners.get_mut(state.as_usize()).filter(|owner| **owner != bit)
            else {
                continue;
            };
            if let (true, Some(shared)) = (*owner != 0, shared.get_mut(state.as_usize())) {
                *shared = true;
            }
            *owner = bit;
            successors(nfa.state(state), &mut stack);
        }
    }
    let none = |(owner, shared): (u64, bool)| if shared { 0 } else { owner };
    owners.into_iter().zip(shared).map(none).collect()
}

/// Adds the states that a state leads to.
fn successors(state: &State, to: &mut Vec<StateID>) {
    match state {
        State::ByteRange { trans } => to.push(trans.next),
        State::Sparse(sparse) => to.extend(sparse.transitions.iter().map(|trans| trans.next)),
        State::Dense(dense) => to.extend(dense.transitions.iter().copied()),
        State::Look { next, .. } | State::Capture { next, .. } => to.push(*next),
        State::Union { alternates } => to.extend(alternates.iter()),
        State::BinaryUnion { alt1, alt2 } => to.extend([*alt1, *alt2]),
        State::Fail | State::Match { .. } => {}
    }
}

/// What becomes of the case of letters before a pattern is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    /// They stay as they are.
    Kept,
    /// They are in lower case.
    Lowered,
    /// Either: of what is decoded behind `lowercase`, and of a value with each of its stages.
    Either,
}

/// The pattern as a sieve can take it; `None` when it cannot.
///
/// A sieve looks at text before letters are lowered. What is given matches it exactly where the pattern matches
/// behind that, or, with [`Letters::Either`], wherever it matches before or behind.
pub(crate) fn sieveable(pattern: &Hir, letters: Letters) -> Option<Hir> {
    let looks = pattern.properties().look_set();
    let known = looks.iter().all(|look| {
        use regex_syntax::hir::Look;
        matches!(
            look,
            Look::Start
                | Look::End
                | Look::WordAscii
                | Look::WordAsciiNegate
                | Look::WordStartAscii
                | Look::WordEndAscii
                | Look::WordStartHalfAscii
                | Look::WordEndHalfAscii
        )
    });
    if !known {
        return None;
    }
    match letters {
        Letters::Kept => Some(pattern.clone()),
        Letters::Lowered | Letters::Either => before_lowering(pattern, letters),
    }
}

fn before_lowering(pattern: &Hir, letters: Letters) -> Option<Hir> {
    let one = |piece: &Hir| before_lowering(piece, letters);
    let all = |pieces: &[Hir]| pieces.iter().map(one).collect::<Option<Vec<_>>>();
    let class_before = |ranges: &[ClassBytesRange]| class_before(ranges, letters);
    Some(match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => pattern.clone(),
        HirKind::Literal(literal) => Hir::concat(
            literal
                .0
                .iter()
                .map(|&byte| class_before(&[ClassBytesRange::new(byte, byte)]))
                .collect(),
        ),
        HirKind::Class(Class::Bytes(class)) => class_before(class.ranges()),
        HirKind::Class(Class::Unicode(_)) => return None,
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(one(&repetition.sub)?),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => one(&capture.sub)?,
        HirKind::Concat(pieces) => Hir::concat(all(pieces)?),
        HirKind::Alternation(pieces) => Hir::alternation(all(pieces)?),
    })
}

/// The bytes that are in the class when they are in lower case, and those that are in it as they are.
fn class_before(ranges: &[ClassBytesRange], letters: Letters) -> Hir {
    let mut class = ClassBytes::empty();
    for range in ranges {
        for byte in range.start()..=range.end() {
            if !byte.is_ascii_uppercase() {
                class.push(ClassBytesRange::new(byte, byte));
                let upper = byte.to_ascii_uppercase();
                class.push(ClassBytesRange::new(upper, upper));
            } else if letters == Letters::Either {
                class.push(ClassBytesRange::new(byte, byte));
            }
        }
    }
    Hir::class(Class::Bytes(class))
}

#[cfg(test)]
mod tests {
    use regex_syntax::ParserBuilder;

    use super::*;
    use crate::xorshift::Xorshift;

    const PIECES: &[&str] = &[
        "<", "ab", "(?i:<A)", "[<>]", "[^a]", "[a-z]", ".", "(a|<ab|)", "^", "$", r"\b", r"\B",
        "x<", r"\w", r"\s", "A",
    ];
    const COUNTS: &[&str] = &["", "", "*", "+", "?", "{2}", "{0,1}", "{1,3}"];
    const BYTES: &[u8] = b"<>aAbBx \xE9";

    fn pattern(random: &mut Xorshift) -> String {
        let mut text = String::new();
        for _ in 0..=random.below(4) {
            let piece = PIECES[random.below(PIECES.len())];
            let counted = !matches!(piece, "^" | "$" | r"\b" | r"\B");
            let count = if counted { COUNTS[random.below(COUNTS.len())] } else { "" };
            text += &format!("(?:{piece}){count}");
            text += if random.below(6) == 0 { "|" } else { "" };
        }
        text
    }

    fn value(random: &mut Xorshift) -> Vec<u8> {
        (0..random.below(12)).map(|_| BYTES[random.below(BYTES.len())]).collect()
    }

    fn hir(pattern: &str) -> Hir {
        let mut parser =
            ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build();
        parser.parse(pattern).unwrap()
    }

    #[test]
    fn a_sieve_names_exactly_what_matches() {
        let mut random = Xorshift(0xD1B5_4A32_D192_ED03);
        let mut named = 0;
        for round in 0..600 {
            let letters = [Letters::Kept, Letters::Lowered, Letters::Either][round % 3];
            let texts: Vec<String> = (0..=random.below(6)).map(|_| pattern(&mut random)).collect();
            let patterns: Vec<_> =
                texts.iter().map(|text| crate::pattern::Pattern::new(text).unwrap()).collect();
            let hirs: Vec<Hir> =
                texts.iter().map(|text| sieveable(&hir(text), letters).unwrap()).collect();
            let sieve = Sieve::new(&hirs, &vec![(round % 2) as u16; hirs.len()]).unwrap();
            for _ in 0..60 {
                let value = value(&mut random);
                let found = sieve.scan(&value, &mut { usize::MAX });
                let wanted = random.below(1 << hirs.len()) as u64;
                let long = sieve.scan_long(&value, wanted, &mut { usize::MAX });
                assert_eq!(long.known & wanted, wanted, "{texts:?}");
                assert_eq!(long.found, found & long.known, "{texts:?} on {value:?}");
                let lower = value.to_ascii_lowercase();
                for (bit, (pattern, text)) in patterns.iter().zip(&texts).enumerate() {
                    let is_found = found & (1 << bit) != 0;
                    let (expected, may_be_more) = match letters {
                        Letters::Kept => (pattern.may_match(&value), false),
                        Letters::Lowered => (pattern.may_match(&lower), false),
                        Letters::Either => {
                            (pattern.may_match(&value) || pattern.may_match(&lower), is_found)
                        }
                    };
                    assert_eq!(is_found, expected || may_be_more, "{text} on {value:?}");
                    named += usize::from(expected);
                }
            }
        }
        assert!(named > 10_000, "{named}");
    }

    #[test]
    fn without_fuel_every_pattern_is_named() {
        let texts = ["ab+c", "[xy]z", "d+e", "fg*h", "i[jk]l"];
        let sieve = Sieve::new(&texts.map(hir), &[0; 5]).unwrap();
        let scan = |value, steps| sieve.scan(value, &mut (steps * STEP_FUEL));
        assert_eq!(scan(b"aaaaaaaaa", 2), 0, "two steps, again and again");
        assert_eq!(scan(b"abcijl", 2), ALL, "more than two");
        assert_eq!(scan(b"abcijl", 100), 0b1_0001);
        assert_eq!(scan(b"abcijl", 0), 0b1_0001, "from the table");
    }

    /// A group whose next state takes fuel that is not there is found, and no other one.
    #[test]
    fn without_fuel_every_pattern_of_a_group_is_named() {
        let patterns = ["a[ab]{40}c", "x[xy]z"];
        let sieve = Sieve::new(&patterns.map(hir), &[1, 2]).unwrap();
        let mut random = Xorshift(7);
        let value: Vec<u8> = (0..4_000).map(|_| b"ab"[random.below(2)]).collect();
        let scan = |wanted, fuel| {
            let Answers { known, found } = sieve.scan_long(&value, wanted, &mut { fuel });
            (known, found)
        };
        assert_eq!(scan(0b10, 1_000), (0b10, 0), "the first is not asked");
        assert_eq!(scan(0b11, 1_000), (0b11, 0b01), "the first gives up");
        assert_eq!(scan(0b11, usize::MAX), (0b11, 0));
    }

    /// Every run of letters is a state of its own here, so that the table fills up, whatever its limit.
    #[test]
    fn a_full_table_is_emptied_and_answers_stay_right() {
        const SMALL: usize = 1 << 16;
        let patterns = ["a[ab]{12}c", "b[ab]{9}a[ab]{3}d"];
        let expected = patterns.map(|text| crate::pattern::Pattern::new(text).unwrap());
        for (bytes_max, is_small) in [(TABLE_BYTES_MAX, false), (SMALL, true)] {
            let sieve = Sieve::new(&patterns.map(hir), &[0; 2]).unwrap();
            sieve.set_table_bytes_max(bytes_max);
            let mut random = Xorshift(7);
            for _ in 0..40 {
                let value: Vec<u8> =
                    (0..2_000).map(|_| b"ababababababababcd"[random.below(18)]).collect();
                let expected = expected
                    .iter()
                    .enumerate()
                    .map(|(bit, pattern)| u64::from(pattern.may_match(&value)) << bit);
                assert_eq!(sieve.scan(&value, &mut { usize::MAX }), expected.sum());
                let table = sieve.all.tables.get();
                assert!(table.bytes <= bytes_max + 4_096, "{}", table.bytes);
            }
            assert_eq!(sieve.all.tables.get().bytes <= SMALL + 4_096, is_small);
        }
    }
}
