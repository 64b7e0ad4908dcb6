//! The story of an evaluation, for those who ask why: which value matched which rule, what each
//! transformation made of it, what the operator found, and which member of `TX` changed.
//!
//! It is recorded only where it is asked for ([`Transaction::with_trace`]), within
//! [`crate::Limits::trace_steps_max`] and [`crate::Limits::trace_bytes_max`], and changes no verdict.

use std::sync::Arc;

use core::ops::Range;
use std::borrow::Cow;

use super::{Transaction, values::ValueRef};
use crate::{
    id::{Phase, RuleId, RuleIndex, TxSlot},
    operator::{Capture, Comparison, Deferred, Operator, TextTest},
    pattern::Meter,
    program::{Ctl, Disruptive, MatchAction, Program, Rule},
    store::Slice,
    variable::Variable,
};

/// One thing that happened, and the rule that did it.
#[derive(Clone, Debug)]
pub struct TraceStep<'t> {
    /// The rule, or the link of a chain.
    pub rule: TracedRule<'t>,
    /// What happened.
    pub event: &'t TraceEvent,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A value matched.
    Match(TracedMatch),
    /// A value did not match ([`Transaction::with_misses`]); the operator found nothing in it.
    Miss(TracedMatch),
    /// A member of `TX` was set or unset.
    Change(TracedChange),
    /// A rule matched, with its whole chain.
    Rule(TracedOutcome),
}

/// A rule that took part.
#[derive(Clone, Debug)]
pub struct TracedRule<'t> {
    /// Its id; that of the starter for a link.
    pub id: RuleId,
    /// The phase in which it ran.
    pub phase: Phase,
    /// 0 for a starter or a rule alone, otherwise which link of the chain it is.
    pub link: u32,
    /// The file in which it stands.
    pub file: &'t str,
    /// The line on which it begins.
    pub line: u32,
    /// `tag`.
    pub tags: &'t [Arc<str>],
    /// The operator's name without `@`; empty for `SecAction`.
    pub operator: &'static str,
    /// Whether the operator is negated (`!@`).
    pub negated: bool,
    /// Whether it is to appear in the error log (`log`).
    pub log: bool,
    /// Its disruptive action: `pass`, `deny`, `drop`, `redirect` or `allow`.
    pub disruptive: &'static str,
    /// The status of its refusal, if it refuses.
    pub status: Option<u16>,
    /// Whether it takes rules or targets away, or changes the mode (`ctl`).
    pub excludes: bool,
}

/// The beginning of a text, at most [`crate::Limits::match_value_bytes_max`] long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// What is kept.
    pub bytes: Vec<u8>,
    /// The length of the whole text.
    pub length: usize,
}

/// A value that an operator held for, or, in [`TraceEvent::Miss`], did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedMatch {
    /// Where it stood, such as `ARGS:q`.
    pub variable: Vec<u8>,
    /// The value before transformation.
    pub value: Excerpt,
    /// What the transformations made of it, without those that changed nothing.
    pub stages: Vec<TracedStage>,
    /// The operator's parameter, where it can have macros (`@ge %{tx.threshold}`), expanded.
    pub parameter: Option<Excerpt>,
    /// What the operator found in the transformed value; nothing where it does not tell.
    pub found: Vec<TracedCapture>,
    /// What the operator says of the value as a whole: a fingerprint of SQL.
    pub fingerprint: Vec<u8>,
}

/// One transformation that changed a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedStage {
    /// Its name.
    pub transformation: &'static str,
    /// The value behind it.
    pub value: Excerpt,
}

/// A part of the transformed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCapture {
    /// 0 for the whole match, otherwise the number of the group.
    pub group: usize,
    /// Where it stands, in bytes of the transformed value.
    pub range: Range<usize>,
    /// The text.
    pub text: Excerpt,
}

