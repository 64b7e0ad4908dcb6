//! What was seen of one load on one stack.

use std::collections::BTreeMap;
use std::fs;

use crate::failure::{Failure, Outcome, doing};

/// What Linux counts CPU time in (`USER_HZ`), on every architecture that Envoy is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used (proc(5)).
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Which process.
    pub process: String,
    /// CPU time so far, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub rss: u64,
    /// The most of it so far.
    pub rss_peak: u64,
}

impl Account {
    /// The account of a running process.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn of(process: &str, id: u32) -> Outcome<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.map_err(doing(&format!("read the size of {process}")))?;
        let bytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
        };
        let (Some(rss), Some(rss_peak)) = (bytes("VmRSS:"), bytes("VmHWM:")) else {
            return Err(Failure::new(format!("{process} has ended")));
        };
        Ok(Self { process: process.to_owned(), cpu_seconds: cpu_seconds(id)?, rss, rss_peak })
    }
}

/// Bytes of a process in memory.
///
/// # Errors
///
/// If it has ended.
pub fn resident_bytes(id: u32) -> Outcome<u64> {
    Ok(Account::of(&format!("process {id}"), id)?.rss)
}

/// CPU time that a process has taken so far, in seconds.
///
/// # Errors
///
/// If it has ended.
pub(crate) fn cpu_seconds(id: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    Ok(seconds(&stat.map_err(doing("read the CPU time of a process"))?, OWN))
}

/// CPU time of this process's children that have ended, in seconds.
pub(super) fn children_seconds() -> f64 {
    seconds(&fs::read_to_string("/proc/self/stat").unwrap_or_default(), OF_CHILDREN)
}

/// Fields of `stat` behind the name of the program, before the two of CPU time in user mode and in the kernel.
const OWN: usize = 11;
const OF_CHILDREN: usize = 13;

fn seconds(stat: &str, before: usize) -> f64 {
    // The name of the program, in parentheses, may have blanks in it.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(before).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

/// Accounts of all processes of a stack at one time.
#[derive(Clone, Debug)]
pub struct Accounts(pub Vec<Account>);

impl Accounts {
    /// What was used since then.
    pub fn since(self, before: &Self) -> Vec<Account> {
        let pairs = self.0.into_iter().zip(&before.0);
        pairs
            .map(|(now, then)| Account { cpu_seconds: now.cpu_seconds - then.cpu_seconds, ..now })
            .collect()
    }
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Row {
    /// The part of the definition.
    pub part: String,
    /// The curve that it is a point of, and where on it.
    pub curve: Option<(String, f64)>,
    /// The stack.
    pub stack: String,
    /// The load generator.
    pub tool: &'static str,
    /// Whether its verdicts are ours.
    pub ours: bool,
    /// Seconds from the start of the first process to the first answer.
    pub start_seconds: f64,
    /// Connections.
    pub connections: usize,
    /// Requests a second that were due; `None` where each waited for the last answer.
    pub rate: Option<f64>,
    /// Answered requests, without those that were turned away.
    pub answered: u64,
    /// Of these in a second.
    pub per_second: f64,
    /// Whether the rate was held.
    pub held: bool,
    /// What one took, in milliseconds, counted from when it was due.
    pub mean_ms: f64,
    /// The median of these.
    pub p50_ms: f64,
    /// What 90 of 100 did not exceed.
    pub p90_ms: f64,
    /// What 99 of 100 did not exceed.
    pub p99_ms: f64,
    /// The most.
    pub max_ms: f64,
    /// Wrong answers: class, status expected, status seen.
    pub wrong: BTreeMap<(String, u16, u16), u64>,
    /// Requests that were turned away, as there was too much to do.
    pub shed: u64,
    /// What 99 of 100 of these did not exceed, in milliseconds.
    pub shed_p99_ms: f64,
    /// Requests without an answer.
    pub broken: u64,
    /// Requests that were due and not sent.
    pub unsent: u64,
    /// CPU time of the load generator for each request, in microseconds.
    pub client_us: f64,
    /// What each process has used; the upstream is one of them.
    pub used: Vec<Account>,
}

/// The name of the upstream among the processes: it is not part of what is measured.
pub const UPSTREAM: &str = "upstream";

impl Row {
    /// The processes that are measured.
    pub fn measured(&self) -> impl Iterator<Item = &Account> {
        self.used.iter().filter(|account| account.process != UPSTREAM)
    }

    /// CPU time of all that is measured, for each answered request, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        // From zero: a sum of nothing is -0.
        self.measured().fold(0.0, |sum, account| sum + self.us_each(account))
    }

    /// CPU time of one process for each answered request, in microseconds.
    pub fn us_each(&self, account: &Account) -> f64 {
        account.cpu_seconds * 1e6 / self.answered.max(1) as f64
    }

    /// Requests that one processor can do in a second, by their CPU time; `None` where nothing is measured.
    pub fn per_cpu(&self) -> Option<f64> {
        Some(self.cpu_us()).filter(|us| *us > 0.0).map(|us| 1e6 / us)
    }

    /// How requests were sent.
    pub fn load(&self) -> String {
        match self.rate {
            Some(rate) => format!("{rate:.0}/s over {}", self.connections),
            None => format!("closed loop of {}", self.connections),
        }
    }

    /// For whoever waits.
    pub fn line(&self) -> String {
        format!(
            "{}: {}, {}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, {:.0} us of CPU each{}{}",
            self.part,
            self.stack,
            self.load(),
            self.per_second,
            self.p50_ms,
            self.p99_ms,
            self.cpu_us(),
            if self.shed > 0 { format!(", {} turned away", self.shed) } else { String::new() },
            if self.held { "" } else { " (not held)" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 300 100 20 0 1 0 5 6 7";
        assert!((seconds(stat, OWN) - 3.0).abs() < 1e-9);
        assert!((seconds(stat, OF_CHILDREN) - 4.0).abs() < 1e-9);
        let own = Account::of("self", std::process::id()).unwrap();
        assert!(own.rss > 0 && own.rss_peak >= own.rss, "{own:?}");
    }
}
