//! What does not hold for long: mixed traffic at a steady rate through a whole fleet, and a look every few seconds
//! at what grows.

mod leak;
mod plot;
mod report;

pub use leak::{Judgement, Trend, trend};
pub use report::write;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bench::measure::Account;
use crate::failure::{Failure, Outcome};
use crate::fleet::{Fleet, Setup};
use crate::traffic::{Load, Record, Row, Traffic, rows};

/// Processes that are looked at.
pub const WATCHED: [&str; 5] = ["envoy", "ext-proc-1", "ext-proc-2", "ext-authz", "redis"];
/// Looks in a run, about: as many as a plot has room for.
const LOOKS: u32 = 240;
/// The least time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(500);
/// Clients, each with an address of its own: none comes near the rate limit of an address.
const CLIENTS: u16 = 48;
/// Wrong answers that are told in full.
const TOLD: usize = 20;

/// How long, and how much.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time that is measured.
    pub time: Duration,
    /// The time before that, in which caches and pools fill.
    pub warm_up: Duration,
    /// Requests in a second.
    pub per_second: u32,
}

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Since the measured time began, in seconds.
    pub seconds: f64,
    /// By series: a process and what of it, or a percentile of latency.
    pub values: BTreeMap<String, f64>,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests in the measured time.
    pub requests: u64,
    /// Of them those that were answered as they had to be.
    pub right: u64,
    /// Others: wrong verdicts, failures and missing answers; the first of them in words.
    pub wrong: Vec<String>,
    /// How many others.
    pub wrong_count: u64,
    /// Requests that reached an upstream without a verdict.
    pub uninspected: u64,
    /// Latency from the moment at which a request was due, in seconds: 50, 95, 99, 99.9 %, and the worst.
    pub latency: [f64; 5],
    /// Every look.
    pub looks: Vec<Look>,
    /// The time that was measured, in seconds.
    pub seconds: f64,
}

/// Runs a soak in `folder`.
///
/// # Errors
///
/// If the fleet does not start, or a process of it ends.
pub fn run(folder: &Path, plan: &Plan) -> Outcome<Seen> {
    let mut fleet = Fleet::start(folder, &setup())?;
    let mut traffic =
        Traffic::start(fleet.proxy, Load { per_second: plan.per_second, clients: CLIENTS })?;
    sleep(plan.warm_up);
    // What was seen until now is not judged.
    traffic.take();
    let passed = |fleet: &Fleet| fleet.envoy.stat("http.glacis.rbac.glacis_receipt.shadow_denied");
    let before = passed(&fleet)?;
    let rows = rows();
    let mut seen = Seen::default();
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    let period = (plan.time / LOOKS).max(LOOK_MIN);
    while begun.elapsed() < plan.time {
        sleep(period.min(plan.time.saturating_sub(begun.elapsed())));
        let records = traffic.take();
        judge(&records, &rows, &mut seen);
        let mut look = look(&mut fleet, &records)?;
        look.seconds = begun.elapsed().as_secs_f64();
        seen.looks.push(look);
        records.iter().for_each(|record| latencies.add(record.took()));
    }
    let records = traffic.finish();
    judge(&records, &rows, &mut seen);
    records.iter().for_each(|record| latencies.add(record.took()));
    seen.seconds = begun.elapsed().as_secs_f64();
    seen.latency = [0.5, 0.95, 0.99, 0.999, 1.0].map(|share| latencies.at(share));
    seen.uninspected = passed(&fleet)? - before;
    fleet.stop();
    Ok(seen)
}

/// The fleet as it is shipped, but for the access log: only requests of which Envoy has something to remark.
/// A million lines are read by nobody; what passes uninspected the guard counts.
fn setup() -> Setup {
    let log = "          - name: envoy.access_loggers.stdout\n".to_owned();
    let flagged = format!("{log}            filter: {{response_flag_filter: {{}}}}\n");
    Setup { envoy: vec![(log, flagged)], ..Setup::default() }
}

fn judge(records: &[Record], rows: &[Row], seen: &mut Seen) {
    for record in records {
        let Some(row) = rows.get(record.row) else { continue };
        seen.requests += 1;
        if record.status == row.status {
            seen.right += 1;
            continue;
        }
        seen.wrong_count += 1;
        if seen.wrong.len() < TOLD {
            let (name, wanted, Record { route, status, due, .. }) = (row.name, row.status, record);
            let at = due.as_secs_f64();
            seen.wrong.push(format!("{at:.1} s: {name} on {route:?}: {status}, not {wanted}"));
        }
    }
}

fn look(fleet: &mut Fleet, records: &[Record]) -> Outcome<Look> {
    let mut values = BTreeMap::new();
    for name in WATCHED {
        let id = match name {
            "envoy" => Some(fleet.envoy.process().id()),
            name => fleet.member(name)?.process().map(|process| process.id()),
        };
        let id = id.ok_or_else(|| Failure::new(format!("{name} has ended")))?;
        let size = Account::of(name, id)?.rss;
        values.insert(format!("{name} memory MiB"), size as f64 / f64::from(1 << 20));
        values.insert(format!("{name} files"), entries(id, "fd"));
        values.insert(format!("{name} threads"), entries(id, "task"));
    }
    let mut latencies = Latencies::default();
    records.iter().for_each(|record| latencies.add(record.took()));
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        values.insert(format!("latency {name} ms"), latencies.at(share) * 1e3);
    }
    Ok(Look { seconds: 0.0, values })
}

fn entries(id: u32, what: &str) -> f64 {
    fs::read_dir(format!("/proc/{id}/{what}")).map_or(0, Iterator::count) as f64
}

/// Times by how many there were of each, in steps of a hundredth: a million of them in no more room than ten.
#[derive(Debug, Default)]
struct Latencies {
    /// By the number of the step.
    counts: BTreeMap<i64, u64>,
    all: u64,
}

/// Each step is so much longer than the one before.
const STEP: f64 = 1.01;

impl Latencies {
    fn add(&mut self, time: Duration) {
        let step = time.as_secs_f64().max(1e-6).log(STEP).ceil();
        *self.counts.entry(step as i64).or_default() += 1;
        self.all += 1;
    }

    /// The time that this share of all did not pass, in seconds.
    fn at(&self, share: f64) -> f64 {
        let wanted = (self.all as f64 * share).ceil() as u64;
        let mut sum = 0;
        let found = self.counts.iter().find(|(_, count)| {
            sum += **count;
            sum >= wanted
        });
        found.map_or(0.0, |(step, _)| STEP.powf(*step as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_hundredth() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|ms| latencies.add(Duration::from_millis(ms)));
        for (share, seconds) in [(0.5, 0.5), (0.99, 0.99), (0.999, 0.999), (1.0, 1.0)] {
            let at = latencies.at(share);
            assert!((at - seconds).abs() <= seconds * 0.011, "{share}: {at}");
        }
        assert_eq!(Latencies::default().at(0.99), 0.0);
    }
}
