//! A cache of answers that a limit is over, so that a flood does not reach the store.
//!
//! What the store has refused it refuses until a time that its answer says ([`Answer::retry_after`]): nobody but the
//! passing of time gives tokens back. Until then the same ask is answered here. An answer that allows something is
//! never cached.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::limit::Limit;
use crate::memory::name;
use crate::store::{ASKS_MAX, Answer, Ask, DecidedBy, Pending, Return, Store, StoreError, Taking};

/// By how much an entry ends before the store would allow again: clocks are read in whole milliseconds.
const MARGIN: Duration = Duration::from_millis(2);

/// A store before which answers that a limit is over are cached.
///
/// Only a store that shares its counters with others ([`DecidedBy::Store`]) is cached: what was decided without it is
/// not. Tokens that are given back through this value end its entry; a counter that other processes give tokens back
/// to, or that somebody deletes in Redis, may be refused for up to `time_max` longer.
#[derive(Debug)]
pub struct OverLimitCache {
    store: Arc<dyn Store>,
    clock: Clock,
    entries: Mutex<Entries>,
    /// In each generation.
    generation_max: usize,
    time_max: Duration,
    hits: Arc<AtomicU64>,
}

/// What was refused lately, and what was refused before. When the young are as many as there may be they become the
/// old, and the old are forgotten.
#[derive(Debug, Default)]
struct Entries {
    young: HashMap<String, Entry>,
    old: HashMap<String, Entry>,
}

/// A refusal.
#[derive(Clone, Copy, Debug)]
struct Entry {
    limit: Limit,
    /// What was asked for; 1 where fewer would have done.
    cost: u32,
    answer: Answer,
    /// When it was asked for, and until when it is refused, in microseconds.
    asked_us: u64,
    until_us: u64,
}

impl Entries {
    fn get(&self, name: &str) -> Option<&Entry> {
        self.young.get(name).or_else(|| self.old.get(name))
    }

    fn insert(&mut self, name: String, entry: Entry, generation_max: usize) {
        self.old.remove(&name);
        if self.young.len() >= generation_max && !self.young.contains_key(&name) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(name, entry);
    }

    fn remove(&mut self, name: &str) {
        self.young.remove(name);
        self.old.remove(name);
    }
}

impl Entry {
    /// The answer that the store would give at `now_us`; `None` if it may be another one.
    fn answer(&self, ask: &Ask, now_us: u64) -> Option<Answer> {
        let same = self.limit == ask.limit && wanted(ask) == Some(self.cost);
        if !same || now_us >= self.until_us || now_us < self.asked_us {
            return None;
        }
        let passed = Duration::from_micros(now_us - self.asked_us);
        let retry_after = match self.answer.retry_after {
            Duration::MAX => Duration::MAX,
            time => time.saturating_sub(passed),
        };
        let reset_after = self.answer.reset_after.saturating_sub(passed);
        let decided_by = DecidedBy::OverLimitCache;
        Some(Answer { retry_after, reset_after, decided_by, ..self.answer })
    }
}

/// How many tokens an ask has to get at least; `None` if it only looks.
fn wanted(ask: &Ask) -> Option<u32> {
    match (ask.cost, ask.partial) {
        (0, _) => None,
        (_, true) => Some(1),
        (cost, false) => Some(cost),
    }
}

