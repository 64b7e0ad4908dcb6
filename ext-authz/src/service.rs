//! The gRPC service: a question, an answer.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use envoy_types::pb::envoy::service::auth::v3::{
    CheckRequest, CheckResponse,
    authorization_server::{Authorization, AuthorizationServer},
};
use glacis_inspector::{Header, request_id};
use glacis_limit_store::{Answer as Taken, Ask, Bans, Redis, Store, StoreError, Taking};
use glacis_rules::Record;
use glacis_service::{
    Evaluators, GivenUp, Priority, Readiness, Waiting, alarm::AlarmLog, chance::random_id,
    command::Failure, files, now, overload, reload::Reloads,
};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, service::Routes};

use crate::{
    admin::Admin,
    alarm::Alarm,
    answer::{Answer, Facts, Passed, Reason, Refused},
    ban,
    config::Config,
    lists::{self, BanList},
    metrics::{ErrorKind, Metrics},
    policy::Policy,
    profile::{Found, Occasion, Profile},
    rate_limit::{Outcome, RateLimit, outcome},
    reload::Reloader,
    store,
    subject::Subject,
    wire::Asked,
};

/// Bytes of a body beyond which rules run on a thread for long work, so that other Checks need not wait.
const INLINE_BODY_BYTES: usize = 64 << 10;

/// Evaluations that may wait for such a thread, of which there are as many as cores. (ext-proc has keys for both:
/// it is the one to which Envoys send all bodies.)
const EVALUATIONS_MAX: usize = 64;

/// What all Checks share.
#[derive(Debug)]
pub(crate) struct Shared {
    policy: RwLock<Arc<Policy>>,
    store: Arc<dyn Store>,
    /// The line of the store, where it is one to Redis.
    pub(crate) redis: Option<Redis>,
    bans: Arc<Bans>,
    evaluators: Evaluators,
    pub(crate) metrics: Metrics,
    alarms: AlarmLog,
    /// Whether a Check was turned away since it was last asked.
    pub(crate) reloads: Reloads,
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
        let (store, redis) = store::open(&config.store, registry)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let evaluators = Evaluators::start(threads, EVALUATIONS_MAX, Priority::Awaited)?;
        Ok(Self {
            shared: Arc::new(Shared {
                policy: RwLock::new(Arc::new(policy)),
                redis: redis.as_ref().map(|redis| redis.store().redis().clone()),
                bans: Arc::new(Bans::new(Arc::clone(&store), redis)),
                store,
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

    /// What answers on the admin port. `limits_reloads` tell of the folder of rate limits, where there is one.
    #[must_use]
    pub fn admin(&self, readiness: &Readiness, limits_reloads: Option<Reloads>) -> Admin {
        Admin::new(Arc::clone(&self.shared), readiness.clone(), limits_reloads)
    }

    /// Where counters are kept, for other protocols that count.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    /// The services of gRPC, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let message_bytes_max = self.message_bytes_max;
        Routes::new(AuthorizationServer::new(self).max_decoding_message_size(message_bytes_max))
    }
}

/// A Check that has no verdict.
#[derive(Debug)]
enum Undecided {
    /// Envoy sent what cannot be answered.
    Protocol(Status),
    /// More limits in one call than a store takes, which is a bug: the configuration has fewer. A Redis that is
    /// away is no error, since each limit says what is answered then.
    Store(StoreError),
    /// Too many bodies wait for the rules.
    Crowded,
    /// Envoy waits no more: nobody is answered, and no rule was run.
    GivenUp,
    /// A bug.
    Panic,
}

impl From<Undecided> for Status {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Protocol(status) => status,
            Undecided::Store(error) => Self::unavailable(error.to_string()),
            Undecided::Crowded => Self::resource_exhausted("too many bodies wait for the rules"),
            Undecided::GivenUp => Self::cancelled("nobody waits for this Check"),
            Undecided::Panic => Self::internal("the Check failed"),
        }
    }
}

impl Shared {
    async fn answer(
        self: Arc<Self>,
        request: CheckRequest,
        given_up: GivenUp,
    ) -> Result<Answer, Undecided> {
        let asked = Arc::new(Asked::try_from(request).map_err(Undecided::Protocol)?);
        if !asked.raw_headers {
            self.alarm(Alarm::NoRawHeaders);
        }
        if asked.source.is_none() {
            self.alarm(Alarm::NoClientAddress);
        }
        let now = now();
        let policy = self.policy();
        let headers = asked.headers();
        let id = name(&asked, &headers);
        let mut facts = Facts { request_id: id.clone(), ..Facts::default() };
        let (subject, listed) = policy.subject(&asked, &headers, now.as_secs());
        facts.client = subject.client().map(|(client, _)| client.name.clone());
        let decided = policy.decide(&subject, listed);
        facts.policy = decided.policy.map(str::to_owned);
        let address = subject.address.filter(|_| !decided.unlimited);
        if address.is_some_and(|address| self.bans.of(address, now.as_secs()).is_some()) {
            return Ok(refuse(Reason::Banned, Vec::new(), &headers, facts));
        }
        if let Some(reason) = decided.refused {
            let more = policy.challenge(reason).into_iter().collect();
            self.refused(&policy, reason, address, now).await;
            return Ok(refuse(reason, more, &headers, facts));
        }
        let mut told = Vec::new();
        if !decided.unlimited {
            let limited = self.limited(&policy, &subject).await?;
            facts.shadow = limited.would_refuse.is_some();
            facts.limit = limited.refused.clone().or(limited.would_refuse);
            if limited.refused.is_some() {
                self.refused(&policy, Reason::RateLimit, address, now).await;
                return Ok(refuse(Reason::RateLimit, limited.headers, &headers, facts));
            }
            told = limited.headers;
        }
        let passed = Passed { response: told, ..policy.passed(&subject) };
        let Some(profile) = policy.profile(asked.profile.as_deref()) else {
            return Ok(Answer::Pass(passed, facts));
        };
        facts.profile = Some(profile.name().to_owned());
        drop(headers);
        let (profile, asked) = (Arc::clone(profile), Arc::clone(&asked));
        let found = self.evaluate(Job { profile, asked, id, now, given_up }).await?;
        let answer = self.judged(passed, found, facts);
        if answer.facts().reason.is_some() {
            self.refused(&policy, Reason::Rule, address, now).await;
        }
        Ok(answer)
    }

