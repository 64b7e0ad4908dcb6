//! The fast path: which rules need not be evaluated. See [`crate::scan`] for what it may say.

mod ruled_out;
mod stripped;
mod views;

use super::{Transaction, values, values::ValueRef};
use crate::{
    expand::Expression,
    id::{RuleIndex, next_bit},
    operator::{Operator, leading_integer},
    pattern::Found,
    plan::{PhasePlan, PlannedCell},
    program::{CellId, Gate, Program, Rule, Target},
    scan::{ByteSet, sieve::Answers},
    store::{Slice, ValueId},
    variable::Variable,
};
use ruled_out::Passed;
use stripped::StrippedValues;

/// Marks what has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// What sieves may compute for each transaction: millions of instructions, and more for long values. Values that are not
/// made to need more find it done after the first transactions.
const FUEL: usize = 1 << 14;

/// A text that rules look at: a value as it is, or as a lane changes it, or, for `multiMatch`, the value
/// and each stage of its change together.
#[derive(Clone, Copy, Debug)]
struct View {
    /// [`super::UNKNOWN`] for more than one text.
    text: Slice,
    /// The row of rules that may match it.
    row: u32,
    /// Its bytes in both cases. An empty text has all, since a transformation may put something there.
    bytes: ByteSet,
    /// Whether the row is of all rules, in all lanes: the text is known from earlier transactions.
    recalled: bool,
    /// Whether the value has [`LONG_BYTES_MIN`] or more. `bytes` are those of the text then, and compared with what
    /// patterns need.
    is_long: bool,
}

/// Bytes of a value from which on a rule does not run on it where a byte is missing that each match of its pattern
/// holds. To run a pattern on fewer costs no more than to know their bytes behind each chain of transformations.
const LONG_BYTES_MIN: usize = 1 << 10;

/// What is known of a cell in one phase.
#[derive(Clone, Copy, Debug)]
struct CellState {
    /// The phase, counted over all transactions, in which it was computed.
    entered: u64,
    /// The cell that it does not differ from: itself, or that of the plain source where the lane changes
    /// none of the values. What follows is that cell's.
    same_as: CellId,
    /// The views of its values: one for each member of its source, from here on in `cell_views`.
    first_view: usize,
    /// The bytes in those that are not recalled.
    bytes: ByteSet,
}

impl CellState {
    /// Of a cell that was not computed.
    const UNSURE: Self =
        Self { entered: 0, same_as: CellId(UNKNOWN), first_view: usize::MAX, bytes: ByteSet::ALL };
}

/// A value of a source.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: Slice,
    text: Slice,
    id: ValueId,
    /// Behind which chains of transformations a rule may match it.
    passed: Passed,
}

/// Position of a view; [`UNKNOWN`] when there is none yet.
type ViewId = u32;

/// The view of what no rule may match.
const NOTHING: ViewId = UNKNOWN - 1;

/// The row without a rule.
const EMPTY_ROW: u32 = 0;

/// Results of scans, for the values of one transaction.
///
/// There are as many views as [`Limits::views_max`](crate::Limits) allows for, and a row of one bit for each
/// rule for those that name any. What has no view may match any rule.
#[derive(Debug)]
pub(super) struct Scans {
    /// Sets of rules, `words` each.
    rows: Vec<u64>,
    /// The set for the text that is being scanned; empty otherwise.
    row: Vec<u64>,
    words: usize,
    sieves: usize,
    views_max: usize,
    views: Vec<View>,
    /// Views that do not count towards the limit: of texts of which something may be known.
    unbounded: usize,
    /// The view of each value as it is.
    values: Vec<ViewId>,
    /// By lane and value: the view of values that the lane may change.
    changed: Vec<Vec<ViewId>>,
    /// What sieves say: by view and sieve.
    sieved: Vec<u64>,
    /// The same of long texts, of which perhaps some patterns are known only.
    sieved_long: Vec<Answers>,
    /// Counts phases.
    entered: u64,
    /// The values of each source, as of this phase: a range of `members`.
    sources: Vec<Option<(usize, usize)>>,
    members: Vec<Member>,
    /// How many members each source has beside those: see [`ruled_out`].
    ruled_out: Vec<usize>,
    cells: Vec<CellState>,
    cell_views: Vec<ViewId>,
    /// The rules that may match, by cell.
    cell_rows: Vec<u64>,
    /// What sieves say of all values of a cell, by cell and sieve.
    cell_sieved: Vec<u64>,
    /// The rules of the phase that may match: those that are visited.
    candidates: Vec<u64>,
    /// Those of them whose gates are to be asked yet.
    asked: Vec<u64>,
    fuel: usize,
    stripped: StrippedValues,
    /// Patterns by sieve, while a member is asked about.
    asked_sieves: Vec<(u16, u64)>,
}

