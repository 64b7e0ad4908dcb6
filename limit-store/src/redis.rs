//! Counters in Redis, or Valkey, for a whole fleet.

mod config;
mod connect;
mod link;

use std::time::Duration;

use futures_util::future::join_all;

pub use config::{RedisConfig, RedisConfigError, RedisTls, Topology};
pub use link::{Call, Redis, RedisCounters, Reply, Script};

use crate::clock::Clock;
use crate::key::Key;
use crate::limit::{Algorithm, Limit};
use crate::store::{ASKS_MAX, Answer, Ask, DecidedBy, Pending, Return, Store, StoreError, Taking};

/// Numbers that the script answers for an ask.
const NUMBERS: usize = 5;

/// The largest whole number up to which doubles have them all: 2^53.
const EXACT_MAX: u64 = 1 << 53;

/// A store in Redis: one script for each call, in one round trip, by the clock of the server.
///
/// A counter is one key, a string, that expires by itself once it says no more than none would.
///
/// # In a cluster
///
/// Counters of one subject are on one node and are taken together; a call with several subjects is
/// several scripts at the same time. All or nothing over several of them is then what it can be:
/// each is taken, and given back if another one refused, so that for some milliseconds others see
/// less than there is.
#[derive(Debug)]
pub struct RedisStore {
    redis: Redis,
    script: Script,
    clock: Clock,
}

impl RedisStore {
    /// A store as `config` says. The line opens in the background; needs a runtime of tokio.
    ///
    /// # Errors
    ///
    /// What makes no sense in `config`. That the server is not there is none.
    pub fn new(config: RedisConfig) -> Result<Self, RedisConfigError> {
        Self::with_clock(config, Clock::Real)
    }

    /// A store that tells the server what time it is, for tests.
    ///
    /// # Errors
    ///
    /// As [`RedisStore::new`].
    pub fn with_clock(config: RedisConfig, clock: Clock) -> Result<Self, RedisConfigError> {
        let mut probe = Call::new([format!("{}probe", config.prefix)]);
        for argument in ["each", "", "", "g", "1000000", "1000", "1", "0"] {
            probe.push(argument);
        }
        let redis = Redis::new(config, (script(), probe))?;
        Ok(Self { redis, script: script(), clock })
    }

    /// The line to the server: what happened on it, and whether it is there.
    #[must_use]
    pub const fn redis(&self) -> &Redis {
        &self.redis
    }

    async fn take(&self, asks: &[Ask], taking: Taking) -> Result<Vec<Answer>, StoreError> {
        check_count(asks.len())?;
        let groups = self.groups(asks.iter().map(|ask| &ask.key));
        if let [group] = groups.as_slice() {
            return self.take_group(asks, group, taking).await;
        }
        let calls = groups.iter().map(|group| self.take_group(asks, group, taking));
        let results = join_all(calls).await;
        let failed = results.iter().find_map(|result| result.as_ref().err().cloned());
        let answered = results.into_iter().map(Result::unwrap_or_default);
        let mut answers = in_order(&groups, answered, asks.len());
        let refused = answers.iter().flatten().any(|answer| !answer.allowed);
        if taking == Taking::AllOrNothing && (refused || failed.is_some()) {
            self.undo(asks, &mut answers).await;
        }
        match failed {
            Some(error) => Err(error),
            None => {
                answers.into_iter().map(|answer| answer.ok_or(StoreError::Unreadable)).collect()
            }
        }
    }