    /// Remembers a refusal of what came from this address.
    async fn refused(
        &self,
        policy: &Policy,
        reason: Reason,
        address: Option<IpAddr>,
        now: Duration,
    ) {
        let Some(address) = address else { return };
        let scenarios = ban::of(&policy.scenarios, reason);
        if let Some(scenario) = self.bans.refused(&scenarios, address, now.as_secs()).await {
            tracing::warn!(%address, scenario = scenario.name(), "banned for a time");
        }
    }

    /// Has rules look at a request, on a thread for it if that takes long.
    async fn evaluate(&self, job: Job) -> Result<Found, Undecided> {
        if job.asked.body.len() <= INLINE_BODY_BYTES {
            return Ok(job.found());
        }
        let submitted = self.evaluators.submit(job, evaluate).map_err(|_| Undecided::Crowded)?;
        submitted.await.map_err(|_| Undecided::Panic)?.ok_or(Undecided::GivenUp)
    }

    /// What limits say of a request: all of them in one call.
    async fn limited(&self, policy: &Policy, subject: &Subject<'_>) -> Result<Outcome, Undecided> {
        let (mut limits, mut asks): (Vec<&RateLimit>, Vec<Ask>) = (Vec::new(), Vec::new());
        for limit in policy.limits(subject) {
            if let Some(ask) = limit.ask(subject) {
                limits.push(limit);
                asks.push(ask);
            }
        }
        if asks.is_empty() {
            return Ok(Outcome::default());
        }
        // What is on trial must not keep the others from counting.
        let on_trial = limits.iter().any(|limit| limit.is_shadow());
        let taking = if on_trial { Taking::EachForItself } else { Taking::AllOrNothing };
        let answers = self.store.take(&asks, taking).await.map_err(Undecided::Store)?;
        self.count(&limits, &answers);
        Ok(outcome(&limits, &answers))
    }

    fn count(&self, limits: &[&RateLimit], answers: &[Taken]) {
        for (limit, answer) in limits.iter().zip(answers) {
            let result = match (answer.allowed, limit.is_shadow()) {
                (true, _) => "allowed",
                (false, false) => "refused",
                (false, true) => "shadow",
            };
            self.metrics.limit(limit.name(), result);
        }
    }

