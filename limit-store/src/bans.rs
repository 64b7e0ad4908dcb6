//! Addresses that are refused for a time, since too much of what they sent was refused.
//!
//! Each scenario is a leaky bucket for each address, as CrowdSec has them: a refusal is a drop, one drops out
//! every so often, and when there are more than it holds the address is banned. The bucket is a limit in the
//! store, and the bans are there as well: with Redis all processes see both.
//!
//! Who has one address of IPv6 has a whole network of them: there, the network is counted and banned.

mod known;
mod line;
mod scenario;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use glacis_limits::cidr::Cidr;
use tokio::time::sleep;

use crate::guarded::Guarded;
use crate::redis::RedisStore;
use crate::store::{Ask, Store, StoreError, Taking};

use known::{Known, insert, text};
use line::{Line, Seen};
pub use scenario::{BanScenario, IPV6_PREFIX, IPV6_PREFIXES};

/// Bans that are kept; of more, those that end first are forgotten.
pub const BANS_MAX: usize = 10_000;

/// The widest networks that may be banned by hand, by the lengths of their prefixes: of IPv4, and of IPv6.
pub const WIDEST_BANS: (u8, u8) = (8, 16);

/// The longest time for which somebody may be banned by hand: 366 days.
pub const BAN_SECONDS_MAX: u64 = 366 * 86_400;

/// How often the bans of other processes are asked for.
const REFRESH: Duration = Duration::from_millis(250);

/// Who is banned, and until when.
#[derive(Debug)]
pub struct Bans {
    known: RwLock<Known>,
    /// How often bans were added or taken over.
    changes: AtomicU64,
    store: Arc<dyn Store>,
    redis: Option<Line>,
}

impl Bans {
    /// Bans by what `store` counts; kept in Redis if there is one.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, redis: Option<Arc<Guarded<RedisStore>>>) -> Self {
        let (known, changes) = (RwLock::default(), AtomicU64::new(0));
        Self { known, changes, store, redis: redis.map(Line::new) }
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

    /// A number that is another one when there may be others: [`Self::list`] is then another one, too, or when some
    /// are over.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// As a list of networks, in the order of their addresses.
    #[must_use]
    pub fn list(&self, now_seconds: u64) -> String {
        let mut bans = self.holding(now_seconds);
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
        let asks: Vec<Ask> = scenarios.iter().map(|scenario| scenario.ask(address)).collect();
        if asks.is_empty() {
            return None;
        }
        let answers = self.store.take(&asks, Taking::EachForItself).await.ok()?;
        let full = scenarios.iter().zip(&answers).filter(|(_, answer)| !answer.allowed);
        let scenario =
            full.map(|(scenario, _)| *scenario).max_by_key(|scenario| scenario.time())?;
        let end = now_seconds.saturating_add(scenario.time().as_secs());
        self.ban(scenario.network(address), end, now_seconds).await;
        Some(scenario)
    }

    /// The bans that hold, in the order of their networks: of those behind `after` the first `count`, each with its
    /// end in seconds since 1970.
    #[must_use]
    pub fn page(&self, after: Option<Cidr>, count: usize, now_seconds: u64) -> Vec<(Cidr, u64)> {
        let mut bans = self.holding(now_seconds);
        bans.retain(|(network, _)| after.is_none_or(|after| *network > after));
        bans.sort_unstable();
        bans.truncate(count);
        bans
    }

    /// Bans a network until `end`, or for longer if it is banned for longer already. Returns whether all processes
    /// learn of it now: while Redis is unreachable only this one refuses, and tells Redis afterwards.
    pub async fn add(&self, network: Cidr, end: u64, now_seconds: u64) -> bool {
        self.ban(network, end, now_seconds).await
    }

    /// Ends the ban of a network, and returns whether there was one. A ban of a wider network stays, and so do the
    /// buckets of scenarios: if one is still full, the next refusal bans again.
    ///
    /// # Errors
    ///
    /// When Redis does not answer: then nothing has changed, here or elsewhere.
    pub async fn remove(&self, network: Cidr, now_seconds: u64) -> Result<bool, StoreError> {
        // What Redis forgets may be forgotten here before its answer is read.
        let known = self.write().until.get(&network).copied();
        if let Some(line) = &self.redis {
            line.remove(network).await?;
            line.untold().remove(&network);
        }
        let end = self.write().until.remove(&network).or(known);
        self.changes.fetch_add(1, Ordering::Release);
        Ok(end.is_some_and(|end| end > now_seconds))
    }

