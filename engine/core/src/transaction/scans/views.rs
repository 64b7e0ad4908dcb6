//! What rules look at, looked at once: the values of sources, as they are and as lanes change them.

use super::{
    CellState, LONG_BYTES_MIN, Member, NOTHING, Scans, UNKNOWN, ViewId, known_bytes, lookup,
    remember, ruled_out::Passed,
};
use crate::{
    id::LaneId,
    plan::Cell,
    program::{CellId, Lane, Program, Select, Source, SourceId},
    scan::{
        ByteSet,
        sieve::{self, Answers, PATTERNS_MAX, Sieve},
    },
    store::{self, Region, Slice, ValueId},
    transaction::{
        self, Transaction,
        values::{self, ValueRef},
    },
    variable::Variable,
};

/// Stands for the id of a member that is given one.
const WITHOUT_ID: ValueId = ValueId(store::NO_ID);

/// Marks an answer of a sieve that has been computed: the bit that no pattern has.
const KNOWN: u64 = 1 << PATTERNS_MAX;

impl Transaction {
    /// The values of a source: a range of the members.
    #[inline]
    pub(super) fn source(&mut self, program: &Program, source: SourceId) -> (usize, usize) {
        let at = usize::from(source.0);
        match self.scans.sources.get(at) {
            Some(&Some(range)) => range,
            _ => self.enter_source(program, at),
        }
    }

    /// The number of values of a source, without those that others hold.
    pub(super) fn counted(&mut self, program: &Program, source: SourceId) -> usize {
        let (first, last) = self.source(program, source);
        let number = usize::from(source.0);
        let Some(source) = program.sources.get(number) else { return 0 };
        let ruled_out = self.scans.ruled_out.get(number).copied().unwrap_or_default();
        let lists = values::lists(source.variable).map_or(&[][..], |(lists, _)| lists);
        let meter = self.budget.meter();
        let decoded = lists.iter().filter(|list| list.is_decoded());
        let decoded = decoded
            .flat_map(|&list| self.store.list(list))
            .filter(|pair| values::selected(&source.select, self.store.bytes(pair.name), meter));
        (last - first) + ruled_out - decoded.count()
    }

