//! `glacis quantify`: false alarms on texts that are known to be harmless, by rule and paranoia level.
//!
//! Everything is evaluated once, at the highest level, and each match counts for the level of its rule: a rule of CRS
//! does the same at each level from its own on.

mod input;
mod report;

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use glacis_engine::{Parts, Program, RuleEngine, Transaction};
use glacis_explain::{Occasion, Request};

use crate::{
    arguments::{Form, QuantifyOptions},
    inspect::now,
    lines::Lines,
    output::{self, Fault, Outcome},
    ruleset::{self, Rules},
};
use input::Payload;
use report::Report;

/// Paranoia levels of CRS.
pub(crate) const LEVELS: usize = 4;

/// The rules of CRS that look for something in requests; those before initialise, those behind count.
const DETECTION: core::ops::Range<u32> = 911_000..949_000;

/// The beginning of the tag with the paranoia level of a rule.
const LEVEL_TAG: &str = "paranoia-level/";

/// The first of the rules that compare the points of all levels up to one with the threshold, one for each level.
const BLOCKED_ID_MIN: u32 = 109_911;

/// Lines that are evaluated before more are read, for each thread.
const BATCH_LINES: usize = 2_048;

/// Bytes of each table of the fast path: sentences differ more than requests, and 4 MiB are full all the time.
const SCAN_TABLE_BYTES: usize = 64 << 20;

/// Lines that a thread takes at a time.
const TAKEN_LINES: usize = 32;

/// Matches of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCount {
    pub(crate) level: usize,
    pub(crate) requests: u64,
}

/// Counts of false alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lines, those that were left out among them.
    pub(crate) lines: u64,
    /// Lines that are no request.
    pub(crate) skipped: u64,
    /// Requests in which a rule matched, by rule.
    pub(crate) rules: BTreeMap<u32, RuleCount>,
    /// Requests that are blocked at each level.
    pub(crate) blocked: [u64; LEVELS],
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.skipped += other.skipped;
        for (&rule, count) in &other.rules {
            let known = self.rules.entry(rule).or_default();
            known.level = count.level;
            known.requests += count.requests;
        }
        for (sum, blocked) in self.blocked.iter_mut().zip(other.blocked) {
            *sum += blocked;
        }
    }

    /// Matches of rules, by the level of the rule.
    pub(crate) fn by_level(&self) -> [u64; LEVELS] {
        let mut sums = [0; LEVELS];
        for count in self.rules.values() {
            if let Some(sum) = sums.get_mut(count.level.saturating_sub(1)) {
                *sum += count.requests;
            }
        }
        sums
    }
}

/// Counts, and prints what was counted.
pub(crate) fn run(options: &QuantifyOptions) -> Result<Outcome, Fault> {
    let begin = Instant::now();
    let first = Arc::new(load(options, &options.rules)?);
    let second = match &options.against {
        None => None,
        Some(against) => {
            let exchanged = |rules: &Rules| match rules {
                Rules::Crs(_) => Rules::Crs(against.clone()),
                other => other.clone(),
            };
            let rules: Vec<Rules> = options.rules.iter().map(exchanged).collect();
            Some(Arc::new(load(options, &rules)?))
        }
    };
    let programs: Vec<Arc<Program>> = [Some(first), second].into_iter().flatten().collect();
    let counts = count(options, &programs)?;
    let report = Report { counts: &counts, seconds: begin.elapsed().as_secs_f64() };
    let text = if options.json { report.json() } else { report.text() };
    let mut out = output::results();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let skipped = counts.iter().any(|counts| counts.skipped > 0);
    Ok(if skipped { Outcome::Findings } else { Outcome::Clean })
}

fn load(options: &QuantifyOptions, rules: &[Rules]) -> Result<Program, Fault> {
    let mut rules = rules.to_vec();
    rules.push(Rules::Paranoia(options.paranoia));
    let program =
        ruleset::build_between(None, &rules, Some(&blocked_rules()), &mut Parts::default())?;
    let program = program.map_err(|errors| Fault::Input(errors.to_string()))?;
    Ok(program.with_scan_tables(SCAN_TABLE_BYTES))
}

