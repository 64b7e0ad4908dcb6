//! The gRPC service.

use core::time::Duration;
use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use glacis_limit_store::{Clock, DecidedBy, OnStoreFailure, Store, StoreError, Taking};
use glacis_service::{
    command::Failure,
    config::ConfigError,
    reload::{Reload, Reloads, attempt},
};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::{
    answer::{Standing, ask, response, standing},
    compile::Bounds,
    config::{RatelimitConfig, StoreFailure},
    folder::{self, Reading},
    metrics::{ErrorKind, RatelimitMetrics, Verdict},
    plan::{Counted, Planned, plan},
    rules::Rules,
};

/// Bytes of one request: descriptors with headers of 60 KiB each, and there is room for all of them.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What the folder of the configuration says, read and checked.
#[derive(Debug)]
pub struct Limits {
    config: RatelimitConfig,
    reading: Reading,
    fingerprint: u64,
}

impl Limits {
    /// Reads the folder that `config` names.
    ///
    /// # Errors
    /// What is wrong with it: file, line, key and what to write instead.
    pub fn read(config: &RatelimitConfig) -> Result<Self, ConfigError> {
        Self::read_noting(config).1
    }

    /// What has no effect in it, each with file, line and key.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.reading.warnings
    }

    /// The fingerprint is taken first, so that a change in between is noticed.
    fn read_noting(config: &RatelimitConfig) -> (u64, Result<Self, ConfigError>) {
        let fingerprint = folder::fingerprint(&config.config);
        let reading = folder::read(&config.config, config.merge_domains, Bounds::default());
        let limits = |reading| Self { config: config.clone(), reading, fingerprint };
        (fingerprint, reading.map(limits))
    }

    fn log(&self) {
        for warning in self.warnings() {
            tracing::warn!(warning, "a rate limit configuration says what has no effect");
        }
    }
}

/// Envoy's rate limit service (`envoy.service.ratelimit.v3.RateLimitService`).
#[derive(Clone, Debug)]
pub struct RateLimiter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: RatelimitConfig,
    rules: RwLock<Arc<Rules>>,
    store: Arc<dyn Store>,
    clock: Clock,
    metrics: RatelimitMetrics,
    room: Semaphore,
}

impl RateLimiter {
    /// A service that answers by `limits` and counts in `store`, and what reads them anew, which it tells
    /// `reloads`.
    #[must_use]
    pub fn new(
        limits: Limits,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: RatelimitMetrics,
        reloads: Reloads,
    ) -> (Self, Reloader) {
        limits.log();
        let Limits { config, reading, fingerprint } = limits;
        let room = Semaphore::new(config.max_calls.min(Semaphore::MAX_PERMITS));
        let rules = RwLock::new(Arc::new(reading.rules));
        let shared = Arc::new(Shared { config, rules, store, clock, metrics, room });
        (Self { shared: Arc::clone(&shared) }, Reloader { shared, fingerprint, reloads })
    }

    /// The service, to be served.
    #[must_use]
    pub fn service(self) -> RateLimitServiceServer<Self> {
        RateLimitServiceServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl RateLimitService for RateLimiter {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let shared = &*self.shared;
        let Ok(_room) = shared.room.try_acquire() else {
            shared.metrics.error(ErrorKind::Overload);
            return Err(Status::resource_exhausted("max_calls requests are being answered"));
        };
        shared.answer(request.get_ref()).await.map(Response::new)
    }
}

impl Shared {
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn answer(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let rules = self.rules();
        let planned = plan(&rules, request).map_err(|bad| {
            self.metrics.error(ErrorKind::BadRequest);
            Status::invalid_argument(bad.message())
        })?;
        if !rules.knows(&request.domain) {
            self.metrics.unknown_domain();
        }
        let standings = self.count(&planned).await.map_err(|error| {
            self.metrics.error(ErrorKind::Store);
            Status::unavailable(error.to_string())
        })?;
        self.count_hits(&request.domain, &planned, &standings);
        let (response, shadowed) = response(&self.config, request, &planned, &standings);
        let is_over = response.overall_code != 1;
        self.metrics.request(match (shadowed, is_over) {
            (true, _) => Verdict::Shadowed,
            (false, true) => Verdict::OverLimit,
            (false, false) => Verdict::Ok,
        });
        Ok(response)
    }

