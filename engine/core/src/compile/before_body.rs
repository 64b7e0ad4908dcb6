//! Which rules of phase 2 may refuse a request before its body has come.
//!
//! A client can send the head of a request and hold its body back. What the rules find in the head alone refuses such
//! a request at once, provided that no body could have changed the answer. That holds where a body can only add
//! matches, and matches can only add to scores.
//!
//! The law: a request that the remaining rules refuse on its head is not passed by all rules with any body. This pass
//! is a fixed point over the members of `TX` that a body may change, and leaves out each rule of which it is not
//! certain. It gives up on a ruleset in which a body may take matches away from other rules: by `ctl`, `skip`,
//! `skipAfter` or `allow`, in a rule that depends on the body.

use std::collections::BTreeSet;

use super::{Compiler, effects, fold::Known, settle::chain};
use crate::{
    expand::{Expression, Segment},
    id::{LaneId, Phase, RuleIndex, RuleSet, TxSlot},
    operator::{Capture, Comparison, Operator, leading_integer},
    program::{Change, Ctl, Disruptive, Flow, MatchAction, Rule, Select, SetVar, Target, TxKey},
    variable::{UnderBody, Variable},
};

/// How the outcome of something on the head alone relates to its outcome on the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// Both are the same.
    Same,
    /// What matches on the head matches on the whole request, which may bring further matches or a higher number.
    Grows,
    /// Nothing is known.
    Unknown,
}

/// The members of `TX` that a body may change.
#[derive(Debug, Default)]
struct Affected {
    /// Numbers that a body can only raise.
    raised: BTreeSet<TxSlot>,
    /// Those of which nothing is known.
    unknown: BTreeSet<TxSlot>,
    /// Whether members without a slot are among the latter.
    unnamed: bool,
}

/// A body may take matches away.
struct TakesAway;

impl Compiler<'_> {
    /// The rules of phase 2 to leave out while the body has not come; `None` where the ruleset allows no verdict
    /// without the body. `phases` are the rules whose outcome depends on the request, and `constants` the members of
    /// `TX` that none changes.
    pub(super) fn unknown_before_body(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        captures: &[TxSlot; Capture::GROUPS],
        constants: Option<&Known>,
    ) -> Option<RuleSet> {
        let starters = phases.get(Phase::RequestBody.index())?;
        let none = Known::default();
        let analysis = Analysis { compiler: self, captures, constants: constants.unwrap_or(&none) };
        if phases.get(Phase::RequestHeaders.index())?.iter().any(|&it| persists(chain(rules, it))) {
            return None;
        }
        let mut affected = Affected::default();
        loop {
            let before = affected.size();
            for &starter in starters {
                analysis.note(chain(rules, starter), &mut affected).ok()?;
            }
            if affected.size() == before {
                break;
            }
        }
        let mut left_out = RuleSet::default();
        for &starter in starters {
            if affected.of_chain(chain(rules, starter)) == Relation::Unknown {
                left_out.insert(starter);
            }
        }
        Some(left_out)
    }
}

/// Whether a chain opens or changes a persistent collection: a second evaluation would count twice.
fn persists(chain: &[Rule]) -> bool {
    chain.iter().flat_map(|rule| &rule.on_match).any(|action| match action {
        MatchAction::InitCol(..) => true,
        MatchAction::SetVar(setvar) => !matches!(setvar.collection, Variable::Tx | Variable::Env),
        MatchAction::Ctl(_) | MatchAction::Sanitise(..) | MatchAction::SanitiseMatched => false,
    })
}

struct Analysis<'c, 's> {
    compiler: &'c Compiler<'s>,
    captures: &'c [TxSlot; Capture::GROUPS],
    constants: &'c Known,
}

