//! Pass 5, continued: what rules of phase 1 do whatever the request is, done once.
//!
//! CRS begins each transaction with some fifty rules that look at nothing but what other such rules have
//! set: its configuration, and the default for what that leaves out. Their outcome is known when the rules
//! are loaded. They are evaluated here, and a transaction begins with what they have set.
//!
//! The law: with them evaluated beforehand or in their turn, every other rule sees the same. So nothing is
//! folded behind a rule that may end the phase, skip or remove rules; and nothing that an earlier rule
//! which is not folded reads or writes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Compiler,
    unseen::{UnseenChains, unseen},
};
use crate::{
    expand::{Expression, Segment},
    id::{LaneId, Phase, RuleIndex, RuleSet, TxSlot},
    operator::{Capture, Operator, leading_integer},
    plan::{self, PhasePlan, behind},
    program::{Change, Ctl, Disruptive, Flow, MatchAction, Rule, Select, SetVar, Target, TxKey},
    variable::Variable,
};

/// What is left when all that is known beforehand is done.
#[derive(Debug)]
pub(crate) struct Folded {
    /// The members of `TX` that phase 1 begins with, in the order in which they were set.
    pub(crate) members: Vec<(TxSlot, Box<[u8]>)>,
    /// What it took to evaluate what is left out of each phase, in steps of a transaction's budget.
    pub(crate) steps: [u64; 5],
    /// The other rules of each phase.
    pub(crate) plans: [PhasePlan; 5],
}

/// A rule that is evaluated when rules are loaded.
pub(super) enum Outcome {
    /// It depends on the request, or does more than set members of `TX`.
    Unknown,
    Matches(Changes),
    DoesNotMatch,
}

/// Members of `TX` that are set, or unset.
pub(super) type Changes = Vec<(TxSlot, Option<Vec<u8>>)>;

/// What is known of `TX` at one point of phase 1.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The limit of the text of a value.
    value_bytes_max: usize,
    members: BTreeMap<TxSlot, Vec<u8>>,
    /// In the order in which they were first set.
    order: Vec<TxSlot>,
    /// Those that a rule which is not folded may have set.
    unknown: BTreeSet<TxSlot>,
    /// Those that such a rule reads.
    read: BTreeSet<TxSlot>,
    pub(super) folded: RuleSet,
    steps: u64,
}

impl Compiler<'_> {
    /// Evaluates what can be evaluated; `None` where that is nothing. Besides, what the rest does unseen.
    pub(super) fn fold(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
        captures: &[TxSlot; Capture::GROUPS],
    ) -> (Option<Folded>, UnseenChains) {
        let mut known = Known::new(self.limits.expansion_bytes_max);
        // Where it ends early, what was evaluated before stays so.
        let _ = self.evaluate(rules, phases, markers, captures, &mut known);
        let settled = self.settle(rules, phases, markers, captures, &known);
        let mut steps = settled.steps;
        steps[Phase::RequestHeaders.index()] += known.steps;
        let is_left =
            |index: &RuleIndex| !known.folded.contains(*index) && !settled.rules.contains(*index);
        let left = phases.each_ref().map(|list| list.iter().copied().filter(is_left).collect());
        let starters = left.iter().flatten().copied().collect();
        let unseen = settled.constants.map_or_else(UnseenChains::default, |constants| {
            unseen(rules, starters, captures, &self.tx_names, &constants)
        });
        if left == *phases {
            return (None, unseen);
        }
        let plans = plan::plans(rules, phases, &left, markers, &self.cells, &self.lanes);
        (Some(Folded { steps, members: known.into_members(), plans }), unseen)
    }

    /// Evaluates rules of phase 1 from the first on, as long as what they do is known.
    fn evaluate(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
        captures: &[TxSlot; Capture::GROUPS],
        known: &mut Known,
    ) -> Option<()> {
        let list = phases.get(Phase::RequestHeaders.index())?;
        let mut at = 0;
        while let Some((&index, rule)) =
            list.get(at).and_then(|at| Some((at, rules.get(at.get())?)))
        {
            let next = match known.outcome(rule) {
                Outcome::Unknown => {
                    let chain = rules.get(index.get()..=index.get() + rule.links as usize)?;
                    if !known.pass_over(chain, captures) {
                        break;
                    }
                    at += 1;
                    continue;
                }
                Outcome::DoesNotMatch => at + 1,
                Outcome::Matches(changes) => {
                    let next = behind(rule.flow, at, markers, Phase::RequestHeaders);
                    let Some(next) = next.filter(|&next| next > at) else { break };
                    known.apply(changes);
                    // Each rule is a step, and each look at a value.
                    known.steps += 1 + rule.targets.len() as u64;
                    next.min(list.len())
                }
            };
            list.get(at..next)?.iter().for_each(|&index| known.folded.insert(index));
            at = next;
        }
        Some(())
    }
}

