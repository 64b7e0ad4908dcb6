//! What one Envoy holds, and what it is told.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, atomic::AtomicU64},
};

use envoy_types::pb::{
    envoy::{
        service::rate_limit_quota::v3::{
            BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
            rate_limit_quota_response::{
                BucketAction,
                bucket_action::{AbandonAction, BucketAction as Action, QuotaAssignmentAction},
            },
            rate_limit_quota_usage_reports::BucketQuotaUsage,
        },
        r#type::v3::{
            RateLimitStrategy, TokenBucket as WireBucket,
            rate_limit_strategy::{BlanketRule, Strategy},
        },
    },
    google::protobuf::{Duration, UInt32Value},
};
use glacis_limit_store::Clock;
use glacis_limits::lease::{
    Ask, Key,
    wire::{KeyAsk, LeaseRequest},
};
use glacis_service::Readiness;

use super::{
    bucket::{Holding, Measure, TokenBucket, Usage, key},
    config::QuotaLimit,
    metrics::{QuotaMetrics, Told},
};
use crate::leases::lender::Lender;

/// Pairs of the id of a bucket, and bytes of all of them. Values of headers may be among them.
const PAIRS_MAX: usize = 32;
const ID_BYTES_MAX: usize = 4_096;

/// What all streams share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Vec<(QuotaLimit, Measure)>,
    pub(super) lender: Lender,
    pub(super) metrics: QuotaMetrics,
    pub(super) buckets_max: usize,
    pub(super) idle_ms: u64,
    pub(super) borrowers: AtomicU64,
    pub(super) readiness: Readiness,
}

impl Shared {
    /// The limit of a bucket, by the name of its counter.
    fn limit(&self, domain: &str, bucket: &HashMap<String, String>) -> Option<(String, Measure)> {
        let value = |name: &str| bucket.get(name).map(String::as_str);
        let (limit, measure) = self.limits.iter().find(|(limit, _)| limit.is_for(domain, value))?;
        Some((limit.counter(), *measure))
    }

    fn now_ms(&self) -> u64 {
        Clock::Real.now_us() / 1_000
    }
}

/// The buckets of one Envoy.
#[derive(Debug)]
pub(super) struct Buckets {
    shared: Arc<Shared>,
    /// What the lender knows it by.
    borrower: u64,
    holdings: HashMap<Key, Holding>,
}

/// A question for the lender, and whose it is.
struct Question {
    id: BucketId,
    key: Key,
    counter: String,
    ask: Ask,
    measure: Measure,
}

impl Buckets {
    pub(super) fn new(shared: Arc<Shared>, borrower: u64) -> Self {
        Self { shared, borrower, holdings: HashMap::new() }
    }

    /// What is said to a report; nothing if there is nothing to say.
    pub(super) async fn answer(
        &mut self,
        reports: RateLimitQuotaUsageReports,
    ) -> Option<RateLimitQuotaResponse> {
        let now_ms = self.shared.now_ms();
        let (mut actions, mut questions) = (Vec::new(), Vec::new());
        for report in reports.bucket_quota_usages {
            match self.question(&reports.domain, report, now_ms) {
                Next::Ask(question) => questions.push(question),
                Next::Abandon(id, told) => {
                    self.shared.metrics.told(told);
                    actions.push(abandon(id));
                }
                Next::Silence(told) => self.shared.metrics.told(told),
            }
        }
        actions.extend(self.ask(questions).await);
        (!actions.is_empty()).then_some(RateLimitQuotaResponse { bucket_action: actions })
    }

    /// What becomes of the report of one bucket.
    fn question(&mut self, domain: &str, report: BucketQuotaUsage, now_ms: u64) -> Next {
        let usage =
            Usage { allowed: report.num_requests_allowed, denied: report.num_requests_denied };
        let Some(id) = report.bucket_id.filter(|id| !id.bucket.is_empty()) else {
            return Next::Silence(Told::None);
        };
        if is_too_long(&id) {
            return Next::Abandon(id, Told::TooLong);
        }
        let Some((counter, measure)) = self.shared.limit(domain, &id.bucket) else {
            // Envoy's own behaviour without an assignment goes on, until nobody asks for the bucket.
            return match usage.total() {
                0 => Next::Abandon(id, Told::Idle),
                _ => Next::Silence(Told::None),
            };
        };
        let key = key(domain, &id.bucket);
        let room = self.shared.buckets_max > self.holdings.len();
        let ask = match self.holdings.entry(key) {
            Entry::Vacant(_) if !room => return Next::Abandon(id, Told::Full),
            Entry::Vacant(entry) => {
                let (holding, ask) = Holding::first(usage, measure, now_ms);
                entry.insert(holding);
                ask
            }
            Entry::Occupied(mut entry) => {
                let ask = entry.get_mut().next(usage, measure, now_ms);
                let is_idle = entry.get().is_idle(self.shared.idle_ms, now_ms);
                match usage.total() == 0 && is_idle {
                    true => Ask { want: 0, ..ask },
                    false => ask,
                }
            }
        };
        Next::Ask(Question { id, key, counter, ask, measure })
    }

