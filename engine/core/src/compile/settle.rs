//! Pass 5, continued: rules of any phase that compare numbers which no request changes.
//!
//! CRS asks at the head of each of its files, in two phases, for the paranoia level, and skips the rules
//! above it. Where nothing but configuration sets that number, the answer is known when rules are loaded:
//! the question is left out, and with it the rules that it always skips.
//!
//! The law is that of [`super::fold`]: every other rule sees the same.

use std::collections::BTreeSet;

use super::{
    Compiler,
    effects::{self, Effect},
    fold::{Known, Outcome, asks_for_records},
};
use crate::{
    id::{Phase, RuleIndex, RuleSet, TxSlot},
    operator::Capture,
    plan::behind,
    program::{Ctl, Rule},
    variable::Variable,
};

/// Rules that need not be evaluated.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) rules: RuleSet,
    /// What it would take to evaluate them, for each phase.
    pub(super) steps: [u64; 5],
    /// The members of `TX` that stay as they are, where that was looked into.
    pub(super) constants: Option<Known>,
}

/// Steps of a rule that does nothing but skip: the rule, and the number that it looks at.
const FLOW_STEPS: u64 = 2;

/// What rules that depend on the request may change.
#[derive(Debug, Default)]
struct Changed {
    slots: BTreeSet<TxSlot>,
    /// The rules that each of them may remove.
    removed: Vec<RuleSet>,
    /// The rules from which they may take away what those compare.
    losing: RuleSet,
    /// Whether they may ask for a record of every match, which then includes that of rules which only skip.
    records: bool,
}

impl Compiler<'_> {
    /// Finds the rules whose outcome is settled, when those in `known` are evaluated beforehand.
    pub(super) fn settle(
        &self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
        captures: &[TxSlot; Capture::GROUPS],
        known: &Known,
    ) -> Settled {
        let mut changed = Changed::default();
        for &index in phases.iter().flatten().filter(|&&index| !known.folded.contains(index)) {
            self.note(chain(rules, index), captures, &mut changed);
        }
        let mut settled = Settled::default();
        if changed.records {
            return settled;
        }
        let constants = known.without(core::mem::take(&mut changed.slots));
        for (phase, list) in Phase::ALL.into_iter().zip(phases) {
            let is_skipped = |at: usize, next: usize| {
                let skips = list.get(at..next.min(list.len())).unwrap_or_default();
                skips.first().is_none_or(|&first| !changed.losing.contains(first))
                    && changed.removed.iter().all(|removed| removes_all(removed, skips))
            };
            let left = list.iter().copied().enumerate();
            let left = left.filter(|&(_, index)| !known.folded.contains(index));
            settled.add_phase(rules, phase, left, markers, &constants, is_skipped);
        }
        settled.constants = Some(constants);
        settled
    }

    fn note(&self, chain: &[Rule], captures: &[TxSlot; Capture::GROUPS], changed: &mut Changed) {
        for effect in effects::of_chain(chain) {
            match effect {
                Effect::Reads(_) | Effect::ReadsSelected(_) | Effect::ReadsNamed(_) => {}
                Effect::Captures => changed.slots.extend(captures),
                Effect::Writes(slot) => drop(changed.slots.insert(slot)),
                Effect::WritesNamed(name) => changed.slots.extend(self.slots_named(name)),
                Effect::Controls(ctl) => changed.note_ctl(ctl),
            }
        }
    }
}

impl Changed {
    fn note_ctl(&mut self, ctl: &Ctl) {
        match ctl {
            Ctl::RemoveRules(rules) => self.removed.push(rules.clone()),
            Ctl::RemoveTargets(rules, variable, _) => {
                if *variable == Variable::Tx {
                    self.losing.extend(rules);
                }
            }
            Ctl::AuditParts(change) => self.records |= asks_for_records(change),
            Ctl::RuleEngine(_)
            | Ctl::AuditEngine(_)
            | Ctl::NoEffect
            | Ctl::RequestBodyAccess(_)
            | Ctl::ResponseBodyAccess(_)
            | Ctl::ForceRequestBodyVariable(_)
            | Ctl::RequestBodyProcessor(_)
            | Ctl::RequestBodyLimit(_)
            | Ctl::ResponseBodyLimit(_) => {}
        }
    }
}

/// A rule with its links.
pub(super) fn chain(rules: &[Rule], starter: RuleIndex) -> &[Rule] {
    let links = rules.get(starter.get()).map_or(0, |rule| rule.links as usize);
    rules.get(starter.get()..=starter.get() + links).unwrap_or_default()
}

/// Whether a `ctl` that removes the first of these rules, which skips the others, removes those too.
fn removes_all(removed: &RuleSet, rules: &[RuleIndex]) -> bool {
    rules.first().is_none_or(|&first| !removed.contains(first))
        || rules.iter().all(|&rule| removed.contains(rule))
}

impl Settled {
    /// Settles what can be settled of one phase, of which `list` are the rules with their places.
    /// `is_skipped` says whether a rule is there to skip those up to another place, if they are there.
    fn add_phase(
        &mut self,
        rules: &[Rule],
        phase: Phase,
        list: impl Iterator<Item = (usize, RuleIndex)>,
        markers: &[[u32; 5]],
        constants: &Known,
        is_skipped: impl Fn(usize, usize) -> bool,
    ) {
        // Where rules that depend on the request may go on.
        let mut landings: Vec<usize> = Vec::new();
        let (mut skipped_to, mut steps) = (0, 0);
        for (at, index) in list {
            let Some(rule) = rules.get(index.get()) else { continue };
            if at < skipped_to {
                self.rules.insert(index);
                continue;
            }
            let next = behind(rule.flow, at, markers, phase);
            match (constants.outcome(rule), next) {
                (Outcome::DoesNotMatch, _) => self.rules.insert(index),
                (Outcome::Matches(changes), Some(next))
                    if changes.is_empty()
                        && next > at
                        && is_skipped(at, next)
                        && !landings.iter().any(|&landing| landing > at && landing < next) =>
                {
                    self.rules.insert(index);
                    skipped_to = next;
                    steps += FLOW_STEPS;
                }
                _ => landings.extend(next),
            }
        }
        if let Some(place) = self.steps.get_mut(phase.index()) {
            *place = steps;
        }
    }
}
