//! Addresses that are refused for a time, since too much of what they sent was refused.
//!
//! Each scenario is a leaky bucket for each address, as CrowdSec has them: a refusal is a drop, one drops out
//! every so often, and when there are more than it holds the address is banned. The bucket is a limit in the
//! store, and the bans are there as well: with Redis all processes see both.
//!
//! Who has one address of IPv6 has a whole network of them: there, the network is counted and banned.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use glacis_limits::cidr::Cidr;
use tokio::time::sleep;

use crate::guarded::Guarded;
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::redis::{Call, RedisStore, Reply, Script};
use crate::store::{Ask, Store, Taking};

/// Bans that are kept; of more, those that end first are forgotten.
pub const BANS_MAX: usize = 10_000;

/// The bits of an IPv6 address that addresses have in common which are banned together, unless told otherwise:
/// a link has so long a prefix (RFC 4291, section 2.5.4), and whoever has one of its addresses can have all.
pub const IPV6_PREFIX: u8 = 64;

/// Prefixes that a scenario may have.
pub const IPV6_PREFIXES: core::ops::RangeInclusive<u8> = 16..=128;

/// How often the bans of other processes are asked for.
const REFRESH: Duration = Duration::from_millis(250);

/// Bans that Redis is told of at once.
const TOLD_MAX: usize = 256;

/// Adds bans (pairs of seconds and network) if there are any. Answers the version of the list, and, unless that
/// is known to who asks, all bans that hold: network, end, …. Who knows `-` wants no list.
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
    ipv6_prefix: u8,
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
        let limit = Limit::gcra(1, leak, capacity)?;
        Ok(Self { name: name.to_owned(), limit, time, ipv6_prefix: IPV6_PREFIX })
    }

    /// The same, for networks of IPv6 with a prefix of another length than [`IPV6_PREFIX`].
    #[must_use]
    pub fn with_ipv6_prefix(self, ipv6_prefix: u8) -> Self {
        Self { ipv6_prefix, ..self }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who is counted, and banned, for what comes from an address.
    fn network(&self, address: IpAddr) -> Cidr {
        let address = address.to_canonical();
        match address {
            // Global unicast (RFC 4291, section 2.4). Outside of it a prefix does not tell one client from
            // another: all of IPv4 behind a translator shares 64:ff9b::/96, a link fe80::/64, pods a node's.
            IpAddr::V6(v6) if v6.segments()[0] >> 13 == 1 => {
                Cidr::around(v6.into(), self.ipv6_prefix)
            }
            _ => Cidr::around(address, u8::MAX),
        }
    }
}

/// Ends of bans, in seconds since 1970.
type Ends = HashMap<Cidr, u64>;

/// Bans that are known.
#[derive(Debug, Default)]
struct Known {
    until: Ends,
    /// Lengths of the prefixes of IPv6 among them: a look-up for each. Some may be of bans that are over.
    ipv6_prefixes: BTreeSet<u8>,
}

impl Known {
    fn new(until: Ends) -> Self {
        let mut known = Self::default();
        until.keys().for_each(|network| known.note(*network));
        Self { until, ..known }
    }

    fn note(&mut self, network: Cidr) {
        if matches!(network.bounds(), (IpAddr::V6(_), _)) {
            self.ipv6_prefixes.insert(network.prefix());
        }
    }

    /// The end of the ban that lasts longest for this address, over or not.
    fn of(&self, address: IpAddr) -> Option<u64> {
        let address = address.to_canonical();
        let end = |prefix: u8| self.until.get(&Cidr::around(address, prefix)).copied();
        match address {
            IpAddr::V4(_) => end(u8::MAX),
            IpAddr::V6(_) => self.ipv6_prefixes.iter().filter_map(|prefix| end(*prefix)).max(),
        }
    }
}

/// Who is banned, and until when.
#[derive(Debug)]
pub struct Bans {
    known: RwLock<Known>,
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
    untold: Mutex<Ends>,
}

impl Line {
    fn new(store: Arc<Guarded<RedisStore>>) -> Self {
        let prefix = &store.store().redis().config().prefix;
        let keys = ["", "/version"].map(|more| format!("{prefix}{{bans}}{more}"));
        Self { keys, script: Script::new(SCRIPT), store, untold: Mutex::default() }
    }

