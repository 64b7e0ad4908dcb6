//! What evaluation costs, for those who write rules: counts for each rule, lane and phase, and times by a
//! clock of the host's.
//!
//! It is kept only where it is asked for ([`Transaction::with_profile`]), over as many transactions as are
//! started, and changes no verdict. It holds a few numbers for each rule and lane of the program, whatever
//! the requests are.
//!
//! Work whose result is shared (what a lane makes of a value, a scan, a sieve) is done once, for the rule
//! that asks first, and charged to it; how much of a rule's time that was is kept beside it.

use super::{
    Transaction,
    trace::{TracedRule, traced_rule},
};
use crate::{
    id::{LaneId, Phase, RuleIndex},
    program::{GateKind, Program, Rule},
};

/// What evaluation has cost since [`Transaction::with_profile`]. Times are in nanoseconds of the clock that
/// was given.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Transactions that were started.
    pub transactions: u64,
    /// Those of them in which no rule was named that looks for texts, bytes or patterns.
    pub unnamed_transactions: u64,
    /// By phase, 1 to 5.
    pub phases: [PhaseCost; 5],
    rules: Vec<RuleCost>,
    lanes: Vec<LaneCost>,
    clock: fn() -> u64,
    /// The phase that is being evaluated.
    phase: usize,
    /// When the rule before ended, or the naming of the phase's rules.
    mark: u64,
    /// When work for more than one rule began; none of it contains another.
    shared_mark: u64,
    /// Whether a rule was named in this transaction.
    any_named: bool,
    /// Whether the rule that is being run has been given a text.
    tested: bool,
    /// Time of shared work for the rule that is being evaluated.
    shared_ns: u64,
}

/// What a rule has cost, or a link of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCost {
    /// How often it was its turn: the scan of the phase's values had not left it out, and no rule before it
    /// had skipped it or removed it. 0 for links.
    pub visited: u64,
    /// How often its gate, where there is one, said that it may match. 0 for links.
    pub named: u64,
    /// How often it was run on at least one value. A rule whose gate is the answer, and that does nothing
    /// but skip others, is not run.
    pub run: u64,
    /// How often it matched; the links behind it may not have.
    pub matched: u64,
    /// Texts given to its operator: its values as its transformations leave them, and with `multiMatch`
    /// each stage.
    pub values: u64,
    /// Bytes in those texts.
    pub bytes: u64,
    /// Time of its gate and of itself, with the whole chain. 0 for links.
    pub time_ns: u64,
    /// How much of that was work whose result other rules use too.
    pub shared_ns: u64,
}

/// What a lane has cost. All of it is part of the time of rules, as shared work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCost {
    /// Values that were run through it.
    pub values: u64,
    /// Bytes in those values.
    pub bytes: u64,
    /// How many of them it changed.
    pub changed: u64,
    /// The time that took.
    pub time_ns: u64,
}

/// What was done in a phase for more than one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCost {
    /// How often it was evaluated.
    pub evaluated: u64,
    /// The time beforehand, in which values are scanned and rules named. It is part of no rule's time.
    pub naming_ns: u64,
    /// Scans for the texts that rules need: of values as they are beforehand, of values that a lane has
    /// changed when a rule asks for them.
    pub index: ScanCost,
    /// Scans for patterns that need no text, when a rule asks for them.
    pub sieves: ScanCost,
}

/// What scans have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCost {
    /// Texts that were scanned.
    pub texts: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The time that took.
    pub time_ns: u64,
}

/// A rule, or a link of a chain, and what it has cost.
#[derive(Clone, Debug)]
pub struct ProfiledRule<'t> {
    /// Which it is.
    pub rule: TracedRule<'t>,
    /// What is asked before it is run; `None` for links.
    pub gate: Option<GateKind>,
    /// Whether it was evaluated when rules were loaded.
    pub folded: bool,
    /// What it has cost.
    pub cost: RuleCost,
}

