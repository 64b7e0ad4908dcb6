//! What is counted, as Envoy's own statistics: the families of `docs/reference/metrics.md` that a filter can tell.

use core::time::Duration;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use glacis_engine::RuleId;
use glacis_inspector::Outcome;

use crate::stream::{MetricId, Metrics, Stream};

/// The families. One that Envoy refuses to define is not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Families {
    requests: Option<MetricId>,
    receipts: Option<MetricId>,
    uninspected: Option<MetricId>,
    rejected: Option<MetricId>,
    socket_messages: Option<MetricId>,
    stream_events: Option<MetricId>,
    limits: Option<MetricId>,
    unknown_profiles: Option<MetricId>,
    errors: Option<MetricId>,
    rules: Option<MetricId>,
    reloads: Option<MetricId>,
    inspection: Option<MetricId>,
    opinions: Option<MetricId>,
    build: Option<MetricId>,
    rulesets: Option<MetricId>,
}

/// Why a request got no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// A panic, which is a bug.
    Fault,
    /// A route names a profile that does not exist, and such requests are refused.
    UnknownProfile,
    /// There are no rules yet.
    NotReady,
}

impl Error {
    const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::UnknownProfile => "unknown_profile",
            Self::NotReady => "not_ready",
        }
    }

    /// The response code details of the answer.
    pub(crate) const fn details(self) -> &'static str {
        match self {
            Self::Fault | Self::UnknownProfile => "glacis_fault",
            Self::NotReady => "glacis_not_ready",
        }
    }
}

impl Families {
    /// Defines all families.
    pub(crate) fn define(envoy: &mut impl Metrics) -> Self {
        Self {
            requests: envoy.counter("glacis_requests", &["profile", "verdict"]),
            receipts: envoy.counter("glacis_receipts", &["verdict"]),
            uninspected: envoy.counter("glacis_uninspected", &["reason"]),
            rejected: envoy.counter("glacis_rejected", &["reason"]),
            socket_messages: envoy.counter("glacis_websocket_messages", &["from", "verdict"]),
            stream_events: envoy.counter("glacis_stream_events", &["verdict"]),
            limits: envoy.counter("glacis_limits_hit", &["limit"]),
            unknown_profiles: envoy.counter("glacis_unknown_profiles", &[]),
            errors: envoy.counter("glacis_errors", &["kind"]),
            rules: envoy.counter("glacis_rule_matches", &["rule_id"]),
            reloads: envoy.counter("glacis_reloads", &["result"]),
            opinions: envoy.counter("glacis_second_opinions", &["profile", "opinion", "rules"]),
            build: envoy.gauge("glacis_build_info", &["version"]),
            rulesets: envoy.gauge("glacis_ruleset_info", &["hash", "rules", "profile", "mode"]),
            inspection: envoy.histogram("glacis_inspection_microseconds", &["profile", "phase"]),
        }
    }

    /// A receipt was left.
    pub(crate) fn receipt(&self, stream: &mut impl Stream, verdict: &str) {
        count(stream, self.receipts, &[verdict]);
    }

    /// A request names a profile that does not exist.
    pub(crate) fn unknown_profile(&self, stream: &mut impl Stream) {
        count(stream, self.unknown_profiles, &[]);
    }

    /// A request got no verdict.
    pub(crate) fn error(&self, stream: &mut impl Stream, error: Error) {
        count(stream, self.errors, &[error.name()]);
    }

    /// Something passed without inspection.
    pub(crate) fn uninspected(&self, stream: &mut impl Stream, reason: &str) {
        count(stream, self.uninspected, &[reason]);
    }

    /// A message of a WebSocket was judged.
    pub(crate) fn socket_message(&self, stream: &mut impl Stream, from: &str, verdict: &str) {
        count(stream, self.socket_messages, &[from, verdict]);
    }

    /// A server-sent event was judged.
    pub(crate) fn stream_event(&self, stream: &mut impl Stream, verdict: &str) {
        count(stream, self.stream_events, &[verdict]);
    }

