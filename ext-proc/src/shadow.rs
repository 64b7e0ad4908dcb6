//! A ruleset in the shadow of another: both evaluate a sample of exchanges that have been answered, and where they
//! differ it is said. So one knows what a new ruleset would do before it does it.

use core::time::Duration;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use glacis_inspector::Sample;
use glacis_service::now;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::{
    metrics::{Metrics, table},
    profile::Profile,
    recording::{Recording, Wanted},
    shared::Shared,
};

/// Rules of which differences are counted by themselves; those of others count as `other`.
const RULES_MAX: usize = 200;

/// In which of the two a rule has matched, as a label.
pub(crate) const ONLY: [&str; 2] = ["current", "shadow"];

/// Rules that one line of the log names.
const RULES_LOGGED_MAX: usize = 32;

/// Differences that the log tells in one second; all are counted.
const LINES_PER_SECOND_MAX: u32 = 10;

/// A profile, and what evaluates the same exchanges in its shadow. Neither is the profile that answers: they leave
/// nothing in collections, and both may refuse, so that there is a verdict to compare.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) current: Arc<Profile>,
    pub(crate) shadow: Arc<Profile>,
    pub(crate) sample: Sample,
}

/// What a ruleset made of an exchange.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    verdict: Verdict,
    score: i64,
    rules: BTreeSet<u32>,
}

/// What it would have done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has not seen enough of the exchange, as the other refused it before.
    None,
    Pass,
    /// The status, and the rule if it was one.
    Refuse(u16, Option<u32>),
}

impl Verdict {
    fn words(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Pass => "pass".to_owned(),
            Self::Refuse(status, Some(rule)) => format!("refuse with {status} by rule {rule}"),
            Self::Refuse(status, None) => format!("refuse with {status} at a limit"),
        }
    }
}

/// How two verdicts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Agreed,
    /// The shadow refuses what passes now.
    WouldBlock,
    /// The shadow lets pass what is refused now.
    WouldPass,
    /// One of them has not seen enough.
    Incomplete,
}

impl Comparison {
    pub(crate) const ALL: [Self; 4] =
        [Self::Agreed, Self::WouldBlock, Self::WouldPass, Self::Incomplete];

    const fn of(current: &Verdict, shadow: &Verdict) -> Self {
        match (current, shadow) {
            (Verdict::None, _) | (_, Verdict::None) => Self::Incomplete,
            (Verdict::Pass, Verdict::Refuse(..)) => Self::WouldBlock,
            (Verdict::Refuse(..), Verdict::Pass) => Self::WouldPass,
            (Verdict::Pass, Verdict::Pass) | (Verdict::Refuse(..), Verdict::Refuse(..)) => {
                Self::Agreed
            }
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::WouldBlock => "would_block",
            Self::WouldPass => "would_pass",
            Self::Incomplete => "incomplete",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    profile: String,
    shadow: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleLabel {
    profile: String,
    only: &'static str,
    rule_id: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProfileLabel {
    profile: String,
}

/// The metrics of shadows.
#[derive(Debug, Default)]
pub(crate) struct ShadowMetrics {
    requests: Family<ResultLabel, Counter>,
    rules: Family<RuleLabel, Counter>,
    dropped: Family<ProfileLabel, Counter>,
    /// Those that have a counter of their own.
    known: Mutex<BTreeSet<u32>>,
    lines: Mutex<Option<(Instant, u32)>>,
}

impl ShadowMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        table::SHADOW_REQUESTS.register(registry, self.requests.clone());
        table::SHADOW_RULES.register(registry, self.rules.clone());
        table::SHADOW_DROPPED.register(registry, self.dropped.clone());
    }

    /// Makes the counters of `new` begin at 0, and ends the series of `old`, or of rules, that are no longer loaded.
    pub(crate) fn loaded(&self, old: &[&Shadow], new: &[&Shadow], is_loaded: impl Fn(u32) -> bool) {
        new.iter().for_each(|shadow| self.announce(shadow));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before: Vec<u32> = known.iter().copied().collect();
        known.retain(|rule| is_loaded(*rule));
        for shadow in old {
            if !new.iter().any(|new| new.names() == shadow.names()) {
                for comparison in Comparison::ALL {
                    self.requests.remove(&shadow.label(comparison));
                }
            }
            let profile = shadow.name();
            let stays = new.iter().any(|new| new.name() == profile);
            let gone = before.iter().filter(|rule| !stays || !known.contains(*rule));
            let other = (!stays).then(|| "other".to_owned());
            for rule_id in gone.map(u32::to_string).chain(other) {
                for only in ONLY {
                    let (profile, rule_id) = (profile.clone(), rule_id.clone());
                    self.rules.remove(&RuleLabel { profile, only, rule_id });
                }
            }
            if !stays {
                self.dropped.remove(&ProfileLabel { profile });
            }
        }
    }

    fn announce(&self, shadow: &Shadow) {
        for comparison in Comparison::ALL {
            drop(self.requests.get_or_create(&shadow.label(comparison)));
        }
        drop(self.dropped.get_or_create(&ProfileLabel { profile: shadow.name() }));
    }

    fn count_rule(&self, profile: &str, only: &'static str, rule: u32) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.contains(&rule) || known.len() < RULES_MAX && known.insert(rule);
        let rule_id = if own { rule.to_string() } else { "other".to_owned() };
        self.rules.get_or_create(&RuleLabel { profile: profile.to_owned(), only, rule_id }).inc();
    }

    /// Whether the log has room for one more line.
    fn may_say(&self) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, said) = lines.get_or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *said) = (Instant::now(), 0);
        }
        *said = said.saturating_add(1);
        *said <= LINES_PER_SECOND_MAX
    }
}

