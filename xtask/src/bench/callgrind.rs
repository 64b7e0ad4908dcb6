//! The instructions of requests, as valgrind's tool callgrind counts them.
//!
//! A count is the same on each run, whatever else the machine does, and all but the same on another
//! machine: the code is the same, and valgrind presents the same processor wherever there is AVX2.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::prepare::{self, Request, Rules};
use crate::cargo::{find_on_path, output};
use crate::failure::{self, Failure, Outcome};

/// The function of the probe within which is counted; a dump is written whenever it is left.
const COUNTED: &str = "glacis_bench_probe::counted";

/// What counting needs of a machine.
pub(super) struct Callgrind {
    valgrind: PathBuf,
    probe: PathBuf,
    folder: PathBuf,
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) id: String,
    pub(super) instructions: u64,
}

impl Callgrind {
    /// Builds the probe; `Err` holds why nothing can be counted on this machine.
    pub(super) fn new(folder: &Path) -> Outcome<Result<Self, String>> {
        let valgrind = match valgrind() {
            Ok(valgrind) => valgrind,
            Err(reason) => return Ok(Err(reason)),
        };
        Ok(Ok(Self { valgrind, probe: prepare::probe()?, folder: folder.join("callgrind") }))
    }

    /// Counts the lines, in order; a wrong verdict is a failure. `name` tells runs apart that go on at the
    /// same time.
    pub(super) fn run(&self, name: &str, rules: &Rules, lines: &[String]) -> Outcome<Vec<Count>> {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failure::io("remove", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(failure::io("create", &folder))?;
        let requests = folder.join("requests.jsonl");
        fs::write(&requests, lines.join("\n")).map_err(failure::io("write", &requests))?;
        let out = folder.join("out");
        let mut command = Command::new(&self.valgrind);
        command
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(format!("--toggle-collect={COUNTED}"))
            .arg(format!("--dump-after={COUNTED}"))
            .arg(&self.probe)
            .arg("counts")
            .args([&rules.shipped, &requests]);
        let told = output(&mut command)?;
        let instructions: Vec<u64> =
            (1..=lines.len()).map(|number| total(&out, number)).collect::<Outcome<_>>()?;
        answers(lines, &told, &instructions)
    }
}

/// The program, or why nothing can be counted.
fn valgrind() -> Result<PathBuf, String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("instructions are counted on Linux on x86-64 only".to_owned());
    }
    // Searching takes other ways without AVX2, and has other counts.
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !flags.split_ascii_whitespace().any(|flag| flag == "avx2") {
        return Err("this processor has no AVX2, the counts on file are with it".to_owned());
    }
    find_on_path("valgrind").ok_or_else(|| {
        "valgrind is not installed; install valgrind (Debian) to have instructions counted"
            .to_owned()
    })
}

/// The sum in a dump: the line `totals: N` (format of callgrind, "Callgrind Format Specification").
fn total(out: &Path, number: usize) -> Outcome<u64> {
    let path = PathBuf::from(format!("{}.{number}", out.display()));
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok()).filter(|total| *total > 0);
    total.ok_or_else(|| Failure::new(format!("{} has no total", path.display())))
}

/// Puts what the probe told beside the counts, and checks it.
fn answers(lines: &[String], told: &str, instructions: &[u64]) -> Outcome<Vec<Count>> {
    let answers: Vec<&str> = told.lines().collect();
    if answers.len() != lines.len() {
        let (told, lines) = (answers.len(), lines.len());
        return Err(Failure::new(format!("the probe answered {told} of {lines} requests")));
    }
    let mut counts = Vec::new();
    for ((line, answer), instructions) in lines.iter().zip(answers).zip(instructions) {
        let (id, request) = prepare::request(line)?;
        let answer: Value = serde_json::from_str(answer)
            .map_err(|error| Failure::new(format!("the probe's answer is not JSON: {error}")))?;
        check(&id, &request, &answer)?;
        counts.push(Count { id, instructions: *instructions });
    }
    Ok(counts)
}

fn check(id: &str, request: &Request, answer: &Value) -> Outcome<()> {
    let matched = answer["matched"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let matched: Vec<u64> = matched.collect();
    // An empty expectation is that of a request whose verdict nobody has said.
    let verdict = request.expect.is_empty() || answer["verdict"] == *request.expect;
    let rule = request.expect_rule.is_none_or(|rule| matched.contains(&rule));
    if answer["id"] == *id && verdict && rule {
        return Ok(());
    }
    let Request { expect, expect_rule, .. } = request;
    Err(Failure::new(format!(
        "{id}: {expect} expected, because of {expect_rule:?}, but the probe answered {answer}"
    )))
}

/// The lines of the workload that are named by class and id.
pub(super) fn lines(workload: &Path, wanted: &[(String, String)]) -> Outcome<Vec<String>> {
    let mut files: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (class, _) in wanted {
        if !files.contains_key(class.as_str()) {
            let path = workload.join(format!("{class}.jsonl"));
            let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
            let by_id = text.lines().map(|line| Ok((prepare::request(line)?.0, line.to_owned())));
            files.insert(class, by_id.collect::<Outcome<_>>()?);
        }
    }
    let find = |(class, id): &(String, String)| {
        let line = files.get(class.as_str()).and_then(|file| file.get(id));
        line.cloned().ok_or_else(|| Failure::new(format!("the workload has no {class} {id}")))
    };
    wanted.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_or_missing_answer_is_a_failure() {
        let line = r#"{"id":"a","class":"c","expect":"deny","expect_rule":942100}"#.to_owned();
        let run = |told: &str| {
            answers(std::slice::from_ref(&line), told, &[7]).map(|counts| counts.len())
        };
        let right = r#"{"id":"a","verdict":"deny","matched":[1,942100],"steps":3}"#;
        assert_eq!(run(right).map_err(|failure| failure.to_string()), Ok(1));
        for wrong in [
            "",
            "x",
            r#"{"id":"b","verdict":"deny","matched":[942100]}"#,
            r#"{"id":"a","verdict":"allow","matched":[942100]}"#,
            r#"{"id":"a","verdict":"deny","matched":[1]}"#,
        ] {
            assert!(run(wrong).is_err(), "{wrong}");
        }
    }
}
