//! `cargo xtask bench hostile`: what a byte of requests costs that were made to cost much, beside a byte
//! of prose, over growing sizes.
//!
//! Bytes are those that are sent: what an attacker pays with. A family whose bytes cost more than
//! [`RATIO_BOUND`] times those of prose is a failure, and so is one whose bytes become dearer as there are
//! more of them, which is what quadratic work looks like, or that reaches the limit of steps.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::prepare;
use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};
use crate::fetch::{self, Fetched};

const LEVEL: u8 = 4;

const SIZES: &str = "1024,10240,102400,1048576";
/// What the tests measure.
const SIZES_SHORT: &str = "10240,102400";

/// What others are compared with.
const PROSE: &str = "prose";

/// What we want.
const RATIO_TARGET: f64 = 10.0;

/// What is not to be crossed: three times what is seen, since clocks and caches differ.
const RATIO_BOUND: f64 = 50.0;

/// Requests of fewer bytes are shown, not judged: most of their cost is that of the request around them, and
/// some of what is done for the first bytes of a request is not done for more.
const BYTES_MIN: f64 = 10_000.0;

/// A byte may cost so many times what it does where there are ten times fewer. Work that grows with the square
/// of the bytes makes it ten.
const GROWTH_MAX: f64 = 5.0;

/// CPU seconds that are looked for something dearer.
const SEARCH_SECONDS: &str = "120";

/// `bench hostile [--short] [--search]`; the search prints what it found as JSON.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short", "--search"])?;
    if flags.contains(&"--search") {
        let rules = rules(&fetch::ensure()?)?;
        let mut probe = Command::new(prepare::probe()?);
        return cargo::run(probe.arg("search").arg(rules).arg(SEARCH_SECONDS));
    }
    let sizes = if flags.contains(&"--short") { SIZES_SHORT } else { SIZES };
    measure(&fetch::ensure()?, sizes)
}

/// The short form.
pub(super) fn compare(fetched: &Fetched) -> Outcome<()> {
    measure(fetched, SIZES_SHORT)
}

/// Rules with which nothing is refused, so that every rule of every phase has its chance.
fn rules(fetched: &Fetched) -> Outcome<PathBuf> {
    let rules = prepare::rules(&super::folder(), &fetched.crs, LEVEL)?.shipped;
    let main = rules.with_file_name("main-hostile.conf");
    let text = "Include main-shipped.conf\nSecRuleEngine DetectionOnly\n";
    fs::write(&main, text).map_err(failure::io("write", &main))?;
    Ok(main)
}

fn measure(fetched: &Fetched, sizes: &str) -> Outcome<()> {
    let rules = rules(fetched)?;
    let told = output(Command::new(prepare::probe()?).arg("hostile").arg(rules).arg(sizes))?;
    let (table, wrong) = report(&told, sizes)?;
    println!("{table}");
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(wrong.join("\n"))),
    }
}

/// What a family costs at one size.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: f64,
    /// Nanoseconds for each byte.
    cost: f64,
    /// Whether the limit of steps was reached.
    cut_off: bool,
}

/// What a family costs at growing sizes.
type Curve = Vec<Point>;

/// The table, dearest families first, and what is wrong.
fn report(told: &str, sizes: &str) -> Outcome<(String, Vec<String>)> {
    let sizes: Vec<&str> = sizes.split(',').collect();
    let curves = curves(told)?;
    let missing = || Failure::new(format!("the probe told nothing of {PROSE}"));
    let prose = curves.get(PROSE).cloned().ok_or_else(missing)?;
    let mut table = format!("{:<20}", "ns a byte, × prose");
    for size in &sizes {
        table.push_str(&format!(" {size:>16}"));
    }
    let mut sorted: Vec<(f64, &String, &Curve)> =
        curves.iter().map(|(name, curve)| (worst(curve, &prose), name, curve)).collect();
    sorted.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let mut wrong = Vec::new();
    for (ratio, name, curve) in sorted {
        if curve.len() != sizes.len() {
            return Err(Failure::new(format!("{name} was not measured at each size")));
        }
        table.push_str(&format!("\n{name:<20}"));
        for (point, prose) in curve.iter().zip(&prose) {
            table.push_str(&format!(" {:>9.1} {:>5.1}×", point.cost, point.cost / prose.cost));
        }
        if ratio > RATIO_TARGET {
            table.push_str("  over the target");
        }
        wrong.extend(faults(name, ratio, curve));
    }
    Ok((table, wrong))
}

