//! Addresses that are refused for a time, since too much of what they sent was refused.
//!
//! Each scenario is a leaky bucket for each address, as CrowdSec has them: a refusal is a drop, one drops out
//! every so often, and when there are more than it holds the address is banned. The bucket is a limit in the
//! store, and the bans are there as well: with Redis all processes see both.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::sleep;

use crate::guarded::Guarded;
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::redis::{Call, RedisStore, Reply, Script};
use crate::store::{Ask, Store, Taking};

/// Bans that are kept; of more, those that end first are forgotten.
pub const BANS_MAX: usize = 10_000;

/// How often the bans of other processes are asked for.
const REFRESH: Duration = Duration::from_millis(250);

/// Bans that Redis is told of at once.
const TOLD_MAX: usize = 256;

/// Adds bans (pairs of seconds and address) if there are any. Answers the version of the list, and, unless that
/// is known to who asks, all bans that hold: address, end, …. Who knows `-` wants no list.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 3, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'GT', now + tonumber(ARGV[i]), ARGV[i + 1])
end
if #ARGV > 2 then
  redis.call('SET', KEYS[2], time[1] .. '.' .. time[2])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -(tonumber(ARGV[1]) + 1))
local version = redis.call('GET', KEYS[2]) or '0'
if ARGV[2] == '-' or ARGV[2] == version then
  return {version}
end
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
table.insert(all, 1, version)
return all
";

/// When an address is banned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanScenario {
    name: String,
    limit: Limit,
    time: Duration,
}

impl BanScenario {
    /// A bucket that holds `capacity` refusals, one of which drops out every `leak`; one more bans for `time`.
    /// Processes that share a store share the bucket of a name, if their numbers are the same.
    ///
    /// # Errors
    ///
    /// If the bucket cannot be counted: as [`Limit::gcra`].
    pub fn new(
        name: &str,
        capacity: u32,
        leak: Duration,
        time: Duration,
    ) -> Result<Self, LimitError> {
        Ok(Self { name: name.to_owned(), limit: Limit::gcra(1, leak, capacity)?, time })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Who is banned, and until when.
#[derive(Debug)]
pub struct Bans {
    until: RwLock<HashMap<IpAddr, u64>>,
    store: Arc<dyn Store>,
    redis: Option<Line>,
}

/// Where bans are kept for all.
#[derive(Debug)]
struct Line {
    store: Arc<Guarded<RedisStore>>,
    script: Script,
    /// The list, and its version: in one slot of a cluster.
    keys: [String; 2],
    /// Bans that Redis has not been told of, and their ends.
    untold: Mutex<HashMap<IpAddr, u64>>,
}

impl Line {
    fn new(store: Arc<Guarded<RedisStore>>) -> Self {
        let prefix = &store.store().redis().config().prefix;
        let keys = ["", "/version"].map(|more| format!("{prefix}{{bans}}{more}"));
        Self { keys, script: Script::new(SCRIPT), store, untold: Mutex::default() }
    }

    fn untold(&self) -> MutexGuard<'_, HashMap<IpAddr, u64>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_untold(&self) -> Vec<(IpAddr, u64)> {
        self.untold().iter().take(TOLD_MAX).map(|(address, end)| (*address, *end)).collect()
    }

    /// Adds bans to the list, and says its version, and all that are in it if that is not `known`.
    async fn exchange(
        &self,
        bans: &[(IpAddr, u64)],
        known: &str,
        now_seconds: u64,
    ) -> Option<(String, HashMap<IpAddr, u64>)> {
        let mut call = Call::new(self.keys.iter().map(String::as_str));
        call.push_number(BANS_MAX);
        call.push(known);
        for (address, end) in bans {
            call.push_number(end.saturating_sub(now_seconds));
            call.push(address.to_string());
        }
        read(&self.store.store().redis().run(&self.script, &call).await.ok()?)
    }

    /// Tells Redis of what it has not been told yet.
    async fn tell(&self, now_seconds: u64) {
        loop {
            let bans = self.next_untold();
            if bans.is_empty() || self.exchange(&bans, "-", now_seconds).await.is_none() {
                return;
            }
            let mut untold = self.untold();
            for (address, end) in bans {
                // It may have been banned for longer meanwhile.
                if untold.get(&address).is_some_and(|now| *now <= end) {
                    untold.remove(&address);
                }
            }
        }
    }
}

impl Bans {
    /// Bans by what `store` counts; kept in Redis if there is one.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, redis: Option<Arc<Guarded<RedisStore>>>) -> Self {
        Self { until: RwLock::default(), store, redis: redis.map(Line::new) }
    }