    #[inline(never)]
    fn enter_source(&mut self, program: &Program, at: usize) -> (usize, usize) {
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
            self.scans.members.push(Member { name: Slice::EMPTY, text, id, passed: Passed::ALL });
            return;
        };
        let mut without_id = 0;
        let meter = self.budget.meter();
        let first = self.scans.members.len();
        for list in lists.iter().map(|&list| self.store.list(list)) {
            for pair in list {
                let selected = match &source.select {
                    Select::All => true,
                    // Most are told apart by their length.
                    Select::Key(key) if key.len() != pair.name.len() => false,
                    select => values::selected(select, self.store.bytes(pair.name), meter),
                };
                if selected {
                    let (text, id) = part.of(pair);
                    without_id += usize::from(id.is_none());
                    let id = id.unwrap_or(WITHOUT_ID);
                    let member = Member { name: pair.name, text, id, passed: Passed::ALL };
                    self.scans.members.push(member);
                }
            }
        }
        if without_id > 0 {
            let members = self.scans.members.get_mut(first..).unwrap_or_default();
            for member in members.iter_mut().filter(|member| member.id == WITHOUT_ID) {
                member.id = self.store.next_id();
            }
        }
    }

    /// A source as a lane changes it.
    #[inline]
    pub(super) fn cell(&mut self, program: &Program, id: CellId) -> CellState {
        match self.scans.cells.get(id.get()) {
            Some(state) if state.entered == self.scans.entered => *state,
            _ => self.enter_cell(program, id),
        }
    }

    #[inline(never)]
    fn enter_cell(&mut self, program: &Program, id: CellId) -> CellState {
        let Some(&cell) = program.cells.get(id.get()) else { return CellState::UNSURE };
        let state = if cell.plain == id {
            self.plain_cell(program, id, cell)
        } else {
            let plain = self.cell(program, cell.plain);
            match program.lanes.get(cell.lane.get()) {
                Some(lane) if plain.bytes.intersects(lane.triggers) => {
                    self.lane_cell(program, id, cell, plain, lane)
                }
                _ => plain,
            }
        };
        self.scans.set_cell(id, state);
        state
    }

    /// The values of a source as they are.
    fn plain_cell(&mut self, program: &Program, id: CellId, cell: Cell) -> CellState {
        self.scans.begin_cell(id, program.sieves.len());
        let (first, last) = self.source(program, cell.source);
        let first_view = self.scans.cell_views.len();
        let mut bytes = ByteSet::EMPTY;
        for at in first..last {
            let Some(&Member { text, id: value, .. }) = self.scans.members.get(at) else { break };
            let view = self.raw_view(program, text, value);
            self.scans.cell_views.push(view);
            let view = self.scans.view(view);
            self.scans.add_to_cell(id, view);
            if !view.recalled {
                bytes = bytes.union(view.bytes);
            }
        }
        CellState { entered: self.scans.entered, same_as: id, first_view, bytes }
    }

    /// The values of a source as a lane changes them: as they are, but for some. That those are still
    /// named as they are, too, is an error to the safe side.
    fn lane_cell(
        &mut self,
        program: &Program,
        id: CellId,
        cell: Cell,
        plain: CellState,
        lane: &Lane,
    ) -> CellState {
        self.scans.begin_cell(id, program.sieves.len());
        let (first, last) = self.source(program, cell.source);
        let first_view = self.scans.copy_cell(plain, id, last - first);
        let mut bytes = plain.bytes;
        for (at, place) in (first..last).zip(first_view..) {
            let Some(&raw) = self.scans.cell_views.get(place) else { break };
            let plain = self.scans.view(raw);
            if plain.recalled || !plain.bytes.intersects(lane.triggers) {
                continue;
            }
            let Some(&Member { text, id: value, passed, .. }) = self.scans.members.get(at) else {
                break;
            };
            let view = match passed.has(cell.lane) {
                true => self.lane_view(program, cell.lane, lane, text, value, raw),
                false => NOTHING,
            };
            if let Some(place) = self.scans.cell_views.get_mut(place) {
                *place = view;
            }
            let view = self.scans.view(view);
            self.scans.add_to_cell(id, view);
            bytes = bytes.union(view.bytes);
        }
        CellState { entered: self.scans.entered, same_as: id, first_view, bytes }
    }

    /// Adds the rules that a text names to the row that is being made: all of them, or those of the chain of
    /// transformations that has made the text. Says whether there are any.
    #[inline]
    pub(super) fn scan(
        &mut self,
        program: &Program,
        changed_by: Option<LaneId>,
        text: Slice,
    ) -> bool {
        if changed_by.is_some_and(|lane| !program.index.has_texts(lane)) {
            return false;
        }
        if self.budget.scans(text.len()) {
            // Any rule may match: the first that is asked ends the evaluation.
            self.scans.row.fill(u64::MAX);
            return true;
        }
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let (bytes, row) = (self.store.bytes(text), &mut self.scans.row);
        let named = match changed_by {
            Some(lane) => program.index.scan_changed(lane, bytes, row),
            None => program.index.scan(bytes, row),
        };
        if let Some(profile) = &mut self.profile {
            profile.indexed(text.len());
        }
        named
    }

    /// Whether there is room for a further view. Once something was not kept, nothing further is, but for texts of
    /// which something may be known: what is found of the others does not depend on those.
    fn keeps_views(&mut self, value: ValueId) -> bool {
        if self.met.contains(Some(value)) {
            return true;
        }
        self.flags.views_dropped |= self.scans.is_full();
        !self.flags.views_dropped
    }

    /// A value as it is.
    fn raw_view(&mut self, program: &Program, text: Slice, ValueId(id): ValueId) -> ViewId {
        if let Some(view) = lookup(&self.scans.values, id as usize) {
            return view;
        }
        if !self.keeps_views(ValueId(id)) {
            return UNKNOWN;
        }
        let named = self.scan(program, None, text);
        let bytes = self.store.bytes(text);
        let view = self.scans.add_view(text, known_bytes(bytes), named);
        self.scans.note_length(view, text.len());
        self.scans.unbounded += usize::from(self.met.contains(Some(ValueId(id))));
        remember(&mut self.scans.values, id as usize, view);
        view
    }

    /// A value that a lane may change as the rules of that lane see it, but for the case of letters.
    fn lane_view(
        &mut self,
        program: &Program,
        id: LaneId,
        lane: &Lane,
        text: Slice,
        value: ValueId,
        raw: ViewId,
    ) -> ViewId {
        let at = value.0 as usize;
        if let Some(view) = self.scans.changed.get(id.get()).and_then(|list| lookup(list, at)) {
            return view;
        }
        if !self.keeps_views(value) {
            return UNKNOWN;
        }
        let before = self.budget;
        let view = match lane.each_stage {
            _ if self.is_told_by_stripped(program, id, lane, text, value, raw) => raw,
            true if lane.is_too_short(text.len()) => raw,
            true => self.stages_view(program, id, lane, text, raw),
            false => self.changed_view(program, id, text, value, raw),
        };
        self.pay_once(before, Some(value));
        self.scans.unbounded += usize::from(view != raw && self.met.contains(Some(value)));
        if let Some(list) = self.scans.changed.get_mut(id.get()) {
            remember(list, at, view);
        }
        view
    }

    /// A value as it is at the end of a lane.
    fn changed_view(
        &mut self,
        program: &Program,
        lane: LaneId,
        text: Slice,
        id: ValueId,
        raw: ViewId,
    ) -> ViewId {
        let (variable, name) = (Variable::Args, Slice::EMPTY);
        let value = ValueRef { variable, name, value: text, id: Some(id), count: false };
        let changed = self.transformed(program, lane, &value);
        if changed == text {
            return raw;
        }
        // There was no room to keep it. No rule is being run, so that nothing else is there either.
        if changed.region == Region::Temporary {
            self.store.clear_temporary();
            return UNKNOWN;
        }
        let named = self.scan(program, Some(lane), changed);
        let asked = program.lanes.get(lane.get()).is_none_or(|lane| lane.asks.bytes);
        let bytes = match (text.len() >= LONG_BYTES_MIN, asked) {
            (true, _) => self.bytes_behind_lane(changed, id),
            (false, true) => known_bytes(self.store.bytes(changed)),
            (false, false) => ByteSet::ALL,
        };
        let view = self.scans.add_view(changed, bytes, named);
        self.scans.note_length(view, text.len());
        view
    }

    /// The bytes of what a lane made of a value. Other lanes often made the same text of it, whose bytes are known.
    fn bytes_behind_lane(&self, changed: Slice, ValueId(id): ValueId) -> ByteSet {
        let views = self.scans.changed.iter().filter_map(|list| lookup(list, id as usize));
        let same = views.map(|view| self.scans.view(view)).find(|view| view.text == changed);
        same.map_or_else(|| known_bytes(self.store.bytes(changed)), |view| view.bytes)
    }

    /// A value as it is, and each stage of a lane.
    fn stages_view(
        &mut self,
        program: &Program,
        id: LaneId,
        lane: &Lane,
        text: Slice,
        raw: ViewId,
    ) -> ViewId {
        let mut stages = core::mem::take(&mut self.scratch.stages);
        let first = self.scans.view(raw);
        self.stages(program, id, lane, text, first.bytes, &mut stages);
        let view = if let [_, changed @ ..] = stages.as_slice()
            && !changed.is_empty()
        {
            let (mut bytes, mut named) = (first.bytes, self.scans.add_row(first));
            for &stage in changed {
                if stage.len() >= lane.asks.text_min {
                    named |= self.scan(program, Some(id), stage);
                }
                if lane.asks.bytes || text.len() >= LONG_BYTES_MIN {
                    bytes = bytes.union(known_bytes(self.store.bytes(stage)));
                }
            }
            let view = self.scans.add_view(transaction::UNKNOWN, bytes, named);
            self.scans.note_length(view, text.len());
            view
        } else {
            raw
        };
        self.scratch.stages = stages;
        // No rule is being run: the stages were all there is.
        self.store.clear_temporary();
        view
    }

    /// Which of some patterns of a sieve match in a cell, and perhaps others.
    pub(super) fn cell_sieved(
        &mut self,
        program: &Program,
        state: CellState,
        sieve: u16,
        patterns: u64,
    ) -> u64 {
        let place = state.same_as.get().saturating_mul(program.sieves.len());
        let place = place.saturating_add(usize::from(sieve));
        let known = self.scans.cell_sieved.get(place).copied().unwrap_or(sieve::ALL);
        if known != 0 {
            return known;
        }
        let Some(cell) = program.cells.get(state.same_as.get()) else { return sieve::ALL };
        let (first, last) = self.source(program, cell.source);
        let (mut found, mut is_long) = (KNOWN, false);
        for view in (state.first_view..).take(last - first) {
            let id = self.scans.cell_views.get(view).copied().unwrap_or(UNKNOWN);
            let view = self.scans.view(id);
            if !view.recalled {
                is_long |= view.text.len() >= LONG_BYTES_MIN;
                found |= self.sieved(program, sieve, id, patterns);
            }
        }
        // Of a long value, only these patterns are known.
        if let Some(place) = self.scans.cell_sieved.get_mut(place).filter(|_| !is_long) {
            *place = found;
        }
        found
    }

    /// Which of some patterns of a sieve match in a text, and perhaps others.
    pub(super) fn sieved(
        &mut self,
        program: &Program,
        number: u16,
        view: ViewId,
        patterns: u64,
    ) -> u64 {
        let Some(sieve) = program.sieves.get(usize::from(number)) else { return sieve::ALL };
        let at = (view as usize).saturating_mul(program.sieves.len()) + usize::from(number);
        let text = self.scans.view(view).text;
        if text == transaction::UNKNOWN || self.budget.scans(text.len()) {
            return sieve::ALL;
        }
        if text.len() >= LONG_BYTES_MIN {
            return self.sieved_long(sieve, at, text, patterns);
        }
        if self.scans.sieved.len() <= at {
            self.scans.sieved.resize(at + 1, 0);
        }
        let known = self.scans.sieved.get(at).copied().unwrap_or(sieve::ALL);
        if known != 0 {
            return known;
        }
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let text = self.store.bytes(text);
        let found = KNOWN | sieve.scan(text, &mut self.scans.fuel);
        if let Some(profile) = &mut self.profile {
            profile.sieved(text.len());
        }
        if let Some(place) = self.scans.sieved.get_mut(at) {
            *place = found;
        }
        found
    }

    /// As [`Self::sieved`], of a long text, of which only the groups of these patterns are asked.
    #[inline(never)]
    fn sieved_long(&mut self, sieve: &Sieve, at: usize, text: Slice, patterns: u64) -> u64 {
        let Scans { sieved_long: long, fuel, .. } = &mut self.scans;
        if long.len() <= at {
            long.resize(at + 1, Answers::default());
        }
        let Some(answers) = long.get_mut(at) else { return sieve::ALL };
        let wanted = patterns & !answers.known;
        if wanted == 0 {
            return answers.found;
        }
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let new = sieve.scan_long(self.store.bytes(text), wanted, fuel);
        answers.known |= new.known;
        answers.found |= new.found;
        if let Some(profile) = &mut self.profile {
            profile.sieved(text.len());
        }
        answers.found
    }
}
