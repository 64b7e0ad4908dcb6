//! `filter-bench [--short]`: what the checks cost a request in Envoy. `cargo xtask bench filter` builds what is
//! needed and runs it; `bench/filter.md` says what the numbers mean.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::filter_bench::{Bench, TARGETS, share};
use glacis_tests::machine::load_average;

/// The share of the empty module's throughput that ours is to keep.
const TARGET: f64 = 0.85;

fn main() -> ExitCode {
    let short = std::env::args().any(|argument| argument == "--short");
    exit("filter-bench", run(short).map(|()| true))
}

fn run(short: bool) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("glacis-filter-bench-{}", std::process::id()));
    let begun = Instant::now();
    let mut bench = Bench::start(&folder)?;
    println!("load of the machine before: {}", load_average());
    println!("Envoy took {:.1} s to start with all modules", begun.elapsed().as_secs_f64());
    let (rounds, slice) = if short { (2, 200) } else { (15, 1_000) };
    for connections in [1, 16] {
        let seen = bench.run(connections, rounds, Duration::from_millis(slice))?;
        println!("\n{connections} connection(s), one worker");
        println!(
            "{:<14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "requests", "p50 µs", "p99 µs", "per s", "of empty", "CPU µs"
        );
        for (target, (name, row)) in TARGETS.iter().zip(&seen).enumerate() {
            println!(
                "{name:<14} {:>9} {:>9.1} {:>9.1} {:>9.0} {:>8.1} % {:>8.1}",
                row.seen.count,
                row.seen.p50_us,
                row.seen.p99_us,
                row.seen.per_second,
                share(&seen, target, 1) * 100.0,
                row.cpu_us
            );
        }
        println!("target for `filter`: {:.0} % of `empty`", TARGET * 100.0);
    }
    println!("\nEnvoy, resident: {} MiB", bench.memory()? >> 20);
    println!("load of the machine after: {}", load_average());
    drop(bench);
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}
