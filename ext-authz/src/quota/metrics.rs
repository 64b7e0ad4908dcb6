//! What is counted of Envoy's rate limit quota protocol.

use glacis_service::metrics::Described;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

pub(crate) const STREAMS: Described =
    Described::gauge("glacis_quota_streams", "streams", &[], "Envoys that report what buckets use");
pub(crate) const REFUSED: Described = Described::counter(
    "glacis_quota_refused_streams",
    "streams",
    &[],
    "Streams beyond quota.max_streams, which were refused",
);
pub(crate) const BUCKETS: Described = Described::counter(
    "glacis_quota_buckets",
    "reports",
    &["answer"],
    "Reports of buckets by what was answered; none: no limit is for it, unavailable: the store did not answer, \
     idle, full, too_long: it was abandoned, so that Envoy forgets it",
);

/// All of them, for the documentation.
pub(crate) const FAMILIES: &[Described] = &[STREAMS, REFUSED, BUCKETS];

/// What was answered to the report of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// So many requests.
    Assigned,
    /// None: the limit has nothing left.
    Denied,
    /// That nobody uses it.
    Idle,
    /// That there are too many.
    Full,
    /// That its name is too long.
    TooLong,
    /// Nothing: no limit is for it.
    None,
    /// Nothing: the store did not answer.
    Unavailable,
}

impl Told {
    pub(crate) const ALL: [Self; 7] = [
        Self::Assigned,
        Self::Denied,
        Self::Idle,
        Self::Full,
        Self::TooLong,
        Self::None,
        Self::Unavailable,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Denied => "denied",
            Self::Idle => "idle",
            Self::Full => "full",
            Self::TooLong => "too_long",
            Self::None => "none",
            Self::Unavailable => "unavailable",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAnswer {
    answer: &'static str,
}

/// The counters; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaMetrics {
    pub(crate) streams: Gauge,
    pub(crate) refused: Counter,
    buckets: Family<ByAnswer, Counter>,
}

impl QuotaMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for told in Told::ALL {
            drop(metrics.buckets.get_or_create(&ByAnswer { answer: told.name() }));
        }
        STREAMS.register(registry, metrics.streams.clone());
        REFUSED.register(registry, metrics.refused.clone());
        BUCKETS.register(registry, metrics.buckets.clone());
        metrics
    }

    pub(crate) fn told(&self, told: Told) {
        self.buckets.get_or_create(&ByAnswer { answer: told.name() }).inc();
    }
}
