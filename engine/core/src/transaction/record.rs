//! What an audit record is made of, besides the rules that matched.

use super::Transaction;
use crate::{
    audit::{AuditPart, AuditParts},
    id::{RuleId, RuleIndex},
    program::{AuditEngine, Program},
    store::List,
    variable::Variable,
};

/// A file in a multipart body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload<'t> {
    /// The name of the field.
    pub field: &'t [u8],
    /// The name that the client gave it.
    pub file_name: &'t [u8],
    /// Its size in bytes, in decimal.
    pub size: &'t [u8],
}

/// Every rule that matched, for part `K`.
#[derive(Debug, Default)]
pub(super) struct MatchedIds(Vec<RuleIndex>);

impl MatchedIds {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Transaction {
    /// The parts that a record should have: `SecAuditLogParts`, as changed by `ctl:auditLogParts`.
    #[must_use]
    pub const fn audit_parts(&self) -> AuditParts {
        self.control.audit_parts
    }

    /// Asks for other parts than the rules did: for a host that keeps a record of its own.
    pub const fn set_audit_parts(&mut self, parts: AuditParts) {
        self.control.audit_parts = parts;
    }

    /// `SecAuditEngine`, as changed by `ctl:auditEngine`; `None` when rules do not say.
    #[must_use]
    pub const fn audit_engine(&self) -> Option<AuditEngine> {
        self.control.audit_engine
    }

    /// Whether an audit record is due (`SecAuditEngine`, `SecAuditLogRelevantStatus`). Where rules do
    /// not say, it is for requests that were refused.
    ///
    /// `status` is the status that the client got.
    #[must_use]
    pub fn audit_due(&self, status: u16) -> bool {
        match self.control.audit_engine {
            None => self.verdict.refusal().is_some(),
            Some(AuditEngine::On) => true,
            Some(AuditEngine::Off) => false,
            Some(AuditEngine::RelevantOnly) => {
                let relevant = &self.program.settings.audit_log_relevant_status;
                self.matched_rules().any(|rule| rule.audit_log)
                    || relevant
                        .as_ref()
                        .is_some_and(|pattern| pattern.may_match(status.to_string().as_bytes()))
            }
        }
    }

    /// The request's headers, names and values, as far as they were kept.
    pub fn request_headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs(List::RequestHeaders)
    }

    /// The response's headers, names and values, as far as they were kept.
    pub fn response_headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs(List::ResponseHeaders)
    }

    /// As much of the request's body as was taken.
    #[must_use]
    pub fn request_body_taken(&self) -> &[u8] {
        &self.store.request_body
    }

    /// As much of the response's body as was taken.
    #[must_use]
    pub fn response_body_taken(&self) -> &[u8] {
        &self.store.response_body
    }

    /// What the request's body was read as: `URLENCODED`, `MULTIPART`, `JSON`, `XML`, `RAW`, or
    /// nothing.
    #[must_use]
    pub fn request_body_processor(&self) -> &[u8] {
        self.store.bytes(self.scalar(Variable::ReqbodyProcessor))
    }

    /// The files in a multipart body.
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRequestBodyAccess On
    ///     SecRule FILES "@endsWith .php" "id:1,phase:2,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// # let mut transaction = Transaction::new(Arc::new(program));
    /// # transaction.start(&start);
    /// transaction.request_line(b"POST", b"/cv", b"HTTP/1.1");
    /// transaction.request_header(b"Content-Type", b"multipart/form-data; boundary=XX");
    /// transaction.evaluate_request_headers();
    /// let head = "Content-Disposition: form-data; name=\"cv\"; filename=\"cv.php\"";
    /// transaction.request_body(format!("--XX\r\n{head}\r\n\r\n<?php\r\n--XX--\r\n").as_bytes());
    /// assert_eq!(transaction.evaluate_request_body().name(), "deny");
    /// // For logs, without what is in the file.
    /// let upload = transaction.uploads().next().expect("there is a file");
    /// assert_eq!((upload.field, upload.file_name), (&b"cv"[..], &b"cv.php"[..]));
    /// assert_eq!(upload.size, b"5");
    /// ```
    pub fn uploads(&self) -> impl Iterator<Item = Upload<'_>> {
        let names = self.store.files();
        names.zip(self.pairs(List::FilesSizes)).map(|(name, (field, size))| {
            let file_name = name.map(|name| self.store.bytes(name.value)).unwrap_or_default();
            Upload { field, file_name, size }
        })
    }

    /// The ids of all rules that matched, also those that do not log, in the order of evaluation and
    /// at most [`crate::Limits::matched_rules_max`]. Only of rules that matched while part `K` was
    /// asked for.
    pub fn matched_ids(&self) -> impl Iterator<Item = RuleId> {
        let rules = self.matched_ids.0.iter();
        rules.filter_map(|index| self.program.rules.get(index.get()).map(|rule| rule.id))
    }

    /// Notes a rule that matched.
    pub(super) fn note_matched(&mut self, program: &Program, rule: RuleIndex) {
        if self.control.audit_parts.has(AuditPart::Rules) {
            if self.matched_ids.0.len() < program.limits.matched_rules_max {
                self.matched_ids.0.push(rule);
            } else {
                self.flags.matches_dropped = true;
            }
        }
    }

    fn pairs(&self, list: List) -> impl Iterator<Item = (&[u8], &[u8])> {
        let pairs = self.store.list(list).iter();
        pairs.map(|pair| (self.store.bytes(pair.name), self.store.bytes(pair.value)))
    }
}

impl Program {
    /// What `SecComponentSignature` says: the rules' own names and versions.
    #[must_use]
    pub fn component_signatures(&self) -> &[String] {
        &self.settings.component_signatures
    }
}
