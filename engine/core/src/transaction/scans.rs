//! The fast path: which rules need not be evaluated. See [`crate::scan`] for what it may say.

use super::{Transaction, values, values::ValueRef};
use crate::{
    id::{LaneId, RuleIndex, next_bit},
    operator::leading_integer,
    plan::{PhasePlan, PlannedSource},
    program::{CellId, Gate, Program, Rule, Source, SourceId},
    scan::{
        ByteSet,
        sieve::{self, Fuel, PATTERNS_MAX},
    },
    store::{Slice, ValueId},
    variable::Variable,
};

/// Marks what has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// Marks an answer of a sieve that has been computed: the bit that no pattern has.
const KNOWN: u64 = 1 << PATTERNS_MAX;

/// Steps that sieves may compute for each transaction, and for how many bytes they may compute one
/// more. A step takes about a microsecond.
const FUEL: usize = 1_024;
const FUEL_BYTES: usize = 64;

/// A text that rules look at: a value as it is, or as a lane changes it.
#[derive(Clone, Copy, Debug)]
struct View {
    text: Slice,
    /// The row of rules that may match it.
    row: u32,
    /// Its bytes in both cases. An empty text has all, since a transformation may put something there.
    bytes: ByteSet,
}

/// Position of a view; [`UNKNOWN`] when there is none yet.
type ViewId = u32;

/// The row without a rule.
const EMPTY_ROW: u32 = 0;

/// Results of scans, for the values of one transaction.
///
/// There are at most as many views as values in all lanes, and a row of one bit for each rule for those
/// that name any.
#[derive(Debug)]
pub(super) struct Scans {
    /// Sets of rules, `words` each.
    rows: Vec<u64>,
    words: usize,
    views: Vec<View>,
    /// The view of each value as it is.
    values: Vec<ViewId>,
    /// By lane and value: the view of values that the lane may change.
    changed: Vec<Vec<ViewId>>,
    /// What sieves say: by view and sieve.
    sieved: Vec<u64>,
    /// The values of each source, as of this phase: a range of `members`.
    sources: Vec<Option<(usize, usize)>>,
    members: Vec<(Slice, ValueId)>,
    /// What sieves say, by cell, as of this phase; for cells without one, whether its row is known.
    cells: Vec<u64>,
    /// The rules that may match, by cell.
    cell_rows: Vec<u64>,
    /// The rules of the phase that may match.
    candidates: Vec<u64>,
    /// The rules of the phase whose gates are to be asked.
    asked: Vec<u64>,
    fuel: Fuel,
}

impl Scans {
    pub(super) fn new(program: &Program) -> Self {
        let words = program.rules.len().div_ceil(64);
        Self {
            words,
            rows: Vec::new(),
            views: Vec::new(),
            values: Vec::new(),
            changed: vec![Vec::new(); program.lanes.len()],
            sieved: Vec::new(),
            sources: vec![None; program.sources.len()],
            members: Vec::new(),
            cells: vec![0; program.cells.len()],
            cell_rows: vec![0; program.cells.len() * words],
            candidates: vec![0; words],
            asked: vec![0; words],
            fuel: Fuel(0),
        }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.rows.shrink_to(WORDS_KEPT);
        self.rows.resize(self.words, 0);
        self.views.clear();
        self.views.shrink_to(VIEWS_KEPT);
        self.values.clear();
        self.values.shrink_to(VIEWS_KEPT);
        for views in &mut self.changed {
            views.clear();
            views.shrink_to(VIEWS_KEPT);
        }
        self.sieved.clear();
        self.sieved.shrink_to(WORDS_KEPT);
        self.members.clear();
        self.members.shrink_to(WORDS_KEPT);
        self.fuel = Fuel(FUEL);
    }

    /// Values of collections may have been added since the last phase: what is known of sources is
    /// forgotten, what is known of values is not.
    fn enter(&mut self, plan: &PhasePlan) {
        self.sources.fill(None);
        self.members.clear();
        self.cells.fill(0);
        assign(&mut self.candidates, plan.open.words());
        assign(&mut self.asked, plan.asked.words());
    }

