//! What every service counts of itself.

use core::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{process, tls::TlsMetrics, token::TokenMetrics};

pub use crate::metric_family::{Described, Kind, RESULTS, TABLE_HEAD, listed, result, rows};

/// The labels of a family: `label!(KindLabel, kind: &'static str)`.
#[macro_export]
macro_rules! label {
    ($name:ident, $($field:ident: $type:ty),+ $(,)?) => {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, ::prometheus_client::encoding::EncodeLabelSet)]
        struct $name {
            $($field: $type),+
        }
    };
}

/// How long something took that Envoy waits for, in seconds: from 50 µs to 1 s.
#[must_use]
pub fn seconds_histogram() -> Histogram {
    Histogram::new([
        0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
        0.5, 1.0,
    ])
}

/// How late tasks run.
pub const LAG: Described = Described::gauge(
    "glacis_lag_seconds",
    "seconds",
    &[],
    "How late a task ran that was due, at the last look: what each message waits for a thread",
);

/// Attempts to read the configuration anew.
pub const RELOADS: Described = Described::counter(
    "glacis_reloads",
    "reloads",
    &["result"],
    "Configurations that were read while the service ran: success, or failure (not put to use)",
);

/// The version.
pub const BUILD: Described =
    Described::gauge("glacis_build_info", "1", &["version"], "The version that runs; always 1");

/// TLS of listeners.
pub const HANDSHAKES: Described = Described::counter(
    "glacis_tls_handshakes",
    "handshakes",
    &["listener", "result"],
    "TLS handshakes by listener and result",
);

/// Certificates that were read anew.
pub const CERTIFICATES: Described = Described::counter(
    "glacis_tls_reloads",
    "reloads",
    &["listener", "result"],
    "Certificates that were read anew: success, or failure (those before stay in use)",
);

/// Requests without the token of a listener.
pub const UNAUTHENTICATED: Described = Described::counter(
    "glacis_unauthenticated",
    "requests",
    &["listener"],
    "Requests and gRPC calls that were rejected because they did not bring the listener's token",
);

/// Token files that were reloaded.
pub const TOKENS: Described = Described::counter(
    "glacis_token_reloads",
    "reloads",
    &["listener", "result"],
    "Token files that were reloaded: success, or failure (the token before stays in use)",
);

label!(ResultLabel, result: &'static str);
label!(VersionLabel, version: &'static str);

/// How often something was read anew, by [result](RESULTS). Clones are the same.
#[derive(Clone, Debug)]
pub struct ReloadCounts(Family<ResultLabel, Counter>);

impl Default for ReloadCounts {
    /// Both at 0, so that the first failure is an increase and not an absence.
    fn default() -> Self {
        let counts: Family<ResultLabel, Counter> = Family::default();
        for result in RESULTS {
            drop(counts.get_or_create(&ResultLabel { result }));
        }
        Self(counts)
    }
}

impl ReloadCounts {
    /// Registers them as `family`, which has one label, `result`.
    pub fn register(&self, family: &Described, registry: &mut Registry) {
        family.register(registry, self.0.clone());
    }

    /// Counts an attempt.
    pub fn count(&self, good: bool) {
        self.0.get_or_create(&ResultLabel { result: result(good) }).inc();
    }
}

/// What every service counts of itself.
#[derive(Debug)]
pub struct ServiceMetrics {
    lag: Gauge<f64, AtomicU64>,
    /// Attempts to put another configuration to use.
    pub reloads: ReloadCounts,
    /// What is counted of TLS.
    pub tls: TlsMetrics,
    /// Counters of authentication by token.
    pub tokens: TokenMetrics,
}

impl ServiceMetrics {
    /// The metrics of a service of this version, registered in `registry` with those of the process.
    pub fn register(registry: &mut Registry, version: &'static str) -> Self {
        let metrics = Self {
            lag: Gauge::default(),
            reloads: ReloadCounts::default(),
            tls: TlsMetrics::default(),
            tokens: TokenMetrics::default(),
        };
        LAG.register(registry, metrics.lag.clone());
        metrics.reloads.register(&RELOADS, registry);
        HANDSHAKES.register(registry, metrics.tls.handshakes.clone());
        CERTIFICATES.register(registry, metrics.tls.reloads.clone());
        UNAUTHENTICATED.register(registry, metrics.tokens.rejected.clone());
        TOKENS.register(registry, metrics.tokens.reloads.clone());
        let build: Family<VersionLabel, Gauge> = Family::default();
        build.get_or_create(&VersionLabel { version }).set(1);
        BUILD.register(registry, build);
        process::register(registry);
        metrics
    }

    /// Says how late tasks run.
    pub fn lag(&self, lag: Duration) {
        self.lag.set(lag.as_secs_f64());
    }
}