    /// Until when an address is banned, in seconds since 1970; `None` if it is not.
    #[must_use]
    pub fn of(&self, address: IpAddr, now_seconds: u64) -> Option<u64> {
        self.read().get(&address).copied().filter(|until| *until > now_seconds)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// As a list of networks, in the order of their addresses.
    #[must_use]
    pub fn list(&self, now_seconds: u64) -> String {
        let mut bans: Vec<(IpAddr, u64)> =
            self.read().iter().map(|(address, until)| (*address, *until)).collect();
        bans.retain(|(_, until)| *until > now_seconds);
        bans.sort_unstable();
        bans.into_iter().fold(String::new(), |mut text, (address, until)| {
            // Writing to a `String` cannot fail. The last second in which it holds is the one before its end.
            let _ = writeln!(text, "{address} deny until={}", until.saturating_sub(1));
            text
        })
    }

    /// Counts a refusal, and bans the address if it is one too many for one of these. Says by which: the one
    /// that bans longest.
    pub async fn refused<'a>(
        &self,
        scenarios: &[&'a BanScenario],
        address: IpAddr,
        now_seconds: u64,
    ) -> Option<&'a BanScenario> {
        let ask = |scenario: &&BanScenario| {
            let name = format!("ban/{}", scenario.name);
            Ask::new(Key::new(name.as_bytes(), address.to_string().as_bytes()), scenario.limit, 1)
        };
        let asks: Vec<Ask> = scenarios.iter().map(ask).collect();
        if asks.is_empty() {
            return None;
        }
        let answers = self.store.take(&asks, Taking::EachForItself).await.ok()?;
        let full = scenarios.iter().zip(&answers).filter(|(_, answer)| !answer.allowed);
        let scenario = full.map(|(scenario, _)| *scenario).max_by_key(|scenario| scenario.time)?;
        self.ban(address, now_seconds.saturating_add(scenario.time.as_secs()), now_seconds).await;
        Some(scenario)
    }

    async fn ban(&self, address: IpAddr, end: u64, now_seconds: u64) {
        insert(&mut self.write(), address, end, now_seconds);
        if let Some(line) = &self.redis {
            insert(&mut line.untold(), address, end, now_seconds);
            line.tell(now_seconds).await;
        }
    }

    /// Keeps looking for the bans of others, and forgets those that are over. While Redis is away each process
    /// goes on with those that it knows, and tells Redis of its own afterwards.
    pub async fn keep(self: Arc<Self>, now_seconds: impl Fn() -> u64) {
        let mut known = String::new();
        loop {
            sleep(REFRESH).await;
            let now_seconds = now_seconds();
            if let Some(line) = &self.redis {
                line.untold().retain(|_, end| *end > now_seconds);
                line.tell(now_seconds).await;
                self.take_over(line, &mut known, now_seconds).await;
            }
            self.write().retain(|_, until| *until > now_seconds);
        }
    }

    /// Takes over the list of Redis, if it is not the one that is known.
    async fn take_over(&self, line: &Line, known: &mut String, now_seconds: u64) {
        let Some((version, mut all)) = line.exchange(&[], known, now_seconds).await else { return };
        if *known == version {
            return;
        }
        // One that was made here a moment ago may not be among them yet; then the list has another version soon.
        line.untold()
            .iter()
            .for_each(|(address, end)| insert(&mut all, *address, *end, now_seconds));
        *self.write() = all;
        *known = version;
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<IpAddr, u64>> {
        self.until.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<IpAddr, u64>> {
        self.until.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a ban, and forgets the one that ends first where there are too many.
fn insert(until: &mut HashMap<IpAddr, u64>, address: IpAddr, end: u64, now_seconds: u64) {
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

/// The version, then addresses and ends, as the script answers them.
fn read(reply: &Reply) -> Option<(String, HashMap<IpAddr, u64>)> {
    let Reply::List(items) = reply else { return None };
    let text = |item: &Reply| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        Reply::Number(number) => Some(number.to_string()),
        Reply::List(_) | Reply::Nothing => None,
    };
    let (version, items) = items.split_first()?;
    let (pairs, _) = items.as_chunks::<2>();
    let ban = |[address, end]: &[Reply; 2]| {
        Some((text(address)?.parse().ok()?, text(end)?.parse().ok()?))
    };
    Some((text(version)?, pairs.iter().filter_map(ban).collect()))
}

#[cfg(test)]
mod tests {
    use crate::memory::MemoryStore;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn scenario(capacity: u32, seconds: u64) -> BanScenario {
        let leak = Duration::from_secs(3_600);
        BanScenario::new(&capacity.to_string(), capacity, leak, Duration::from_secs(seconds))
            .unwrap()
    }

    #[tokio::test]
    async fn one_refusal_too_many() {
        let bans = Bans::new(Arc::new(MemoryStore::new(100)), None);
        let (two, four) = (scenario(2, 60), scenario(4, 600));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        for (scenarios, expected) in [
            (&[&two, &four][..], None),
            (&[], None),
            (&[&two, &four], None),
            (&[&four], None),
            (&[&two, &four], Some("2")),
            // The longer ban counts.
            (&[&two, &four], Some("4")),
        ] {
            let by = bans.refused(scenarios, address, NOW).await;
            assert_eq!(by.map(BanScenario::name), expected, "{scenarios:?}");
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
        let mut bans = HashMap::new();
        for number in 0..=u32::try_from(BANS_MAX).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            insert(&mut bans, address, NOW + 10 + u64::from(number), NOW);
        }
        assert_eq!(bans.len(), BANS_MAX);
        let first: IpAddr = "0.0.0.0".parse().unwrap();
        assert!(!bans.contains_key(&first), "the one that ended first");
    }
}
