//! What is counted of leases.

use glacis_service::metrics::Described;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

pub(crate) const CALLS: Described = Described::counter(
    "glacis_lease_calls",
    "calls",
    &["outcome"],
    "Calls of borrowers by outcome; unavailable: the store did not answer for some of the keys",
);
pub(crate) const KEYS: Described = Described::counter(
    "glacis_lease_keys",
    "keys",
    &["limit", "answer"],
    "Keys that borrowers asked about; full: there was no room for another lease",
);
pub(crate) const TOKENS: Described = Described::counter(
    "glacis_lease_tokens",
    "tokens",
    &["limit", "what"],
    "Tokens that were granted, that came back unused, and that borrowers had spent without a lease",
);
pub(crate) const HELD: Described = Described::gauge(
    "glacis_leases",
    "leases",
    &["limit"],
    "Leases, those among them that have expired since they were last looked at",
);

/// All of them, for the documentation.
pub(crate) const FAMILIES: &[Described] = &[CALLS, KEYS, TOKENS, HELD];

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered,
    Unavailable,
    Malformed,
    Overload,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unavailable => "unavailable",
            Self::Malformed => "malformed",
            Self::Overload => "overload",
        }
    }
}

/// What was said of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Granted,
    Nothing,
    Full,
    Unavailable,
}

impl Said {
    const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Nothing => "nothing",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What became of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Granted,
    Returned,
    Unleased,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Returned => "returned",
            Self::Unleased => "unleased",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySaid {
    limit: String,
    answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWhat {
    limit: String,
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLimit {
    limit: String,
}

/// The counters; clones count together.
#[derive(Clone, Debug, Default)]
pub struct LeaseMetrics {
    calls: Family<ByOutcome, Counter>,
    keys: Family<BySaid, Counter>,
    tokens: Family<ByWhat, Counter>,
    held: Family<ByLimit, Gauge>,
}

impl LeaseMetrics {
    /// The counters, registered in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        CALLS.register(registry, metrics.calls.clone());
        KEYS.register(registry, metrics.keys.clone());
        TOKENS.register(registry, metrics.tokens.clone());
        HELD.register(registry, metrics.held.clone());
        metrics
    }

    pub(crate) fn call(&self, outcome: Outcome) {
        self.calls.get_or_create(&ByOutcome { outcome: outcome.name() }).inc();
    }

    /// `limit` is one that the configuration names.
    pub(crate) fn key(&self, limit: &str, answer: Said) {
        self.keys.get_or_create(&BySaid { limit: limit.to_owned(), answer: answer.name() }).inc();
    }

    pub(crate) fn tokens(&self, limit: &str, what: What, tokens: u32) {
        if tokens > 0 {
            let labels = ByWhat { limit: limit.to_owned(), what: what.name() };
            self.tokens.get_or_create(&labels).inc_by(u64::from(tokens));
        }
    }

    pub(crate) fn held(&self, limit: &str, leases: usize) {
        let leases = i64::try_from(leases).unwrap_or(i64::MAX);
        self.held.get_or_create(&ByLimit { limit: limit.to_owned() }).set(leases);
    }
}
