//! What metrics are called: one description for each family, from which its registration and its
//! documentation are made; and what every service counts of itself.

use core::{
    fmt::{Error, Write as _},
    sync::atomic::AtomicU64,
    time::Duration,
};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

use crate::{process, tls::TlsMetrics, token::TokenMetrics};

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

/// What a family measures in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, but for restarts.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How often values were up to each of its bounds.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A family of metrics: all that is known of it before there is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name as registered: for a counter without `_total`.
    pub name: &'static str,
    /// What it measures in.
    pub kind: Kind,
    /// The unit of its values, such as `requests` or `seconds`.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says; a sentence for people.
    pub help: &'static str,
}

impl Described {
    /// A counter.
    #[must_use]
    pub const fn counter(
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Counter, unit, labels, help }
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Gauge, unit, labels, help }
    }

    /// A histogram.
    #[must_use]
    pub const fn histogram(
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram, unit, labels, help }
    }

    /// The name that queries use.
    #[must_use]
    pub fn queried(&self) -> String {
        let end = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{end}", self.name)
    }

    /// Registers `metric` as this family.
    pub fn register(&self, registry: &mut Registry, metric: impl Metric) {
        registry.register(self.name, self.help, metric);
    }

    /// Begins this family, for what is looked up when it is asked for.
    ///
    /// # Errors
    /// When the text cannot be written.
    pub fn descriptor<'e>(
        &self,
        encoder: &'e mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'e>, Error> {
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        // The library ends a sentence itself, where metrics are registered.
        let help = format!("{}.", self.help);
        encoder.encode_descriptor(self.name, &help, None, kind)
    }

    /// Writes `metric` as this family, for what is looked up when it is asked for.
    ///
    /// # Errors
    /// When the text cannot be written.
    pub fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: &impl EncodeMetric,
    ) -> core::fmt::Result {
        metric.encode(self.descriptor(encoder)?)
    }

    /// Its row in a table in Markdown.
    #[must_use]
    pub fn row(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        let mut row = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            row,
            "| `{}` | {} | {} | {} | {} |",
            self.queried(),
            self.kind.name(),
            self.unit,
            labels.join(", "),
            self.help
        );
        row
    }
}

/// The head of a table of [`Described::row`]s.
pub const TABLE_HEAD: &str = "| family | type | unit | labels | says |\n|---|---|---|---|---|\n";

/// Rows of a table of [`Described::row`]s.
#[must_use]
pub fn rows(families: &[Described]) -> String {
    families.iter().map(Described::row).collect()
}

/// Names in a cell of a table.
#[must_use]
pub fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
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

/// Attempts, by how they ended.
pub const RESULTS: [&str; 2] = [SUCCESS, FAILURE];
pub(crate) const SUCCESS: &str = "success";
pub(crate) const FAILURE: &str = "failure";

/// How an attempt ended that was `good`, or not.
#[must_use]
pub const fn result(good: bool) -> &'static str {
    if good { SUCCESS } else { FAILURE }
}

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
