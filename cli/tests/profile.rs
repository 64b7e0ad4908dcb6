//! `glacis profile`: what is counted for a small ruleset, and that times are there where asked for.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{fs, path::PathBuf};

use run::{crs, expect, glacis, glacis_with};
use serde_json::Value;

const PROFILE: &str = "profile --rules profile/rules.conf";

/// Without times the answer is the same on each run: the files say what each rule has to count.
#[test]
fn counts() {
    for (options, golden) in [
        ("--counts", "profile/counts.txt"),
        ("--counts --top 2", "profile/top.txt"),
        ("--counts --passes 3", "profile/passes.txt"),
        ("--counts --json", "profile/counts.json"),
        // Without gates every rule is run.
        ("--counts --every-rule", "profile/every-rule.txt"),
    ] {
        let ran = glacis(&format!("{PROFILE} {options} profile/requests.jsonl"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{options}");
        expect(golden, &ran.stdout);
    }
}

/// With times the counts are the same; those that cost most are first, and shared time is a part.
#[test]
fn times() {
    let arguments = format!("{PROFILE} --json --passes 3 profile/requests.jsonl");
    let timed: Value = serde_json::from_str(&glacis(&arguments, b"").stdout).unwrap();
    let arguments = format!("{PROFILE} --json --counts --passes 3 profile/requests.jsonl");
    let counted: Value = serde_json::from_str(&glacis(&arguments, b"").stdout).unwrap();
    assert_eq!(without_times(timed.clone()), without_times(counted));

    let rules = timed["rules"].as_array().unwrap();
    let time = |row: &Value, name: &str| row[name].as_u64().unwrap();
    assert!(rules.is_sorted_by(|a, b| time(a, "time_ns") >= time(b, "time_ns")), "{rules:?}");
    assert!(rules.iter().all(|rule| time(rule, "time_ns") >= time(rule, "shared_ns")));
    let phases = timed["phases"].as_array().unwrap();
    let all = |rows: &[Value], name: &str| rows.iter().map(|row| time(row, name)).sum::<u64>();
    let parts = all(rules, "time_ns") + all(phases, "naming_ns");
    assert!(all(rules, "time_ns") > 0 && all(phases, "naming_ns") > 0);
    assert!(all(rules, "shared_ns") > 0 && parts <= time(&timed, "time_ns"), "{timed}");

    let ran = glacis(&format!("{PROFILE} profile/requests.jsonl"), b"");
    assert!(ran.status == Some(0) && ran.stdout.contains("µs"), "{ran:?}");
}

/// Leaves out times, and the order that comes of them.
fn without_times(mut report: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !name.ends_with("_ns"));
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => {
                items.iter_mut().for_each(strip);
                items.sort_by_key(Value::to_string);
            }
            _ => {}
        }
    }
    strip(&mut report);
    report
}

/// The example of the documentation, over the CRS.
#[test]
fn over_the_core_rule_set() {
    const BEGIN: &str = "<!-- example, written by cli/tests/profile.rs -->\n```\n";
    let crs = crs();
    let crs = crs.to_str().unwrap();
    let arguments =
        ["profile", "-q", "--crs", crs, "--counts", "--top", "8", "explain/requests.jsonl"];
    let ran = glacis_with(&arguments, b"");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/profile.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let renewed = format!("{before}{BEGIN}{}```\n{after}", ran.stdout);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &renewed).unwrap();
    } else {
        assert_eq!(page, renewed, "docs/profile.md; UPDATE_EXPECT=1 rewrites it");
    }
}
