//! `decisions [--short] [--long] [--off]`: what asking ext-proc adds to a request. `cargo xtask bench decisions` builds what is
//! needed and runs it; `bench/decisions.md` says what the numbers mean.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use glacis_tests::decisions::{Bench, Seen, TARGETS, ratio};
use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::machine::load_average;

/// What ext-proc may add, as a multiple of what the processor adds that looks at nothing.
const TARGET: f64 = 1.2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    exit("decisions", run(has("--short"), has("--long"), has("--off")).map(|()| true))
}

fn run(short: bool, long: bool, off: bool) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("glacis-decisions-{}", std::process::id()));
    let mut bench = Bench::start(&folder, if off { "mode: off\n" } else { "" })?;
    if off {
        println!("without rules: what ext-proc adds besides them");
    }
    let (rounds, slice) = if short { (2, 200) } else { (15, 1_000) };
    println!("load of the machine before: {}", load_average());
    for connections in [1, 16] {
        let seen = bench.headers_only(connections, rounds, Duration::from_millis(slice))?;
        println!("\n{connections} connection(s), headers only, through Envoy, Unix socket");
        table(&TARGETS.into_iter().zip(seen).collect::<Vec<_>>());
        let (p50, mean) = (ratio(&seen, |seen| seen.p50_us), ratio(&seen, |seen| seen.mean_us));
        println!(
            "ext-proc adds {p50:.2} times what the empty one adds (median), {mean:.2} (mean); target {TARGET}"
        );
    }
    if long {
        more(&mut bench)?;
    }
    println!("\nload of the machine after: {}", load_average());
    drop(bench);
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}

/// The long form: decisions without Envoy, and memory.
fn more(bench: &mut Bench) -> Outcome<()> {
    let ghz = std::env::var("GLACIS_GHZ").unwrap_or_else(|_| "ghz".to_owned());
    let unix = bench.ghz(&ghz, true, 10)?;
    let tcp = bench.ghz(&ghz, false, 10)?;
    println!("\nghz, 16 calls at once, without Envoy");
    table(&[("Unix socket", unix), ("TCP", tcp)]);
    println!("decisions per second of CPU time: {:.0}, {:.0}", 1e6 / unix.cpu_us, 1e6 / tcp.cpu_us);
    let (count, most, now) = bench.mixed(400, Duration::from_secs(30))?;
    println!("\n400 connections, requests of all kinds: {count} requests");
    println!("resident memory: {} MiB at the most, {} MiB at the end", most >> 20, now >> 20);
    Ok(())
}

fn table(rows: &[(&str, Seen)]) {
    println!(
        "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "", "requests", "mean µs", "p50 µs", "p99 µs", "per s", "CPU µs each"
    );
    for (name, seen) in rows {
        println!(
            "{name:<12} {:>9} {:>9.1} {:>9.1} {:>9.1} {:>9.0} {:>12.1}",
            seen.count, seen.mean_us, seen.p50_us, seen.p99_us, seen.per_second, seen.cpu_us
        );
    }
}
