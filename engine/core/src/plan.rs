//! What is looked at before the rules of a phase, to leave out those that cannot match.
//!
//! A plan turns the gates of the rules around: instead of asking for each rule what its values hold, the
//! values of each source are looked at once, and name rules. See [`crate::scan`] for the law.

use crate::{
    id::{LaneId, RuleIndex, RuleSet},
    program::{CellId, Gate, Lane, Rule, SourceId},
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
    /// The source as it is.
    pub(crate) plain: CellId,
    pub(crate) rules: RuleSet,
    /// Those that may see other texts than the source holds, when it holds one of these bytes.
    pub(crate) changing: Vec<(ByteSet, RuleSet)>,
}

/// What gates are asked about together: a source, as the rules of one lane see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) source: SourceId,
    pub(crate) lane: LaneId,
    /// The same source as no lane changes it.
    pub(crate) plain: CellId,
}

/// The plans of all phases. `phases` are the starters of each.
pub(crate) fn plans(
    rules: &[Rule],
    phases: &[Vec<RuleIndex>; 5],
    cells: &[Cell],
    lanes: &[Lane],
) -> [PhasePlan; 5] {
    core::array::from_fn(|phase| {
        let starters = phases.get(phase).map_or(&[][..], Vec::as_slice);
        plan(rules, starters, cells, lanes)
    })
}

/// The plan of a phase with these starters.
pub(crate) fn plan(
    rules: &[Rule],
    starters: &[RuleIndex],
    cells: &[Cell],
    lanes: &[Lane],
) -> PhasePlan {
    let mut plan = PhasePlan::default();
    for &index in starters {
        if let Some(rule) = rules.get(index.get()) {
            plan.add(index, rule, cells, lanes);
        }
    }
    plan
}

impl PhasePlan {
    fn add(&mut self, index: RuleIndex, rule: &Rule, cells: &[Cell], lanes: &[Lane]) {
        self.rules.insert(index);
        match &rule.gate {
            Gate::Open | Gate::Number { .. } | Gate::Count { .. } | Gate::Values { .. } => {
                self.open.insert(index);
            }
            Gate::Sieve { .. } | Gate::Bytes { .. } => self.asked.insert(index),
            Gate::Texts { cells: ids } => {
                let lane = lanes.get(rule.lane.get());
                let triggers = lane.map_or(ByteSet::ALL, |lane| lane.triggers);
                for cell in ids.iter().filter_map(|id| cells.get(id.get())) {
                    self.source(cell.plain).add(index, triggers);
                }
            }
        }
    }

    fn source(&mut self, plain: CellId) -> &mut PlannedSource {
        let known = self.sources.iter().position(|planned| planned.plain == plain);
        let position = known.unwrap_or_else(|| {
            let (rules, changing) = (RuleSet::default(), Vec::new());
            self.sources.push(PlannedSource { plain, rules, changing });
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
