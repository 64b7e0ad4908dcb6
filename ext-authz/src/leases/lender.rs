//! Between what borrowers ask and the store.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use glacis_limit_store::{
    ASKS_MAX, Ask as Take, Clock, DecidedBy, Key as CounterKey, Limit, OnStoreFailure, Return,
    Store, Taking,
};
use glacis_limits::lease::{
    Key,
    lender::{self, Offer},
    wire::{KeyAnswer, KeyAsk, LeaseRequest, LeaseResponse},
};

use super::{
    LeasesConfig,
    metrics::{LeaseMetrics, Outcome, Said, What},
};

/// Lends the tokens of all limits of the configuration.
#[derive(Debug)]
pub(crate) struct Lender {
    limits: BTreeMap<String, Lent>,
    store: Arc<dyn Store>,
    clock: Clock,
    pub(super) metrics: LeaseMetrics,
}

#[derive(Debug)]
struct Lent {
    limit: Limit,
    lender: Mutex<lender::Lender>,
}

/// What is going to be taken from the store for one key.
struct Promise<'a> {
    place: usize,
    name: &'a str,
    lent: &'a Lent,
    offer: Offer,
}

impl Lent {
    fn lender(&self) -> MutexGuard<'_, lender::Lender> {
        self.lender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lender {
    pub(crate) fn new(
        config: &LeasesConfig,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: LeaseMetrics,
    ) -> Self {
        let limits = config.limits.iter().filter_map(|limit| {
            // The configuration was checked: neither fails.
            let (lent, terms) = (limit.limit().ok()?, limit.terms().ok()?);
            let lender = Mutex::new(lender::Lender::new(terms, config.room()));
            metrics.held(&limit.name, 0);
            Some((limit.name.clone(), Lent { limit: lent, lender }))
        });
        Self { limits: limits.collect(), store, clock, metrics }
    }

    /// Answers all questions of a borrower, in their order.
    pub(crate) async fn lease(&self, request: &LeaseRequest) -> LeaseResponse {
        let mut answers = Vec::with_capacity(request.asks.len());
        for asks in request.asks.chunks(ASKS_MAX) {
            answers.extend(self.lease_some(request.borrower, asks).await);
        }
        let whole = answers.iter().all(|answer| !answer.unavailable);
        self.metrics.call(if whole { Outcome::Answered } else { Outcome::Unavailable });
        LeaseResponse { answers }
    }

    /// The same of as many questions as the store takes at once.
    async fn lease_some(&self, borrower: u64, asks: &[KeyAsk]) -> Vec<KeyAnswer> {
        self.take_back(asks).await;
        let mut answers = vec![KeyAnswer::UNAVAILABLE; asks.len()];
        let promises = self.promises(borrower, asks);
        let takes: Vec<Take> = promises
            .iter()
            .map(|promise| Take {
                key: counter(promise.name, &asks_key(asks, promise.place)),
                limit: promise.lent.limit,
                cost: promise.offer.take(),
                partial: true,
                on_store_failure: OnStoreFailure::Deny,
            })
            .collect();
        // A limit from which nothing is wanted need not be asked.
        let is_asked = takes.iter().any(|take| take.cost > 0);
        let taken = match is_asked {
            true => self.store.take(&takes, Taking::EachForItself).await.ok(),
            false => Some(Vec::new()),
        };
        for (i, promise) in promises.into_iter().enumerate() {
            let taken = match &taken {
                _ if promise.offer.take() == 0 => Some(0),
                Some(taken) => taken
                    .get(i)
                    .filter(|answer| answer.decided_by == DecidedBy::Store)
                    .map(|answer| answer.taken),
                None => None,
            };
            if let Some(answer) = answers.get_mut(promise.place) {
                *answer = self.settle(promise.name, promise.lent, promise.offer, taken);
            }
        }
        answers
    }

    /// Gives back to the store what borrowers have not used. What is lost on the way counts as spent.
    async fn take_back(&self, asks: &[KeyAsk]) {
        let returns = asks.iter().filter(|ask| ask.returned > 0).filter_map(|ask| {
            let lent = self.limits.get(&ask.limit)?;
            self.metrics.tokens(&ask.limit, What::Returned, ask.returned);
            Some(Return {
                key: counter(&ask.limit, &ask.key()?),
                limit: lent.limit,
                tokens: ask.returned,
                age: Duration::ZERO,
            })
        });
        let returns: Vec<Return> = returns.collect();
        if returns.is_empty() {
            return;
        }
        if let Err(error) = self.store.give_back(&returns).await {
            tracing::debug!(%error, "tokens that came back are lost");
        }
    }

    /// What is offered to the borrower; nothing for a limit that nobody knows.
    fn promises<'a>(&'a self, borrower: u64, asks: &[KeyAsk]) -> Vec<Promise<'a>> {
        let now_ns = self.now_ns();
        let promise = |(place, ask): (usize, &KeyAsk)| {
            let (name, lent) = self.limits.get_key_value(&ask.limit)?;
            let offer = lent.lender().offer(ask.key()?, borrower, &ask.ask(), now_ns);
            self.metrics.tokens(name, What::Unleased, ask.spent);
            Some(Promise { place, name, lent, offer })
        };
        asks.iter().enumerate().filter_map(promise).collect()
    }

    /// What to say, when the store has given so many tokens; `None` if it did not answer.
    fn settle(&self, name: &str, lent: &Lent, offer: Offer, taken: Option<u32>) -> KeyAnswer {
        let is_full = offer.is_full();
        let mut lender = lent.lender();
        self.metrics.held(name, lender.leases());
        let Some(taken) = taken else {
            lender.give_up(offer);
            self.metrics.key(name, Said::Unavailable);
            return KeyAnswer::UNAVAILABLE;
        };
        let answer = lender.settle(offer, taken, self.now_ns());
        drop(lender);
        self.metrics.tokens(name, What::Granted, answer.granted);
        self.metrics.key(
            name,
            match (answer.granted, is_full) {
                (_, true) => Said::Full,
                (0, false) => Said::Nothing,
                _ => Said::Granted,
            },
        );
        KeyAnswer::new(&answer)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_us().saturating_mul(1_000)
    }
}

