//! What is counted of Envoy's rate limit protocol.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use glacis_service::{
    label,
    metrics::{Described, ReloadCounts},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{answer::Standing, plan::Counted};

pub(crate) const REQUESTS: Described = Described::counter(
    "glacis_ratelimit_requests",
    "requests",
    &["verdict"],
    "Requests of Envoy's rate limit protocol by verdict; shadowed: only shadow_mode of the service has let \
     them pass",
);
pub(crate) const HITS: Described = Described::counter(
    "glacis_ratelimit_hits",
    "hits",
    &["domain", "descriptor", "result"],
    "Hits on limits of Envoy's rate limit protocol; shadowed: over a limit in shadow_mode. The first \
     metric_paths_max descriptors by name, the rest as other",
);
pub(crate) const NEAR: Described = Described::counter(
    "glacis_ratelimit_near_limit_hits",
    "hits",
    &["domain", "descriptor"],
    "Hits within a limit of which more than near_limit_percent was used",
);
pub(crate) const UNKNOWN_DOMAINS: Described = Described::counter(
    "glacis_ratelimit_unknown_domains",
    "requests",
    &[],
    "Requests of Envoy's rate limit protocol about a domain of which no file says anything",
);
pub(crate) const ERRORS: Described = Described::counter(
    "glacis_ratelimit_errors",
    "requests",
    &["kind"],
    "Requests of Envoy's rate limit protocol that got no verdict, by kind",
);
pub(crate) const RELOADS: Described = Described::counter(
    "glacis_ratelimit_reloads",
    "reloads",
    &["result"],
    "Times that the folder of limits was read while the service ran: success, or failure (not put to use)",
);

/// All of them, for the documentation.
pub(crate) const FAMILIES: &[Described] = &[REQUESTS, HITS, NEAR, UNKNOWN_DOMAINS, ERRORS, RELOADS];

/// A longer name of a descriptor has no counter of its own: values of requests may be part of it.
const PATH_BYTES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    OverLimit,
    Shadowed,
}

impl Verdict {
    pub(crate) const ALL: [Self; 3] = [Self::Ok, Self::OverLimit, Self::Shadowed];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OverLimit => "over_limit",
            Self::Shadowed => "shadowed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitResult {
    Within,
    Over,
    Shadowed,
    Unlimited,
}

impl HitResult {
    pub(crate) const ALL: [Self; 4] = [Self::Within, Self::Over, Self::Shadowed, Self::Unlimited];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Over => "over",
            Self::Shadowed => "shadowed",
            Self::Unlimited => "unlimited",
        }
    }
}

/// Why there was no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Envoy sent what cannot be answered.
    BadRequest,
    /// The store did not answer.
    Store,
    /// More requests at once than `max_calls`.
    Overload,
}

impl ErrorKind {
    pub(crate) const ALL: [Self; 3] = [Self::BadRequest, Self::Store, Self::Overload];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Store => "store",
            Self::Overload => "overload",
        }
    }
}

