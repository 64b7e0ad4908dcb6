//! What a request asks of the store: for each of its descriptors a limit, or none.

use std::{collections::HashSet, sync::Arc};

use envoy_types::pb::{
    envoy::{
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride,
        },
        service::ratelimit::v3::RateLimitRequest,
    },
    google::protobuf::Struct,
};
use glacis_limit_store::{ASKS_MAX, Key};

use super::{
    rules::{Entry, Limit, Matched, Quantity, Rules, called},
    unit::Unit,
};

/// What becomes of one descriptor.
#[derive(Debug)]
pub(crate) enum Planned {
    /// No limit is for it, or another one replaces its limit.
    Free,
    /// Its limit says that there is none.
    Unlimited {
        /// What the limit is called in metrics.
        path: Arc<str>,
        /// How often.
        hits: u64,
    },
    /// It is counted.
    Counted(Counted),
}

/// A descriptor that is counted.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) per_unit: u32,
    pub(crate) unit: Unit,
    /// How often it is to be counted; 0 only looks.
    pub(crate) hits: u64,
    /// Whose counter.
    pub(crate) key: Key,
    /// What the limit is called in metrics.
    pub(crate) path: Arc<str>,
    /// What is configured of it; nothing if the request has brought its limit along.
    pub(crate) limit: Option<Arc<Limit>>,
}

impl Counted {
    pub(crate) fn name(&self) -> &str {
        self.limit.as_ref().map_or("", |limit| &limit.name)
    }

    pub(crate) fn is_shadow(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.shadow_mode)
    }

    pub(crate) fn is_quota(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.quota_mode)
    }

    pub(crate) fn metadata(&self) -> Option<&Struct> {
        self.limit.as_ref().and_then(|limit| limit.metadata.as_ref())
    }
}

/// A request that cannot be answered. Envoy's configuration is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRequest {
    NoDomain,
    NoDescriptors,
    TooManyDescriptors,
    /// The limit that a descriptor brings along has no unit.
    NoUnit,
}

impl BadRequest {
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::NoDomain => "rate limit domain must not be empty",
            Self::NoDescriptors => "rate limit descriptor list must not be empty",
            Self::TooManyDescriptors => "more than 64 descriptors in one request",
            Self::NoUnit => "the limit of a descriptor has no unit of time",
        }
    }
}

/// Plans all descriptors of a request, in their order.
///
/// # Errors
/// When the request cannot be answered.
pub(crate) fn plan(rules: &Rules, request: &RateLimitRequest) -> Result<Vec<Planned>, BadRequest> {
    if request.domain.is_empty() {
        return Err(BadRequest::NoDomain);
    }
    if request.descriptors.is_empty() {
        return Err(BadRequest::NoDescriptors);
    }
    if request.descriptors.len() > ASKS_MAX {
        return Err(BadRequest::TooManyDescriptors);
    }
    let mut replaced: HashSet<Box<str>> = HashSet::new();
    let mut planned = Vec::with_capacity(request.descriptors.len());
    for descriptor in &request.descriptors {
        let hits = hits(request, descriptor);
        planned.push(plan_one(rules, &request.domain, descriptor, hits, &mut replaced)?);
    }
    for plan in &mut planned {
        if let Planned::Counted(counted) = plan
            && replaced.contains(counted.name())
        {
            *plan = Planned::Free;
        }
    }
    Ok(planned)
}

/// What the names of counters begin with. A limit that comes with a request has a counter of its own: a small
/// one would cut short what a large one has counted.
const CONFIGURED: &str = "rls";
const BROUGHT: &str = "rls-own";

/// How often a descriptor counts: what it says itself, 0 included; or what the request says, where 0 is
/// what is sent when nothing is said, and means 1.
fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    let of_request = u64::from(request.hits_addend.max(1));
    descriptor.hits_addend.as_ref().map_or(of_request, |hits| hits.value)
}

fn plan_one(
    rules: &Rules,
    domain: &str,
    descriptor: &RateLimitDescriptor,
    hits: u64,
    replaced: &mut HashSet<Box<str>>,
) -> Result<Planned, BadRequest> {
    if !rules.knows(domain) {
        return Ok(Planned::Free);
    }
    let entries: Vec<Entry<'_>> = descriptor
        .entries
        .iter()
        .map(|entry| Entry { key: &entry.key, value: &entry.value })
        .collect();
    if let Some(limit) = descriptor.limit {
        return brought_along(domain, limit, &entries, hits).map(Planned::Counted);
    }
    let Some(Matched { limit, shared, path }) = rules.find(domain, &entries) else {
        return Ok(Planned::Free);
    };
    replaced.extend(limit.replaces.iter().cloned());
    Ok(match limit.quantity {
        Quantity::Unlimited => Planned::Unlimited { path, hits },
        Quantity::Requests { per_unit, unit } => {
            let key = key(CONFIGURED, domain, &entries, &shared);
            let limit = Some(Arc::clone(limit));
            Planned::Counted(Counted { per_unit, unit, hits, key, path, limit })
        }
    })
}

/// A limit that Envoy's configuration gives in place of ours (`limit` of a descriptor).
fn brought_along(
    domain: &str,
    limit: RateLimitOverride,
    entries: &[Entry<'_>],
    hits: u64,
) -> Result<Counted, BadRequest> {
    let unit = Unit::numbered(limit.unit).ok_or(BadRequest::NoUnit)?;
    let mut path = domain.to_owned();
    for entry in entries {
        path.push('.');
        path.push_str(&called(entry.key, entry.value));
    }
    let (key, path) = (key(BROUGHT, domain, entries, &[]), path.into());
    Ok(Counted { per_unit: limit.requests_per_unit, unit, hits, key, path, limit: None })
}

/// Whose counter it is. The unit of time is added by the store.
///
/// Keys and values are kept apart, so that no value can pass for a key: envoyproxy/ratelimit writes all of
/// them one after the other, and there the descriptors (`a_b`, `c`) and (`a`, `b_c`) share a counter.
fn key(kind: &str, domain: &str, entries: &[Entry<'_>], shared: &[Option<&str>]) -> Key {
    let mut name = kind.to_owned();
    push(&mut name, domain);
    let mut subject = String::new();
    for (index, entry) in entries.iter().enumerate() {
        push(&mut name, entry.key);
        push(&mut subject, shared.get(index).copied().flatten().unwrap_or(entry.value));
    }
    Key::new(name.as_bytes(), subject.strip_prefix('|').unwrap_or_default().as_bytes())
}

/// Adds a part that begins with a bar, and in which there is none that is not escaped.
fn push(text: &mut String, part: &str) {
    text.push('|');
    for char in part.chars() {
        if matches!(char, '|' | '\\') {
            text.push('\\');
        }
        text.push(char);
    }
}
