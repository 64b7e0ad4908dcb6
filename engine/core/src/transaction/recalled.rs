//! Texts that came before: see [`crate::recall`].

use super::{Transaction, scans::known_bytes};
use crate::{
    compile::Unseen,
    expand::{Expression, Segment},
    id::{LaneId, Phase},
    operator::Capture,
    program::{Gate, Program, Rule, Select},
    recall::{Answer, LEARNED_MAX, Recall, TEXT_BYTES_MAX, Table, is_common_header},
    scan::ByteSet,
    store::{List, Slice, ValueId},
    transaction::values::{Part, selects},
    variable::Variable,
};

impl Transaction {
    /// Looks up what is known of this request's texts.
    pub(super) fn recall(&mut self, program: &Program, phase: Phase) {
        // Where rules are profiled, each is to cost what it costs; where they are traced, each is to be seen.
        let is_watched = self.profile.is_some() || self.trace.is_some();
        let Some(recall) = program.recall.as_ref().filter(|_| !is_watched) else {
            return;
        };
        if phase > Phase::RequestBody {
            return;
        }
        let mut table = recall.table();
        for variable in [Variable::RequestMethod, Variable::RequestProtocol] {
            let (text, id) = (self.scalar(variable), ValueId(variable as u32));
            self.recall_text(program, recall, &mut table, text, id);
        }
        for list in [List::RequestHeaders, List::ArgsGet, List::ArgsPost, List::Cookies] {
            let mut at = 0;
            while let Some(&pair) = self.store.list(list).get(at) {
                at += 1;
                let (name, id) = Part::Name.of(&pair);
                self.recall_text(program, recall, &mut table, name, id);
                if list == List::RequestHeaders && is_common_header(self.store.bytes(name)) {
                    let (value, id) = Part::Value.of(&pair);
                    self.recall_text(program, recall, &mut table, value, id);
                }
            }
        }
    }

    fn recall_text(
        &mut self,
        program: &Program,
        recall: &Recall,
        table: &mut Table,
        text: Slice,
        id: ValueId,
    ) {
        if text.len() > TEXT_BYTES_MAX || self.scans.knows(id) {
            return;
        }
        match table.look_up(self.store.bytes(text)) {
            Answer::Known(bytes, rules) => self.scans.add_recalled(id, text, bytes, rules),
            Answer::Seen if self.learned < LEARNED_MAX => {
                self.learned += 1;
                let rules = self.learn(program, recall, text);
                let bytes = known_bytes(self.store.bytes(text));
                table.keep(self.store.bytes(text), bytes, &rules);
                self.scans.add_recalled(id, text, bytes, &rules);
            }
            Answer::Seen | Answer::New => {}
        }
    }

    /// The rules that may match a text, as bits. What it takes is bounded by the length of the text and not
    /// charged, so that what a request may do does not depend on those before it.
    fn learn(&mut self, program: &Program, recall: &Recall, text: Slice) -> Box<[u64]> {
        let (budget, flags) = (self.budget, self.flags);
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
                let unseen = recall.unseen.chains.iter().find(|chain| chain.rule == index);
                let matches = match unseen {
                    Some(chain) if may => {
                        self.is_seen(program, rule, chain, &recall.unseen.observers, &stages)
                    }
                    _ => may && (!recall.exact.contains(index) || self.matches_one(rule, &stages)),
                };
                if matches && let Some(word) = found.get_mut(word) {
                    *word |= bit;
                }
            }
            self.store.clear_temporary();
        }
        self.scratch.stages = stages;
        self.budget = budget;
        self.flags = flags;
        found.into()
    }

    /// What rules of a lane see of a text.
    fn lane_stages(&mut self, program: &Program, id: LaneId, text: Slice, stages: &mut Vec<Slice>) {
        let all = ByteSet::ALL;
        match program.lanes.get(id.get()) {
            Some(lane) if lane.each_stage => self.stages(program, id, lane, text, all, stages),
            _ => {
                stages.clear();
                stages.push(self.transform(program, id, text, all, false));
            }
        }
    }

    /// Whether a chain that looks at one of these texts is completed by it, or leaves something that others
    /// look at.
    fn is_seen(
        &self,
        program: &Program,
        rule: &Rule,
        chain: &Unseen,
        observers: &[Select],
        stages: &[Slice],
    ) -> bool {
        let Some(operator) = &rule.operator else { return true };
        let parameter = operator.parameter().and_then(|text| text.literal()).unwrap_or_default();
        let mut capture = Capture::default();
        stages.iter().any(|&stage| {
            let stage = self.store.bytes(stage);
            if !operator.matches(stage, parameter, true, &mut capture) {
                return capture.gave_up;
            }
            let write = |text: &Expression| expanded(program, text, stage, &capture);
            let (mut name, value) = (write(&chain.name), write(&chain.value));
            name.make_ascii_lowercase();
            name.len().max(value.len()) > program.limits.expansion_bytes_max
                || chain.test.holds(&value, &chain.parameter) != chain.negated
                || observers.iter().any(|select| selects(select, &name))
        })
    }

    /// Whether a rule matches one of these texts, or gives up.
    fn matches_one(&mut self, rule: &Rule, stages: &[Slice]) -> bool {
        let Some(operator) = &rule.operator else { return true };
        let parameter = operator.parameter().and_then(|text| text.literal()).unwrap_or_default();
        let mut capture = Capture::default();
        stages.iter().any(|&stage| {
            let stage = self.store.bytes(stage);
            operator.matches(stage, parameter, false, &mut capture) != rule.negated
                || capture.gave_up
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
