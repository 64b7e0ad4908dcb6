//! What is counted. Names and labels are an interface: dashboards and alerts depend on them. They stand in
//! [`table`], once, and in `docs/reference/metrics.md`, which is made from it.

mod coraza;
mod label;
mod reference;
mod rule_evidence;
mod rule_hits;
pub(crate) mod table;

use core::time::Duration;
use std::collections::BTreeSet;

use glacis_doctor::{CHECKS, Finding};
use glacis_engine::MatchedRule;
use glacis_inspector::{OBSERVED, Opined, Outcome, Peer, REJECT, Rejection, Uninspected};
use glacis_service::{
    Losses, label,
    metrics::{ServiceMetrics, seconds_histogram},
    now,
    store::Stores,
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    alarm::Alarm,
    bans::BanMetrics,
    config::MetricsConfig,
    envoy_canary::EnvoyCanaryMetrics,
    out_of_band::OutOfBandMetrics,
    reply::Part,
    rule_evidence::RuleEvidence,
    ruleset::Rulesets,
    shadow::{Shadow, ShadowMetrics},
};
use coraza::{Coraza, Severity};
pub use reference::metrics_reference;
use rule_hits::{ByRule, RuleHits};

/// The metrics of the service.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<VerdictLabel, Counter>,
    would_deny: Family<ProfileLabel, Counter>,
    seconds: Family<PhaseLabel, Histogram>,
    scores: Family<DirectionLabel, Histogram>,
    opinions: Family<OpinionLabel, Counter>,
    rule_hits: RuleHits,
    pub(crate) rule_evidence: RuleEvidence,
    coraza: Coraza,
    receipts: [Counter; RECEIPTS.len()],
    truncated: [Counter; 2],
    pub(crate) streams_open: Gauge,
    pub(crate) evaluations_waiting: Gauge,
    wait: Histogram,
    body_bytes: Gauge,
    uninspected: Family<ReasonLabel, Counter>,
    rejected: Family<ReasonLabel, Counter>,
    socket_messages: Family<SocketLabels, Counter>,
    stream_events: Family<ReceiptLabel, Counter>,
    errors: Family<KindLabel, Counter>,
    alarms: Family<KindLabel, Counter>,
    rulesets: Family<RulesetLabel, Gauge>,
    rules: Family<ProfileLabel, Gauge>,
    exclusions: Family<ExclusionLabel, Gauge>,
    loaded_at: Gauge,
    canary: Family<ProfileLabel, Gauge>,
    pub(crate) unknown_profiles: Counter,
    limits: Family<LimitLabel, Counter>,
    pub(crate) out_of_band: OutOfBandMetrics,
    pub(crate) shadow: ShadowMetrics,
    pub(crate) canary_envoy: EnvoyCanaryMetrics,
    findings: Family<CheckLabel, Gauge>,
    /// Audit records and spans that were lost.
    pub losses: Losses,
    /// What is counted of bans.
    pub(crate) bans: BanMetrics,
    /// What is told of lines to Redis.
    pub stores: Stores,
    /// What every service counts.
    pub service: ServiceMetrics,
}

/// The metrics of one profile, looked up once: an exchange only counts.
#[derive(Clone, Debug)]
pub(crate) struct ProfileMetrics {
    verdicts: [Counter; VERDICTS.len()],
    would_deny: Counter,
    seconds: [Histogram; PHASES.len()],
    inbound: Histogram,
    outbound: Histogram,
    /// By opinion, then by what rules do.
    opinions: [[Counter; 2]; 2],
}

