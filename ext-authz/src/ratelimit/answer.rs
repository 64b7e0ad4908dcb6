//! From what the store says to what Envoy is told.

use core::time::Duration;

use envoy_types::pb::{
    envoy::{
        config::core::v3::HeaderValue,
        extensions::common::ratelimit::v3::RateLimitDescriptor,
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus, RateLimit},
        },
    },
    google::protobuf::{Duration as ProtoDuration, Struct, Value, value::Kind},
};
use glacis_limit_store::{Answer, Ask, DecidedBy, Limit, LimitError, OnStoreFailure};

use super::{
    config::{RatelimitConfig, ResponseHeaders},
    metadata::{list, mapping, merge, number, string},
    plan::{Counted, Planned},
};

/// How one descriptor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether the limit is passed, whatever becomes of that.
    pub(crate) is_over: bool,
    /// How many of the hits were within the limit.
    pub(crate) hits_within: u64,
    /// How many more are allowed in this window.
    pub(crate) remaining: u32,
    /// Seconds until the next window begins.
    pub(crate) reset_seconds: u32,
}

/// What the store is asked for a descriptor.
///
/// It is asked for one more than is allowed: a window then knows whether its limit was reached or passed,
/// which is not the same for a request that only looks. envoyproxy/ratelimit counts on beyond the limit
/// instead, to the same effect.
///
/// # Errors
/// None: one or more in a second or more is a limit.
pub(crate) fn ask(counted: &Counted, on_store_failure: OnStoreFailure) -> Result<Ask, LimitError> {
    let period = Duration::from_secs(u64::from(counted.unit.seconds()));
    let limit = Limit::fixed_window(counted.per_unit.saturating_add(1), period)?.with_undivided(1);
    let hits = u32::try_from(counted.hits).unwrap_or(u32::MAX);
    let ask = Ask::new(counted.key.clone(), limit, hits);
    // What is left is used up by a request that is refused.
    Ok(Ask { on_store_failure, partial: true, ..ask })
}

/// How a descriptor stands by the store's answer, at `now_seconds` since 1970.
pub(crate) fn standing(counted: &Counted, answer: &Answer, now_seconds: u64) -> Standing {
    let is_over = match answer.decided_by {
        DecidedBy::StoreFailure(OnStoreFailure::Allow) | DecidedBy::NotAsked => false,
        DecidedBy::StoreFailure(OnStoreFailure::Deny) => true,
        DecidedBy::Store
        | DecidedBy::OverLimitCache
        | DecidedBy::StoreFailure(OnStoreFailure::Local) => answer.remaining == 0,
    };
    let period = u64::from(counted.unit.seconds());
    let until = period - now_seconds % period;
    // The store's clock, where it has said something of its window.
    let told = answer.reset_after.as_secs() + u64::from(answer.reset_after.subsec_nanos() > 0);
    let of_store = matches!(answer.decided_by, DecidedBy::Store | DecidedBy::OverLimitCache);
    let reset = if of_store && told > 0 { told } else { until };
    let remaining = answer.remaining.saturating_sub(1).min(counted.per_unit);
    Standing {
        is_over,
        // The last token that the store gives is the one too many.
        hits_within: match (is_over, answer.decided_by) {
            (false, _) => counted.hits,
            (true, DecidedBy::StoreFailure(OnStoreFailure::Deny)) => 0,
            (true, _) => counted.hits.min(u64::from(answer.taken.saturating_sub(1))),
        },
        remaining: if is_over { 0 } else { remaining },
        reset_seconds: u32::try_from(reset.min(period)).unwrap_or(u32::MAX),
    }
}

/// A descriptor's part of the answer.
fn status(planned: &Planned, standing: Option<&Standing>) -> DescriptorStatus {
    match (planned, standing) {
        (Planned::Counted(counted), Some(standing)) => DescriptorStatus {
            code: code(standing.is_over && !counted.is_shadow()),
            current_limit: Some(RateLimit {
                name: counted.name().to_owned(),
                requests_per_unit: counted.per_unit,
                unit: counted.unit.number(),
            }),
            limit_remaining: standing.remaining,
            duration_until_reset: Some(ProtoDuration {
                seconds: standing.reset_seconds.into(),
                nanos: 0,
            }),
            quota: None,
        },
        (Planned::Unlimited { .. }, _) => DescriptorStatus {
            code: code(false),
            limit_remaining: u32::MAX,
            ..DescriptorStatus::default()
        },
        _ => DescriptorStatus { code: code(false), ..DescriptorStatus::default() },
    }
}

fn code(is_over: bool) -> i32 {
    if is_over { Code::OverLimit.into() } else { Code::Ok.into() }
}

/// The answer to a request, and whether only the shadow mode of the whole service has let it pass.
pub(crate) fn response(
    config: &RatelimitConfig,
    request: &RateLimitRequest,
    planned: &[Planned],
    standings: &[Option<Standing>],
) -> (RateLimitResponse, bool) {
    let rows = || planned.iter().zip(standings);
    let statuses: Vec<DescriptorStatus> =
        rows().map(|(planned, standing)| status(planned, standing.as_ref())).collect();
    let refuses = is_over(config, planned, &statuses);
    let headers = config.response_headers.as_ref().and_then(|names| {
        let tightest = tightest(config, planned, &statuses)?;
        Some(headers(names, tightest))
    });
    let dynamic_metadata =
        config.dynamic_metadata.then(|| dynamic_metadata(request, planned, &statuses));
    let shadowed = refuses && config.shadow_mode;
    let response = RateLimitResponse {
        overall_code: code(refuses && !config.shadow_mode),
        statuses,
        response_headers_to_add: headers.unwrap_or_default(),
        dynamic_metadata,
        ..RateLimitResponse::default()
    };
    (response, shadowed)
}

