//! `cargo xtask bench barbacana` and its like: HTTP through Envoy and through other proxies, as `bench/http` defines it.
//!
//! Each stack is started by itself, is warmed up, gets the loads one after the other, and is stopped again. Every answer is
//! checked; CPU time and memory are those of each process, from the system's accounts.

pub mod definition;
pub mod measure;
pub mod nighthawk;
pub mod oha;
pub mod plot;
pub mod report;
pub mod sizing;
pub mod stack;
pub mod told;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use crate::failure::{Failure, Outcome};
use crate::load::{self, Pace, Plan, Seen, Shot};
use definition::{Climb, Definition, Load, Part};
use measure::{Account, Row};
use stack::{Missing, Running, Stacks};
use told::{Generator, Told};

/// Requests of each kind that a stack gets before anything counts: what is built on first use is then there. Not from more
/// connections at once than these.
const WARM_UP: Duration = Duration::from_secs(1);
const WARM_UP_SHORT: Duration = Duration::from_millis(200);
const WARM_UP_CONNECTIONS: usize = 64;
/// Rates that a climb tries at the most.
const CLIMB_MAX: usize = 16;
/// Below this share of answers to what was due, a rate was not held.
const HELD: f64 = 0.98;
/// What Envoy answers when ext_proc turns a request away, or is late.
const SHED: [u16; 2] = [503, 504];
/// Those that send a load as well, where they are there.
pub const GENERATORS: [Generator; 2] = [nighthawk::GENERATOR, oha::GENERATOR];
/// Files that this process has open besides connections.
const OTHER_FILES: u64 = 200;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The name of a definition.
    pub name: &'a str,
    /// Seconds, and only what is ours: that it works.
    pub short: bool,
    /// The folder of the workload's files.
    pub workload: &'a Path,
    /// Folder for logs and sockets, with a short path.
    pub folder: &'a Path,
}

/// What was seen of a definition, so far.
#[derive(Debug)]
pub struct Results {
    /// What was to be done.
    pub definition: Definition,
    /// What was seen.
    pub rows: Vec<Row>,
    /// What was left out, and why.
    pub without: Vec<String>,
}

/// Runs a definition; `say` is told how far it is, `keep` gets what there is whenever a stack is through.
///
/// # Errors
///
/// If something of ours is missing, does not start, or an answer is wrong. Other proxies that are not there, or fail, are left
/// out and named in the results.
pub fn run(
    options: &Options<'_>,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Results) -> Outcome<()>,
) -> Outcome<Results> {
    let definition = Definition::read(options.name)?;
    let stacks = Stacks::read()?;
    let mut results = Results { definition, rows: Vec::new(), without: Vec::new() };
    let count = results.definition.parts.len();
    for number in 0..count {
        let Some(part) = results.definition.parts.get(number) else { break };
        if options.short && part.name != results.definition.short.part {
            continue;
        }
        let shots = results.definition.requests_of(part, options.workload)?;
        for name in part.stacks.clone() {
            if options.short && !results.definition.short.stacks.contains(&name) {
                continue;
            }
            let outcome =
                on_stack(&stacks, &name, number, &shots, options, &results.definition, say);
            match outcome {
                Ok(Found { rows, without }) => {
                    results.rows.extend(rows);
                    results.without.extend(without);
                }
                Err(Missing::Peer(why)) => results.without.push(format!("{name}: {why}")),
                Err(Missing::Failed(failure)) => return Err(failure),
            }
            keep(&results)?;
        }
    }
    results.without.sort();
    results.without.dedup();
    check(&results.rows)?;
    Ok(results)
}

/// What was seen of one stack.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Row>,
    without: Vec<String>,
}

/// All loads of a part on one stack.
fn on_stack(
    stacks: &Stacks,
    name: &str,
    part: usize,
    shots: &[Shot],
    options: &Options<'_>,
    definition: &Definition,
    say: &mut dyn FnMut(&str),
) -> Result<Found, Missing> {
    let mut found = Found::default();
    let Some(part) = definition.parts.get(part) else { return Ok(found) };
    let mut running = stacks.start(name, options.folder)?;
    let shots = running.expected(shots);
    let mut held_rate = None;
    for load in &part.loads {
        if load.connections as u64 + OTHER_FILES > files_max() {
            let files = files_max();
            found
                .without
                .push(format!("{} connections: {files} files may be open", load.connections));
            continue;
        }
        let mut work =
            Work { running: &mut running, shots: &shots, options, definition, part, load };
        match work.rows(&mut held_rate, say) {
            Ok(rows) => found.rows.extend(rows),
            Err(failure) if !running.is_ours() => {
                found.without.push(format!("{name}, {}: {failure}", part.name));
                return Ok(found);
            }
            Err(failure) => return Err(failure.into()),
        }
        if options.short {
            break;
        }
    }
    Ok(found)
}

/// How many files this process may have open.
fn files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A load on a running stack.
struct Work<'a> {
    running: &'a mut Running,
    shots: &'a [Shot],
    options: &'a Options<'a>,
    definition: &'a Definition,
    part: &'a Part,
    load: &'a Load,
}

