//! What reports and commands ask of the machine that they run on.

use std::fs;
use std::process::Command;

use crate::cargo::output;
use crate::failure::Outcome;

/// Its processors, in words.
pub(crate) fn name() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {count} processors, {}", std::env::consts::OS)
}

/// Today, as in `2026-01-31`.
pub(crate) fn date() -> String {
    let told = output(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    told.map_or_else(|_| "undated".to_owned(), |date| date.trim().to_owned())
}

/// Whether we may do everything.
pub(crate) fn is_root() -> Outcome<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}