impl Shadow {
    fn name(&self) -> String {
        self.current.settings.profile.clone()
    }

    /// The names of its profile, and of the one in its shadow.
    fn names(&self) -> [&str; 2] {
        [&self.current.settings.profile, &self.shadow.settings.profile]
    }

    fn label(&self, comparison: Comparison) -> ResultLabel {
        let [profile, shadow] = self.names().map(str::to_owned);
        ResultLabel { profile, shadow, result: comparison.name() }
    }

    /// What both have to see.
    pub(crate) fn wanted(&self) -> [Wanted; 2] {
        [self.current.wanted(0), self.shadow.wanted(0)]
    }

    /// Counts an exchange that is not compared.
    pub(crate) fn left_out(&self, metrics: &Metrics) {
        metrics.shadow.dropped.get_or_create(&ProfileLabel { profile: self.name() }).inc();
    }

    /// Evaluates by both, counts, and says where they differ.
    pub(crate) fn compare(&self, recording: &Recording, shared: &Shared) {
        let (current, _) = found(&self.current, recording);
        let (shadow, record) = found(&self.shadow, recording);
        let comparison = Comparison::of(&current.verdict, &shadow.verdict);
        let metrics = &shared.metrics().shadow;
        metrics.requests.get_or_create(&self.label(comparison)).inc();
        let only = |left: &Found, right: &Found| -> Vec<u32> {
            left.rules.difference(&right.rules).copied().collect()
        };
        let (only_current, only_shadow) = (only(&current, &shadow), only(&shadow, &current));
        if comparison != Comparison::Incomplete {
            for (only, rules) in ONLY.into_iter().zip([&only_current, &only_shadow]) {
                rules.iter().for_each(|rule| metrics.count_rule(&self.name(), only, *rule));
            }
        }
        if !matches!(comparison, Comparison::WouldBlock | Comparison::WouldPass) {
            return;
        }
        if let Some(record) = record {
            shared.write_record(record);
        }
        if metrics.may_say() {
            tracing::warn!(
                profile = self.name(),
                shadow = self.shadow.settings.profile,
                request_id = recording.id,
                result = comparison.name(),
                current_verdict = current.verdict.words(),
                shadow_verdict = shadow.verdict.words(),
                current_score = current.score,
                shadow_score = shadow.score,
                only_current = ids(&only_current),
                only_shadow = ids(&only_shadow),
                "the shadow decides otherwise"
            );
        }
    }
}

/// Rules as one text, as many as a line has room for.
fn ids(rules: &[u32]) -> String {
    let shown = rules.iter().take(RULES_LOGGED_MAX).map(u32::to_string);
    shown.collect::<Vec<_>>().join(",")
}

/// What a profile makes of an exchange, and its audit record.
fn found(profile: &Profile, recording: &Recording) -> (Found, Option<String>) {
    let mut inspector = profile.inspector();
    recording.show(&mut inspector);
    let outcome = inspector.finish(now());
    let (record, score) = (outcome.audit, outcome.receipt.scores.inbound);
    let verdict = match inspector.refused() {
        Some(refusal) => Verdict::Refuse(refusal.status, refusal.rule.map(|rule| rule.0)),
        None if inspector.is_decided() => Verdict::Pass,
        None => Verdict::None,
    };
    let rules = inspector.matched_rules().filter(|rule| rule.log).map(|rule| rule.id.0);
    let found = Found { verdict, score, rules: rules.collect() };
    profile.keep(inspector);
    (found, record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_compare() {
        let (pass, refuse) = (Verdict::Pass, Verdict::Refuse(403, Some(1)));
        for (current, shadow, expected) in [
            (&pass, &pass, Comparison::Agreed),
            (&refuse, &Verdict::Refuse(400, Some(2)), Comparison::Agreed),
            (&pass, &refuse, Comparison::WouldBlock),
            (&refuse, &pass, Comparison::WouldPass),
            (&refuse, &Verdict::None, Comparison::Incomplete),
            (&Verdict::None, &pass, Comparison::Incomplete),
        ] {
            assert_eq!(Comparison::of(current, shadow), expected, "{current:?}, {shadow:?}");
        }
    }

    #[test]
    fn counters_and_lines_are_bounded() {
        let metrics = ShadowMetrics::default();
        for rule in 1..=300 {
            metrics.count_rule("default", "shadow", rule);
        }
        let other = |rule_id: &str| RuleLabel {
            profile: "default".to_owned(),
            only: "shadow",
            rule_id: rule_id.to_owned(),
        };
        assert_eq!(metrics.rules.get_or_create(&other("other")).get(), 100);
        assert_eq!(metrics.rules.get_or_create(&other("200")).get(), 1);
        let said = (0..100).filter(|_| metrics.may_say()).count();
        assert!(said <= 2 * LINES_PER_SECOND_MAX as usize, "{said}");
        assert_eq!(ids(&[7; 100]).split(',').count(), RULES_LOGGED_MAX);
    }
}
