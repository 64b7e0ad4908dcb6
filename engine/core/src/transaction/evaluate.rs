//! The order of evaluation: the only place where rules are run, skipped, chained and obeyed.
//!
//! Source: ModSecurity reference manual, "Processing Phases" and "Actions". Where ModSecurity 3 and
//! Coraza agree and the manual is silent, we do as they do: actions that are not disruptive are done
//! at each matching value of each link, whether or not the chain completes; the disruptive action,
//! the flow and the log entry are done once, when the whole chain has matched.

use std::sync::Arc;

use super::{Allowed, Transaction, request::decimal, tx::TxCollection, values::ValueRef};
use crate::{
    audit::AuditPart,
    compile::Folded,
    expand::Expression,
    id::{Phase, RuleIndex},
    operator::{Operator, leading_integer},
    pattern::Found,
    program::{
        AllowScope, Change, Ctl, Disruptive, Flow, MatchAction, Program, Rule, RuleEngine, SetVar,
        TxKey,
    },
    scan::ByteSet,
    settings::LimitAction,
    store::Slice,
    variable::Variable,
    verdict::{Refusal, Verdict},
};

impl Transaction {
    /// Evaluates the rules of one phase.
    pub(super) fn run(&mut self, phase: Phase) {
        if self.skips(phase) {
            return;
        }
        // What was spent without a rule that could have noticed, by scans or before the phase began.
        if self.budget.look() || self.budget.is_spent() {
            self.cut_off(phase);
            return;
        }
        let program = Arc::clone(&self.program);
        let folded = program.folded.as_ref().filter(|_| !self.records_all());
        let folded = folded.filter(|folded| self.fold(folded, phase));
        let plans = folded.map_or(&program.plans, |folded| &folded.plans);
        let (Some(all), Some(plan)) = (program.plans.get(phase.index()), plans.get(phase.index()))
        else {
            return;
        };
        if let Some(profile) = &mut self.profile {
            profile.enter(phase);
        }
        self.meet_texts(&program, phase);
        self.name_candidates(&program, plan);
        if let Some(profile) = &mut self.profile {
            profile.named();
        }
        // Which rules are visited depends on what is known of texts; whether there is something left does not.
        if self.limits_end(phase) {
            self.unfold(&program, phase, None);
            return;
        }
        let mut at = 0;
        while let Some(next) = self.scans.next_candidate(at) {
            let rule = RuleIndex::from_usize(next);
            at = next + 1;
            if self.removed_rules.contains(rule) {
                continue;
            }
            // To ask may take steps too: values are transformed for it.
            let named = self.may_match(&program, rule) && !self.leaves_nothing(&program, rule);
            let flow = if named { self.run_chain(&program, rule) } else { Flow::Next };
            if self.profile.is_some() {
                self.profile_visit(&program, rule, named);
            }
            match flow {
                Flow::Next => {}
                // Those that were evaluated beforehand count.
                Flow::Skip(count) => at = all.rules.after(rule, count),
                Flow::SkipAfter(marker) => {
                    // A marker that lies before the rule ends the phase, as in ModSecurity: going
                    // back would never end.
                    let behind = program.behind_marker(marker, phase);
                    at = behind.filter(|&behind| behind >= at).unwrap_or(usize::MAX);
                }
                Flow::SkipPhase => break,
            }
            if self.ends(phase) {
                self.unfold(&program, phase, Some(rule));
                break;
            }
        }
    }

    /// Takes back what was folded of rules behind the one that ended phase 1, or of all where none has run. The later
    /// phases run as written.
    fn unfold(&mut self, program: &Program, phase: Phase, last: Option<RuleIndex>) {
        let folded = program.folded.as_ref().filter(|_| self.folded);
        let Some(folded) = folded.filter(|_| phase == Phase::RequestHeaders) else { return };
        for (slot, value) in folded.undone_behind(last) {
            self.folded = false;
            match value {
                Some(value) => self.tx.set_slot(slot, value),
                None => self.tx.unset_slot(slot),
            }
        }
    }

