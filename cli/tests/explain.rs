//! `glacis explain`: the story of a request, the exclusion it proposes, and that this works.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{fs, path::PathBuf};

use run::{crs, data, expect, glacis, glacis_with};

const EXPLAIN: &str = "explain --rules explain/rules.conf";

#[test]
fn stories() {
    let ran = glacis(&format!("{EXPLAIN} explain/small.jsonl"), b"");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
    expect("explain/small.txt", &ran.stdout);
    let ran = glacis(&format!("{EXPLAIN} --all --id score explain/small.jsonl"), b"");
    assert_eq!(ran.status, Some(1));
    expect("explain/all.txt", &ran.stdout);
    let ran = glacis(&format!("{EXPLAIN} --json explain/small.jsonl"), b"");
    assert_eq!(ran.status, Some(1));
    expect("explain/small.answers.jsonl", &ran.stdout);
}

/// What a record does not hold is said, and rules that do not match again are named.
#[test]
fn audit_records() {
    let ran = glacis(&format!("{EXPLAIN} explain/records.jsonl"), b"");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
    expect("explain/records.txt", &ran.stdout);
}

#[test]
fn what_would_be_refused_where_rules_may_not_block() {
    let arguments = format!("{EXPLAIN} --rules explain/detection.conf --id fewest -");
    let ran = glacis(&arguments, &fs::read(data().join("explain/small.jsonl")).unwrap());
    assert_eq!(ran.status, Some(1));
    expect("explain/detection.txt", &ran.stdout);
}

/// What is proposed is what `eval` lets pass, and what was refused is refused without it.
#[test]
fn what_is_proposed_works() {
    let requests = fs::read_to_string(data().join("explain/small.jsonl")).unwrap();
    let folder = std::env::temp_dir().join(format!("glacis-explain-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let ran = glacis(&format!("{EXPLAIN} --json -"), requests.as_bytes());
    let mut proposed = 0;
    for (request, answer) in requests.lines().zip(ran.stdout.lines()) {
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
        for (way, rules_first) in [("everywhere", true), ("on_this_path", false)] {
            let Some(text) = answer["exclusion"][way]["directives"].as_str() else { continue };
            let file = folder.join(format!("{way}.conf"));
            fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            let rules = "explain/rules.conf";
            let (first, second) = if rules_first { (rules, file) } else { (file, rules) };
            let eval = ["eval", "--rules", first, "--rules", second, "-"];
            let passed = glacis_with(&eval, request.as_bytes());
            assert!(passed.stdout.contains(r#""action":"allow""#), "{text}{passed:?}");
            let refused = glacis(&format!("eval --rules {rules} -"), request.as_bytes());
            assert!(!refused.stdout.contains(r#""action":"allow""#), "{refused:?}");
            proposed += 1;
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(proposed >= 14, "{proposed}");
}

/// Over the CRS; the first request is the example of the documentation.
#[test]
fn over_the_core_rule_set() {
    const BEGIN: &str = "<!-- example, written by cli/tests/explain.rs -->\n```\n";
    let crs = crs();
    let crs = crs.to_str().unwrap();
    let run = |id: &str| {
        let arguments = ["explain", "-q", "--crs", crs, "--id", id, "explain/requests.jsonl"];
        glacis_with(&arguments, b"").stdout.replace(crs, "CRS")
    };
    for id in ["search", "comment", "no-host", "clean"] {
        expect(&format!("explain/crs-{id}.txt"), &run(id));
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/explain.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let renewed = format!("{before}{BEGIN}{}```\n{after}", run("search"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &renewed).unwrap();
    } else {
        assert_eq!(page, renewed, "docs/explain.md; UPDATE_EXPECT=1 rewrites it");
    }
}