/// A change of `TX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedChange {
    /// The member, in lower case.
    pub member: Vec<u8>,
    /// What it was; `None` when it was not set.
    pub before: Option<Excerpt>,
    /// What it is; `None` when it is not set any more.
    pub after: Option<Excerpt>,
}

/// What a rule said when it had matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedOutcome {
    /// `msg` of the chain, expanded.
    pub msg: Excerpt,
    /// `logdata` of the chain, expanded.
    pub logdata: Excerpt,
}

impl Excerpt {
    fn new(text: &[u8], max: usize) -> Self {
        let kept = text.get(..text.len().min(max)).unwrap_or_default();
        Self { bytes: kept.to_vec(), length: text.len() }
    }

    /// The text, with U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Whether the text was longer than what is kept.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.length > self.bytes.len()
    }
}

impl TraceEvent {
    /// Bytes that count towards the limit.
    fn size(&self) -> usize {
        let size = |excerpt: &Excerpt| excerpt.bytes.len();
        let some = |excerpt: &Option<Excerpt>| excerpt.as_ref().map_or(0, size);
        match self {
            Self::Match(found) | Self::Miss(found) => {
                let stages = found.stages.iter().map(|stage| size(&stage.value));
                let captures = found.found.iter().map(|capture| size(&capture.text));
                found.variable.len()
                    + size(&found.value)
                    + some(&found.parameter)
                    + found.fingerprint.len()
                    + stages.chain(captures).sum::<usize>()
            }
            Self::Change(change) => {
                change.member.len() + some(&change.before) + some(&change.after)
            }
            Self::Rule(outcome) => size(&outcome.msg) + size(&outcome.logdata),
        }
    }
}

/// The steps recorded so far.
#[derive(Debug, Default)]
pub(super) struct Trace {
    steps: Vec<(RuleIndex, TraceEvent)>,
    bytes: usize,
    /// Whether values that did not match are recorded, too.
    misses: bool,
}

impl Trace {
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.bytes = 0;
    }
}

/// Instructions that a pattern may run to find again what it has found in one value.
const FOUND_UNITS_MAX: u64 = 1 << 20;

