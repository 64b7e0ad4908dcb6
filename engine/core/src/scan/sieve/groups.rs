//! Groups of patterns, each of which is one automaton.
//!
//! A state of one automaton of many patterns says how far each of them has come. In a short value most of them have
//! not begun, and one automaton of all patterns ([`Sieve::scan`]) is the fastest. In long texts some patterns are
//! under way nearly everywhere, such as `or` behind which a number may follow, and their states multiply: one
//! automaton of 26 patterns of CRS met 3,000 states in 30 KB of English with commands and SQL, and more with each
//! further word. In groups they do not ([`partition`]): none of eight groups met more than 2,500 in any text tried.
//!
//! A long value is taken through several groups at once ([`walk`]): the next state of each is a look into a table, and
//! a processor waits for all of them together.

use core::array::from_fn;

use regex_automata::util::pool::PoolGuard;

use super::{
    HIT, STEP_FUEL, Sieve, UNKNOWN,
    table::{Group, Table},
};

/// Text of the kinds that long values are of. Patterns that together meet few states in it are one group.
const SAMPLE: &[u8] = include_bytes!("sample.txt");

/// States that a group may meet in the sample. A pattern that meets more is alone.
const SAMPLE_STATES_MAX: usize = 500;

/// Groups that are walked through together.
const WALKED_MAX: usize = 4;

/// Bytes of a long value for each unit of fuel that it brings along. See [`Sieve::scan_long`].
const BYTES_PER_FUEL: usize = 16;

/// What is known of a value: of which patterns, and which of them match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) known: u64,
    pub(crate) found: u64,
}

/// A group on its way through a value.
struct Walker<'s> {
    group: &'s Group,
    table: PoolGuard<'s, Table, fn() -> Table>,
    /// The place of its state in the table.
    at: u32,
    found: u64,
    /// Nothing more can be found: it has used up its fuel, or all of its patterns match.
    is_done: bool,
}

impl Sieve {
    /// Which of the patterns in `wanted` match anywhere in a long value; others that are in their groups are answered
    /// too. The value adds fuel, as [`Sieve::scan`] has it, for each [`BYTES_PER_FUEL`] of its bytes. When there is none
    /// left, patterns of a group whose next state is not known are found, whether they match or not.
    #[inline(never)]
    pub(crate) fn scan_long(&self, value: &[u8], wanted: u64, fuel: &mut usize) -> Answers {
        *fuel = fuel.saturating_add(value.len() / BYTES_PER_FUEL);
        let groups = self.groups().iter().filter(|group| group.patterns & wanted != 0);
        let mut walkers: Vec<Walker<'_>> = groups.map(|group| self.walker(group)).collect();
        for together in walkers.chunks_mut(WALKED_MAX) {
            match together {
                [a, b, c, d] => self.walk_through([a, b, c, d], value, fuel),
                [a, b, c] => self.walk_through([a, b, c], value, fuel),
                [a, b] => self.walk_through([a, b], value, fuel),
                [a] => self.walk_through([a], value, fuel),
                _ => {}
            }
        }
        let answers = Answers::default();
        walkers.iter().fold(answers, |Answers { known, found }, walker| Answers {
            known: known | walker.group.patterns,
            found: found | walker.found & walker.group.patterns,
        })
    }

    fn walker<'s>(&'s self, group: &'s Group) -> Walker<'s> {
        let mut table = group.tables.get();
        let (at, found) = table.first(self, group);
        Walker { group, table, at, found, is_done: false }
    }

    fn walk_through<const N: usize>(
        &self,
        mut walkers: [&mut Walker<'_>; N],
        value: &[u8],
        fuel: &mut usize,
    ) {
        /// The table of a walker that is done: from its only state every byte leads back.
        const DONE: &[u32] = &[0; 256];
        let mut rest = value;
        loop {
            let mut at = walkers.each_ref().map(|walker| walker.at);
            let steps = walkers.each_ref().map(|walker| match walker.is_done {
                true => DONE,
                false => walker.table.next.as_slice(),
            });
            let taken = walk(&self.classes, steps, &mut at, rest);
            for (walker, at) in walkers.iter_mut().zip(at) {
                walker.at = at;
            }
            let Some((&byte, behind)) = rest.get(taken..).and_then(<[u8]>::split_first) else {
                break;
            };
            let class = usize::from(self.classes[usize::from(byte)]);
            for walker in &mut walkers {
                self.step(walker, class, fuel);
            }
            if walkers.iter().all(|walker| walker.is_done) {
                return;
            }
            rest = behind;
        }
        let width = self.representatives.len();
        for walker in walkers.iter_mut().filter(|walker| !walker.is_done) {
            walker.found |= walker.table.at_end(self, walker.group, walker.at as usize / width);
        }
    }

    /// Takes one step, which may have to be computed, or may lead to a match.
    fn step(&self, walker: &mut Walker<'_>, class: usize, fuel: &mut usize) {
        if walker.is_done {
            return;
        }
        let known = walker.table.next.get(walker.at as usize + class).copied();
        let mut next = known.unwrap_or(UNKNOWN);
        let width = self.representatives.len();
        if next == UNKNOWN {
            let state = walker.at as usize / width;
            let computed = match *fuel {
                0 => None,
                _ => walker.table.compute(self, walker.group, state, class),
            };
            let Some(computed) = computed else { return walker.end(u64::MAX) };
            next = computed;
            *fuel = fuel.saturating_sub(walker.table.work.list.len() + STEP_FUEL);
        }
        walker.at = next & !HIT;
        if next & HIT != 0 {
            walker.found |= walker.table.matches(walker.at as usize / width);
            if walker.found & walker.group.patterns == walker.group.patterns {
                walker.end(walker.found);
            }
        }
    }
}

impl Walker<'_> {
    const fn end(&mut self, found: u64) {
        self.found = found;
        self.is_done = true;
        self.at = 0;
    }
}

