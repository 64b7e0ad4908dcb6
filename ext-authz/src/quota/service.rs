//! The gRPC service: a stream for each Envoy.

use core::time::Duration;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use envoy_types::pb::envoy::service::rate_limit_quota::v3::{
    RateLimitQuotaResponse, RateLimitQuotaUsageReports,
    rate_limit_quota_service_server::{RateLimitQuotaService, RateLimitQuotaServiceServer},
};
use glacis_service::Readiness;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    bucket::Measure,
    config::{QuotaConfig, QuotaLimit},
    metrics::QuotaMetrics,
    stream::{Buckets, Shared},
};
use crate::leases::lender::Lender;

/// Bytes of one report: ten thousand buckets with ids of some hundred bytes, several times over.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Envoy reports every five seconds, whether there is something to tell or not: who is silent for so long is
/// gone.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Envoy's rate limit quota service; clones are one.
#[derive(Clone, Debug)]
pub(super) struct Quotas {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
}

impl Quotas {
    /// A service that assigns what `lender` lends, by the limits of `config`, which has been checked.
    pub(super) fn new(
        config: &QuotaConfig,
        lender: Lender,
        metrics: QuotaMetrics,
        readiness: Readiness,
    ) -> Self {
        let measured = |limit: &QuotaLimit| {
            let outstanding_max = limit.leased().terms().ok()?.outstanding_max();
            let lifetime_seconds = limit.lifetime_seconds;
            Some((limit.clone(), Measure { lifetime_seconds, outstanding_max }))
        };
        let shared = Shared {
            limits: config.limits.iter().filter_map(measured).collect(),
            lender,
            metrics,
            buckets_max: config.max_buckets_per_stream,
            idle_ms: u64::from(config.idle_seconds) * 1_000,
            borrowers: AtomicU64::new(0),
            readiness,
        };
        let room = Semaphore::new(config.max_streams.min(Semaphore::MAX_PERMITS));
        Self { shared: Arc::new(shared), room: Arc::new(room) }
    }

    /// The service, to be served.
    pub(super) fn service(self) -> RateLimitQuotaServiceServer<Self> {
        RateLimitQuotaServiceServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

type Answer = Result<RateLimitQuotaResponse, Status>;

#[tonic::async_trait]
impl RateLimitQuotaService for Quotas {
    type StreamRateLimitQuotasStream = ReceiverStream<Answer>;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Self::StreamRateLimitQuotasStream>, Status> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.shared.metrics.refused.inc();
            return Err(Status::resource_exhausted("quota.max_streams streams are open"));
        };
        // One answer may wait; then reports wait, by the flow control of HTTP/2.
        let (answers, stream) = mpsc::channel(1);
        tokio::spawn(converse(Arc::clone(&self.shared), request.into_inner(), answers, permit));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Answers reports until one of both ends it.
async fn converse(
    shared: Arc<Shared>,
    mut reports: Streaming<RateLimitQuotaUsageReports>,
    answers: mpsc::Sender<Answer>,
    permit: OwnedSemaphorePermit,
) {
    shared.metrics.streams.inc();
    let borrower = shared.borrowers.fetch_add(1, Ordering::Relaxed);
    let mut buckets = Buckets::new(Arc::clone(&shared), borrower);
    loop {
        let report = tokio::select! {
            report = tokio::time::timeout(SILENCE_MAX, reports.message()) => report,
            () = shared.readiness.ended() => {
                // Envoy asks another service then.
                let _ = answers.try_send(Err(Status::unavailable("the process ends")));
                break;
            }
        };
        let Ok(Ok(Some(report))) = report else { break };
        if let Some(answer) = buckets.answer(report).await
            && answers.send(Ok(answer)).await.is_err()
        {
            break;
        }
    }
    shared.metrics.streams.dec();
    drop(permit);
}