    /// Puts questions to the lender; what is to be said to Envoy.
    async fn ask(&mut self, questions: Vec<Question>) -> Vec<BucketAction> {
        if questions.is_empty() {
            return Vec::new();
        }
        let ask = |question: &Question| KeyAsk::new(&question.counter, question.key, &question.ask);
        let asks = questions.iter().map(ask).collect();
        let request = LeaseRequest { borrower: self.borrower, asks };
        let answers = self.shared.lender.lease(&request).await.answers;
        let now_ms = self.shared.now_ms();
        let mut actions = Vec::with_capacity(questions.len());
        for (question, answer) in questions.into_iter().zip(answers) {
            if question.ask.want == 0 {
                self.holdings.remove(&question.key);
                self.shared.metrics.told(Told::Idle);
                actions.push(abandon(question.id));
                continue;
            }
            if answer.unavailable {
                self.shared.metrics.told(Told::Unavailable);
                continue;
            }
            let Some(holding) = self.holdings.get_mut(&question.key) else { continue };
            let bucket = holding.grant(answer.granted, question.measure, now_ms);
            self.shared.metrics.told(bucket.map_or(Told::Denied, |_| Told::Assigned));
            actions.push(assign(question.id, bucket, question.measure));
        }
        actions
    }
}

/// What becomes of the report of a bucket.
enum Next {
    Ask(Question),
    Abandon(BucketId, Told),
    Silence(Told),
}

fn is_too_long(id: &BucketId) -> bool {
    let bytes: usize = id.bucket.iter().map(|(name, value)| name.len() + value.len()).sum();
    id.bucket.len() > PAIRS_MAX || bytes > ID_BYTES_MAX
}

const fn abandon(id: BucketId) -> BucketAction {
    BucketAction {
        bucket_id: Some(id),
        bucket_action: Some(Action::AbandonAction(AbandonAction {})),
    }
}

fn assign(id: BucketId, bucket: Option<TokenBucket>, measure: Measure) -> BucketAction {
    let duration = |(seconds, nanos)| Some(Duration { seconds, nanos });
    let strategy = match bucket {
        None => Strategy::BlanketRule(BlanketRule::DenyAll.into()),
        Some(bucket) => Strategy::TokenBucket(WireBucket {
            max_tokens: bucket.max_tokens,
            tokens_per_fill: Some(UInt32Value { value: bucket.tokens_per_fill }),
            fill_interval: duration(bucket.fill_interval),
        }),
    };
    let action = QuotaAssignmentAction {
        assignment_time_to_live: duration((measure.lifetime_seconds.into(), 0)),
        rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
    };
    BucketAction { bucket_id: Some(id), bucket_action: Some(Action::QuotaAssignmentAction(action)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_too_long() {
        // Pairs with names of two bytes, and the bytes of the value of the first of them.
        for (pairs, bytes, expected) in [
            (1, 0, false),
            (1, ID_BYTES_MAX - 2, false),
            (1, ID_BYTES_MAX - 1, true),
            (2, ID_BYTES_MAX - 4, false),
            (2, ID_BYTES_MAX - 3, true),
            (PAIRS_MAX, 0, false),
            (PAIRS_MAX + 1, 0, true),
        ] {
            let value = |number: usize| "x".repeat(if number == 0 { bytes } else { 0 });
            let pair = |number: usize| (format!("{number:02}"), value(number));
            let id = BucketId { bucket: (0..pairs).map(pair).collect() };
            assert_eq!(is_too_long(&id), expected, "{pairs} {bytes}");
        }
    }
}
