//! What all streams of the service share.

use core::time::Duration;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use glacis_engine::Phase;
use glacis_host::{
    EvaluationThreads,
    admission::{Pool, Streams},
    time_for_body,
};
use glacis_inspector::{Hints, Inspector, Rejection, UnknownProfile};
use glacis_service::{Client, Evaluators, alarm::AlarmLog, now, reload::Reloads};

use crate::{
    alarm::Alarm,
    audit::AuditLog,
    bans::{BanQueue, refuses_request},
    config::Config,
    document::Document,
    history::History,
    metrics::Metrics,
    missed_bodies::MissedBodies,
    out_of_band::OutOfBand,
    profile::Profile,
    proposals::Evidence,
    recent::Recent,
    ruleset::Rulesets,
    trace::{Exchange, Tracer},
};

/// Open streams up to which each may keep an inspector after its verdict, so that the answer need not wait for the
/// end of the evaluation, and all of its inspector's memory while it waits.
const IDLE_STREAMS_MAX: i64 = 16;

/// What all streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    rulesets: RwLock<Arc<Rulesets>>,
    pub(crate) metrics: Metrics,
    audit: AuditLog,
    pub(crate) tracer: Tracer,
    pub(crate) inline_body_bytes: usize,
    /// Zero for none.
    pub(crate) deadline: Duration,
    evaluators: EvaluationThreads,
    pub(crate) out_of_band: OutOfBand,
    /// Bytes of bodies under inspection.
    pub(crate) body_memory: Arc<Pool>,
    /// Requests that wait for their bodies.
    pub(crate) waits: Arc<Pool>,
    /// Evaluations that wait for a thread.
    pub(crate) queue: Arc<Pool>,
    pub(crate) streams: Arc<Streams>,
    /// Bytes that every Envoy buffers of a body at least.
    pub(crate) envoy_buffer_bytes: usize,
    alarms: AlarmLog,
    /// Bodies in a row that were asked for and did not come.
    bodies: MissedBodies,
    /// Whether Envoy brings responses that no rules look at: their status belongs into records.
    unasked_responses: AtomicBool,
    pub(crate) recent: Recent,
    /// What happened in the last hour.
    pub(crate) history: History,
    /// When this process began to serve, since 1970.
    pub(crate) started: Duration,
    /// What detection mode would have blocked, to learn from.
    pub(crate) evidence: Evidence,
    bans: Option<BanQueue>,
    pub(crate) reloads: Reloads,
    /// The configuration in use, as it stood in its file.
    document: Mutex<Document>,
}

impl Shared {
    pub(crate) fn new(
        config: &Config,
        rulesets: Rulesets,
        metrics: Metrics,
        audit: AuditLog,
        tracer: Tracer,
    ) -> io::Result<Self> {
        metrics.loaded(None, &rulesets);
        let evidence = metrics.rule_evidence.clone();
        let bans = BanQueue::start(&config.bans, metrics.bans.clone(), &metrics.stores, evidence)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match config.evaluation_threads {
            // With one alone nobody is served while it works for somebody else.
            0 => cores.max(2),
            threads => threads,
        };
        let pool = |max, full| Arc::new(Pool::new(max, config.client_share_percent, full));
        Ok(Self {
            rulesets: RwLock::new(Arc::new(rulesets)),
            metrics,
            audit,
            tracer,
            inline_body_bytes: config.inline_body_bytes,
            deadline: Duration::from_millis(config.deadline_ms),
            evaluators: EvaluationThreads::start(threads, config.evaluation_queue_max)?,
            out_of_band: OutOfBand::start(config)?,
            body_memory: pool(config.body_bytes_max, Rejection::BodyOverflow),
            waits: pool(config.max_streams, Rejection::MaxStreams),
            queue: pool(config.evaluation_queue_max, Rejection::QueueFull),
            streams: Arc::new(Streams::new(config.max_streams)),
            envoy_buffer_bytes: config.envoy_buffer_bytes,
            alarms: AlarmLog::default(),
            bodies: MissedBodies::default(),
            unasked_responses: AtomicBool::new(false),
            recent: Recent::new(config.recent.requests_max),
            history: History::default(),
            started: now(),
            evidence: Evidence::new(config.proposals.requests_max),
            bans,
            reloads: Reloads::default(),
            document: Mutex::default(),
        })
    }

