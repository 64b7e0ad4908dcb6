//! The reads and writes of a rule on `TX`, and its changes of settings: one description for constant folding
//! ([`super::fold`]), partial evaluation ([`super::settle`]) and dead-store elimination ([`super::unseen`]).
//!
//! Every match here is exhaustive: a new action, macro or operator does not compile before its effects are
//! stated. Persistent collections, `ENV` and `GEO` are left out on purpose: no analysis evaluates them.

use crate::{
    expand::{Expression, Segment},
    id::TxSlot,
    operator::{Deferred, Operator},
    program::{Change, Ctl, Disruptive, MatchAction, Rule, Select, SetVar, Target, TxKey},
    variable::Variable,
};

/// One effect of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect<'r> {
    /// One member of `TX` is read.
    Reads(TxSlot),
    /// The members of `TX` with certain names are read.
    ReadsSelected(&'r Select),
    /// A member of `TX` is read; its name depends on the request.
    ReadsNamed(&'r Expression),
    /// `TX:0` to `TX:9` are set, those without a group to nothing.
    Captures,
    /// One member of `TX` is set or unset.
    Writes(TxSlot),
    /// A member of `TX` is set or unset; its name depends on the request.
    WritesNamed(&'r Expression),
    /// A setting changes for the rest of the transaction.
    Controls(&'r Ctl),
}

/// The effects of a whole chain in the order of evaluation.
///
/// The effects of a link happen only when the links before it have matched, those at the end only when all have.
pub(super) fn of_chain(chain: &[Rule]) -> Vec<Effect<'_>> {
    let mut effects = Vec::new();
    for rule in chain {
        of_link(rule, &mut effects);
    }
    of_completion(chain, &mut effects);
    effects
}

/// The effects of the log entry and the disruptive action of a chain that has matched.
pub(super) fn of_completion<'r>(chain: &'r [Rule], effects: &mut Vec<Effect<'r>>) {
    let Some(starter) = chain.first() else { return };
    for rule in chain {
        for text in [&rule.meta.msg, &rule.meta.logdata].into_iter().flatten() {
            expand(starter, text, effects);
        }
    }
    match &starter.disruptive {
        Disruptive::Redirect(_, location) => expand(starter, location, effects),
        Disruptive::Pass | Disruptive::Deny(_) | Disruptive::Drop | Disruptive::Allow(_) => {}
    }
}

/// The effects of one rule: targets and parameter first, then the captures and actions of each match.
fn of_link<'r>(rule: &'r Rule, effects: &mut Vec<Effect<'r>>) {
    for target in &rule.targets {
        of_target(rule, target, effects);
    }
    if let Some(operator) = &rule.operator {
        if let Some(text) = parameter(operator) {
            expand(rule, text, effects);
        }
        // `SecAction` has no operator, and so nothing to capture.
        if rule.capture && !rule.negated {
            effects.push(Effect::Captures);
        }
    }
    for action in &rule.on_match {
        of_action(rule, action, effects);
    }
}

fn of_target<'r>(rule: &'r Rule, target: &'r Target, effects: &mut Vec<Effect<'r>>) {
    if target.variable == Variable::Tx {
        effects.push(match &target.select {
            Select::Slot(slot) => Effect::Reads(*slot),
            select @ (Select::All
            | Select::Key(_)
            | Select::Pattern(_)
            | Select::Prefix(_)
            | Select::XmlText
            | Select::XmlAttributes
            | Select::XPath(_)) => Effect::ReadsSelected(select),
        });
    }
    // `RULE:logdata` is the text as it is expanded before the rule captures.
    if target.variable == Variable::Rule
        && let Some(text) = &rule.meta.logdata
    {
        expand(rule, text, effects);
    }
}

/// The text that an operator expands before it is asked.
pub(super) fn parameter(operator: &Operator) -> Option<&Expression> {
    match operator {
        Operator::Number(_, text) | Operator::Text(_, text) => Some(text),
        Operator::Deferred(deferred) => match deferred {
            Deferred::Rbl(text) | Deferred::Rx(text, _) => Some(text),
            Deferred::GeoLookup => None,
        },
        Operator::Rx(_)
        | Operator::RxGlobal(_)
        | Operator::Pm(_)
        | Operator::IpMatch(_)
        | Operator::ValidateByteRange(_)
        | Operator::ValidateUrlEncoding
        | Operator::ValidateUtf8Encoding
        | Operator::DetectSqli
        | Operator::DetectXss
        | Operator::Verify(..)
        | Operator::UnconditionalMatch
        | Operator::NoMatch => None,
    }
}

fn of_action<'r>(rule: &'r Rule, action: &'r MatchAction, effects: &mut Vec<Effect<'r>>) {
    match action {
        MatchAction::SetVar(setvar) => of_setvar(rule, setvar, effects),
        MatchAction::InitCol(_, text) | MatchAction::Sanitise(_, text) => {
            expand(rule, text, effects);
        }
        MatchAction::SanitiseMatched => {}
        MatchAction::Ctl(ctl) => effects.push(Effect::Controls(ctl)),
    }
}

fn of_setvar<'r>(rule: &'r Rule, setvar: &'r SetVar, effects: &mut Vec<Effect<'r>>) {
    if let TxKey::Expression(name) = &setvar.key {
        expand(rule, name, effects);
    }
    let sums = match &setvar.change {
        Change::Set(text) | Change::ExpireAfter(text) => {
            expand(rule, text, effects);
            false
        }
        Change::Add(text) | Change::Subtract(text) => {
            expand(rule, text, effects);
            true
        }
        Change::Unset | Change::Decay { .. } => false,
    };
    if setvar.collection != Variable::Tx {
        return;
    }
    match &setvar.key {
        TxKey::Slot(slot) => {
            if sums {
                effects.push(Effect::Reads(*slot));
            }
            effects.push(Effect::Writes(*slot));
        }
        TxKey::Expression(name) => {
            if sums {
                effects.push(Effect::ReadsNamed(name));
            }
            effects.push(Effect::WritesNamed(name));
        }
    }
}

/// The members that a text reads when it is expanded while `current` is the current rule.
fn expand<'r>(current: &'r Rule, text: &'r Expression, effects: &mut Vec<Effect<'r>>) {
    for segment in text.segments() {
        of_segment(segment, effects);
        if let (Segment::Member(Variable::Rule, _), Some(logdata)) =
            (segment, &current.meta.logdata)
        {
            // A `%{rule.logdata}` within `logdata` is empty.
            logdata.segments().iter().for_each(|segment| of_segment(segment, effects));
        }
    }
}

fn of_segment<'r>(segment: &'r Segment, effects: &mut Vec<Effect<'r>>) {
    match segment {
        Segment::Literal(_) => {}
        Segment::Tx(slot) => effects.push(Effect::Reads(*slot)),
        Segment::Scalar(variable) | Segment::Member(variable, _) => {
            if *variable == Variable::Tx {
                effects.push(Effect::ReadsSelected(&Select::All));
            }
        }
    }
}
