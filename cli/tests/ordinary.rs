//! Ordinary traffic (`tests/corpora`) against CRS in blocking mode: nothing is refused at paranoia level 1
//! but what is listed with its reason, and `docs/reference/ordinary-traffic.md` says what becomes of the
//! traffic at each level. `UPDATE_EXPECT=1` writes that document.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use run::{crs, data, expect, glacis_with};
use serde::Deserialize;

const LEVELS: [u8; 4] = [1, 2, 3, 4];

/// The rules of CRS that look for something; those before initialise, those behind count.
const DETECTION: std::ops::Range<u32> = 911_000..949_000;

#[derive(Deserialize)]
struct Request {
    id: String,
    class: String,
    /// In `refused.jsonl`: who refuses it at level 1, and why.
    #[serde(default)]
    rules: BTreeSet<u32>,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    action: String,
    matched: Vec<Matched>,
}

#[derive(Deserialize)]
struct Matched {
    id: u32,
    msg: String,
}

impl Answer {
    fn refused(&self) -> bool {
        self.action != "allow"
    }

    fn rules(&self) -> BTreeSet<u32> {
        let found = self.matched.iter().map(|rule| rule.id);
        found.filter(|id| DETECTION.contains(id)).collect()
    }
}

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/corpora").canonicalize().unwrap()
}

fn read(file: &str) -> String {
    fs::read_to_string(corpora().join(file)).unwrap()
}

/// All classes, one after the other.
fn ordinary() -> String {
    let entries = fs::read_dir(corpora().join("ordinary")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn requests(lines: &str) -> Vec<Request> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answers to `lines` at a paranoia level.
fn answers(lines: &str, level: u8, options: &[&str]) -> Vec<Answer> {
    let crs = crs();
    let level = data().join(format!("blocking/levels/pl{level}.conf"));
    let rules = ["eval", "-q", "--base", "--rules", level.to_str().unwrap()];
    let arguments = [&rules, options, &["--crs", crs.to_str().unwrap(), "--jobs", "2"]].concat();
    let ran = glacis_with(&arguments, lines.as_bytes());
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    let answers: Vec<Answer> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), lines.lines().count());
    answers
}

fn setup() -> String {
    corpora().join("setup.conf").to_str().unwrap().to_owned()
}

#[test]
fn nothing_ordinary_is_refused_at_level_1() {
    let lines = ordinary();
    assert!(lines.lines().count() >= 300);
    for options in [&[][..], &["--every-rule", "--body-chunk", "5"]] {
        for answer in answers(&lines, 1, options) {
            assert!(!answer.refused(), "{}: {:?}", answer.id, answer.rules());
        }
    }
}

/// CRS's own defaults block these requests of APIs, for their method or media type alone. The defaults of Glacis pass
/// them, and so does a `crs-setup.conf` that allows both.
#[test]
fn what_apis_need_passes() {
    let lines = read("needs-setup.jsonl");
    for answer in answers(&lines, 1, &["--defaults", "crs"]) {
        let rules = answer.rules();
        let policy = rules.is_subset(&BTreeSet::from([911_100, 920_420]));
        assert!(answer.refused() && policy, "{}: {rules:?}", answer.id);
    }
    for options in [&[][..], &["--defaults", "crs", "--rules", &setup()]] {
        for answer in answers(&lines, 1, options) {
            assert!(!answer.refused(), "{}: {:?}", answer.id, answer.rules());
        }
    }
}

/// Of the wrong refusals of CRS, those that are left with the defaults of Glacis.
const REFUSED: [&str; 5] = [
    "api-odata-5",
    "languages-arabic-query",
    "languages-arabic-form",
    "languages-arabic-json",
    "rest-get-17",
];

/// The list of wrong refusals is exact: one that no longer happens leaves it.
#[test]
fn what_crs_refuses_wrongly_is_listed() {
    let lines = read("refused.jsonl");
    for (request, answer) in requests(&lines).iter().zip(answers(&lines, 1, &["--defaults", "crs"]))
    {
        assert!(answer.refused() && !request.reason.is_empty(), "{}", request.id);
        assert_eq!(answer.rules(), request.rules, "{}", request.id);
    }
    let refused = answers(&lines, 1, &[]).into_iter().filter(Answer::refused);
    assert_eq!(refused.map(|answer| answer.id).collect::<Vec<_>>(), REFUSED);
}