impl Transaction {
    /// Has every match, and every change of `TX` by a rule, recorded for [`Self::trace`].
    ///
    /// It tells what transformations made of a value, and what the operator found in it:
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Excerpt, Input, Limits, NoFiles, Program, Start, TraceEvent};
    /// # use glacis_engine::Transaction;
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRule ARGS "@rx b(.)d" "id:1,phase:1,deny,t:trim,t:lowercase""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// let mut transaction = Transaction::new(Arc::new(program)).with_trace();
    /// transaction.start(&start);
    /// transaction.request_line(b"GET", b"/?a=+aBcD", b"HTTP/1.1");
    /// transaction.evaluate_request_headers();
    /// let step = transaction.trace().next().expect("a value has matched");
    /// let TraceEvent::Match(found) = step.event else { panic!("a match comes first") };
    /// assert_eq!((step.rule.line, step.rule.operator), (2, "rx"));
    /// assert_eq!(found.value.text(), " aBcD");
    /// let stages: Vec<&str> = found.stages.iter().map(|stage| stage.transformation).collect();
    /// assert_eq!(stages, ["trim", "lowercase"]);
    /// let whole: &Excerpt = &found.found[0].text;
    /// assert_eq!(whole.text(), "bcd");
    /// ```
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.trace = Some(Box::default());
        self
    }

    /// [`Self::with_trace`] that also records each value that a rule looked at in vain. Rules that the fast path left out
    /// looked at nothing: a program [without it](Program::without_gates) shows all values.
    #[must_use]
    pub fn with_misses(mut self) -> Self {
        self.trace = Some(Box::new(Trace { misses: true, ..Trace::default() }));
        self
    }

    /// What happened so far, in order. Empty without [`Self::with_trace`]; incomplete when the flag
    /// `trace_cut` is set.
    pub fn trace(&self) -> impl Iterator<Item = TraceStep<'_>> {
        let steps = self.trace.as_ref().map_or(&[][..], |trace| &trace.steps);
        steps.iter().filter_map(|(index, event)| {
            let rule = self.program.rules.get(index.get())?;
            Some(TraceStep { rule: traced_rule(&self.program, *index, rule), event })
        })
    }

    /// Records a value that has just matched, before the rule's actions are done.
    pub(super) fn trace_match(
        &mut self,
        program: &Program,
        index: RuleIndex,
        parameter: &[u8],
        value: &ValueRef,
        slice: Slice,
    ) {
        let Some(rule) = program.rules.get(index.get()).filter(|_| self.has_room(program)) else {
            return;
        };
        let Some(operator) = &rule.operator else { return };
        let capture = self.found(rule, operator, parameter, slice);
        let matched = self.traced_value(program, rule, &capture, parameter, value, slice);
        self.push_step(program, index, TraceEvent::Match(matched));
    }

    /// Records a value that a rule has looked at in vain, where that is asked for.
    pub(super) fn trace_miss(
        &mut self,
        program: &Program,
        index: RuleIndex,
        parameter: &[u8],
        value: &ValueRef,
        slice: Slice,
    ) {
        let records = self.trace.as_ref().is_some_and(|trace| trace.misses);
        let Some(rule) = program.rules.get(index.get()).filter(|_| records) else { return };
        if !self.has_room(program) {
            return;
        }
        let nothing = Capture::default();
        let missed = self.traced_value(program, rule, &nothing, parameter, value, slice);
        self.push_step(program, index, TraceEvent::Miss(missed));
    }

    fn traced_value(
        &self,
        program: &Program,
        rule: &Rule,
        capture: &Capture,
        parameter: &[u8],
        value: &ValueRef,
        slice: Slice,
    ) -> TracedMatch {
        let max = program.limits.match_value_bytes_max;
        let bytes = self.store.bytes(slice);
        let part = |(group, found): (usize, &Option<(usize, usize)>)| {
            let (start, end) = (*found)?;
            let text = Excerpt::new(bytes.get(start..end)?, max);
            Some(TracedCapture { group, range: start..end, text })
        };
        let found = capture.groups.iter().enumerate().filter_map(part).collect();
        let mut name = Vec::new();
        self.write_value_name(value, &mut name);
        let has_parameter =
            rule.operator.as_ref().is_some_and(|operator| operator.parameter().is_some());
        TracedMatch {
            variable: Excerpt::new(&name, max).bytes,
            value: Excerpt::new(self.store.bytes(value.value), max),
            stages: self.traced_stages(program, rule, value.value, slice),
            parameter: has_parameter.then(|| Excerpt::new(parameter, max)),
            found,
            fingerprint: Excerpt::new(&capture.text, max).bytes,
        }
    }

    /// What the operator finds in a value that it holds for, also where the rule does not capture.
    fn found(&self, rule: &Rule, operator: &Operator, parameter: &[u8], slice: Slice) -> Capture {
        let mut capture = Capture::default();
        let bytes = self.store.bytes(slice);
        match operator {
            _ if rule.negated => {}
            // Asking again could change what is found.
            Operator::Deferred(_) if rule.capture => capture = self.scratch.capture.clone(),
            Operator::Deferred(_) => {}
            Operator::Text(test, _) => capture.groups[0] = text_range(*test, bytes, parameter),
            Operator::ValidateByteRange(range) => {
                capture.groups[0] = range.first_outside(bytes).map(|at| (at, at + 1));
            }
            _ => {
                // A story costs the request no steps.
                let mut meter = Meter::new(FOUND_UNITS_MAX);
                operator.matches(bytes, parameter, true, &mut capture, &mut meter);
            }
        }
        capture
    }

    /// The transformations of a rule that change `value`, up to the one that makes `end` of it where
    /// all are looked at (`multiMatch`).
    fn traced_stages(
        &self,
        program: &Program,
        rule: &Rule,
        value: Slice,
        end: Slice,
    ) -> Vec<TracedStage> {
        let Some(lane) = program.lanes.get(rule.lane.get()) else { return Vec::new() };
        let map = program.settings.unicode_map.as_deref();
        let limits = &program.limits;
        let end = self.store.bytes(end);
        let mut stages = Vec::new();
        let (mut input, mut output) = (self.store.bytes(value).to_vec(), Vec::new());
        for transformation in lane.steps.iter().map(|step| step.transformation) {
            if lane.each_stage && input == end {
                break;
            }
            if !transformation.apply_mapped(&input, map, &mut output) {
                continue;
            }
            output.truncate(limits.transform_bytes_max);
            core::mem::swap(&mut input, &mut output);
            let value = Excerpt::new(&input, limits.match_value_bytes_max);
            stages.push(TracedStage { transformation: transformation.name(), value });
        }
        stages
    }

    /// Records a change of `TX` that is about to be made; `None` is for unset.
    pub(super) fn trace_change(
        &mut self,
        program: &Program,
        collection: Variable,
        slot: Option<TxSlot>,
        name: &[u8],
        after: Option<&[u8]>,
    ) {
        let Some(index) = self.current_rule else { return };
        if collection != Variable::Tx || !self.has_room(program) {
            return;
        }
        let max = program.limits.match_value_bytes_max;
        let before = match slot {
            Some(slot) => self.tx.slot(slot),
            None => self.tx.other(name),
        };
        let known = slot.and_then(|slot| program.tx_names.get(slot.get()));
        let change = TracedChange {
            member: Excerpt::new(known.map_or(name, |known| known.as_bytes()), max).bytes,
            before: before.map(|text| Excerpt::new(text, max)),
            after: after.map(|text| Excerpt::new(text, max)),
        };
        self.push_step(program, index, TraceEvent::Change(change));
    }

    /// Records that the chain that begins with `starter` has matched.
    pub(super) fn trace_rule(&mut self, program: &Program, starter: RuleIndex) {
        if !self.has_room(program) {
            return;
        }
        let Some(first) = program.rules.get(starter.get()) else { return };
        let chain = program.rules.get(starter.get()..=starter.get() + first.links as usize);
        let metas = || chain.unwrap_or_default().iter().map(|rule| &rule.meta);
        let (msg, logdata) = (
            metas().find_map(|meta| meta.msg.as_ref()),
            metas().find_map(|meta| meta.logdata.as_ref()),
        );
        let max = program.limits.match_value_bytes_max;
        // A text that only the trace expands must leave no other mark.
        let flags = self.flags;
        let mut expanded = |text: Option<&crate::expand::Expression>| {
            let mut out = Vec::new();
            if let Some(text) = text {
                self.expand(program, text, &mut out);
            }
            Excerpt::new(&out, max)
        };
        let outcome = TracedOutcome { msg: expanded(msg), logdata: expanded(logdata) };
        self.flags = flags;
        self.push_step(program, starter, TraceEvent::Rule(outcome));
    }

    /// Whether anything is recorded and there is room for more.
    fn has_room(&mut self, program: &Program) -> bool {
        let Some(trace) = &self.trace else { return false };
        let room = trace.steps.len() < program.limits.trace_steps_max
            && trace.bytes < program.limits.trace_bytes_max;
        self.flags.trace_cut |= !room;
        room
    }

    fn push_step(&mut self, program: &Program, index: RuleIndex, event: TraceEvent) {
        let Some(trace) = &mut self.trace else { return };
        let bytes = trace.bytes.saturating_add(event.size());
        if bytes > program.limits.trace_bytes_max {
            self.flags.trace_cut = true;
            return;
        }
        trace.bytes = bytes;
        trace.steps.push((index, event));
    }
}

