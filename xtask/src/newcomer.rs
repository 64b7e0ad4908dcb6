//! `cargo xtask newcomer`: what README.md says from a clone to a refused attack, with a clock beside it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};
use crate::machine;

/// What README.md has one do in a new clone before anything of it can be started.
const STEPS: [&str; 3] =
    ["cargo xtask fetch", "cargo xtask wasm", "cargo build --release -p glacis-ext-proc"];

/// The test that takes the other steps, from services that are started to a refused attack.
const TEST: &str = "attach::an_envoy_of_ones_own_refuses_the_attack_of_the_readme";

/// What the test says behind its seconds.
const TOLD: &str = " s from the start of the services to the first refusal";

/// `cargo xtask newcomer [--report FILE]`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let report = crate::report_file(arguments)?;
    // Not a newcomer's work, so it is not among what is timed.
    let tests = cargo::build(&["-p", "glacis-tests", "--test", "e2e", "--bin", "sample-upstream"])?;
    let test = tests.tests.keys().next();
    let test = test.ok_or_else(|| Failure::new("cargo has built no end-to-end tests"))?;
    let clone = cargo::root().join("target/newcomer/clone");
    if clone.exists() {
        fs::remove_dir_all(&clone).map_err(failure::io("remove", &clone))?;
    }
    let mut timed = Vec::new();
    let begun = Instant::now();
    let mut git = Command::new("git");
    output(git.args(["clone", "--quiet", "--local"]).args([&cargo::root(), &clone]))?;
    timed.push(("git clone".to_owned(), begun.elapsed().as_secs_f64()));
    for step in STEPS {
        let begun = Instant::now();
        let mut shell = Command::new("sh");
        cargo::run(shell.args(["-c", step]).current_dir(&clone).env_remove("CARGO_TARGET_DIR"))?;
        timed.push((step.to_owned(), begun.elapsed().as_secs_f64()));
    }
    let seconds = refused(test, &clone, tests.program("sample-upstream")?)?;
    timed.push(("services, Envoy, the attack".to_owned(), seconds));
    let table = table(&timed);
    println!("{table}");
    report.map_or(Ok(()), |file| fs::write(file, page(&table)).map_err(failure::io("write", file)))
}

/// Runs the test on what the clone has built; the seconds that it tells.
fn refused(test: &Path, clone: &Path, upstream: &Path) -> Outcome<f64> {
    let mut command = Command::new("sh");
    // It tells its seconds where it tells what is wrong.
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(test);
    command.args([TEST, "--exact", "--nocapture"]);
    command.env("GLACIS_ROOT", clone).env("GLACIS_SAMPLE_UPSTREAM", upstream);
    command.env("GLACIS_EXT_PROC", clone.join("target/release/glacis-ext-proc"));
    let told = output(&mut command)?;
    seconds(&told).ok_or_else(|| Failure::new(format!("the test does not tell its time:\n{told}")))
}

/// The number before [`TOLD`].
fn seconds(told: &str) -> Option<f64> {
    let mut lines = told.lines();
    lines.find_map(|line| line.split_once(TOLD)?.0.rsplit(' ').next()?.parse().ok())
}

/// Steps with their seconds, and the sum of them.
fn table(timed: &[(String, f64)]) -> String {
    let sum: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
    let row = |(step, seconds): &(String, f64)| format!("| {step} | {seconds:.1} |\n");
    let rows: String = timed.iter().map(row).collect();
    format!("| step | s |\n|---|---:|\n{rows}| **all** | {sum:.0} |\n")
}

/// The table with how it came about.
fn page(table: &str) -> String {
    let (date, machine) = (machine::date(), machine::name());
    format!(
        "# `cargo xtask newcomer`\n\n\
         README.md's way from a clone to a refused attack on an Envoy of one's own, on {date}, as the command wrote it \
         down (`--report`).\n\
         Machine: {machine}.\n\
         The clone is of a repository on the same disk; everything else is as on a new machine, but that the toolchain \
         was there, and the sources of the crates were in cargo's cache.\n\
         To read, to copy the filters, and to type is not in it.\n\n{table}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_becomes_a_table() {
        let told = format!("running 1 test\ntest it ... 2.5{TOLD}\nok\n");
        assert_eq!(seconds(&told), Some(2.5));
        assert_eq!(seconds("running 0 tests\n"), None);
        let timed = [("git clone".to_owned(), 0.25), ("build".to_owned(), 100.0)];
        assert_eq!(
            table(&timed),
            "| step | s |\n|---|---:|\n| git clone | 0.2 |\n| build | 100.0 |\n| **all** | 100 |\n"
        );
    }
}
