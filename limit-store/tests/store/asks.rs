//! What stores answer: one table, asked of every store, and random asks of two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use glacis_limit_store::{
    ASKS_MAX, Ask, Clock, Limit, MemoryStore, Return, Store, StoreError, Taking,
};

use crate::redis_server::RedisServer;
use crate::{ALL, EACH, T0_US, ask, config, fixed, gcra, redis, sliding, told};

/// Each row: when, in milliseconds after [`T0_US`], what is asked, how, and what is told: for each
/// ask whether it is allowed, how many tokens are taken, how many left, how many microseconds
/// until it would be allowed, and until all is there again.
pub(crate) async fn check_table(store: &dyn Store, now_us: &AtomicU64) {
    let a = |cost| ask("login", "a", gcra(1, 1_000, 3), cost);
    let b = |cost| ask("login", "b", gcra(1, 1_000, 3), cost);
    let slide = |cost| ask("login", "a", sliding(10, 1_000), cost);
    let minute = |cost| ask("login", "a", fixed(5, 60_000), cost);
    let all = |cost| ask("everybody", "", fixed(5, 60_000), cost);
    let partial = |ask: Ask| Ask { partial: true, ..ask };
    let rows: Vec<(u64, Vec<Ask>, Taking, &str)> = vec![
        (0, vec![], EACH, ""),
        (0, vec![a(0)], EACH, "+0/3 0 0"),
        (0, vec![a(2)], EACH, "+2/1 0 2000000"),
        (0, vec![a(2), b(2)], EACH, "-0/1 1000000 2000000, +2/1 0 2000000"),
        // b alone would be allowed, but a is not: nothing is taken.
        (0, vec![a(2), b(1)], ALL, "-0/1 1000000 2000000, +0/1 0 2000000"),
        (0, vec![a(1), b(1)], ALL, "+1/0 0 3000000, +1/0 0 3000000"),
        (500, vec![a(1), a(4)], EACH, "-0/0 500000 2500000, -0/0 never 2500000"),
        // One counter twice: the second sees the first.
        (1_000, vec![a(1), a(1)], EACH, "+1/0 0 3000000, -0/0 1000000 3000000"),
        (
            3_000,
            vec![a(1), a(1), a(1)],
            ALL,
            "+0/2 0 1000000, +0/2 0 1000000, -0/0 1000000 3000000",
        ),
        (3_000, vec![a(1), a(1)], ALL, "+1/1 0 2000000, +1/0 0 3000000"),
        // As many as there are, but at least one.
        (5_000, vec![partial(a(9))], EACH, "+2/0 0 3000000"),
        (5_000, vec![partial(a(9))], EACH, "-0/0 1000000 3000000"),
        (6_000, vec![partial(a(0))], EACH, "+0/1 0 2000000"),
        // Limits of other kinds have counters of their own under the same key.
        (6_000, vec![slide(8), minute(5)], ALL, "+8/2 0 2000000, +5/0 0 54000000"),
        (6_000, vec![slide(1), minute(1)], ALL, "+0/2 0 2000000, -0/0 54000000 54000000"),
        (6_500, vec![slide(3)], EACH, "-0/2 625000 1500000"),
        (7_125, vec![slide(3), partial(slide(5))], EACH, "+3/0 0 1875000, -0/0 125000 1875000"),
        (60_000, vec![minute(4), all(4)], ALL, "+4/1 0 60000000, +4/1 0 60000000"),
        // A fixed window counts what it refuses, unless it was all or nothing.
        (60_000, vec![minute(2), all(1)], ALL, "-0/0 60000000 60000000, +0/1 0 60000000"),
        (60_000, vec![minute(0)], EACH, "+0/1 0 60000000"),
        (60_000, vec![minute(2)], EACH, "-0/0 60000000 60000000"),
        (60_000, vec![minute(1)], EACH, "-0/0 60000000 60000000"),
    ];
    for (at_ms, asks, taking, expected) in rows {
        now_us.store(T0_US + at_ms * 1_000, Ordering::Relaxed);
        let answers = store.take(&asks, taking).await;
        let answers = answers.unwrap_or_else(|error| panic!("at {at_ms}: {asks:?}: {error}"));
        assert_eq!(told(&answers), expected, "at {at_ms}: {asks:?} {taking:?}");
    }
    let given = |ask: Ask, tokens, age_ms| Return {
        key: ask.key,
        limit: ask.limit,
        tokens,
        age: Duration::from_millis(age_ms),
    };
    let returns = [given(minute(0), 2, 1_000), given(all(0), 2, 0), given(a(0), 9, 0)];
    store.give_back(&returns).await.unwrap();
    let answers = store.take(&[minute(0), all(0), a(0)], EACH).await.unwrap();
    // What the minute had given belongs to the minute before.
    assert_eq!(told(&answers), "+0/0 0 60000000, +0/3 0 60000000, +0/3 0 0");
    let many = vec![a(0); ASKS_MAX + 1];
    assert_eq!(store.take(&many, EACH).await, Err(StoreError::TooMany));
    assert_eq!(store.take(&many[1..], EACH).await.map(|answers| answers.len()), Ok(ASKS_MAX));
}

