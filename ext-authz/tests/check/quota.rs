//! Envoy's rate limit quota protocol: what is reported, and what is assigned.

use core::time::Duration;
use std::collections::HashMap;

use envoy_types::pb::envoy::{
    service::rate_limit_quota::v3::{
        BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
        rate_limit_quota_response::bucket_action::BucketAction as Action,
        rate_limit_quota_service_client::RateLimitQuotaServiceClient,
        rate_limit_quota_usage_reports::BucketQuotaUsage,
    },
    r#type::v3::rate_limit_strategy::Strategy,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::harness::Service;

/// Assignments of one bucket hold sixty at most, and a second more or less makes no difference but one.
pub(crate) const QUOTA: &str = "quota: {idle_seconds: 0, max_streams: 2, max_buckets_per_stream: 2, limits: \
    [{name: tenants, domain: shop, match: {kind: tenant}, requests: 600, per_seconds: 600, burst: 40, lifetime_seconds: 60}]}\n";

/// A stream, as Envoy opens it.
struct Stream {
    reports: mpsc::Sender<RateLimitQuotaUsageReports>,
    answers: Streaming<RateLimitQuotaResponse>,
}

impl Stream {
    async fn open(service: &Service) -> Result<Self, Status> {
        let mut client = RateLimitQuotaServiceClient::new(service.channel().await);
        let (reports, stream) = mpsc::channel(8);
        let answers = client.stream_rate_limit_quotas(ReceiverStream::new(stream)).await?;
        Ok(Self { reports, answers: answers.into_inner() })
    }

    /// What is said of a bucket with this many requests allowed and refused.
    async fn report(&mut self, bucket: &[(&str, &str)], allowed: u64, denied: u64) -> String {
        let pairs = bucket.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let usage = BucketQuotaUsage {
            bucket_id: Some(BucketId { bucket: pairs.collect::<HashMap<_, _>>() }),
            num_requests_allowed: allowed,
            num_requests_denied: denied,
            ..BucketQuotaUsage::default()
        };
        let bucket_quota_usages = vec![usage];
        let domain = "shop".to_owned();
        let reports = RateLimitQuotaUsageReports { domain, bucket_quota_usages };
        self.reports.send(reports).await.unwrap();
        self.said().await
    }

    /// What is said next, within a moment.
    async fn said(&mut self) -> String {
        let answer = match timeout(Duration::from_millis(500), self.answers.message()).await {
            Err(_) => return "nothing".to_owned(),
            Ok(answer) => match answer {
                Ok(answer) => answer.expect("the stream goes on"),
                Err(status) => return format!("{:?}", status.code()),
            },
        };
        let [action] = answer.bucket_action.as_slice() else { panic!("{answer:?}") };
        match action.bucket_action.as_ref().unwrap() {
            Action::AbandonAction(_) => "abandon".to_owned(),
            Action::QuotaAssignmentAction(assigned) => {
                let lifetime = assigned.assignment_time_to_live.unwrap().seconds;
                match assigned.rate_limit_strategy.unwrap().strategy.unwrap() {
                    Strategy::BlanketRule(rule) => format!("rule {rule}"),
                    Strategy::TokenBucket(bucket) => format!(
                        "{} at once and {} in {} s, for {lifetime} s",
                        bucket.max_tokens,
                        bucket.tokens_per_fill.unwrap().value,
                        bucket.fill_interval.unwrap().seconds
                    ),
                    other @ Strategy::RequestsPerTimeUnit(_) => panic!("{other:?}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_used_is_what_was_lent() {
    let service = Service::start(QUOTA, &[]);
    let mut one = Stream::open(&service).await.unwrap();
    let acme = [("kind", "tenant"), ("tenant", "acme")];
    assert_eq!(one.report(&acme, 1, 0).await, "16 at once and 14 in 60 s, for 60 s");
    // The limit has 40 in hand: all of them, less those of the first report.
    let more = one.report(&acme, 30, 60).await;
    let expected = ["5 at once and 4 in 60 s, for 60 s", "5 at once and 5 in 60 s, for 60 s"];
    assert!(expected.contains(&more.as_str()), "{more}");
    // Two buckets of one stream are the most, and buckets that differ have counters of their own.
    let other = [("tenant", "other"), ("kind", "tenant")];
    assert_eq!(one.report(&other, 1, 0).await, "16 at once and 14 in 60 s, for 60 s");
    let third = [("kind", "tenant"), ("tenant", "third")];
    assert_eq!(one.report(&third, 1, 0).await, "abandon");
    // Another Envoy has the rest of the same limit.
    let mut two = Stream::open(&service).await.unwrap();
    let rest = two.report(&acme, 0, 1).await;
    assert!(rest == "rule 1" || rest.starts_with("1 at once"), "{rest}");
    // No limit is for it; and what is too long to be a name.
    assert_eq!(two.report(&[("kind", "path")], 1, 0).await, "nothing");
    assert_eq!(two.report(&[("kind", "path")], 0, 0).await, "abandon");
    assert_eq!(two.report(&[("kind", &"x".repeat(5_000))], 1, 0).await, "abandon");
    assert_eq!(two.report(&[], 1, 0).await, "nothing");
    // With `idle_seconds: 0` a bucket without requests is given up at once, and there is room again.
    assert_eq!(one.report(&other, 0, 0).await, "abandon");
    assert_ne!(one.report(&third, 1, 0).await, "abandon");
    let refused = Stream::open(&service).await.err().unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    for (metric, expected) in [
        ("glacis_quota_streams", 2.0),
        ("glacis_quota_refused_streams_total", 1.0),
        (r#"glacis_quota_buckets_total{answer="none"}"#, 2.0),
        (r#"glacis_quota_buckets_total{answer="full"}"#, 1.0),
        (r#"glacis_quota_buckets_total{answer="too_long"}"#, 1.0),
        (r#"glacis_quota_buckets_total{answer="idle"}"#, 2.0),
    ] {
        assert_eq!(service.metric(metric), expected, "{metric}");
    }
}

/// A stream has no end of its own: it must not hold up the end of the process.
#[tokio::test]
async fn streams_end_with_the_process() {
    let service = Service::start(QUOTA, &[]);
    let mut stream = Stream::open(&service).await.unwrap();
    stream.report(&[("kind", "tenant")], 1, 0).await;
    let began = std::time::Instant::now();
    let last = async {
        for _ in 0..20 {
            match stream.said().await {
                nothing if nothing == "nothing" => {}
                said => return said,
            }
        }
        "nothing".to_owned()
    };
    let (said, ended) = tokio::join!(last, async {
        tokio::task::spawn_blocking(|| service.terminate()).await.unwrap()
    });
    assert!(said == "Unavailable" && ended.success(), "{said} {ended:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
