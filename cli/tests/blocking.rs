//! CRS in blocking mode: who is refused, when, and what takes it back.
//!
//! Each folder under `data/blocking` has `requests.jsonl`, and configurations: `NAME.conf` stands between
//! the base configuration and CRS, `NAME.setup.conf` between CRS's setup and its rules, `NAME.after.conf`
//! behind CRS. Every request goes through every
//! configuration of its folder. What is meant stands beside the request:
//!
//! - `blocked`: the configurations that refuse it, or `passes`: those that do not;
//! - `phases`: the phase of the refusal, by configuration;
//! - `reported`: the configurations under which CRS logs the scores (rule 980170).
//!
//! `seen.txt` holds the rest of what comes of it, scores and rules; `UPDATE_EXPECT=1` rewrites it, but
//! cannot change what is meant.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

mod run;

use std::{collections::BTreeMap, fs, path::PathBuf};

use run::{crs, data, expect, glacis_with};
use serde::Deserialize;

const SCORES: u32 = 980_170;

#[derive(Deserialize)]
struct Meant {
    id: String,
    blocked: Option<Vec<String>>,
    passes: Option<Vec<String>>,
    #[serde(default)]
    phases: BTreeMap<String, u8>,
    reported: Option<Vec<String>>,
}

impl Meant {
    /// Whether the request is to be refused under `configuration`.
    fn refused(&self, configuration: &str) -> bool {
        let names = |list: &[String]| list.iter().any(|name| name == configuration);
        match (&self.blocked, &self.passes) {
            (Some(blocked), None) => names(blocked),
            (None, Some(passes)) => !names(passes),
            _ => panic!("{}: either blocked or passes", self.id),
        }
    }
}

#[derive(Deserialize)]
struct Seen {
    id: String,
    action: String,
    status: u16,
    phase: Option<u8>,
    location: Option<String>,
    matched: Vec<Matched>,
    scores: Scores,
}

#[derive(Deserialize)]
struct Matched {
    id: u32,
}

#[derive(Deserialize)]
struct Scores {
    inbound: i64,
    outbound: i64,
}

impl Seen {
    /// One line for `seen.txt`.
    fn line(&self) -> String {
        let rules: String = self.matched.iter().map(|rule| format!(" {}", rule.id)).collect();
        let to = self.location.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        let phase = self.phase.map(|phase| format!(" in phase {phase}")).unwrap_or_default();
        let Scores { inbound, outbound } = self.scores;
        let verdict = format!("{} {}{to}{phase}", self.action, self.status);
        format!("{}: {verdict}; inbound {inbound}, outbound {outbound};{rules}\n", self.id)
    }
}