impl OverLimitCache {
    /// A cache before `store`, of `entries_max` refusals, at least 2, each kept for `time_max` at most.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entries_max: usize, time_max: Duration) -> Self {
        Self::with_clock(store, entries_max, time_max, Clock::Real)
    }

    /// One that reads this clock.
    #[must_use]
    pub fn with_clock(
        store: Arc<dyn Store>,
        entries_max: usize,
        time_max: Duration,
        clock: Clock,
    ) -> Self {
        let (generation_max, hits) = ((entries_max / 2).max(1), Arc::default());
        Self { store, clock, entries: Mutex::default(), generation_max, time_max, hits }
    }

    /// How many asks were answered without the store since the start. Clones of it are the same.
    #[must_use]
    pub fn hits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.hits)
    }

    /// How many refusals are cached, those that are over among them.
    #[must_use]
    pub fn len(&self) -> usize {
        let entries = self.entries();
        entries.young.len() + entries.old.len()
    }

    /// Whether nothing is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers that are known, in the order of the asks.
    fn known(&self, asks: &[Ask], now_us: u64) -> Vec<Option<Answer>> {
        let entries = self.entries();
        let known = |ask: &Ask| entries.get(&name(&ask.key, &ask.limit))?.answer(ask, now_us);
        asks.iter().map(known).collect()
    }

    /// Caches what was refused of `asks`, which were sent at `asked_us`.
    fn learn<'a>(&self, answered: impl Iterator<Item = (&'a Ask, &'a Answer)>, asked_us: u64) {
        for (ask, answer) in answered {
            let Some(cost) = wanted(ask) else { continue };
            if answer.allowed || answer.decided_by != DecidedBy::Store {
                continue;
            }
            // From before it was sent: the store has read its clock later.
            let time = answer.retry_after.saturating_sub(MARGIN).min(self.time_max);
            let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            if time_us == 0 {
                continue;
            }
            let until_us = asked_us.saturating_add(time_us);
            let entry = Entry { limit: ask.limit, cost, answer: *answer, asked_us, until_us };
            let name = name(&ask.key, &ask.limit);
            self.entries().insert(name, entry, self.generation_max);
        }
    }

    async fn ask(&self, asks: &[Ask], taking: Taking) -> Result<Vec<Answer>, StoreError> {
        if asks.len() > ASKS_MAX {
            return Err(StoreError::TooMany);
        }
        let now_us = self.clock.now_us();
        let known = self.known(asks, now_us);
        let hits = known.iter().flatten().count();
        self.hits.fetch_add(u64::try_from(hits).unwrap_or(u64::MAX), Ordering::Relaxed);
        if hits == 0 {
            let answers = self.store.take(asks, taking).await?;
            // All or nothing: of a counter that is asked twice, the second answer supposes that the first has taken.
            let is_first = |place: usize| {
                let of = |ask: &Ask| name(&ask.key, &ask.limit);
                let this = asks.get(place).map(of);
                taking == Taking::EachForItself
                    || !asks.iter().take(place).any(|ask| Some(of(ask)) == this)
            };
            let answered = asks.iter().zip(&answers).enumerate();
            let firsts =
                answered.filter(|(place, (_, answer))| !answer.allowed && is_first(*place));
            self.learn(firsts.map(|(_, both)| both), now_us);
            return Ok(answers);
        }
        if taking == Taking::AllOrNothing {
            let answers = asks.iter().zip(known);
            return Ok(answers
                .map(|(ask, known)| known.unwrap_or_else(|| not_asked(ask)))
                .collect());
        }
        self.ask_rest(asks, known, now_us).await
    }

    /// Has the store answer what is not known.
    async fn ask_rest(
        &self,
        asks: &[Ask],
        known: Vec<Option<Answer>>,
        now_us: u64,
    ) -> Result<Vec<Answer>, StoreError> {
        let unknown = asks.iter().zip(&known).filter(|(_, known)| known.is_none());
        let rest: Vec<Ask> = unknown.map(|(ask, _)| ask.clone()).collect();
        let mut answers = Vec::new();
        if !rest.is_empty() {
            answers = self.store.take(&rest, Taking::EachForItself).await?;
            self.learn(rest.iter().zip(&answers), now_us);
        }
        let mut answers = answers.into_iter();
        let all = known.into_iter().map(|known| known.or_else(|| answers.next()));
        all.collect::<Option<_>>().ok_or(StoreError::Unreadable)
    }
}