    /// Counts what is wrong with Envoy's settings, and says it.
    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.metrics.alarm(alarm);
        self.alarms.say(alarm.name(), alarm.words());
    }

    /// A body that was asked for has come.
    pub(crate) fn body_came(&self) {
        self.bodies.came();
    }

    /// A body of this client that was asked for has not come, and neither has a response.
    pub(crate) fn body_missed(&self, client: Option<Client>) {
        if self.bodies.missed(client) {
            self.alarm(Alarm::ModeOverrideIgnored);
        }
    }

    /// Envoy has brought a response that nobody asked for.
    pub(crate) fn unasked_response(&self) {
        self.unasked_responses.store(true, Ordering::Relaxed);
    }

    /// Whether exchanges with a final verdict may keep their inspectors until their streams end.
    pub(crate) fn has_room_for_idle_inspectors(&self) -> bool {
        !self.has_many_streams() || self.unasked_responses.load(Ordering::Relaxed)
    }

    /// Whether there are so many open streams that what each holds counts.
    pub(crate) fn has_many_streams(&self) -> bool {
        self.metrics.streams_open.get() > IDLE_STREAMS_MAX
    }

    /// When the answer to a message that comes now is due, with which so many bytes of a body are evaluated; `None` for
    /// never.
    pub(crate) fn due(&self, body_bytes: usize) -> Option<Instant> {
        let time = time_for_body(self.deadline, body_bytes);
        (!time.is_zero()).then(|| Instant::now() + time)
    }

    /// How long after that an answer is awaited that is nearly done: the engine ends a little after its deadline.
    pub(crate) fn grace(&self) -> Duration {
        self.deadline / 8
    }

    /// The threads for an evaluation that looks at so many bytes of a body.
    pub(crate) const fn evaluators(&self, body_bytes: usize) -> &Evaluators {
        self.evaluators.for_body(body_bytes)
    }

    pub(crate) const fn out_of_band(&self) -> &OutOfBand {
        &self.out_of_band
    }

    pub(crate) const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The end of an exchange: phase 5, metrics, audit, and its span where it is traced.
    pub(crate) fn conclude(
        &self,
        profile: &Profile,
        inspector: &mut Inspector,
        traced: Option<Box<Exchange>>,
    ) {
        let client = inspector.client();
        let status = inspector.response_status();
        let mut outcome = inspector.finish(now());
        let refused = matches!(outcome.receipt.verdict, "deny" | "redirect" | "drop");
        let of_rules = self.metrics.finished(profile.metrics(), &outcome);
        let refuses_request = refuses_request(&outcome.receipt);
        self.history.finished(&outcome.receipt, now());
        if let Some(record) = outcome.detected.take() {
            // Exclusions are learned for requests; a response is not evaluated again.
            let phase = outcome.receipt.would_deny.map(|would_deny| would_deny.phase);
            if matches!(phase, Some(Phase::RequestHeaders | Phase::RequestBody)) {
                self.evidence.push(&record);
            }
            self.recent.push(record, now().as_secs(), profile.blocking().level);
        }
        if let Some(record) = outcome.refused.take() {
            self.recent.push(record, now().as_secs(), profile.blocking().level);
        }
        if let Some(record) = outcome.audit.take() {
            let span = traced.as_ref().map(|traced| traced.ids());
            self.audit.write(record, Some(&outcome.receipt), span, now());
        }
        if let Some(traced) = traced {
            traced.finish(&outcome);
        }
        let rules = || inspector.matched_rules().filter(|rule| rule.log);
        self.metrics.rules_matched(of_rules, rules);
        rules().for_each(|rule| profile.counts.count(rule.id));
        profile.exclusions.count(inspector.excluding_rules());
        let status = if refused { 0 } else { status };
        let clients = client.filter(|_| self.bans.is_some());
        self.metrics.rule_evidence.matched(clients, status, rules().map(|rule| rule.id.0));
        // Behind the matches, which the ban that follows from this speaks for.
        if let (Some(bans), Some(client)) = (&self.bans, client.filter(|_| refuses_request)) {
            bans.refused(client);
        }
    }

    /// Writes a record that is not that of one exchange.
    pub(crate) fn write_record(&self, record: String) {
        self.audit.write(record, None, None, now());
    }

    /// The rulesets in use. An exchange keeps those with which it began.
    pub(crate) fn rulesets(&self) -> Arc<Rulesets> {
        Arc::clone(&self.rulesets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the configuration in use, as it stood in its file.
    pub(crate) fn in_use(&self, document: Document) {
        *self.document.lock().unwrap_or_else(PoisonError::into_inner) = document;
    }

    /// The configuration in use, as it stood in its file.
    pub(crate) fn document(&self) -> Document {
        self.document.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other rulesets to use, for exchanges that begin from now on.
    pub(crate) fn replace(&self, rulesets: Rulesets) {
        let before = self.rulesets();
        self.metrics.loaded(Some(&before), &rulesets);
        for (name, profile) in rulesets.profiles.iter() {
            if let Some(same) = before.profiles.get(name) {
                profile.exclusions.continue_from(&same.exclusions);
            }
        }
        drop(before);
        let old = core::mem::replace(
            &mut *self.rulesets.write().unwrap_or_else(PoisonError::into_inner),
            Arc::new(rulesets),
        );
        // Outside the lock: the last of the old ones to go takes a while.
        drop(old);
    }

    /// The profile of an exchange, which is chosen again when its evaluation begins.
    pub(crate) fn foresee(&self, hints: Hints<'_>) -> Option<Arc<Profile>> {
        let rulesets = self.rulesets();
        rulesets.profiles.choose(hints).ok().map(|choice| Arc::clone(choice.profile))
    }

    /// The profile of an exchange.
    pub(crate) fn choose(&self, hints: Hints<'_>) -> Result<Arc<Profile>, UnknownProfile> {
        let rulesets = self.rulesets();
        let choice = rulesets.profiles.choose(hints);
        if choice.as_ref().map_or(true, |choice| choice.unknown) {
            self.metrics.unknown_profiles.inc();
        }
        choice.map(|choice| Arc::clone(choice.profile))
    }
}
