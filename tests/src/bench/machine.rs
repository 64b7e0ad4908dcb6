//! Which machine it was, for whoever reads the numbers.

use std::fs;
use std::thread::available_parallelism;

/// Processors, memory, system, and which rules.
pub fn describe() -> String {
    let cores = available_parallelism().map_or(1, usize::from);
    let model =
        line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = line_of("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // What a distribution or a provider has appended says nothing of speed.
    let system = system.trim().split(['-', '+']).next().unwrap_or_default().to_owned();
    format!(
        "Machine: {cores} processors ({model}), {} GiB, Linux {system} on {}. Envoy and CRS are those of `cargo xtask fetch`.",
        kib >> 20,
        std::env::consts::ARCH,
    )
}

/// How busy it is.
pub fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn line_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_processors_and_memory() {
        let text = describe();
        assert!(!text.contains(" 0 GiB") && text.contains("Linux "), "{text}");
        assert!(load_average().contains('/'));
    }
}
