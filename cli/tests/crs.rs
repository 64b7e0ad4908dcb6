//! The regression tests of CRS itself, in process: as `cargo xtask ftw` runs them.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{crs, glacis_with};

/// CRS's tests come out the same with the engine's fast path and without it.
#[test]
fn every_test_that_an_engine_decides_passes() {
    let fast = summary(&["--quiet"]);
    assert_eq!(summary(&["--quiet", "--every-rule"]), fast);
    let passed = fast.split(' ').next().and_then(|count| count.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed > 4_600), "{fast}");
}

fn summary(options: &[&str]) -> String {
    let crs = crs();
    let tests = crs.join("tests");
    let arguments = [
        &[
            "ftw",
            "--base",
            "--rules",
            "../../../tests/crs/regression.conf",
            "--crs",
            crs.to_str().unwrap(),
            "--tests",
            tests.to_str().unwrap(),
            "--overrides",
            "../../../tests/crs/overrides.yaml",
        ][..],
        options,
    ]
    .concat();
    let ran = glacis_with(&arguments, b"");
    assert_eq!(ran.status, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran.stdout.lines().last().unwrap_or_default().to_owned()
}
