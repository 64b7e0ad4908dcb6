//! What matched: for rules that ask (`MATCHED_VAR` and its like), and for logs.

use std::sync::Arc;

use std::borrow::Cow;

use super::Transaction;
use crate::{
    compile::SEVERITIES,
    id::{Phase, RuleId, RuleIndex},
    operator::leading_integer,
    program::{Disruptive, Program},
};

/// One value that matched, as recorded for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Where it stood, such as `ARGS:id`.
    pub variable: Vec<u8>,
    /// The value, transformed, cut to [`crate::Limits::match_value_bytes_max`].
    pub value: Vec<u8>,
}

/// A rule that matched, its whole chain with it, and that logs.
#[derive(Clone, Debug)]
pub struct MatchedRule<'t> {
    /// The rule's id.
    pub id: RuleId,
    /// The phase in which it matched.
    pub phase: Phase,
    /// `msg`, expanded.
    pub msg: Cow<'t, str>,
    /// `logdata`, expanded.
    pub logdata: Cow<'t, str>,
    /// 0 (emergency) to 7 (debug).
    pub severity: Option<u8>,
    /// `tag`, in the order written.
    pub tags: &'t [Arc<str>],
    /// `ver`.
    pub ver: &'t str,
    /// `rev`.
    pub rev: &'t str,
    /// `maturity`.
    pub maturity: Option<u8>,
    /// `accuracy`.
    pub accuracy: Option<u8>,
    /// The file in which the rule stands.
    pub file: &'t str,
    /// The line on which it begins.
    pub line: u32,
    /// Whether it is to appear in the error log (`log`).
    pub log: bool,
    /// Whether it makes the transaction relevant for the audit log (`auditlog`).
    pub audit_log: bool,
    /// Whether it refuses the transaction where rules may block (`deny`, `drop`, `redirect`).
    pub refuses: bool,
    /// The values that matched, at most [`crate::Limits::matches_per_rule_max`].
    pub matches: &'t [Match],
}

impl MatchedRule<'_> {
    /// `CRITICAL` and its like; empty when the rule has no severity.
    #[must_use]
    pub fn severity_name(&self) -> &'static str {
        self.severity.and_then(|number| SEVERITIES.get(usize::from(number))).copied().unwrap_or("")
    }
}

/// The anomaly scores of a transaction, as CRS counts them; 0 where no rule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scores {
    /// Of the request.
    pub inbound: i64,
    /// Of the response.
    pub outbound: i64,
}

#[derive(Debug)]
struct Record {
    rule: RuleIndex,
    msg: Vec<u8>,
    logdata: Vec<u8>,
    matches: Vec<Match>,
}

/// A member of `MATCHED_VARS`.
#[derive(Debug, Default)]
pub(super) struct MatchedVar {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// What has matched in the current chain, and the rules that matched so far.
#[derive(Debug, Default)]
pub(super) struct Matches {
    vars: Vec<MatchedVar>,
    /// How many of `vars` are in use: the rest is kept for its memory.
    used: usize,
    records: Vec<Record>,
}

/// Members of `MATCHED_VARS` that a reused transaction keeps room for.
const VARS_KEPT: usize = 256;

/// Bytes of a matched value whose memory is kept.
const VALUE_BYTES_KEPT: usize = 4_096;

impl Matches {
    pub(super) fn clear(&mut self) {
        self.clear_vars();
        self.vars.truncate(VARS_KEPT);
        self.vars.shrink_to(VARS_KEPT);
        self.records.clear();
    }

    pub(super) fn clear_vars(&mut self) {
        for var in self.vars.iter_mut().take(self.used) {
            var.name.clear();
            var.name.shrink_to(VALUE_BYTES_KEPT);
            var.value.clear();
            var.value.shrink_to(VALUE_BYTES_KEPT);
        }
        self.used = 0;
    }

    pub(super) fn vars(&self) -> &[MatchedVar] {
        self.vars.get(..self.used).unwrap_or_default()
    }

    /// Adds a match; beyond the limit the last one is replaced, so that `MATCHED_VAR` stays right. Says
    /// whether it is below the limit.
    pub(super) fn push_var(&mut self, name: &[u8], value: &[u8], vars_max: usize) -> bool {
        let is_kept = self.used < vars_max;
        let at = self.used.min(vars_max.saturating_sub(1));
        if self.vars.len() <= at {
            self.vars.resize_with(at + 1, MatchedVar::default);
        }
        if let Some(var) = self.vars.get_mut(at) {
            var.name.clear();
            var.name.extend_from_slice(name);
            var.value.clear();
            var.value.extend_from_slice(value);
        }
        self.used = at + 1;
        is_kept
    }
}

impl Transaction {
    /// Records the chain that begins with `rule`, all of which has matched.
    pub(super) fn record(&mut self, program: &Program, rule: RuleIndex) {
        let Some(starter) = program.rules.get(rule.get()) else { return };
        if let Some(severity) = starter.meta.severity {
            self.highest_severity = self.highest_severity.min(severity);
        }
        if self.trace.is_some() {
            self.trace_rule(program, rule);
        }
        self.note_matched(program, rule);
        if !starter.log && !starter.audit_log {
            return;
        }
        let limits = &program.limits;
        if self.matches.records.len() >= limits.matched_rules_max {
            self.flags.matches_dropped = true;
            return;
        }
        let chain = program.rules.get(rule.get()..=rule.get() + starter.links as usize);
        let chain = chain.unwrap_or_default();
        let mut msg = Vec::new();
        let mut logdata = Vec::new();
        if let Some(text) = chain.iter().find_map(|rule| rule.meta.msg.as_ref()) {
            self.expand(program, text, &mut msg);
        }
        if let Some(text) = chain.iter().find_map(|rule| rule.meta.logdata.as_ref()) {
            self.expand(program, text, &mut logdata);
        }
        // They stay until the transaction ends, those of hundreds of rules.
        msg.shrink_to_fit();
        logdata.shrink_to_fit();
        let cut = |value: &[u8]| {
            value.get(..value.len().min(limits.match_value_bytes_max)).unwrap_or_default().to_vec()
        };
        let vars = self.matches.vars();
        self.flags.matches_dropped |= vars.len() > limits.matches_per_rule_max
            || vars.iter().any(|var| var.value.len() > limits.match_value_bytes_max);
        let vars = vars.iter().take(limits.matches_per_rule_max);
        let matches =
            vars.map(|var| Match { variable: cut(&var.name), value: cut(&var.value) }).collect();
        self.matches.records.push(Record { rule, msg, logdata, matches });
    }