/// A chain of transformations that rules apply, and what it has cost.
#[derive(Clone, Debug)]
pub struct ProfiledLane {
    /// Names of the transformations, in order.
    pub transformations: Vec<&'static str>,
    /// Whether rules look at each stage (`multiMatch`), not at the last alone.
    pub each_stage: bool,
    /// Rules, and links, that apply it.
    pub rules: usize,
    /// What it has cost.
    pub cost: LaneCost,
}

impl ScanCost {
    fn add(&mut self, bytes: usize, time_ns: u64) {
        self.texts += 1;
        self.bytes += bytes as u64;
        self.time_ns += time_ns;
    }
}

impl Profile {
    fn new(program: &Program, clock: fn() -> u64) -> Self {
        Self {
            transactions: 0,
            unnamed_transactions: 0,
            phases: Default::default(),
            rules: vec![RuleCost::default(); program.rules.len()],
            lanes: vec![LaneCost::default(); program.lanes.len()],
            clock,
            phase: 0,
            mark: 0,
            shared_mark: 0,
            // A transaction that has begun before is not counted.
            any_named: true,
            tested: false,
            shared_ns: 0,
        }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.transactions += 1;
        self.unnamed_transactions += 1;
        self.any_named = false;
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// The time since it was last asked.
    fn since_mark(&mut self) -> u64 {
        let now = self.now();
        now.saturating_sub(core::mem::replace(&mut self.mark, now))
    }

    /// Work for more than one rule begins.
    #[cold]
    pub(super) fn begin_shared(&mut self) {
        self.shared_mark = self.now();
    }

    /// The time that it took.
    fn since_shared(&mut self) -> u64 {
        let time = self.now().saturating_sub(self.shared_mark);
        self.shared_ns += time;
        time
    }

    /// A text was given to a rule's operator.
    #[cold]
    pub(super) fn tested(&mut self, rule: RuleIndex, bytes: usize) {
        self.tested = true;
        if let Some(cost) = self.rules.get_mut(rule.get()) {
            cost.values += 1;
            cost.bytes += bytes as u64;
        }
    }

    /// A rule or a link has run.
    #[cold]
    pub(super) fn ran(&mut self, rule: RuleIndex, matched: bool) {
        // One without an operator has matched.
        let run = core::mem::take(&mut self.tested) || matched;
        if let Some(cost) = self.rules.get_mut(rule.get()) {
            cost.run += u64::from(run);
            cost.matched += u64::from(matched);
        }
    }

    /// A value has gone through a lane.
    #[cold]
    pub(super) fn transformed(&mut self, lane: LaneId, bytes: usize, changed: bool) {
        let time = self.since_shared();
        if let Some(cost) = self.lanes.get_mut(lane.get()) {
            cost.values += 1;
            cost.bytes += bytes as u64;
            cost.changed += u64::from(changed);
            cost.time_ns += time;
        }
    }

    fn scanned(&mut self, bytes: usize, which: fn(&mut PhaseCost) -> &mut ScanCost) {
        let time = self.since_shared();
        if let Some(phase) = self.phases.get_mut(self.phase) {
            which(phase).add(bytes, time);
        }
    }

    /// A text was scanned for the texts that rules need.
    #[cold]
    pub(super) fn indexed(&mut self, bytes: usize) {
        self.scanned(bytes, |phase| &mut phase.index);
    }

    /// A text was scanned for the patterns of a sieve.
    #[cold]
    pub(super) fn sieved(&mut self, bytes: usize) {
        self.scanned(bytes, |phase| &mut phase.sieves);
    }

    /// A phase begins.
    #[cold]
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase.index();
        self.mark = self.now();
    }

    /// The rules of the phase that may match are named.
    #[cold]
    pub(super) fn named(&mut self) {
        let time = self.since_mark();
        self.shared_ns = 0;
        if let Some(phase) = self.phases.get_mut(self.phase) {
            phase.evaluated += 1;
            phase.naming_ns += time;
        }
    }

