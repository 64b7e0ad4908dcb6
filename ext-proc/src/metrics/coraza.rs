//! The contract of metrics of coraza-kubernetes-operator, as far as it fits: the words of its labels.
//!
//! `docs/reference/metrics.md` says what does not fit.

use glacis_engine::MatchedRule;
use glacis_service::metrics::RESULTS;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

pub(super) use super::label::{Outcome, Severity};
use super::{
    rule_hits::{BySeverity, RuleHits},
    score_histogram, table,
};
use crate::config::MetricsConfig;

/// What the driver of the contract is called here.
const DRIVER: &str = "ext_proc";

/// Tags of rules, and the label `category` for each; the last is for rules with none of them.
pub(super) const CATEGORIES: [(&str, &str); 10] = [
    ("attack-sqli", "sqli"),
    ("attack-xss", "xss"),
    ("attack-rce", "rce"),
    ("attack-lfi", "lfi"),
    ("attack-rfi", "rfi"),
    ("attack-command-injection", "command_injection"),
    ("attack-protocol", "protocol_attack"),
    ("attack-session-fixation", "session_fixation"),
    ("attack-java", "java_attack"),
    ("", "other"),
];
const OTHER: usize = CATEGORIES.len() - 1;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CategoryLabel {
    category: &'static str,
    severity: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

/// The counters.
#[derive(Debug)]
pub(super) struct Coraza {
    requests: [Counter; Outcome::ALL.len()],
    blocked: [[Counter; Severity::ALL.len()]; CATEGORIES.len()],
    score: Histogram,
    loads: [Counter; 2],
    rules: Gauge,
}

impl Coraza {
    pub(super) fn register(
        registry: &mut Registry,
        config: &MetricsConfig,
        hits: &RuleHits,
    ) -> Self {
        let labels = [
            ("engine", config.engine.clone()),
            ("namespace", config.namespace.clone()),
            ("driver_type", DRIVER.to_owned()),
        ];
        let labels = labels.map(|(name, value)| (name.into(), value.into()));
        let registry = registry.sub_registry_with_labels(labels.into_iter());
        let requests: Family<OutcomeLabel, Counter> = Family::default();
        let blocked: Family<CategoryLabel, Counter> = Family::default();
        let loads: Family<StatusLabel, Counter> = Family::default();
        let coraza = Self {
            requests: Outcome::ALL.map(|outcome| {
                requests.get_or_create_owned(&OutcomeLabel { outcome: outcome.name() })
            }),
            blocked: CATEGORIES.map(|(_, category)| {
                Severity::ALL.map(|severity| {
                    let severity = severity.name();
                    blocked.get_or_create_owned(&CategoryLabel { category, severity })
                })
            }),
            score: score_histogram(),
            loads: RESULTS.map(|status| loads.get_or_create_owned(&StatusLabel { status })),
            rules: Gauge::default(),
        };
        table::CORAZA_REQUESTS.register(registry, requests);
        table::CORAZA_BLOCKED.register(registry, blocked);
        table::CORAZA_LOADS.register(registry, loads);
        table::CORAZA_SCORE.register(registry, coraza.score.clone());
        table::CORAZA_RULES.register(registry, coraza.rules.clone());
        registry.register_collector(Box::new(BySeverity(hits.clone())));
        coraza
    }

    pub(super) fn finished(&self, outcome: Outcome, inbound: i32) {
        if let Some(counter) = self.requests.get(outcome as usize) {
            counter.inc();
        }
        self.score.observe(inbound.into());
    }

    pub(super) fn no_verdict(&self) {
        if let Some(counter) = self.requests.get(Outcome::Error as usize) {
            counter.inc();
        }
    }

    pub(super) fn loaded(&self, good: bool) {
        let [success, failure] = &self.loads;
        if good {
            success.inc()
        } else {
            failure.inc()
        };
    }

    pub(super) fn rules(&self, count: usize) {
        self.rules.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a refused request in each category of its matched rules, with the highest severity in it.
    pub(super) fn blocked<'r>(&self, rules: impl Iterator<Item = MatchedRule<'r>>) {
        let mut found = [None::<Severity>; CATEGORIES.len()];
        for rule in rules {
            let severity = Severity::of(rule.severity);
            let mut has_category = false;
            for ((tag, _), found) in CATEGORIES.iter().zip(&mut found).take(OTHER) {
                if rule.tags.iter().any(|known| **known == **tag) {
                    has_category = true;
                    *found = Some(found.map_or(severity, |known| known.min(severity)));
                }
            }
            if !has_category && let Some(found) = found.last_mut() {
                *found = Some(found.map_or(severity, |known| known.min(severity)));
            }
        }
        // The rule that adds up scores has no category: it is the answer only where no other rule has one.
        if found.iter().take(OTHER).any(Option::is_some) {
            if let Some(other) = found.last_mut() {
                *other = None;
            }
        } else if let Some(other) = found.last_mut() {
            // A limit refused.
            *other = other.or(Some(Severity::Info));
        }
        for (counters, severity) in self.blocked.iter().zip(found) {
            if let Some(counter) = severity.and_then(|severity| counters.get(severity as usize)) {
                counter.inc();
            }
        }
    }
}
