//! A Check from Envoy's question to its answer: the steps of `step`, one after the other, until one of them decides.

use core::{net::IpAddr, time::Duration};
use std::sync::Arc;

use envoy_types::pb::envoy::service::auth::v3::CheckRequest;
use glacis_inspector::{Header, Uninspected, request_id};
use glacis_limit_store::{Answer as Taken, Ask, DecidedBy, StoreError, Taking};
use glacis_limits::network_list::Action as ListAction;
use glacis_service::{GivenUp, chance::random_id, now};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use crate::{
    alarm::Alarm,
    answer::{Answer, Facts, Passed, Reason, Refused},
    ban,
    metrics::ErrorKind,
    policy::{Decided, Policy},
    profile::{Found, Occasion, Profile},
    rate_limit::{Outcome, RateLimit, outcome},
    shared::Shared,
    step::Step,
    subject::Subject,
    wire::Asked,
};

/// Bytes of a body beyond which rules run on a thread for long work, so that other Checks need not wait.
const INLINE_BODY_BYTES: usize = 64 << 10;

/// A Check that has no verdict: Envoy, its configuration or this service is to blame, never what a client has sent.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// Envoy sent what cannot be answered.
    Protocol(Status),
    /// More limits in one call than a store takes, which is a bug: the configuration has fewer. A Redis that is
    /// away is no error, since each limit says what is answered then.
    Store(StoreError),
    /// Envoy waits no more: nobody is answered, and no rule was run.
    GivenUp,
}

impl From<Undecided> for Status {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Protocol(status) => status,
            Undecided::Store(error) => Self::unavailable(error.to_string()),
            Undecided::GivenUp => Self::cancelled("nobody waits for this Check"),
        }
    }
}

/// What a step decides.
enum Decision {
    /// The next step is asked.
    Next,
    /// The request is refused for a reason, with these headers.
    Refuse(Reason, Vec<(String, String)>),
    /// The rules have decided.
    Judged(Box<Answer>),
}

impl Decision {
    fn refuse_if(reason: Option<Reason>) -> Self {
        reason.map_or(Self::Next, |reason| Self::Refuse(reason, Vec::new()))
    }
}

/// A Check that is under way: what its steps look at, and what they leave for the next.
struct Check<'c> {
    policy: &'c Policy,
    asked: &'c Arc<Asked>,
    subject: &'c Subject<'c>,
    listed: Option<ListAction>,
    /// What policies say, though it is not asked for before its step.
    decided: Decided<'c>,
    now: Duration,
    patience: Patience,
    facts: Facts,
    /// Whether limits have been asked.
    limited: bool,
    /// Headers that the client gets with an answer that passes.
    told: Vec<(String, String)>,
}

impl Check<'_> {
    /// Whether a list takes the client out of bans and limits.
    fn is_unlimited(&self) -> bool {
        self.listed == Some(ListAction::Allow)
    }

    /// The address that bans are about.
    fn banned_address(&self) -> Option<IpAddr> {
        self.subject.address.filter(|_| !self.is_unlimited())
    }

    /// How the request passes, once nothing refuses it.
    fn passed(&mut self) -> Passed {
        let response = core::mem::take(&mut self.told);
        Passed { response, ..self.policy.passed(self.subject) }
    }
}

