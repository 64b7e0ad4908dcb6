//! Pass 5, continued: what rules of phase 1 do whatever the request is, done once.
//!
//! CRS begins each transaction with some fifty rules that look at nothing but what other such rules have
//! set: its configuration, and the default for what that leaves out. Their outcome is known when the rules
//! are loaded. They are evaluated here, and a transaction begins with what they have set.
//!
//! The law: with them evaluated beforehand or in their turn, every other rule sees the same. So nothing is
//! folded that an earlier rule which is not folded reads, writes, removes or skips ([`super::effects`] describes
//! each rule). A rule may end the phase early: then the members set behind it are taken back, and the later
//! phases run as written ([`Folded::undone_behind`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Compiler,
    effects::{self, Effect},
    unseen::{UnseenChains, unseen},
};
use crate::{
    audit::{AuditPart, AuditParts, PartsChange},
    expand::{Expression, Segment},
    id::{LaneId, Phase, RuleIndex, RuleSet, TxSlot},
    operator::{Capture, Operator, leading_integer},
    pattern::{Found, Meter},
    plan::{self, PhasePlan, behind},
    program::{Change, Ctl, Disruptive, Flow, MatchAction, Rule, Select, SetVar, Target, TxKey},
    transaction::selects,
    variable::Variable,
};

/// What is left when all that is known beforehand is done.
#[derive(Debug)]
pub(crate) struct Folded {
    /// The members of `TX` that phase 1 begins with.
    pub(crate) members: Members,
    /// Every change that led to them, in the order of the rules.
    history: Vec<FoldedChange>,
    /// What it took to evaluate what is left out of each phase, in steps of a transaction's budget.
    pub(crate) steps: [u64; 5],
    /// The other rules of each phase.
    pub(crate) plans: [PhasePlan; 5],
}

/// Members of `TX` with their values.
type Members = Vec<(TxSlot, Box<[u8]>)>;

/// A member of `TX` that a rule sets, or unsets, whatever the request is.
#[derive(Debug)]
struct FoldedChange {
    rule: RuleIndex,
    slot: TxSlot,
    value: Option<Box<[u8]>>,
}

impl Folded {
    /// The members of `TX` as they would be had the phase ended with the rule `last`, or before the first, of those
    /// that rules behind it have set.
    pub(crate) fn undone_behind(
        &self,
        last: Option<RuleIndex>,
    ) -> impl Iterator<Item = (TxSlot, Option<&[u8]>)> {
        let (before, behind) =
            self.history.split_at(self.history.partition_point(|change| Some(change.rule) <= last));
        behind.iter().map(|change| {
            let value = before.iter().rfind(|earlier| earlier.slot == change.slot);
            (change.slot, value.and_then(|earlier| earlier.value.as_deref()))
        })
    }
}

/// The results of all analyses of rules.
pub(super) struct Foresight {
    /// The rules that were folded; `None` if there are none.
    pub(super) folded: Option<Folded>,
    /// The chains whose stores are dead.
    pub(super) unseen: UnseenChains,
    /// See [`super::before_body`].
    pub(super) unknown_before_body: Option<RuleSet>,
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
    history: Vec<FoldedChange>,
    /// The members that a rule which is not folded may have set.
    unknown: BTreeSet<TxSlot>,
    /// Those that such a rule reads.
    read: BTreeSet<TxSlot>,
    /// The rules that such a rule may remove, or of which it may take away the value they compare.
    removed: RuleSet,
    pub(super) folded: RuleSet,
    steps: u64,
}

