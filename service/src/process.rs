//! What the process takes of the machine, under the names that Prometheus's client libraries use.
//! Looked up when it is asked for (proc(5)); what the system does not tell is left out.

use core::time::Duration;
use std::fs;

use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use crate::{clock::now, metric_family::Described};

const CPU: Described = Described::counter(
    "process_cpu_seconds",
    "seconds",
    &[],
    "Time of the CPU that the process has taken, for itself and in the kernel",
);
const MEMORY: Described = Described::gauge(
    "process_resident_memory_bytes",
    "bytes",
    &[],
    "Memory of the process that is in RAM",
);
const FILES: Described =
    Described::gauge("process_open_fds", "files", &[], "File descriptors that are open");
const FILES_MAX: Described = Described::gauge(
    "process_max_fds",
    "files",
    &[],
    "File descriptors that may be open (the soft limit)",
);
const START: Described = Described::gauge(
    "process_start_time_seconds",
    "seconds",
    &[],
    "When metrics of the process began, since 1970",
);

/// The families, for documentation.
pub const FAMILIES: [Described; 5] = [CPU, MEMORY, FILES, FILES_MAX, START];

/// Registers the families.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(Process { began: now().as_secs_f64() }));
}

#[derive(Debug)]
struct Process {
    began: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> core::fmt::Result {
        if let Some(used) = Used::now() {
            CPU.encode(&mut encoder, &ConstCounter::new(used.cpu.as_secs_f64()))?;
            MEMORY.encode(&mut encoder, &ConstGauge::new(used.memory_bytes))?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The folder itself is open while it is read.
            let count = i64::try_from(files.count()).unwrap_or(i64::MAX).saturating_sub(1);
            FILES.encode(&mut encoder, &ConstGauge::new(count))?;
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        if let Some(limit) = limit.and_then(|limit| i64::try_from(limit).ok()) {
            FILES_MAX.encode(&mut encoder, &ConstGauge::new(limit))?;
        }
        START.encode(&mut encoder, &ConstGauge::new(self.began))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Used {
    cpu: Duration,
    memory_bytes: i64,
}

impl Used {
    fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let page_bytes = i64::try_from(rustix::param::page_size()).ok()?;
        Self::told(&stat, rustix::param::clock_ticks_per_second(), page_bytes)
    }

    /// As `/proc/self/stat` tells it, whose fields follow the name of the process in parentheses.
    fn told(stat: &str, ticks_per_second: u64, page_bytes: i64) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        // The state is field 3 there: utime and stime are 14 and 15, rss is 24.
        let mut fields = rest.split(' ').skip(14 - 3);
        let ticks: u64 = fields.next()?.parse().ok()?;
        let kernel_ticks: u64 = fields.next()?.parse().ok()?;
        let pages: i64 = fields.nth(24 - 16)?.parse().ok()?;
        let milliseconds = ticks.saturating_add(kernel_ticks).saturating_mul(1_000);
        Some(Self {
            cpu: Duration::from_millis(milliseconds / ticks_per_second.max(1)),
            memory_bytes: pages.saturating_mul(page_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_told() {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for family in FAMILIES {
            let name = family.queried();
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            let value: f64 =
                value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap();
            assert!(value >= 0.0, "{name}: {value}");
        }
        assert!(Used::now().unwrap().memory_bytes > 1 << 20);
    }

    #[test]
    fn what_the_system_tells() {
        let stat =
            |ticks: u64| format!("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 {ticks} 50 0 0 20 0 1 0 9 8 3 x");
        let used = |seconds: u64| {
            let cpu = Duration::from_millis(seconds * 1_000 + 500);
            Some(Used { cpu, memory_bytes: 3 * 4_096 })
        };
        // The last is more than 2^32 ticks: 32 cores take two weeks for as many.
        for seconds in [0, 1, 50_000_000] {
            assert_eq!(Used::told(&stat(seconds * 100), 100, 4_096), used(seconds));
        }
        assert_eq!(Used::told("7 (a) S 1", 100, 4_096), None);
    }
}