impl Known {
    fn new(value_bytes_max: usize) -> Self {
        Self { value_bytes_max, ..Self::default() }
    }

    /// What the rule does, as far as that is known.
    pub(super) fn outcome(&self, rule: &Rule) -> Outcome {
        match self.matches(rule) {
            Some(false) => Outcome::DoesNotMatch,
            Some(true) => self.changes(rule).map_or(Outcome::Unknown, Outcome::Matches),
            None => Outcome::Unknown,
        }
    }

    /// Whether the rule matches: one that always does, or that compares a member of `TX` as a number.
    fn matches(&self, rule: &Rule) -> Option<bool> {
        let Some(operator) = &rule.operator else { return Some(true) };
        let (Operator::Number(comparison, parameter), [target]) = (operator, &*rule.targets) else {
            return None;
        };
        let number = leading_integer(&self.evaluate(parameter)?);
        let value = self.target(target).filter(|_| rule.lane == LaneId::NONE)?;
        // Without a value there is nothing that matches, however the operator is negated.
        Some(value.is_some_and(|value| comparison.holds(value, number) != rule.negated))
    }

    /// The value of a target that is one member of `TX`.
    fn target(&self, target: &Target) -> Option<Option<i64>> {
        let Select::Slot(slot) = target.select else { return None };
        if target.variable != Variable::Tx || !target.except.is_empty() {
            return None;
        }
        let value = self.member(slot)?;
        Some(match target.count {
            true => Some(i64::from(value.is_some())),
            false => value.map(leading_integer),
        })
    }

    /// The value of a member of `TX`, if it has one; `None` where that is not known.
    fn member(&self, slot: TxSlot) -> Option<Option<&[u8]>> {
        (!self.unknown.contains(&slot)).then(|| self.members.get(&slot).map(Vec::as_slice))
    }