impl Analysis<'_, '_> {
    /// Adds what a chain may change.
    fn note(&self, chain: &[Rule], affected: &mut Affected) -> Result<(), TakesAway> {
        if persists(chain) {
            return Err(TakesAway);
        }
        let relation = affected.of_chain(chain);
        if relation != Relation::Same && chain.first().is_some_and(takes_away) {
            return Err(TakesAway);
        }
        for rule in chain {
            if relation != Relation::Same && rule.capture && rule.operator.is_some() {
                affected.unknown.extend(self.captures);
            }
            for action in &rule.on_match {
                match action {
                    MatchAction::SetVar(setvar) => self.note_setvar(setvar, relation, affected),
                    MatchAction::Ctl(ctl) if relation != Relation::Same => note_ctl(ctl)?,
                    MatchAction::Ctl(_)
                    | MatchAction::InitCol(..)
                    | MatchAction::Sanitise(..)
                    | MatchAction::SanitiseMatched => {}
                }
            }
        }
        Ok(())
    }

    fn note_setvar(&self, setvar: &SetVar, of_chain: Relation, affected: &mut Affected) {
        if setvar.collection != Variable::Tx {
            return;
        }
        let value = match &setvar.change {
            Change::Set(text) => affected.of_text(text).at_most(Relation::Same),
            Change::Subtract(text) => affected.of_text(text).at_most(Relation::Same),
            Change::Add(text) => match of_chain {
                Relation::Same => affected.of_number(text),
                Relation::Grows | Relation::Unknown => self.of_increment(text),
            },
            Change::Unset => Relation::Same,
            Change::ExpireAfter(_) | Change::Decay { .. } => Relation::Unknown,
        };
        let is_sum = matches!(setvar.change, Change::Add(_));
        let relation = match of_chain {
            Relation::Same => value,
            Relation::Grows | Relation::Unknown if is_sum => value,
            Relation::Grows | Relation::Unknown => Relation::Unknown,
        };
        match &setvar.key {
            TxKey::Slot(slot) => affected.add(*slot, relation),
            TxKey::Expression(name) => {
                let relation = relation.max(affected.of_text(name).at_most(Relation::Same));
                self.compiler.slots_named(name).for_each(|slot| affected.add(slot, relation));
                affected.unnamed |= relation != Relation::Same;
            }
        }
    }

    /// The effect on a member of `TX` of adding this number to it in a match that only a body may bring about.
    fn of_increment(&self, text: &Expression) -> Relation {
        let number = self.constants.evaluate(text);
        match number.is_some_and(|number| leading_integer(&number) >= 0) {
            true => Relation::Grows,
            false => Relation::Unknown,
        }
    }
}

/// Whether a match changes which other rules run, or ends the request without a refusal.
fn takes_away(starter: &Rule) -> bool {
    let flows = match starter.flow {
        Flow::Next => false,
        Flow::Skip(_) | Flow::SkipAfter(_) | Flow::SkipPhase => true,
    };
    let allows = match starter.disruptive {
        Disruptive::Pass | Disruptive::Deny(_) | Disruptive::Drop | Disruptive::Redirect(..) => {
            false
        }
        Disruptive::Allow(_) => true,
    };
    flows || allows
}

/// Refuses a change of settings that a body may bring about and that may change a verdict.
fn note_ctl(ctl: &Ctl) -> Result<(), TakesAway> {
    match ctl {
        Ctl::AuditEngine(_) | Ctl::AuditParts(_) | Ctl::NoEffect => Ok(()),
        Ctl::RuleEngine(_)
        | Ctl::RequestBodyAccess(_)
        | Ctl::ResponseBodyAccess(_)
        | Ctl::ForceRequestBodyVariable(_)
        | Ctl::RequestBodyProcessor(_)
        | Ctl::RequestBodyLimit(_)
        | Ctl::ResponseBodyLimit(_)
        | Ctl::RemoveRules(_)
        | Ctl::RemoveTargets(..) => Err(TakesAway),
    }
}

impl From<UnderBody> for Relation {
    fn from(values: UnderBody) -> Self {
        match values {
            UnderBody::Same => Self::Same,
            UnderBody::Grows => Self::Grows,
            UnderBody::Varies => Self::Unknown,
        }
    }
}

impl Relation {
    /// Itself where it is at most `limit`, else nothing is known.
    fn at_most(self, limit: Self) -> Self {
        if self <= limit { self } else { Self::Unknown }
    }
}

impl Affected {
    fn size(&self) -> (usize, usize, bool) {
        (self.raised.len(), self.unknown.len(), self.unnamed)
    }

