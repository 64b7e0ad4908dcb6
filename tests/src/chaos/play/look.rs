//! Steps that only look: at Envoy's statistics, at metrics, at processes, at what requests have paid.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PAUSE, Play};
use crate::chaos::scenario::{Column, Metric, Until};
use crate::failure::{Failure, Outcome, doing};
use crate::settings;
use crate::traffic::{Record, Route};

impl Play<'_> {
    pub(super) fn until(&mut self, until: &Until) -> Outcome<()> {
        let Until { cluster, healthy, within, column } = until;
        let mut seen = self.fleet.healthy(cluster)?;
        let patience = within.0.mul_f64(self.slack).max(Duration::from_secs(20));
        while seen != *healthy && self.done.elapsed() < patience {
            sleep(PAUSE);
            seen = self.fleet.healthy(cluster)?;
        }
        let took = self.done.elapsed();
        let limit = self.limit(within.0, self.done);
        if seen != *healthy {
            return Err(Failure::new(format!(
                "{cluster} has {seen} healthy hosts, not {healthy}, after {took:.1?}"
            )));
        }
        if took > limit {
            self.fault(format!(
                "{cluster} had {healthy} healthy hosts after {took:.2?}, not {limit:.2?}"
            ));
        }
        let place = match column {
            Some(Column::Detected) => &mut self.verdict.detected,
            Some(Column::Recovered) => &mut self.verdict.recovered,
            None => return Ok(()),
        };
        *place = (*place).max(Some(took));
        Ok(())
    }

    /// What a time may be: what the scenario says, and what the machine has made everybody wait since then.
    pub(super) fn limit(&self, wanted: Duration, since: Instant) -> Duration {
        wanted.mul_f64(self.slack) + self.jitter.since(since)
    }

    pub(super) fn p99(&mut self, route: Route, below: Duration) {
        let begun = self.phases.last().map_or(Duration::ZERO, |(begun, _)| *begun);
        let records = self.traffic.since(begun);
        let mut paid: Vec<Duration> =
            { records.iter() }.filter(|record| record.route == route).map(Record::paid).collect();
        paid.sort_unstable();
        let place = (paid.len() * 99).div_ceil(100).saturating_sub(1);
        let age = self.traffic.now().saturating_sub(begun);
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let limit = self.limit(below, since);
        if let Some(p99) = paid.get(place) {
            let name = self.phases.last().map_or("", |(_, phase)| phase.name.as_str());
            let (p99, limit) = (p99.as_secs_f64() * 1e3, limit.as_secs_f64() * 1e3);
            let count = paid.len();
            self.verdict.notes.push(format!(
                "{name}: p99 of {count} requests on {route:?} {p99:.1} ms (at most {limit:.1})"
            ));
        }
        match paid.get(place) {
            Some(p99) if *p99 <= limit => {}
            p99 => {
                self.fault(format!("p99 of {} requests was {p99:.2?}, not {limit:.2?}", paid.len()))
            }
        }
    }

    pub(super) fn unmoved(&mut self, names: &[String]) -> Outcome<()> {
        let now = self.fleet.envoy.stats("")?;
        for name in names {
            let (before, now) = (self.stats_at_phase.get(name), now.get(name));
            if now.is_none() || before != now {
                self.fault(format!("{name} was {before:?} and is {now:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn moved(&mut self, wanted: &BTreeMap<String, u64>) -> Outcome<()> {
        let now = self.fleet.envoy.stats("")?;
        for (name, least) in wanted {
            let before = self.stats_at_start.get(name).copied().unwrap_or(0);
            let grown = now.get(name).copied().unwrap_or(0).saturating_sub(before);
            if grown < *least {
                self.fault(format!("{name} has grown by {grown}, not by {least}"));
            }
        }
        Ok(())
    }

    pub(super) fn status(&mut self, wanted: &BTreeMap<String, String>) -> Outcome<()> {
        let mut command = Command::new(settings::cli()?);
        command.args(["status", "--json", "--admin", &self.fleet.admin.to_string()]);
        let output = command.output().map_err(doing("run glacis status"))?;
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        for (cluster, state) in wanted {
            let breakers = told["breakers"].as_array().into_iter().flatten();
            let found = { breakers }.find(|breaker| breaker["cluster"] == **cluster);
            let said = found.and_then(|breaker| breaker["state"].as_str()).unwrap_or_default();
            if said != state {
                self.fault(format!("glacis status says {said:?} of {cluster}, not {state:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn metric(&mut self, metric: &Metric) -> Outcome<()> {
        let sum = |metrics: &BTreeMap<String, f64>| -> f64 {
            { metrics.iter() }
                .filter(|(name, _)| name.starts_with(&metric.name))
                .map(|(_, value)| value)
                .sum()
        };
        let now = sum(&self.fleet.member(&metric.of)?.metrics());
        let before = self.metrics_at_start.get(metric.of.as_str()).map_or(0.0, sum);
        // A process that has been started anew counts from nothing.
        let before = if now < before { 0.0 } else { before };
        let grown = now - before;
        if grown < metric.at_least || grown > metric.at_most {
            let Metric { of, name, at_least, at_most } = metric;
            self.fault(format!("{name} of {of} has grown by {grown}, not {at_least} to {at_most}"));
        }
        Ok(())
    }

    /// Bytes of a process in memory.
    pub(super) fn resident(&mut self, name: &str) -> Outcome<u64> {
        let id = match name {
            "envoy" => self.fleet.envoy.process().id(),
            name => self.process(name)?.id(),
        };
        crate::bench::measure::resident_bytes(id)
    }

    pub(super) fn memory_below(&mut self, most: &BTreeMap<String, u64>) -> Outcome<()> {
        for (name, most) in most {
            let mib = self.resident(name)? >> 20;
            self.verdict.notes.push(format!("{name} holds {mib} MiB (at most {most})"));
            if mib > *most {
                self.fault(format!("{name} holds {mib} MiB, not {most}"));
            }
        }
        Ok(())
    }

    pub(super) fn never_ended(&mut self, names: &[String]) -> Outcome<()> {
        for name in names {
            let before = self.processes.get(name.as_str()).copied();
            let process = self.process(name)?;
            let now = process.ended().is_none().then(|| process.id());
            if before != now {
                self.fault(format!("{name} was process {before:?} and is {now:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn ended(&mut self, names: &[String]) -> Outcome<()> {
        for name in names {
            if self.process(name)?.ended().is_none() {
                self.fault(format!("{name} still runs"));
            }
        }
        Ok(())
    }

    pub(super) fn memory_grew_below(&mut self, percent: u32) -> Outcome<()> {
        for (name, before) in self.memory.clone() {
            let now = self.resident(&name)?;
            let most = before + before * u64::from(percent) / 100;
            let (is_more, before, now) = (now > most, before >> 20, now >> 20);
            self.verdict.notes.push(format!("{name} held {before} MiB and holds {now}"));
            if is_more {
                self.fault(format!(
                    "{name} has grown from {before} MiB to {now}: over {percent} %"
                ));
            }
        }
        Ok(())
    }
}
