//! The gRPC service: a question, an answer.

use core::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};
use std::{
    panic::catch_unwind,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Instant,
};

use envoy_types::pb::envoy::service::auth::v3::{
    CheckRequest, CheckResponse,
    authorization_server::{Authorization, AuthorizationServer},
};
use glacis_service::{Readiness, alarm::AlarmLog, overload, reload::LastReload};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, service::Routes};

use crate::{
    admin::Admin,
    alarm::Alarm,
    config::Config,
    metrics::{ErrorKind, Metrics},
    policy::Policy,
    reload::{Record, Reloader},
    wire::{Answer, Asked},
};

/// What all Checks share.
#[derive(Debug)]
pub(crate) struct Shared {
    policy: RwLock<Arc<Policy>>,
    pub(crate) metrics: Metrics,
    alarms: AlarmLog,
    /// Whether a Check was turned away since it was last asked.
    turned_away: AtomicBool,
    pub(crate) reloads: Mutex<Reloads>,
}

/// What became of readings while the service runs, for the admin port.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) last: Option<LastReload>,
    /// The keys that differ from the start and are read only then.
    pub(crate) restart_needed: Vec<&'static str>,
}

impl Shared {
    /// What is in use now.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy to use. Checks that have begun keep theirs.
    pub(crate) fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.metrics.alarm(alarm);
        self.alarms.say(alarm.name(), alarm.words());
    }
}

/// The authorization service.
#[derive(Clone, Debug)]
pub struct Authorizer {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    message_bytes_max: usize,
}

impl Authorizer {
    /// The name under which gRPC knows the service, for its health.
    pub const NAME: &str = "envoy.service.auth.v3.Authorization";

    /// A service that applies `policy`, which is that of `config`.
    #[must_use]
    pub fn new(config: &Config, policy: Policy, metrics: Metrics) -> Self {
        Self {
            shared: Arc::new(Shared {
                policy: RwLock::new(Arc::new(policy)),
                metrics,
                alarms: AlarmLog::default(),
                turned_away: AtomicBool::new(false),
                reloads: Mutex::default(),
            }),
            room: Arc::new(Semaphore::new(config.max_checks.min(Semaphore::MAX_PERMITS))),
            message_bytes_max: config.max_message_bytes,
        }
    }

    /// Looks after the service while it runs, and holds readiness back when something is wrong. To be
    /// called within a runtime.
    pub fn look_after(&self, config: &Config, readiness: &Readiness) {
        let (strained, told) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        overload::watch(
            config.overload.into(),
            readiness,
            move || {
                let turned_away = strained.turned_away.swap(false, Ordering::Relaxed);
                turned_away.then_some("max_checks Checks are under way")
            },
            move |lag| told.metrics.lag(lag),
        );
    }

    /// What reads the configuration anew; the service has to be that of this reading.
    #[must_use]
    pub fn reloader(&self, path: &Path, config: Config, record: Record) -> Reloader {
        Reloader::new(path, Arc::clone(&self.shared), config, record)
    }

    /// What answers on the admin port.
    #[must_use]
    pub fn admin(&self, readiness: &Readiness) -> Admin {
        Admin::new(Arc::clone(&self.shared), readiness.clone())
    }

    /// The services of gRPC, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let message_bytes_max = self.message_bytes_max;
        Routes::new(AuthorizationServer::new(self).max_decoding_message_size(message_bytes_max))
    }

    fn decide(&self, request: CheckRequest) -> Result<Answer, Status> {
        let asked = Asked::try_from(request)?;
        if !asked.raw_headers {
            self.shared.alarm(Alarm::NoRawHeaders);
        }
        Ok(self.shared.policy().check(&asked))
    }
}

#[tonic::async_trait]
impl Authorization for Authorizer {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let metrics = &self.shared.metrics;
        let Ok(_permit) = self.room.try_acquire() else {
            metrics.error(ErrorKind::Overload);
            self.shared.turned_away.store(true, Ordering::Relaxed);
            return Err(Status::resource_exhausted("max_checks Checks are under way"));
        };
        let began = Instant::now();
        let request = request.into_inner();
        // A bug must not be a way past the policy: the failure mode of Envoy decides.
        let answered = catch_unwind(AssertUnwindSafe(|| self.decide(request)));
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => {
                metrics.error(ErrorKind::Protocol);
                return Err(status);
            }
            Err(_) => {
                metrics.error(ErrorKind::Panic);
                tracing::error!("a Check panicked: a bug; it is answered with an error");
                return Err(Status::internal("the Check failed"));
            }
        };
        metrics.checked(answer.verdict, began.elapsed());
        Ok(Response::new(answer.into()))
    }
}
