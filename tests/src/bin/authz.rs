//! `authz [--short] [--peer PROGRAM]`: what asking ext-authz costs. `cargo xtask bench authz` builds what is needed and
//! runs it; `bench/authz.md` says what the numbers mean.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use glacis_tests::authz::{Bench, Kept, Leased, Over, Question, leased};
use glacis_tests::decisions::Seen;
use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::machine::load_average;

/// Milliseconds within which ninety-nine of a hundred Checks are to be answered on loopback.
const P99_MS_TARGET: f64 = 1.0;
/// Round trips to Redis for a request, at so many requests in a second for one key.
const ROUND_TRIPS_TARGET: f64 = 0.01;
const LEASED_RATE: u32 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = arguments.iter().any(|argument| argument == "--short");
    let peer =
        arguments.iter().skip_while(|argument| *argument != "--peer").nth(1).map(PathBuf::from);
    exit("authz", run(short, peer.as_deref()).map(|()| true))
}

fn run(short: bool, peer: Option<&Path>) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("glacis-authz-{}", std::process::id()));
    let time = Duration::from_millis(if short { 300 } else { 10_000 });
    let ghz = std::env::var("GLACIS_GHZ").ok();
    println!("load of the machine before: {}", load_average());
    println!("\n16 calls at once over 4 connections");
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>9} {:>13}",
        "", "calls", "p50 µs", "p99 µs", "per s", "per s of CPU"
    );
    for (kept, place) in [(Kept::InMemory, "in memory"), (Kept::InRedis, "in Redis")] {
        let mut bench = Bench::start(&folder.join(place.replace(' ', "-")), kept, peer)?;
        for (over, how) in [(Over::Unix, "Unix socket"), (Over::Tcp, "TCP")] {
            let before = bench.round_trips()?;
            let seen = bench.ask(Question::Check, over, time)?;
            row(&format!("Check, {place}, {how}"), seen);
            if kept == Kept::InRedis {
                let trips = bench.round_trips()? - before;
                println!("    round trips to Redis, the warm-up included: {trips}");
            }
            if let Some(ghz) = &ghz {
                let seconds = u32::try_from(time.as_secs().max(1)).unwrap_or(1);
                row(&format!("Check, {place}, {how}, by ghz"), bench.ghz(ghz, over, seconds)?);
            }
        }
        row(
            &format!("ShouldRateLimit, {place}, TCP"),
            bench.ask(Question::RateLimit, Over::Tcp, time)?,
        );
        if let Some(seen) = bench.ask_theirs(time)? {
            row("ShouldRateLimit, envoyproxy/ratelimit, TCP", seen);
        }
    }
    println!("target: p99 under {P99_MS_TARGET} ms");
    for (limit, what) in [(1_200, "below the limit"), (500, "twice the limit")] {
        let time = Duration::from_secs(if short { 2 } else { 30 });
        told(what, leased(&folder.join("leased"), LEASED_RATE, limit, time)?);
    }
    println!("\nload of the machine after: {}", load_average());
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}

fn row(name: &str, seen: Seen) {
    println!(
        "{name:<44} {:>9} {:>9.1} {:>9.1} {:>9.0} {:>13.0}",
        seen.count,
        seen.p50_us,
        seen.p99_us,
        seen.per_second,
        1e6 / seen.cpu_us
    );
}

fn told(what: &str, leased: Leased) {
    let Leased { requests, per_second, passed, allowed, bound, calls, round_trips } = leased;
    println!(
        "\nleases, three Envoys, one key, {what}: {requests} requests, {per_second:.0} in a second\n  \
         passed {passed}; the limit allows {allowed:.0}, the bound is {bound:.0}\n  \
         {calls} calls of the lender, {round_trips} round trips to Redis: {:.4} for each request (target \
         {ROUND_TRIPS_TARGET})",
        round_trips as f64 / requests as f64
    );
}
