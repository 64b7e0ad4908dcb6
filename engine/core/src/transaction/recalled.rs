//! Texts that came before: see [`crate::recall`].

use super::{Transaction, budget::Budget, scans::known_bytes};
use crate::{
    compile::Unseen,
    expand::{Expression, Segment},
    id::{LaneId, Phase, RuleIndex},
    operator::Capture,
    pattern::Found,
    program::{Gate, Program, Rule},
    recall::{Answer, LEARNED_MAX, Recall, TEXT_BYTES_MAX, Table, is_common_header},
    scan::ByteSet,
    store::{List, Slice, ValueId},
    transaction::values::{Part, selected},
    variable::Variable,
};

/// A set of values.
#[derive(Debug, Default)]
pub(super) struct MetTexts(Vec<u64>);

impl MetTexts {
    pub(super) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(WORDS_KEPT);
    }

    pub(super) fn contains(&self, id: Option<ValueId>) -> bool {
        let Some(ValueId(id)) = id else { return false };
        self.0.get(id as usize / 64).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// Adds a value. Says whether it is new.
    fn insert(&mut self, ValueId(id): ValueId) -> bool {
        let at = id as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let Some(word) = self.0.get_mut(at) else { return false };
        let before = *word;
        *word |= 1 << (id % 64);
        *word != before
    }

    pub(super) fn remove(&mut self, ValueId(id): ValueId) {
        if let Some(word) = self.0.get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
        }
    }
}

/// Words of [`MetTexts`] that a reused transaction keeps: those of some thousand values.
const WORDS_KEPT: usize = 64;

impl Transaction {
    /// Looks up what is known of this request's texts, and pays for each of them.
    ///
    /// The price is the same whether something is known or not, and no rule, no transformation and no place among
    /// the views is charged for such a text later: what a request may do does not depend on those before it.
    pub(super) fn meet_texts(&mut self, program: &Program, phase: Phase) {
        if phase > Phase::RequestBody || program.known_text_steps == 0 {
            return;
        }
        // Where rules are profiled, each is to cost what it costs; where they are traced, each is to be seen. What
        // is known of chains that leave nothing behind goes by the constants.
        let is_watched = self.profile.is_some() || self.trace.is_some();
        let recalls = !is_watched && self.constants_hold(program);
        let recall = program.recall.as_ref().filter(|_| recalls);
        let mut table = recall.map(Recall::table);
        let mut table = table.as_deref_mut();
        for variable in [Variable::RequestMethod, Variable::RequestProtocol] {
            let (text, id) = (self.scalar(variable), ValueId(variable as u32));
            self.meet_text(program, table.as_deref_mut(), text, id);
        }
        for list in [List::RequestHeaders, List::ArgsGet, List::ArgsPost, List::Cookies] {
            let mut at = 0;
            while let Some(&pair) = self.store.list(list).get(at) {
                at += 1;
                // Behind the first members of a large collection nothing is recalled.
                let (name, Some(id)) = Part::Name.of(&pair) else { break };
                self.meet_text(program, table.as_deref_mut(), name, id);
                let (value, id) = Part::Value.of(&pair);
                if let Some(id) = id
                    && list == List::RequestHeaders
                    && is_common_header(self.store.bytes(name))
                {
                    self.meet_text(program, table.as_deref_mut(), value, id);
                }
            }
        }
    }

