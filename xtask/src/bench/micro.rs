//! `cargo xtask bench micro`: the microbenchmarks of `bench/drivers/micro`, under criterion.

use crate::cargo::{self, cargo};
use crate::failure::Outcome;
use crate::fetch;

/// `bench micro [--short] [-- ARGS]`: with `--short` each section runs once, and proves that its rules do.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, passed) = crate::flags(arguments, &["--short"])?;
    let fetched = fetch::ensure()?;
    let mut bench = cargo(["bench", "--locked", "--package", "glacis-bench-micro"]);
    bench.args(["--manifest-path", "bench/drivers/Cargo.toml", "--target-dir"]);
    // As for every build that is measured.
    bench.env("CARGO_INCREMENTAL", "0").env("CRITERION_HOME", super::folder().join("criterion"));
    bench.arg(super::folder().join("drivers")).env("GLACIS_CRS_DIR", &fetched.crs).arg("--");
    if flags.contains(&"--short") {
        bench.arg("--test");
    }
    cargo::run(bench.args(passed))
}
