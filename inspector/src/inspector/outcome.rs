//! What is said of an exchange: the receipt, and the records at its end.

use core::time::Duration;

use glacis_engine::{Phase, RuleId};

use super::{Inspector, Stage};
use crate::{
    audit::{self, AuditFormat},
    decision::{Mode, Outcome, REJECT, Receipt, Reply, Uninspected, WouldDeny},
    rejection::Rejection,
};

impl Inspector {
    /// The receipt as of now.
    #[must_use]
    pub fn receipt(&self) -> Receipt<'_> {
        let rules = self.transaction.matched_rules().filter(|rule| rule.log);
        let rules: Vec<RuleId> = rules.map(|rule| rule.id).take(Receipt::RULES_MAX).collect();
        Receipt {
            verdict: if self.is_decided() { self.verdict_name() } else { "pending" },
            reason: if self.is_decided() { self.rejection() } else { None },
            mode: self.mode(),
            phase: self.refused().map(|refusal| refusal.phase),
            inspected: self.inspected(),
            uninspected: self.uninspected(),
            scores: self.transaction.scores(),
            opinion: self.opined(),
            would_deny: self.would_deny(),
            rules,
            profile: &self.settings.profile,
            ruleset: self.transaction.program().hash(),
            request_id: &self.request.id,
            message: self.request.message,
        }
    }

    /// What is to be said of a message for whose verdict the host cannot wait: a receipt that lets it pass,
    /// if rules may not block.
    #[must_use]
    pub fn receipt_without_verdict(&self) -> Option<Receipt<'_>> {
        (self.mode() != Mode::Blocking).then(|| Receipt {
            verdict: "allow",
            uninspected: Some(Uninspected::Late),
            ..self.receipt()
        })
    }

    /// What is to be answered where the host gives up waiting for a verdict and rules may block: the answer, and the
    /// receipt in it. Nothing of the exchange changes, as its evaluation may be under way elsewhere.
    #[must_use]
    pub fn late_reply(&self) -> Option<(Reply, Receipt<'_>)> {
        if self.mode() != Mode::Blocking {
            return None;
        }
        let rejection = Rejection::Late;
        let phase = Some(Phase::RequestBody);
        let reply = self.reply(REJECT, rejection.status(), None, None, Some(rejection));
        Some((reply, Receipt { verdict: REJECT, reason: Some(rejection), phase, ..self.receipt() }))
    }

    /// Why something was left out: the host's reason goes before the engine's.
    fn uninspected(&self) -> Option<Uninspected> {
        let flags = self.transaction.flags();
        let cut_off = flags.rules_cut_off.then_some(Uninspected::RulesCutOff);
        let cut_off = flags.deadline_passed.then_some(Uninspected::Late).or(cut_off);
        let encoded = flags.response_body_encoded.then_some(Uninspected::ResponseEncoded);
        self.uninspected.or(cut_off).or(encoded)
    }

    fn inspected(&self) -> &'static str {
        let is_cut = matches!(
            self.uninspected,
            Some(Uninspected::BodyTruncated | Uninspected::BodyOverflow)
        );
        if self.mode() == Mode::Off {
            "none"
        } else if !self.body_seen {
            "headers"
        } else if is_cut || !self.request_evaluated {
            "partial"
        } else {
            "body"
        }
    }

    /// Ends the exchange: runs phase 5, and says what is left of it. `now` is the time since 1970.
    pub fn finish(&mut self, now: Duration) -> Outcome<'_> {
        if self.stage == Stage::RequestBody {
            self.uninspected = Some(Uninspected::BodyNotSent);
        }
        self.end_messages();
        self.transaction.finish(now);
        let refused = self.refused().is_some().then(|| self.host_record()).flatten();
        let detected = self.would_deny().and_then(|_| self.host_record());
        let receipt = self.receipt();
        // Of what the host cut off, and of what the second opinion refused, the engine does not know it.
        // Without `SecAuditEngine` it knows of refusals only, and detection mode has none.
        let beside = self.rejected.is_some()
            || self.refused_by_opinion().is_some()
            || receipt.would_deny.is_some();
        let cut_off = beside && self.transaction.audit_engine().is_none();
        let due = cut_off || self.transaction.audit_due(self.request.status);
        let sampled = self.settings.audit_sample.has(self.request.audit_lot);
        let kept = self.refused().is_some() || sampled;
        let audit = (due && kept).then(|| self.record(&receipt, self.settings.audit_format));
        Outcome { receipt, audit, refused, detected, limits: self.transaction.flags() }
    }

    /// The refusal that there would be if rules might block: by the first rule that refuses, otherwise by the second
    /// opinion.
    pub(super) fn would_deny(&self) -> Option<WouldDeny> {
        if self.mode() != Mode::DetectionOnly || self.refused().is_some() {
            return None;
        }
        // After phase 4 nothing is refused.
        let mut rules = self.transaction.matched_rules().filter(|rule| rule.refuses);
        let rule = rules.find(|rule| rule.phase != Phase::Logging);
        let by_rule = rule.map(|rule| WouldDeny { phase: rule.phase, rule: rule.id });
        by_rule.or_else(|| {
            let refusal = self.opinion_refusal()?;
            Some(WouldDeny { phase: refusal.phase, rule: refusal.rule? })
        })
    }

    /// Whether a rule about the request would have refused it, or the second opinion, where rules may not block.
    pub(super) fn would_refuse(&self) -> bool {
        let about_request =
            |deny: WouldDeny| matches!(deny.phase, Phase::RequestHeaders | Phase::RequestBody);
        self.would_deny().is_some_and(about_request)
    }

    /// The record for the host itself.
    fn host_record(&mut self) -> Option<String> {
        let parts = self.settings.refused_parts?;
        // They are many at a time, and would take the place of attacks.
        if self.rejection().is_some_and(Rejection::is_of_load) {
            return None;
        }
        let asked = self.transaction.audit_parts();
        self.transaction.set_audit_parts(parts);
        let record = self.record(&self.receipt(), AuditFormat::Native);
        self.transaction.set_audit_parts(asked);
        Some(record)
    }

    fn record(&self, receipt: &Receipt<'_>, format: AuditFormat) -> String {
        let entry = audit::Entry {
            format,
            time: self.request.time,
            request_id: &self.request.id,
            client: self.request.client,
            server: self.request.server,
            method: &self.request.method,
            uri: &self.request.uri,
            host: &self.request.host,
            protocol: self.request.protocol,
            status: self.request.status,
            action: receipt.verdict,
            reason: receipt.reason,
            mode: receipt.mode,
            phase: receipt.phase,
            rule: self.refused().and_then(|refusal| refusal.rule),
            inspected: receipt.inspected,
            profile: &self.settings.profile,
            opinion: self.opinion.as_ref(),
            would_deny: receipt.would_deny,
            message: receipt.message,
        };
        audit::line(&entry, &self.transaction, &self.settings.redaction)
    }
}
