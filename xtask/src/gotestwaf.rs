//! `cargo xtask gotestwaf`: GoTestWAF's test cases against the rules, in process, with and without a second opinion.
//!
//! The test cases are read from a clone of its repository, at a commit, and never committed. Each payload is encoded and
//! put into a request as GoTestWAF does with its Go client: for each encoder and each placeholder of its file. gRPC is
//! left out. A request is blocked when the verdict refuses it.

mod cases;
mod requests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cargo;
use crate::failure::{Failure, Outcome, io};
use crate::second_opinion::WEIGHTS;
use cases::Case;

const REPOSITORY: &str = "wallarm/gotestwaf";
const COMMIT: &str = "67dfd7a73f4e7ecd2908c8fb2c96f5e62f1d53b6";

/// Where the table goes.
const PAGE: &str = "docs/results/gotestwaf.md";

/// Counts of the requests of a set, by verdict.
#[derive(Clone, Copy, Default)]
struct Counts {
    requests: usize,
    rules: usize,
    opinion: usize,
    either: usize,
}

/// Plays the test cases and writes the page.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["--data", folder] = words.as_slice() else {
        return Err(Failure::usage(
            "write `--data DIR`: the folder with clones (DIR/OWNER+NAME/repo)",
        ));
    };
    let repository = Path::new(folder).join(REPOSITORY.replace('/', "+")).join("repo");
    let (mut lines, mut sets, mut left_out) = (String::new(), Vec::new(), 0);
    for (set, case) in read(&repository)? {
        for request in requests::of(&case) {
            match request {
                Some(mut request) => {
                    request["id"] = Value::from(sets.len());
                    let _ = writeln!(lines, "{request}");
                    let kind = if case.kind.is_empty() { "texts" } else { &case.kind };
                    sets.push((set.clone(), kind.to_owned()));
                }
                None => left_out += 1,
            }
        }
    }
    let counts = evaluate(&lines, &sets)?;
    let page = cargo::root().join(PAGE);
    fs::write(&page, render(&counts, left_out)).map_err(io("write", &page))
}

/// The test cases, with the name of their set: that of their folder.
fn read(repository: &Path) -> Outcome<Vec<(String, Case)>> {
    let git = |arguments: &[&str]| {
        cargo::output(Command::new("git").arg("-C").arg(repository).args(arguments))
    };
    let listed = git(&["ls-tree", "-r", "--name-only", COMMIT, "testcases"])?;
    let mut found = Vec::new();
    for path in listed.lines().filter(|path| path.ends_with(".yml")) {
        let set = path.split('/').nth(1).unwrap_or_default().to_owned();
        let text = git(&["show", &format!("{COMMIT}:{path}")])?;
        let case = cases::parse(&text);
        let case = case.ok_or_else(|| Failure::new(format!("{path} is no test case")))?;
        found.push((set, case));
    }
    Ok(found)
}

/// Evaluates all requests, and counts what is blocked by set and kind.
fn evaluate(lines: &str, sets: &[(String, String)]) -> Outcome<BTreeMap<(String, String), Counts>> {
    let folder = cargo::root().join("target/second-opinion");
    fs::create_dir_all(&folder).map_err(io("create", &folder))?;
    let requests = folder.join("gotestwaf.jsonl");
    fs::write(&requests, lines).map_err(io("write", &requests))?;
    let crs = crate::fetch::ensure()?.crs;
    let mut eval = cargo::cargo(["run", "--release", "-q", "-p", "glacis-cli", "--", "eval", "-q"]);
    let weights = cargo::root().join(WEIGHTS);
    eval.arg(format!("--second-opinion={}", weights.display()));
    eval.args(["-j", "2", "--crs"]).arg(crs).arg(&requests);
    let answers = cargo::output(&mut eval)?;
    let mut counts: BTreeMap<(String, String), Counts> = BTreeMap::new();
    for (answer, set) in answers.lines().zip(sets) {
        let answer: Value = serde_json::from_str(answer)
            .map_err(|error| Failure::new(format!("an answer is not JSON: {error}")))?;
        let rules = answer["action"] != "allow";
        let opinion = answer["second_opinion"]["attack"] == true;
        let count = counts.entry(set.clone()).or_default();
        count.requests += 1;
        count.rules += usize::from(rules);
        count.opinion += usize::from(opinion);
        count.either += usize::from(rules || opinion);
    }
    Ok(counts)
}

fn render(counts: &BTreeMap<(String, String), Counts>, left_out: usize) -> String {
    let mut page = format!(
        "# GoTestWAF's test cases

Requests made of the test cases of [GoTestWAF](https://github.com/{REPOSITORY}) at commit {}, as its Go client makes them, evaluated in process with CRS 4.25 at paranoia level 1 and the defaults of Glacis.
The program itself was not run: its verdicts come from a live proxy, and {left_out} gRPC requests are left out here.
`cargo xtask gotestwaf --data DIR` writes this page; DIR has a clone of the repository (`DIR/{}/repo`).
No test case is part of what weights are learned from.

Columns: requests that the rules block, those that are attacks by the [second opinion](../second-opinion.md) alone, and those that are blocked by either (`action: block`).

",
        COMMIT.get(..12).unwrap_or_default(),
        REPOSITORY.replace('/', "+"),
    );
    let is_attack = |set: &str| set != "false-pos";
    let sum = |attack: bool| {
        let of = counts.iter().filter(|((set, _), _)| is_attack(set) == attack);
        of.fold(Counts::default(), |sum, (_, count)| Counts {
            requests: sum.requests + count.requests,
            rules: sum.rules + count.rules,
            opinion: sum.opinion + count.opinion,
            either: sum.either + count.either,
        })
    };
    page += "| set | kind | requests | rules | second opinion | either |\n|---|---|---:|---:|---:|---:|\n";
    for ((set, kind), count) in counts {
        page += &row(&format!("{set} | {kind}"), count, is_attack(set));
    }
    page += &row("**attacks blocked** |", &sum(true), true);
    page += &row("**benign requests passed** |", &sum(false), false);
    page
}

/// A row: of attacks what is blocked, of others what passes.
fn row(name: &str, count: &Counts, attack: bool) -> String {
    let share = |blocked: usize| {
        let wanted = if attack { blocked } else { count.requests - blocked };
        100.0 * wanted as f64 / count.requests.max(1) as f64
    };
    let Counts { requests, rules, opinion, either } = *count;
    format!(
        "| {name} | {requests} | {:.1} % | {:.1} % | {:.1} % |\n",
        share(rules),
        share(opinion),
        share(either)
    )
}
