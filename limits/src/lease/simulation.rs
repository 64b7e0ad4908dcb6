//! A fleet of borrowers on one lender, with a demand as skewed as that of real clients.
//!
//! `cargo test -p glacis-limits simulated -- --nocapture` prints what it measures; docs/leases.md
//! has the figures. Seeded, and without a clock: each run is the same.

use super::borrower::{Borrower, Spent};
use super::desk::{Desk, Slot};
use super::lender::{Lender, Room};
use super::{Answer, Ask, Key, Terms, set};
use crate::xorshift::Xorshift;
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;
const T0: u64 = 1_700_000_000 * SECOND_NS;
/// How often an Envoy looks at its desk, which is also how long an answer takes.
const TICK_NS: u64 = 20_000_000;
const TIMEOUT_NS: u64 = 500_000_000;
const TICKS_IN_A_SECOND: u64 = SECOND_NS / TICK_NS;

/// What is played.
struct Play {
    envoys: usize,
    keys: u64,
    /// Requests of each Envoy in each tick.
    requests: u64,
    seconds: u64,
    tokens: u32,
    burst: u64,
    window_ns: u64,
    unleased: u32,
    /// Sets of the table of an Envoy.
    sets: u64,
    /// How many keys, from the busiest on, are looked at.
    watched: usize,
    /// One in so many answers gets lost.
    lost: u64,
    /// So many Envoys start anew half-way, and have forgotten all.
    restarted: usize,
}

/// The limit itself: a bucket that counts in millionths of a token.
struct Bucket {
    millionths: u64,
    at_ns: u64,
}

struct Envoy {
    sets: Vec<Vec<u8>>,
    desk: Desk,
    call: Option<Call>,
}

struct Call {
    asked_ns: u64,
    asks: Vec<(Slot, Ask, Answer)>,
    lost: bool,
}

/// What came of it.
#[derive(Default)]
struct Report {
    requests: u64,
    allowed: u64,
    calls: u64,
    asks: u64,
    /// Of each watched key, what was let through in each tick.
    ticks: Vec<Vec<u64>>,
    /// Of each watched key, requests, what was let through of them, and what each Envoy let through
    /// in the second half.
    demand: Vec<u64>,
    watched_allowed: Vec<u64>,
    shares: Vec<Vec<u64>>,
    outstanding: u64,
    table_bytes: usize,
    leases: usize,
}

struct Fleet<'a> {
    play: &'a Play,
    borrower: Borrower,
    envoys: Vec<Envoy>,
    lender: Lender,
    buckets: BTreeMap<u64, Bucket>,
    random: Xorshift,
    report: Report,
}

impl Play {
    fn run(&self) -> Report {
        let terms = Terms::new(self.tokens, self.window_ns, None).unwrap();
        let terms = terms.with_burst(u32::try_from(self.burst).unwrap());
        let envoy = || Envoy {
            sets: vec![Vec::new(); self.sets as usize],
            desk: Desk::default(),
            call: None,
        };
        let report = Report {
            ticks: vec![Vec::new(); self.watched],
            demand: vec![0; self.watched],
            watched_allowed: vec![0; self.watched],
            shares: vec![vec![0; self.envoys]; self.watched],
            ..Report::default()
        };
        let mut fleet = Fleet {
            play: self,
            borrower: Borrower::new(self.unleased, self.window_ns).unwrap(),
            envoys: (0..self.envoys).map(|_| envoy()).collect(),
            lender: Lender::new(terms, Room::default()),
            buckets: BTreeMap::new(),
            random: Xorshift::new(42),
            report,
        };
        let ticks = self.seconds * TICKS_IN_A_SECOND;
        for tick in 0..ticks {
            if tick == ticks / 2 {
                fleet.envoys.iter_mut().take(self.restarted).for_each(|old| *old = envoy());
            }
            fleet.tick(T0 + tick * TICK_NS);
        }
        let sets = fleet.envoys.iter().map(|envoy| envoy.sets.iter().map(Vec::len).sum());
        fleet.report.table_bytes = sets.max().unwrap_or(0);
        fleet.report.leases = fleet.lender.leases();
        fleet.report
    }