    /// Whether the rules that were evaluated beforehand, if there are any, have set what they set.
    pub(super) const fn constants_hold(&self, program: &Program) -> bool {
        program.folded.is_none() || self.folded
    }

    /// Does what was evaluated when rules were loaded. Says whether the other rules are those that are left:
    /// where phase 1 did not run, such as for a request with too many headers, nothing was set.
    fn fold(&mut self, folded: &Folded, phase: Phase) -> bool {
        if phase == Phase::RequestHeaders {
            for (slot, value) in &folded.members {
                self.tx.set_slot(*slot, value);
            }
            self.folded = true;
        }
        if self.folded {
            self.budget.charge_steps(folded.steps.get(phase.index()).copied().unwrap_or_default());
        }
        self.folded
    }

    /// Whether an `allow` has taken this phase out.
    fn skips(&self, phase: Phase) -> bool {
        phase != Phase::Logging
            && match self.allowed {
                Allowed::No | Allowed::Phase(_) => false,
                Allowed::Request => phase <= Phase::RequestBody,
                Allowed::All => true,
            }
    }

    /// Whether the rest of this phase is not to be evaluated.
    fn ends(&mut self, phase: Phase) -> bool {
        if self.control.rule_engine == RuleEngine::Off {
            return true;
        }
        if self.limits_end(phase) {
            return true;
        }
        phase != Phase::Logging
            && (self.verdict != Verdict::Allow
                || self.allowed == Allowed::Phase(phase)
                || self.skips(phase))
    }

    /// Whether a limit that was reached ends the phase.
    fn limits_end(&mut self, phase: Phase) -> bool {
        if self.budget.is_spent() {
            self.cut_off(phase);
            return true;
        }
        let rejects = self.program.settings.pattern_limit_action == LimitAction::Reject;
        if rejects && self.budget.gave_up() && phase != Phase::Logging && !self.skips(phase) {
            let status = if phase <= Phase::RequestBody { 400 } else { 500 };
            self.refuse_for_limit(status, phase);
        }
        self.verdict != Verdict::Allow && phase != Phase::Logging
    }

    /// The rules have taken more steps than they may, or the deadline has passed. `SecRuleStepsLimitAction` is about
    /// steps alone: what a machine did not have the time for is not found to be good.
    fn cut_off(&mut self, phase: Phase) {
        let is_late = self.budget.is_late();
        self.flags.rules_cut_off |= !is_late;
        self.flags.deadline_passed |= is_late;
        let action = self.program.settings.rule_steps_limit_action;
        let rejects = is_late || action == LimitAction::Reject;
        if rejects && phase != Phase::Logging && !self.skips(phase) {
            self.refuse_for_limit(503, phase);
        }
    }

    /// Evaluates a rule and its chain. Gives what the rule says about the order, or `Next`.
    fn run_chain(&mut self, program: &Program, starter: RuleIndex) -> Flow {
        let Some(first) = program.rules.get(starter.get()) else { return Flow::Next };
        if self.is_answered(program, starter, first) {
            // For the rule, and for the number that was looked at.
            self.budget.charge_steps(2);
            return first.flow;
        }
        self.matches.clear_vars();
        let last = starter.get() + first.links as usize;
        for index in starter.get()..=last {
            let Some(rule) = program.rules.get(index) else { return Flow::Next };
            let index = RuleIndex::from_usize(index);
            self.current_rule = Some(index);
            let matched = self.run_rule(program, index, rule);
            self.store.clear_temporary();
            if let Some(profile) = &mut self.profile {
                profile.ran(index, matched);
            }
            if !matched {
                return Flow::Next;
            }
        }
        self.current_rule = Some(starter);
        self.record(program, starter);
        self.disrupt(program, first);
        first.flow
    }

    /// Whether what the gate of a rule said is all there is to know: it matches, and does nothing but skip.
    pub(super) fn is_answered(&self, program: &Program, index: RuleIndex, rule: &Rule) -> bool {
        rule.only_flows && !self.records_all() && !self.loses_targets(program, index)
    }

