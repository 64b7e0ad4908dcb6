//! `components [--short]`: what each part takes by itself. `cargo xtask bench components` builds what is needed and runs it;
//! `bench/components.md` says what the numbers mean.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use glacis_tests::components::{Took, calls, round_trips};
use glacis_tests::decisions::{Bench, TARGETS};
use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::machine::{load_average, machine};

fn main() -> ExitCode {
    let short = std::env::args().any(|argument| argument == "--short");
    exit("components", run(short).map(|()| true))
}

fn run(short: bool) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("glacis-parts-{}", std::process::id()));
    let (batches, time) = if short { (20, 300) } else { (2_000, 5_000) };
    let time = Duration::from_millis(time);
    println!("{}\nload before: {}\n", machine(), load_average());
    println!("| part | mean | p50 | p95 | p99 | per second |\n|---|---:|---:|---:|---:|---:|");
    for row in calls(batches)? {
        told(&row);
    }
    let asked = round_trips(&folder, time)?;
    asked.rows.iter().for_each(told);
    println!("\n| memory | MiB |\n|---|---:|");
    for (name, bytes) in asked.memory {
        println!("| {name} | {:.1} |", bytes as f64 / f64::from(1 << 20));
    }
    println!("\n| GET through Envoy, one connection | mean | p50 | p99 |\n|---|---:|---:|---:|");
    let mut bench = Bench::start(&folder.join("native"), "")?;
    let seen = bench.headers_only(1, if short { 1 } else { 10 }, time / 10)?;
    for (name, seen) in TARGETS.into_iter().zip(seen) {
        println!(
            "| {name} | {:.0} µs | {:.0} µs | {:.0} µs |",
            seen.mean_us, seen.p50_us, seen.p99_us
        );
    }
    drop(bench);
    println!("\nload after: {}", load_average());
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}

fn told(row: &Took) {
    let [p50, p95, p99] = row.percentiles_ns.map(told_time);
    let per_second = 1e9 / row.mean_ns;
    println!(
        "| {} | {} | {p50} | {p95} | {p99} | {per_second:.0} |",
        row.name,
        told_time(row.mean_ns)
    );
}

fn told_time(ns: f64) -> String {
    if ns < 1e4 { format!("{ns:.0} ns") } else { format!("{:.1} µs", ns / 1e3) }
}
