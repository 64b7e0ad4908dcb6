//! Redis away, frozen, slow, full, loading, or a replica: what callers are told, and how soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glacis_limit_store::{
    Ask, DecidedBy, Guarded, MemoryStore, OnStoreFailure, RedisConfig, RedisStore, Store,
    StoreError,
};
use rustix::process::{Signal, kill_process};

use crate::redis_server::{PATIENCE, RedisServer};
use crate::{ALL, EACH, T0_US, ask, config, gcra, redis, told};

/// What is promised: 50 ms, and what a busy machine needs to notice.
const DEADLINE_MS: u64 = 50;
const LATEST: Duration = Duration::from_millis(DEADLINE_MS + 450);

fn away(server: &RedisServer) -> RedisConfig {
    RedisConfig { deadline_ms: DEADLINE_MS, retry_max_ms: 200, ..config(&server.address()) }
}

async fn guarded(server: &RedisServer) -> Guarded<RedisStore> {
    let now_us = Arc::new(AtomicU64::new(T0_US));
    Guarded::new(redis(away(server), &now_us).await, 2, MemoryStore::new(100))
}

/// How many requests to Redis ended so.
fn ended(store: &RedisStore, result: &str) -> u64 {
    let counted = store.redis().counters().by_result();
    counted.iter().find(|(name, _)| *name == result).unwrap().1
}

/// An ask of each policy, of a counter each.
fn policies() -> [Ask; 3] {
    [OnStoreFailure::Allow, OnStoreFailure::Deny, OnStoreFailure::Local].map(|policy| Ask {
        on_store_failure: policy,
        ..ask(&format!("{policy:?}"), "a", gcra(1, 60_000, 4), 1)
    })
}

/// Asks until the store does not answer any more; nobody waits longer than promised.
async fn until_away(store: &Guarded<RedisStore>) {
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        let answers = store.take(&policies(), EACH).await.unwrap();
        assert!(asked.elapsed() < LATEST, "{:?}", asked.elapsed());
        let counters = store.store().redis().counters();
        if !counters.is_closed.load(Ordering::Relaxed) {
            assert!(answers.iter().all(|answer| answer.decided_by != DecidedBy::Store));
            return;
        }
        assert!(start.elapsed() < PATIENCE);
    }
}

async fn until_back(store: &Guarded<RedisStore>) {
    assert!(store.store().redis().ready(PATIENCE).await);
    let answers = store.take(&policies(), EACH).await.unwrap();
    assert!(answers.iter().all(|answer| answer.decided_by == DecidedBy::Store), "{answers:?}");
}

#[tokio::test]
async fn each_ask_says_what_is_answered_without_redis() {
    let mut server = RedisServer::start(&[]);
    let store = guarded(&server).await;
    server.kill();
    until_away(&store).await;
    let [allow, deny, local] = policies();
    let before = store.counters().by_policy();
    // The share of one of two is a burst of 2, of which one is gone.
    let asked = Instant::now();
    let answers = store.take(&[allow.clone(), deny.clone(), local.clone()], EACH).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(DEADLINE_MS), "the circuit is open");
    assert!(answers[0].allowed && answers[0].taken == 1 && answers[0].remaining == 4);
    assert!(!answers[1].allowed && answers[1].retry_after == Duration::from_secs(1));
    assert!(answers[2].allowed && answers[2].remaining == 0 && answers[2].limit == 4);
    let policies = answers.iter().map(|answer| answer.decided_by);
    let expected = [OnStoreFailure::Allow, OnStoreFailure::Deny, OnStoreFailure::Local];
    assert!(policies.eq(expected.map(DecidedBy::StoreFailure)));
    // All or nothing: one that is denied takes nothing of the others.
    let other = Ask { limit: gcra(1, 60_000, 6), ..ask("other", "a", gcra(1, 60_000, 6), 1) };
    for (asks, expected) in [
        (vec![other.clone(), deny], "+0/3 0 0, -0/0 1000000 1000000"),
        (vec![other.clone(), allow.clone()], "+1/2 0 60000000, +1/4 0 0"),
        (vec![allow, local], "+0/4 0 0, -0/0"),
    ] {
        let answers = told(&store.take(&asks, ALL).await.unwrap());
        assert!(answers.starts_with(expected), "{answers}");
    }
    // The first call asked for one of each, and the table for six more.
    let after = store.counters().by_policy().into_iter().zip(before);
    let since: Vec<_> = after.map(|((policy, now), (_, then))| (policy, now - then)).collect();
    assert_eq!(since, [("allow", 3), ("deny", 2), ("local", 4)]);
    assert!(ended(store.store(), "unavailable") >= 4, "a call is a request");
    let returned = store.give_back(&[]).await;
    assert_eq!(returned, Ok(()), "nothing to give back is no failure");
}