impl Shared {
    /// Answers a question of Envoy's.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: CheckRequest,
        patience: Patience,
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
        let (subject, listed) = policy.subject(&asked, &headers, now.as_secs());
        let mut check = Check {
            policy: &policy,
            asked: &asked,
            subject: &subject,
            listed,
            decided: policy.decide(&subject),
            now,
            patience,
            facts: Facts {
                request_id: name(&asked, &headers),
                client: subject.client().map(|(client, _)| client.name.clone()),
                ..Facts::default()
            },
            limited: false,
            told: Vec::new(),
        };
        for step in Step::ORDER {
            match self.take_step(step, &mut check).await? {
                Decision::Next => {}
                Decision::Refuse(reason, more) => {
                    self.count_for_bans(&check, reason).await;
                    return Ok(refuse(reason, more, &headers, check.facts));
                }
                Decision::Judged(answer) => {
                    if let Some(reason) = answer.facts().reason {
                        self.count_for_bans(&check, reason).await;
                    }
                    return Ok(*answer);
                }
            }
        }
        let passed = check.passed();
        Ok(Answer::Pass(passed, check.facts))
    }

    async fn take_step(&self, step: Step, check: &mut Check<'_>) -> Result<Decision, Undecided> {
        Ok(match step {
            Step::Bans => {
                let now_seconds = check.now.as_secs();
                let until = |address| self.bans.of(address, now_seconds);
                let is_banned = check.banned_address().and_then(until).is_some();
                Decision::refuse_if(is_banned.then_some(Reason::Banned))
            }
            Step::Networks => {
                Decision::refuse_if(check.policy.refused_network(check.subject, check.listed))
            }
            Step::AmbiguousHost => Decision::refuse_if(Policy::refused_host(check.subject)),
            Step::AmbiguousPath => Decision::refuse_if(check.policy.refused_path(check.subject)),
            Step::AmbiguousKey => Decision::refuse_if(check.subject.ambiguous_key()),
            Step::LimitsBeforePolicies if check.decided.limits_first => self.limit(check).await?,
            Step::LimitsBeforePolicies => Decision::Next,
            Step::Policies => {
                check.facts.policy = check.decided.policy.map(str::to_owned);
                match check.decided.refused {
                    Some(reason) => {
                        let more = check.policy.challenge(reason).into_iter().collect();
                        Decision::Refuse(reason, more)
                    }
                    None => Decision::Next,
                }
            }
            Step::Limits if check.limited => Decision::Next,
            Step::Limits => self.limit(check).await?,
            Step::Rules => self.run_rules(check).await?,
        })
    }

    /// Counts a request against its limits, unless a list takes its client out of them.
    async fn limit(&self, check: &mut Check<'_>) -> Result<Decision, Undecided> {
        check.limited = true;
        check.facts.policy = check.decided.policy.map(str::to_owned);
        if check.is_unlimited() {
            return Ok(Decision::Next);
        }
        let limited = self.limited(check.policy, check.subject).await?;
        check.facts.shadow = limited.would_refuse.is_some();
        check.facts.limit = limited.refused.clone().or(limited.would_refuse);
        if limited.refused.is_some() {
            return Ok(Decision::Refuse(Reason::RateLimit, limited.headers));
        }
        check.told = limited.headers;
        Ok(Decision::Next)
    }

    /// Has the rules of the request's profile look at it, where it has one.
    async fn run_rules(&self, check: &mut Check<'_>) -> Result<Decision, Undecided> {
        let named = check.asked.profile.as_deref();
        let Some(profile) = check.policy.profile(named).map(Arc::clone) else {
            return Ok(Decision::Next);
        };
        check.facts.profile = Some(profile.name().to_owned());
        let passed = check.passed();
        let (asked, given_up) = (Arc::clone(check.asked), check.patience.given_up.clone());
        let id = check.facts.request_id.clone();
        let may_block = profile.may_block();
        let job = Job { profile, asked, id, now: check.now, given_up };
        let reason = match self.evaluate(job, check.patience.until).await? {
            Evaluated::Found(found) => {
                let facts = core::mem::take(&mut check.facts);
                let answer = self.judged(passed, found, facts);
                return Ok(Decision::Judged(Box::new(answer)));
            }
            Evaluated::Crowded => Reason::Crowded,
            Evaluated::Late => Reason::Late,
            Evaluated::Panicked => {
                self.metrics.error(ErrorKind::Panic);
                return Ok(Decision::Refuse(Reason::Fault, Vec::new()));
            }
        };
        if may_block {
            return Ok(Decision::Refuse(reason, vec![("retry-after".to_owned(), "1".to_owned())]));
        }
        // Rules that only look on hold nobody up; that they have not looked is counted.
        check.facts.uninspected = Some(Uninspected::Late.name());
        self.metrics.uninspected(Uninspected::Late.name());
        let facts = core::mem::take(&mut check.facts);
        Ok(Decision::Judged(Box::new(Answer::Pass(passed, facts))))
    }

    /// Counts a refusal for the scenarios of bans that look at its reason.
    async fn count_for_bans(&self, check: &Check<'_>, reason: Reason) {
        let Some(address) = check.banned_address() else { return };
        let scenarios = ban::of(&check.policy.scenarios, reason);
        let now_seconds = check.now.as_secs();
        if let Some(scenario) = self.bans.refused(&scenarios, address, now_seconds).await {
            tracing::warn!(%address, scenario = scenario.name(), "banned for a time");
        }
    }

    /// Has rules look at a request, on a thread for it if that takes long.
    async fn evaluate(&self, job: Job, until: Option<Instant>) -> Result<Evaluated, Undecided> {
        if job.asked.body.len() <= INLINE_BODY_BYTES {
            return Ok(Evaluated::Found(job.found()));
        }
        let Ok(submitted) = self.evaluators.submit(job, evaluate) else {
            return Ok(Evaluated::Crowded);
        };
        let found = match until {
            Some(until) => match timeout_at(until, submitted).await {
                Ok(found) => found,
                Err(_) => return Ok(Evaluated::Late),
            },
            None => submitted.await,
        };
        match found {
            Ok(Some(found)) => Ok(Evaluated::Found(found)),
            Ok(None) => Err(Undecided::GivenUp),
            Err(_) => Ok(Evaluated::Panicked),
        }
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
        let asked = limits.iter().zip(answers);
        for (limit, answer) in asked.filter(|(_, one)| one.decided_by != DecidedBy::NotAsked) {
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
        facts.would_deny = found.would_deny;
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

/// How long Envoy waits for the answer.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// Whether it has given up.
    pub(crate) given_up: GivenUp,
    /// Until when an answer comes in time; `None` if that is not known.
    pub(crate) until: Option<Instant>,
}

/// What comes of an evaluation.
enum Evaluated {
    Found(Found),
    /// Too many others wait for a thread.
    Crowded,
    /// It has not ended in time.
    Late,
    /// A bug.
    Panicked,
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

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::auth::v3::{
        AttributeContext,
        attribute_context::{self, HttpRequest},
    };
    use glacis_engine::Parts;
    use glacis_rules::RecordingSource;
    use glacis_service::Waiting;

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

    const RULES: &str = "otherwise: allow\nprofile: blocks\nprofiles:\n  \
        blocks: {base: false, mode: on, directives: 'SecRule ARGS \"@contains attack\" \"id:1,phase:2,deny\"'}\n  \
        looks: {base: false, mode: detection, directives: 'SecRule ARGS \"@contains attack\" \"id:1,phase:2,deny\"'}\n";

    /// A Check with a body of so many bytes, for a profile.
    fn with_body(bytes: usize, profile: &str) -> CheckRequest {
        let http = HttpRequest {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            raw_body: vec![b'a'; bytes],
            ..HttpRequest::default()
        };
        let request = attribute_context::Request {
            http: Some(http),
            ..attribute_context::Request::default()
        };
        let context_extensions = [("glacis.profile".to_owned(), profile.to_owned())].into();
        let attributes = AttributeContext {
            request: Some(request),
            context_extensions,
            ..AttributeContext::default()
        };
        CheckRequest { attributes: Some(attributes) }
    }

    /// Where rules only look on, the answer names the rule that would refuse.
    #[tokio::test]
    async fn what_detection_mode_would_refuse_is_told() {
        let config: crate::config::Config = glacis_service::config::parse(RULES).unwrap();
        let policy = Policy::build(&config, &RecordingSource::new()).unwrap();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = crate::Metrics::register(&mut registry);
        let authorizer = crate::Authorizer::new(&config, policy, metrics, &mut registry).unwrap();
        let waiting = Waiting::default();
        for (profile, path, verdict, would_deny) in [
            ("looks", "/?q=attack", "allow", Some("1")),
            ("looks", "/?q=fine", "allow", None),
            ("blocks", "/?q=attack", "deny", None),
        ] {
            let mut check = with_body(0, profile);
            let request = check.attributes.as_mut().unwrap().request.as_mut().unwrap();
            path.clone_into(&mut request.http.as_mut().unwrap().path);
            let patience = Patience { given_up: waiting.given_up(), until: None };
            let answer = authorizer.shared().answer(check, patience).await.unwrap();
            let fields: Vec<_> = answer.facts().fields().collect();
            let of = |name: &str| fields.iter().find(|(key, _)| *key == name).map(|(_, it)| *it);
            assert_eq!(
                (of("verdict"), of("would_deny")),
                (Some(verdict), would_deny),
                "{fields:?}"
            );
        }
    }

    /// Large bodies that come too late, or find no thread: refused, unless rules only look on.
    #[tokio::test]
    async fn what_rules_cannot_look_at_in_time_is_refused() {
        let config: crate::config::Config = glacis_service::config::parse(RULES).unwrap();
        let policy = Policy::build(&config, &RecordingSource::new()).unwrap();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = crate::Metrics::register(&mut registry);
        let authorizer = crate::Authorizer::new(&config, policy, metrics, &mut registry).unwrap();
        let shared = authorizer.shared();
        let waiting = Waiting::default();
        let ask = |bytes: usize, profile: &str, until: Option<Instant>| {
            let patience = Patience { given_up: waiting.given_up(), until };
            Arc::clone(&shared).answer(with_body(bytes, profile), patience)
        };
        let facts = |answer: &Answer| (answer.facts().reason, answer.facts().uninspected);
        let large = INLINE_BODY_BYTES + 1;
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let busy = || {
            let wait = Arc::clone(&wait);
            shared.evaluators.submit(wait, |wait| drop(wait.lock().map(|wait| wait.recv())))
        };
        // All threads are busy, so that what is asked now has to wait.
        let threads = std::thread::available_parallelism().unwrap().get();
        let mut held: Vec<_> = (0..threads).map(|_| busy().unwrap()).collect();
        let over = Some(Instant::now());
        let answer = ask(large, "blocks", over).await.unwrap();
        assert_eq!(facts(&answer), (Some(Reason::Late), None));
        let answer = ask(large, "looks", over).await.unwrap();
        assert_eq!(facts(&answer), (None, Some("late")));
        // As many wait as may.
        while let Ok(submitted) = busy() {
            held.push(submitted);
        }
        let answer = ask(large, "blocks", None).await.unwrap();
        assert_eq!(facts(&answer), (Some(Reason::Crowded), None));
        let answer = ask(large, "looks", None).await.unwrap();
        assert_eq!(facts(&answer), (None, Some("late")));
        // Small bodies are evaluated at once, whatever waits.
        let answer = ask(INLINE_BODY_BYTES, "blocks", over).await.unwrap();
        assert_eq!(answer.facts().reason, None);
        drop(done);
    }
}
