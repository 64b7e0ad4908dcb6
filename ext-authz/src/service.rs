//! The gRPC service: a question, an answer.

use core::{net::SocketAddr, time::Duration};
use std::{
    path::Path,
    sync::{Arc, RwLock},
    time::Instant,
};

use envoy_types::pb::envoy::service::auth::v3::{
    CheckRequest, CheckResponse,
    authorization_server::{Authorization, AuthorizationServer},
};
use glacis_limit_store::{Bans, Store};
use glacis_rules::Record;
use glacis_service::{
    Evaluators, Priority, Readiness, Waiting, alarm::AlarmLog, command::Failure, files, now,
    overload, reload::Reloads,
};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, metadata::MetadataMap, service::Routes};

use crate::{
    admin::Admin,
    answer::{Answer, Reason},
    check::{Patience, Undecided},
    config::Config,
    lists::{self, BanList},
    metrics::{ErrorKind, Metrics},
    policy::Policy,
    reload::Reloader,
    shared::Shared,
    store::{self, Opened},
    unreadable,
};

/// Evaluations that may wait for such a thread, of which there are as many as cores. (ext-proc has keys for both:
/// it is the one to which Envoys send all bodies.)
const EVALUATIONS_MAX: usize = 64;

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

    /// A service that applies `policy`, which is that of `config`. What is told of its store is registered in
    /// `registry`. To be called within a runtime.
    ///
    /// # Errors
    /// When the store cannot be used as `config` says.
    pub fn new(
        config: &Config,
        policy: Policy,
        metrics: Metrics,
        registry: &mut Registry,
    ) -> Result<Self, Failure> {
        let Opened { limits, plain, redis } = store::open(&config.store, registry)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let evaluators = Evaluators::start(threads, EVALUATIONS_MAX, Priority::Awaited)?;
        Ok(Self {
            shared: Arc::new(Shared {
                policy: RwLock::new(Arc::new(policy)),
                redis: redis.as_ref().map(|redis| redis.store().redis().clone()),
                bans: Arc::new(Bans::new(Arc::clone(&plain), redis)),
                store: limits,
                plain_store: plain,
                evaluators,
                metrics,
                alarms: AlarmLog::default(),
                reloads: Reloads::default(),
            }),
            room: Arc::new(Semaphore::new(config.max_checks.min(Semaphore::MAX_PERMITS))),
            message_bytes_max: config.max_message_bytes,
        })
    }

    /// Serves lists for wasm-filters, if there is a listener for them, until the process ends.
    ///
    /// # Errors
    /// When the address is in use or not allowed.
    pub async fn serve_lists(&self, config: &Config) -> Result<Option<SocketAddr>, Failure> {
        let Some(address) = config.lists.listen else { return Ok(None) };
        let listener = files::bind(address).await?;
        let bound = listener.local_addr()?;
        let shared = Arc::clone(&self.shared);
        let list = BanList::default();
        tokio::spawn(lists::serve(listener, move |name| match name {
            lists::BANS => Some(list.text(&shared.bans, now().as_secs())),
            name => shared.policy().texts.get(name).cloned(),
        }));
        Ok(Some(bound))
    }

    /// Looks after the service while it runs, and holds readiness back when something is wrong. To be
    /// called within a runtime.
    pub fn look_after(&self, config: &Config, readiness: &Readiness) {
        let shared = Arc::clone(&self.shared);
        let report = move |lag| shared.metrics.load(lag, shared.bans.len());
        overload::watch(config.overload.into(), readiness, report);
        tokio::spawn(Arc::clone(&self.shared.bans).keep(|| now().as_secs()));
    }

    /// What reads the configuration anew; the service has to be that of this reading.
    #[must_use]
    pub fn reloader(&self, path: &Path, config: Config, record: Record) -> Reloader {
        Reloader::new(path, Arc::clone(&self.shared), config, record)
    }

    /// What answers on the admin port; to be called within a runtime. `limits_reloads` tell of the folder of rate limits, where there is one.
    #[must_use]
    pub fn admin(&self, readiness: &Readiness, limits_reloads: Option<Reloads>) -> Admin {
        Admin::new(Arc::clone(&self.shared), readiness.clone(), limits_reloads)
    }

    /// Where counters of requests are kept, for the rate limit protocol.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    /// Where counters are kept, without a cache of refusals: for lenders, who give tokens back.
    #[must_use]
    pub fn plain_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.plain_store)
    }

    /// What its Checks share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The services of gRPC, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let (message_bytes_max, shared) = (self.message_bytes_max, Arc::clone(&self.shared));
        let server = AuthorizationServer::new(self).max_decoding_message_size(message_bytes_max);
        unreadable::refused(Routes::new(server), move |answer| {
            shared.metrics.checked(answer.facts(), Duration::ZERO);
        })
    }
}

/// How long Envoy waits for an answer, but for a fifth of it that the answer may take on its way: what `grpc-timeout`
/// says (digits and a unit), `None` where it is not there.
fn patience(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let nanoseconds: u64 = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        _ => return None,
    };
    let digits: u64 = digits.parse().ok().filter(|digits| *digits < 100_000_000)?;
    Some(Duration::from_nanos(digits.saturating_mul(nanoseconds)) * 4 / 5)
}

#[tonic::async_trait]
impl Authorization for Authorizer {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let metrics = &self.shared.metrics;
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics.error(ErrorKind::Overload);
            return Err(Status::resource_exhausted("max_checks Checks are under way"));
        };
        let began = Instant::now();
        let until = patience(request.metadata()).map(|patience| began + patience);
        // On a task of its own: a panic, which is a bug that the request has found, must not be a way past the policy,
        // not even where Envoy's failure mode lets requests pass. The task goes on when Envoy gives up waiting, which
        // drops this future, and takes up room until it ends: only a body that still waits for the rules is not
        // evaluated any more.
        let (shared, waiting) = (Arc::clone(&self.shared), Waiting::default());
        let patience = Patience { given_up: waiting.given_up(), until: until.map(Into::into) };
        let request = request.into_inner();
        let work = tokio::spawn(async move {
            let answered = shared.answer(request, patience).await;
            drop(permit);
            answered
        });
        let answered = work.await.unwrap_or_else(|_| {
            metrics.error(ErrorKind::Panic);
            Ok(Answer::without_request(Reason::Fault, Reason::Fault.status()))
        });
        let answer = answered.inspect_err(|undecided| {
            let kind = match undecided {
                Undecided::Protocol(_) => ErrorKind::Protocol,
                Undecided::Store(_) => ErrorKind::Store,
                // Nobody is there to get it.
                Undecided::GivenUp => return,
            };
            metrics.error(kind);
            tracing::warn!(?undecided, "a Check is answered with an error");
        })?;
        metrics.checked(answer.facts(), began.elapsed());
        Ok(Response::new(answer.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_envoy_waits() {
        for (text, milliseconds) in [
            ("250m", Some(200)),
            ("1S", Some(800)),
            ("1M", Some(48_000)),
            ("1H", Some(2_880_000)),
            ("5000u", Some(4)),
            ("5000000n", Some(4)),
            ("99999999H", Some(14_757_395_258_967)),
            ("100000000m", None),
            ("1", None),
            ("m", None),
            ("-1m", None),
            ("1x", None),
            ("", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            let expected = milliseconds.map(Duration::from_millis);
            let found = patience(&metadata)
                .map(|found| Duration::from_millis(u64::try_from(found.as_millis()).unwrap()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(patience(&MetadataMap::new()), None);
    }
}
