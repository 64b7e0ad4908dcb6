//! How far each of the patterns has come: sets of states of the automaton, and what a byte makes of them.

use std::sync::Arc;

use regex_automata::{
    nfa::thompson::{NFA, State},
    util::{look::Look, primitives::StateID},
};

/// Threads before a byte, with what decides their assertions.
#[derive(Clone, Debug)]
pub(super) struct StateInfo {
    pub(super) threads: Arc<[u32]>,
    /// Whether the byte before is part of a word.
    pub(super) word: bool,
    /// Whether there is no byte before.
    pub(super) first: bool,
}

/// What becomes of threads at one byte.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) threads: Box<[u32]>,
    pub(super) matches: u64,
}

/// Where threads stand, as far as assertions ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    first: bool,
    word: bool,
    /// What follows, when it is known: a byte, or the end (`None`).
    next: Option<Option<u8>>,
}

impl Place {
    pub(super) const FIRST: Self = Self { first: true, word: false, next: None };
    pub(super) const AFTER_A_BYTE: Self = Self { first: false, word: false, next: None };

    /// Whether an assertion holds; `None` when that depends on what follows.
    fn holds(&self, look: Look) -> Option<bool> {
        if look == Look::Start {
            return Some(self.first);
        }
        let next = self.next?;
        let (before, after) = (self.word, next.is_some_and(is_word));
        Some(match look {
            Look::End => next.is_none(),
            Look::WordAscii => before != after,
            Look::WordAsciiNegate => before == after,
            Look::WordStartAscii => !before && after,
            Look::WordEndAscii => before && !after,
            Look::WordStartHalfAscii => !before,
            Look::WordEndHalfAscii => !after,
            // Patterns with any other are not sieved.
            _ => true,
        })
    }
}

/// A set of threads: states of the automaton that wait for a byte or for an assertion.
#[derive(Debug, Default)]
pub(super) struct Threads {
    pub(super) list: Vec<u32>,
    pub(super) matches: u64,
    /// When a state was last entered.
    entered: Vec<u32>,
    round: u32,
    stack: Vec<StateID>,
    waiting: Vec<StateID>,
}

impl Threads {
    pub(super) fn begin(&mut self, nfa: &NFA) {
        self.list.clear();
        self.matches = 0;
        self.next_round(nfa);
    }

    fn next_round(&mut self, nfa: &NFA) {
        self.entered.resize(nfa.states().len(), 0);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.entered.fill(0);
            self.round = 1;
        }
    }

    fn enter(&mut self, state: StateID) -> bool {
        self.entered.get_mut(state.as_usize()).is_some_and(|entered| {
            let new = *entered != self.round;
            *entered = self.round;
            new
        })
    }

    /// Adds what was computed when rules were loaded.
    pub(super) fn add(&mut self, step: &Step) {
        for &thread in &step.threads {
            if StateID::new(thread as usize).is_ok_and(|state| self.enter(state)) {
                self.list.push(thread);
            }
        }
        self.matches |= step.matches;
    }

    /// Adds a state and all that it reaches without a byte.
    pub(super) fn close(&mut self, nfa: &NFA, state: StateID, place: &Place) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if !self.enter(state) {
                continue;
            }
            match nfa.state(state) {
                State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt2, *alt1]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Look { look, next } => match place.holds(*look) {
                    Some(true) => self.stack.push(*next),
                    Some(false) => {}
                    None => self.list.push(state.as_u32()),
                },
                State::Match { pattern_id } => self.matches |= 1 << pattern_id.as_usize(),
                State::Fail => {}
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                    self.list.push(state.as_u32());
                }
            }
        }
    }

    /// Decides the assertions of a state's threads; leaves those that wait for a byte in `waiting`.
    fn decide(&mut self, nfa: &NFA, state: &StateInfo, next: Option<u8>) {
        let place = Place { first: state.first, word: state.word, next: Some(next) };
        self.begin(nfa);
        for &thread in &*state.threads {
            if let Ok(thread) = StateID::new(thread as usize) {
                self.close(nfa, thread, &place);
            }
        }
        self.waiting.clear();
        let list = self.list.drain(..);
        self.waiting.extend(list.filter_map(|thread| StateID::new(thread as usize).ok()));
    }

    /// The threads of `state` behind `byte`, without those of the patterns in `but`.
    pub(super) fn step(
        &mut self,
        nfa: &NFA,
        owners: &[u64],
        state: &StateInfo,
        byte: u8,
        but: u64,
    ) {
        self.decide(nfa, state, Some(byte));
        let waiting = core::mem::take(&mut self.waiting);
        self.next_round(nfa);
        let wanted =
            |thread: &&StateID| owners.get(thread.as_usize()).is_none_or(|owner| owner & but == 0);
        for &thread in waiting.iter().filter(wanted) {
            let next = match nfa.state(thread) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(sparse) => sparse.matches_byte(byte),
                State::Dense(dense) => dense.matches_byte(byte),
                _ => None,
            };
            if let Some(next) = next {
                self.close(nfa, next, &Place::AFTER_A_BYTE);
            }
        }
        self.waiting = waiting;
    }

    /// What the threads of `state` match at the end.
    pub(super) fn end(&mut self, nfa: &NFA, state: &StateInfo) -> u64 {
        self.decide(nfa, state, None);
        self.matches
    }
}

/// Whether `\w` takes the byte.
pub(super) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
