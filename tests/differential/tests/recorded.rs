//! The short form of the differential test: cases in which real parsers returned the mark, and advisories, replayed in
//! process. `cargo xtask differential --record` renews the cases.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::fs;
use std::path::{Path, PathBuf};

use glacis_differential::advisories::{self, Expect, Request};
use glacis_differential::judge::{Judge, Judgement};
use glacis_differential::parser::PARSERS;
use glacis_differential::recorded::Recorded;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn judge(directives: &str) -> Judge {
    let fetched = folder().join("../../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    Judge::new(&crs, directives).unwrap()
}

/// The cases of all parsers, with the parser's name.
fn recorded() -> Vec<(&'static str, Recorded)> {
    let mut all = Vec::new();
    for parser in PARSERS {
        let file = folder().join(format!("recorded/{}.jsonl", parser.name));
        let text = fs::read_to_string(&file).unwrap();
        all.extend(text.lines().map(|line| (parser.name, Recorded::read(line).unwrap())));
    }
    all
}

fn silent(judge: &mut Judge) -> Vec<String> {
    let mut found = Vec::new();
    for (parser, recorded) in recorded() {
        if judge.judge(&recorded.case, recorded.place) == Judgement::Silent {
            found.push(format!("{parser}: {}", recorded.line()));
        }
    }
    found
}

#[test]
fn no_recorded_case_is_a_silent_bypass() {
    let found = silent(&mut judge(""));
    assert!(found.is_empty(), "{} silent bypasses:\n{}", found.len(), found.join("\n"));
}

/// Each planted bug is found: without the rule some cases are silent.
#[test]
fn a_missing_rule_is_found() {
    for rule in ["100000", "100001", "100010"] {
        let found = silent(&mut judge(&format!("SecRuleRemoveById {rule}")));
        assert!(!found.is_empty(), "without {rule} nothing is found");
    }
}

#[test]
fn no_advisory_reproduces() {
    let text = fs::read_to_string(folder().join("advisories.txt")).unwrap();
    let cases = advisories::read(&text).unwrap();
    let mut judge = judge("");
    let mut wrong = Vec::new();
    let mut variants = 0;
    for case in &cases {
        let has_requests = !matches!(case.expect, Expect::Skip(_));
        assert_eq!(has_requests, !case.variants.is_empty(), "{}", case.title);
        for (name, request) in &case.variants {
            variants += 1;
            let blocking = judge.blocking(request);
            if case.expect == Expect::Block && blocking.is_none() {
                wrong.push(format!("{}: {name}: allowed", case.title));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "of {} cases, {variants} variants:\n{}",
        cases.len(),
        wrong.join("\n")
    );
}

/// `clients.jsonl` was recorded from requests, httpx, aiohttp, urllib, fetch, undici, axios, form-data, superagent, got,
/// java.net.http, net/http and curl (docs/differential.md).
#[test]
fn no_request_of_a_client_library_is_blocked() {
    let text = fs::read_to_string(folder().join("clients.jsonl")).unwrap();
    let mut judge = judge("");
    let mut blocked = Vec::new();
    for line in text.lines() {
        let request = Request::of_json(line).unwrap();
        if let Some(rule) = judge.blocking(&request) {
            blocked.push(format!("{rule}: {line}"));
        }
    }
    assert!(text.lines().count() > 40);
    assert!(blocked.is_empty(), "{}", blocked.join("\n"));
}