    /// The first rule from `at` on that may match, as far as is known.
    pub(super) fn next_candidate(&self, at: usize) -> Option<usize> {
        let candidate = next_bit(&self.candidates, at);
        let asked = next_bit(&self.asked, at);
        match (candidate, asked) {
            (Some(candidate), Some(asked)) => Some(candidate.min(asked)),
            (candidate, asked) => candidate.or(asked),
        }
    }

    fn row(&self, row: u32) -> &[u64] {
        let start = row as usize * self.words;
        self.rows.get(start..start + self.words).unwrap_or_default()
    }

    /// Whether a text may match a rule, for the texts that the rule needs.
    fn names(&self, view: View, rule: RuleIndex) -> bool {
        view.row != EMPTY_ROW && has(self.row(view.row), rule)
    }

    fn view(&self, view: ViewId) -> View {
        let unsure = View { text: Slice::EMPTY, row: UNKNOWN, bytes: ByteSet::ALL };
        self.views.get(view as usize).copied().unwrap_or(unsure)
    }

    /// Scans a text.
    fn new_view(&mut self, program: &Program, text: Slice, bytes: &[u8]) -> ViewId {
        let start = self.rows.len();
        self.rows.resize(start + self.words, 0);
        let named = self.rows.get_mut(start..).unwrap_or_default();
        program.index.scan(bytes, named);
        let row = if named.iter().all(|&word| word == 0) {
            self.rows.truncate(start);
            EMPTY_ROW
        } else {
            u32::try_from(start / self.words.max(1)).unwrap_or(UNKNOWN)
        };
        let empty = bytes.is_empty();
        let bytes = if empty { ByteSet::ALL } else { ByteSet::of(bytes).folded() };
        self.fuel.0 = self.fuel.0.saturating_add(text.len() / FUEL_BYTES);
        self.views.push(View { text, row, bytes });
        u32::try_from(self.views.len() - 1).unwrap_or(UNKNOWN)
    }

    fn begin_cell(&mut self, id: CellId, answer: u64) {
        let start = id.0 as usize * self.words;
        if let Some(row) = self.cell_rows.get_mut(start..start + self.words) {
            row.fill(0);
        }
        if let Some(place) = self.cells.get_mut(id.0 as usize) {
            *place = answer;
        }
    }

    fn cell_row(&self, id: CellId) -> &[u64] {
        let start = id.0 as usize * self.words;
        self.cell_rows.get(start..start + self.words).unwrap_or_default()
    }

    fn add_to_cell(&mut self, id: CellId, view: ViewId) {
        let row = self.view(view).row;
        if row == EMPTY_ROW {
            return;
        }
        let (from, to) = (row as usize * self.words, id.0 as usize * self.words);
        let from = self.rows.get(from..from + self.words).unwrap_or_default();
        let to = self.cell_rows.get_mut(to..to + self.words).unwrap_or_default();
        for (to, from) in to.iter_mut().zip(from) {
            *to |= from;
        }
    }

    /// Names the rules of a source that a value may match.
    fn name(&mut self, planned: &PlannedSource, view: View) {
        if view.row != EMPTY_ROW {
            let start = view.row as usize * self.words;
            let row = self.rows.get(start..start + self.words).unwrap_or_default();
            let rules = planned.rules.words();
            for ((candidates, rules), named) in self.candidates.iter_mut().zip(rules).zip(row) {
                *candidates |= rules & named;
            }
        }
        for (bytes, rules) in &planned.changing {
            if view.bytes.intersects(*bytes) {
                for (asked, rules) in self.asked.iter_mut().zip(rules.words()) {
                    *asked |= rules;
                }
            }
        }
    }
}

fn assign(words: &mut [u64], from: &[u64]) {
    words.fill(0);
    for (word, from) in words.iter_mut().zip(from) {
        *word = *from;
    }
}

/// Whether a set has the rule. What is not in the set's range is unsure, and so it has.
fn has(set: &[u64], rule: RuleIndex) -> bool {
    set.get(rule.get() / 64).is_none_or(|word| word & (1 << (rule.get() % 64)) != 0)
}