    /// Which key the next request has: the rank in Zipf's law with exponent 1, of which `keys^u`
    /// is the continuous form.
    fn key(&self, random: &mut Xorshift) -> u64 {
        let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        (self.keys as f64).powf(uniform) as u64
    }

    fn restored(&self, bucket: &mut Bucket, now_ns: u64) {
        let gained = u128::from(now_ns - bucket.at_ns) * u128::from(self.tokens) * 1_000_000
            / u128::from(self.window_ns);
        let full = self.burst * 1_000_000;
        bucket.millionths = (bucket.millionths + u64::try_from(gained).unwrap()).min(full);
        bucket.at_ns = now_ns;
    }
}

impl Fleet<'_> {
    fn tick(&mut self, now_ns: u64) {
        self.report.ticks.iter_mut().for_each(|ticks| ticks.push(0));
        for index in 0..self.envoys.len() {
            self.answers(index, now_ns);
            for _ in 0..self.play.requests {
                self.request(index, now_ns);
            }
            self.ask(index, now_ns);
        }
        let busiest = (1..=self.play.watched as u64).map(|key| self.lender.outstanding(&wide(key)));
        self.report.outstanding = self.report.outstanding.max(busiest.max().unwrap_or(0));
    }

    fn request(&mut self, index: usize, now_ns: u64) {
        let key = self.play.key(&mut self.random);
        let (fingerprint, envoy) = (mixed(key), &mut self.envoys[index]);
        let place = (fingerprint % self.play.sets) as usize;
        let value = &envoy.sets[place];
        let (value, taken) = set::spend(&self.borrower, value, fingerprint, now_ns, 1, TIMEOUT_NS);
        envoy.sets[place] = value;
        let slot = Slot { limit: 0, fingerprint, key: wide(key) };
        envoy.desk.wish(slot, taken.wish, now_ns, self.borrower.patience_ns());
        let allowed = u64::from(matches!(taken.spent, Spent::Allowed { .. }));
        self.report.requests += 1;
        self.report.allowed += allowed;
        let rank = key as usize - 1;
        if rank < self.play.watched {
            self.report.demand[rank] += 1;
            *self.report.ticks[rank].last_mut().unwrap() += allowed;
            self.report.watched_allowed[rank] += allowed;
            let is_second_half = now_ns >= T0 + self.play.seconds * SECOND_NS / 2;
            self.report.shares[rank][index] += if is_second_half { allowed } else { 0 };
        }
    }

    fn ask(&mut self, index: usize, now_ns: u64) {
        let due = self.envoys[index].desk.due(now_ns, self.borrower.patience_ns());
        let mut asks = Vec::new();
        for slot in due {
            let place = (slot.fingerprint % self.play.sets) as usize;
            let borrower = self.borrower;
            let until_ns = now_ns + TIMEOUT_NS;
            let value = &self.envoys[index].sets[place];
            let asked = set::change(&borrower, value, slot.fingerprint, now_ns, |state| {
                borrower.ask(state, now_ns, until_ns)
            });
            let Some((value, ask)) = asked else { continue };
            self.envoys[index].sets[place] = value;
            let answer = self.lend(slot, index, &ask, now_ns);
            asks.push((slot, ask, answer));
        }
        if asks.is_empty() {
            return;
        }
        self.report.calls += 1;
        self.report.asks += asks.len() as u64;
        let lost = self.play.lost > 0 && self.random.below(self.play.lost) == 0;
        self.envoys[index].desk.called(now_ns + TIMEOUT_NS);
        self.envoys[index].call = Some(Call { asked_ns: now_ns, asks, lost });
    }

    fn lend(&mut self, slot: Slot, index: usize, ask: &Ask, now_ns: u64) -> Answer {
        let full = Bucket { millionths: self.play.burst * 1_000_000, at_ns: now_ns };
        let rank = u64::from_le_bytes(*slot.key.first_chunk().unwrap());
        let bucket = self.buckets.entry(rank).or_insert(full);
        self.play.restored(bucket, now_ns);
        bucket.millionths += u64::from(ask.returned) * 1_000_000;
        self.play.restored(bucket, now_ns);
        let offer = self.lender.offer(slot.key, index as u64, ask, now_ns);
        let taken = (bucket.millionths / 1_000_000).min(u64::from(offer.take()));
        bucket.millionths -= taken * 1_000_000;
        self.lender.settle(offer, u32::try_from(taken).unwrap(), now_ns)
    }

    fn answers(&mut self, index: usize, now_ns: u64) {
        let envoy = &mut self.envoys[index];
        let after_ns = |call: &Call| if call.lost { TIMEOUT_NS } else { TICK_NS };
        let Some(call) = envoy.call.take_if(|call| now_ns >= call.asked_ns + after_ns(call)) else {
            return;
        };
        envoy.desk.answered();
        for (slot, ask, answer) in call.asks {
            let place = (slot.fingerprint % self.play.sets) as usize;
            let borrower = self.borrower;
            let value = &envoy.sets[place];
            let changed = set::change(&borrower, value, slot.fingerprint, now_ns, |state| {
                let state = match call.lost {
                    true => borrower.failed(state, now_ns),
                    false => borrower.answered(state, now_ns, call.asked_ns, &ask, &answer),
                };
                (state, borrower.renewal_ns(&state))
            });
            let Some((value, renewal_ns)) = changed else { continue };
            envoy.sets[place] = value;
            if let Some(renewal_ns) = renewal_ns {
                envoy.desk.book(slot, renewal_ns);
            }
        }
    }
}