/// The counter of a key: digits that an operator can find in Redis.
fn counter(limit: &str, key: &Key) -> CounterKey {
    let digits = key.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0'));
    CounterKey::new(limit.as_bytes(), digits.collect::<String>().as_bytes())
}

/// The key of the question at this place, which has one.
fn asks_key(asks: &[KeyAsk], place: usize) -> Key {
    asks.get(place).and_then(KeyAsk::key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use glacis_limit_store::{Answer, MemoryStore, Pending, StoreError};
    use glacis_limits::lease::Ask;
    use glacis_service::config::parse;

    use super::*;

    /// A store that can be told to be away.
    #[derive(Debug)]
    struct Fragile {
        store: MemoryStore,
        away: Arc<AtomicBool>,
    }

    impl Store for Fragile {
        fn take<'a>(&'a self, asks: &'a [Take], taking: Taking) -> Pending<'a, Vec<Answer>> {
            match self.away.load(Ordering::Relaxed) {
                true => Box::pin(async { Err(StoreError::Unavailable) }),
                false => self.store.take(asks, taking),
            }
        }

        fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
            self.store.give_back(returns)
        }
    }

    struct Given {
        lender: Lender,
        now_us: Arc<AtomicU64>,
        away: Arc<AtomicBool>,
    }

    /// A hundred in ten seconds, of which ten may be lent; none are left over from before.
    fn given() -> Given {
        let config: LeasesConfig = parse(
            "limits: [{name: api, requests: 100, per_seconds: 10, burst: 30}, {name: b, requests: 1}]",
        )
        .unwrap();
        config.check().unwrap();
        let now_us = Arc::new(AtomicU64::new(1_700_000_000_000_000));
        let clock = || Clock::Given(Arc::clone(&now_us));
        let away = Arc::new(AtomicBool::new(false));
        let store = MemoryStore::with_clock(1_000, clock());
        let store = Arc::new(Fragile { store, away: Arc::clone(&away) });
        let lender = Lender::new(&config, store, clock(), LeaseMetrics::default());
        Given { lender, now_us, away }
    }

    fn ask(limit: &str, key: u8, want: u32, left: u32, returned: u32, spent: u32) -> KeyAsk {
        KeyAsk::new(limit, [key; 16], &Ask { want, left, returned, spent })
    }

    /// What was granted for each question, or `x` where there was no answer.
    async fn told(given: &Given, borrower: u64, asks: Vec<KeyAsk>) -> String {
        let response = given.lender.lease(&LeaseRequest { borrower, asks }).await;
        let told = response.answers.iter().map(|answer| match answer.answer() {
            Some(answer) => answer.granted.to_string(),
            None => "x".to_owned(),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn tokens_are_taken_from_the_store() {
        let given = given();
        // Ten may be outstanding; thirty are there.
        assert_eq!(told(&given, 1, vec![ask("api", 1, 25, 0, 0, 0)]).await, "10");
        assert_eq!(told(&given, 2, vec![ask("api", 1, 25, 0, 0, 0)]).await, "0");
        assert_eq!(told(&given, 1, vec![ask("api", 1, 25, 0, 0, 0)]).await, "10");
        assert_eq!(told(&given, 1, vec![ask("api", 1, 25, 0, 0, 8)]).await, "2", "8 are collected");
        assert_eq!(told(&given, 1, vec![ask("api", 1, 25, 0, 0, 0)]).await, "0", "it is dry");
        // Five come back, so five can be lent to another.
        assert_eq!(told(&given, 1, vec![ask("api", 1, 0, 0, 5, 0)]).await, "0");
        given.now_us.fetch_add(300_000, Ordering::Relaxed);
        assert_eq!(
            told(&given, 2, vec![ask("api", 1, 25, 0, 0, 0)]).await,
            "8",
            "and 3 were gained"
        );
    }

    /// Each byte is two digits: keys that differ have counters of their own.
    #[test]
    fn counters() {
        for (byte, digits) in [(0x00, "00"), (0x1f, "1f"), (0xa0, "a0"), (0xfe, "fe")] {
            let expected = CounterKey::new(b"api", digits.repeat(16).as_bytes());
            assert!(counter("api", &[byte; 16]) == expected, "{digits}");
        }
    }

    #[tokio::test]
    async fn many_questions_and_those_that_make_no_sense() {
        let given = given();
        let mut asks: Vec<KeyAsk> = (0..150).map(|key| ask("api", key, 2, 0, 0, 0)).collect();
        asks[3].limit = "nobody knows".to_owned();
        asks[70].key.pop();
        let told = told(&given, 1, asks).await;
        let told: Vec<&str> = told.split(' ').collect();
        assert_eq!(told.len(), 150);
        for (i, told) in told.iter().enumerate() {
            assert_eq!(*told, if i == 3 || i == 70 { "x" } else { "2" }, "question {i}");
        }
    }

    #[tokio::test]
    async fn a_store_that_is_away_leaves_nothing_behind() {
        let given = given();
        given.away.store(true, Ordering::Relaxed);
        let asks = || vec![ask("api", 1, 8, 0, 0, 4), ask("b", 1, 0, 0, 0, 0)];
        assert_eq!(told(&given, 1, asks()).await, "x 0");
        given.away.store(false, Ordering::Relaxed);
        assert_eq!(told(&given, 2, vec![ask("api", 1, 10, 0, 0, 0)]).await, "10");
        // The four of the first question are owed still, and were taken with the ten.
        assert_eq!(told(&given, 2, vec![ask("api", 1, 10, 0, 0, 0)]).await, "10");
        assert_eq!(told(&given, 2, vec![ask("api", 1, 10, 0, 0, 0)]).await, "6");
    }
}