fn lookup(list: &[ViewId], at: usize) -> Option<ViewId> {
    list.get(at).copied().filter(|&view| view != UNKNOWN)
}

fn remember(list: &mut Vec<ViewId>, at: usize, view: ViewId) {
    if list.len() <= at {
        list.resize(at + 1, UNKNOWN);
    }
    if let Some(place) = list.get_mut(at) {
        *place = view;
    }
}

/// Words of rows, and views, whose memory a reused transaction keeps.
const WORDS_KEPT: usize = 1 << 16;
const VIEWS_KEPT: usize = 1 << 12;

impl Transaction {
    /// Looks at the values that the rules of a phase look at, and names the rules that may match.
    pub(super) fn name_candidates(&mut self, program: &Program, plan: &PhasePlan) {
        self.scans.enter(plan);
        for planned in &plan.sources {
            let (first, last) = self.source(program, planned.source);
            for at in first..last {
                let Some(&(text, id)) = self.scans.members.get(at) else { continue };
                let view = self.raw_view(program, text, id);
                self.scans.name(planned, self.scans.view(view));
            }
        }
    }

    /// Whether it is possible that the rule, and so its chain, matches.
    pub(super) fn may_match(&mut self, program: &Program, index: RuleIndex) -> bool {
        let Some(rule) = program.rules.get(index.get()) else { return false };
        match &rule.gate {
            Gate::Open => true,
            Gate::Texts { cells, .. } => {
                has(&self.scans.candidates, index)
                    // Each stage of a chain is looked at by `multiMatch`, and only the last is scanned.
                    || rule.multi_match
                    || cells.iter().any(|&cell| self.cell_names(program, cell, index))
            }
            Gate::Sieve { pattern, cells } => {
                cells.iter().any(|&cell| self.cell_matches(program, cell) & (1 << pattern) != 0)
            }
            Gate::Number { slot, comparison, number, negated } => self
                .tx
                .slot(*slot)
                .is_some_and(|value| comparison.holds(leading_integer(value), *number) != *negated),
            Gate::Count { slot, comparison, number, negated } => {
                let count = i64::from(self.tx.slot(*slot).is_some());
                comparison.holds(count, *number) != *negated
            }
        }
    }

    /// Whether it is possible that the rule matches this one of its values.
    pub(super) fn value_may_match(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        value: &ValueRef,
    ) -> bool {
        let Some(id) = value.id.filter(|_| !rule.multi_match) else { return true };
        match &rule.gate {
            Gate::Texts { .. } => {
                let view = self.lane_view(program, rule.lane, value.value, id);
                self.scans.names(self.scans.view(view), index)
            }
            Gate::Sieve { pattern, cells } => {
                let cell = cells.first().and_then(|cell| program.cells.get(cell.0 as usize));
                let Some(sieve) = cell.and_then(|cell| cell.sieve) else { return true };
                let view = self.lane_view(program, rule.lane, value.value, id);
                self.sieved(program, sieve, view) & (1 << pattern) != 0
            }
            Gate::Open | Gate::Number { .. } | Gate::Count { .. } => true,
        }
    }

    /// The values of a source: a range of the members.
    fn source(&mut self, program: &Program, source: SourceId) -> (usize, usize) {
        let at = usize::from(source.0);
        if let Some(&Some(range)) = self.scans.sources.get(at) {
            return range;
        }
        let first = self.scans.members.len();
        if let Some(source) = program.sources.get(at) {
            self.add_members(source);
        }
        let range = (first, self.scans.members.len());
        if let Some(place) = self.scans.sources.get_mut(at) {
            *place = Some(range);
        }
        range
    }

    fn add_members(&mut self, source: &Source) {
        let Some((lists, part)) = values::lists(source.variable) else {
            let id = ValueId(source.variable as u32);
            let text = self.scalar(source.variable);
            self.scans.members.push((text, id));
            return;
        };
        for pair in lists.iter().flat_map(|&list| self.store.list(list)) {
            if values::selects(&source.select, self.store.bytes(pair.name)) {
                self.scans.members.push(part.of(pair));
            }
        }
    }

