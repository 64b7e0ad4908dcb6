//! `cargo xtask bench load`: what it takes to load CRS at its highest paranoia level, and the memory of
//! a process with two workers that have taken all requests of the workload.
//!
//! Targets are what we want, bounds what is not to be crossed: where a target is not reached yet, the
//! bound is a little above what is seen.

use std::process::Command;

use serde_json::Value;

use super::prepare;
use crate::cargo::output;
use crate::failure::{Failure, Outcome};
use crate::fetch::{self, Fetched};

const LEVEL: u8 = 4;
const WORKERS: &str = "2";

/// Times that are measured, as long as one is over a bound. Machines are shared, and may be slow for a while;
/// what is slow of itself is so each time.
const ATTEMPTS: usize = 3;

const MIB: f64 = (1 << 20) as f64;

/// A number of the probe, with its unit.
struct Row {
    name: &'static str,
    key: &'static str,
    divisor: f64,
    unit: &'static str,
    target: f64,
    bound: f64,
}

const ROWS: &[Row] = &[
    Row {
        name: "loading, CPU time",
        key: "load_ms",
        divisor: 1.0,
        unit: "ms",
        target: 1500.0,
        bound: 1500.0,
    },
    Row {
        name: "memory, loaded",
        key: "rss_loaded_bytes",
        divisor: MIB,
        unit: "MiB",
        target: 64.0,
        bound: 64.0,
    },
    Row {
        name: "memory, two workers",
        key: "rss_bytes",
        divisor: MIB,
        unit: "MiB",
        target: 64.0,
        bound: 120.0,
    },
];

/// `bench load`.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    compare(&fetch::ensure()?)
}

/// Measures; more than a bound, each time, is a failure.
pub(super) fn compare(fetched: &Fetched) -> Outcome<()> {
    if !cfg!(target_os = "linux") {
        println!("memory and time of loading are measured on Linux only");
        return Ok(());
    }
    let folder = super::folder();
    let requests = prepare::workload(&folder)?.join("all.jsonl");
    let rules = prepare::rules(&folder, &fetched.crs, LEVEL)?;
    let mut probe = Command::new(prepare::probe()?);
    probe.arg("load").args([&rules.shipped, &requests]).arg(WORKERS);
    let mut over = Vec::new();
    for _ in 0..ATTEMPTS {
        let told: Value = serde_json::from_str(&output(&mut probe)?)
            .map_err(|error| Failure::new(format!("the probe's answer is not JSON: {error}")))?;
        over = rows(&told)?;
        if over.is_empty() {
            return Ok(());
        }
    }
    Err(Failure::new(format!("over the bound: {}", over.join(", "))))
}

/// Prints the rows, and returns the names of those that are over their bounds.
fn rows(told: &Value) -> Outcome<Vec<&'static str>> {
    // The workload has attacks: a process that refused none has not run its rules.
    let each_refused = |workers: &Vec<Value>| {
        !workers.is_empty() && workers.iter().all(|refused| refused.as_u64() > Some(0))
    };
    let refused = told["refused"].as_array().is_some_and(each_refused);
    if told["rules"].as_u64() < Some(500) || !refused {
        return Err(Failure::new(format!("rules were not run: {told}")));
    }
    println!("{:<24} {:>8} {:>8} {:>8}", "CRS, paranoia level 4", "target", "bound", "now");
    let mut over = Vec::new();
    for Row { name, key, divisor, unit, target, bound } in ROWS {
        let missing = || Failure::new(format!("the probe told no {key}: {told}"));
        let now = told[*key].as_f64().ok_or_else(missing)? / divisor;
        println!("{name:<24} {target:>8.0} {bound:>8.0} {now:>8.0} {unit}");
        if now > *bound {
            over.push(*name);
        }
    }
    Ok(over)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_are_kept_and_rules_have_run() {
        let told = |load_ms: u64, mebibytes: u64, refused: u64| {
            json!({"rules": 600, "load_ms": load_ms, "rss_loaded_bytes": 1, "refused": [3, refused],
                "rss_bytes": mebibytes << 20})
        };
        let over = |told: &Value| rows(told).map_err(|failure| failure.to_string());
        assert_eq!(over(&told(1_500, 120, 1)), Ok(Vec::new()));
        let all = Ok(vec!["loading, CPU time", "memory, two workers"]);
        assert_eq!(over(&told(1_501, 121, 1)), all);
        assert!(over(&told(1, 1, 0)).is_err());
        assert!(over(&json!({"rules": 600, "refused": [1]})).is_err());
        let mut of_nobody = told(1, 1, 1);
        of_nobody["refused"] = json!([]);
        assert!(over(&of_nobody).is_err(), "no worker has told what it refused");
    }
}