/// A request is refused when a limit is passed, or all of those in quota mode are.
fn is_over(config: &RatelimitConfig, planned: &[Planned], statuses: &[DescriptorStatus]) -> bool {
    let over = i32::from(Code::OverLimit);
    let (mut quotas, mut quotas_over) = (0_usize, 0_usize);
    for (planned, status) in planned.iter().zip(statuses) {
        match (is_quota(config, planned), status.code == over) {
            (true, is_over) => {
                quotas += 1;
                quotas_over += usize::from(is_over);
            }
            (false, true) => return true,
            (false, false) => {}
        }
    }
    quotas > 0 && quotas == quotas_over
}

/// With quota mode for all, descriptors without a limit are quotas that are never used up; those that are
/// unlimited are none.
fn is_quota(config: &RatelimitConfig, planned: &Planned) -> bool {
    match planned {
        Planned::Unlimited { .. } => false,
        Planned::Free => config.quota_mode,
        Planned::Counted(counted) => config.quota_mode || counted.is_quota(),
    }
}

/// The descriptor that headers tell about: the last one that refuses the request, or else the first of
/// those with the least left.
fn tightest<'s>(
    config: &RatelimitConfig,
    planned: &[Planned],
    statuses: &'s [DescriptorStatus],
) -> Option<&'s DescriptorStatus> {
    let over = i32::from(Code::OverLimit);
    let refusing = planned
        .iter()
        .zip(statuses)
        .rev()
        .find(|(planned, status)| status.code == over && !is_quota(config, planned));
    let limited = statuses.iter().filter(|status| status.current_limit.is_some());
    refusing
        .map(|(_, status)| status)
        .or_else(|| limited.min_by_key(|status| status.limit_remaining))
}

fn headers(names: &ResponseHeaders, status: &DescriptorStatus) -> Vec<HeaderValue> {
    let limit = status.current_limit.as_ref().map_or(0, |limit| limit.requests_per_unit);
    let reset = status.duration_until_reset.as_ref().map_or(0, |reset| reset.seconds);
    let header = |name: &str, value: String| HeaderValue {
        key: name.to_owned(),
        value,
        ..HeaderValue::default()
    };
    vec![
        header(&names.limit, limit.to_string()),
        header(&names.remaining, status.limit_remaining.to_string()),
        header(&names.reset, reset.to_string()),
    ]
}

/// What other filters may learn: the request's descriptors, and the `metadata` of limits that let it pass.
fn dynamic_metadata(
    request: &RateLimitRequest,
    planned: &[Planned],
    statuses: &[DescriptorStatus],
) -> Struct {
    let mut passed = Struct::default();
    for (planned, status) in planned.iter().zip(statuses) {
        if let Planned::Counted(counted) = planned
            && status.code == i32::from(Code::Ok)
            && let Some(metadata) = counted.metadata()
        {
            merge(&mut passed, metadata);
        }
    }
    let descriptors = request.descriptors.iter().map(|told| structure(described(told))).collect();
    mapping([
        ("domain", Some(string(&request.domain))),
        ("descriptors", Some(list(descriptors))),
        ("hitsAddend", (request.hits_addend > 0).then(|| number(request.hits_addend.into()))),
        ("metadata", (!passed.fields.is_empty()).then(|| structure(passed))),
    ])
}

fn described(descriptor: &RateLimitDescriptor) -> Struct {
    let entries = descriptor.entries.iter();
    let entries = entries.map(|entry| string(&format!("{}={}", entry.key, entry.value))).collect();
    let hits = descriptor.hits_addend.as_ref();
    // Precise up to 2^53, as numbers are in JSON.
    #[expect(clippy::cast_precision_loss, reason = "said above")]
    let hits = hits.map(|hits| number(hits.value as f64));
    mapping([("entries", Some(list(entries))), ("hitsAddend", hits)])
}

const fn structure(fields: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(fields)) }
}

#[cfg(test)]
mod tests {
    use glacis_limit_store::Key;

    use super::*;
    use crate::ratelimit::unit::Unit;

    /// While Redis is away each of several services lets its part through, and at least one request.
    #[test]
    fn shares_of_a_limit() {
        for (per_unit, services, expected) in
            [(10, 1, 10), (10, 3, 4), (5, 2, 3), (1, 4, 1), (0, 4, 0)]
        {
            let counted = Counted {
                per_unit,
                unit: Unit::Minute,
                hits: 1,
                key: Key::new(b"name", b"subject"),
                path: "path".into(),
                limit: None,
            };
            let ask = ask(&counted, OnStoreFailure::Local).unwrap();
            // With the last token it is passed.
            let allowed = ask.limit.share(services).amount() - 1;
            assert_eq!(allowed, expected, "{per_unit} among {services}");
        }
    }
}