impl Scans {
    pub(super) fn new(program: &Program) -> Self {
        let words = program.rules.len().div_ceil(64);
        Self {
            words,
            sieves: program.sieves.len(),
            views_max: program.limits.views_max,
            rows: Vec::new(),
            row: vec![0; words],
            views: Vec::new(),
            unbounded: 0,
            values: Vec::new(),
            changed: vec![Vec::new(); program.lanes.len()],
            sieved: Vec::new(),
            sieved_long: Vec::new(),
            entered: 0,
            sources: vec![None; program.sources.len()],
            ruled_out: vec![0; program.sources.len()],
            members: Vec::new(),
            cells: vec![CellState::UNSURE; program.cells.len()],
            cell_views: Vec::new(),
            cell_rows: Vec::new(),
            cell_sieved: Vec::new(),
            candidates: vec![0; words],
            asked: vec![0; words],
            fuel: 0,
            stripped: StrippedValues::default(),
            asked_sieves: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.rows.shrink_to(WORDS_KEPT);
        self.rows.resize(self.words, 0);
        self.views.clear();
        self.views.shrink_to(VIEWS_KEPT);
        self.unbounded = 0;
        self.values.clear();
        self.values.shrink_to(VIEWS_KEPT);
        for views in &mut self.changed {
            views.clear();
            views.shrink_to(VIEWS_KEPT);
        }
        self.sieved.clear();
        self.sieved.shrink_to(WORDS_KEPT);
        self.sieved_long.clear();
        self.sieved_long.shrink_to(WORDS_KEPT);
        self.members.clear();
        self.members.shrink_to(VIEWS_KEPT);
        self.cell_views.clear();
        self.cell_views.shrink_to(WORDS_KEPT);
        self.fuel = FUEL;
        self.stripped.clear();
    }

    /// Gives all memory back that it can do without; what is known of values is forgotten.
    pub(super) fn rest(&mut self) {
        self.rows = vec![0; self.words];
        self.views = Vec::new();
        self.unbounded = 0;
        self.values = Vec::new();
        self.changed.fill(Vec::new());
        self.sieved = Vec::new();
        self.sieved_long = Vec::new();
        self.members = Vec::new();
        self.cells.fill(CellState::UNSURE);
        self.cell_views = Vec::new();
        self.cell_rows = Vec::new();
        self.cell_sieved = Vec::new();
        self.stripped = StrippedValues::default();
    }

    /// Values of collections may have been added since the last phase: what is known of sources is
    /// forgotten, what is known of values is not. A scalar that has another value is forgotten when it gets it
    /// ([`Transaction::forget`]).
    fn enter(&mut self, plan: &PhasePlan) {
        self.entered += 1;
        self.sources.fill(None);
        self.ruled_out.fill(0);
        self.members.clear();
        self.cell_views.clear();
        self.cell_rows.resize(self.cells.len() * self.words, 0);
        self.cell_sieved.resize(self.cells.len() * self.sieves, 0);
        assign(&mut self.candidates, plan.open.words());
        self.asked.fill(0);
    }

    /// The first rule from `at` on that may match, as far as is known.
    pub(super) fn next_candidate(&self, at: usize) -> Option<usize> {
        next_bit(&self.candidates, at)
    }

    /// The gates of these rules are asked when it is their turn.
    fn ask(&mut self, rules: &[u64]) {
        let sets = self.asked.iter_mut().zip(&mut self.candidates);
        for ((asked, candidates), rules) in sets.zip(rules) {
            *asked |= rules;
            *candidates |= rules;
        }
    }

    fn add_candidates(&mut self, rules: &[u64]) {
        self.candidates.iter_mut().zip(rules).for_each(|(to, from)| *to |= from);
    }

    fn add_candidate(&mut self, rule: RuleIndex) {
        if let Some(word) = self.candidates.get_mut(rule.get() / 64) {
            *word |= 1 << (rule.get() % 64);
        }
    }

    fn row(&self, row: u32) -> &[u64] {
        self.rows.get(nth(row as usize, self.words)).unwrap_or_default()
    }

    /// Whether a text may match a rule, for the texts that the rule needs.
    fn names(&self, view: View, rule: RuleIndex) -> bool {
        view.row != EMPTY_ROW && has(self.row(view.row), rule)
    }

    fn view(&self, view: ViewId) -> View {
        if view == NOTHING {
            let (text, row, bytes) = (Slice::EMPTY, EMPTY_ROW, ByteSet::EMPTY);
            return View { text, row, bytes, recalled: true, is_long: false };
        }
        let unsure = View {
            text: super::UNKNOWN,
            row: UNKNOWN,
            bytes: ByteSet::ALL,
            recalled: false,
            is_long: false,
        };
        self.views.get(view as usize).copied().unwrap_or(unsure)
    }

    /// Adds the rules that a view names to `row`. Says whether there are any.
    fn add_row(&mut self, view: View) -> bool {
        if view.row == EMPTY_ROW {
            return false;
        }
        match self.rows.get(nth(view.row as usize, self.words)) {
            Some(from) => self.row.iter_mut().zip(from).for_each(|(to, from)| *to |= from),
            None => self.row.fill(u64::MAX),
        }
        true
    }

    /// Keeps the row that was scanned into; `named` says whether there is any rule in it.
    fn keep_row(&mut self, named: bool) -> u32 {
        if !named {
            return EMPTY_ROW;
        }
        let row = self.rows.len() / self.words.max(1);
        self.rows.extend_from_slice(&self.row);
        self.row.fill(0);
        u32::try_from(row).unwrap_or(UNKNOWN)
    }

    /// Adds a view for what has been scanned into `row`; `named` says whether there is any rule in it.
    fn add_view(&mut self, text: Slice, bytes: ByteSet, named: bool) -> ViewId {
        let row = self.keep_row(named);
        self.views.push(View { text, row, bytes, recalled: false, is_long: false });
        u32::try_from(self.views.len() - 1).unwrap_or(UNKNOWN)
    }

    /// Notes the length of the value that a view is of.
    fn note_length(&mut self, view: ViewId, bytes: usize) {
        if let Some(view) = self.views.get_mut(view as usize) {
            view.is_long = bytes >= LONG_BYTES_MIN;
        }
    }

    /// What is known of a value from earlier transactions about a rule: whether it may match.
    pub(super) fn recalled(&self, id: Option<ValueId>, rule: RuleIndex) -> Option<bool> {
        let view = self.view(lookup(&self.values, id?.0 as usize)?);
        view.recalled.then(|| self.names(view, rule))
    }

    /// Whether a value has been looked at.
    pub(super) fn knows(&self, ValueId(id): ValueId) -> bool {
        lookup(&self.values, id as usize).is_some()
    }

    /// Whether there is no room for a further view.
    const fn is_full(&self) -> bool {
        self.views.len().saturating_sub(self.unbounded) >= self.views_max
    }

    /// Adds the view of a text that is known from earlier transactions to match none but these rules.
    pub(super) fn add_recalled(&mut self, id: ValueId, text: Slice, bytes: ByteSet, rules: &[u64]) {
        let named = rules.iter().any(|&bits| bits != 0);
        assign(&mut self.row, rules);
        let view = self.add_view(text, bytes, named);
        if let Some(view) = self.views.get_mut(view as usize) {
            view.recalled = true;
        }
        self.unbounded += 1;
        remember(&mut self.values, id.0 as usize, view);
    }

    fn set_cell(&mut self, id: CellId, state: CellState) {
        if let Some(place) = self.cells.get_mut(id.get()) {
            *place = state;
        }
    }

    fn begin_cell(&mut self, id: CellId, sieves: usize) {
        self.cell_rows.get_mut(nth(id.get(), self.words)).unwrap_or_default().fill(0);
        self.cell_sieved.get_mut(nth(id.get(), sieves)).unwrap_or_default().fill(0);
    }

    /// Begins a cell with the views and the row of another one. Gives where its views begin.
    fn copy_cell(&mut self, from: CellState, id: CellId, count: usize) -> usize {
        let first_view = self.cell_views.len();
        let views = from.first_view..from.first_view.saturating_add(count);
        if views.end <= first_view {
            self.cell_views.extend_from_within(views);
        } else {
            self.cell_views.resize(first_view + count, UNKNOWN);
        }
        let (row, to) = (nth(from.same_as.get(), self.words), nth(id.get(), self.words));
        if row.end.max(to.end) <= self.cell_rows.len() {
            self.cell_rows.copy_within(row, to.start);
        }
        first_view
    }

    fn cell_names(&self, id: CellId, rule: RuleIndex) -> bool {
        has(self.cell_rows.get(nth(id.get(), self.words)).unwrap_or_default(), rule)
    }

    fn add_to_cell(&mut self, id: CellId, view: View) {
        if view.row == EMPTY_ROW {
            return;
        }
        let from = self.rows.get(nth(view.row as usize, self.words));
        let to = self.cell_rows.get_mut(nth(id.get(), self.words)).unwrap_or_default();
        match from {
            Some(from) => to.iter_mut().zip(from).for_each(|(to, from)| *to |= from),
            None => to.fill(u64::MAX),
        }
    }

    /// Names those of the rules that a cell names, for the texts they need.
    fn name(&mut self, rules: &[u64], cell: CellState) {
        let row = self.cell_rows.get(nth(cell.same_as.get(), self.words)).unwrap_or_default();
        for ((candidates, rules), named) in self.candidates.iter_mut().zip(rules).zip(row) {
            *candidates |= rules & named;
        }
    }
}

/// The bytes of a text in both cases; any, when there are none.
pub(super) fn known_bytes(text: &[u8]) -> ByteSet {
    match text.len() {
        0 => ByteSet::ALL,
        LONG_BYTES_MIN.. => ByteSet::of_long(text).folded(),
        _ => ByteSet::of(text).folded(),
    }
}

/// Whether a text with these bytes has all signs that the rule's pattern needs.
fn has_needed_signs(rule: &Rule, bytes: ByteSet) -> bool {
    match &rule.operator {
        Some(Operator::Rx(pattern) | Operator::RxGlobal(pattern)) if !rule.negated => {
            pattern.needed_signs().iter().all(|&signs| bytes.intersects(signs))
        }
        _ => true,
    }
}

/// Where the row of that number lies, in a list of rows of `width`.
const fn nth(row: usize, width: usize) -> core::ops::Range<usize> {
    let start = row.saturating_mul(width);
    start..start.saturating_add(width)
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

/// Words of rows, and views, whose memory a reused transaction keeps: enough for pages and forms. A service
/// keeps a transaction for each open stream.
const WORDS_KEPT: usize = 1 << 12;
pub(super) const VIEWS_KEPT: usize = 1 << 9;

impl Transaction {
    /// Looks at the values that the rules of a phase look at, and names the rules that may match.
    ///
    /// Where rules are profiled, the gate of each is asked in its turn, so that its cost is known.
    pub(super) fn name_candidates(&mut self, program: &Program, plan: &PhasePlan) {
        self.scans.enter(plan);
        let asks_all = self.profile.is_some();
        self.scans.ask(if asks_all { plan.looking.words() } else { plan.asked.words() });
        for planned in &plan.sources {
            // The phase ends before its first rule.
            if self.budget.is_spent() {
                return;
            }
            if self.store.is_large() {
                self.enter_large_source(program, plan, planned.plain);
            }
            let plain = self.cell(program, planned.plain);
            self.scans.name(planned.rules.words(), plain);
            // There are no values, or all are known.
            let rules_out = self.rules_out(program, planned.plain);
            if plain.bytes == ByteSet::EMPTY && !rules_out {
                continue;
            }
            self.scans.add_candidates(planned.unknown.words());
            for cell in &planned.cells {
                if self.budget.is_spent() {
                    return;
                }
                let is_changed = plain.bytes.intersects(cell.triggers);
                if is_changed {
                    self.scans.ask(cell.asked.words());
                }
                match asks_all {
                    true if is_changed => self.scans.ask(cell.texts.words()),
                    true => {}
                    false => self.name_in_cell(program, cell, plain, is_changed),
                }
            }
        }
    }

    /// Names the rules that a cell may match, of those whose gates are not asked in their turn.
    fn name_in_cell(
        &mut self,
        program: &Program,
        planned: &PlannedCell,
        plain: CellState,
        is_changed: bool,
    ) {
        let PlannedCell { cell, texts, bytes, sieves, .. } = planned;
        let state = match is_changed {
            true if texts.is_empty() && bytes.is_empty() && sieves.is_empty() => return,
            true => self.cell(program, *cell),
            false => plain,
        };
        if state.same_as != plain.same_as {
            self.scans.name(texts.words(), state);
        }
        for &(bytes, rule) in bytes {
            if state.bytes.intersects(bytes) {
                self.scans.add_candidate(rule);
            }
        }
        for sieve in sieves {
            let found = self.cell_sieved(program, state, sieve.sieve, sieve.patterns);
            let found = found & sieve.patterns;
            if found != 0 {
                for &(pattern, rule) in &sieve.rules {
                    if found & (1 << pattern) != 0 {
                        self.scans.add_candidate(rule);
                    }
                }
            }
        }
    }

    /// Whether it is possible that the rule, a candidate, and so its chain, matches.
    pub(super) fn may_match(&mut self, program: &Program, index: RuleIndex) -> bool {
        let Some(rule) = program.rules.get(index.get()) else { return false };
        match &rule.gate {
            Gate::Open => true,
            Gate::Unknown { cells }
            | Gate::Texts { cells }
            | Gate::Bytes { cells, .. }
            | Gate::Sieve { cells, .. } => {
                !has(&self.scans.asked, index)
                    || cells.iter().any(|&cell| self.cell_may_match(program, index, rule, cell))
            }
            Gate::Scalar { variable } => self.scalar_matches(rule, *variable),
            Gate::Number { slot, comparison, number, negated } => self
                .tx
                .slot(*slot)
                .is_some_and(|value| comparison.holds(leading_integer(value), *number) != *negated),
            Gate::Count { slot, comparison, number, negated } => {
                let count = i64::from(self.tx.slot(*slot).is_some());
                comparison.holds(count, *number) != *negated
            }
            Gate::Values { source, comparison, number, negated } => {
                let count = i64::try_from(self.counted(program, *source)).unwrap_or(i64::MAX);
                comparison.holds(count, *number) != *negated
            }
        }
    }

    /// Whether the rule's operator, which looks at nothing else, holds for a scalar.
    fn scalar_matches(&mut self, rule: &Rule, variable: Variable) -> bool {
        let Some(operator) = &rule.operator else { return true };
        let parameter = operator.parameter().and_then(Expression::literal).unwrap_or_default();
        let value = self.store.bytes(self.scalar(variable));
        let (capture, meter) = (&mut self.scratch.capture, self.budget.meter());
        match operator.matches(value, parameter, false, capture, meter) {
            Found::Yes => !rule.negated,
            Found::No => rule.negated,
            Found::GaveUp => true,
        }
    }

    /// Appends to the scratch list the values of a rule's targets that it may match, in their order.
    pub(super) fn collect_candidates(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        cells: &[CellId],
    ) {
        for (target, &id) in rule.targets.iter().zip(cells) {
            if !self.cell_may_match(program, index, rule, id) {
                continue;
            }
            let Some(cell) = program.cells.get(id.get()) else { continue };
            // Members were ruled out without regard to such rules.
            if matches!(rule.gate, Gate::Unknown { .. }) && self.rules_out(program, id) {
                self.collect(program, target);
                continue;
            }
            let (first, last) = self.source(program, cell.source);
            let first_view = self.cell(program, id).first_view;
            for (at, view) in (first..last).zip(first_view..) {
                let view = self.scans.cell_views.get(view).copied().unwrap_or(UNKNOWN);
                if self.view_may_match(program, index, rule, view)
                    && let Some(&Member { name, text, id, .. }) = self.scans.members.get(at)
                    && self.takes(target, name, id)
                {
                    let variable = target.variable;
                    let value =
                        ValueRef { variable, name, value: text, id: Some(id), count: false };
                    self.scratch.values.push(value);
                }
            }
        }
    }

    /// Whether a target takes a value. Which values are asked about depends on what is known of their texts, so that
    /// those are not charged; a target whose patterns may take many steps has no gate.
    fn takes(&mut self, target: &Target, name: Slice, id: ValueId) -> bool {
        let before = self.budget;
        let takes = values::takes(target, self.store.bytes(name), self.budget.meter());
        self.pay_once(before, Some(id));
        takes
    }

    /// Whether it is possible that the rule matches this view of one of its values.
    fn view_may_match(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        view: ViewId,
    ) -> bool {
        let known = self.scans.view(view);
        if known.is_long && !has_needed_signs(rule, known.bytes) {
            return false;
        }
        match &rule.gate {
            _ if known.recalled => self.scans.names(known, index),
            Gate::Texts { .. } => self.scans.names(known, index),
            Gate::Bytes { bytes, .. } => known.bytes.intersects(*bytes),
            Gate::Sieve { sieve, pattern, .. } => {
                self.sieved(program, *sieve, view, 1 << pattern) & (1 << pattern) != 0
            }
            Gate::Open
            | Gate::Unknown { .. }
            | Gate::Scalar { .. }
            | Gate::Number { .. }
            | Gate::Count { .. }
            | Gate::Values { .. } => true,
        }
    }

    /// Whether it is possible that the rule matches a value of this cell.
    fn cell_may_match(
        &mut self,
        program: &Program,
        index: RuleIndex,
        rule: &Rule,
        id: CellId,
    ) -> bool {
        let cell = self.cell(program, id);
        if self.scans.cell_names(cell.same_as, index) {
            return true;
        }
        match &rule.gate {
            Gate::Texts { .. } => false,
            Gate::Unknown { .. } => cell.bytes != ByteSet::EMPTY || self.rules_out(program, id),
            Gate::Bytes { bytes, .. } => cell.bytes.intersects(*bytes),
            Gate::Sieve { sieve, pattern, .. } => {
                self.cell_sieved(program, cell, *sieve, 1 << pattern) & (1 << pattern) != 0
            }
            Gate::Open
            | Gate::Scalar { .. }
            | Gate::Number { .. }
            | Gate::Count { .. }
            | Gate::Values { .. } => true,
        }
    }

    /// Forgets what is known of a value, as it is and as lanes change it: its id is that of another one now.
    pub(super) fn forget(&mut self, ValueId(id): ValueId) {
        self.met.remove(ValueId(id));
        let at = id as usize;
        let Scans { values, changed, stripped, .. } = &mut self.scans;
        for view in changed
            .iter_mut()
            .chain([values, &mut stripped.places])
            .filter_map(|views| views.get_mut(at))
        {
            *view = UNKNOWN;
        }
        for slice in self.transformed.iter_mut().filter_map(|lane| lane.get_mut(at)) {
            *slice = super::UNKNOWN;
        }
    }

    /// The bytes of a value in both cases, if it has been scanned.
    pub(super) fn known_bytes(&self, ValueId(id): ValueId) -> ByteSet {
        let view = lookup(&self.scans.values, id as usize);
        view.map_or(ByteSet::ALL, |view| self.scans.view(view).bytes)
    }
}

#[cfg(test)]
mod tests;
