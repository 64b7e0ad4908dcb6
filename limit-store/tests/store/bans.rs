//! Bans in Redis: what one process has banned all have, whatever becomes of Redis, and of their clocks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glacis_limit_store::{BanScenario, Bans, Guarded, MemoryStore, RedisStore, Store};
use glacis_limits::cidr::Cidr;

use crate::config;
use crate::redis_server::{PATIENCE, RedisServer};

/// How long bans last here, and by how much reading clocks in whole seconds may change that, and a busy machine.
const BAN_SECONDS: u64 = 600;
const LEFT: std::ops::RangeInclusive<u64> = BAN_SECONDS - 60..=BAN_SECONDS + 5;

/// A process with a clock of its own.
struct Process {
    bans: Arc<Bans>,
    ahead_seconds: i64,
}

impl Process {
    async fn start(server: &RedisServer, ahead_seconds: i64) -> Self {
        let redis = RedisStore::new(config(&server.address())).unwrap();
        assert!(redis.redis().ready(PATIENCE).await);
        let redis = Arc::new(Guarded::new(redis, 1, MemoryStore::new(100)));
        let store: Arc<dyn Store> = Arc::clone(&redis) as Arc<dyn Store>;
        let bans = Arc::new(Bans::new(store, Some(redis)));
        tokio::spawn(Arc::clone(&bans).keep(move || now(ahead_seconds)));
        Self { bans, ahead_seconds }
    }

    /// Bans an address by one refusal too many.
    async fn ban(&self, address: IpAddr) {
        let (leak, time) = (Duration::from_secs(3_600), Duration::from_secs(BAN_SECONDS));
        let scenario = BanScenario::new("knocking", 1, leak, time).unwrap();
        for _ in 0..2 {
            self.bans.refused(&[&scenario], address, now(self.ahead_seconds)).await;
        }
        assert!(self.left(address).is_some(), "{address}");
    }

    /// For how many seconds more an address is banned.
    fn left(&self, address: IpAddr) -> Option<u64> {
        let now = now(self.ahead_seconds);
        self.bans.of(address, now).map(|end| end - now)
    }

    fn has(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|address| self.left(*address).is_some())
    }
}

fn now(ahead_seconds: i64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    now.saturating_add_signed(ahead_seconds)
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_ban_lasts_as_long_by_every_clock() {
    let server = RedisServer::start(&[]);
    for (number, ahead, other_ahead) in
        [(1, 1_000, 0), (2, 0, 1_000), (3, 0, -1_000), (4, -1_000, 1_000)]
    {
        let one = Process::start(&server, ahead).await;
        let other = Process::start(&server, other_ahead).await;
        let address = address(number);
        one.ban(address).await;
        until("the other has it", || other.left(address).is_some()).await;
        // By then the first one has taken the list over as well.
        tokio::time::sleep(Duration::from_millis(600)).await;
        for process in [&one, &other] {
            let left = process.left(address);
            let lasts = left.is_some_and(|left| LEFT.contains(&left));
            assert!(lasts, "{left:?} by clocks ahead by {ahead} and {other_ahead}");
        }
    }
}

/// Waits until Redis has these bans again, and tells who starts then; nobody has forgotten any.
async fn recovered(server: &RedisServer, processes: &[Process; 2], addresses: &[IpAddr]) {
    let count = format!(":{}\r\n", addresses.len());
    until("Redis has all of them", || server.answers("ZCARD glacis:{bans}", &count)).await;
    let newcomer = Process::start(server, 0).await;
    until("who starts then learns of all", || newcomer.has(addresses)).await;
    until("the others know them", || processes.iter().all(|process| process.has(addresses))).await;
    for address in addresses {
        let left = newcomer.left(*address);
        assert!(left.is_some_and(|left| LEFT.contains(&left)), "{address}: {left:?}");
    }
}

#[tokio::test]
async fn what_redis_has_lost_it_is_told_again() {
    let mut server = RedisServer::start(&[]);
    let processes = [Process::start(&server, 0).await, Process::start(&server, 0).await];
    let [one, other] = &processes;
    let addresses: Vec<IpAddr> = (1..=5).map(address).collect();
    let both_have = async |addresses: &[IpAddr]| {
        until("both have them", || processes.iter().all(|process| process.has(addresses))).await;
    };
    one.ban(addresses[0]).await;
    other.ban(addresses[1]).await;
    both_have(&addresses[..2]).await;
    // Emptied, and told of another one before anybody has looked.
    assert!(server.answers("FLUSHALL", "+OK"));
    other.ban(addresses[2]).await;
    both_have(&addresses[..3]).await;
    recovered(&server, &processes, &addresses[..3]).await;
    // Started again with nothing.
    server.kill();
    server.start_again(&[]);
    recovered(&server, &processes, &addresses[..3]).await;
    // Started again with a copy from before the last ban.
    assert!(server.answers("SAVE", "+OK"));
    one.ban(addresses[3]).await;
    both_have(&addresses[..4]).await;
    server.kill();
    server.start_again(&[]);
    recovered(&server, &processes, &addresses[..4]).await;
    // Nothing is lost, and one was banned meanwhile.
    assert!(server.answers("SAVE", "+OK"));
    server.kill();
    one.ban(addresses[4]).await;
    server.start_again(&[]);
    both_have(&addresses).await;
}

/// By hand, here and there: all processes see it, and nobody brings back what somebody has removed.
#[tokio::test]
async fn bans_by_hand_are_those_of_all() {
    let mut server = RedisServer::start(&[]);
    let processes = [Process::start(&server, 0).await, Process::start(&server, 0).await];
    let [one, other] = &processes;
    let network = |text: &str| Cidr::parse(text).unwrap();
    let wide = network("192.0.2.0/24");
    assert!(one.bans.add(wide, now(0) + 600, now(0)).await);
    until("the other has it", || other.has(&[address(1), address(2)])).await;
    other.ban(address(9)).await;
    until("the first has both", || one.bans.page(None, 10, now(0)).len() == 2).await;
    assert_eq!(other.bans.remove(wide, now(0)).await, Ok(true));
    assert!(other.left(address(1)).is_none() && other.left(address(9)).is_some());
    until("the first has forgotten it", || one.left(address(1)).is_none()).await;
    // Both have looked a few times since.
    tokio::time::sleep(Duration::from_millis(800)).await;
    for process in &processes {
        assert_eq!(process.bans.page(None, 10, now(0)).len(), 1);
    }
    assert!(server.answers("ZCARD glacis:{bans}", ":1\r\n"));
    // What was removed elsewhere was one, as far as it was known.
    assert_eq!(one.bans.remove(wide, now(0)).await, Ok(false));
    // Without Redis a ban holds here, and none can be removed.
    server.kill();
    let here = network("198.51.100.1");
    assert!(!one.bans.add(here, now(0) + 600, now(0)).await);
    assert!(one.bans.of(here.bounds().0, now(0)).is_some());
    assert!(one.bans.remove(here, now(0)).await.is_err());
    assert!(one.bans.of(here.bounds().0, now(0)).is_some(), "it is as it was");
    server.start_again(&[]);
    until("the other learns of it", || other.bans.of(here.bounds().0, now(0)).is_some()).await;
    assert_eq!(one.bans.remove(here, now(0)).await, Ok(true));
    until("and that it is over", || other.bans.of(here.bounds().0, now(0)).is_none()).await;
}
