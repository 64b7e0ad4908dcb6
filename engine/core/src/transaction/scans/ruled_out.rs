//! Rules out members of large collections that no rule with a gate can match, so that nothing is stored for them.
//!
//! A body of JSON may have hundreds of thousands of values. To store a view of each of them for each chain of
//! transformations would take many times the memory of the body. Therefore each member after the first
//! [`Limits::kept_members_max`](crate::Limits) is tested once against the gates of all rules of the phase. A member that
//! no rule may match is only counted. For any other member, views are stored for those chains of transformations after
//! which a rule may match.
//!
//! **The law** is that of [`crate::scan`]: a member that a rule with a gate matches is never ruled out. Two kinds of
//! rules look at all members: those without a gate, and those with [`Gate::Unknown`].

use super::{LONG_BYTES_MIN, Member};
use crate::{
    id::{LaneId, RuleIndex, next_bit},
    plan::PhasePlan,
    program::{CellId, Gate, Lane, Program, Source, SourceId},
    scan::{ByteSet, sieve},
    store::{List, Slice},
    transaction::{
        Transaction,
        values::{self, Part},
    },
};

/// Entries of the cache of test results. Names repeat in lists of records.
const RECENT: usize = 256;

/// The gates of all rules of a phase that look at one source.
#[derive(Debug, Default)]
struct MemberTests {
    /// The rules that look for texts.
    texts: Vec<u64>,
    /// The other gates, by chain of transformations.
    lanes: Vec<LaneTests>,
}

#[derive(Debug)]
struct LaneTests {
    lane: LaneId,
    /// The union of the bytes that [`Gate::Bytes`] looks for.
    bytes: ByteSet,
    /// The patterns of each sieve.
    sieves: Vec<(u16, u64)>,
}

impl MemberTests {
    /// Of a source, known by its cell without a chain of transformations.
    fn new(program: &Program, plan: &PhasePlan, plain: CellId) -> Self {
        let mut tests =
            Self { texts: vec![0; program.rules.len().div_ceil(64)], lanes: Vec::new() };
        let mut at = 0;
        while let Some(found) = next_bit(plan.rules.words(), at) {
            at = found + 1;
            let index = RuleIndex::from_usize(found);
            let Some(rule) = program.rules.get(found) else { continue };
            for &id in rule.gate.cells().unwrap_or_default() {
                let Some(cell) = program.cells.get(id.get()) else { continue };
                if cell.plain == plain {
                    tests.add(index, cell.lane, &rule.gate);
                }
            }
        }
        tests
    }

    fn add(&mut self, index: RuleIndex, lane: LaneId, gate: &Gate) {
        match gate {
            Gate::Texts { .. } => {
                if let Some(word) = self.texts.get_mut(index.get() / 64) {
                    *word |= 1 << (index.get() % 64);
                }
                self.lane(lane);
            }
            Gate::Bytes { bytes, .. } => {
                let tests = self.lane(lane);
                tests.bytes = tests.bytes.union(*bytes);
            }
            Gate::Sieve { sieve, pattern, .. } => {
                add(&mut self.lane(lane).sieves, *sieve, 1 << pattern);
            }
            // They look at all members.
            Gate::Unknown { .. }
            | Gate::Open
            | Gate::Scalar { .. }
            | Gate::Number { .. }
            | Gate::Count { .. }
            | Gate::Values { .. } => {}
        }
    }