    /// What an expression gives; `None` where that is not known.
    pub(super) fn evaluate(&self, expression: &Expression) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for segment in expression.segments() {
            match segment {
                Segment::Literal(literal) => text.extend_from_slice(literal),
                Segment::Tx(slot) => {
                    text.extend_from_slice(self.member(*slot)?.unwrap_or_default())
                }
                Segment::Scalar(_) | Segment::Member(..) => return None,
            }
        }
        (text.len() <= self.value_bytes_max).then_some(text)
    }

    /// What a rule that matches sets; `None` where that is not all it does.
    fn changes(&self, rule: &Rule) -> Option<Changes> {
        let does_more = rule.links > 0
            || rule.capture
            || rule.log
            || rule.audit_log
            || rule.meta.severity.is_some()
            || !matches!(rule.disruptive, Disruptive::Pass);
        if does_more {
            return None;
        }
        let mut after = Self {
            members: self.members.clone(),
            unknown: self.unknown.clone(),
            ..Self::new(self.value_bytes_max)
        };
        let mut changes = Changes::new();
        for action in &rule.on_match {
            let MatchAction::SetVar(setvar) = action else { return None };
            let (slot, value) = after.change(setvar)?;
            if self.unknown.contains(&slot) || self.read.contains(&slot) {
                return None;
            }
            changes.push((slot, value));
            after.apply(vec![changes.last()?.clone()]);
        }
        Some(changes)
    }

    /// What one `setvar` sets.
    fn change(&self, setvar: &SetVar) -> Option<(TxSlot, Option<Vec<u8>>)> {
        let TxKey::Slot(slot) = setvar.key else { return None };
        if setvar.collection != Variable::Tx {
            return None;
        }
        let current = leading_integer(self.member(slot)?.unwrap_or_default());
        let number = |expression| Some(leading_integer(&self.evaluate(expression)?));
        let text = |number: i64| number.to_string().into_bytes();
        Some(match &setvar.change {
            Change::Set(expression) => (slot, Some(self.evaluate(expression)?)),
            Change::Add(by) => (slot, Some(text(current.saturating_add(number(by)?)))),
            Change::Subtract(by) => {
                let by = number(by)?.saturating_mul(-1);
                (slot, Some(text(current.saturating_add(by))))
            }
            Change::Unset => (slot, None),
            Change::ExpireAfter(_) | Change::Decay { .. } => return None,
        })
    }

    fn apply(&mut self, changes: Changes) {
        for (slot, value) in changes {
            if !self.order.contains(&slot) {
                self.order.push(slot);
            }
            match value {
                Some(value) => self.members.insert(slot, value),
                None => self.members.remove(&slot),
            };
        }
    }

    /// Notes what a chain that is not folded reads and sets. Says whether what follows it may be folded.
    fn pass_over(&mut self, chain: &[Rule], captures: &[TxSlot]) -> bool {
        chain.iter().all(|rule| self.pass_over_link(rule, captures))
    }

    fn pass_over_link(&mut self, rule: &Rule, captures: &[TxSlot]) -> bool {
        if rule.flow != Flow::Next || !matches!(rule.disruptive, Disruptive::Pass) {
            return false;
        }
        if rule.capture {
            self.unknown.extend(captures);
        }
        let meta = [&rule.meta.msg, &rule.meta.logdata];
        rule.targets.iter().all(|target| self.read_target(target))
            && match &rule.operator {
                Some(Operator::Deferred(_)) => false,
                Some(operator) => operator.parameter().is_none_or(|text| self.read(text)),
                None => true,
            }
            && meta.into_iter().flatten().all(|text| self.read(text))
            && rule.on_match.iter().all(|action| self.pass_over_action(action))
    }

    fn pass_over_action(&mut self, action: &MatchAction) -> bool {
        match action {
            MatchAction::SetVar(setvar) => self.pass_over_setvar(setvar),
            MatchAction::InitCol(_, text) | MatchAction::Sanitise(_, text) => self.read(text),
            MatchAction::SanitiseMatched => true,
            MatchAction::Ctl(ctl) => !matches!(
                ctl,
                Ctl::RuleEngine(_)
                    | Ctl::AuditParts(_)
                    | Ctl::RemoveRules(_)
                    | Ctl::RemoveTargets(..)
            ),
        }
    }

    fn pass_over_setvar(&mut self, setvar: &SetVar) -> bool {
        let key = match &setvar.key {
            TxKey::Slot(slot) => {
                self.unknown.insert(*slot);
                true
            }
            // The name may be any.
            TxKey::Expression(name) => setvar.collection != Variable::Tx && self.read(name),
        };
        key && match &setvar.change {
            Change::Set(text)
            | Change::Add(text)
            | Change::Subtract(text)
            | Change::ExpireAfter(text) => self.read(text),
            Change::Unset | Change::Decay { .. } => true,
        }
    }

    fn read_target(&mut self, target: &Target) -> bool {
        match (target.variable, &target.select) {
            (Variable::Tx, Select::Slot(slot)) => {
                self.read.insert(*slot);
                true
            }
            (Variable::Tx, _) => false,
            _ => true,
        }
    }

    fn read(&mut self, expression: &Expression) -> bool {
        expression.segments().iter().all(|segment| match segment {
            Segment::Literal(_) => true,
            Segment::Tx(slot) => {
                self.read.insert(*slot);
                true
            }
            Segment::Scalar(variable) | Segment::Member(variable, _) => *variable != Variable::Tx,
        })
    }

    /// What stays known when other rules change these members.
    pub(super) fn without(&self, slots: BTreeSet<TxSlot>) -> Self {
        let members = self.members.iter().filter(|(slot, _)| !slots.contains(slot));
        Self {
            members: members.map(|(slot, value)| (*slot, value.clone())).collect(),
            unknown: slots,
            ..Self::new(self.value_bytes_max)
        }
    }

    fn into_members(self) -> Vec<(TxSlot, Box<[u8]>)> {
        let member = |slot| Some((slot, self.members.get(&slot)?.as_slice().into()));
        self.order.into_iter().filter_map(member).collect()
    }
}
