//! Other load generators, and what they tell of a load that they have sent.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::measure::children_seconds;
use crate::failure::{Failure, Outcome, doing, io};
use crate::load::{Pace, Plan};

/// How much longer than planned a load generator may take before it is ended.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// A load generator of somebody else's.
#[derive(Debug)]
pub struct Generator {
    /// Its name in tables.
    pub name: &'static str,
    /// Its program.
    pub program: &'static str,
    /// What the file is called that it reads requests from: its ending may say how it is read.
    pub(super) file: &'static str,
    /// The requests of a plan as it reads them; `None` if one of them cannot be sent by it.
    pub(super) requests: fn(&Plan<'_>) -> Option<String>,
    /// Its arguments for a plan, at a rate, with that file.
    pub(super) arguments: fn(&Plan<'_>, f64, &Path) -> Vec<String>,
    /// Reads what it prints, without what it took of the machine.
    pub(super) told: fn(&str) -> Option<Told>,
}

impl Generator {
    /// Whether it is on the path.
    pub fn is_there(&self) -> bool {
        program(self.program).is_some()
    }

    /// Sends what is planned; `None` where it is not there, in a closed loop, and for what it cannot send. What it needs is
    /// written into `folder`.
    ///
    /// # Errors
    ///
    /// If it fails, or says what is not understood.
    pub fn run(&self, plan: &Plan<'_>, folder: &Path) -> Outcome<Option<Told>> {
        let (Some(program), Pace::Open(rate)) = (program(self.program), plan.pace) else {
            return Ok(None);
        };
        let Some(requests) = (self.requests)(plan) else { return Ok(None) };
        let file = folder.join(self.file);
        fs::write(&file, requests).map_err(io("write", &file))?;
        let mut command = Command::new(&program);
        command.args((self.arguments)(plan, rate, &file));
        let out = folder.join(format!("{}.out", self.name));
        let (text, cpu_seconds) = output(&mut command, plan.time, &out)?;
        let told = (self.told)(&text)
            .ok_or_else(|| Failure::new(format!("{}: {text:.2000}", self.program)))?;
        Ok(Some(Told { cpu_seconds, ..told }))
    }
}

/// What it has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Answers by the first digit of their status: 1xx to 5xx.
    pub answers: [u64; 5],
    /// Streams that were reset, and connections that failed.
    pub broken: u64,
    /// Requests that found no connection.
    pub unsent: u64,
    /// Seconds.
    pub seconds: f64,
    /// Milliseconds.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// What 90 of 100 did not exceed.
    pub p90_ms: f64,
    /// What 99 of 100 did not exceed.
    pub p99_ms: f64,
    /// The most.
    pub max_ms: f64,
    /// What it took of the machine.
    pub cpu_seconds: f64,
}

/// The program of that name on the path.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Runs a load generator that should take `time`, and returns what it prints, with its CPU time in seconds.
///
/// # Errors
///
/// If it cannot be started, or does not end.
fn output(command: &mut Command, time: Duration, file: &Path) -> Outcome<(String, f64)> {
    let out = File::create(file).map_err(io("make", file))?;
    let before = children_seconds();
    let mut child = { command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn() }
        .map_err(doing("start a load generator"))?;
    let begun = Instant::now();
    while child.try_wait().map_err(doing("wait for a load generator"))?.is_none() {
        if begun.elapsed() > time + PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new("a load generator did not end"));
        }
        sleep(PAUSE);
    }
    let text = fs::read_to_string(file).map_err(io("read", file))?;
    Ok((text, children_seconds() - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_and_what_it_cost() {
        let file = env::temp_dir().join(format!("glacis-told-{}", std::process::id()));
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done";
        let mut command = Command::new("sh");
        let (text, seconds) = output(command.args(["-c", work]), PATIENCE, &file).unwrap();
        assert_eq!(text, "done\n");
        assert!(seconds > 0.01, "{seconds}");
        fs::remove_file(&file).unwrap();
        assert!(program("no-such-generator").is_none() && program("sh").is_some());
    }
}