impl Report {
    /// The most that any window let through above what a bucket without burst gains in it.
    fn above_the_rate(&self, rank: usize, tokens_per_tick: f64) -> f64 {
        let mut most = 0f64;
        let mut sum = 0f64;
        for allowed in &self.ticks[rank] {
            sum = (sum + *allowed as f64 - tokens_per_tick).max(0.0);
            most = most.max(sum);
        }
        most
    }

    /// Jain's index of what the Envoys let through of a key: 1 is all the same.
    fn fairness(&self, rank: usize) -> f64 {
        let shares = &self.shares[rank];
        let sum: f64 = shares.iter().map(|share| *share as f64).sum();
        let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
        sum * sum / (squares * shares.len() as f64)
    }
}

/// What is checked of a play: the bound at each watched key, and what the calls cost.
fn check(name: &str, play: &Play, calls_per_request_max: f64) -> Report {
    let report = play.run();
    let terms = Terms::new(play.tokens, play.window_ns, None).unwrap();
    let per_tick = f64::from(play.tokens) * TICK_NS as f64 / play.window_ns as f64;
    let unleased = (play.envoys + play.restarted) as u64 * u64::from(play.unleased);
    let bound = u64::from(terms.outstanding_max()) + unleased;
    let mut overshoot = 0f64;
    for rank in 0..play.watched {
        let above = report.above_the_rate(rank, per_tick) - play.burst as f64;
        overshoot = overshoot.max(above);
        // One tick of gain: a window of ticks is that much shorter than the time it covers.
        assert!(above <= bound as f64 + per_tick, "{name}: key {rank}: {above} of {bound}");
    }
    assert!(report.outstanding <= u64::from(terms.outstanding_max()), "{name}");
    let calls = report.calls as f64 / report.requests as f64;
    eprintln!(
        "{name}: {} requests, {} let through, {} calls about {} keys: {calls:.4} round trips per \
         request; overshoot {overshoot:.0} of at most {bound} tokens (limit {} in {} s, burst {}); \
         outstanding {} of at most {}; {} leases; {} bytes in the table of an Envoy",
        report.requests,
        report.allowed,
        report.calls,
        report.asks,
        play.tokens,
        play.window_ns / SECOND_NS,
        play.burst,
        report.outstanding,
        terms.outstanding_max(),
        report.leases,
        report.table_bytes,
    );
    assert!(calls < calls_per_request_max, "{name}: {calls} calls for each request");
    assert!(report.table_bytes <= play.sets as usize * set::SET_BYTES_MAX);
    report
}