    /// A message was evaluated. `phase` is the part of the exchange that it carried.
    pub(crate) fn evaluated(
        &self,
        stream: &mut impl Stream,
        profile: &str,
        phase: &str,
        time: Duration,
    ) {
        if let Some(id) = self.inspection {
            let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            stream.record(id, &[profile, phase], microseconds);
        }
    }

    /// An exchange has ended.
    pub(crate) fn finished(&self, stream: &mut impl Stream, outcome: &Outcome<'_>) {
        let receipt = &outcome.receipt;
        let verdict = if receipt.verdict == "pending" { "none" } else { receipt.verdict };
        count(stream, self.requests, &[receipt.profile, verdict]);
        if let Some(opinion) = receipt.opinion {
            let labels = [receipt.profile, opinion.name(), opinion.rules()];
            count(stream, self.opinions, &labels);
        }
        if let Some(reason) = receipt.uninspected {
            count(stream, self.uninspected, &[reason.name()]);
        }
        if let Some(reason) = receipt.reason {
            count(stream, self.rejected, &[reason.name()]);
        }
        for limit in outcome.limits.names() {
            count(stream, self.limits, &[limit]);
        }
    }

    /// Rules that log have matched. `names` bounds how many of them are counted by id.
    pub(crate) fn rules_matched(
        &self,
        stream: &mut impl Stream,
        names: &RuleNames,
        rules: impl Iterator<Item = RuleId>,
    ) {
        for rule in rules {
            match names.has_room_for(rule) {
                true => count(stream, self.rules, &[&rule.to_string()]),
                false => count(stream, self.rules, &["other"]),
            }
        }
    }

    /// Attempts to put new rules to use that are not yet counted: those that succeeded, and those that failed.
    pub(crate) fn reloaded(&self, stream: &mut impl Stream, [succeeded, failed]: [u64; 2]) {
        for (result, times) in [("success", succeeded), ("failure", failed)] {
            if let Some(id) = self.reloads.filter(|_| times > 0) {
                stream.count(id, &[result], times);
            }
        }
    }

    /// Rules were put to use: those before them are no longer shown.
    pub(crate) fn rules_in_use(&self, stream: &mut impl Stream, InUseNow { old, new }: &InUseNow) {
        if let Some(id) = self.build {
            stream.set(id, &[env!("CARGO_PKG_VERSION")], 1);
        }
        let Some(id) = self.rulesets else { return };
        for (rulesets, value) in [(old, 0), (new, 1)] {
            for RulesetInfo { hash, rules, profile, mode } in rulesets {
                stream.set(id, &[hash, rules, profile, mode], value);
            }
        }
    }

    /// An exchange has ended before there was a verdict.
    pub(crate) fn no_verdict(&self, stream: &mut impl Stream, profile: &str) {
        count(stream, self.requests, &[profile, "none"]);
    }
}

/// The rules of a profile, as labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RulesetInfo {
    pub(crate) hash: String,
    pub(crate) rules: String,
    pub(crate) profile: String,
    pub(crate) mode: &'static str,
}

/// The rules of all profiles since they were last put to use, and those before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUseNow {
    pub(crate) old: Vec<RulesetInfo>,
    pub(crate) new: Vec<RulesetInfo>,
}

/// Ids that are counted by themselves: the first of them that match, up to [`Self::MAX`].
#[derive(Debug, Default)]
pub(crate) struct RuleNames(Mutex<BTreeSet<RuleId>>);

impl RuleNames {
    /// As in ext-proc's metrics.
    const MAX: usize = 200;

    fn has_room_for(&self, rule: RuleId) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !names.contains(&rule);
        if is_new && names.len() < Self::MAX {
            names.insert(rule);
        }
        names.contains(&rule)
    }
}

fn count(stream: &mut impl Stream, family: Option<MetricId>, labels: &[&str]) {
    if let Some(id) = family {
        stream.count(id, labels, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_beyond_the_first_have_no_name() {
        let names = RuleNames::default();
        let max = u32::try_from(RuleNames::MAX).unwrap();
        assert!((0..max).all(|id| names.has_room_for(RuleId(id))));
        assert!(!names.has_room_for(RuleId(max)));
        assert!(names.has_room_for(RuleId(0)), "one of the first");
    }
}
