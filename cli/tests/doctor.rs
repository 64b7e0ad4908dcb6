//! `glacis doctor`: what is found, how it is printed, and the exit status.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{expect, glacis};
use serde_json::Value;

#[test]
fn findings_are_printed_with_their_remedies() {
    let ran = glacis("doctor --config doctor/ext-proc.yaml --envoy doctor/envoy.yaml", b"");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
    expect("doctor/findings.txt", &ran.stdout);
}

#[test]
fn ids_and_exit_status() {
    for (arguments, ids, status) in [
        ("--config doctor/ext-proc.yaml", &["GD102", "GD104", "GD108", "GD203"][..], 1),
        ("--config doctor/ext-proc.yaml --ignore GD102,gd104,GD108,GD203", &[], 0),
        ("--config doctor/refused.yaml", &["GD201"], 1),
        ("--envoy doctor/envoy.yaml", &["GD301", "GD319"], 1),
        ("--rules doctor/rules.conf --base", &["GD203"], 1),
        ("--rules lint/directive.conf", &["GD201"], 1),
    ] {
        let ran = glacis(&format!("doctor --format json {arguments}"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(status), ""), "{arguments}: {ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        let findings = answer["findings"].as_array().unwrap().iter();
        let found: Vec<&str> = findings.map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!(found, ids, "{arguments}: {}", ran.stdout);
    }
}

#[test]
fn crs_as_it_comes_is_healthy() {
    let crs = run::crs();
    let ran = run::glacis_with(&["doctor", "--crs", crs.to_str().unwrap()], b"");
    assert_eq!(ran.stdout, "errors: 0, warnings: 0, notes: 0\n", "{ran:?}");
}