    /// It was a rule's turn. `answered`: its gate was the answer.
    #[cold]
    pub(super) fn visited(&mut self, index: RuleIndex, rule: &Rule, named: bool, answered: bool) {
        let time = self.since_mark();
        let shared = core::mem::take(&mut self.shared_ns);
        if let Some(cost) = self.rules.get_mut(index.get()) {
            cost.visited += 1;
            cost.named += u64::from(named);
            cost.matched += u64::from(answered);
            cost.time_ns += time;
            cost.shared_ns += shared;
        }
        let looks = GateKind::of(rule).can_say_no() && rule.gate.cells().is_some();
        if named && looks && !core::mem::replace(&mut self.any_named, true) {
            self.unnamed_transactions -= 1;
        }
    }
}

impl Transaction {
    /// Has what evaluation costs counted from now on, over all transactions that are started, for
    /// [`Self::profile`]. `clock` gives nanoseconds since some time; one that always gives 0 leaves out the
    /// times.
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRule ARGS "@contains union" "id:1,phase:1,pass,t:lowercase""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// let mut transaction = Transaction::new(Arc::new(program)).with_profile(|| 0);
    /// for uri in ["/?q=union", "/?q=tea"] {
    ///     transaction.start(&start);
    ///     transaction.request_line(b"GET", uri.as_bytes(), b"HTTP/1.1");
    ///     transaction.evaluate_request_headers();
    /// }
    /// let profile = transaction.profile().expect("it keeps one");
    /// assert_eq!((profile.transactions, profile.unnamed_transactions), (2, 1));
    /// // The scan has left the rule out for the second request: nothing of it was run.
    /// let rule = transaction.profiled_rules().next().expect("there is a rule");
    /// assert_eq!((rule.cost.run, rule.cost.matched), (1, 1));
    /// let lane = transaction.profiled_lanes().next().expect("it transforms");
    /// assert_eq!(lane.transformations, ["lowercase"]);
    /// ```
    #[must_use]
    pub fn with_profile(mut self, clock: fn() -> u64) -> Self {
        self.profile = Some(Box::new(Profile::new(&self.program, clock)));
        self
    }

    /// Counts no more, and forgets what was counted.
    pub fn without_profile(&mut self) {
        self.profile = None;
    }

    /// What evaluation has cost so far; `None` without [`Self::with_profile`].
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// What each rule and each link has cost so far, in the order written. Empty without
    /// [`Self::with_profile`].
    pub fn profiled_rules(&self) -> impl Iterator<Item = ProfiledRule<'_>> {
        let costs = self.profile.as_ref().map_or(&[][..], |profile| &profile.rules);
        self.program.rules.iter().zip(costs).enumerate().map(|(index, (rule, &cost))| {
            let index = RuleIndex::from_usize(index);
            let traced = traced_rule(&self.program, index, rule);
            let starts = traced.link == 0;
            let folded = starts && self.program.is_folded(index, rule.phase);
            let gate = starts.then(|| GateKind::of(rule));
            ProfiledRule { rule: traced, gate, folded, cost }
        })
    }

    /// What each chain of transformations has cost so far; the empty one is left out. Empty without
    /// [`Self::with_profile`].
    pub fn profiled_lanes(&self) -> impl Iterator<Item = ProfiledLane> + '_ {
        let costs = self.profile.as_ref().map_or(&[][..], |profile| &profile.lanes);
        let rules = |lane: usize| {
            self.program.rules.iter().filter(move |rule| rule.lane.get() == lane).count()
        };
        let lanes = self.program.lanes.iter().zip(costs).enumerate();
        lanes.skip(1).map(move |(at, (lane, &cost))| ProfiledLane {
            transformations: lane.steps.iter().map(|step| step.transformation.name()).collect(),
            each_stage: lane.each_stage,
            rules: rules(at),
            cost,
        })
    }

    /// It was a rule's turn.
    #[cold]
    pub(super) fn profile_visit(&mut self, program: &Program, index: RuleIndex, named: bool) {
        let Some(rule) = program.rules.get(index.get()) else { return };
        let answered = named && self.is_answered(program, index, rule);
        if let Some(profile) = &mut self.profile {
            profile.visited(index, rule, named, answered);
        }
    }
}
