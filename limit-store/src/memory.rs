//! Counters in the memory of this process.

use crate::clock::Clock;
use crate::key::Key;
use crate::limit::Limit;
use crate::state::State;
use crate::store::{ASKS_MAX, Answer, Ask, Pending, Return, Store, StoreError, Taking};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the table that are locked on their own.
const SHARDS: usize = 16;

/// A store in memory: what a single process, or a test, needs no Redis for.
///
/// It keeps at least the `counters_max` counters that were used last, and at most twice as many
/// (up to some 250 bytes each); of more, those are forgotten that were not used for longest. A client
/// that makes up many names can thus have others forgotten, which is the price of a bound.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    hash: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    /// In each shard.
    counters_max: usize,
}

type Name = Box<str>;

/// What was used lately, and what was used before. When the young are as many as there may be,
/// they become the old, and the old are forgotten: no list of uses has to be kept.
#[derive(Debug, Default)]
struct Shard {
    young: HashMap<Name, State>,
    old: HashMap<Name, State>,
}

impl Shard {
    fn get(&self, name: &str) -> State {
        let found = self.young.get(name).or_else(|| self.old.get(name));
        found.copied().unwrap_or(State::Unused)
    }

    fn put(&mut self, name: &str, state: State, counters_max: usize) {
        if let Some(kept) = self.young.get_mut(name) {
            *kept = state;
            return;
        }
        self.old.remove(name);
        if self.young.len() >= counters_max {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(name.into(), state);
    }
}

impl MemoryStore {
    /// An empty store for `counters_max` counters.
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        Self::with_clock(counters_max, Clock::Real)
    }

    /// One that reads this clock.
    #[must_use]
    pub fn with_clock(counters_max: usize, clock: Clock) -> Self {
        let counters_max = counters_max.div_ceil(SHARDS).max(1);
        Self { clock, hash: RandomState::new(), shards: Default::default(), counters_max }
    }

    /// The number of counters that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        let lengths = self.shards.iter().map(|shard| {
            let shard = locked(shard);
            shard.young.len() + shard.old.len()
        });
        lengths.sum()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes at once: nothing here waits for anything but a lock held for microseconds.
    ///
    /// # Errors
    ///
    /// If there are more than [`ASKS_MAX`].
    pub fn take_now(&self, asks: &[Ask], taking: Taking) -> Result<Vec<Answer>, StoreError> {
        let mut opened = self.open(asks.iter().map(|ask| (&ask.key, &ask.limit)))?;
        let now_us = self.clock.now_us();
        let mut answers = Vec::with_capacity(asks.len());
        for (index, ask) in asks.iter().enumerate() {
            answers.push(opened.change(index, |state| state.take(ask, now_us)));
        }
        if taking == Taking::AllOrNothing && answers.iter().any(|answer| !answer.allowed) {
            opened.forget();
            for (index, (answer, ask)) in answers.iter_mut().zip(asks).enumerate() {
                let look = opened.change(index, |state| state.look(&ask.limit, now_us));
                if answer.allowed {
                    *answer = look;
                }
            }
        }
        opened.keep(self.counters_max, now_us);
        Ok(answers)
    }

    /// Gives back at once.
    ///
    /// # Errors
    ///
    /// If there are more than [`ASKS_MAX`].
    pub fn give_back_now(&self, returns: &[Return]) -> Result<(), StoreError> {
        let mut opened = self.open(returns.iter().map(|given| (&given.key, &given.limit)))?;
        let now_us = self.clock.now_us();
        for (index, given) in returns.iter().enumerate() {
            opened.change(index, |state| (state.give_back(given, now_us), ()));
        }
        opened.keep(self.counters_max, now_us);
        Ok(())
    }

    /// Locks what the counters are in, always in the same order.
    fn open<'a>(
        &self,
        counters: impl ExactSizeIterator<Item = (&'a Key, &'a Limit)>,
    ) -> Result<Opened<'_>, StoreError> {
        if counters.len() > ASKS_MAX {
            return Err(StoreError::TooMany);
        }
        let mut rows: Vec<Row> = Vec::with_capacity(counters.len());
        let mut row_of = Vec::with_capacity(counters.len());
        for (key, limit) in counters {
            let name = name(key, limit);
            let known = rows.iter().position(|row| row.name == name);
            row_of.push(known.unwrap_or(rows.len()));
            if known.is_none() {
                let shard = self.hash.hash_one(&name) % SHARDS as u64;
                let shard = usize::try_from(shard).unwrap_or(0);
                rows.push(Row { name, shard, kept: State::Unused, now: State::Unused });
            }
        }
        let mut guards: Guards<'_> = Default::default();
        for (index, (guard, shard)) in guards.iter_mut().zip(&self.shards).enumerate() {
            if rows.iter().any(|row| row.shard == index) {
                *guard = Some(locked(shard));
            }
        }
        for row in &mut rows {
            if let Some(Some(shard)) = guards.get(row.shard) {
                row.kept = shard.get(&row.name);
                row.now = row.kept;
            }
        }
        Ok(Opened { guards, rows, row_of })
    }
}

type Guards<'s> = [Option<MutexGuard<'s, Shard>>; SHARDS];

/// A counter of a call.
struct Row {
    name: String,
    shard: usize,
    kept: State,
    now: State,
}

/// The counters of one call, to which nobody else has access meanwhile.
struct Opened<'s> {
    guards: Guards<'s>,
    rows: Vec<Row>,
    /// The row of each ask: two of one counter share theirs.
    row_of: Vec<usize>,
}

impl Opened<'_> {
    fn change<T>(&mut self, ask: usize, change: impl FnOnce(State) -> (State, T)) -> T {
        let row = self.row_of.get(ask).and_then(|&row| self.rows.get_mut(row));
        let (state, result) = change(row.as_ref().map_or(State::Unused, |row| row.now));
        if let Some(row) = row {
            row.now = state;
        }
        result
    }

    fn forget(&mut self) {
        for row in &mut self.rows {
            row.now = row.kept;
        }
    }

    fn keep(mut self, counters_max: usize, now_us: u64) {
        // Who only looks at a counter does not make one.
        let is_new = |row: &&Row| row.kept == State::Unused && row.now.is_whole(now_us);
        for row in self.rows.iter().filter(|row| !is_new(row)) {
            if let Some(Some(shard)) = self.guards.get_mut(row.shard) {
                shard.put(&row.name, row.now, counters_max);
            }
        }
    }
}

/// The name of a counter: of which kind, and whose.
pub(crate) fn name(key: &Key, limit: &Limit) -> String {
    let mut name = String::with_capacity(160);
    limit.push_kind(&mut name);
    name.push_str(key.as_str());
    name
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing that holds the lock can panic half-way through a change.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for MemoryStore {
    fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>> {
        Box::pin(async move { self.take_now(asks, taking) })
    }

    fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
        Box::pin(async move { self.give_back_now(returns) })
    }
}