    async fn ban(&self, network: Cidr, end: u64, now_seconds: u64) -> bool {
        {
            let mut known = self.write();
            known.note(network);
            insert(&mut known.until, network, end, now_seconds);
        }
        self.changes.fetch_add(1, Ordering::Release);
        if let Some(line) = &self.redis {
            insert(&mut line.untold(), network, end, now_seconds);
            return line.tell(now_seconds).await;
        }
        true
    }

    /// Keeps looking for the bans of others, and forgets those that are over. While Redis is away each process
    /// goes on with those that it knows, and tells Redis of its own afterwards; of all of them if Redis has lost
    /// them meanwhile.
    pub async fn keep(self: Arc<Self>, now_seconds: impl Fn() -> u64) {
        let mut seen = Seen::default();
        loop {
            sleep(REFRESH).await;
            let now_seconds = now_seconds();
            if let Some(line) = &self.redis {
                line.untold().retain(|_, end| *end > now_seconds);
                // First, since what is told makes the list look whole.
                self.take_over(line, &mut seen, now_seconds).await;
                line.tell(now_seconds).await;
            }
            self.write().until.retain(|_, until| *until > now_seconds);
        }
    }

    /// Takes over the list of Redis, if it is not the one that was seen.
    async fn take_over(&self, line: &Line, seen: &mut Seen, now_seconds: u64) {
        let Some(answered) = line.look(&seen.version, now_seconds).await else { return };
        if *seen == answered.seen {
            return;
        }
        let mut all = answered.bans;
        if seen.is_lost(&answered.seen) {
            line.tell_again(self.holding(now_seconds), &all, now_seconds);
        }
        // One that was made here a moment ago may not be among them yet; then the list has another version soon.
        line.untold()
            .iter()
            .for_each(|(network, end)| insert(&mut all, *network, *end, now_seconds));
        *self.write() = Known::new(all);
        self.changes.fetch_add(1, Ordering::Release);
        *seen = answered.seen;
    }

    /// Those that hold.
    fn holding(&self, now_seconds: u64) -> Vec<(Cidr, u64)> {
        let known = self.read();
        let holding = known.until.iter().filter(|(_, until)| **until > now_seconds);
        holding.map(|(network, until)| (*network, *until)).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
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

    #[tokio::test]
    async fn bans_by_hand() {
        let bans = Bans::new(Arc::new(MemoryStore::new(100)), None);
        let network = |text: &str| Cidr::parse(text).unwrap();
        let all = ["10.0.0.1", "192.0.2.0/24", "2001:db8::/32"].map(network);
        for ban in all {
            assert!(bans.add(ban, NOW + 60, NOW).await);
        }
        let of = |text: &str| bans.of(text.parse().unwrap(), NOW);
        assert_eq!(of("192.0.2.77"), Some(NOW + 60));
        assert_eq!((of("192.0.3.1"), of("2001:db8:1::1")), (None, Some(NOW + 60)));
        // In pages, the last of which is empty.
        let page = |after, count| -> Vec<Cidr> {
            bans.page(after, count, NOW).into_iter().map(|(network, _)| network).collect()
        };
        assert_eq!(page(None, 10), all);
        assert_eq!(page(None, 2), all[..2]);
        assert_eq!(page(Some(all[1]), 2), all[2..]);
        assert_eq!(page(Some(network("11.0.0.0/8")), 1), all[1..2]);
        assert_eq!(page(Some(all[2]), 2), []);
        // What is over is in none, and a ban never becomes shorter.
        assert!(bans.page(None, 10, NOW + 60).is_empty());
        bans.add(all[0], NOW + 30, NOW).await;
        assert_eq!(of("10.0.0.1"), Some(NOW + 60));
        let changes = bans.changes();
        assert_eq!(bans.remove(all[1], NOW).await, Ok(true));
        assert_eq!(bans.remove(all[1], NOW).await, Ok(false));
        assert!(bans.changes() > changes);
        assert_eq!((of("192.0.2.77"), page(None, 10).len()), (None, 2));
        assert_eq!(bans.list(NOW).lines().count(), 2);
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
}