/// Takes the steps that are in all tables and lead to no match. Gives how many bytes there were before the first other
/// one.
fn walk<const N: usize>(
    classes: &[u8; 256],
    steps: [&[u32]; N],
    at: &mut [u32; N],
    value: &[u8],
) -> usize {
    let mut states = *at;
    for (taken, &byte) in value.iter().enumerate() {
        let class = usize::from(classes[usize::from(byte)]);
        let next: [u32; N] = from_fn(|walker| {
            let place = states[walker] as usize + class;
            steps[walker].get(place).copied().unwrap_or(UNKNOWN)
        });
        if next.iter().fold(0, |all, next| all | next) >= HIT {
            *at = states;
            return taken;
        }
        states = next;
    }
    *at = states;
    value.len()
}

/// The states that a pattern, or a group of patterns, is in at each byte of the sample.
struct Trace {
    patterns: u64,
    chain: u16,
    states: Vec<u32>,
    /// How many different ones there are.
    count: usize,
}

/// Divides the patterns of a sieve into groups that meet few states in the sample. `chains` says which patterns look
/// at the same texts, by a number for each chain of transformations: others are never in one group, since a text is
/// then not walked through for their sake.
///
/// The states of a group are the combinations of those of its patterns, so that each pattern is taken through the
/// sample once, alone.
pub(super) fn partition(sieve: &Sieve, chains: &[u16]) -> Vec<u64> {
    let mut alone: Vec<Trace> =
        (0..).zip(chains).map(|(pattern, &chain)| trace(sieve, pattern, chain)).collect();
    alone.sort_by_key(|trace| trace.count);
    let mut groups: Vec<Trace> = Vec::new();
    for one in alone {
        let fits = groups.iter_mut().find(|group| {
            group.chain == one.chain && combinations(group, &one) <= SAMPLE_STATES_MAX
        });
        match fits {
            Some(group) => group.add(&one),
            None => groups.push(one),
        }
    }
    groups.into_iter().map(|group| group.patterns).collect()
}

fn trace(sieve: &Sieve, pattern: u32, chain: u16) -> Trace {
    let patterns = 1 << pattern;
    let group = Group::new(&sieve.nfa, &sieve.representatives, patterns, usize::MAX);
    let mut table = Table::default();
    let (mut at, _) = table.first(sieve, &group);
    let width = sieve.representatives.len();
    let mut states = Vec::with_capacity(SAMPLE.len());
    for &byte in SAMPLE {
        let class = usize::from(sieve.classes[usize::from(byte)]);
        let known = table.next.get(at as usize + class).copied().filter(|&next| next != UNKNOWN);
        let state = at as usize / width;
        let Some(next) = known.or_else(|| table.compute(sieve, &group, state, class)) else {
            break;
        };
        at = next & !HIT;
        states.push(at / width as u32);
    }
    Trace { patterns, chain, states, count: table.next.len() / width }
}

/// How many different pairs of states two traces have.
fn combinations(one: &Trace, other: &Trace) -> usize {
    let mut seen = vec![0_u64; (one.count * other.count).div_ceil(64)];
    let mut count = 0;
    for (&state, &other_state) in one.states.iter().zip(&other.states) {
        let pair = state as usize * other.count + other_state as usize;
        if let Some(word) = seen.get_mut(pair / 64) {
            count += usize::from(*word & 1 << (pair % 64) == 0);
            *word |= 1 << (pair % 64);
        }
    }
    count
}

impl Trace {
    fn add(&mut self, other: &Self) {
        let mut numbers = std::collections::HashMap::new();
        for (state, &other) in self.states.iter_mut().zip(&other.states) {
            let next = numbers.len() as u32;
            *state = *numbers.entry((*state, other)).or_insert(next);
        }
        self.count = numbers.len();
        self.patterns |= other.patterns;
    }
}
