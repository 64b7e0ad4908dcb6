//! `glacis profile`: what each rule costs over a file of requests.
//!
//! The engine counts, and takes times by the clock that it is given: CPU time of this thread, since what
//! else the machine does would be most of what is seen. To ask for that costs more than a rule that does
//! not match, so what asking costs is measured, and taken off.

mod table;

use std::{
    cmp::Reverse,
    io::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use glacis_engine::{
    GateKind, LaneCost, Phase, PhaseCost, ProfiledLane, ProfiledRule, RuleCost, ScanCost,
    Transaction,
};
use serde::Serialize;

use crate::{
    arguments::ProfileOptions,
    bench::{self, Case, cpu_time},
    inspect::inspect,
    output::{self, Fault, Outcome},
    progress, ruleset,
};

/// Rules, and lanes, in the table when no number is asked for.
const TOP: usize = 20;

/// All that is known. Counts and times are sums over all requests and passes; times are in nanoseconds,
/// and left out when none were taken.
#[derive(Debug, Serialize)]
struct Report {
    requests: usize,
    passes: usize,
    /// Requests, over all passes, in which no rule was named that looks for texts, bytes or patterns.
    unnamed_requests: u64,
    /// Of whole requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    /// Of all rules, with what they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_ns: Option<u64>,
    phases: Vec<PhaseRow>,
    /// Rules that were visited, those that cost most first.
    rules: Vec<RuleRow>,
    /// How many those are, and how many lanes, before they were cut to the number asked for.
    rules_visited: usize,
    lanes: Vec<LaneRow>,
    lanes_used: usize,
}

#[derive(Debug, Serialize)]
struct PhaseRow {
    phase: u8,
    evaluated: u64,
    /// Rules of the phase; links of chains do not count.
    rules: usize,
    /// Those that were evaluated when rules were loaded.
    folded: usize,
    /// Ids of the others that have a gate, which named them for no request.
    never_named: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    naming_ns: Option<u64>,
    index: ScanRow,
    sieves: ScanRow,
}

#[derive(Debug, Serialize)]
struct ScanRow {
    texts: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RuleRow {
    id: u32,
    phase: u8,
    file: String,
    line: u32,
    gate: &'static str,
    visited: u64,
    named: u64,
    #[serde(flatten)]
    own: OwnCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_ns: Option<u64>,
    /// The other rules of its chain, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<OwnCost>,
}

/// What rules and links have in common.
#[derive(Debug, Serialize)]
struct OwnCost {
    operator: &'static str,
    run: u64,
    matched: u64,
    values: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct LaneRow {
    transformations: Vec<&'static str>,
    multi_match: bool,
    /// Rules and links that use it.
    rules: usize,
    values: u64,
    bytes: u64,
    changed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
}

/// Evaluates the requests and reports.
pub(crate) fn run(options: &ProfileOptions) -> Result<Outcome, Fault> {
    let program = Arc::new(ruleset::load(&options.rules, options.quiet)?);
    let corpus = bench::read(options.requests.as_deref())?;
    let mut transaction = Transaction::new(program);
    evaluate(&mut transaction, &corpus);

    let mut transaction = transaction.with_profile(if options.counts { || 0 } else { clock });
    let begin = clock();
    progress::stage("measuring passes", Some(options.passes));
    for _ in 0..options.passes {
        progress::count();
        evaluate(&mut transaction, &corpus);
    }
    let time_ns = clock().saturating_sub(begin);
    let mut report = Report::of(&transaction, (!options.counts).then_some(time_ns));
    (report.requests, report.passes) = (corpus.len(), options.passes);

    let mut out = output::results();
    if options.json {
        report.cut(options.top.unwrap_or(usize::MAX));
        serde_json::to_writer(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        report.cut(options.top.unwrap_or(TOP));
        write!(out, "{}", table::page(&report))?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

fn evaluate(transaction: &mut Transaction, corpus: &[Case]) {
    for case in corpus {
        inspect(transaction, &case.request, &case.unique_id, usize::MAX);
    }
}

/// Nanoseconds of CPU time, without what it took to ask for them. It does not go back, though the cost of
/// asking varies.
fn clock() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    static ASKED: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let cost = *COST.get_or_init(clock_cost);
    let asked = ASKED.fetch_add(1, Ordering::Relaxed);
    let now = nanoseconds().saturating_sub(asked.saturating_mul(cost));
    now.max(LAST.fetch_max(now, Ordering::Relaxed))
}

fn nanoseconds() -> u64 {
    u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX)
}

/// What it takes to ask for the time, in nanoseconds: of several trials the quickest, so that nothing else
/// is taken off.
fn clock_cost() -> u64 {
    const TRIALS: u64 = 20;
    const CALLS: u64 = 500;
    let trial = |_| {
        let begin = nanoseconds();
        for _ in 1..CALLS {
            std::hint::black_box(nanoseconds());
        }
        nanoseconds().saturating_sub(begin) / CALLS
    };
    (0..TRIALS).map(trial).min().unwrap_or_default()
}

impl Report {
    fn of(transaction: &Transaction, time_ns: Option<u64>) -> Self {
        let timed = time_ns.is_some();
        let (mut phases, mut rules) = (Vec::new(), Vec::new());
        let mut unnamed_requests = 0;
        if let Some(profile) = transaction.profile() {
            unnamed_requests = profile.unnamed_transactions;
            let costs = Phase::ALL.iter().zip(&profile.phases);
            phases = costs.map(|(phase, cost)| PhaseRow::new(*phase, cost, timed)).collect();
        }
        for profiled in transaction.profiled_rules() {
            if profiled.rule.link > 0 {
                if let Some(chain) = rules.last_mut() {
                    let RuleRow { links, .. } = chain;
                    links.push(OwnCost::of(&profiled));
                }
                continue;
            }
            let phase = usize::from(profiled.rule.phase.number()) - 1;
            if let Some(phase) = phases.get_mut(phase) {
                phase.add(&profiled);
            }
            rules.push(RuleRow::of(&profiled, timed));
        }
        rules.retain(|rule| rule.visited > 0);
        rules.sort_by_key(|rule| {
            let chain = rule.links.iter().chain([&rule.own]);
            let bytes: u64 = chain.map(|cost| cost.bytes).sum();
            Reverse((rule.time_ns, bytes, rule.own.values, rule.named, rule.visited))
        });
        let lanes = transaction.profiled_lanes().filter(|lane| lane.cost.values > 0);
        let mut lanes: Vec<LaneRow> = lanes.map(|lane| LaneRow::of(lane, timed)).collect();
        lanes.sort_by_key(|lane| Reverse((lane.time_ns, lane.bytes, lane.values)));
        Self {
            requests: 0,
            passes: 0,
            unnamed_requests,
            time_ns,
            rules_ns: timed.then(|| rules.iter().filter_map(|rule| rule.time_ns).sum()),
            phases,
            rules_visited: rules.len(),
            rules,
            lanes_used: lanes.len(),
            lanes,
        }
    }

    /// Leaves the first `top` rules and lanes.
    fn cut(&mut self, top: usize) {
        self.rules.truncate(top);
        self.lanes.truncate(top);
    }
}

impl PhaseRow {
    fn new(phase: Phase, cost: &PhaseCost, timed: bool) -> Self {
        Self {
            phase: phase.number(),
            evaluated: cost.evaluated,
            rules: 0,
            folded: 0,
            never_named: Vec::new(),
            naming_ns: timed.then_some(cost.naming_ns),
            index: ScanRow::of(cost.index, timed),
            sieves: ScanRow::of(cost.sieves, timed),
        }
    }

    /// Counts a rule of the phase.
    fn add(&mut self, profiled: &ProfiledRule<'_>) {
        self.rules += 1;
        self.folded += usize::from(profiled.folded);
        let gated = profiled.gate.is_some_and(GateKind::can_say_no);
        if gated && !profiled.folded && profiled.cost.named == 0 && self.evaluated > 0 {
            self.never_named.push(profiled.rule.id.0);
        }
    }
}

impl ScanRow {
    fn of(cost: ScanCost, timed: bool) -> Self {
        let ScanCost { texts, bytes, time_ns } = cost;
        Self { texts, bytes, time_ns: timed.then_some(time_ns) }
    }
}

impl RuleRow {
    fn of(profiled: &ProfiledRule<'_>, timed: bool) -> Self {
        let ProfiledRule { rule, gate, cost, .. } = profiled;
        let RuleCost { visited, named, time_ns, shared_ns, .. } = *cost;
        Self {
            id: rule.id.0,
            phase: rule.phase.number(),
            file: rule.file.to_owned(),
            line: rule.line,
            gate: gate.map_or("", GateKind::name),
            visited,
            named,
            own: OwnCost::of(profiled),
            time_ns: timed.then_some(time_ns),
            shared_ns: timed.then_some(shared_ns),
            links: Vec::new(),
        }
    }
}

impl OwnCost {
    fn of(profiled: &ProfiledRule<'_>) -> Self {
        let RuleCost { run, matched, values, bytes, .. } = profiled.cost;
        Self { operator: profiled.rule.operator, run, matched, values, bytes }
    }
}

impl LaneRow {
    fn of(lane: ProfiledLane, timed: bool) -> Self {
        let LaneCost { values, bytes, changed, time_ns } = lane.cost;
        Self {
            transformations: lane.transformations,
            multi_match: lane.each_stage,
            rules: lane.rules,
            values,
            bytes,
            changed,
            time_ns: timed.then_some(time_ns),
        }
    }
}