    /// The rules whose `ctl` has taken rules or targets out of this transaction, whether they log or not: exclusions that
    /// have applied. A rule may be there more than once.
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, RuleId, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let start = Start { unique_id: "1", time: Duration::ZERO, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRule REQUEST_FILENAME "@beginsWith /wiki/" "id:1,phase:1,pass,nolog,ctl:ruleRemoveById=9"
    ///     SecRule REQUEST_FILENAME "@streq /pay" "id:2,phase:1,pass,nolog,chain"
    ///         SecRule ARGS "@rx ." "ctl:ruleRemoveTargetById=9;ARGS:note"
    ///     SecRule ARGS "@contains drop" "id:9,phase:2,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// # let mut transaction = Transaction::new(Arc::new(program));
    /// for (uri, expected) in [("/wiki/a", vec![1]), ("/pay", vec![]), ("/pay?a=1&b=2", vec![2])] {
    ///     transaction.start(&start);
    ///     transaction.request_line(b"GET", uri.as_bytes(), b"HTTP/1.1");
    ///     transaction.evaluate_request_headers();
    ///     transaction.evaluate_request_body();
    ///     let ids: Vec<u32> = transaction.excluding_rules().map(|rule| rule.0).collect();
    ///     assert_eq!(ids, expected, "{uri}");
    ///     transaction.finish(start.time);
    /// }
    /// ```
    pub fn excluding_rules(&self) -> impl Iterator<Item = RuleId> {
        let rules = self.excluding.iter().filter_map(|rule| self.program.rules.get(rule.get()));
        rules.map(|rule| rule.id)
    }

    /// The rules that matched and log, or are to be audited, in the order of evaluation.
    pub fn matched_rules(&self) -> impl Iterator<Item = MatchedRule<'_>> {
        self.matches.records.iter().filter_map(|record| {
            let rule = self.program.rules.get(record.rule.get())?;
            let meta = &rule.meta;
            Some(MatchedRule {
                id: rule.id,
                phase: rule.phase,
                msg: String::from_utf8_lossy(&record.msg),
                logdata: String::from_utf8_lossy(&record.logdata),
                severity: meta.severity,
                tags: &meta.tags,
                ver: &meta.ver,
                rev: &meta.rev,
                maturity: meta.maturity,
                accuracy: meta.accuracy,
                file: &meta.file,
                line: meta.line,
                log: rule.log,
                audit_log: rule.audit_log,
                refuses: match rule.disruptive {
                    Disruptive::Deny(_) | Disruptive::Drop | Disruptive::Redirect(..) => true,
                    Disruptive::Pass | Disruptive::Allow(_) => false,
                },
                matches: &record.matches,
            })
        })
    }

    /// The anomaly scores so far.
    #[must_use]
    pub fn scores(&self) -> Scores {
        let slots = self.program.scores;
        let read = |slot| self.tx.slot(slot).map(leading_integer);
        Scores {
            inbound: read(slots.inbound).or_else(|| read(slots.inbound_crs3)).unwrap_or(0),
            outbound: read(slots.outbound).or_else(|| read(slots.outbound_crs3)).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc, time::Duration};

    use super::*;
    use crate::{Endpoint, Input, Limits, NoFiles, Start};

    /// A rule may log a variable that holds a whole body: of it no more is kept than the text of the log shows.
    #[test]
    fn what_a_rule_logs_takes_no_more_memory_than_its_limit() {
        let text = "SecRuleEngine On\nSecRequestBodyAccess On\n\
                    SecRule ARGS_POST \"@contains z\" \"id:1,phase:2,pass,msg:'%{MATCHED_VAR}',logdata:'in %{ARGS.a}'\"";
        let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        let max = program.limits.expansion_bytes_max;
        let mut transaction = Transaction::new(Arc::new(program));
        let client = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
        for (bytes, msg, logdata) in
            [(9, 9, 12), (max, max, max), (max + 1, max, max), (1 << 20, max, max)]
        {
            let time = Duration::from_secs(1);
            transaction.start(&Start { unique_id: "", time, client, server: client });
            transaction.request_line(b"POST", b"/", b"HTTP/1.1");
            transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
            transaction.evaluate_request_headers();
            transaction.request_body(format!("a={}", "z".repeat(bytes)).as_bytes());
            transaction.evaluate_request_body();
            let record = transaction.matches.records.first().unwrap();
            assert_eq!((record.msg.len(), record.logdata.len()), (msg, logdata), "{bytes}");
            assert_eq!(
                (record.msg.capacity(), record.logdata.capacity()),
                (msg, logdata),
                "{bytes}"
            );
            assert_eq!(transaction.flags.values_cut, bytes + 3 > max, "{bytes}");
        }
    }
}
