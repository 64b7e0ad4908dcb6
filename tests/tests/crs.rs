//! Every regression test of CRS over a real Envoy, with ext-proc and with the native module.
//!
//! A binary of its own: cargo runs it when the end-to-end tests, some of which look at the clock, are
//! over, and both cores are free for it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends at what it did not expect"
)]

use std::path::PathBuf;

use glacis_tests::crs::{ENVOY, Regression};
use glacis_tests::{envoy, settings};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn every_test_passes_or_envoy_has_decided_it() {
    // One after the other: each takes all cores.
    check(&Regression::start(&folder("crs")).unwrap());
    check(&Regression::start_natively(&folder("crs-native")).unwrap());
}

#[track_caller]
fn check(regression: &Regression) {
    let output = regression.ftw(&["--json".to_owned()]).unwrap().output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let logs = regression.folder.story();
    let report: Value = serde_json::from_str(&told).expect(&logs);
    assert!(output.status.success(), "{:#}\n{logs}", report["failures"]);
    // Nothing is left out.
    assert_eq!(report["passed"], report["total"], "{:#}", report["skips"]);
    assert!(report["total"].as_u64() >= Some(4_674), "{}", report["total"]);
}

#[test]
fn envoy_deprecates_nothing_in_the_configuration() {
    let config = settings::root().join(ENVOY);
    let told = envoy::validate(&settings::envoy().unwrap(), &settings::root(), &config).unwrap();
    assert!(!told.contains("eprecated") && !told.contains("work-in-progress"), "{told}");
}