    fn meet_text(
        &mut self,
        program: &Program,
        table: Option<&mut Table>,
        text: Slice,
        id: ValueId,
    ) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.met.insert(id) {
            self.budget.charge_steps(program.known_text_steps);
        }
        let (Some(table), Some(recall)) = (table, &program.recall) else { return };
        if self.scans.knows(id) {
            return;
        }
        match table.look_up(self.store.bytes(text)) {
            Answer::Known(bytes, rules) => self.scans.add_recalled(id, text, bytes, rules),
            Answer::Seen if self.learned < LEARNED_MAX => {
                self.learned += 1;
                let before = self.flags;
                let rules = self.learn(program, recall, text);
                // What a limit has cut is found out each time, so that it is flagged each time.
                if core::mem::replace(&mut self.flags, before) != before {
                    return;
                }
                let bytes = known_bytes(self.store.bytes(text));
                table.keep(self.store.bytes(text), bytes, &rules);
                self.scans.add_recalled(id, text, bytes, &rules);
            }
            Answer::Seen | Answer::New => {}
        }
    }

    /// Takes back what was charged since `before` for a text that is paid for.
    pub(super) fn pay_once(&mut self, before: Budget, id: Option<ValueId>) {
        if self.met.contains(id) {
            self.budget.take_back(before);
        }
    }

    /// Whether the chain that a rule starts would neither be completed nor leave anything behind that another rule
    /// sees: see [`crate::compile::UnseenChains`]. Not asked where each match is to be seen.
    pub(super) fn leaves_nothing(&mut self, program: &Program, index: RuleIndex) -> bool {
        if !program.runs_whole(index) || self.records_all() || !self.constants_hold(program) {
            return false;
        }
        let Some(chain) = program.unseen.chain(index) else { return false };
        let Some(rule) = program.rules.get(index.get()) else { return false };
        self.scratch.values.clear();
        rule.targets.iter().for_each(|target| self.collect(program, target));
        let values = core::mem::take(&mut self.scratch.values);
        let mut stages = core::mem::take(&mut self.scratch.stages);
        let is_seen = values.iter().any(|value| match self.scans.recalled(value.id, index) {
            Some(is_seen) => is_seen,
            None => {
                let before = self.budget;
                self.lane_stages(program, rule.lane, value.value, &mut stages);
                self.budget.charge(value.value.len());
                self.pay_once(before, value.id);
                self.is_seen(program, rule, chain, &stages)
            }
        });
        self.scratch.stages = stages;
        self.scratch.values = values;
        self.store.clear_temporary();
        !is_seen
    }

    /// The rules that may match a text, as bits. What it takes is bounded by the length of the text and paid for.
    fn learn(&mut self, program: &Program, recall: &Recall, text: Slice) -> Box<[u64]> {
        let budget = self.budget;
        let mut found = vec![0; program.rules.len().div_ceil(64)];
        let mut stages = core::mem::take(&mut self.scratch.stages);
        let mut named = vec![0; found.len()];
        for (id, rules) in &recall.lanes {
            self.lane_stages(program, *id, text, &mut stages);
            named.fill(0);
            let mut bytes = ByteSet::EMPTY;
            for &stage in &stages {
                let stage = self.store.bytes(stage);
                program.index.scan(stage, &mut named);
                bytes = bytes.union(known_bytes(stage));
            }
            for &index in rules {
                let Some(rule) = program.rules.get(index.get()) else { continue };
                let word = index.get() / 64;
                let bit = 1 << (index.get() % 64);
                let may = match &rule.gate {
                    Gate::Texts { .. } => named.get(word).is_none_or(|named| named & bit != 0),
                    Gate::Bytes { bytes: needed, .. } => bytes.intersects(*needed),
                    _ => true,
                };
                let matches = match program.unseen.chain(index) {
                    Some(chain) if may => self.is_seen(program, rule, chain, &stages),
                    _ => may && (!recall.exact.contains(index) || self.matches_one(rule, &stages)),
                };
                if matches && let Some(word) = found.get_mut(word) {
                    *word |= bit;
                }
            }
            self.store.clear_temporary();
        }
        self.scratch.stages = stages;
        self.budget.forget_since(budget);
        found.into()
    }

    /// What rules of a lane see of a text.
    fn lane_stages(&mut self, program: &Program, id: LaneId, text: Slice, stages: &mut Vec<Slice>) {
        let all = ByteSet::ALL;
        match program.lanes.get(id.get()) {
            Some(lane) if lane.each_stage => self.stages(program, id, lane, text, all, stages),
            _ => {
                stages.clear();
                stages.push(self.transform(program, id, text, all, None));
            }
        }
    }

    /// Whether a chain that looks at one of these texts is completed by it, or leaves something that others
    /// look at.
    fn is_seen(
        &mut self,
        program: &Program,
        rule: &Rule,
        chain: &Unseen,
        stages: &[Slice],
    ) -> bool {
        let Some(operator) = &rule.operator else { return true };
        let parameter = operator.parameter().and_then(|text| text.literal()).unwrap_or_default();
        let mut capture = Capture::default();
        stages.iter().any(|&stage| {
            let stage = self.store.bytes(stage);
            let meter = self.budget.meter();
            match operator.matches(stage, parameter, true, &mut capture, meter) {
                Found::Yes => {}
                Found::No => return false,
                Found::GaveUp => return true,
            }
            let write = |text: &Expression| expanded(program, text, stage, &capture);
            let (mut name, value) = (write(&chain.name), write(&chain.value));
            name.make_ascii_lowercase();
            name.len().max(value.len()) > program.limits.expansion_bytes_max
                || chain.test.holds(&value, &chain.parameter) != chain.negated
                || program.unseen.observers.iter().any(|select| selected(select, &name, meter))
        })
    }

    /// Whether a rule matches one of these texts, or gives up.
    fn matches_one(&mut self, rule: &Rule, stages: &[Slice]) -> bool {
        let Some(operator) = &rule.operator else { return true };
        let parameter = operator.parameter().and_then(|text| text.literal()).unwrap_or_default();
        let mut capture = Capture::default();
        stages.iter().any(|&stage| {
            let stage = self.store.bytes(stage);
            let meter = self.budget.meter();
            match operator.matches(stage, parameter, false, &mut capture, meter) {
                Found::Yes => !rule.negated,
                Found::No => rule.negated,
                Found::GaveUp => true,
            }
        })
    }
}

/// A text with what was captured.
fn expanded(program: &Program, text: &Expression, value: &[u8], capture: &Capture) -> Vec<u8> {
    let mut out = Vec::new();
    for segment in text.segments() {
        match segment {
            Segment::Literal(text) => out.extend_from_slice(text),
            Segment::Tx(slot) => {
                let group = program.captures.iter().position(|capture| capture == slot);
                out.extend_from_slice(group.map_or(&[], |group| captured(group, value, capture)));
            }
            Segment::Scalar(_) | Segment::Member(..) => {}
        }
    }
    out
}

/// What a group has captured.
fn captured<'v>(group: usize, value: &'v [u8], capture: &'v Capture) -> &'v [u8] {
    if group == 0 && !capture.text.is_empty() {
        return &capture.text;
    }
    let range = capture.groups.get(group).copied().flatten();
    range.and_then(|(start, end)| value.get(start..end)).unwrap_or_default()
}
