//! `cargo xtask bench barbacana` and its like: HTTP through Envoy and through other proxies, as `bench/http` defines it.
//!
//! Each stack is started by itself, is warmed up, gets the loads one after the other, and is stopped again. Every answer is
//! checked; CPU time and memory are those of each process, from the system's accounts.

pub mod definition;
pub mod measure;
pub mod nighthawk;
pub mod plot;
pub mod report;
pub mod stack;

use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::load::{self, Pace, Plan, Seen, Shot};
use definition::{Climb, Definition, Load, Part};
use measure::{Account, Row};
use stack::{Missing, Running, Stacks};

/// Requests of each kind that a stack gets before anything counts: what is built on first use is then there.
const WARM_UP: Duration = Duration::from_secs(1);
const WARM_UP_SHORT: Duration = Duration::from_millis(200);
/// Rates that a climb tries at the most.
const CLIMB_MAX: usize = 16;
/// Below this share of answers to what was due, a rate was not held.
const HELD: f64 = 0.98;

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

/// Runs a definition; `say` is told how far it is.
///
/// # Errors
///
/// If something of ours is missing, does not start, or an answer is wrong. Other proxies that are not there are left out
/// and said.
pub fn run(options: &Options<'_>, say: &mut dyn FnMut(&str)) -> Outcome<(Definition, Vec<Row>)> {
    let definition = Definition::read(options.name)?;
    let stacks = Stacks::read()?;
    let mut rows = Vec::new();
    let is_wanted = |part: &&Part| !options.short || part.name == definition.short.part;
    for part in definition.parts.iter().filter(is_wanted) {
        let shots = definition.requests_of(part, options.workload)?;
        for name in &part.stacks {
            if options.short && !definition.short.stacks.contains(name) {
                continue;
            }
            let mut running = match stacks.start(name, options.folder) {
                Ok(running) => running,
                Err(Missing::Peer(why)) => {
                    say(&format!("without {name}: {why}"));
                    continue;
                }
                Err(Missing::Failed(failure)) => return Err(failure),
            };
            let shots = running.expected(&shots);
            let mut one =
                |load: &Load| one(&mut running, &shots, options, &definition, part, load, say);
            for load in &part.loads {
                rows.extend(one(load)?);
                if options.short {
                    break;
                }
            }
        }
    }
    check(&rows)?;
    Ok((definition, rows))
}

/// A load on a running stack: one row, or one for each rate of a climb.
fn one(
    running: &mut Running,
    shots: &[Shot],
    options: &Options<'_>,
    definition: &Definition,
    part: &Part,
    load: &Load,
    say: &mut dyn FnMut(&str),
) -> Outcome<Vec<Row>> {
    let warm = if options.short { WARM_UP_SHORT } else { WARM_UP };
    let connections = load.connections;
    let plan = Plan {
        to: running.address(),
        connections,
        pace: Pace::Closed,
        time: warm,
        count: None,
        shots,
    };
    load::run(&plan)?;
    let fixed = |rate: Option<f64>| rate.map_or(Pace::Closed, Pace::Open);
    let (mut pace, mut time) = (fixed(load.rate), Duration::from_secs_f64(load.seconds));
    let mut climb = load.climb;
    if options.short {
        (pace, time) =
            (Pace::Open(definition.short.rate), Duration::from_secs_f64(definition.short.seconds));
        climb = None;
    }
    let mut rows = Vec::new();
    let mut rates =
        std::iter::successors(climb.map(|climb| climb.from), |rate| Some(rate * climb?.factor));
    for _ in 0..CLIMB_MAX {
        if let Some(rate) = rates.next() {
            pace = Pace::Open(rate);
        }
        let before = running.account()?;
        let seen = load::run(&Plan { pace, time, count: load.count, ..plan })?;
        let used = running.account()?.since(&before);
        let row = row(running, part, load, pace, &seen, used);
        say(&row.line());
        let held = climb.is_some_and(|climb| holds(&row, climb));
        let again = Plan { pace, time, ..plan };
        let second = if climb.is_none() { nighthawk::run(&again, options.folder)? } else { None };
        let second = second.map(|told| told_by_nighthawk(&row, &told, shots));
        rows.push(row);
        rows.extend(second);
        if !held {
            break;
        }
    }
    Ok(rows)
}

/// The same load as Nighthawk has seen it. It counts statuses, and does not know which request each belongs to.
fn told_by_nighthawk(row: &Row, told: &nighthawk::Told, shots: &[Shot]) -> Row {
    let [.., refused, failed] = told.answers;
    let answered = told.answers.iter().sum::<u64>();
    let refusals_are_right = shots.iter().any(|shot| shot.status != 200);
    let wrong = failed + if refusals_are_right { 0 } else { refused };
    let wrong = (wrong > 0).then(|| (("any".to_owned(), 200, 500), wrong));
    Row {
        stack: format!("{} (nighthawk)", row.stack),
        answered,
        per_second: answered as f64 / told.seconds.max(1e-9),
        held: told.unsent == 0,
        mean_ms: told.mean_ms,
        p50_ms: told.p50_ms,
        p90_ms: told.p90_ms,
        p99_ms: told.p99_ms,
        max_ms: told.max_ms,
        wrong: wrong.into_iter().collect(),
        broken: told.broken,
        unsent: told.unsent,
        client_us: 0.0,
        used: Vec::new(),
        ..row.clone()
    }
}

fn holds(row: &Row, climb: Climb) -> bool {
    row.held && row.p99_ms <= climb.p99_ms
}

fn row(
    running: &Running,
    part: &Part,
    load: &Load,
    pace: Pace,
    seen: &Seen,
    used: Vec<Account>,
) -> Row {
    let answered = seen.answered().max(1) as f64;
    let rate = match pace {
        Pace::Open(rate) => Some(rate),
        Pace::Closed => None,
    };
    Row {
        part: part.name.clone(),
        stack: running.name().to_owned(),
        ours: running.is_ours(),
        connections: load.connections,
        rate,
        answered: seen.answered() as u64,
        per_second: seen.per_second(),
        held: rate.is_none()
            || seen.unsent == 0 && seen.answered() as f64 >= seen.due as f64 * HELD,
        mean_ms: seen.mean_ms(),
        p50_ms: seen.percentile_ms(0.5),
        p90_ms: seen.percentile_ms(0.9),
        p99_ms: seen.percentile_ms(0.99),
        max_ms: seen.percentile_ms(1.0),
        wrong: seen.wrong.clone(),
        broken: seen.broken,
        unsent: seen.unsent,
        client_us: seen.cpu_seconds * 1e6 / answered,
        used,
    }
}

/// A wrong answer of ours is a failed bench. Those of peers are counted in the table.
fn check(rows: &[Row]) -> Outcome<()> {
    if rows.is_empty() {
        return Err(Failure::new("nothing was measured"));
    }
    for row in rows.iter().filter(|row| row.ours) {
        if !row.wrong.is_empty() || row.held && row.broken > 0 {
            let wrong = format!("{:?}, {} without an answer", row.wrong, row.broken);
            return Err(Failure::new(format!("{} of `{}`: {wrong}", row.stack, row.part)));
        }
    }
    Ok(())
}
