//! Addresses that are refused for a time, since too much of what they sent was refused.
//!
//! Each scenario is a leaky bucket for each address, as CrowdSec has them: a refusal is a drop, one drops out
//! every `leak_seconds`, and when there are more than `capacity` the address is banned for `ban_seconds`. The
//! bucket is a limit in the store, and the bans are there as well: with Redis all services see both.

use core::{net::IpAddr, time::Duration};
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, PoisonError, RwLock},
};

use glacis_limit_store::{
    Ask, Call, Guarded, Key, Limit, LimitError, RedisStore, Reply, Script, Store, Taking,
};
use tokio::time::sleep;

use crate::{answer::Reason, config::ScenarioConfig};

/// Bans that are kept; of more, those that end first are forgotten.
pub(crate) const BANS_MAX: usize = 10_000;

/// How often the bans of other services are asked for.
const REFRESH: Duration = Duration::from_secs(1);

/// Adds bans (pairs of seconds and address) if there are any, and answers all that hold: address, end, ….
const SCRIPT: &str = "
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'GT', now + tonumber(ARGV[i]), ARGV[i + 1])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -(tonumber(ARGV[1]) + 1))
return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
";

/// When an address is banned.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    name: String,
    reasons: Vec<Reason>,
    limit: Limit,
    ban: Duration,
}

impl Scenario {
    /// That of a configuration. An error is the key and what to write there.
    pub(crate) fn new(config: &ScenarioConfig) -> Result<Self, (&'static str, String)> {
        let reason = |name: &String| {
            let known = Reason::ALL.into_iter().find(|reason| reason.name() == name);
            known.ok_or_else(|| {
                let names: Vec<&str> = Reason::ALL.map(Reason::name).to_vec();
                ("reasons", format!("\"{name}\" is no reason: write one of {}", names.join(", ")))
            })
        };
        let reasons: Vec<Reason> = config.reasons.iter().map(reason).collect::<Result<_, _>>()?;
        if reasons.is_empty() || config.ban_seconds == 0 {
            let key = if reasons.is_empty() { "reasons" } else { "ban_seconds" };
            return Err((key, "nobody would be banned: write one or more".to_owned()));
        }
        let leak = Duration::from_secs(config.leak_seconds.into());
        let limit: Result<_, LimitError> = Limit::gcra(1, leak, config.capacity);
        let limit = limit.map_err(|error| ("capacity", error.to_string()))?;
        let ban = Duration::from_secs(config.ban_seconds.into());
        Ok(Self { name: config.name.clone(), reasons, limit, ban })
    }
}

/// Who is banned, and until when.
#[derive(Debug)]
pub(crate) struct Bans {
    until: RwLock<HashMap<IpAddr, u64>>,
    store: Arc<dyn Store>,
    redis: Option<Line>,
}

/// Where bans are kept for all.
#[derive(Debug)]
struct Line {
    store: Arc<Guarded<RedisStore>>,
    script: Script,
    key: String,
}

impl Bans {
    /// Bans by what `store` counts; kept in Redis if there is one.
    pub(crate) fn new(store: Arc<dyn Store>, redis: Option<Arc<Guarded<RedisStore>>>) -> Self {
        let redis = redis.map(|store| Line {
            key: format!("{}bans", store.store().redis().config().prefix),
            script: Script::new(SCRIPT),
            store,
        });
        Self { until: RwLock::default(), store, redis }
    }