/// Rules that match where a request is blocked at a level: with the points of that level and those below it.
fn blocked_rules() -> String {
    let rule = |level: usize| {
        let (sum, compare) = (109_900 + level, BLOCKED_ID_MIN as usize + level - 1);
        format!(
            "SecAction \"id:{sum},phase:2,pass,nolog,t:none,setvar:tx.glacis_sum=+%{{tx.inbound_anomaly_score_pl{level}}}\"\n\
             SecRule TX:glacis_sum \"@ge %{{tx.inbound_anomaly_score_threshold}}\" \
             \"id:{compare},phase:2,pass,log,noauditlog,t:none\"\n"
        )
    };
    (1..=LEVELS).map(rule).collect()
}

/// Reads the input once, and evaluates it with each program.
fn count(options: &QuantifyOptions, programs: &[Arc<Program>]) -> Result<Vec<Counts>, Fault> {
    let worker = || Worker {
        transactions: programs
            .iter()
            .map(|program| Transaction::new(Arc::clone(program)))
            .collect(),
        counts: vec![Counts::default(); programs.len()],
        levels: BTreeMap::new(),
    };
    let mut workers: Vec<Worker> = (0..options.jobs).map(|_| worker()).collect();
    let mut lines = Lines::open(options.input.as_deref())?;
    let mut form = None;
    loop {
        let batch = lines.texts(BATCH_LINES * workers.len())?;
        let Some(first) = batch.first() else { break };
        let form =
            *form.get_or_insert_with(|| options.form().unwrap_or_else(|| input::form_of(first)));
        evaluate(&batch, form, &mut workers);
    }
    let mut counts = vec![Counts::default(); programs.len()];
    for worker in workers {
        for (sum, counts) in counts.iter_mut().zip(&worker.counts) {
            sum.add(counts);
        }
    }
    Ok(counts)
}

fn evaluate(batch: &[Vec<u8>], form: Form, workers: &mut [Worker]) {
    let next = AtomicUsize::new(0);
    let refused = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(TAKEN_LINES, Ordering::Relaxed);
                    let Some(rest) = batch.get(at..).filter(|rest| !rest.is_empty()) else { break };
                    for line in rest.iter().take(TAKEN_LINES) {
                        if let Err(why) = worker.take(line, form) {
                            refused.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                        }
                    }
                }
            });
        }
    });
    for why in refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        output::remark(why);
    }
}

/// The state of one thread.
struct Worker {
    transactions: Vec<Transaction>,
    counts: Vec<Counts>,
    /// Levels of rules, by their ids.
    levels: BTreeMap<u32, usize>,
}

impl Worker {
    fn take(&mut self, line: &[u8], form: Form) -> Result<(), String> {
        let request = match Payload::read(line, form) {
            Ok(payload) => payload.request(),
            Err(why) => {
                for counts in &mut self.counts {
                    counts.lines += 1;
                    counts.skipped += 1;
                }
                return Err(why);
            }
        };
        for at in 0..self.transactions.len() {
            self.count(at, &request);
        }
        Ok(())
    }

    fn count(&mut self, at: usize, request: &Request) {
        let (Some(transaction), Some(counts)) =
            (self.transactions.get_mut(at), self.counts.get_mut(at))
        else {
            return;
        };
        // No rule ends the evaluation: all matches count.
        let occasion =
            Occasion { rule_engine: Some(RuleEngine::DetectionOnly), ..Occasion::at(now()) };
        glacis_explain::inspect(transaction, request, "", &occasion);
        counts.lines += 1;
        for rule in transaction.matched_rules().filter(|rule| rule.log) {
            let id = rule.id.0;
            if DETECTION.contains(&id) {
                let level = || level_of(rule.tags.iter().map(AsRef::as_ref));
                let level = *self.levels.entry(id).or_insert_with(level);
                let count = counts.rules.entry(id).or_default();
                count.level = level;
                count.requests += 1;
            } else if let Some(level) = id.checked_sub(BLOCKED_ID_MIN)
                && let Some(blocked) = counts.blocked.get_mut(level as usize)
            {
                *blocked += 1;
            }
        }
    }
}

/// The level of a rule by its tags; 1 for one that has none.
fn level_of<'t>(mut tags: impl Iterator<Item = &'t str>) -> usize {
    let level = tags.find_map(|tag| tag.strip_prefix(LEVEL_TAG)?.parse().ok());
    level.filter(|level| (1..=LEVELS).contains(level)).unwrap_or(1)
}