label!(VerdictLabel, profile: String, verdict: &'static str);
label!(ReceiptLabel, verdict: &'static str);
label!(PhaseLabel, profile: String, phase: &'static str);
label!(DirectionLabel, profile: String, direction: &'static str);
label!(OpinionLabel, profile: String, opinion: &'static str, rules: &'static str);
label!(ReasonLabel, reason: &'static str);
label!(SocketLabels, from: &'static str, verdict: &'static str);
label!(KindLabel, kind: &'static str);
label!(LimitLabel, limit: &'static str);
label!(CheckLabel, id: &'static str, severity: &'static str);
label!(MessageLabel, message: &'static str);
label!(ProfileLabel, profile: String);
label!(ExclusionLabel, profile: String, state: &'static str);
label!(RulesetLabel, hash: String, rules: String, profile: String);

/// What went wrong, by `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Envoy sent a message out of order, or one that cannot be answered.
    Protocol,
    /// A bug: evaluation panicked.
    Panic,
    /// Twice `max_streams` streams are open; or a request found no place to be evaluated, with `late: fail`.
    Overload,
    /// A message took longer than `deadline_ms`, with `late: fail`.
    Deadline,
}

impl ErrorKind {
    const ALL: [Self; 4] = [Self::Protocol, Self::Panic, Self::Overload, Self::Deadline];

    const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Panic => "panic",
            Self::Overload => "overload",
            Self::Deadline => "deadline",
        }
    }
}

/// Verdicts as counted. `none`: the exchange ended before there was one.
const VERDICTS: [&str; 7] = ["allow", "deny", "redirect", "drop", REJECT, OBSERVED, "none"];

/// Verdicts as they stand in receipts.
const RECEIPTS: [&str; 7] = ["pending", "allow", "deny", "redirect", "drop", REJECT, OBSERVED];

/// The parts of an exchange, in the order of [`phase_index`].
const PHASES: [&str; 6] = [
    Part::RequestHeaders.name(),
    Part::RequestBody.name(),
    Part::RequestTrailers.name(),
    Part::ResponseHeaders.name(),
    Part::ResponseBody.name(),
    Part::ResponseTrailers.name(),
];

/// What a message of this kind is called.
pub(crate) fn phase_name(part: Part) -> &'static str {
    PHASES.get(phase_index(part)).copied().unwrap_or_default()
}

const fn phase_index(part: Part) -> usize {
    match part {
        Part::RequestHeaders => 0,
        Part::RequestBody => 1,
        Part::RequestTrailers => 2,
        Part::ResponseHeaders => 3,
        Part::ResponseBody => 4,
        Part::ResponseTrailers => 5,
    }
}

/// What a second opinion may be.
const OPINIONS: [&str; 2] = ["ordinary", "attack"];

/// What rules do beside a second opinion.
const RULES: [&str; 2] = ["passed", "refused"];

/// Of which half a score is.
const DIRECTIONS: [&str; 2] = ["inbound", "outbound"];

/// Exclusions, by whether their last day is over.
const STATES: [&str; 2] = ["valid", "expired"];

/// Who sends messages of WebSockets.
const SOCKET_PEERS: [Peer; 2] = [Peer::Client, Peer::Server];

const MESSAGES: [&str; 2] = ["request", "response"];

fn score_histogram() -> Histogram {
    Histogram::new([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0])
}

impl Metrics {
    /// The metrics, registered in `registry`. Counters begin at 0, so that the first event of a kind
    /// is an increase and not an absence.
    pub fn register(registry: &mut Registry, config: &MetricsConfig) -> Self {
        let rule_hits = RuleHits::default();
        let receipts: Family<ReceiptLabel, Counter> = Family::default();
        let truncated: Family<MessageLabel, Counter> = Family::default();
        let metrics = Self {
            requests: Family::default(),
            would_deny: Family::default(),
            seconds: Family::new_with_constructor(seconds_histogram),
            scores: Family::new_with_constructor(score_histogram),
            opinions: Family::default(),
            coraza: Coraza::register(registry, config, &rule_hits),
            rule_hits,
            rule_evidence: RuleEvidence::default(),
            receipts: RECEIPTS
                .map(|verdict| receipts.get_or_create_owned(&ReceiptLabel { verdict })),
            truncated: MESSAGES
                .map(|message| truncated.get_or_create_owned(&MessageLabel { message })),
            streams_open: Gauge::default(),
            evaluations_waiting: Gauge::default(),
            wait: seconds_histogram(),
            body_bytes: Gauge::default(),
            uninspected: Family::default(),
            rejected: Family::default(),
            socket_messages: Family::default(),
            stream_events: Family::default(),
            errors: Family::default(),
            alarms: Family::default(),
            rulesets: Family::default(),
            rules: Family::default(),
            exclusions: Family::default(),
            loaded_at: Gauge::default(),
            canary: Family::default(),
            unknown_profiles: Counter::default(),
            limits: Family::default(),
            out_of_band: OutOfBandMetrics::default(),
            shadow: ShadowMetrics::default(),
            canary_envoy: EnvoyCanaryMetrics::default(),
            findings: Family::default(),
            losses: Losses::default(),
            bans: BanMetrics::default(),
            stores: Stores::default(),
            service: ServiceMetrics::register(registry, env!("CARGO_PKG_VERSION")),
        };
        table::RECEIPTS.register(registry, receipts);
        table::TRUNCATED.register(registry, truncated);
        metrics.register_exchanges(registry);
        metrics.register_gaps(registry);
        metrics.register_rulesets(registry);
        metrics.register_load(registry);
        metrics.out_of_band.register(registry);
        metrics.shadow.register(registry);
        metrics.canary_envoy.register(registry);
        table::LOST.register(registry, metrics.losses.counters());
        table::FINDINGS.register(registry, metrics.findings.clone());
        metrics.examined(&[]);
        metrics.bans.register(registry);
        metrics.stores.register(registry);
        metrics
    }

    fn register_exchanges(&self, registry: &mut Registry) {
        for kind in ErrorKind::ALL {
            drop(self.errors.get_or_create(&KindLabel { kind: kind.name() }));
        }
        table::REQUESTS.register(registry, self.requests.clone());
        table::WOULD_DENY.register(registry, self.would_deny.clone());
        table::SECONDS.register(registry, self.seconds.clone());
        table::SCORES.register(registry, self.scores.clone());
        table::OPINIONS.register(registry, self.opinions.clone());
        registry.register_collector(Box::new(ByRule(self.rule_hits.clone())));
        let evidence = rule_evidence::ByRule(self.rule_evidence.clone());
        registry.register_collector(Box::new(evidence));
        table::STREAMS.register(registry, self.streams_open.clone());
        table::ERRORS.register(registry, self.errors.clone());
    }

    /// What was left out, and what may be.
    fn register_gaps(&self, registry: &mut Registry) {
        for reason in Uninspected::ALL {
            drop(self.uninspected.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        table::UNINSPECTED.register(registry, self.uninspected.clone());
        for reason in Rejection::ALL {
            drop(self.rejected.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        table::REJECTED.register(registry, self.rejected.clone());
        for from in SOCKET_PEERS {
            for verdict in ["allow", "deny", REJECT] {
                drop(
                    self.socket_messages
                        .get_or_create(&SocketLabels { from: from.name(), verdict }),
                );
            }
        }
        table::SOCKET_MESSAGES.register(registry, self.socket_messages.clone());
        for verdict in ["allow", "deny", REJECT] {
            drop(self.stream_events.get_or_create(&ReceiptLabel { verdict }));
        }
        table::STREAM_EVENTS.register(registry, self.stream_events.clone());
        table::LIMITS.register(registry, self.limits.clone());
        for alarm in Alarm::ALL {
            drop(self.alarms.get_or_create(&KindLabel { kind: alarm.name() }));
        }
        table::ALARMS.register(registry, self.alarms.clone());
    }

    fn register_load(&self, registry: &mut Registry) {
        table::WAITING.register(registry, self.evaluations_waiting.clone());
        table::WAIT.register(registry, self.wait.clone());
        table::BODY_BYTES.register(registry, self.body_bytes.clone());
    }

    fn register_rulesets(&self, registry: &mut Registry) {
        table::LOADED_AT.register(registry, self.loaded_at.clone());
        table::CANARY.register(registry, self.canary.clone());
        table::RULESETS.register(registry, self.rulesets.clone());
        table::RULES.register(registry, self.rules.clone());
        table::EXCLUSIONS.register(registry, self.exclusions.clone());
        table::UNKNOWN_PROFILES.register(registry, self.unknown_profiles.clone());
    }

    /// Says how much is held, and how late tasks run.
    pub(crate) fn load(&self, body_bytes: usize, lag: Duration) {
        self.body_bytes.set(i64::try_from(body_bytes).unwrap_or(i64::MAX));
        self.service.lag(lag);
    }

    /// Counts an exchange that has no verdict, and will have none.
    pub(crate) fn no_verdict(&self, profile: Option<&ProfileMetrics>) {
        if let Some(profile) = profile {
            profile.count("none");
        }
        self.coraza.no_verdict();
    }

    /// Counts an exchange that was to be evaluated after its answer, and is not.
    pub(crate) fn not_evaluated(&self, profile: Option<&ProfileMetrics>) {
        self.no_verdict(profile);
        self.uninspected(Uninspected::NotEvaluated);
    }

    /// Counts a request of which something passed without inspection.
    pub(crate) fn uninspected(&self, reason: Uninspected) {
        self.uninspected.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
    }

    /// Counts a message of a WebSocket.
    pub(crate) fn socket_message(&self, from: Peer, verdict: &'static str) {
        self.socket_messages.get_or_create(&SocketLabels { from: from.name(), verdict }).inc();
    }

    /// Counts an event of a stream.
    pub(crate) fn stream_event(&self, verdict: &'static str) {
        self.stream_events.get_or_create(&ReceiptLabel { verdict }).inc();
    }

    /// Counts an attempt to put another configuration to use.
    pub(crate) fn reloaded(&self, good: bool) {
        self.service.reloads.count(good);
        // What is good is counted as it is put to use.
        if !good {
            self.coraza.loaded(false);
        }
    }

    /// Counts the findings of the service's checks on itself.
    pub(crate) fn examined(&self, findings: &[Finding]) {
        for check in CHECKS.iter().filter(|check| check.source.is_of_service()) {
            let count = findings.iter().filter(|finding| finding.check.id == check.id).count();
            let label = CheckLabel { id: check.id, severity: check.severity.name() };
            let gauge = self.findings.get_or_create(&label);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Says what became of a profile's canary.
    pub(crate) fn canary(&self, profile: &str, refused: bool) {
        let label = ProfileLabel { profile: profile.to_owned() };
        self.canary.get_or_create(&label).set(refused.into());
    }

    /// Announces the rulesets in use, instead of those before, and gives each profile its metrics. Series of
    /// profiles that are gone end: there are never those of more profiles than a configuration may have.
    pub(crate) fn loaded(&self, old: Option<&Rulesets>, rulesets: &Rulesets) {
        self.coraza.loaded(true);
        self.canary.clear();
        self.loaded_at.set(i64::try_from(now().as_secs()).unwrap_or(i64::MAX));
        self.rulesets.clear();
        self.rules.clear();
        let mut ids = BTreeSet::new();
        for loaded in rulesets.loaded() {
            let count = loaded.program.rule_count();
            let profile = ProfileLabel { profile: loaded.profile.to_owned() };
            self.rules.get_or_create(&profile).set(i64::try_from(count).unwrap_or(i64::MAX));
            let (hash, profile) = (loaded.program.hash().to_owned(), profile.profile);
            let label = RulesetLabel { hash, rules: count.to_string(), profile };
            self.rulesets.get_or_create(&label).set(1);
            ids.extend(loaded.program.rules().map(|rule| rule.id.0));
        }
        let shadows_before = old.map(shadows).unwrap_or_default();
        self.shadow.loaded(&shadows_before, &shadows(rulesets), |rule| ids.contains(&rule));
        self.coraza.rules(rulesets.profiles.default_profile().program.rule_count());
        self.rule_hits.keep(|rule| ids.contains(&rule));
        self.rule_evidence.keep(|rule| ids.contains(&rule));
        self.exclusions.clear();
        for loaded in rulesets.exclusions() {
            let [valid, expired] = STATES;
            let state = if loaded.expired { expired } else { valid };
            let label = ExclusionLabel { profile: loaded.profile.clone(), state };
            self.exclusions.get_or_create(&label).inc();
        }
        let old = old.map(|old| old.profiles.iter()).into_iter().flatten();
        for (name, _) in old.filter(|(name, _)| rulesets.profiles.get(name).is_none()) {
            self.forget(name);
        }
        for (name, profile) in rulesets.profiles.iter() {
            profile.measure(self.of_profile(name));
            for watched in &profile.watch.profiles {
                watched.measure(self.of_profile(&watched.settings.profile));
            }
        }
    }

    fn of_profile(&self, name: &str) -> ProfileMetrics {
        let verdict = |verdict| VerdictLabel { profile: name.to_owned(), verdict };
        let phase = |phase| PhaseLabel { profile: name.to_owned(), phase };
        let score = |direction| {
            let label = DirectionLabel { profile: name.to_owned(), direction };
            self.scores.get_or_create_owned(&label)
        };
        let opined = |opinion, rules| {
            let label = OpinionLabel { profile: name.to_owned(), opinion, rules };
            self.opinions.get_or_create_owned(&label)
        };
        let [inbound, outbound] = DIRECTIONS.map(score);
        let profile = ProfileLabel { profile: name.to_owned() };
        ProfileMetrics {
            verdicts: VERDICTS.map(|name| self.requests.get_or_create_owned(&verdict(name))),
            would_deny: self.would_deny.get_or_create_owned(&profile),
            seconds: PHASES.map(|name| self.seconds.get_or_create_owned(&phase(name))),
            inbound,
            outbound,
            opinions: OPINIONS.map(|opinion| RULES.map(|rules| opined(opinion, rules))),
        }
    }

    fn forget(&self, name: &str) {
        for verdict in VERDICTS {
            self.requests.remove(&VerdictLabel { profile: name.to_owned(), verdict });
        }
        self.would_deny.remove(&ProfileLabel { profile: name.to_owned() });
        for phase in PHASES {
            self.seconds.remove(&PhaseLabel { profile: name.to_owned(), phase });
        }
        for (opinion, rules) in OPINIONS.into_iter().flat_map(|it| RULES.map(|rules| (it, rules))) {
            self.opinions.remove(&OpinionLabel { profile: name.to_owned(), opinion, rules });
        }
        for direction in DIRECTIONS {
            self.scores.remove(&DirectionLabel { profile: name.to_owned(), direction });
        }
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.alarms.get_or_create(&KindLabel { kind: alarm.name() }).inc();
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        self.errors.get_or_create(&KindLabel { kind: kind.name() }).inc();
    }

    /// Counts an answer with a receipt of this verdict.
    pub(crate) fn receipt(&self, verdict: &str) {
        let known = RECEIPTS.iter().position(|known| *known == verdict);
        if let Some(counter) = known.and_then(|index| self.receipts.get(index)) {
            counter.inc();
        }
    }

    /// Says how long an evaluation has waited for a thread.
    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }

    /// Counts an exchange that is over; says how its matched rules are counted.
    pub(crate) fn finished(
        &self,
        profile: Option<&ProfileMetrics>,
        outcome: &Outcome<'_>,
    ) -> coraza::Outcome {
        let receipt = &outcome.receipt;
        let verdict = if receipt.verdict == "pending" { "none" } else { receipt.verdict };
        // Beyond the last bucket the number does not matter.
        let score = |score| i32::try_from(score).unwrap_or(i32::MAX);
        let inbound = score(receipt.scores.inbound);
        if let Some(profile) = profile {
            profile.count(verdict);
            if receipt.would_deny.is_some() {
                profile.would_deny.inc();
            }
            profile.inbound.observe(inbound.into());
            profile.outbound.observe(score(receipt.scores.outbound).into());
            if let Some(opinion) = receipt.opinion {
                profile.opined(opinion);
            }
        }
        let of_rules = coraza::Outcome::of(receipt);
        self.coraza.finished(of_rules, inbound);
        if let Some(reason) = receipt.uninspected {
            self.uninspected(reason);
        }
        if let Some(reason) = receipt.reason {
            self.rejected.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
        }
        for limit in outcome.limits.names() {
            self.limits.get_or_create(&LimitLabel { limit }).inc();
        }
        let left_out = |reasons: &[Uninspected]| {
            receipt.uninspected.is_some_and(|reason| reasons.contains(&reason))
        };
        let [request, response] = &self.truncated;
        if outcome.limits.request_body_truncated
            || left_out(&[Uninspected::BodyTruncated, Uninspected::BodyTooLarge])
        {
            request.inc();
        }
        if outcome.limits.response_body_truncated || left_out(&[Uninspected::ResponseTruncated]) {
            response.inc();
        }
        of_rules
    }

    /// Counts the rules that matched in an exchange with this outcome.
    pub(crate) fn rules_matched<'r, R: Iterator<Item = MatchedRule<'r>>>(
        &self,
        outcome: coraza::Outcome,
        rules: impl Fn() -> R,
    ) {
        if matches!(outcome, coraza::Outcome::Block | coraza::Outcome::Redirect) {
            self.coraza.blocked(rules());
        }
        for rule in rules() {
            self.rule_hits.count(rule.id.0, Severity::of(rule.severity), outcome);
        }
    }
}

/// What is compared, of all profiles.
fn shadows(rulesets: &Rulesets) -> Vec<&Shadow> {
    let profiles = rulesets.profiles.iter();
    profiles.filter_map(|(_, profile)| profile.watch.shadow.as_ref()).collect()
}

impl ProfileMetrics {
    fn count(&self, verdict: &str) {
        let known = VERDICTS.iter().position(|known| *known == verdict);
        if let Some(counter) = known.and_then(|index| self.verdicts.get(index)) {
            counter.inc();
        }
    }

    fn opined(&self, opinion: Opined) {
        let counters = self.opinions.get(usize::from(opinion.attack));
        if let Some(counter) = counters.and_then(|of| of.get(usize::from(opinion.refused_by_rules)))
        {
            counter.inc();
        }
    }

    /// Says how long a message took.
    pub(crate) fn evaluated(&self, part: Part, time: Duration) {
        if let Some(histogram) = self.seconds.get(phase_index(part)) {
            histogram.observe(time.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use glacis_engine::{Flags, Phase, RuleId, Scores};
    use glacis_inspector::{Mode, Receipt, WouldDeny};

    use super::*;

    /// What is counted for each request is found without a search, and takes no memory.
    #[test]
    fn counting_allocates_nothing() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, &MetricsConfig::default());
        let profile = metrics.of_profile("default");
        let receipt = Receipt {
            verdict: "deny",
            reason: None,
            mode: Mode::Blocking,
            phase: None,
            inspected: "body",
            uninspected: Some(Uninspected::BodyTruncated),
            scores: Scores { inbound: 15, outbound: 0 },
            opinion: Some(Opined { score: 1, attack: true, refused_by_rules: false }),
            would_deny: Some(WouldDeny { phase: Phase::RequestBody, rule: RuleId(1) }),
            rules: Vec::new(),
            profile: "default",
            ruleset: "hash",
            request_id: "id",
            message: None,
        };
        let limits = Flags { request_body_truncated: true, ..Flags::default() };
        let outcome = Outcome {
            receipt: receipt.clone(),
            audit: None,
            refused: None,
            detected: None,
            limits,
        };
        let count = || {
            profile.evaluated(Part::RequestHeaders, Duration::from_millis(1));
            metrics.receipt(receipt.verdict);
            metrics.finished(Some(&profile), &outcome);
            metrics.rule_hits.count(1, Severity::Critical, coraza::Outcome::Block);
            metrics.error(ErrorKind::Deadline);
        };
        // The first time a rule matches, or a limit is hit, its counter is made.
        count();
        assert_eq!(allocation_counter::measure(count).count_total, 0);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 2";
        assert!(text.lines().any(|found| found == line), "{text}");
        let line = "glacis_second_opinions_total{profile=\"default\",opinion=\"attack\",rules=\"passed\"} 2";
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