impl Work<'_> {
    /// One row, or one for each rate of a climb; and those of other load generators.
    fn rows(
        &mut self,
        held_rate: &mut Option<f64>,
        say: &mut dyn FnMut(&str),
    ) -> Outcome<Vec<Row>> {
        let short = self.options.short;
        let load = self.load;
        self.warm_up()?;
        let mut time = Duration::from_secs_f64(load.seconds);
        let mut climb = load.climb;
        let beyond = load.beyond.zip(*held_rate).map(|(times, held)| times * held);
        let mut rate = load.rate.or(beyond);
        if short {
            rate = Some(self.definition.short.rate);
            time = Duration::from_secs_f64(self.definition.short.seconds);
            climb = None;
        } else if load.beyond.is_some() && beyond.is_none() {
            return Err(Failure::new("no rate was held, so none is beyond it"));
        }
        let mut rows = Vec::new();
        let mut rates =
            std::iter::successors(climb.map(|climb| climb.from), |rate| Some(rate * climb?.factor));
        for _ in 0..CLIMB_MAX {
            rate = rates.next().or(rate);
            let plan = Plan {
                time,
                count: load.count,
                ..self.plan(rate.map_or(Pace::Closed, Pace::Open))
            };
            let before = self.running.account()?;
            let seen = load::run(&plan)?;
            let used = self.running.account()?.since(&before);
            let row = self.row(plan.pace, &seen, used);
            say(&row.line());
            let others =
                if load.by_tools && !short { self.by_tools(&plan, &row)? } else { Vec::new() };
            others.iter().for_each(|row| say(&row.line()));
            let goes_on = climb.is_some_and(|climb| holds(&row, climb));
            if goes_on {
                *held_rate = rate;
            }
            rows.push(row);
            rows.extend(others);
            if !goes_on {
                break;
            }
        }
        Ok(rows)
    }

    fn plan(&self, pace: Pace) -> Plan<'_> {
        Plan {
            to: self.running.address(),
            connections: self.load.connections,
            pace,
            time: Duration::ZERO,
            count: None,
            shots: self.shots,
            shed: &SHED,
            keys: self.part.keys,
        }
    }

    fn warm_up(&self) -> Outcome<()> {
        let time = if self.options.short { WARM_UP_SHORT } else { WARM_UP };
        let connections = self.load.connections.min(WARM_UP_CONNECTIONS);
        load::run(&Plan { connections, time, ..self.plan(Pace::Closed) }).map(drop)
    }

    /// The same load by other load generators, where they are there.
    fn by_tools(&self, plan: &Plan<'_>, row: &Row) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        for generator in GENERATORS {
            let before = self.running.account()?;
            if let Some(told) = generator.run(plan, self.options.folder)? {
                let used = self.running.account()?.since(&before);
                rows.push(told_by(generator.name, row, &told, self.shots, used));
            }
        }
        Ok(rows)
    }

    fn row(&self, pace: Pace, seen: &Seen, used: Vec<Account>) -> Row {
        let answered = seen.answered().max(1) as f64;
        let rate = match pace {
            Pace::Open(rate) => Some(rate),
            Pace::Closed => None,
        };
        let all_answered = seen.answered() as f64 >= seen.due as f64 * HELD;
        Row {
            part: self.part.name.clone(),
            curve: self.part.curve.clone().zip(self.part.at),
            stack: self.running.name().to_owned(),
            tool: "ours",
            ours: self.running.is_ours(),
            start_seconds: self.running.start_seconds(),
            connections: self.load.connections,
            rate,
            answered: seen.answered() as u64,
            per_second: seen.per_second(),
            held: rate.is_none() || seen.unsent == 0 && all_answered,
            mean_ms: seen.mean_ms(),
            p50_ms: seen.percentile_ms(0.5),
            p90_ms: seen.percentile_ms(0.9),
            p99_ms: seen.percentile_ms(0.99),
            max_ms: seen.percentile_ms(1.0),
            wrong: seen.wrong.clone(),
            shed: seen.shed_micros.len() as u64,
            shed_p99_ms: seen.shed_percentile_ms(0.99),
            broken: seen.broken,
            unsent: seen.unsent,
            client_us: seen.cpu_seconds * 1e6 / answered,
            used,
        }
    }
}

/// The same load as another generator has seen it. It counts statuses, and does not know which request each belongs to.
fn told_by(tool: &'static str, row: &Row, told: &Told, shots: &[Shot], used: Vec<Account>) -> Row {
    let [.., refused, failed] = told.answers;
    let answered = told.answers.iter().sum::<u64>();
    let refusals_are_right = shots.iter().any(|shot| shot.status != 200);
    let wrong = failed + if refusals_are_right { 0 } else { refused };
    let wrong = (wrong > 0).then(|| (("any".to_owned(), 200, 500), wrong));
    let due = row.rate.unwrap_or(0.0) * told.seconds;
    Row {
        tool,
        answered,
        per_second: answered as f64 / told.seconds.max(1e-9),
        held: told.unsent == 0 && answered as f64 >= due * HELD,
        mean_ms: told.mean_ms,
        p50_ms: told.p50_ms,
        p90_ms: told.p90_ms,
        p99_ms: told.p99_ms,
        max_ms: told.max_ms,
        wrong: wrong.into_iter().collect(),
        shed: 0,
        shed_p99_ms: 0.0,
        broken: told.broken,
        unsent: told.unsent,
        client_us: told.cpu_seconds * 1e6 / answered.max(1) as f64,
        used,
        ..row.clone()
    }
}

fn holds(row: &Row, climb: Climb) -> bool {
    row.held && row.p99_ms <= climb.p99_ms
}

/// A wrong answer of ours is a failed bench. Those of peers are counted in the table. Turned away may be who comes when a rate
/// is not held.
fn check(rows: &[Row]) -> Outcome<()> {
    if rows.is_empty() {
        return Err(Failure::new("nothing was measured"));
    }
    for row in rows.iter().filter(|row| row.ours && row.tool == "ours") {
        let lost = if row.held { row.broken } else { 0 };
        if !row.wrong.is_empty() || lost > 0 {
            let wrong = format!("{:?}, {lost} without an answer", row.wrong);
            return Err(Failure::new(format!("{} of `{}`: {wrong}", row.stack, row.part)));
        }
    }
    Ok(())
}