#[test]
fn ids_are_unique_and_begin_with_their_class() {
    let mut ids = BTreeSet::new();
    for request in
        requests(&[ordinary(), read("needs-setup.jsonl"), read("refused.jsonl")].concat())
    {
        assert!(request.id.starts_with(&format!("{}-", request.class)), "{}", request.id);
        assert!(ids.insert(request.id.clone()), "{} is there twice", request.id);
    }
}

/// A rule in the document: its message, and the requests it matched at each level.
#[derive(Default)]
struct Row {
    msg: String,
    requests: [usize; LEVELS.len()],
}

const INTRODUCTION: &str = "\
# Ordinary traffic and paranoia levels

What becomes of the requests in `tests/corpora` with the base configuration and CRS 4.25 in blocking mode, at its thresholds.
The methods and media types of APIs are allowed by `tests/corpora/setup.conf`.
A test writes this page and checks it: `UPDATE_EXPECT=1 cargo test -p glacis-cli --test ordinary`.

Higher levels are meant to be used with exclusions for the application at hand; the numbers say how many are needed.

";

#[test]
fn the_document_says_what_becomes_of_it() {
    let lines = [ordinary(), read("needs-setup.jsonl"), read("refused.jsonl")].concat();
    let requests = requests(&lines);
    let mut classes: BTreeMap<&str, (usize, [usize; LEVELS.len()])> = BTreeMap::new();
    for request in &requests {
        classes.entry(&request.class).or_default().0 += 1;
    }
    let mut rules: BTreeMap<u32, Row> = BTreeMap::new();
    for (at, level) in LEVELS.into_iter().enumerate() {
        let answers = answers(&lines, level, &["--rules", &setup()]);
        for (request, answer) in requests.iter().zip(&answers) {
            if answer.refused() {
                classes.entry(&request.class).or_default().1[at] += 1;
            }
            let mut seen = BTreeSet::new();
            for rule in answer.matched.iter().filter(|rule| DETECTION.contains(&rule.id)) {
                if answer.refused() && seen.insert(rule.id) {
                    let row = rules.entry(rule.id).or_default();
                    row.msg.clone_from(&rule.msg);
                    row.requests[at] += 1;
                }
            }
        }
    }
    let document = [INTRODUCTION.to_owned(), by_class(&classes), by_rule(&rules)].concat();
    expect("../../../docs/reference/ordinary-traffic.md", &document);
}

fn by_class(classes: &BTreeMap<&str, (usize, [usize; LEVELS.len()])>) -> String {
    let mut out = "## Refused, by class\n\n".to_owned();
    out +=
        "| class | requests | level 1 | level 2 | level 3 | level 4 |\n|---|---|---|---|---|---|\n";
    let mut sum = (0, [0; LEVELS.len()]);
    for (class, (requests, refused)) in classes {
        let _ = writeln!(out, "| {class} | {requests} |{}", cells(refused));
        sum.0 += requests;
        for (sum, refused) in sum.1.iter_mut().zip(refused) {
            *sum += refused;
        }
    }
    let _ = writeln!(out, "| **all** | {} |{}", sum.0, cells(&sum.1));
    out
}

fn by_rule(rules: &BTreeMap<u32, Row>) -> String {
    let mut out = "\n## Rules that matched in refused requests\n\n".to_owned();
    out += "| rule | says | level 1 | level 2 | level 3 | level 4 |\n|---|---|---|---|---|---|\n";
    for (id, row) in rules {
        // What stands in parentheses may be a name or value of the request.
        let msg = row.msg.split('(').next().unwrap_or_default().trim().replace('|', "\\|");
        let _ = writeln!(out, "| {id} | {msg} |{}", cells(&row.requests));
    }
    out
}

fn cells(counts: &[usize]) -> String {
    counts.iter().map(|count| format!(" {count} |")).collect()
}
