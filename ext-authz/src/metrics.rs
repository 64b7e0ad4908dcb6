//! What is counted. Names and labels are an interface: dashboards and alerts depend on them. They stand in
//! [`table`], once, and in `docs/reference/metrics-ext-authz.md`, which is made from it.

mod reference;
mod table;

use core::{sync::atomic::AtomicU64, time::Duration};

use glacis_service::{
    metrics::{BUILD, CERTIFICATES, HANDSHAKES, LAG, RELOADS},
    process,
    tls::TlsMetrics,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::alarm::Alarm;
pub use reference::metrics_reference;

/// The metrics of the service.
#[derive(Debug)]
pub struct Metrics {
    checks: Family<VerdictLabel, Counter>,
    seconds: Histogram,
    errors: Family<KindLabel, Counter>,
    alarms: Family<KindLabel, Counter>,
    reloads: Family<ResultLabel, Counter>,
    lag: Gauge<f64, AtomicU64>,
    /// What is counted of TLS.
    pub tls: TlsMetrics,
}

macro_rules! label {
    ($name:ident, $($field:ident: $type:ty),+) => {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct $name {
            $($field: $type),+
        }
    };
}

label!(VerdictLabel, verdict: &'static str);
label!(KindLabel, kind: &'static str);
label!(ResultLabel, result: &'static str);
label!(VersionLabel, version: &'static str);

/// What went wrong, by `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Envoy sent what cannot be answered.
    Protocol,
    /// A bug: a Check panicked.
    Panic,
    /// More Checks at once than `max_checks`.
    Overload,
}

impl ErrorKind {
    const ALL: [Self; 3] = [Self::Protocol, Self::Panic, Self::Overload];

    const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Panic => "panic",
            Self::Overload => "overload",
        }
    }
}

/// Verdicts as counted.
const VERDICTS: [&str; 2] = ["allow", "deny"];

const RESULTS: [&str; 2] = ["success", "failure"];

impl Metrics {
    /// The metrics, registered in `registry`. Counters begin at 0, so that the first event of a kind
    /// is an increase and not an absence.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            checks: Family::default(),
            seconds: Histogram::new([
                0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05,
                0.1, 0.25, 0.5, 1.0,
            ]),
            errors: Family::default(),
            alarms: Family::default(),
            reloads: Family::default(),
            lag: Gauge::default(),
            tls: TlsMetrics::default(),
        };
        for verdict in VERDICTS {
            drop(metrics.checks.get_or_create(&VerdictLabel { verdict }));
        }
        for kind in ErrorKind::ALL {
            drop(metrics.errors.get_or_create(&KindLabel { kind: kind.name() }));
        }
        for alarm in Alarm::ALL {
            drop(metrics.alarms.get_or_create(&KindLabel { kind: alarm.name() }));
        }
        for result in RESULTS {
            drop(metrics.reloads.get_or_create(&ResultLabel { result }));
        }
        table::CHECKS.register(registry, metrics.checks.clone());
        table::SECONDS.register(registry, metrics.seconds.clone());
        table::ERRORS.register(registry, metrics.errors.clone());
        table::ALARMS.register(registry, metrics.alarms.clone());
        RELOADS.register(registry, metrics.reloads.clone());
        LAG.register(registry, metrics.lag.clone());
        HANDSHAKES.register(registry, metrics.tls.handshakes.clone());
        CERTIFICATES.register(registry, metrics.tls.reloads.clone());
        let build: Family<VersionLabel, Gauge> = Family::default();
        build.get_or_create(&VersionLabel { version: env!("CARGO_PKG_VERSION") }).set(1);
        BUILD.register(registry, build);
        process::register(registry);
        metrics
    }

    /// Counts a Check that was answered with a verdict.
    pub(crate) fn checked(&self, verdict: &'static str, time: Duration) {
        self.checks.get_or_create(&VerdictLabel { verdict }).inc();
        self.seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        self.errors.get_or_create(&KindLabel { kind: kind.name() }).inc();
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.alarms.get_or_create(&KindLabel { kind: alarm.name() }).inc();
    }

    /// Counts an attempt to put another configuration to use.
    pub(crate) fn reloaded(&self, good: bool) {
        let [success, failure] = RESULTS;
        let result = if good { success } else { failure };
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Says how late tasks run.
    pub(crate) fn lag(&self, lag: Duration) {
        self.lag.set(lag.as_secs_f64());
    }
}
