//! What is counted. Names and labels are an interface: dashboards and alerts depend on them. They stand in
//! [`table`], once, and in `docs/reference/metrics-ext-authz.md`, which is made from it.

mod reference;
mod table;

use core::time::Duration;

use glacis_service::{
    label,
    metrics::{ServiceMetrics, seconds_histogram},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    alarm::Alarm,
    answer::{Facts, Reason},
    limit_name::OF_CLIENT,
};
use glacis_inspector::Uninspected;
pub use reference::metrics_reference;

/// The metrics of the service.
#[derive(Debug)]
pub struct Metrics {
    checks: Family<VerdictLabel, Counter>,
    seconds: Histogram,
    refused: Family<ReasonLabel, Counter>,
    limits: Family<LimitLabel, Counter>,
    uninspected: Family<ReasonLabel, Counter>,
    errors: Family<KindLabel, Counter>,
    alarms: Family<KindLabel, Counter>,
    bans: Gauge,
    /// What every service counts.
    pub service: ServiceMetrics,
}

label!(VerdictLabel, verdict: &'static str);
label!(ReasonLabel, reason: &'static str);
label!(LimitLabel, limit: String, result: &'static str);
label!(KindLabel, kind: &'static str);

/// What went wrong, by `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Envoy sent what cannot be answered.
    Protocol,
    /// A bug: a Check panicked.
    Panic,
    /// More Checks at once than `max_checks`.
    Overload,
    /// More limits in one call than a store takes: a bug. A Redis that is away is told by the families of
    /// [`store`](crate::store).
    Store,
}

impl ErrorKind {
    const ALL: [Self; 4] = [Self::Protocol, Self::Panic, Self::Overload, Self::Store];

    const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Panic => "panic",
            Self::Overload => "overload",
            Self::Store => "store",
        }
    }
}

/// Verdicts as counted.
const VERDICTS: [&str; 2] = ["allow", "deny"];

/// What limits say of requests.
const LIMIT_RESULTS: [&str; 3] = ["allowed", "refused", "shadow"];

/// What the limits of clients are called, all together.
const CLIENTS: &str = "client";

impl Metrics {
    /// The metrics, registered in `registry`. Counters begin at 0, so that the first event of a kind
    /// is an increase and not an absence.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            checks: Family::default(),
            seconds: seconds_histogram(),
            refused: Family::default(),
            limits: Family::default(),
            uninspected: Family::default(),
            errors: Family::default(),
            alarms: Family::default(),
            bans: Gauge::default(),
            service: ServiceMetrics::register(registry, env!("CARGO_PKG_VERSION")),
        };
        for verdict in VERDICTS {
            drop(metrics.checks.get_or_create(&VerdictLabel { verdict }));
        }
        for reason in Reason::ALL {
            drop(metrics.refused.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        for reason in Uninspected::ALL {
            drop(metrics.uninspected.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        for result in LIMIT_RESULTS {
            let limit = CLIENTS.to_owned();
            drop(metrics.limits.get_or_create(&LimitLabel { limit, result }));
        }
        for kind in ErrorKind::ALL {
            drop(metrics.errors.get_or_create(&KindLabel { kind: kind.name() }));
        }
        for alarm in Alarm::ALL {
            drop(metrics.alarms.get_or_create(&KindLabel { kind: alarm.name() }));
        }
        table::CHECKS.register(registry, metrics.checks.clone());
        table::SECONDS.register(registry, metrics.seconds.clone());
        table::REFUSED.register(registry, metrics.refused.clone());
        table::LIMITS.register(registry, metrics.limits.clone());
        table::UNINSPECTED.register(registry, metrics.uninspected.clone());
        table::BANS.register(registry, metrics.bans.clone());
        table::ERRORS.register(registry, metrics.errors.clone());
        table::ALARMS.register(registry, metrics.alarms.clone());
        metrics
    }

    /// Counts a Check that was answered with a verdict.
    pub(crate) fn checked(&self, facts: &Facts, time: Duration) {
        self.checks.get_or_create(&VerdictLabel { verdict: facts.verdict() }).inc();
        self.seconds.observe(time.as_secs_f64());
        if let Some(reason) = facts.reason {
            self.refused.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
        }
    }

    /// Counts what a limit said of a request.
    pub(crate) fn limit(&self, name: &str, result: &'static str) {
        // There may be thousands of clients; those of the configuration are few.
        let limit = if name.starts_with(OF_CLIENT) { CLIENTS } else { name };
        self.limits.get_or_create(&LimitLabel { limit: limit.to_owned(), result }).inc();
    }

    /// Counts a request of which rules have not seen all.
    pub(crate) fn uninspected(&self, reason: &'static str) {
        self.uninspected.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        self.errors.get_or_create(&KindLabel { kind: kind.name() }).inc();
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.alarms.get_or_create(&KindLabel { kind: alarm.name() }).inc();
    }

    /// Says how late tasks run, and how many addresses are banned.
    pub(crate) fn load(&self, lag: Duration, bans: usize) {
        self.service.lag(lag);
        self.bans.set(i64::try_from(bans).unwrap_or(i64::MAX));
    }
}
