//! What figures were measured on.

use std::fs;
use std::process::Command;

/// The processor, how many of it, memory and the system, in a line.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let information = read("/proc/cpuinfo");
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = memory.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let gib = kib.unwrap_or_default() as f64 / f64::from(1 << 20);
    let kernel = read("/proc/sys/kernel/osrelease");
    // What a distribution or a provider has appended says nothing of speed.
    let version = kernel.split(['-', '+']).next().unwrap_or_default().trim();
    let architecture = std::env::consts::ARCH;
    format!("{model}, {processors} processors, {gib:.0} GiB, Linux {version} on {architecture}")
}

/// How busy it is, as `/proc/loadavg` has it.
pub fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// Today, as `2026-01-31`.
pub fn date() -> String {
    let told = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    date.unwrap_or_else(|_| "undated".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_processors_and_memory() {
        let text = machine();
        assert!(!text.contains(" 0 GiB") && text.contains("Linux "), "{text}");
        assert!(load_average().contains('/'));
        assert_eq!(date().len(), "2026-01-31".len());
    }
}
