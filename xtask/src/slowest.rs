//! `cargo xtask slowest`: the tests that take longest. What they guard stands in `tests/README.md`.

use std::process::Stdio;

use crate::cargo::{self, cargo};
use crate::failure::{Failure, Outcome};
use crate::fetch;
use crate::suite;

/// How many are listed.
const LISTED: usize = 20;

/// Runs each test in a shell's `env`, which lets the test harness of a stable toolchain report times.
const RUNNER: &str = "env RUSTC_BOOTSTRAP=1";

/// `cargo xtask slowest`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = suite::build_wasm()?;
    let artifacts = cargo::build(&["--workspace", "--bins", "--tests"])?;
    // Not the examples in documentation, which another harness runs.
    let mut test = cargo(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    test.args(["--", "-Zunstable-options", "--report-time"]);
    test.env(format!("CARGO_TARGET_{}_RUNNER", variable(&cargo::host()?)), RUNNER);
    test.env("GLACIS_REDIS", &redis);
    test.envs(suite::settings(&fetched, Some(wasm), &artifacts));
    let output = test.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::new(format!("cannot start cargo: {error}")))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let mut times = times(&told);
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    let all: f64 = times.iter().map(|(seconds, _)| seconds).sum();
    println!("{} tests, {all:.0} s one after another; the slowest:", times.len());
    for (seconds, name) in times.iter().take(LISTED) {
        println!("{seconds:>7.2} s  {name}");
    }
    if output.status.success() { Ok(()) } else { Err(Failure::new("a test has failed")) }
}

/// A target's name as cargo has it in names of variables.
fn variable(target: &str) -> String {
    target.to_uppercase().replace('-', "_")
}

/// Of lines such as `test lease::renewed ... ok <0.012s>`, seconds and name.
fn times(told: &str) -> Vec<(f64, String)> {
    let time = |line: &str| {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = rest.split_once('<')?.1.strip_suffix("s>")?;
        Some((seconds.parse().ok()?, name.to_owned()))
    };
    told.lines().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_what_the_harness_says() {
        let told = "running 3 tests\ntest a::b ... ok <0.012s>\ntest c ... FAILED <3.500s>\n\
                    test d ... ignored\n\ntest result: ok. 1 passed; finished in 0.01s\n";
        assert_eq!(times(told), [(0.012, "a::b".to_owned()), (3.5, "c".to_owned())]);
    }

    #[test]
    fn a_target_names_a_variable() {
        assert_eq!(variable("x86_64-unknown-linux-gnu"), "X86_64_UNKNOWN_LINUX_GNU");
    }
}