    /// Whether each match is recorded, even of a rule that does not log.
    pub(super) fn records_all(&self) -> bool {
        self.trace.is_some() || self.control.audit_parts.has(AuditPart::Rules)
    }

    /// Evaluates one rule: every value of every target. Says whether any matched.
    fn run_rule(&mut self, program: &Program, index: RuleIndex, rule: &Rule) -> bool {
        let Some(operator) = &rule.operator else {
            self.budget.charge(0);
            self.act(program, index, rule);
            return true;
        };
        self.scratch.values.clear();
        match rule.gate.cells() {
            Some(cells) if !program.runs_whole(index) => {
                self.collect_candidates(program, index, rule, cells);
            }
            _ => rule.targets.iter().for_each(|target| self.collect(program, target)),
        }
        self.charge_rule(rule);
        if self.scratch.values.is_empty() {
            return false;
        }
        let mut parameter = core::mem::take(&mut self.scratch.parameter);
        parameter.clear();
        if let Some(expression) = operator.parameter() {
            self.expand(program, expression, &mut parameter);
        }
        let values = core::mem::take(&mut self.scratch.values);
        let collected = self.store.temporary_bytes();
        let mut matched = false;
        for value in &values {
            // What follows is not looked at, and so does not match; `ends` sees to the rest.
            if self.budget.is_spent() {
                break;
            }
            if !self.removed_targets.is_empty() {
                let before = self.budget;
                let is_removed = self.target_removed(program, index, value);
                if rule.gate.cells().is_some() {
                    self.pay_once(before, value.id);
                }
                if is_removed {
                    continue;
                }
            }
            matched |= self.run_value(program, index, rule, operator, &parameter, value);
            // What was made of one value is not there beside what is made of the next.
            self.store.cut_temporary(collected);
        }
        self.scratch.values = values;
        self.scratch.parameter = parameter;
        matched
    }

    /// A step for the rule, unless it runs only for texts that are paid for: see [`Self::meet_texts`].
    fn charge_rule(&mut self, rule: &Rule) {
        let values = &self.scratch.values;
        let is_paid =
            rule.gate.cells().is_some() && values.iter().all(|value| self.met.contains(value.id));
        if !is_paid {
            self.budget.charge(0);
        }
    }

    fn run_value(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        operator: &Operator,
        parameter: &[u8],
        value: &ValueRef,
    ) -> bool {
        let Some(lane) = program.lanes.get(rule.lane.get()).filter(|lane| lane.each_stage) else {
            let slice = self.transformed(program, rule.lane, value);
            return self.test(program, index, rule, operator, parameter, value, slice);
        };
        let mut stages = core::mem::take(&mut self.scratch.stages);
        let bytes = value.id.map_or(ByteSet::ALL, |id| self.known_bytes(id));
        let before = self.budget;
        self.stages(program, rule.lane, lane, value.value, bytes, &mut stages);
        self.pay_once(before, value.id);
        let mut matched = false;
        for &slice in &stages {
            matched |= self.test(program, index, rule, operator, parameter, value, slice);
        }
        self.scratch.stages = stages;
        matched
    }

