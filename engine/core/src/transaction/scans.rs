//! The fast path: which rules need not be evaluated. See [`crate::scan`] for what it may say.

use super::{Transaction, values, values::ValueRef};
use crate::{
    id::{LaneId, Phase, RuleIndex},
    operator::leading_integer,
    program::{Gate, Program, Rule, SourceId},
    scan::ByteSet,
    store::{Slice, ValueId},
};

/// Marks what has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// What is known of one value: the row of patterns it may match, and its bytes in both cases.
#[derive(Clone, Copy, Debug)]
struct Scanned {
    row: u32,
    bytes: ByteSet,
}

const NOT_SCANNED: Scanned = Scanned { row: UNKNOWN, bytes: ByteSet::EMPTY };

/// Results of scans, for the values of one transaction.
#[derive(Debug, Default)]
pub(super) struct Scans {
    /// Sets of patterns, `words` each.
    rows: Vec<u64>,
    words: usize,
    /// By value.
    values: Vec<Scanned>,
    /// By source, as of `phase`.
    sources: Vec<Scanned>,
    /// By lane and source: what values that the lane changes may match, as of `phase`.
    lanes: Vec<u32>,
    phase: Option<Phase>,
    /// Values of the source being scanned.
    list: Vec<(Slice, ValueId)>,
}

impl Scans {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            words: program.index.words(),
            sources: vec![NOT_SCANNED; program.sources.len()],
            lanes: vec![UNKNOWN; program.lanes.len() * program.sources.len()],
            ..Self::default()
        }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.rows.shrink_to(ROWS_KEPT);
        self.values.clear();
        self.values.shrink_to(VALUES_KEPT);
        self.phase = None;
    }

    /// Values of collections may have been added since the last phase: what is known of sources is
    /// forgotten, what is known of values is not.
    fn enter(&mut self, phase: Phase) {
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.sources.fill(NOT_SCANNED);
            self.lanes.fill(UNKNOWN);
        }
    }

    fn row(&self, row: u32) -> &[u64] {
        let start = row as usize * self.words;
        self.rows.get(start..start + self.words).unwrap_or_default()
    }

    fn new_row(&mut self) -> u32 {
        let row = self.rows.len() / self.words.max(1);
        self.rows.resize(self.rows.len() + self.words, 0);
        u32::try_from(row).unwrap_or(UNKNOWN)
    }

    fn row_mut(&mut self, row: u32) -> &mut [u64] {
        let start = row as usize * self.words;
        self.rows.get_mut(start..start + self.words).unwrap_or_default()
    }

    /// Adds the patterns of one row to another.
    fn add_row(&mut self, from: u32, to: u32) {
        for word in 0..self.words {
            let patterns = self.rows.get(from as usize * self.words + word).copied().unwrap_or(0);
            if let Some(word) = self.rows.get_mut(to as usize * self.words + word) {
                *word |= patterns;
            }
        }
    }
}

/// Words of rows and values whose memory a reused transaction keeps.
const ROWS_KEPT: usize = 1 << 16;
const VALUES_KEPT: usize = 1 << 12;

impl Transaction {
    /// Whether it is certain that the rule, and so its chain, does not match.
    pub(super) fn cannot_match(
        &mut self,
        program: &Program,
        rule: RuleIndex,
        phase: Phase,
    ) -> bool {
        let Some(rule) = program.rules.get(rule.get()) else { return true };
        match &rule.gate {
            Gate::Open => false,
            Gate::Scan { pattern, sources } => {
                self.scans.enter(phase);
                !sources.iter().any(|&source| self.names(program, rule, source, *pattern))
            }
            Gate::Number { slot, comparison, number, negated } => self
                .tx
                .slot(*slot)
                .is_none_or(|value| comparison.holds(leading_integer(value), *number) == *negated),
            Gate::Count { slot, comparison, number, negated } => {
                let count = i64::from(self.tx.slot(*slot).is_some());
                comparison.holds(count, *number) == *negated
            }
        }
    }