#[test]
fn simulated_fleet_of_a_thousand() {
    let play = Play {
        envoys: 1_000,
        keys: 1_000_000,
        requests: 8,
        seconds: 10,
        tokens: 60_000,
        burst: 3_000,
        window_ns: 30 * SECOND_NS,
        unleased: 4,
        sets: 512,
        watched: 200,
        lost: 200,
        restarted: 50,
    };
    let report = check("1000 Envoys, 1 M keys", &play, 0.01);
    let gained = u64::from(play.tokens) * play.seconds / 30 + play.burst;
    for rank in 0..3 {
        let allowed = report.watched_allowed[rank];
        assert!(report.demand[rank] > 3 * gained, "these keys want more than there is");
        let (fairness, used) = (report.fairness(rank), allowed as f64 / gained as f64);
        eprintln!("  key {}: Jain's index {fairness:.3}, {used:.2} of the limit used", rank + 1);
        // Two leases of six tokens or so for each cannot be the same for all.
        assert!(fairness > 0.8, "key {rank}: {fairness}");
        assert!(used > 0.8, "key {rank}: {used}");
    }
    // A key that wants less than there is gets all of it, but for lost calls.
    let rank = play.watched - 1;
    let (allowed, demand) = (report.watched_allowed[rank], report.demand[rank]);
    eprintln!("  key {}: {allowed} of {demand} let through", rank + 1);
    assert!(allowed as f64 > 0.98 * demand as f64, "{allowed} of {demand}");
}

/// A key with a thousand requests a second, over a few Envoys: within its limit and at twice that.
#[test]
fn simulated_fleet_of_three() {
    for (name, tokens, burst) in [
        ("3 Envoys, within the limit", 72_000, 7_200),
        ("within the limit, and a burst of a second", 72_000, 1_200),
        ("at twice the limit", 30_000, 3_000),
    ] {
        let play = Play {
            envoys: 3,
            keys: 1,
            requests: 7,
            seconds: 120,
            tokens,
            burst,
            window_ns: 60 * SECOND_NS,
            unleased: 50,
            sets: 1,
            watched: 1,
            lost: 0,
            restarted: 0,
        };
        let report = check(name, &play, 0.01);
        let gained = u64::from(tokens) * 2 + play.burst;
        let expected = gained.min(report.requests);
        assert!(report.allowed as f64 > 0.98 * expected as f64, "{} of {expected}", report.allowed);
        let fairness = report.fairness(0);
        eprintln!("  Jain's index {fairness:.3}: {:?}", report.shares[0]);
        assert!(fairness > 0.98, "{fairness}");
    }
}

/// The first half minute of a key below its limit, whose burst is a second's: nobody has a lease
/// yet, and all ask at once.
#[test]
fn simulated_start() {
    for (tokens, requests) in [(72_000, 7), (72_000, 6), (126_000, 7)] {
        let (mut worst, mut sum) = (0f64, 0f64);
        for unleased in 1..=60 {
            let play = Play {
                envoys: 3,
                keys: 1,
                requests,
                seconds: 30,
                tokens,
                burst: u64::from(tokens) / 60,
                window_ns: 60 * SECOND_NS,
                unleased,
                sets: 1,
                watched: 1,
                lost: 0,
                restarted: 0,
            };
            let report = play.run();
            let refused = (report.requests - report.allowed) as f64 / report.requests as f64;
            (worst, sum) = (worst.max(refused), sum + refused);
        }
        let (percent, mean) = (100.0 * worst, 100.0 * sum / 60.0);
        eprintln!(
            "start, {requests} requests a tick from each of 3 Envoys, limit {tokens} in 60 s, 1 to \
             60 unleased: {mean:.2} % refused on average, {percent:.1} % at the most"
        );
        assert!(percent < 2.0, "{percent} % of the requests refused below the limit");
    }
}

/// The bits of a rank, spread as those of a hash.
fn mixed(key: u64) -> u64 {
    let mixed = (key ^ key >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

fn wide(key: u64) -> Key {
    let mut wide = [0; 16];
    wide[..8].copy_from_slice(&key.to_le_bytes());
    wide
}