    /// Applies the operator to one transformed value, and on a match does the rule's actions.
    #[allow(
        clippy::too_many_arguments,
        reason = "all of a rule's evaluation meets here, by reference"
    )]
    fn test(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        operator: &Operator,
        parameter: &[u8],
        value: &ValueRef,
        slice: Slice,
    ) -> bool {
        let capturing = rule.capture && !rule.negated;
        let before = self.budget;
        let found = match operator {
            Operator::Deferred(deferred) => self.answer(deferred, parameter, slice, capturing),
            _ => {
                let bytes = self.store.bytes(slice);
                let (capture, meter) = (&mut self.scratch.capture, self.budget.meter());
                operator.matches(bytes, parameter, capturing, capture, meter)
            }
        };
        if let Some(profile) = &mut self.profile {
            profile.tested(index, slice.len());
        }
        match self.met.contains(value.id) {
            // Where it is known not to match it does not get here; instructions are paid in any case.
            true if !operator.backtracks() => self.budget.take_back(before),
            true => {}
            false => drop(self.budget.charge(slice.len())),
        }
        // A search that gave up counts as none that matched. What becomes of the request is the affair of
        // `SecPatternLimitAction`.
        let matches = found == Found::Yes;
        if matches == rule.negated {
            if self.trace.is_some() {
                self.trace_miss(program, index, parameter, value, slice);
            }
            return false;
        }
        if capturing {
            self.set_captures(slice);
        }
        let mut name = core::mem::take(&mut self.scratch.name);
        self.write_value_name(value, &mut name);
        let vars_max = program.limits.matched_vars_max;
        let is_kept = self.matches.push_var(&name, self.store.bytes(slice), vars_max);
        self.flags.matches_dropped |= !is_kept;
        self.scratch.name = name;
        if self.trace.is_some() {
            self.trace_match(program, index, parameter, value, slice);
        }
        self.act(program, index, rule);
        true
    }

    /// `TX:0` to `TX:9`: what was captured, and nothing where nothing was.
    fn set_captures(&mut self, slice: Slice) {
        let capture = &self.scratch.capture;
        let bytes = self.store.bytes(slice);
        for (slot, group) in self.program.captures.iter().zip(&capture.groups) {
            match group.and_then(|(start, end)| bytes.get(start..end)) {
                Some(text) => self.tx.set_slot(*slot, text),
                None => self.tx.unset_slot(*slot),
            }
        }
        if let (Some(&slot), false) = (self.program.captures.first(), capture.text.is_empty()) {
            self.tx.set_slot(slot, &capture.text);
        }
    }

    /// Does the actions that are due at each match.
    fn act(&mut self, program: &Program, index: RuleIndex, rule: &Rule) {
        for (at, action) in rule.on_match.iter().enumerate() {
            match action {
                MatchAction::SetVar(setvar) => match setvar.collection {
                    Variable::Tx | Variable::Env => self.set_variable(program, index, setvar),
                    _ => self.set_member(program, setvar),
                },
                MatchAction::Sanitise(collection, name) => {
                    self.sanitise(program, *collection, name);
                }
                MatchAction::SanitiseMatched => self.sanitise_matched(),
                MatchAction::Ctl(ctl) => self.control(index, at, ctl),
                MatchAction::InitCol(collection, key) => {
                    self.open_collection(program, *collection, key)
                }
            }
        }
    }

    /// `ENV` or `TX`.
    fn own(&mut self, collection: Variable) -> &mut TxCollection {
        if collection == Variable::Env { &mut self.env } else { &mut self.tx }
    }

    fn set_variable(&mut self, program: &Program, index: RuleIndex, setvar: &SetVar) {
        let mut value = core::mem::take(&mut self.scratch.expansion);
        value.clear();
        let mut name = core::mem::take(&mut self.scratch.name);
        name.clear();
        if let TxKey::Expression(expression) = &setvar.key {
            self.expand(program, expression, &mut name);
            name.make_ascii_lowercase();
        }
        let known = match &setvar.key {
            TxKey::Slot(slot) => Some(*slot),
            TxKey::Expression(_) if setvar.collection == Variable::Tx => program.slot_of(&name),
            TxKey::Expression(_) => None,
        };
        let current = match known {
            Some(slot) => self.tx.slot(slot),
            None => self.own(setvar.collection).other(&name),
        };
        let current = current.map_or(0, leading_integer);
        let set = match &setvar.change {
            Change::Unset => false,
            // What ends with the transaction neither expires nor ages.
            Change::ExpireAfter(_) | Change::Decay { .. } => {
                self.scratch.name = name;
                self.scratch.expansion = value;
                return;
            }
            Change::Set(expression) => {
                self.expand(program, expression, &mut value);
                true
            }
            Change::Add(expression) => {
                self.write_sum(program, current, expression, 1, &mut value);
                true
            }
            Change::Subtract(expression) => {
                self.write_sum(program, current, expression, -1, &mut value);
                true
            }
        };
        if self.trace.is_some() {
            let after = set.then_some(&*value);
            self.trace_change(program, setvar.collection, known, &name, after);
        }
        match (known, set) {
            (Some(slot), true) => self.tx.set_slot(slot, &value),
            (Some(slot), false) => self.tx.unset_slot(slot),
            (None, true) => {
                let members_max = program.limits.tx_members_max;
                let own = self.own(setvar.collection);
                let kept = own.set_other(Some(index), &name, &value, members_max);
                self.flags.tx_members_dropped |= !kept;
            }
            (None, false) => self.own(setvar.collection).unset_other(&name),
        }
        self.scratch.name = name;
        self.scratch.expansion = value;
    }

    fn write_sum(
        &mut self,
        program: &Program,
        current: i64,
        expression: &Expression,
        sign: i64,
        out: &mut Vec<u8>,
    ) {
        self.expand(program, expression, out);
        let sum = current.saturating_add(leading_integer(out).saturating_mul(sign));
        out.clear();
        if sum < 0 {
            out.push(b'-');
        }
        out.extend_from_slice(decimal(sum.unsigned_abs(), &mut [0; 20]));
    }

    fn control(&mut self, index: RuleIndex, at: usize, ctl: &Ctl) {
        match ctl {
            Ctl::RuleEngine(mode) => self.control.rule_engine = *mode,
            Ctl::AuditEngine(mode) => self.control.audit_engine = Some(*mode),
            Ctl::AuditParts(change) => {
                self.control.audit_parts = change.apply(self.control.audit_parts);
            }
            Ctl::NoEffect => {}
            Ctl::RequestBodyAccess(access) => self.control.request_body_access = *access,
            Ctl::ResponseBodyAccess(access) => self.control.response_body_access = *access,
            Ctl::ForceRequestBodyVariable(force) => self.control.force_request_body = *force,
            Ctl::RequestBodyProcessor(processor) => {
                self.control.processor = Some(*processor);
                self.set_processor();
            }
            Ctl::RequestBodyLimit(max) => self.control.request_body_bytes_max = *max,
            Ctl::ResponseBodyLimit(max) => self.control.response_body_bytes_max = *max,
            Ctl::RemoveRules(rules) => {
                self.removed_rules.extend(rules);
                self.note_excluding(index);
            }
            Ctl::RemoveTargets(..) => {
                self.note_excluding(index);
                if !self.removed_targets.contains(&(index, at)) {
                    self.removed_targets.push((index, at));
                }
            }
        }
    }

    /// Notes a rule that takes something from others: once for each evaluation of it, mostly.
    fn note_excluding(&mut self, index: RuleIndex) {
        if self.excluding.last() != Some(&index) {
            self.excluding.push(index);
        }
    }

    /// Does the disruptive action of a rule whose chain has matched, where rules may block.
    fn disrupt(&mut self, program: &Program, rule: &Rule) {
        if self.control.rule_engine != RuleEngine::On || rule.phase == Phase::Logging {
            return;
        }
        let refusal = |status| Refusal { status, rule: Some(rule.id), phase: rule.phase };
        match &rule.disruptive {
            Disruptive::Pass => {}
            Disruptive::Deny(status) => self.verdict = Verdict::Deny(refusal(*status)),
            Disruptive::Drop => self.verdict = Verdict::Drop(refusal(403)),
            Disruptive::Redirect(status, location) => {
                let mut text = Vec::new();
                self.expand(program, location, &mut text);
                let location = String::from_utf8_lossy(&text).into_owned();
                self.verdict = Verdict::Redirect { refusal: refusal(*status), location };
            }
            Disruptive::Allow(scope) => {
                self.allowed = match scope {
                    AllowScope::All => Allowed::All,
                    AllowScope::Phase => Allowed::Phase(rule.phase),
                    AllowScope::Request => Allowed::Request,
                };
            }
        }
    }
}
