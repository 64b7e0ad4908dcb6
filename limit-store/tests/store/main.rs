//! Stores as callers see them, over the real Redis.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod asks;
mod away;
mod bans;
mod layouts;
mod redis_server;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use glacis_limit_store::{Answer, Ask, Clock, Key, Limit, RedisConfig, RedisStore, Taking};

const EACH: Taking = Taking::EachForItself;
const ALL: Taking = Taking::AllOrNothing;

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

/// `+` or `-` for allowed or not, what was taken, what is left, how long to wait and how long until
/// all is there again, in microseconds.
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

/// A configuration with a deadline that a busy machine keeps.
fn config(node: &str) -> RedisConfig {
    RedisConfig { nodes: vec![node.to_owned()], deadline_ms: 2_000, ..RedisConfig::default() }
}

/// A store whose clock shows `now_us`, once its server is there.
async fn redis(config: RedisConfig, now_us: &Arc<AtomicU64>) -> RedisStore {
    let store = RedisStore::with_clock(config, Clock::Given(Arc::clone(now_us))).unwrap();
    assert!(store.redis().ready(redis_server::PATIENCE).await, "{:?}", store.redis());
    store
}