    /// Counts in the store what is counted, all of it in one call. A descriptor that is refused costs the
    /// others all the same, as with envoyproxy/ratelimit.
    async fn count(&self, planned: &[Planned]) -> Result<Vec<Option<Standing>>, StoreError> {
        let policy = match self.config.on_store_failure {
            StoreFailure::Error | StoreFailure::Allow => OnStoreFailure::Allow,
            StoreFailure::Deny => OnStoreFailure::Deny,
            StoreFailure::Local => OnStoreFailure::Local,
        };
        let counting = planned.iter().filter_map(counted);
        let asks: Result<Vec<_>, _> = counting.map(|counted| ask(counted, policy)).collect();
        // A limit that the store cannot count is none of ours: each unit was tried in the tests.
        let asks = asks.map_err(|_| StoreError::Unreadable)?;
        let mut answers = Vec::new();
        if !asks.is_empty() {
            answers = self.store.take(&asks, Taking::EachForItself).await?;
        }
        let is_away = |answer: &glacis_limit_store::Answer| {
            matches!(answer.decided_by, DecidedBy::StoreFailure(_))
        };
        if self.config.on_store_failure == StoreFailure::Error && answers.iter().any(is_away) {
            return Err(StoreError::Unavailable);
        }
        let now_seconds = Duration::from_micros(self.clock.now_us()).as_secs();
        let mut answers = answers.iter();
        let mut standings = Vec::with_capacity(planned.len());
        for planned in planned {
            standings.push(match counted(planned) {
                None => None,
                Some(counted) => {
                    let answer = answers.next().ok_or(StoreError::Unreadable)?;
                    Some(standing(counted, answer, now_seconds))
                }
            });
        }
        Ok(standings)
    }

    fn count_hits(&self, domain: &str, planned: &[Planned], standings: &[Option<Standing>]) {
        let RatelimitConfig { near_limit_percent, metric_paths_max, .. } = self.config;
        for (planned, standing) in planned.iter().zip(standings) {
            match (planned, standing) {
                (Planned::Counted(counted), Some(standing)) => {
                    let percent = near_limit_percent;
                    self.metrics.counted(domain, counted, standing, percent, metric_paths_max);
                }
                (Planned::Unlimited { path, hits }, _) => {
                    self.metrics.unlimited(domain, path, *hits, metric_paths_max);
                }
                _ => {}
            }
        }
    }
}

const fn counted(planned: &Planned) -> Option<&Counted> {
    match planned {
        Planned::Counted(counted) => Some(counted),
        Planned::Free | Planned::Unlimited { .. } => None,
    }
}

/// Reads the folder of a running service anew. What is not good changes nothing.
#[derive(Debug)]
pub struct Reloader {
    shared: Arc<Shared>,
    fingerprint: u64,
    reloads: Reloads,
}

impl Reloader {
    fn folder(&self) -> &PathBuf {
        &self.shared.config.config
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let (fingerprint, limits) = Limits::read_noting(&self.shared.config);
        self.fingerprint = fingerprint;
        let limits = limits?;
        limits.log();
        let rules = Arc::new(limits.reading.rules);
        *self.shared.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }
}

impl Reload for Reloader {
    fn as_read(&self) -> u64 {
        self.fingerprint
    }

    fn now(&self) -> u64 {
        folder::fingerprint(self.folder())
    }

    fn reload(&mut self) {
        let last = attempt("rate limits", || self.try_reload());
        self.shared.metrics.reloads.count(last.error.is_none());
        self.reloads.attempted(last);
    }
}