    fn lane(&mut self, lane: LaneId) -> &mut LaneTests {
        let known = self.lanes.iter().position(|tests| tests.lane == lane);
        let at = known.unwrap_or_else(|| {
            self.lanes.push(LaneTests { lane, bytes: ByteSet::EMPTY, sieves: Vec::new() });
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }
}

impl LaneTests {
    /// Whether one of its patterns is among those that were found.
    fn is_found(&self, found: &[(u16, u64)]) -> bool {
        self.sieves.iter().any(|(sieve, patterns)| {
            found.iter().any(|(other, found)| sieve == other && patterns & found != 0)
        })
    }
}

/// A direct-mapped cache: for recent texts of one source, after which chains of transformations a rule may match.
struct Recent([(Slice, Passed); RECENT]);

impl Recent {
    const fn place(text: &[u8]) -> usize {
        let mut hash = text.len();
        let mut at = 0;
        while at < text.len() {
            hash = (hash ^ text[at] as usize).wrapping_mul(0x0100_0193);
            at += 1;
        }
        (hash >> 7) % RECENT
    }
}

/// The chains of transformations after which a rule may match a member: one bit each. The last bit stands for all chains
/// from number 63 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed(u64);

impl Passed {
    /// Any chain.
    pub(super) const ALL: Self = Self(u64::MAX);

    const NONE: Self = Self(0);

    const fn bit(lane: LaneId) -> u64 {
        1 << if lane.get() < 63 { lane.get() } else { 63 }
    }

    const fn add(&mut self, lane: LaneId) {
        self.0 |= Self::bit(lane);
    }

    pub(super) const fn has(self, lane: LaneId) -> bool {
        self.0 & Self::bit(lane) != 0
    }
}

impl Transaction {
    /// Whether a source has so many members that some may be ruled out.
    pub(super) fn is_large(&self, program: &Program, source: &Source) -> bool {
        let lists = values::lists(source.variable).map_or(&[][..], |(lists, _)| lists);
        lists.iter().any(|&list| self.store.list(list).len() > program.limits.kept_members_max)
    }

    /// Whether members of a cell's source are ruled out.
    #[inline]
    pub(super) fn rules_out(&self, program: &Program, id: CellId) -> bool {
        if !self.store.is_large() {
            return false;
        }
        let source = program.cells.get(id.get()).map(|cell| usize::from(cell.source.0));
        let count = source.and_then(|source| self.scans.ruled_out.get(source));
        count.is_some_and(|&count| count > 0)
    }

    /// Takes the members of a source, if it is a large one, without those that are ruled out. It comes before all that
    /// looks at the source in this phase.
    #[inline(never)]
    pub(super) fn enter_large_source(
        &mut self,
        program: &Program,
        plan: &PhasePlan,
        plain: CellId,
    ) {
        let Some(cell) = program.cells.get(plain.get()) else { return };
        let SourceId(at) = cell.source;
        let Some(source) = program.sources.get(usize::from(at)) else { return };
        let is_known = self.scans.sources.get(usize::from(at)).is_none_or(Option::is_some);
        if is_known || !self.is_large(program, source) {
            return;
        }
        let Some((lists, part)) = values::lists(source.variable) else { return };
        let tests = MemberTests::new(program, plan, plain);
        let mut recent = Recent([(Slice::EMPTY, Passed::NONE); RECENT]);
        let first = self.scans.members.len();
        let mut ruled_out = 0;
        for &list in lists {
            ruled_out += self.add_members_of(program, source, list, part, &tests, &mut recent);
        }
        let range = (first, self.scans.members.len());
        if let Some(place) = self.scans.sources.get_mut(usize::from(at)) {
            *place = Some(range);
        }
        if let Some(place) = self.scans.ruled_out.get_mut(usize::from(at)) {
            *place = ruled_out;
        }
    }

    /// Gives the number of members that are ruled out.
    fn add_members_of(
        &mut self,
        program: &Program,
        source: &Source,
        list: List,
        part: Part,
        tests: &MemberTests,
        recent: &mut Recent,
    ) -> usize {
        let (mut at, mut ruled_out) = (0, 0);
        while let Some(&pair) = self.store.list(list).get(at) {
            at += 1;
            let meter = self.budget.meter();
            if !values::selected(&source.select, self.store.bytes(pair.name), meter) {
                continue;
            }
            let (text, id) = part.of(&pair);
            let (id, passed) = match id {
                Some(id) => (id, Passed::ALL),
                None => match self.passed(program, tests, recent, text) {
                    Passed::NONE => {
                        ruled_out += 1;
                        continue;
                    }
                    passed => (self.store.next_id(), passed),
                },
            };
            self.scans.members.push(Member { name: pair.name, text, id, passed });
        }
        ruled_out
    }

    /// The chains of transformations after which a rule with a gate may match a text, from the cache if it is there.
    fn passed(
        &mut self,
        program: &Program,
        tests: &MemberTests,
        recent: &mut Recent,
        text: Slice,
    ) -> Passed {
        // A body has few long values, and the prefilter has faster tests for them.
        if text.len() >= LONG_BYTES_MIN || self.budget.scans(text.len()) {
            return Passed::ALL;
        }
        let bytes = self.store.bytes(text);
        let place = recent.0.get_mut(Recent::place(bytes));
        if let Some(&mut (known, passed)) = place
            && text.len() != 0
            && self.store.bytes(known) == bytes
        {
            return passed;
        }
        let before = self.budget;
        let passed = self.ask_gates(program, tests, text);
        // Not charged, like scans: the work is bounded by the bytes of the request, and each chain checks the deadline.
        self.budget.take_back(before);
        let bytes = self.store.bytes(text);
        if let Some(place) = recent.0.get_mut(Recent::place(bytes)) {
            *place = (text, passed);
        }
        passed
    }

    /// As [`Self::passed`], without the cache.
    fn ask_gates(&mut self, program: &Program, tests: &MemberTests, text: Slice) -> Passed {
        let mut passed = Passed::NONE;
        let is_named = self.names_any(program, None, text, tests);
        if is_named {
            passed.add(LaneId::NONE);
        }
        let bytes = ByteSet::of(self.store.bytes(text)).folded();
        let changing = |of_lane: &LaneTests| {
            let lane = program.lanes.get(of_lane.lane.get());
            lane.filter(|lane| {
                let is_triggered = text.len() == 0 || bytes.intersects(lane.triggers);
                is_triggered && of_lane.lane != LaneId::NONE
            })
        };
        // Chains that do not change the text share one run of each sieve over it.
        let mut sieved = core::mem::take(&mut self.scans.asked_sieves);
        sieved.clear();
        for of_lane in tests.lanes.iter().filter(|of_lane| changing(of_lane).is_none()) {
            of_lane.sieves.iter().for_each(|&(sieve, patterns)| add(&mut sieved, sieve, patterns));
        }
        for (sieve, patterns) in &mut sieved {
            *patterns &= self.sieve_finds(program, *sieve, *patterns, text);
        }
        for of_lane in &tests.lanes {
            let may_match = match changing(of_lane) {
                Some(lane) => {
                    self.may_match_changed(program, tests, of_lane, lane, text, (bytes, is_named))
                }
                None => bytes.intersects(of_lane.bytes) || of_lane.is_found(&sieved),
            };
            if may_match {
                passed.add(of_lane.lane);
            }
        }
        self.scans.asked_sieves = sieved;
        passed
    }

    /// Whether a rule may match what its chain of transformations makes of a text.
    fn may_match_changed(
        &mut self,
        program: &Program,
        tests: &MemberTests,
        of_lane: &LaneTests,
        lane: &Lane,
        text: Slice,
        (bytes, is_named): (ByteSet, bool),
    ) -> bool {
        if self.budget.scans(text.len()) {
            return true;
        }
        // Of an empty text, a chain may make anything.
        let bytes = if text.len() == 0 { ByteSet::ALL } else { bytes };
        let mut stages = core::mem::take(&mut self.scratch.stages);
        if lane.each_stage {
            self.stages(program, of_lane.lane, lane, text, bytes, &mut stages);
        } else {
            stages.clear();
            stages.push(self.transform(program, of_lane.lane, text, bytes, None));
        }
        let may_match = stages.iter().any(|&stage| {
            self.has_bytes(stage, of_lane.bytes)
                || match stage == text {
                    true => is_named,
                    false => self.names_any(program, Some(of_lane.lane), stage, tests),
                }
                || self.sieves_find(program, &of_lane.sieves, stage)
        });
        self.scratch.stages = stages;
        // No rule is being run: the stages were all there is.
        self.store.clear_temporary();
        may_match
    }

    /// Whether one of the texts that rules look for is in a text.
    fn names_any(
        &mut self,
        program: &Program,
        changed_by: Option<LaneId>,
        text: Slice,
        tests: &MemberTests,
    ) -> bool {
        if !self.scan(program, changed_by, text) {
            return false;
        }
        let row = &mut self.scans.row;
        let named = row.iter().zip(&tests.texts).any(|(named, texts)| named & texts != 0);
        row.fill(0);
        named
    }

    /// Whether one of these bytes is in a text, in one case or the other.
    fn has_bytes(&self, text: Slice, bytes: ByteSet) -> bool {
        bytes != ByteSet::EMPTY && ByteSet::of(self.store.bytes(text)).folded().intersects(bytes)
    }

    /// Whether one of the patterns is in a text.
    fn sieves_find(&mut self, program: &Program, sieves: &[(u16, u64)], text: Slice) -> bool {
        sieves.iter().any(|&(sieve, patterns)| {
            self.sieve_finds(program, sieve, patterns, text) & patterns != 0
        })
    }

    /// The patterns of a sieve that are in a text, and perhaps others.
    fn sieve_finds(&mut self, program: &Program, number: u16, patterns: u64, text: Slice) -> u64 {
        let Some(sieve) = program.sieves.get(usize::from(number)) else { return sieve::ALL };
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let value = self.store.bytes(text);
        let answers = sieve.scan_long(value, patterns, &mut self.scans.fuel);
        if let Some(profile) = &mut self.profile {
            profile.sieved(text.len());
        }
        answers.found
    }
}

/// Adds patterns to those of a sieve.
fn add(sieves: &mut Vec<(u16, u64)>, sieve: u16, patterns: u64) {
    match sieves.iter_mut().find(|(known, _)| *known == sieve) {
        Some((_, known)) => *known |= patterns,
        None => sieves.push((sieve, patterns)),
    }
}