    /// Indices of what goes into one call: all, or in a cluster those of one slot.
    fn groups<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<Vec<usize>> {
        if !self.redis.is_cluster() {
            let all: Vec<usize> = keys.enumerate().map(|(index, _)| index).collect();
            return if all.is_empty() { Vec::new() } else { vec![all] };
        }
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, key) in keys.enumerate() {
            match groups.iter_mut().find(|(tag, _)| *tag == key.tag()) {
                Some((_, group)) => group.push(index),
                None => groups.push((key.tag(), vec![index])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    async fn take_group(
        &self,
        asks: &[Ask],
        group: &[usize],
        taking: Taking,
    ) -> Result<Vec<Answer>, StoreError> {
        let verb = match taking {
            Taking::AllOrNothing => "all",
            Taking::EachForItself => "each",
        };
        let asks = || group.iter().filter_map(|&index| asks.get(index));
        let mut call = self.call(verb, asks().map(|ask| (&ask.key, &ask.limit)));
        for ask in asks() {
            push_limit(&mut call, &ask.limit);
            call.push_number(ask.cost);
            call.push(if ask.partial { "1" } else { "0" });
        }
        self.run(&call, asks().map(|ask| &ask.limit)).await
    }

    fn call<'a>(&self, verb: &str, counters: impl Iterator<Item = (&'a Key, &'a Limit)>) -> Call {
        let mut call = Call::new(counters.map(|(key, limit)| self.name(key, limit)));
        call.push(verb);
        match &self.clock {
            Clock::Real => {
                call.push("");
                call.push("");
            }
            Clock::Given(_) => {
                let now_us = self.clock.now_us();
                call.push_number(now_us / 1_000_000);
                call.push_number(now_us % 1_000_000);
            }
        }
        call
    }

    fn name(&self, key: &Key, limit: &Limit) -> String {
        let mut name = self.redis.config().prefix.clone();
        limit.push_kind(&mut name);
        name.push_str(key.as_str());
        name
    }

    /// Gives back what some have taken while others refused, or could not be asked.
    async fn undo(&self, asks: &[Ask], answers: &mut [Option<Answer>]) {
        let mut returns = Vec::new();
        let mut undone = Vec::new();
        for (ask, answer) in asks.iter().zip(answers.iter_mut()) {
            let Some(answer) = answer.as_mut().filter(|answer| answer.taken > 0) else { continue };
            let (tokens, age) = (answer.taken, Duration::ZERO);
            returns.push(Return { key: ask.key.clone(), limit: ask.limit, tokens, age });
            undone.push(answer);
        }
        match self.give_back(&returns).await {
            Ok(looks) => {
                for (answer, look) in undone.into_iter().zip(looks) {
                    *answer = look;
                }
            }
            // They are lost: the limit is stricter by them.
            Err(error) => tracing::debug!(%error, "tokens could not be given back"),
        }
    }

    /// Gives back, and answers how the counters stand then.
    async fn give_back(&self, returns: &[Return]) -> Result<Vec<Answer>, StoreError> {
        check_count(returns.len())?;
        let groups = self.groups(returns.iter().map(|given| &given.key));
        let calls = groups.iter().map(|group| async {
            let returns = || group.iter().filter_map(|&index| returns.get(index));
            let mut call = self.call("back", returns().map(|given| (&given.key, &given.limit)));
            for given in returns() {
                push_limit(&mut call, &given.limit);
                call.push_number(given.tokens);
                let age_ms = u64::try_from(given.age.as_millis()).unwrap_or(u64::MAX);
                call.push_number(age_ms.min(EXACT_MAX));
            }
            self.run(&call, returns().map(|given| &given.limit)).await
        });
        let answered: Result<Vec<_>, _> = join_all(calls).await.into_iter().collect();
        in_order(&groups, answered?, returns.len())
            .into_iter()
            .map(|answer| answer.ok_or(StoreError::Unreadable))
            .collect()
    }

    /// Runs the script for counters of these limits.
    async fn run<'a>(
        &self,
        call: &Call,
        limits: impl Iterator<Item = &'a Limit>,
    ) -> Result<Vec<Answer>, StoreError> {
        let reply = self.redis.run(&self.script, call).await?;
        let numbers = reply.numbers().ok_or(StoreError::Unreadable)?;
        let (chunks, rest) = numbers.as_chunks::<NUMBERS>();
        let answers: Result<Vec<Answer>, StoreError> =
            limits.zip(chunks).map(|(limit, numbers)| answer(limit, *numbers)).collect();
        answers.and_then(|answers| match answers.len() == chunks.len() && rest.is_empty() {
            true => Ok(answers),
            false => Err(StoreError::Unreadable),
        })
    }
}

/// What groups have answered, in the order of what was asked; nothing where one has not.
fn in_order(
    groups: &[Vec<usize>],
    answered: impl IntoIterator<Item = Vec<Answer>>,
    count: usize,
) -> Vec<Option<Answer>> {
    let mut answers = vec![None; count];
    for (group, answered) in groups.iter().zip(answered) {
        for (&index, answer) in group.iter().zip(answered) {
            if let Some(slot) = answers.get_mut(index) {
                *slot = Some(answer);
            }
        }
    }
    answers
}

fn script() -> Script {
    Script::new(include_str!("redis/limits.lua"))
}

const fn check_count(count: usize) -> Result<(), StoreError> {
    if count > ASKS_MAX { Err(StoreError::TooMany) } else { Ok(()) }
}

fn push_limit(call: &mut Call, limit: &Limit) {
    let (kind, rate) = match limit.algorithm() {
        Algorithm::Gcra => ("g", limit.interval_ns()),
        Algorithm::SlidingWindow => ("s", limit.period_ms()),
        Algorithm::FixedWindow => ("f", limit.period_ms()),
    };
    call.push(kind);
    call.push_number(rate);
    call.push_number(limit.burst());
}

fn answer(limit: &Limit, numbers: [i64; NUMBERS]) -> Result<Answer, StoreError> {
    let [allowed, taken, remaining, retry, reset] = numbers;
    let count = |number: i64| u32::try_from(number).map_err(|_| StoreError::Unreadable);
    let time = |number: i64| {
        let number = u64::try_from(number).map_err(|_| StoreError::Unreadable)?;
        Ok(match limit.algorithm() {
            Algorithm::Gcra => Duration::from_nanos(number),
            Algorithm::SlidingWindow | Algorithm::FixedWindow => Duration::from_millis(number),
        })
    };
    Ok(Answer {
        allowed: allowed == 1,
        taken: count(taken)?,
        remaining: count(remaining)?,
        retry_after: if retry == -1 { Duration::MAX } else { time(retry)? },
        reset_after: time(reset)?,
        limit: limit.burst(),
        decided_by: DecidedBy::Store,
    })
}

impl Store for RedisStore {
    fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>> {
        Box::pin(self.take(asks, taking))
    }

    fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
        Box::pin(async move { self.give_back(returns).await.map(|_| ()) })
    }
}
