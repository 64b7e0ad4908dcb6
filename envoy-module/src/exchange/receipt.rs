//! What an exchange leaves behind: its receipt, what is counted, and its records.

use std::time::Instant;

use glacis_inspector::{Inspector, Receipt};
use glacis_service::now;

use super::{Exchange, NAMESPACE};
use crate::{
    filter::Filter,
    stream::{Stream, Value, Wake},
};

/// Entries of a receipt.
const ENTRIES_MAX: usize = 16;

impl<W: Wake> Exchange<W> {
    /// Writes the receipt as it is now into the dynamic metadata.
    pub(super) fn leave_receipt(&self, stream: &mut impl Stream) {
        let Some(receipt) = self.inspector.as_ref().map(|seen| seen.receipt()) else { return };
        write(stream, &receipt);
        self.filter.metrics.receipt(stream, receipt.verdict);
    }

    /// Counts the exchange, writes its records, and gives the inspector back. Only the first call does anything.
    pub(super) fn conclude(&mut self, stream: &mut impl Stream) {
        let Some(mut inspector) = self.inspector.take() else { return };
        finish(&self.filter, stream, &mut inspector);
        if let Some(profile) = &self.profile {
            profile.pool.keep(*inspector);
        }
        // The stream may stay open for long.
        self.body_memory.release();
        self.place.release();
    }

    /// Counts the time of an evaluation on the thread of the stream.
    pub(super) fn measure(&self, stream: &mut impl Stream, phase: &str, began: Instant) {
        if let Some(profile) = &self.profile {
            self.filter.metrics.evaluated(stream, profile.name(), phase, began.elapsed());
        }
    }
}

/// Counts an exchange that has ended, and writes its records.
pub(super) fn finish(filter: &Filter, stream: &mut impl Stream, inspector: &mut Inspector) {
    let mut outcome = inspector.finish(now());
    filter.metrics.finished(stream, &outcome);
    let shared = &filter.engine.shared;
    if let Some(record) = outcome.audit.take() {
        shared.write_record(record);
    }
    let rules = inspector.matched_rules().filter(|rule| rule.log).map(|rule| rule.id);
    filter.metrics.rules_matched(stream, &shared.rule_names, rules);
    filter.metrics.reloaded(stream, shared.take_reloads());
    if let Some(rules) = shared.take_unshown() {
        filter.metrics.rules_in_use(stream, &rules);
    }
}

/// Writes a receipt with the entries that the receipts of ext-proc have.
pub(super) fn write(stream: &mut impl Stream, receipt: &Receipt<'_>) {
    let rules: Vec<String> = receipt.rules.iter().map(ToString::to_string).collect();
    let mut entries = Vec::with_capacity(ENTRIES_MAX);
    entries.extend([
        ("verdict", Value::Text(receipt.verdict)),
        ("mode", Value::Text(receipt.mode.name())),
        ("inspected", Value::Text(receipt.inspected)),
        ("score", number(receipt.scores.inbound)),
        ("score_outbound", number(receipt.scores.outbound)),
        ("rules", Value::Texts(&rules)),
        ("profile", Value::Text(receipt.profile)),
        ("ruleset", Value::Text(receipt.ruleset)),
        ("request_id", Value::Text(receipt.request_id)),
    ]);
    entries.extend(receipt.reason.map(|reason| ("reason", Value::Text(reason.name()))));
    if let Some(opinion) = receipt.opinion {
        let score = Value::Number(f64::from(opinion.score) / 1_000.0);
        entries.extend([
            ("second_opinion", Value::Text(opinion.name())),
            ("second_opinion_score", score),
        ]);
    }
    let would_deny = receipt.would_deny.map(|would_deny| number(would_deny.rule.0.into()));
    entries.extend(would_deny.map(|rule| ("would_deny", rule)));
    let uninspected = receipt.uninspected;
    entries.extend(uninspected.map(|reason| ("uninspected", Value::Text(reason.name()))));
    let message = receipt.message.map(|it| it.to_string());
    entries.extend(message.as_deref().map(|message| ("message", Value::Text(message))));
    entries.extend(receipt.phase.map(|phase| ("phase", number(phase.number().into()))));
    stream.set_metadata(NAMESPACE, &entries);
}

/// Numbers of metadata are floating point; scores are small.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
const fn number<'v>(number: i64) -> Value<'v> {
    Value::Number(number as f64)
}