/// The largest ratio of a family's cost to that of prose, where it says something.
fn worst(curve: &Curve, prose: &Curve) -> f64 {
    let pairs = curve.iter().zip(prose);
    let counted = pairs.filter(|(point, _)| point.bytes > BYTES_MIN);
    counted.map(|(point, prose)| point.cost / prose.cost).fold(0.0, f64::max)
}

fn faults(name: &str, ratio: f64, curve: &Curve) -> Vec<String> {
    let mut faults = Vec::new();
    if ratio > RATIO_BOUND {
        faults.push(format!("{name}: a byte costs {ratio:.1} times what one of prose does"));
    }
    if curve.iter().any(|point| point.cut_off) {
        faults.push(format!("{name}: the limit of steps was reached"));
    }
    for pair in curve.windows(2) {
        if let [less, more] = pair
            && less.bytes > BYTES_MIN
            && more.cost > less.cost * GROWTH_MAX
        {
            let growth = more.cost / less.cost;
            faults.push(format!("{name}: ten times the bytes, each {growth:.1} times as dear"));
        }
    }
    faults
}

fn curves(told: &str) -> Outcome<BTreeMap<String, Curve>> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for line in told.lines() {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| Failure::new(format!("the probe's answer is not JSON: {error}")))?;
        let (Some(family), Some(ns), Some(bytes)) =
            (value["family"].as_str(), value["ns"].as_f64(), value["bytes"].as_f64())
        else {
            return Err(Failure::new(format!("the probe told no family, time or size: {line}")));
        };
        // Rules ran: with fewer steps no request gets past this ruleset.
        if value["steps"].as_u64() < Some(200) {
            return Err(Failure::new(format!("rules were not run: {line}")));
        }
        let cut_off = value["cut_off"] == true;
        let point = Point { bytes, cost: ns / bytes.max(1.0), cut_off };
        curves.entry(family.to_owned()).or_default().push(point);
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of prose and of another family at two sizes.
    fn wrong(prose: [u64; 2], other: [u64; 2], more: &str) -> Vec<String> {
        let lines = [("prose", prose, ""), ("other", other, more)].map(|(family, ns, more)| {
            let line = |(ns, bytes): (u64, u64)| {
                format!(
                    "{{\"family\":\"{family}\",\"ns\":{ns},\"bytes\":{bytes},\"steps\":500{more}}}\n"
                )
            };
            ns.into_iter().zip([10_240, 102_400]).map(line).collect::<String>()
        });
        report(&lines.concat(), "10240,102400").map_err(|failure| failure.to_string()).unwrap().1
    }

    #[test]
    fn families_are_compared_with_prose_and_with_themselves() {
        assert!(wrong([100, 1_000], [4_900, 49_000], "").is_empty());
        assert!(wrong([100, 1_000], [4_000, 59_000], "")[0].contains("59.0 times"));
        assert!(wrong([100, 1_000], [500, 26_000], "")[0].contains("each 5.2 times"));
        assert!(
            wrong([100, 1_000], [100, 1_000], ",\"cut_off\":true")[0].contains("limit of steps")
        );
    }

    #[test]
    fn what_was_not_measured_is_a_failure() {
        let prose = "{\"family\":\"prose\",\"ns\":5,\"bytes\":9,\"steps\":500}";
        assert!(report(prose, "1024").is_ok());
        for told in ["", "x", "{}", "{\"family\":\"prose\",\"ns\":5,\"bytes\":9,\"steps\":5}"] {
            assert!(report(told, "1024").is_err(), "{told}");
        }
        assert!(report(prose, "1024,10240").is_err());
    }
}