impl Compiler<'_> {
    /// Runs all analyses of rules.
    pub(super) fn foresee(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
        captures: &[TxSlot; Capture::GROUPS],
    ) -> Foresight {
        let mut known = Known::new(self.limits.expansion_bytes_max);
        // Where folding ends early, what was evaluated before stays so.
        let _ = self.evaluate(rules, phases, markers, captures, &mut known);
        let settled = self.settle(rules, phases, markers, captures, &known);
        let mut steps = settled.steps;
        steps[Phase::RequestHeaders.index()] += known.steps;
        let is_left =
            |index: &RuleIndex| !known.folded.contains(*index) && !settled.rules.contains(*index);
        let left: [Vec<RuleIndex>; 5] =
            phases.each_ref().map(|list| list.iter().copied().filter(is_left).collect());
        let starters = left.iter().flatten().copied().collect();
        let unknown_before_body =
            self.unknown_before_body(rules, &left, captures, settled.constants.as_ref());
        let unseen = settled.constants.map_or_else(UnseenChains::default, |constants| {
            unseen(rules, starters, captures, &self.tx_names, &constants)
        });
        if left == *phases {
            return Foresight { folded: None, unseen, unknown_before_body };
        }
        let plans = plan::plans(rules, phases, &left, markers, &self.cells, &self.lanes);
        let (members, history) = known.into_members();
        let folded = Some(Folded { steps, members, history, plans });
        Foresight { folded, unseen, unknown_before_body }
    }

    /// Evaluates rules of phase 1 whose outcome is known, from the first on.
    fn evaluate(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
        captures: &[TxSlot; Capture::GROUPS],
        known: &mut Known,
    ) -> Option<()> {
        const PHASE: Phase = Phase::RequestHeaders;
        let list = phases.get(PHASE.index())?;
        // Rules before this place may be skipped by one that depends on the request.
        let (mut at, mut skippable) = (0, 0);
        while let Some((&index, rule)) =
            list.get(at).and_then(|at| Some((at, rules.get(at.get())?)))
        {
            // A marker that lies before the rule ends the phase.
            let next = behind(rule.flow, at, markers, PHASE).filter(|&next| next > at);
            let next = next.unwrap_or(list.len()).min(list.len());
            let runs = at >= skippable && !known.removed.contains(index);
            match if runs { known.outcome(rule) } else { Outcome::Unknown } {
                Outcome::Unknown => {
                    let chain = rules.get(index.get()..=index.get() + rule.links as usize)?;
                    self.pass_over(chain, captures, known)?;
                    if rule.flow != Flow::Next {
                        skippable = skippable.max(next);
                    }
                    at += 1;
                }
                Outcome::DoesNotMatch => {
                    known.folded.insert(index);
                    at += 1;
                }
                Outcome::Matches(changes) => {
                    known.apply(index, changes);
                    // Each rule is a step, and each look at a value.
                    known.steps += 1 + rule.targets.len() as u64;
                    list.get(at..next)?.iter().for_each(|&index| known.folded.insert(index));
                    at = next;
                }
            }
        }
        Some(())
    }

    /// Notes what a chain that is not folded reads and writes; `None` where nothing behind it may be folded.
    fn pass_over(
        &self,
        chain: &[Rule],
        captures: &[TxSlot; Capture::GROUPS],
        known: &mut Known,
    ) -> Option<()> {
        for effect in effects::of_chain(chain) {
            match effect {
                Effect::Reads(slot) => drop(known.read.insert(slot)),
                Effect::ReadsSelected(select) => known.read.extend(self.slots_selected(select)),
                Effect::ReadsNamed(name) => known.read.extend(self.slots_named(name)),
                Effect::Captures => known.unknown.extend(captures),
                Effect::Writes(slot) => drop(known.unknown.insert(slot)),
                Effect::WritesNamed(name) => known.unknown.extend(self.slots_named(name)),
                Effect::Controls(ctl) => known.pass_over_ctl(ctl)?,
            }
        }
        Some(())
    }

    /// The members whose name an expression may give.
    pub(super) fn slots_named(&self, name: &Expression) -> impl Iterator<Item = TxSlot> {
        let start = match name.segments().first() {
            Some(Segment::Literal(text)) => text.to_ascii_lowercase(),
            _ => Vec::new(),
        };
        // A name is cut at this limit.
        let start: Vec<u8> = start.into_iter().take(self.limits.expansion_bytes_max).collect();
        let slots = self.tx_slots.iter();
        slots.filter(move |(name, _)| name.as_bytes().starts_with(&start)).map(|(_, slot)| *slot)
    }

    /// The members that a selection takes.
    fn slots_selected(&self, select: &Select) -> impl Iterator<Item = TxSlot> {
        let slots = self.tx_slots.iter();
        let mut meter = Meter::at_compile_time();
        slots
            .filter(move |(name, _)| selects(select, name.as_bytes(), &mut meter) != Found::No)
            .map(|(_, slot)| *slot)
    }
}

/// Whether a change of the audit log's parts may ask for a record of every match, also of rules that do not log.
pub(super) fn asks_for_records(change: &PartsChange) -> bool {
    change.apply(AuditParts::default()).has(AuditPart::Rules)
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
            after.set(slot, value.clone());
            changes.push((slot, value));
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

    fn apply(&mut self, rule: RuleIndex, changes: Changes) {
        for (slot, value) in changes {
            let kept = value.as_deref().map(Box::from);
            self.history.push(FoldedChange { rule, slot, value: kept });
            self.set(slot, value);
        }
    }

    fn set(&mut self, slot: TxSlot, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.members.insert(slot, value),
            None => self.members.remove(&slot),
        };
    }

    fn pass_over_ctl(&mut self, ctl: &Ctl) -> Option<()> {
        match ctl {
            Ctl::AuditParts(change) if asks_for_records(change) => return None,
            Ctl::RemoveRules(rules) => self.removed.extend(rules),
            Ctl::RemoveTargets(rules, variable, _) => {
                if *variable == Variable::Tx {
                    self.removed.extend(rules);
                }
            }
            // Off ends the phase, like a rule that refuses.
            Ctl::RuleEngine(_)
            | Ctl::AuditParts(_)
            | Ctl::AuditEngine(_)
            | Ctl::NoEffect
            | Ctl::RequestBodyAccess(_)
            | Ctl::ResponseBodyAccess(_)
            | Ctl::ForceRequestBodyVariable(_)
            | Ctl::RequestBodyProcessor(_)
            | Ctl::RequestBodyLimit(_)
            | Ctl::ResponseBodyLimit(_) => {}
        }
        Some(())
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

    fn into_members(self) -> (Members, Vec<FoldedChange>) {
        let members = self.members.into_iter().map(|(slot, value)| (slot, value.into()));
        (members.collect(), self.history)
    }
}