    /// Whether a value of the source may match the pattern.
    fn names(
        &mut self,
        program: &Program,
        rule: &Rule,
        source: SourceId,
        pattern: crate::scan::PatternId,
    ) -> bool {
        let scanned = self.source(program, source);
        if pattern.is_in(self.scans.row(scanned.row)) {
            return true;
        }
        let triggers = program.triggers.get(rule.lane.get()).copied().unwrap_or(ByteSet::ALL);
        if !scanned.bytes.intersects(triggers) {
            return false;
        }
        // Each stage of a chain is looked at by `multiMatch`, and only the last is scanned here.
        if rule.multi_match {
            return true;
        }
        let row = self.lane_row(program, rule.lane, source, triggers);
        pattern.is_in(self.scans.row(row))
    }

    /// What the values of a source may match as they are.
    fn source(&mut self, program: &Program, source: SourceId) -> Scanned {
        let known = self.scans.sources.get(usize::from(source.0)).copied();
        if let Some(scanned) = known.filter(|scanned| scanned.row != UNKNOWN) {
            return scanned;
        }
        let mut all = Scanned { row: self.scans.new_row(), bytes: ByteSet::EMPTY };
        let list = self.source_values(program, source);
        for &(slice, id) in &list {
            let scanned = self.value(program, slice, id);
            self.scans.add_row(scanned.row, all.row);
            all.bytes = all.bytes.union(scanned.bytes);
        }
        self.scans.list = list;
        if let Some(place) = self.scans.sources.get_mut(usize::from(source.0)) {
            *place = all;
        }
        all
    }

    /// The values of a source, in the list lent by the scratch.
    fn source_values(&mut self, program: &Program, source: SourceId) -> Vec<(Slice, ValueId)> {
        let mut list = core::mem::take(&mut self.scans.list);
        list.clear();
        let Some(source) = program.sources.get(usize::from(source.0)) else { return list };
        match values::lists(source.variable) {
            None => list.push((self.scalar(source.variable), ValueId(source.variable as u32))),
            Some((lists, part)) => {
                for pair in lists.iter().flat_map(|&list| self.store.list(list)) {
                    if values::selects(&source.select, self.store.bytes(pair.name)) {
                        list.push(part.of(pair));
                    }
                }
            }
        }
        list
    }

    /// What one value may match as it is.
    fn value(&mut self, program: &Program, slice: Slice, id: ValueId) -> Scanned {
        let at = id.0 as usize;
        if self.scans.values.len() <= at {
            self.scans.values.resize(at + 1, NOT_SCANNED);
        }
        let known = self.scans.values.get(at).copied();
        if let Some(scanned) = known.filter(|scanned| scanned.row != UNKNOWN) {
            return scanned;
        }
        let row = self.scans.new_row();
        let bytes = self.store.bytes(slice);
        program.index.scan(bytes, self.scans.row_mut(row));
        let scanned = Scanned { row, bytes: ByteSet::of(bytes).folded() };
        if let Some(place) = self.scans.values.get_mut(at) {
            *place = scanned;
        }
        scanned
    }

    /// What the values of a source that a lane changes may match when it has changed them.
    fn lane_row(
        &mut self,
        program: &Program,
        lane: LaneId,
        source: SourceId,
        triggers: ByteSet,
    ) -> u32 {
        let at = lane.get() * program.sources.len() + usize::from(source.0);
        let known = self.scans.lanes.get(at).copied();
        if let Some(row) = known.filter(|&row| row != UNKNOWN) {
            return row;
        }
        let row = self.scans.new_row();
        let list = self.source_values(program, source);
        let variable = program.sources.get(usize::from(source.0)).map(|source| source.variable);
        for &(value, id) in &list {
            let scanned = self.value(program, value, id);
            let (Some(variable), true) = (variable, scanned.bytes.intersects(triggers)) else {
                continue;
            };
            let reference =
                ValueRef { variable, name: Slice::EMPTY, value, id: Some(id), count: false };
            let changed = self.transformed(program, lane, &reference);
            if changed != value {
                program.index.scan(self.store.bytes(changed), self.scans.row_mut(row));
            }
        }
        self.scans.list = list;
        if let Some(place) = self.scans.lanes.get_mut(at) {
            *place = row;
        }
        row
    }
}
