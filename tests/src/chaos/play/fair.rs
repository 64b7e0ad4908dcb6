//! One client that takes more than its share, and what others notice of it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::Play;
use crate::chaos::scenario::NearBaseline;
use crate::failure::Outcome;
use crate::greedy::{Greed, Greedy};
use crate::http;
use crate::traffic::{Record, Route};

/// How often readiness is looked at: far more often than Envoy probes.
const LOOK: Duration = Duration::from_millis(50);

/// The address of a greedy client that no scenario before had, so that no limit counts what was done before; the traffic's are
/// 127.3.0.0/16.
pub(super) fn new_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    Ipv4Addr::new(127, 4, 1, NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Play<'_> {
    pub(super) fn greedy(&mut self, greed: &Greed) -> Outcome<()> {
        let greedy = Greedy::start(self.greedy_address, self.fleet.proxy, greed)?;
        self.greedy.push((greed.clone(), greedy));
        Ok(())
    }

    /// The 99th percentile of what requests on a route have paid since the present phase began.
    fn paid(&self, route: Route) -> (usize, Duration) {
        let begun = self.phases.last().map_or(Duration::ZERO, |(begun, _)| *begun);
        let records = self.traffic.since(begun);
        let mut paid: Vec<Duration> =
            { records.iter() }.filter(|record| record.route == route).map(Record::paid).collect();
        paid.sort_unstable();
        let place = (paid.len() * 99).div_ceil(100).saturating_sub(1);
        (paid.len(), paid.get(place).copied().unwrap_or(Duration::MAX))
    }

    pub(super) fn baseline(&mut self) {
        for route in [Route::Closed, Route::Open] {
            let (_, p99) = self.paid(route);
            self.baseline.insert(route, p99);
        }
    }

    pub(super) fn near_baseline(&mut self, wanted: &NearBaseline) {
        let begun = self.phases.last().map_or(Duration::ZERO, |(begun, _)| *begun);
        let age = self.traffic.now().saturating_sub(begun);
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let name = self.phases.last().map(|(_, phase)| phase.name.clone()).unwrap_or_default();
        for route in [Route::Closed, Route::Open] {
            let base = self.baseline.get(&route).copied().unwrap_or_default();
            let allowed = base.mul_f64(wanted.factor) + wanted.plus.0;
            let limit = self.limit(allowed, since);
            let (count, p99) = self.paid(route);
            let told = format!(
                "{name}: p99 of {count} requests on {route:?} {p99:.1?}, without it {base:.1?} (at most {limit:.1?})"
            );
            match p99 <= limit {
                true => self.verdict.notes.push(told),
                false => self.fault(told),
            }
        }
    }

    pub(super) fn stays_ready(&mut self) {
        let named = |name: &'static str| Some((name, self.fleet.members.get(name)?.admin()?));
        let services = ["ext-proc-1", "ext-proc-2"].into_iter().filter_map(named).collect();
        self.watch = Some(Watch::start(services));
    }

    /// What greedy clients were answered, and when a service said that it was not ready.
    pub(super) fn judge_greed(&mut self) {
        let answers: Vec<(Greed, BTreeMap<u16, u32>)> =
            { self.greedy.iter() }.map(|(greed, it)| (greed.clone(), it.answers())).collect();
        for (greed, answers) in answers {
            let told: Vec<String> =
                answers.iter().map(|(status, count)| format!("{count} x {status}")).collect();
            let told = if told.is_empty() { "nothing".to_owned() } else { told.join(", ") };
            self.verdict.notes.push(format!("the greedy client was answered {told}"));
            let passed = answers.get(&200).copied().unwrap_or(0);
            if matches!(greed, Greed::Bodies { .. }) && passed > 0 {
                self.fault(format!("{passed} attacks of the greedy client have passed"));
            }
        }
        let unready = self.watch.take().map(Watch::end).unwrap_or_default();
        for told in unready {
            self.fault(told);
        }
    }
}

/// Looks at the readiness of services until it is ended.
#[derive(Debug)]
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    /// Each time that a service was not ready.
    unready: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start(services: Vec<(&'static str, SocketAddr)>) -> Self {
        let (over, unready) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (end, noted) = (Arc::clone(&over), Arc::<Mutex<Vec<String>>>::clone(&unready));
        let thread = spawn(move || {
            let begun = Instant::now();
            let mut was_ready = vec![true; services.len()];
            while !end.load(Ordering::Relaxed) {
                for ((name, admin), was_ready) in services.iter().zip(&mut was_ready) {
                    // Who does not answer at once on a busy machine has not said that it is not ready.
                    let Ok(told) = http::fetch(*admin, "/readyz") else { continue };
                    let is_ready = told.status == 200;
                    if *was_ready && !is_ready {
                        let (at, why) = (begun.elapsed(), told.text());
                        let told = format!("{at:.1?}: {name} is not ready: {}", why.trim());
                        noted.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                    }
                    *was_ready = is_ready;
                }
                sleep(LOOK);
            }
        });
        Self { over, unready, thread }
    }

    fn end(self) -> Vec<String> {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        std::mem::take(&mut *self.unready.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