    fn add(&mut self, slot: TxSlot, relation: Relation) {
        match relation {
            Relation::Same => false,
            Relation::Grows => self.raised.insert(slot),
            Relation::Unknown => self.unknown.insert(slot),
        };
    }

    fn of_slot(&self, slot: TxSlot) -> Relation {
        if self.unknown.contains(&slot) {
            Relation::Unknown
        } else if self.raised.contains(&slot) {
            Relation::Grows
        } else {
            Relation::Same
        }
    }

    /// Whether all conditions of a chain hold on the whole request where they hold on its head.
    fn of_chain(&self, chain: &[Rule]) -> Relation {
        chain.iter().map(|rule| self.of_condition(rule)).max().unwrap_or(Relation::Same)
    }

    fn of_condition(&self, rule: &Rule) -> Relation {
        let Some(operator) = &rule.operator else { return Relation::Same };
        let targets = rule.targets.iter().map(|target| self.of_target(rule, operator, target));
        targets.max().unwrap_or(Relation::Same).max(self.of_parameter(operator))
    }

    fn of_parameter(&self, operator: &Operator) -> Relation {
        // The host answers, or a limit on patterns that a body may use up.
        if let Operator::Deferred(_) = operator {
            return Relation::Unknown;
        }
        let text = effects::parameter(operator);
        text.map_or(Relation::Same, |text| self.of_text(text).at_most(Relation::Same))
    }

    fn of_target(&self, rule: &Rule, operator: &Operator, target: &Target) -> Relation {
        let values = match (target.variable, &target.select) {
            (Variable::Tx, Select::Slot(slot)) => match self.of_slot(*slot) {
                Relation::Grows if asks_for_more(rule, operator) => Relation::Grows,
                relation => relation.at_most(Relation::Same),
            },
            (
                Variable::Tx,
                Select::All
                | Select::Key(_)
                | Select::Pattern(_)
                | Select::Prefix(_)
                | Select::XmlText
                | Select::XmlAttributes
                | Select::XPath(_),
            ) => {
                let all_same = self.raised.is_empty() && self.unknown.is_empty() && !self.unnamed;
                if all_same { Relation::Same } else { Relation::Unknown }
            }
            (variable, _) => variable.under_body().into(),
        };
        if target.count { values.at_most(Relation::Same) } else { values }
    }

    /// How the number that an expression expands to changes with a body.
    fn of_number(&self, text: &Expression) -> Relation {
        match text.segments() {
            [Segment::Tx(slot)] => self.of_slot(*slot),
            _ => self.of_text(text).at_most(Relation::Same),
        }
    }

    fn of_text(&self, text: &Expression) -> Relation {
        let of_segment = |segment: &Segment| match segment {
            Segment::Literal(_) => Relation::Same,
            Segment::Tx(slot) => self.of_slot(*slot),
            Segment::Scalar(variable) | Segment::Member(variable, _) => match variable {
                Variable::Tx => Relation::Unknown,
                variable => variable.under_body().into(),
            },
        };
        text.segments().iter().map(of_segment).max().unwrap_or(Relation::Same)
    }
}

/// Whether a number that is larger matches where the smaller does.
fn asks_for_more(rule: &Rule, operator: &Operator) -> bool {
    let asks = match operator {
        Operator::Number(comparison, _) => match comparison {
            Comparison::Ge | Comparison::Gt => true,
            Comparison::Eq | Comparison::Le | Comparison::Lt => false,
        },
        Operator::Rx(_)
        | Operator::RxGlobal(_)
        | Operator::Pm(_)
        | Operator::Text(..)
        | Operator::IpMatch(_)
        | Operator::ValidateByteRange(_)
        | Operator::ValidateUrlEncoding
        | Operator::ValidateUtf8Encoding
        | Operator::DetectSqli
        | Operator::DetectXss
        | Operator::Verify(..)
        | Operator::UnconditionalMatch
        | Operator::NoMatch
        | Operator::Deferred(_) => false,
    };
    asks && !rule.negated && rule.lane == LaneId::NONE
}
