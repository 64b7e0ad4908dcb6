//! What is looked at before the rules of a phase, to leave out those that cannot match.
//!
//! A plan turns the gates of the rules around: instead of asking for each rule what its values hold, the
//! values of each source are looked at once, and name rules. See [`crate::scan`] for the law.

use std::collections::BTreeSet;

use crate::{
    id::{LaneId, Phase, RuleIndex, RuleSet},
    program::{CellId, Flow, Gate, Lane, Rule, SourceId},
    scan::ByteSet,
};

/// One phase.
#[derive(Debug, Default)]
pub(crate) struct PhasePlan {
    /// The starters of the phase.
    pub(crate) rules: RuleSet,
    /// Those that are evaluated whatever the values are, or whose gate is a number.
    pub(crate) open: RuleSet,
    /// Those whose gates are anything but texts.
    pub(crate) looking: RuleSet,
    /// Those of them that a rule before them may skip, which is known when it is their turn.
    pub(crate) asked: RuleSet,
    /// What is looked at.
    pub(crate) sources: Vec<PlannedSource>,
}

/// The rules of a phase that look at a source.
#[derive(Debug)]
pub(crate) struct PlannedSource {
    /// The source as it is.
    pub(crate) plain: CellId,
    /// All that a scan, or what is known of a value, may name.
    pub(crate) rules: RuleSet,
    /// Those that may match any value that is not known.
    pub(crate) unknown: RuleSet,
    /// The source as each lane shows it.
    pub(crate) cells: Vec<PlannedCell>,
}

/// The rules of a phase that look at a cell.
#[derive(Debug)]
pub(crate) struct PlannedCell {
    pub(crate) cell: CellId,
    /// Without one of these bytes the cell is that of the plain source.
    pub(crate) triggers: ByteSet,
    /// Those that look for texts and may be skipped.
    pub(crate) asked: RuleSet,
    /// What follows is of the others.
    pub(crate) texts: RuleSet,
    pub(crate) bytes: Vec<(ByteSet, RuleIndex)>,
    pub(crate) sieves: Vec<PlannedSieve>,
}

/// The patterns of a sieve that are looked for in a cell.
#[derive(Debug)]
pub(crate) struct PlannedSieve {
    pub(crate) sieve: u16,
    /// The patterns, a bit each.
    pub(crate) patterns: u64,
    /// The rule of each pattern.
    pub(crate) rules: Vec<(u8, RuleIndex)>,
}

/// What gates are asked about together: a source, as the rules of one lane see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) source: SourceId,
    pub(crate) lane: LaneId,
    /// The same source as no lane changes it.
    pub(crate) plain: CellId,
}

/// The plans of all phases. `phases` are the starters of each, `left` those of them that are evaluated.
pub(crate) fn plans(
    rules: &[Rule],
    phases: &[Vec<RuleIndex>; 5],
    left: &[Vec<RuleIndex>; 5],
    markers: &[[u32; 5]],
    cells: &[Cell],
    lanes: &[Lane],
) -> [PhasePlan; 5] {
    core::array::from_fn(|number| {
        let mut plan = PhasePlan::default();
        let (Some(starters), Some(left), Some(&phase)) =
            (phases.get(number), left.get(number), Phase::ALL.get(number))
        else {
            return plan;
        };
        let left: BTreeSet<RuleIndex> = left.iter().copied().collect();
        // Where a rule may go on that skips others.
        let mut landing = 0;
        for (at, &index) in starters.iter().enumerate() {
            let Some(rule) = rules.get(index.get()).filter(|_| left.contains(&index)) else {
                continue;
            };
            plan.add(index, rule, cells, lanes, at < landing);
            if rule.flow != Flow::Next {
                landing = landing.max(behind(rule.flow, at, markers, phase).unwrap_or_default());
            }
        }
        plan
    })
}

/// Where evaluation goes on behind a rule that matches, as a place in its phase's list; `None` where the
/// phase ends.
pub(crate) fn behind(flow: Flow, at: usize, markers: &[[u32; 5]], phase: Phase) -> Option<usize> {
    Some(match flow {
        Flow::Next => at + 1,
        Flow::Skip(count) => at.saturating_add(1 + count as usize),
        Flow::SkipAfter(marker) => *markers.get(marker as usize)?.get(phase.index())? as usize,
        Flow::SkipPhase => return None,
    })
}

impl PhasePlan {
    fn add(
        &mut self,
        index: RuleIndex,
        rule: &Rule,
        cells: &[Cell],
        lanes: &[Lane],
        skippable: bool,
    ) {
        self.rules.insert(index);
        let Some(ids) = rule.gate.cells() else {
            self.open.insert(index);
            return;
        };
        let looks = !matches!(rule.gate, Gate::Texts { .. });
        if looks {
            self.looking.insert(index);
            if skippable {
                self.asked.insert(index);
            }
        }
        let triggers = lanes.get(rule.lane.get()).map_or(ByteSet::ALL, |lane| lane.triggers);
        for &id in ids {
            let Some(cell) = cells.get(id.get()) else { continue };
            let source = self.source(cell.plain);
            if skippable && looks {
                continue;
            }
            source.rules.insert(index);
            if matches!(rule.gate, Gate::Unknown { .. }) {
                source.unknown.insert(index);
                continue;
            }
            let cell = source.cell(id, triggers);
            match skippable {
                true => cell.asked.insert(index),
                false => cell.add(index, &rule.gate),
            }
        }
    }

    fn source(&mut self, plain: CellId) -> &mut PlannedSource {
        let known = self.sources.iter().position(|planned| planned.plain == plain);
        let position = known.unwrap_or_else(|| {
            self.sources.push(PlannedSource {
                plain,
                rules: RuleSet::default(),
                unknown: RuleSet::default(),
                cells: Vec::new(),
            });
            self.sources.len() - 1
        });
        &mut self.sources[position]
    }
}

impl PlannedSource {
    fn cell(&mut self, id: CellId, triggers: ByteSet) -> &mut PlannedCell {
        let known = self.cells.iter().position(|planned| planned.cell == id);
        let position = known.unwrap_or_else(|| {
            self.cells.push(PlannedCell {
                cell: id,
                triggers: if id == self.plain { ByteSet::EMPTY } else { triggers },
                asked: RuleSet::default(),
                texts: RuleSet::default(),
                bytes: Vec::new(),
                sieves: Vec::new(),
            });
            self.cells.len() - 1
        });
        &mut self.cells[position]
    }
}

impl PlannedCell {
    fn add(&mut self, index: RuleIndex, gate: &Gate) {
        match gate {
            Gate::Texts { .. } => self.texts.insert(index),
            Gate::Bytes { bytes, .. } => self.bytes.push((*bytes, index)),
            Gate::Sieve { sieve, pattern, .. } => self.sieve(*sieve).add(*pattern, index),
            Gate::Open
            | Gate::Unknown { .. }
            | Gate::Scalar { .. }
            | Gate::Number { .. }
            | Gate::Count { .. }
            | Gate::Values { .. } => {}
        }
    }

    fn sieve(&mut self, number: u16) -> &mut PlannedSieve {
        let known = self.sieves.iter().position(|planned| planned.sieve == number);
        let position = known.unwrap_or_else(|| {
            self.sieves.push(PlannedSieve { sieve: number, patterns: 0, rules: Vec::new() });
            self.sieves.len() - 1
        });
        &mut self.sieves[position]
    }
}

impl PlannedSieve {
    fn add(&mut self, pattern: u8, index: RuleIndex) {
        self.patterns |= 1 << pattern;
        self.rules.push((pattern, index));
    }
}
