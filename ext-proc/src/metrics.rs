//! What is counted. Names and labels are an interface: dashboards and alerts depend on them.

use core::{sync::atomic::AtomicU64, time::Duration};
use std::{collections::BTreeSet, sync::Mutex};

use glacis_inspector::{OBSERVED, Outcome, Uninspected};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    alarm::Alarm, envoy_canary::EnvoyCanaryMetrics, out_of_band::OutOfBandMetrics,
    ruleset::Rulesets, session::now, shadow::ShadowMetrics,
};

/// Rules that have a counter of their own; matches of others count as `other`, so that a ruleset of
/// thousands of rules cannot make as many time series.
const RULES_MAX: usize = 200;

/// The metrics of the service.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<VerdictLabel, Counter>,
    seconds: Family<PhaseLabel, Histogram>,
    rule_matches: Family<RuleLabel, Counter>,
    rules: Mutex<BTreeSet<u32>>,
    scores: Family<DirectionLabel, Histogram>,
    pub(crate) streams_open: Gauge,
    pub(crate) evaluations_waiting: Gauge,
    body_bytes: Gauge,
    lag: Gauge<f64, AtomicU64>,
    uninspected: Family<ReasonLabel, Counter>,
    errors: Family<KindLabel, Counter>,
    alarms: Family<KindLabel, Counter>,
    rulesets: Family<RulesetLabel, Gauge>,
    exclusions: Family<ExclusionLabel, Gauge>,
    reloads: Family<ResultLabel, Counter>,
    loaded_at: Gauge,
    canary: Family<ProfileLabel, Gauge>,
    pub(crate) unknown_profiles: Counter,
    limits: Family<LimitLabel, Counter>,
    pub(crate) out_of_band: OutOfBandMetrics,
    pub(crate) shadow: ShadowMetrics,
    pub(crate) canary_envoy: EnvoyCanaryMetrics,
}

macro_rules! label {
    ($name:ident, $field:ident: $type:ty) => {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct $name {
            $field: $type,
        }
    };
}