/// The options that name CRS, with the scores that its authors gave, and the configuration `path`, in order.
fn ruleset(path: &str) -> Vec<String> {
    let crs = crs();
    let own = vec!["--rules".to_owned(), path.to_owned()];
    let whole = ["--crs", crs.to_str().unwrap(), "--defaults", "crs"].map(str::to_owned).to_vec();
    if path.ends_with(".after.conf") {
        return [whole, own].concat();
    }
    if !path.ends_with(".setup.conf") {
        return [own, whole].concat();
    }
    let entries = fs::read_dir(crs.join("rules")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    files.sort();
    files.insert(0, crs.join("crs-setup.conf.example"));
    files.insert(1, PathBuf::from(path));
    let option = |file: PathBuf| ["--rules".to_owned(), file.to_str().unwrap().to_owned()];
    files.into_iter().flat_map(option).collect()
}

/// The answers of `glacis eval` under the configuration `path`.
fn evaluate(path: &str, requests: &[u8], options: &[&str]) -> Vec<Seen> {
    let rules = ruleset(path);
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let arguments = [&["eval", "--quiet", "--base"], &rules[..], options].concat();
    let ran = glacis_with(&arguments, requests);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{path}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check_meaning(name: &str, meant: &[Meant], seen: &[Seen]) {
    assert_eq!(meant.len(), seen.len(), "{name}");
    for (meant, seen) in meant.iter().zip(seen) {
        let line = seen.line();
        assert_eq!(meant.refused(name), seen.action != "allow", "{name}: {line}");
        if let Some(phase) = meant.phases.get(name) {
            assert_eq!(Some(*phase), seen.phase, "{name}: {line}");
        }
        if let Some(reported) = &meant.reported {
            let logged = seen.matched.iter().any(|rule| rule.id == SCORES);
            assert_eq!(reported.iter().any(|level| level == name), logged, "{name}: {line}");
        }
    }
}

/// Every name that a request gives is one of a configuration: a slip would make a check say nothing.
fn check_names(configurations: &[(String, PathBuf)], meant: &[Meant]) {
    for meant in meant {
        let lists = [&meant.blocked, &meant.passes, &meant.reported];
        let named = lists.into_iter().flatten().flatten().chain(meant.phases.keys());
        for name in named {
            let known = configurations.iter().any(|(configuration, _)| configuration == name);
            assert!(known, "{}: there is no configuration {name}", meant.id);
        }
    }
}

fn configurations(folder: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(data().join("blocking").join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut list: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    list.sort();
    assert!(list.len() > 1, "{folder}");
    list
}

/// Runs every request of `folder` under every configuration, with the fast path and bodies whole, and
/// without it and bodies in pieces.
fn check(folder: &str) {
    let requests = fs::read(data().join("blocking").join(folder).join("requests.jsonl")).unwrap();
    let text = String::from_utf8(requests.clone()).unwrap();
    let meant: Vec<Meant> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let configurations = configurations(folder);
    check_names(&configurations, &meant);
    let mut lines = String::new();
    for (name, path) in &configurations {
        let path = path.to_str().unwrap();
        let fast = evaluate(path, &requests, &[]);
        check_meaning(name, &meant, &fast);
        let fast: String = fast.iter().map(Seen::line).collect();
        let slow = evaluate(path, &requests, &["--every-rule", "--body-chunk", "3"]);
        let slow: String = slow.iter().map(Seen::line).collect();
        assert_eq!(fast, slow, "{folder}/{name}: without the fast path");
        lines += &format!("== {name}\n{fast}\n");
    }
    expect(&format!("blocking/{folder}/seen.txt"), &lines);
}

#[test]
fn paranoia_levels() {
    check("levels");
}

#[test]
fn inbound_thresholds() {
    check("inbound");
}

#[test]
fn outbound_thresholds() {
    check("outbound");
}

#[test]
fn early_blocking() {
    check("early");
}

#[test]
fn reporting_levels() {
    check("reporting");
}

#[test]
fn modes_and_disruptive_actions() {
    check("mode");
}

#[test]
fn exclusions() {
    check("exclusions");
}

#[test]
fn sampling_is_decided_by_the_id() {
    check("sampling");
}

/// Half of the requests is inspected when half is asked for. CRS draws lots by the digest of the id of
/// a request, so the count is the same in every run.
#[test]
fn sampling_takes_its_share() {
    const REQUESTS: usize = 2_000;
    let folder = data().join("blocking/sampling");
    let requests = fs::read_to_string(folder.join("requests.jsonl")).unwrap();
    let attack = requests.lines().last().unwrap();
    assert!(attack.contains(r#""id": "attack-2""#), "{attack}");
    let many: String = (0..REQUESTS)
        .map(|number| attack.replace("attack-2", &format!("unique-{number}")) + "\n")
        .collect();
    for (percent, least, most) in
        [(0, 0, 0), (50, REQUESTS * 45 / 100, REQUESTS * 55 / 100), (100, REQUESTS, REQUESTS)]
    {
        let path = folder.join(format!("percent-{percent}.conf"));
        let seen = evaluate(path.to_str().unwrap(), many.as_bytes(), &["--jobs", "2"]);
        let refused = seen.iter().filter(|seen| seen.action == "deny").count();
        assert!((least..=most).contains(&refused), "{percent} %: {refused} of {REQUESTS}");
    }
}