/// The answer to an ask that came with one that is known to be refused: nothing was taken, nobody was asked.
const fn not_asked(ask: &Ask) -> Answer {
    Answer {
        allowed: true,
        taken: 0,
        remaining: ask.limit.burst(),
        retry_after: Duration::ZERO,
        reset_after: Duration::ZERO,
        limit: ask.limit.burst(),
        decided_by: DecidedBy::NotAsked,
    }
}

impl Store for OverLimitCache {
    fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>> {
        Box::pin(self.ask(asks, taking))
    }

    fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
        Box::pin(async move {
            let result = self.store.give_back(returns).await;
            let mut entries = self.entries();
            returns.iter().for_each(|given| entries.remove(&name(&given.key, &given.limit)));
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::key::Key;
    use crate::memory::MemoryStore;
    use crate::store::OnStoreFailure;

    use super::*;

    /// A store in memory that passes for one that is shared, and counts how often it is asked.
    #[derive(Debug)]
    struct Counted {
        store: MemoryStore,
        asks: AtomicU64,
        decided_by: DecidedBy,
    }

    impl Store for Counted {
        fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>> {
            let count = u64::try_from(asks.len()).unwrap();
            self.asks.fetch_add(count, Ordering::Relaxed);
            Box::pin(async move {
                let mut answers = self.store.take_now(asks, taking)?;
                answers.iter_mut().for_each(|answer| answer.decided_by = self.decided_by);
                Ok(answers)
            })
        }

        fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
            self.store.give_back(returns)
        }
    }

    struct Given {
        cache: OverLimitCache,
        behind: Arc<Counted>,
        now_us: Arc<AtomicU64>,
    }

    const T0_US: u64 = 1_800_000_000_000_000;
    const LONG: Duration = Duration::from_secs(100);

    fn given(entries_max: usize, time_max: Duration, decided_by: DecidedBy) -> Given {
        let now_us = Arc::new(AtomicU64::new(T0_US));
        let clock = || Clock::Given(Arc::clone(&now_us));
        let store = MemoryStore::with_clock(100_000, clock());
        let behind = Arc::new(Counted { store, asks: AtomicU64::new(0), decided_by });
        let store: Arc<dyn Store> = Arc::clone(&behind) as Arc<dyn Store>;
        let cache = OverLimitCache::with_clock(store, entries_max, time_max, clock());
        Given { cache, behind, now_us }
    }

    impl Given {
        async fn take(&self, asks: &[Ask], taking: Taking) -> Vec<Answer> {
            self.cache.take(asks, taking).await.unwrap()
        }

        /// Whether one ask is allowed, and how many of it the store has seen.
        async fn one(&self, ask: &Ask) -> (bool, u64) {
            let before = self.behind.asks.load(Ordering::Relaxed);
            let answer = self.take(core::slice::from_ref(ask), Taking::EachForItself).await[0];
            (answer.allowed, self.behind.asks.load(Ordering::Relaxed) - before)
        }

        fn pass(&self, milliseconds: u64) {
            self.now_us.fetch_add(milliseconds * 1_000, Ordering::Relaxed);
        }
    }

    fn key(whose: u32) -> Key {
        Key::new(b"limit", whose.to_string().as_bytes())
    }

    fn limits() -> [Limit; 3] {
        let second = Duration::from_secs(1);
        [
            Limit::gcra(5, second, 4).unwrap(),
            Limit::sliding_window(5, second).unwrap(),
            Limit::fixed_window(5, second).unwrap(),
        ]
    }

    /// The law: with the cache and without, every ask is answered alike, whatever came before.
    #[tokio::test]
    async fn with_and_without_the_same_is_allowed() {
        // xorshift64* (Vigna 2016).
        let mut state = 7_u64;
        let mut below = |bound: u64| {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            u32::try_from((state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound).unwrap()
        };
        for taking in [Taking::EachForItself, Taking::AllOrNothing] {
            for partial in [false, true] {
                for limit in limits() {
                    let with = given(16, LONG, DecidedBy::Store);
                    let without = given(16, LONG, DecidedBy::Store);
                    let (mut allowed, mut hits) = ([0_u32; 2], 0);
                    for _ in 0..4_000 {
                        let asks: Vec<Ask> = (0..=below(2))
                            .map(|_| {
                                let (whose, cost) = (below(4), below(4));
                                Ask { partial, ..Ask::new(key(whose), limit, cost) }
                            })
                            .collect();
                        let found = with.take(&asks, taking).await;
                        let expected = without.behind.take(&asks, taking).await.unwrap();
                        let refused = |answers: &[Answer]| {
                            taking == Taking::AllOrNothing
                                && answers.iter().any(|answer| !answer.allowed)
                        };
                        assert_eq!(refused(&found), refused(&expected), "{asks:?}");
                        for (found, expected) in found.iter().zip(&expected) {
                            allowed[0] += found.taken;
                            allowed[1] += expected.taken;
                            assert_eq!(found.taken, expected.taken, "{asks:?}");
                            hits += u32::from(found.decided_by == DecidedBy::OverLimitCache);
                            if found.decided_by != DecidedBy::NotAsked {
                                assert_eq!(found.allowed, expected.allowed, "{asks:?}");
                            }
                        }
                        let milliseconds = u64::from(below(60));
                        with.pass(milliseconds);
                        without.pass(milliseconds);
                    }
                    assert_eq!(allowed[0], allowed[1], "{limit:?} {taking:?} {partial}");
                    assert!(hits > 100, "{hits}: {limit:?} {taking:?} {partial}");
                }
            }
        }
    }

    /// To the millisecond, for each way to count.
    #[tokio::test]
    async fn it_ends_before_the_limit_allows_again() {
        for limit in limits() {
            let given = given(16, LONG, DecidedBy::Store);
            let ask = Ask::new(key(1), limit, 1);
            while given.one(&ask).await.0 {}
            assert_eq!(given.one(&ask).await, (false, 0), "{limit:?}: it is cached");
            let retry =
                given.take(core::slice::from_ref(&ask), Taking::AllOrNothing).await[0].retry_after;
            let retry_ms = u64::try_from(retry.as_millis()).unwrap();
            given.pass(retry_ms - 4);
            assert_eq!(given.one(&ask).await, (false, 0), "{limit:?}: just before the margin");
            given.pass(4);
            assert_eq!(given.one(&ask).await, (true, 1), "{limit:?}: it is allowed again");
        }
    }

    #[tokio::test]
    async fn what_is_answered_from_the_cache() {
        let given = given(16, LONG, DecidedBy::Store);
        let limit = Limit::fixed_window(2, Duration::from_secs(60)).unwrap();
        let ask = |cost| Ask::new(key(1), limit, cost);
        assert_eq!(given.one(&ask(2)).await, (true, 1));
        assert_eq!(given.one(&ask(1)).await, (false, 1));
        assert_eq!(given.one(&ask(1)).await, (false, 0));
        given.pass(1_000);
        let answer = given.take(&[ask(1)], Taking::EachForItself).await[0];
        assert_eq!(
            answer,
            Answer {
                allowed: false,
                taken: 0,
                remaining: 0,
                retry_after: Duration::from_secs(59),
                reset_after: Duration::from_secs(59),
                limit: 2,
                decided_by: DecidedBy::OverLimitCache,
            }
        );
        // Another cost, a look, another limit and another key are not known.
        let other = Limit::fixed_window(3, Duration::from_secs(60)).unwrap();
        for (ask, seen) in [
            (ask(2), 1),
            (ask(0), 1),
            (ask(0), 1),
            (Ask::new(key(1), other, 1), 1),
            (Ask::new(key(2), limit, 1), 1),
        ] {
            assert_eq!(given.one(&ask).await.1, seen, "{ask:?}");
        }
        // What is known to be refused costs the others nothing, and nobody is asked.
        let free = Ask::new(key(3), limit, 1);
        assert!(!given.one(&ask(1)).await.0);
        let before = given.behind.asks.load(Ordering::Relaxed);
        let answers = given.take(&[free.clone(), ask(1)], Taking::AllOrNothing).await;
        let decided = [answers[0].decided_by, answers[1].decided_by];
        assert_eq!(decided, [DecidedBy::NotAsked, DecidedBy::OverLimitCache]);
        assert_eq!(given.behind.asks.load(Ordering::Relaxed), before);
        // Each for itself: the others are asked.
        let answers = given.take(&[free, ask(1)], Taking::EachForItself).await;
        assert_eq!((answers[0].allowed, answers[0].taken, answers[1].allowed), (true, 1, false));
        assert_eq!(given.behind.asks.load(Ordering::Relaxed), before + 1);
        // Who gives back may have again.
        let returned = Return { key: key(1), limit, tokens: 1, age: Duration::ZERO };
        given.cache.give_back(&[returned]).await.unwrap();
        assert_eq!(given.one(&ask(1)).await, (true, 1));
        assert!(given.cache.hits().load(Ordering::Relaxed) >= 4);
    }

    #[tokio::test]
    async fn what_was_decided_without_the_store_is_not_cached() {
        for policy in [OnStoreFailure::Local, OnStoreFailure::Deny, OnStoreFailure::Allow] {
            let given = given(16, LONG, DecidedBy::StoreFailure(policy));
            let ask = Ask::new(key(1), Limit::gcra(1, LONG, 1).unwrap(), 1);
            for expected in [(true, 1), (false, 1), (false, 1)] {
                assert_eq!(given.one(&ask).await, expected);
            }
            assert!(given.cache.is_empty());
        }
    }

    #[tokio::test]
    async fn an_entry_is_kept_for_so_long_at_most() {
        let given = given(16, Duration::from_millis(500), DecidedBy::Store);
        let ask = Ask::new(key(1), Limit::gcra(1, LONG, 1).unwrap(), 1);
        for (milliseconds, expected) in
            [(0, (true, 1)), (0, (false, 1)), (499, (false, 0)), (1, (false, 1)), (499, (false, 0))]
        {
            given.pass(milliseconds);
            assert_eq!(given.one(&ask).await, expected, "{milliseconds}");
        }
        // What can never be allowed, too.
        let never = Ask { cost: 2, ..ask };
        for (milliseconds, expected) in [(0, (false, 1)), (499, (false, 0)), (1, (false, 1))] {
            given.pass(milliseconds);
            assert_eq!(given.one(&never).await, expected, "{milliseconds}");
        }
    }

    /// As many as there may be are kept; one more, and those of the older half are forgotten.
    #[tokio::test]
    async fn there_are_never_more_entries_than_there_may_be() {
        let given = given(8, LONG, DecidedBy::Store);
        let limit = Limit::gcra(1, LONG, 1).unwrap();
        let ask = |whose| Ask::new(key(whose), limit, 1);
        for whose in 0..8 {
            assert!(given.one(&ask(whose)).await.0);
            assert_eq!(given.one(&ask(whose)).await, (false, 1));
        }
        assert_eq!(given.cache.len(), 8);
        for whose in 0..8 {
            assert_eq!(given.one(&ask(whose)).await, (false, 0), "{whose}");
        }
        assert!(given.one(&ask(8)).await.0);
        assert_eq!(given.one(&ask(8)).await, (false, 1));
        assert_eq!(given.cache.len(), 5);
        for (whose, seen) in [(8, 0), (7, 0), (4, 0), (3, 1)] {
            assert_eq!(given.one(&ask(whose)).await, (false, seen), "{whose}");
        }
        for whose in 9..1_000 {
            given.one(&ask(whose)).await;
            given.one(&ask(whose)).await;
            assert!(given.cache.len() <= 8);
        }
    }
}