#[tokio::test]
async fn memory_answers_the_table() {
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let store = MemoryStore::with_clock(1_000, Clock::Given(Arc::clone(&now_us)));
    check_table(&store, &now_us).await;
}

#[tokio::test]
async fn memory_keeps_what_was_used_last_and_no_more() {
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let store = MemoryStore::with_clock(160, Clock::Given(now_us));
    let take = |subject: String| store.take_now(&[ask("x", &subject, gcra(1, 1_000, 2), 1)], EACH);
    // Who only looks leaves nothing.
    store.take_now(&[ask("x", "seen", gcra(1, 1_000, 2), 0)], EACH).unwrap();
    assert!(store.is_empty());
    take("kept".to_owned()).unwrap();
    assert!(!store.is_empty());
    take("kept".to_owned()).unwrap();
    for other in 0..10_000 {
        take(other.to_string()).unwrap();
        assert!(!take("kept".to_owned()).unwrap()[0].allowed, "what is used is kept");
        assert!(store.len() <= 2 * 160);
    }
    assert!(store.len() >= 160);
    assert!(take("0".to_owned()).unwrap()[0].allowed);
}

#[tokio::test]
async fn redis_answers_the_table() {
    let server = RedisServer::start(&[]);
    let socket = format!("unix:{}", server.socket().display());
    for node in [server.address(), socket] {
        let now_us = Arc::new(AtomicU64::new(T0_US));
        check_table(&redis(config(&node), &now_us).await, &now_us).await;
        // Every counter goes by itself.
        assert!(server.answers(
            "EVAL \"local n = 0; for _, k in ipairs(redis.call('KEYS', '*')) do \
            local t = redis.call('PTTL', k); if t < 0 or t > 130000 then n = n + 1 end end; \
            return {n, #redis.call('KEYS', '*') > 5}\" 0",
            "*2\r\n:0\r\n:1"
        ));
        server.command("FLUSHALL");
    }
}

/// xorshift64*, as in the tests of the arithmetic: a failing case names its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }

    fn count(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).unwrap()
    }
}

fn random_limit(random: &mut Random) -> Limit {
    let amount = 1 + random.count(12);
    let period_ms = [1, 7, 1_000, 3_600_000, 86_400_000][usize::try_from(random.below(5)).unwrap()];
    match random.below(4) {
        0 => gcra(amount, period_ms, 1 + random.count(12)),
        1 => gcra(1_000_003, 1_000, 1 + random.count(1_000_000)),
        2 => sliding(amount * amount, period_ms),
        _ => fixed(amount, period_ms),
    }
}

/// Asks, returns and clocks at random: Redis answers what memory answers, to the microsecond.
#[tokio::test]
async fn redis_answers_as_memory_does() {
    let server = RedisServer::start(&[]);
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let redis = redis(config(&server.address()), &now_us).await;
    for seed in 1..=60 {
        let mut random = Random(seed);
        let memory = MemoryStore::with_clock(10_000, Clock::Given(Arc::clone(&now_us)));
        let limits: Vec<Limit> = (0..4).map(|_| random_limit(&mut random)).collect();
        now_us.store(T0_US, Ordering::Relaxed);
        server.command("FLUSHALL");
        for step in 0..60 {
            let now = now_us.load(Ordering::Relaxed);
            now_us.store(
                match random.below(20) {
                    // The clock goes back a little, or is set; and far ahead.
                    0 => now - random.below(9_000_000),
                    1 => now - random.below(200_000_000),
                    2 => now + random.below(200_000_000_000),
                    _ => now + random.below(2_000_000),
                },
                Ordering::Relaxed,
            );
            let some = |random: &mut Random| {
                let limit = limits[usize::try_from(random.below(4)).unwrap()];
                let name = ["x", "y"][usize::try_from(random.below(2)).unwrap()];
                let cost = match random.below(8) {
                    0 => random.count(1 << 32),
                    _ => random.count(5),
                };
                Ask { partial: random.below(4) == 0, ..ask(name, "who", limit, cost) }
            };
            let asks: Vec<Ask> = (0..1 + random.below(5)).map(|_| some(&mut random)).collect();
            if random.below(6) == 0 {
                let given = |ask: Ask| Return {
                    key: ask.key,
                    limit: ask.limit,
                    tokens: ask.cost,
                    age: Duration::from_millis(random.below(3_000)),
                };
                let returns: Vec<Return> = asks.into_iter().map(given).collect();
                memory.give_back_now(&returns).unwrap();
                redis.give_back(&returns).await.unwrap();
                continue;
            }
            let taking = if random.below(2) == 0 { ALL } else { EACH };
            let expected = told(&memory.take_now(&asks, taking).unwrap());
            let answers = redis.take(&asks, taking).await;
            let answers = answers.unwrap_or_else(|error| panic!("{asks:?}: {error}"));
            assert_eq!(told(&answers), expected, "seed {seed}, step {step}: {asks:?} {taking:?}");
        }
    }
}