label!(VerdictLabel, verdict: &'static str);
label!(PhaseLabel, phase: &'static str);
label!(RuleLabel, rule_id: String);
label!(DirectionLabel, direction: &'static str);
label!(ReasonLabel, reason: &'static str);
label!(KindLabel, kind: &'static str);
label!(LimitLabel, limit: &'static str);
label!(ResultLabel, result: &'static str);
label!(ProfileLabel, profile: String);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExclusionLabel {
    profile: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RulesetLabel {
    hash: String,
    rules: String,
    profile: String,
}

/// What went wrong, by `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Envoy sent a message out of order, or one that cannot be answered.
    Protocol,
    /// A bug: evaluation panicked.
    Panic,
    /// More streams than `max_streams`, or more evaluations than `evaluation_queue_max`.
    Overload,
    /// A message took longer than `deadline_ms`.
    Deadline,
    /// An audit record was dropped, as the writer cannot keep up.
    AuditDropped,
}

impl ErrorKind {
    const ALL: [Self; 5] =
        [Self::Protocol, Self::Panic, Self::Overload, Self::Deadline, Self::AuditDropped];

    const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Panic => "panic",
            Self::Overload => "overload",
            Self::Deadline => "deadline",
            Self::AuditDropped => "audit_dropped",
        }
    }
}

const SUCCESS: &str = "success";
const FAILURE: &str = "failure";

/// Verdicts as counted. `none`: the exchange ended before there was one.
const VERDICTS: [&str; 6] = ["allow", "deny", "redirect", "drop", OBSERVED, "none"];

fn seconds_histogram() -> Histogram {
    Histogram::new([
        0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
        0.5, 1.0,
    ])
}

fn score_histogram() -> Histogram {
    Histogram::new([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0])
}

impl Metrics {
    /// The metrics, registered in `registry`. Counters begin at 0, so that the first event of a kind
    /// is an increase and not an absence.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds_histogram),
            rule_matches: Family::default(),
            rules: Mutex::default(),
            scores: Family::new_with_constructor(score_histogram),
            streams_open: Gauge::default(),
            evaluations_waiting: Gauge::default(),
            body_bytes: Gauge::default(),
            lag: Gauge::default(),
            uninspected: Family::default(),
            errors: Family::default(),
            alarms: Family::default(),
            rulesets: Family::default(),
            exclusions: Family::default(),
            reloads: Family::default(),
            loaded_at: Gauge::default(),
            canary: Family::default(),
            unknown_profiles: Counter::default(),
            limits: Family::default(),
            out_of_band: OutOfBandMetrics::default(),
            shadow: ShadowMetrics::default(),
            canary_envoy: EnvoyCanaryMetrics::default(),
        };
        for verdict in VERDICTS {
            drop(metrics.requests.get_or_create(&VerdictLabel { verdict }));
        }
        for reason in Uninspected::ALL {
            drop(metrics.uninspected.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        for kind in ErrorKind::ALL {
            drop(metrics.errors.get_or_create(&KindLabel { kind: kind.name() }));
        }
        registry.register(
            "glacis_requests",
            "Requests by verdict; none: ended before there was one",
            metrics.requests.clone(),
        );
        registry.register(
            "glacis_inspection_seconds",
            "Time spent on one message, by the part of the exchange it carried",
            metrics.seconds.clone(),
        );
        registry.register(
            "glacis_rule_matches",
            "Requests in which a rule that logs has matched; the first 200 rules by id, the rest as other",
            metrics.rule_matches.clone(),
        );
        registry.register(
            "glacis_anomaly_score",
            "Anomaly score of requests at their end",
            metrics.scores.clone(),
        );
        registry.register(
            "glacis_streams_open",
            "Exchanges under inspection",
            metrics.streams_open.clone(),
        );
        registry.register("glacis_errors", "What went wrong, by kind", metrics.errors.clone());
        metrics.register_gaps(registry);
        metrics.register_rulesets(registry);
        metrics.register_load(registry);
        metrics.out_of_band.register(registry);
        metrics.shadow.register(registry);
        metrics.canary_envoy.register(registry);
        metrics
    }

    /// What was left out, and what may be.
    fn register_gaps(&self, registry: &mut Registry) {
        registry.register(
            "glacis_uninspected",
            "Requests of which something passed without inspection, by reason",
            self.uninspected.clone(),
        );
        registry.register(
            "glacis_limits_hit",
            "Requests that reached a limit of the engine, by the limit's name in audit records",
            self.limits.clone(),
        );
        for alarm in Alarm::ALL {
            drop(self.alarms.get_or_create(&KindLabel { kind: alarm.name() }));
        }
        registry.register(
            "glacis_alarms",
            "Requests by which a setting of Envoy's was seen that leaves something uninspected, by kind",
            self.alarms.clone(),
        );
    }

    fn register_load(&self, registry: &mut Registry) {
        registry.register(
            "glacis_evaluations_waiting",
            "Evaluations that wait for a thread for long work",
            self.evaluations_waiting.clone(),
        );
        registry.register(
            "glacis_body_bytes_held",
            "Bytes set aside for bodies under inspection",
            self.body_bytes.clone(),
        );
        registry.register(
            "glacis_lag_seconds",
            "How late a task ran that was due, at the last look: what each message waits for a thread",
            self.lag.clone(),
        );
    }

    /// Says how much is held, and how late tasks run.
    pub(crate) fn load(&self, body_bytes: usize, lag: Duration) {
        self.body_bytes.set(i64::try_from(body_bytes).unwrap_or(i64::MAX));
        self.lag.set(lag.as_secs_f64());
    }

    /// Counts an exchange that has no verdict, and will have none.
    pub(crate) fn no_verdict(&self) {
        self.requests.get_or_create(&VerdictLabel { verdict: "none" }).inc();
    }

    /// Counts an exchange that was to be evaluated after its answer, and is not.
    pub(crate) fn not_evaluated(&self) {
        self.no_verdict();
        let reason = Uninspected::NotEvaluated.name();
        self.uninspected.get_or_create(&ReasonLabel { reason }).inc();
    }

    fn register_rulesets(&self, registry: &mut Registry) {
        for result in [SUCCESS, FAILURE] {
            drop(self.reloads.get_or_create(&ResultLabel { result }));
        }
        registry.register(
            "glacis_reloads",
            "Configurations that were read while the service ran: success, or failure (not put to use)",
            self.reloads.clone(),
        );
        registry.register(
            "glacis_rulesets_loaded_timestamp_seconds",
            "When the rulesets in use were loaded, since 1970",
            self.loaded_at.clone(),
        );
        registry.register(
            "glacis_canary_refused",
            "Whether the profile refuses its canary: 1, or 0 if a known attack passes",
            self.canary.clone(),
        );
        registry.register(
            "glacis_ruleset_info",
            "The ruleset in use, by profile; always 1",
            self.rulesets.clone(),
        );
        registry.register(
            "glacis_exclusions",
            "Typed exclusions by profile and state: valid, or expired",
            self.exclusions.clone(),
        );
        registry.register(
            "glacis_unknown_profiles",
            "Requests that named a profile which is not there",
            self.unknown_profiles.clone(),
        );
    }

    /// Counts an attempt to put another configuration to use.
    pub(crate) fn reloaded(&self, good: bool) {
        let result = if good { SUCCESS } else { FAILURE };
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Says what became of a profile's canary.
    pub(crate) fn canary(&self, profile: &str, refused: bool) {
        let label = ProfileLabel { profile: profile.to_owned() };
        self.canary.get_or_create(&label).set(refused.into());
    }

    /// Announces the rulesets in use, instead of those before.
    pub(crate) fn loaded(&self, rulesets: &Rulesets) {
        self.canary.clear();
        self.loaded_at.set(i64::try_from(now().as_secs()).unwrap_or(i64::MAX));
        self.rulesets.clear();
        for loaded in rulesets.loaded() {
            let label = RulesetLabel {
                hash: loaded.program.hash().to_owned(),
                rules: loaded.program.rule_count().to_string(),
                profile: loaded.profile.to_owned(),
            };
            self.rulesets.get_or_create(&label).set(1);
        }
        for (_, profile) in rulesets.profiles.iter() {
            profile.watch.shadow.iter().for_each(|shadow| self.shadow.announce(shadow));
        }
        self.exclusions.clear();
        for loaded in rulesets.exclusions() {
            let state = if loaded.expired { "expired" } else { "valid" };
            let label = ExclusionLabel { profile: loaded.profile.clone(), state };
            self.exclusions.get_or_create(&label).inc();
        }
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.alarms.get_or_create(&KindLabel { kind: alarm.name() }).inc();
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        self.errors.get_or_create(&KindLabel { kind: kind.name() }).inc();
    }

    pub(crate) fn evaluated(&self, phase: &'static str, time: Duration) {
        self.seconds.get_or_create(&PhaseLabel { phase }).observe(time.as_secs_f64());
    }

    /// Counts an exchange that is over.
    pub(crate) fn finished(&self, outcome: &Outcome<'_>) {
        let receipt = &outcome.receipt;
        let verdict = if receipt.verdict == "pending" { "none" } else { receipt.verdict };
        self.requests.get_or_create(&VerdictLabel { verdict }).inc();
        if let Some(reason) = receipt.uninspected {
            self.uninspected.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
        }
        for limit in outcome.limits.names() {
            self.limits.get_or_create(&LimitLabel { limit }).inc();
        }
        for (direction, score) in
            [("inbound", receipt.scores.inbound), ("outbound", receipt.scores.outbound)]
        {
            // Beyond the last bucket the number does not matter.
            let score = i32::try_from(score).unwrap_or(i32::MAX);
            self.scores.get_or_create(&DirectionLabel { direction }).observe(score.into());
        }
    }

    pub(crate) fn rule_matched(&self, rule: u32) {
        let rule_id = if self.has_counter(rule) { rule.to_string() } else { "other".to_owned() };
        self.rule_matches.get_or_create(&RuleLabel { rule_id }).inc();
    }

    fn has_counter(&self, rule: u32) -> bool {
        let Ok(mut rules) = self.rules.lock() else { return false };
        rules.contains(&rule) || rules.len() < RULES_MAX && rules.insert(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_beyond_the_limit_are_counted_together() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        for rule in 1..=300 {
            metrics.rule_matched(rule);
        }
        metrics.rule_matched(200);
        metrics.rule_matched(201);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "glacis_rule_matches_total{rule_id=\"200\"} 2",
            "glacis_rule_matches_total{rule_id=\"other\"} 101",
            "glacis_requests_total{verdict=\"deny\"} 0",
            "glacis_errors_total{kind=\"overload\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line}");
        }
        assert!(!text.contains("rule_id=\"201\""));
    }
}