#[tokio::test]
async fn killed_and_started_again() {
    let mut server = RedisServer::start(&[]);
    let store = guarded(&server).await;
    server.kill();
    until_away(&store).await;
    let counters = store.store().redis().counters();
    while counters.connects_failed.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It comes back with nothing: neither counters nor the script.
    server.start_again(&[]);
    until_back(&store).await;
    assert_eq!(counters.opened.load(Ordering::Relaxed), 1);
    // The script is gone while the connection stays.
    server.command("SCRIPT FLUSH");
    until_back(&store).await;
    assert_eq!(counters.opened.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen() {
    let server = RedisServer::start(&[]);
    let store = Arc::new(guarded(&server).await);
    kill_process(server.process(), Signal::STOP).unwrap();
    // A hundred at once: none waits longer than one.
    let asks = (0..100).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let asked = Instant::now();
            let answers = store.take(&policies(), EACH).await.unwrap();
            assert!(answers.iter().all(|answer| answer.decided_by != DecidedBy::Store));
            asked.elapsed()
        })
    });
    for asked in asks.collect::<Vec<_>>() {
        let took = asked.await.unwrap();
        assert!(took < LATEST, "{took:?}");
    }
    let counters = store.store().redis().counters();
    assert!(!counters.is_closed.load(Ordering::Relaxed));
    // All of them speak of one connection.
    assert_eq!(counters.opened.load(Ordering::Relaxed), 1);
    assert!(ended(store.store(), "late") >= 5);
    kill_process(server.process(), Signal::CONT).unwrap();
    until_back(&store).await;
}

#[tokio::test]
async fn no_more_than_so_many_at_once() {
    let server = RedisServer::start(&[]);
    let config = RedisConfig { in_flight_max: 1, ..config(&server.address()) };
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let store = redis(config, &now_us).await;
    let asks = policies();
    let (first, second) =
        tokio::join!(Store::take(&store, &asks, EACH), Store::take(&store, &asks, EACH));
    assert!(first.is_ok());
    assert_eq!(second, Err(StoreError::Crowded));
    assert_eq!((ended(&store, "answered"), ended(&store, "crowded")), (1, 1));
    assert!(Store::take(&store, &asks, EACH).await.is_ok());
    assert!(store.redis().counters().is_closed.load(Ordering::Relaxed), "nothing is wrong");
}

/// Answers with which a server says that it cannot now: what brings them about, and what ends them.
#[tokio::test]
async fn full_or_a_replica() {
    for (begin, end, code) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
    ] {
        let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
        let store = guarded(&server).await;
        assert!(server.answers(begin, "+OK"));
        let result = Store::take(store.store(), &policies(), EACH).await;
        assert_eq!(result, Err(StoreError::Refused(code.to_owned())));
        assert_eq!(ended(store.store(), "refused"), 1);
        // What has become a replica stays one; what is full is asked a few times more.
        assert_eq!(store.store().redis().is_there(), code == "OOM");
        until_away(&store).await;
        assert!(server.answers(end, "+OK"));
        until_back(&store).await;
    }
}

/// Failures count as long as they follow each other.
#[tokio::test]
async fn an_answer_in_between_is_a_new_beginning() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let config = RedisConfig { failures_max: 2, ..config(&server.address()) };
    let store = redis(config, &Arc::new(AtomicU64::new(T0_US))).await;
    let asks = policies();
    for _ in 0..2 {
        assert!(server.answers("CONFIG SET maxmemory 1", "+OK"));
        assert!(Store::take(&store, &asks, EACH).await.is_err());
        assert!(store.redis().is_there());
        assert!(server.answers("CONFIG SET maxmemory 0", "+OK"));
        assert!(Store::take(&store, &asks, EACH).await.is_ok());
    }
    assert!(server.answers("CONFIG SET maxmemory 1", "+OK"));
    for is_there in [true, false] {
        assert!(Store::take(&store, &asks, EACH).await.is_err());
        assert_eq!(store.redis().is_there(), is_there);
    }
}

#[tokio::test]
async fn loading() {
    let mut server = RedisServer::start(&[]);
    let store = guarded(&server).await;
    let fill = "EVAL \"for i = 1, 2000 do redis.call('SET', i, i) end\" 0";
    assert!(server.answers(fill, "$-1"));
    assert!(server.answers("SAVE", "+OK"));
    server.kill();
    until_away(&store).await;
    // It reads its two thousand keys for two seconds, and answers meanwhile.
    let slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    server.start_again(&slowly);
    server.wait_until("it loads", || server.answers("GET a", "LOADING"));
    let failed = store.store().redis().counters().connects_failed.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let counters = store.store().redis().counters();
    assert!(counters.connects_failed.load(Ordering::Relaxed) > failed);
    assert!(!counters.is_closed.load(Ordering::Relaxed), "what loads is not there yet");
    until_back(&store).await;
}
