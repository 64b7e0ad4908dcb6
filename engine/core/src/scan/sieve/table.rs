//! The states of a group of patterns, as far as values have met them.

use core::{
    hash::{Hash, Hasher},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{collections::HashMap, sync::Arc};

use regex_automata::{
    nfa::thompson::NFA,
    util::{
        pool::Pool,
        primitives::{PatternID, StateID},
    },
};

use super::{
    ALL, HIT, Sieve, UNKNOWN,
    threads::{Place, StateInfo, Step, Threads, is_word},
};

/// Some of the patterns of a sieve as one automaton.
#[derive(Debug)]
pub(crate) struct Group {
    /// The patterns, a bit each.
    pub(super) patterns: u64,
    /// What the threads that begin at a byte become behind it: by class, behind a word byte or not.
    pub(super) beginnings: [Box<[Step]>; 2],
    /// What they match when there is no further byte.
    pub(super) ending: [u64; 2],
    pub(super) tables: Pool<Table>,
    pub(super) table_bytes_max: AtomicUsize,
}

impl Group {
    pub(super) fn new(
        nfa: &NFA,
        representatives: &[u8],
        patterns: u64,
        table_bytes_max: usize,
    ) -> Self {
        let mut group = Self {
            patterns,
            beginnings: Default::default(),
            ending: [0; 2],
            tables: Pool::new(Table::default as fn() -> Table),
            table_bytes_max: AtomicUsize::new(table_bytes_max),
        };
        let (mut from, mut work) = (Threads::default(), Threads::default());
        from.begin(nfa);
        group.begin(nfa, &mut from, &Place::AFTER_A_BYTE);
        for word in [false, true] {
            let state = StateInfo { threads: from.list.as_slice().into(), word, first: false };
            let ending = from.matches | work.end(nfa, &state);
            let steps = representatives.iter().map(|&byte| {
                work.step(nfa, &[], &state, byte, 0);
                Step { threads: work.list.as_slice().into(), matches: work.matches | from.matches }
            });
            let steps = steps.collect();
            group.beginnings[usize::from(word)] = steps;
            group.ending[usize::from(word)] = ending;
        }
        group
    }

    /// Adds the threads of its patterns where each of them begins.
    pub(super) fn begin(&self, nfa: &NFA, threads: &mut Threads, place: &Place) {
        for state in starts(nfa, self.patterns) {
            threads.close(nfa, state, place);
        }
    }
}

fn starts(nfa: &NFA, patterns: u64) -> impl Iterator<Item = StateID> {
    nfa.patterns()
        .filter(move |pattern: &PatternID| patterns & (1 << pattern.as_usize()) != 0)
        .filter_map(|pattern| nfa.start_pattern(pattern))
}

/// What one worker has made deterministic so far.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// For each state and class: the next state's place in this list.
    pub(super) next: Vec<u32>,
    states: Vec<StateInfo>,
    matches: Vec<u64>,
    /// What a state matches at the end of a value, once it is known.
    ends: Vec<Option<u64>>,
    ids: HashMap<Key, u32>,
    pub(super) bytes: usize,
    pub(super) work: Threads,
}

/// What tells two states apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    threads: Arc<[u32]>,
    word: bool,
    first: bool,
    matches: u64,
}

impl Hash for Key {
    /// There may be thousands of threads: they are mixed into one word first.
    fn hash<H: Hasher>(&self, state: &mut H) {
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let mix = |hash: u64, &thread: &u32| {
            (hash.rotate_left(5) ^ u64::from(thread)).wrapping_mul(FACTOR)
        };
        let threads = self.threads.iter().fold(self.matches, mix);
        (threads, self.word, self.first).hash(state);
    }
}

impl Table {
    /// The state before the first byte of a value.
    pub(super) fn first(&mut self, sieve: &Sieve, group: &Group) -> (u32, u64) {
        if self.states.is_empty() {
            self.work.begin(&sieve.nfa);
            group.begin(&sieve.nfa, &mut self.work, &Place::FIRST);
            let matches = self.work.matches;
            self.intern(sieve, false, true, matches);
        }
        (0, self.matches(0))
    }

    pub(super) fn matches(&self, state: usize) -> u64 {
        self.matches.get(state).copied().unwrap_or(ALL)
    }

    /// Computes a step and enters it into the table. `None` for what the table does not have: then nobody knows.
    pub(super) fn compute(
        &mut self,
        sieve: &Sieve,
        group: &Group,
        state: usize,
        class: usize,
    ) -> Option<u32> {
        let from = self.states.get(state)?.clone();
        let &byte = sieve.representatives.get(class)?;
        // What has matched before this step need not match again.
        let before = self.matches(state);
        self.work.step(&sieve.nfa, &sieve.owners, &from, byte, before);
        if let Some(step) =
            group.beginnings.get(usize::from(from.word)).and_then(|steps| steps.get(class))
        {
            self.work.add(step);
        }
        let matches = self.work.matches & !before;
        let full = self.bytes > group.table_bytes_max.load(Ordering::Relaxed);
        if full {
            self.clear(sieve, group);
        }
        let next = self.intern(sieve, is_word(byte), false, matches);
        let place = state * sieve.representatives.len() + class;
        if let (Some(step), false) = (self.next.get_mut(place), full) {
            *step = next;
        }
        Some(next)
    }

    /// Forgets every state but the first.
    fn clear(&mut self, sieve: &Sieve, group: &Group) {
        let threads = core::mem::take(&mut self.work.list);
        let matches = self.work.matches;
        self.next.clear();
        self.states.clear();
        self.matches.clear();
        self.ends.clear();
        self.ids.clear();
        self.bytes = 0;
        self.first(sieve, group);
        self.work.list = threads;
        self.work.matches = matches;
    }

    /// The place of the state that has the threads of `work`.
    fn intern(&mut self, sieve: &Sieve, word: bool, first: bool, matches: u64) -> u32 {
        self.work.list.sort_unstable();
        let threads: Arc<[u32]> = self.work.list.as_slice().into();
        let key = Key { threads: Arc::clone(&threads), word, first, matches };
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let place = u32::try_from(self.next.len()).unwrap_or(UNKNOWN);
        let id = if matches == 0 { place } else { place | HIT };
        let width = sieve.representatives.len();
        self.next.resize(self.next.len() + width, UNKNOWN);
        self.bytes += 4 * (width + threads.len()) + 128;
        self.states.push(StateInfo { threads, word, first });
        self.matches.push(matches);
        self.ends.push(None);
        self.ids.insert(key, id);
        id
    }

    /// What a state matches when there is no further byte.
    pub(super) fn at_end(&mut self, sieve: &Sieve, group: &Group, state: usize) -> u64 {
        if let Some(&Some(matches)) = self.ends.get(state) {
            return matches;
        }
        let Some(info) = self.states.get(state).cloned() else { return ALL };
        let beginning = group.ending.get(usize::from(info.word)).copied().unwrap_or(ALL);
        let matches = self.work.end(&sieve.nfa, &info) | beginning;
        if let Some(end) = self.ends.get_mut(state) {
            *end = Some(matches);
        }
        matches
    }
}
