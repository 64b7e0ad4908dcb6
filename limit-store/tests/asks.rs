//! What stores answer: one table, asked of every store.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use glacis_limit_store::{
    ASKS_MAX, Answer, Ask, Clock, Key, Limit, MemoryStore, Return, Store, StoreError, Taking,
};

/// The time at which tables begin, in microseconds: a full minute.
const T0_US: u64 = 1_699_999_980_000_000;

fn gcra(amount: u32, period_ms: u64, burst: u32) -> Limit {
    Limit::gcra(amount, Duration::from_millis(period_ms), burst).unwrap()
}

fn sliding(amount: u32, period_ms: u64) -> Limit {
    Limit::sliding_window(amount, Duration::from_millis(period_ms)).unwrap()
}

fn fixed(amount: u32, period_ms: u64) -> Limit {
    Limit::fixed_window(amount, Duration::from_millis(period_ms)).unwrap()
}

fn ask(name: &str, subject: &str, limit: Limit, cost: u32) -> Ask {
    Ask::new(Key::new(name.as_bytes(), subject.as_bytes()), limit, cost)
}

/// `+` or `-` for allowed or not, what was taken, what is left, and how long to wait, in ms.
fn told(answers: &[Answer]) -> String {
    let told = answers.iter().map(|answer| {
        let sign = if answer.allowed { '+' } else { '-' };
        let wait = match answer.retry_after {
            Duration::MAX => "never".to_owned(),
            wait => wait.as_micros().to_string(),
        };
        let reset = answer.reset_after.as_micros();
        format!("{sign}{}/{} {wait} {reset}", answer.taken, answer.remaining)
    });
    told.collect::<Vec<_>>().join(", ")
}

const EACH: Taking = Taking::EachForItself;
const ALL: Taking = Taking::AllOrNothing;

/// Each row: when, in milliseconds after [`T0_US`], what is asked, how, and what is told: for each
/// ask whether it is allowed, how many tokens are taken, how many left, how many microseconds
/// until it would be allowed, and until all is there again.
async fn check_table(store: &dyn Store, now_us: &AtomicU64) {
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
        let answers = store.take(&asks, taking).await.unwrap();
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
    assert!(store.is_empty());
    take("kept".to_owned()).unwrap();
    take("kept".to_owned()).unwrap();
    for other in 0..10_000 {
        take(other.to_string()).unwrap();
        assert!(!take("kept".to_owned()).unwrap()[0].allowed, "what is used is kept");
        assert!(store.len() <= 2 * 160);
    }
    assert!(store.len() >= 160);
    assert!(take("0".to_owned()).unwrap()[0].allowed);
}