pub(super) fn traced_rule<'t>(
    program: &'t Program,
    index: RuleIndex,
    rule: &'t Rule,
) -> TracedRule<'t> {
    let before = program.rules.get(..index.get()).unwrap_or_default().iter().rev();
    let same = before.take_while(|earlier| earlier.id == rule.id).count();
    let (disruptive, status) = match &rule.disruptive {
        Disruptive::Pass => ("pass", None),
        Disruptive::Deny(status) => ("deny", Some(*status)),
        Disruptive::Drop => ("drop", Some(403)),
        Disruptive::Redirect(status, _) => ("redirect", Some(*status)),
        Disruptive::Allow(_) => ("allow", None),
    };
    TracedRule {
        id: rule.id,
        phase: rule.phase,
        link: u32::try_from(same).unwrap_or(u32::MAX),
        file: &rule.meta.file,
        line: rule.meta.line,
        tags: &rule.meta.tags,
        operator: rule.operator.as_ref().map_or("", operator_name),
        negated: rule.negated,
        log: rule.log,
        disruptive,
        status,
        excludes: rule.on_match.iter().any(excludes),
    }
}

const fn excludes(action: &MatchAction) -> bool {
    matches!(
        action,
        MatchAction::Ctl(Ctl::RemoveRules(_) | Ctl::RemoveTargets(..) | Ctl::RuleEngine(_))
    )
}