    /// A value as it is.
    fn raw_view(&mut self, program: &Program, text: Slice, ValueId(id): ValueId) -> ViewId {
        if let Some(view) = lookup(&self.scans.values, id as usize) {
            return view;
        }
        let view = self.scans.new_view(program, text, self.store.bytes(text));
        remember(&mut self.scans.values, id as usize, view);
        view
    }

    /// A value as the rules of a lane see it, but for the case of letters.
    fn lane_view(&mut self, program: &Program, lane: LaneId, text: Slice, id: ValueId) -> ViewId {
        let raw = self.raw_view(program, text, id);
        let triggers = program.triggers.get(lane.get()).copied().unwrap_or(ByteSet::ALL);
        if !self.scans.view(raw).bytes.intersects(triggers) {
            return raw;
        }
        let ValueId(at) = id;
        let known = self.scans.changed.get(lane.get()).and_then(|list| lookup(list, at as usize));
        if let Some(view) = known {
            return view;
        }
        let variable = Variable::Args;
        let value =
            ValueRef { variable, name: Slice::EMPTY, value: text, id: Some(id), count: false };
        let changed = self.transformed(program, lane, &value);
        let view = if changed == text {
            raw
        } else {
            self.scans.new_view(program, changed, self.store.bytes(changed))
        };
        if let Some(list) = self.scans.changed.get_mut(lane.get()) {
            remember(list, at as usize, view);
        }
        view
    }

    /// The bytes of a value in both cases, if it has been scanned.
    pub(super) fn known_bytes(&self, ValueId(id): ValueId) -> ByteSet {
        let view = lookup(&self.scans.values, id as usize);
        view.map_or(ByteSet::ALL, |view| self.scans.view(view).bytes)
    }

    /// Whether a source, as a lane changes it, holds a text that the rule needs.
    fn cell_names(&mut self, program: &Program, id: CellId, rule: RuleIndex) -> bool {
        let Some(&cell) = program.cells.get(id.0 as usize) else { return true };
        if self.scans.cells.get(id.0 as usize) == Some(&0) {
            self.scans.begin_cell(id, KNOWN);
            let (first, last) = self.source(program, cell.source);
            for at in first..last {
                let Some(&(text, value)) = self.scans.members.get(at) else { continue };
                let view = self.lane_view(program, cell.lane, text, value);
                self.scans.add_to_cell(id, view);
            }
        }
        has(self.scans.cell_row(id), rule)
    }

    /// Which patterns of a sieve match in a source, as a lane changes it.
    fn cell_matches(&mut self, program: &Program, id: CellId) -> u64 {
        let known = self.scans.cells.get(id.0 as usize).copied().unwrap_or(sieve::ALL);
        if known != 0 {
            return known;
        }
        let Some(&cell) = program.cells.get(id.0 as usize) else { return sieve::ALL };
        let Some(sieve) = cell.sieve else { return sieve::ALL };
        let (first, last) = self.source(program, cell.source);
        let mut found = KNOWN;
        for at in first..last {
            let Some(&(text, value)) = self.scans.members.get(at) else { continue };
            let view = self.lane_view(program, cell.lane, text, value);
            found |= self.sieved(program, sieve, view);
        }
        self.scans.begin_cell(id, found);
        found
    }

    /// Which patterns of a sieve match in a text.
    fn sieved(&mut self, program: &Program, number: u16, view: ViewId) -> u64 {
        let Some(sieve) = program.sieves.get(usize::from(number)) else { return sieve::ALL };
        let at = view as usize * program.sieves.len() + usize::from(number);
        if self.scans.sieved.len() <= at {
            self.scans.sieved.resize(at + 1, 0);
        }
        let known = self.scans.sieved.get(at).copied().unwrap_or(sieve::ALL);
        if known != 0 {
            return known;
        }
        let text = self.scans.view(view).text;
        let found = KNOWN | sieve.scan(self.store.bytes(text), &mut self.scans.fuel);
        if let Some(place) = self.scans.sieved.get_mut(at) {
            *place = found;
        }
        found
    }
}
