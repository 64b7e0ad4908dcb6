//! `load`: what it takes to load rules, and the memory of a process that works with them.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    sync::Arc,
    thread,
};

use glacis_engine::{Program, Transaction};
use serde_json::json;

use crate::{Outcome, clock::cpu_time, program, request::Request};

/// Loads the rules, has `workers` threads take all requests, each with a transaction of its own, and
/// prints what that took, as a JSON object.
pub(crate) fn run(rules: &str, requests: &str, workers: &str) -> Outcome<()> {
    let program = program(rules)?;
    let load_ms = cpu_time().as_secs_f64() * 1e3;
    let loaded = status("VmRSS:")?;
    let refused = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.parse()?)
            .map(|_| scope.spawn(|| work(&program, requests).map_err(|error| error.to_string())))
            .collect();
        // All of them are there, with their transactions, until the last one is done.
        let held: Vec<(Transaction, usize)> = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| "a worker died".to_owned())?)
            .collect::<Result<_, String>>()?;
        let (rss, peak) = (status("VmRSS:")?, status(PEAK_MEMORY)?);
        let refused: Vec<usize> = held.iter().map(|(_, refused)| *refused).collect();
        Outcome::Ok((rss, peak, refused))
    });
    let (rss, peak, refused) = refused?;
    let told = json!({
        "load_ms": load_ms,
        "rules": program.rule_count(),
        "rss_loaded_bytes": loaded,
        "rss_bytes": rss,
        "rss_peak_bytes": peak,
        // That rules ran: the workload has attacks.
        "refused": refused,
    });
    println!("{told}");
    Ok(())
}

/// Takes the requests one by one: none but the one at hand is in memory. Returns the transaction, and how
/// many requests were refused.
fn work(program: &Arc<Program>, requests: &str) -> Outcome<(Transaction, usize)> {
    let mut transaction = Transaction::new(Arc::clone(program));
    let mut refused = 0;
    for line in BufReader::new(File::open(requests)?).lines() {
        Request::parse(&line?)?.inspect(&mut transaction);
        refused += usize::from(transaction.verdict().refusal().is_some());
    }
    Ok((transaction, refused))
}

/// The largest size that this process had.
pub(crate) const PEAK_MEMORY: &str = "VmHWM:";

/// A size of this process in bytes (Linux, proc(5), `status`).
pub(crate) fn status(name: &str) -> Outcome<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes << 10)
}

/// Sets the largest size of this process back to the present one (Linux, proc(5), `clear_refs`).
pub(crate) fn forget_peak() -> Outcome<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}