label!(VerdictLabels, verdict: &'static str);
label!(HitLabels, domain: Arc<str>, descriptor: Arc<str>, result: &'static str);
label!(PathLabels, domain: Arc<str>, descriptor: Arc<str>);
label!(ErrorLabels, kind: &'static str);

/// The counters.
#[derive(Clone, Debug, Default)]
pub struct RatelimitMetrics {
    requests: Family<VerdictLabels, Counter>,
    hits: Family<HitLabels, Counter>,
    near: Family<PathLabels, Counter>,
    unknown_domains: Counter,
    errors: Family<ErrorLabels, Counter>,
    pub(super) reloads: ReloadCounts,
    /// The paths that have counters of their own.
    known: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl RatelimitMetrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for verdict in Verdict::ALL {
            drop(metrics.requests.get_or_create(&VerdictLabels { verdict: verdict.name() }));
        }
        for kind in ErrorKind::ALL {
            drop(metrics.errors.get_or_create(&ErrorLabels { kind: kind.name() }));
        }
        REQUESTS.register(registry, metrics.requests.clone());
        HITS.register(registry, metrics.hits.clone());
        NEAR.register(registry, metrics.near.clone());
        UNKNOWN_DOMAINS.register(registry, metrics.unknown_domains.clone());
        ERRORS.register(registry, metrics.errors.clone());
        metrics.reloads.register(&RELOADS, registry);
        metrics
    }

    pub(crate) fn request(&self, verdict: Verdict) {
        self.requests.get_or_create(&VerdictLabels { verdict: verdict.name() }).inc();
    }

    pub(crate) fn unknown_domain(&self) {
        self.unknown_domains.inc();
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        self.errors.get_or_create(&ErrorLabels { kind: kind.name() }).inc();
    }

    /// Hits of a descriptor that is counted; `names_max` descriptors have a name of their own.
    pub(crate) fn counted(
        &self,
        domain: &str,
        counted: &Counted,
        standing: &Standing,
        near_percent: u8,
        names_max: usize,
    ) {
        let labels = self.labels(domain, &counted.path, names_max);
        let over = if counted.is_shadow() { HitResult::Shadowed } else { HitResult::Over };
        self.hit(&labels, HitResult::Within, standing.hits_within);
        self.hit(&labels, over, counted.hits - standing.hits_within);
        let near = near(counted.per_unit, standing, near_percent);
        if near > 0 {
            self.near.get_or_create(&labels).inc_by(near);
        }
    }

    /// Hits of a descriptor that is not limited.
    pub(crate) fn unlimited(&self, domain: &str, path: &Arc<str>, hits: u64, names_max: usize) {
        self.hit(&self.labels(domain, path, names_max), HitResult::Unlimited, hits);
    }

    fn hit(&self, PathLabels { domain, descriptor }: &PathLabels, result: HitResult, hits: u64) {
        if hits > 0 {
            let (domain, descriptor) = (Arc::clone(domain), Arc::clone(descriptor));
            let labels = HitLabels { domain, descriptor, result: result.name() };
            self.hits.get_or_create(&labels).inc_by(hits);
        }
    }

    fn labels(&self, domain: &str, path: &Arc<str>, names_max: usize) -> PathLabels {
        let is_named = path.len() <= PATH_BYTES_MAX && {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.contains(path) || (known.len() < names_max && known.insert(Arc::clone(path)))
        };
        let descriptor = path.strip_prefix(domain).and_then(|path| path.strip_prefix('.'));
        let descriptor = if is_named { descriptor.unwrap_or(path) } else { "other" };
        PathLabels { domain: domain.into(), descriptor: descriptor.into() }
    }
}

/// How many of the hits within a limit were in its last part.
fn near(per_unit: u32, standing: &Standing, percent: u8) -> u64 {
    let per_unit = u64::from(per_unit);
    let threshold = per_unit * u64::from(percent) / 100;
    let used = per_unit - u64::from(standing.remaining).min(per_unit);
    let before = used.saturating_sub(standing.hits_within);
    used.saturating_sub(before.max(threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_a_limit() {
        // The limit, hits within it, what remains, how many of the hits were in the last fifth.
        for (per_unit, hits_within, remaining, expected) in [
            (10, 1, 9, 0),
            (10, 1, 2, 0),
            (10, 1, 1, 1),
            (10, 1, 0, 1),
            (10, 5, 1, 1),
            (10, 10, 0, 2),
            (10, 0, 0, 0),
            (0, 0, 0, 0),
        ] {
            let standing = Standing { is_over: false, hits_within, remaining, reset_seconds: 1 };
            assert_eq!(near(per_unit, &standing, 80), expected, "{per_unit} {standing:?}");
        }
    }

    /// However many values requests have, there are no more counters than that.
    #[test]
    fn names_are_bounded() {
        let metrics = RatelimitMetrics::default();
        let mut registry = Registry::default();
        HITS.register(&mut registry, metrics.hits.clone());
        for number in 0..100 {
            metrics.unlimited("shop", &format!("shop.user_{number}").into(), 1, 10);
        }
        metrics.unlimited("shop", &"shop.user_3".into(), 1, 10);
        metrics.unlimited("shop", &format!("shop.{}", "x".repeat(256)).into(), 1, 100);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(text.matches("descriptor=").count(), 11, "{text}");
        let line = |descriptor: &str, count: u32| {
            format!(
                "glacis_ratelimit_hits_total{{domain=\"shop\",descriptor=\"{descriptor}\",\
                 result=\"unlimited\"}} {count}\n"
            )
        };
        assert!(text.contains(&line("user_3", 2)), "{text}");
        assert!(text.contains(&line("other", 91)), "{text}");
    }
}