    /// What comes of a request that rules have seen.
    fn judged(&self, passed: Passed, found: Found, mut facts: Facts) -> Answer {
        facts.rules = (!found.rules.is_empty()).then_some(found.rules);
        facts.inspected = Some(found.inspected);
        facts.uninspected = found.uninspected;
        if let Some(reason) = found.uninspected {
            self.metrics.uninspected(reason);
        }
        let Some(reply) = found.reply else { return Answer::Pass(passed, facts) };
        facts.reason = Some(Reason::Rule);
        let headers = reply.headers.into_iter().map(|(name, value)| (name.to_owned(), value));
        let refused =
            Refused { status: reply.status, headers: headers.collect(), body: reply.body };
        Answer::Refuse(refused, facts)
    }
}

/// A name for the request: that which it has, or Envoy's for the stream, or one of ours.
fn name(asked: &Asked, headers: &[Header<'_>]) -> String {
    if let Some(id) = request_id(headers) {
        return id.to_owned();
    }
    if !asked.stream.is_empty() && asked.stream.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return asked.stream.clone();
    }
    random_id()
}

fn refuse(
    reason: Reason,
    more: Vec<(String, String)>,
    headers: &[Header<'_>],
    mut facts: Facts,
) -> Answer {
    facts.reason = Some(reason);
    Answer::Refuse(Refused::new(reason.status(), more, headers, &facts.request_id), facts)
}

/// A request that rules are to look at.
struct Job {
    profile: Arc<Profile>,
    asked: Arc<Asked>,
    id: String,
    now: Duration,
    given_up: GivenUp,
}

impl Job {
    fn found(self) -> Found {
        let Self { profile, asked, id, now, .. } = self;
        profile.evaluate(&asked, &asked.headers(), Occasion { id: &id, now })
    }
}

/// Runs on the thread: nothing comes of it when nobody waits any more.
fn evaluate(job: Job) -> Option<Found> {
    if job.given_up.is_so() {
        return None;
    }
    Some(job.found())
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
        // On a task of its own: a panic, which is a bug, must not be a way past the policy. Envoy's failure mode
        // decides then. It goes on when Envoy gives up waiting, which drops this future, and takes up room until it
        // ends: only a body that still waits for the rules is not evaluated any more.
        let (shared, waiting) = (Arc::clone(&self.shared), Waiting::default());
        let (request, given_up) = (request.into_inner(), waiting.given_up());
        let work = tokio::spawn(async move {
            let answered = shared.answer(request, given_up).await;
            drop(permit);
            answered
        });
        let answered = work.await.unwrap_or(Err(Undecided::Panic));
        let answer = answered.inspect_err(|undecided| {
            let kind = match undecided {
                Undecided::Protocol(_) => ErrorKind::Protocol,
                Undecided::Store(_) => ErrorKind::Store,
                Undecided::Crowded => ErrorKind::Overload,
                Undecided::Panic => ErrorKind::Panic,
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
    use envoy_types::pb::envoy::service::auth::v3::{
        AttributeContext,
        attribute_context::{self, HttpRequest},
    };
    use glacis_engine::Parts;
    use glacis_rules::RecordingSource;

    use super::*;
    use crate::config::ProfileConfig;

    /// A request of which Envoy's stream has this name.
    fn asked(stream: &str) -> Asked {
        let http = HttpRequest {
            id: stream.to_owned(),
            method: "GET".to_owned(),
            path: "/?q=attack".to_owned(),
            host: "shop.example".to_owned(),
            ..HttpRequest::default()
        };
        let request = attribute_context::Request {
            http: Some(http),
            ..attribute_context::Request::default()
        };
        let attributes = AttributeContext { request: Some(request), ..AttributeContext::default() };
        Asked::try_from(CheckRequest { attributes: Some(attributes) }).unwrap()
    }

    #[test]
    fn a_request_has_a_name() {
        let header =
            |value: &'static str| Header { name: b"x-request-id", value: value.as_bytes() };
        for (headers, stream, expected) in [
            (&[header("abc-1")][..], "7", "abc-1"),
            (&[header("no name")], "7", "7"),
            (&[], "7", "7"),
            (&[header("abc-1")], "", "abc-1"),
        ] {
            assert_eq!(name(&asked(stream), headers), expected);
        }
        // One of ours is no other's, in no other process.
        let own = || name(&asked("no name"), &[]);
        assert_eq!(own().len(), 36);
        assert_eq!(name(&asked(""), &[]).len(), 36);
        assert_ne!(own(), own());
    }

    #[test]
    fn what_nobody_waits_for_is_not_evaluated() {
        let directives =
            "SecRuleEngine On\nSecRule ARGS \"@contains attack\" \"id:1,phase:1,deny\"\n";
        let config = ProfileConfig {
            base: false,
            directives: directives.to_owned(),
            ..ProfileConfig::default()
        };
        let (source, mut parts) = (RecordingSource::new(), Parts::default());
        let profile = Arc::new(Profile::build("a", &config, 0, &source, &mut parts).unwrap());
        let waiting = Waiting::default();
        let job = || Job {
            profile: Arc::clone(&profile),
            asked: Arc::new(asked("7")),
            id: "7".to_owned(),
            now: Duration::ZERO,
            given_up: waiting.given_up(),
        };
        let (in_time, late) = (job(), job());
        assert!(evaluate(in_time).is_some_and(|found| found.reply.is_some()));
        drop(waiting);
        assert!(evaluate(late).is_none());
    }
}