    /// Until when an address is banned, in seconds since 1970; `None` if it is not.
    pub(crate) fn of(&self, address: IpAddr, now_seconds: u64) -> Option<u64> {
        let until = self.until.read().unwrap_or_else(PoisonError::into_inner);
        until.get(&address).copied().filter(|until| *until > now_seconds)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.until.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// As a list of networks, in the order of their addresses.
    pub(crate) fn list(&self, now_seconds: u64) -> String {
        let until = self.until.read().unwrap_or_else(PoisonError::into_inner);
        let mut bans: Vec<(IpAddr, u64)> =
            until.iter().map(|(address, until)| (*address, *until)).collect();
        drop(until);
        bans.retain(|(_, until)| *until > now_seconds);
        bans.sort_unstable();
        bans.into_iter().fold(String::new(), |mut text, (address, until)| {
            // Writing to a `String` cannot fail. The last second in which it holds is the one before its end.
            let _ = writeln!(text, "{address} deny until={}", until.saturating_sub(1));
            text
        })
    }

    /// Counts a refusal, and bans the address if it is one too many. Says by which scenario.
    pub(crate) async fn refused(
        &self,
        scenarios: &[Scenario],
        reason: Reason,
        address: IpAddr,
        now_seconds: u64,
    ) -> Option<String> {
        let of: Vec<&Scenario> =
            scenarios.iter().filter(|one| one.reasons.contains(&reason)).collect();
        let ask = |scenario: &&Scenario| {
            let name = format!("ban/{}", scenario.name);
            Ask::new(Key::new(name.as_bytes(), address.to_string().as_bytes()), scenario.limit, 1)
        };
        let asks: Vec<Ask> = of.iter().map(ask).collect();
        if asks.is_empty() {
            return None;
        }
        let answers = self.store.take(&asks, Taking::EachForItself).await.ok()?;
        let full = of.iter().zip(&answers).filter(|(_, answer)| !answer.allowed);
        let scenario = full.map(|(scenario, _)| scenario).max_by_key(|scenario| scenario.ban)?;
        self.ban(address, scenario.ban, now_seconds).await;
        Some(scenario.name.clone())
    }

    async fn ban(&self, address: IpAddr, time: Duration, now_seconds: u64) {
        let end = now_seconds.saturating_add(time.as_secs());
        self.insert(address, end, now_seconds);
        if self.redis.is_some() {
            self.exchange(Some((time.as_secs(), address)), now_seconds).await;
        }
    }

    fn insert(&self, address: IpAddr, end: u64, now_seconds: u64) {
        let mut until = self.until.write().unwrap_or_else(PoisonError::into_inner);
        let kept = until.entry(address).or_insert(end);
        *kept = end.max(*kept);
        if until.len() > BANS_MAX {
            until.retain(|_, until| *until > now_seconds);
        }
        if until.len() > BANS_MAX {
            let first = until.iter().min_by_key(|(_, until)| **until).map(|(address, _)| *address);
            first.and_then(|address| until.remove(&address));
        }
    }

    /// Tells Redis of a ban, and takes over all that are there. While Redis is away each service has its own.
    async fn exchange(&self, ban: Option<(u64, IpAddr)>, now_seconds: u64) {
        let Some(line) = &self.redis else { return };
        let mut call = Call::new([line.key.as_str()]);
        call.push_number(BANS_MAX);
        if let Some((seconds, address)) = ban {
            call.push_number(seconds);
            call.push(address.to_string());
        }
        let Ok(reply) = line.store.store().redis().run(&line.script, &call).await else { return };
        let Some(mut all) = read(&reply) else { return };
        // One that was made here a moment ago may not be among them yet.
        all.extend(ban.map(|(seconds, address)| (address, now_seconds.saturating_add(seconds))));
        *self.until.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Keeps looking for the bans of others, and forgets those that are over.
    pub(crate) async fn keep(self: Arc<Self>, now: impl Fn() -> u64) {
        loop {
            sleep(REFRESH).await;
            let now_seconds = now();
            self.exchange(None, now_seconds).await;
            let mut until = self.until.write().unwrap_or_else(PoisonError::into_inner);
            until.retain(|_, until| *until > now_seconds);
        }
    }
}

/// Addresses and ends, as the script answers them.
fn read(reply: &Reply) -> Option<HashMap<IpAddr, u64>> {
    let Reply::List(items) = reply else { return None };
    let text = |item: &Reply| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        Reply::Number(number) => Some(number.to_string()),
        Reply::List(_) | Reply::Nothing => None,
    };
    let (pairs, _) = items.as_chunks::<2>();
    let ban = |[address, end]: &[Reply; 2]| {
        Some((text(address)?.parse().ok()?, text(end)?.parse().ok()?))
    };
    Some(pairs.iter().filter_map(ban).collect())
}

#[cfg(test)]
mod tests {
    use glacis_limit_store::MemoryStore;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn scenario(reasons: &[&str], capacity: u32, ban_seconds: u32) -> Scenario {
        let reasons = reasons.iter().map(|&reason| reason.to_owned()).collect();
        let name = format!("{capacity}");
        let config = ScenarioConfig { name, reasons, capacity, leak_seconds: 3_600, ban_seconds };
        Scenario::new(&config).unwrap()
    }

    #[tokio::test]
    async fn one_refusal_too_many() {
        let bans = Bans::new(Arc::new(MemoryStore::new(100)), None);
        let scenarios = [scenario(&["rule"], 2, 60), scenario(&["rule", "wrong_key"], 4, 600)];
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        for (reason, expected) in [
            (Reason::Rule, None),
            (Reason::NoPolicy, None),
            (Reason::Rule, None),
            (Reason::WrongKey, None),
            (Reason::Rule, Some("2")),
            // The longer ban counts.
            (Reason::Rule, Some("4")),
        ] {
            let by = bans.refused(&scenarios, reason, address, NOW).await;
            assert_eq!(by.as_deref(), expected, "{reason:?}");
        }
        assert_eq!(bans.of(address, NOW + 599), Some(NOW + 600));
        assert_eq!(
            (bans.of(address, NOW + 600), bans.of("192.0.2.2".parse().unwrap(), NOW)),
            (None, None)
        );
        assert_eq!(bans.list(NOW), format!("192.0.2.1 deny until={}\n", NOW + 599));
        assert_eq!((bans.list(NOW + 600), bans.len()), (String::new(), 1));
    }

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let bans = Bans::new(Arc::new(MemoryStore::new(1)), None);
        for number in 0..=u32::try_from(BANS_MAX).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            bans.insert(address, NOW + 10 + u64::from(number), NOW);
        }
        assert_eq!(bans.len(), BANS_MAX);
        assert_eq!(bans.of("0.0.0.0".parse().unwrap(), NOW), None, "the one that ended first");
    }
}
