//! What is looked at before the rules of a phase, to leave out those that cannot match.
//!
//! A plan turns the gates of the rules around: instead of asking for each rule what its values hold, the
//! values of each source are looked at once, and name rules. See [`crate::scan`] for the law.

use crate::{
    id::{LaneId, RuleIndex, RuleSet},
    program::{Gate, Rule, SourceId},
    scan::ByteSet,
};

/// One phase.
#[derive(Debug, Default)]
pub(crate) struct PhasePlan {
    /// The starters of the phase.
    pub(crate) rules: RuleSet,
    /// Those that are evaluated whatever the values are, or whose gate is a number.
    pub(crate) open: RuleSet,
    /// Those whose gate is asked when it is their turn.
    pub(crate) asked: RuleSet,
    /// Where texts are looked for.
    pub(crate) sources: Vec<PlannedSource>,
}

/// The rules of a phase that look at a source.
#[derive(Debug)]
pub(crate) struct PlannedSource {
    pub(crate) source: SourceId,
    pub(crate) rules: RuleSet,
    /// Those that may see other texts than the source holds, when it holds one of these bytes.
    pub(crate) changing: Vec<(ByteSet, RuleSet)>,
}

/// What gates are asked about together: a source, as the rules of one lane see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The sieve that is asked; none where texts are looked for.
    pub(crate) sieve: Option<u16>,
    pub(crate) source: SourceId,
    pub(crate) lane: LaneId,
}

/// The plans of all phases. `phases` are the starters of each.
pub(crate) fn plans(
    rules: &[Rule],
    phases: &[Vec<RuleIndex>; 5],
    triggers: &[ByteSet],
) -> [PhasePlan; 5] {
    core::array::from_fn(|phase| {
        let mut plan = PhasePlan::default();
        for &index in phases.get(phase).map_or(&[][..], Vec::as_slice) {
            if let Some(rule) = rules.get(index.get()) {
                plan.add(index, rule, triggers);
            }
        }
        plan
    })
}

impl PhasePlan {
    fn add(&mut self, index: RuleIndex, rule: &Rule, triggers: &[ByteSet]) {
        self.rules.insert(index);
        match &rule.gate {
            Gate::Open | Gate::Number { .. } | Gate::Count { .. } => self.open.insert(index),
            Gate::Sieve { .. } => self.asked.insert(index),
            Gate::Texts { sources, .. } => {
                let bytes = triggers.get(rule.lane.get()).copied().unwrap_or(ByteSet::ALL);
                for &source in sources {
                    self.source(source).add(index, bytes);
                }
            }
        }
    }

    fn source(&mut self, source: SourceId) -> &mut PlannedSource {
        let known = self.sources.iter().position(|planned| planned.source == source);
        let position = known.unwrap_or_else(|| {
            let (rules, changing) = (RuleSet::default(), Vec::new());
            self.sources.push(PlannedSource { source, rules, changing });
            self.sources.len() - 1
        });
        &mut self.sources[position]
    }
}

impl PlannedSource {
    fn add(&mut self, rule: RuleIndex, triggers: ByteSet) {
        self.rules.insert(rule);
        if triggers == ByteSet::EMPTY {
            return;
        }
        match self.changing.iter_mut().find(|(bytes, _)| *bytes == triggers) {
            Some((_, rules)) => rules.insert(rule),
            None => {
                let mut rules = RuleSet::default();
                rules.insert(rule);
                self.changing.push((triggers, rules));
            }
        }
    }
}
