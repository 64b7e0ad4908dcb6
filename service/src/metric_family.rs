//! Families of metrics: one description for each, from which its registration and its documentation are made; and the
//! values of the label `result`.

use core::fmt::{Error, Write as _};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::MetricType,
    registry::{Metric, Registry},
};

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

/// Attempts, by how they ended.
pub const RESULTS: [&str; 2] = [SUCCESS, FAILURE];
pub(crate) const SUCCESS: &str = "success";
pub(crate) const FAILURE: &str = "failure";

/// How an attempt ended that was `good`, or not.
#[must_use]
pub const fn result(good: bool) -> &'static str {
    if good { SUCCESS } else { FAILURE }
}