    fn untold(&self) -> MutexGuard<'_, Ends> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_untold(&self) -> Vec<(Cidr, u64)> {
        self.untold().iter().take(TOLD_MAX).map(|(network, end)| (*network, *end)).collect()
    }

    /// Adds bans to the list, and says its version, and all that are in it if that is not `known`.
    async fn exchange(
        &self,
        bans: &[(Cidr, u64)],
        known: &str,
        now_seconds: u64,
    ) -> Option<(String, Ends)> {
        let mut call = Call::new(self.keys.iter().map(String::as_str));
        call.push_number(BANS_MAX);
        call.push(known);
        for (network, end) in bans {
            call.push_number(end.saturating_sub(now_seconds));
            call.push(text(*network));
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
            for (network, end) in bans {
                // It may have been banned for longer meanwhile.
                if untold.get(&network).is_some_and(|now| *now <= end) {
                    untold.remove(&network);
                }
            }
        }
    }
}

impl Bans {
    /// Bans by what `store` counts; kept in Redis if there is one.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, redis: Option<Arc<Guarded<RedisStore>>>) -> Self {
        Self { known: RwLock::default(), store, redis: redis.map(Line::new) }
    }

    /// Until when an address is banned, in seconds since 1970; `None` if it is not.
    #[must_use]
    pub fn of(&self, address: IpAddr, now_seconds: u64) -> Option<u64> {
        self.read().of(address).filter(|until| *until > now_seconds)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().until.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().until.is_empty()
    }

    /// As a list of networks, in the order of their addresses.
    #[must_use]
    pub fn list(&self, now_seconds: u64) -> String {
        let mut bans: Vec<(Cidr, u64)> =
            self.read().until.iter().map(|(network, until)| (*network, *until)).collect();
        bans.retain(|(_, until)| *until > now_seconds);
        bans.sort_unstable();
        bans.into_iter().fold(String::new(), |mut list, (network, until)| {
            // Writing to a `String` cannot fail. The last second in which it holds is the one before its end.
            let (network, last) = (text(network), until.saturating_sub(1));
            let _ = writeln!(list, "{network} deny until={last}");
            list
        })
    }

    /// Counts a refusal, and bans whoever has the address if it is one too many for one of these. Says by which: the one
    /// that bans longest.
    pub async fn refused<'a>(
        &self,
        scenarios: &[&'a BanScenario],
        address: IpAddr,
        now_seconds: u64,
    ) -> Option<&'a BanScenario> {
        let ask = |scenario: &&BanScenario| {
            let name = format!("ban/{}", scenario.name);
            let network = text(scenario.network(address));
            Ask::new(Key::new(name.as_bytes(), network.as_bytes()), scenario.limit, 1)
        };
        let asks: Vec<Ask> = scenarios.iter().map(ask).collect();
        if asks.is_empty() {
            return None;
        }
        let answers = self.store.take(&asks, Taking::EachForItself).await.ok()?;
        let full = scenarios.iter().zip(&answers).filter(|(_, answer)| !answer.allowed);
        let scenario = full.map(|(scenario, _)| *scenario).max_by_key(|scenario| scenario.time)?;
        let end = now_seconds.saturating_add(scenario.time.as_secs());
        self.ban(scenario.network(address), end, now_seconds).await;
        Some(scenario)
    }

    async fn ban(&self, network: Cidr, end: u64, now_seconds: u64) {
        {
            let mut known = self.write();
            known.note(network);
            insert(&mut known.until, network, end, now_seconds);
        }
        if let Some(line) = &self.redis {
            insert(&mut line.untold(), network, end, now_seconds);
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
            self.write().until.retain(|_, until| *until > now_seconds);
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
            .for_each(|(network, end)| insert(&mut all, *network, *end, now_seconds));
        *self.write() = Known::new(all);
        *known = version;
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a ban, and forgets the one that ends first where there are too many.
fn insert(until: &mut Ends, network: Cidr, end: u64, now_seconds: u64) {
    let kept = until.entry(network).or_insert(end);
    *kept = end.max(*kept);
    if until.len() > BANS_MAX {
        until.retain(|_, until| *until > now_seconds);
    }
    if until.len() > BANS_MAX {
        let first = until.iter().min_by_key(|(_, until)| **until).map(|(network, _)| *network);
        first.and_then(|network| until.remove(&network));
    }
}

/// How a network is called in Redis and in lists: an address by itself has no prefix there.
fn text(network: Cidr) -> String {
    match network.is_one_address() {
        true => network.bounds().0.to_string(),
        false => network.to_string(),
    }
}

/// The version, then networks and ends, as the script answers them.
fn read(reply: &Reply) -> Option<(String, Ends)> {
    let Reply::List(items) = reply else { return None };
    let told = |item: &Reply| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        Reply::Number(number) => Some(number.to_string()),
        Reply::List(_) | Reply::Nothing => None,
    };
    let (version, items) = items.split_first()?;
    let (pairs, _) = items.as_chunks::<2>();
    let ban = |[network, end]: &[Reply; 2]| {
        Some((Cidr::parse(&told(network)?).ok()?, told(end)?.parse().ok()?))
    };
    Some((told(version)?, pairs.iter().filter_map(ban).collect()))
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
            let network = Cidr::around(IpAddr::from(number.to_be_bytes()), 32);
            insert(&mut bans, network, NOW + 10 + u64::from(number), NOW);
        }
        assert_eq!(bans.len(), BANS_MAX);
        let first = Cidr::parse("0.0.0.0").unwrap();
        assert!(!bans.contains_key(&first), "the one that ended first");
    }

    /// Who is banned once `refused` has been, with a prefix of so many bits: the others are looked up.
    #[tokio::test]
    async fn an_attacker_has_a_whole_network_of_ipv6() {
        for (prefix, refused, list, banned, free) in [
            // Each request from another address of one /64.
            (
                64,
                &["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:dead::"][..],
                "2001:db8::/64",
                &["2001:db8::", "2001:db8:0:0:ffff:ffff:ffff:ffff"][..],
                &["2001:db8:0:1::", "192.0.2.1"][..],
            ),
            (
                48,
                &["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"],
                "2001:db8::/48",
                &["2001:db8:0:4::1"],
                &["2001:db8:1::1"],
            ),
            (
                128,
                &["2001:db8::1", "2001:db8::1", "2001:db8::1"],
                "2001:db8::1",
                &["2001:db8::1"],
                &["2001:db8::2"],
            ),
            // A prefix of these says nothing of who it is.
            (
                64,
                &["64:ff9b::192.0.2.1", "64:ff9b::192.0.2.1", "64:ff9b::192.0.2.1"],
                "64:ff9b::c000:201",
                &["64:ff9b::192.0.2.1"],
                &["64:ff9b::192.0.2.2"],
            ),
            (64, &["fe80::1", "fe80::1", "fe80::1"], "fe80::1", &["fe80::1"], &["fe80::2"]),
            (64, &["fd00::1", "fd00::1", "fd00::1"], "fd00::1", &["fd00::1"], &["fd00::2"]),
            (64, &["::1", "::1", "::1"], "::1", &["::1"], &["::2"]),
            // An address of IPv4, however it came.
            (
                64,
                &["::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1"],
                "192.0.2.1",
                &["192.0.2.1", "::ffff:192.0.2.1"],
                &["192.0.2.2", "::ffff:192.0.2.2"],
            ),
        ] {
            let bans = Bans::new(Arc::new(MemoryStore::new(100)), None);
            let scenario = scenario(2, 60).with_ipv6_prefix(prefix);
            let mut by = None;
            for address in refused {
                assert_eq!(by, None, "{refused:?}");
                by = bans.refused(&[&scenario], address.parse().unwrap(), NOW).await;
            }
            assert_eq!(by, Some(&scenario), "{refused:?}");
            assert_eq!(bans.list(NOW), format!("{list} deny until={}\n", NOW + 59));
            let of = |address: &&str| bans.of(address.parse().unwrap(), NOW);
            assert!(banned.iter().all(|address| of(address) == Some(NOW + 60)), "{refused:?}");
            assert!(free.iter().all(|address| of(address).is_none()), "{refused:?}");
        }
    }

    #[test]
    fn the_longest_ban_of_those_around_an_address_counts() {
        let network = |text: &str| Cidr::parse(text).unwrap();
        let known = Known::new(HashMap::from([
            (network("2001:db8::/64"), NOW + 10),
            (network("2001:db8::/48"), NOW + 20),
            (network("2001:db8::1"), NOW + 5),
        ]));
        for (address, end) in [
            ("2001:db8::1", Some(NOW + 20)),
            ("2001:db8:0:1::", Some(NOW + 20)),
            ("2001:db8:1::", None),
        ] {
            assert_eq!(known.of(address.parse().unwrap()), end, "{address}");
        }
    }
}