/// Where a text operator found its parameter.
fn text_range(test: TextTest, value: &[u8], parameter: &[u8]) -> Option<(usize, usize)> {
    let (whole, length) = (value.len(), parameter.len());
    match test {
        TextTest::BeginsWith => Some((0, length)),
        TextTest::Contains => memchr::memmem::find(value, parameter).map(|at| (at, at + length)),
        TextTest::EndsWith => Some((whole.saturating_sub(length), whole)),
        TextTest::Streq | TextTest::Within => Some((0, whole)),
        TextTest::ContainsWord => None,
    }
}

const fn operator_name(operator: &Operator) -> &'static str {
    match operator {
        Operator::Rx(_) | Operator::Deferred(Deferred::Rx(_, false)) => "rx",
        Operator::RxGlobal(_) | Operator::Deferred(Deferred::Rx(_, true)) => "rxGlobal",
        Operator::Pm(_) => "pm",
        Operator::Number(comparison, _) => match comparison {
            Comparison::Eq => "eq",
            Comparison::Ge => "ge",
            Comparison::Gt => "gt",
            Comparison::Le => "le",
            Comparison::Lt => "lt",
        },
        Operator::Text(test, _) => match test {
            TextTest::BeginsWith => "beginsWith",
            TextTest::Contains => "contains",
            TextTest::ContainsWord => "containsWord",
            TextTest::EndsWith => "endsWith",
            TextTest::Streq => "streq",
            TextTest::Within => "within",
        },
        Operator::IpMatch(_) => "ipMatch",
        Operator::ValidateByteRange(_) => "validateByteRange",
        Operator::ValidateUrlEncoding => "validateUrlEncoding",
        Operator::ValidateUtf8Encoding => "validateUtf8Encoding",
        Operator::DetectSqli => "detectSQLi",
        Operator::DetectXss => "detectXSS",
        Operator::Verify(check, _) => match check {
            crate::operator::CheckDigit::CreditCard => "verifyCC",
            crate::operator::CheckDigit::Cpf => "verifyCPF",
            crate::operator::CheckDigit::Ssn => "verifySSN",
            crate::operator::CheckDigit::Svnr => "verifySVNR",
            crate::operator::CheckDigit::Rut => "validateNid",
        },
        Operator::UnconditionalMatch => "unconditionalMatch",
        Operator::NoMatch => "noMatch",
        Operator::Deferred(Deferred::GeoLookup) => "geoLookup",
        Operator::Deferred(Deferred::Rbl(_)) => "rbl",
    }
}
