//! `soak [--hours N | --minutes N | --seconds N] [--rps R] [--report FOLDER]`: mixed traffic at a steady rate through
//! a whole fleet, and a report on what grew. `cargo xtask soak` runs it.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use glacis_tests::failure::{Failure, Outcome, doing, exit};
use glacis_tests::soak::{self, Plan};

/// A million requests in an hour, and some.
const PER_SECOND: u32 = 285;
/// The form without options: three minutes.
const TIME: Duration = Duration::from_secs(180);
/// Pools, caches and allocators take some thousand requests to fill; of a short run a third is enough.
const WARM_UP_MAX: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    exit("soak", run())
}

fn run() -> Outcome<bool> {
    let mut plan = Plan { time: TIME, warm_up: TIME, per_second: PER_SECOND };
    let mut report: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next();
        let value = value.ok_or_else(|| Failure::new(format!("{option} needs a value")))?;
        let number = || value.parse::<u32>().map_err(doing("read a number"));
        let seconds = |each: u64| Ok(Duration::from_secs(u64::from(number()?) * each));
        match option.as_str() {
            "--hours" => plan.time = seconds(3600)?,
            "--minutes" => plan.time = seconds(60)?,
            "--seconds" => plan.time = seconds(1)?,
            "--rps" => plan.per_second = number()?,
            "--report" => report = Some(value.into()),
            _ => return Err(Failure::new(format!("there is no option {option}"))),
        }
    }
    plan.warm_up = (plan.time / 3).min(WARM_UP_MAX);
    let folder = std::env::temp_dir().join(format!("glacis-soak-{}", std::process::id()));
    println!("{} s at {} requests a second", plan.time.as_secs(), plan.per_second);
    let seen = soak::run(&folder.join("fleet"), &plan)?;
    let report = report.unwrap_or_else(|| folder.join("report"));
    let (good, text) = soak::write(&report, &plan, &seen)?;
    println!("{text}\nreport: {}", report.display());
    Ok(good)
}
