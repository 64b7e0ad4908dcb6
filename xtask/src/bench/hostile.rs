//! `cargo xtask bench hostile`: the cost of requests that were made to cost much. Each bound is a failure.
//!
//! For a byte, beside a byte of prose in a form, over growing sizes: bytes are those that are sent, what an attacker
//! pays with. A family whose bytes cost more than [`RATIO_BOUND`] times those of prose is a failure, and so is one whose
//! bytes cost more as there are more of them, which is what quadratic work looks like, or that reaches the limit of
//! steps.
//!
//! For the largest bodies, with the base configuration and CRS, where rules look on: more CPU time than
//! [`SECONDS_BOUND`], or a process of more than [`PEAK_BOUND`], is a failure.

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

/// A byte may cost so many times what one of prose does, in requests of [`LARGE_BYTES_MIN`] and more. Printable bytes
/// without order cost 10: they meet ever new states in each group of patterns, of which prose meets few.
const RATIO_BOUND: f64 = 12.0;
const LARGE_BYTES_MIN: f64 = 100_000.0;

/// The same in smaller requests: a thousand arguments of ten bytes cost by their number, and sieves compute states for
/// the first bytes of a request that they do not compute for more.
const SMALL_RATIO_BOUND: f64 = 25.0;

/// A message that may be a text as well is inspected as both (`docs/grpc.md`), so its bytes may cost twice as much. A
/// client gains no more by it than by sending the text twice.
const INSPECTED_TWICE: &str = "deep-grpc";

/// Requests of fewer bytes are shown, not judged: most of their cost is that of the request around them.
const BYTES_MIN: f64 = 10_000.0;

/// Bytes of content of the largest bodies: with what is around it the limit of request bodies.
const BODY_BYTES: &str = "13000000";

/// Levels at which they are sent.
const LEVELS: [u8; 4] = [1, 2, 3, 4];
const LEVELS_SHORT: [u8; 2] = [1, 4];

/// CPU seconds of one of them.
const SECONDS_BOUND: f64 = 2.0;

/// Bytes of the process, with rules and one body, and what automata have computed for all families before.
const PEAK_BOUND: f64 = 200.0 * 1024.0 * 1024.0;

/// The same where rules may block, and all of a body is inspected unless a deadline ends it: the limit of steps does.
/// Measured at the strictest level only, and not in the short form.
const WHOLE_SECONDS_BOUND: f64 = 4.0;
const WHOLE_PEAK_BOUND: f64 = 400.0 * 1024.0 * 1024.0;

/// Times that is measured before it counts: other work on the machine makes a measurement larger, never smaller.
const ATTEMPTS: usize = 3;

/// A byte may cost so many times what it does where there are ten times fewer. Work that grows with the square
/// of the bytes makes it ten.
const GROWTH_MAX: f64 = 5.0;

/// CPU seconds that are looked for something dearer.
const SEARCH_SECONDS: &str = "120";

/// `bench hostile [--short] [--search]`; the search prints what it found as JSON.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short", "--search"])?;
    if flags.contains(&"--search") {
        let rules = rules(&fetch::ensure()?, LEVEL)?;
        let mut probe = Command::new(prepare::probe()?);
        return cargo::run(probe.arg("search").arg(rules).arg(SEARCH_SECONDS));
    }
    let fetched = fetch::ensure()?;
    match flags.contains(&"--short") {
        true => compare(&fetched),
        false => {
            measure(&fetched, SIZES, &LEVELS)?;
            measure_whole(&fetched)
        }
    }
}

/// The short form.
pub(super) fn compare(fetched: &Fetched) -> Outcome<()> {
    measure(fetched, SIZES_SHORT, &LEVELS_SHORT)
}

/// Rules with which nothing is refused, so that every rule of every phase has its chance.
fn rules(fetched: &Fetched, level: u8) -> Outcome<PathBuf> {
    let shipped = prepare::rules(&super::folder(), &fetched.crs, level)?.shipped;
    let path = shipped.with_file_name("main-hostile.conf");
    let text = "Include main-shipped.conf\nSecRuleEngine DetectionOnly\nSecGraphqlPath /graphql\n";
    fs::write(&path, text).map_err(failure::io("write", &path)).map(|()| path)
}

fn measure(fetched: &Fetched, sizes: &str, levels: &[u8]) -> Outcome<()> {
    let probe = prepare::probe()?;
    let rules_of_level = rules(fetched, LEVEL)?;
    let ratios = || {
        report(&output(Command::new(&probe).arg("hostile").arg(&rules_of_level).arg(sizes))?, sizes)
    };
    bounded(ratios)?;
    for &level in levels {
        let rules = rules(fetched, level)?;
        let bounds = || {
            let mut command = Command::new(&probe);
            // Freed memory goes back at once: what is measured is what is used.
            command.env("MALLOC_TRIM_THRESHOLD_", "65536").env("MALLOC_MMAP_THRESHOLD_", "65536");
            let told = output(command.arg("bounds").arg(&rules).arg(BODY_BYTES))?;
            largest(level, &told, Some("request_body"), SECONDS_BOUND, PEAK_BOUND)
        };
        bounded(bounds)?;
    }
    Ok(())
}

/// The largest bodies where all of each is inspected.
fn measure_whole(fetched: &Fetched) -> Outcome<()> {
    let probe = prepare::probe()?;
    let rules = rules(fetched, LEVEL)?;
    bounded(|| {
        let mut command = Command::new(&probe);
        command.env("MALLOC_TRIM_THRESHOLD_", "65536").env("MALLOC_MMAP_THRESHOLD_", "65536");
        let told = output(command.arg("whole").arg(&rules).arg(BODY_BYTES))?;
        largest(LEVEL, &told, None, WHOLE_SECONDS_BOUND, WHOLE_PEAK_BOUND)
    })
}

/// Measures until nothing is wrong, and prints the last table.
fn bounded(measured: impl Fn() -> Outcome<(String, Vec<String>)>) -> Outcome<()> {
    let (mut table, mut wrong) = measured()?;
    for _ in 1..ATTEMPTS {
        if wrong.is_empty() {
            break;
        }
        (table, wrong) = measured()?;
    }
    println!("{table}");
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(wrong.join("\n"))),
    }
}

/// The families of largest bodies that cost most, and which of them are over a bound. Each must have reached the limit
/// of this name, if there is one.
fn largest(
    level: u8,
    told: &str,
    limit: Option<&str>,
    seconds_bound: f64,
    peak_bound: f64,
) -> Outcome<(String, Vec<String>)> {
    let mut bodies = Vec::new();
    for line in told.lines() {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| Failure::new(format!("the probe's answer is not JSON: {error}")))?;
        let (Some(family), Some(ns), Some(peak)) =
            (value["family"].as_str(), value["ns"].as_f64(), value["peak_bytes"].as_f64())
        else {
            return Err(Failure::new(format!("the probe told no family, time or memory: {line}")));
        };
        let limits = value["limits"].as_array().into_iter().flatten();
        let is_reached = limit.is_none_or(|limit| limits.clone().any(|it| it == limit));
        if value["steps"].as_u64() < Some(200) || !is_reached {
            return Err(Failure::new(format!("rules were not run, or the body not cut: {line}")));
        }
        bodies.push((family.to_owned(), ns / 1e9, peak));
    }
    if bodies.is_empty() {
        return Err(Failure::new("the probe told of no body"));
    }
    bodies.sort_by(|(_, one, _), (_, other, _)| other.total_cmp(one));
    let peak = bodies.iter().map(|(.., peak)| *peak).fold(0.0, f64::max);
    let mut table = format!(
        "PL{level}, bodies of {BODY_BYTES} bytes: at most {:.0} MiB; CPU seconds of the dearest:",
        peak / 1024.0 / 1024.0
    );
    for (family, seconds, _) in bodies.iter().take(5) {
        table.push_str(&format!(" {family} {seconds:.2}"));
    }
    let is_over =
        |(_, seconds, peak): &&(String, f64, f64)| *seconds > seconds_bound || *peak > peak_bound;
    let wrong = bodies.iter().filter(is_over).map(|(family, seconds, peak)| {
        format!("PL{level} {family}: {seconds:.2} s, {:.0} MiB", peak / 1024.0 / 1024.0)
    });
    Ok((table, wrong.collect()))
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
    for (_, name, curve) in sorted {
        if curve.len() != sizes.len() {
            return Err(Failure::new(format!("{name} was not measured at each size")));
        }
        table.push_str(&format!("\n{name:<20}"));
        for (point, prose) in curve.iter().zip(&prose) {
            table.push_str(&format!(" {:>9.1} {:>5.1}×", point.cost, point.cost / prose.cost));
        }
        wrong.extend(faults(name, curve, &prose));
    }
    Ok((table, wrong))
}

/// The largest ratio of a family's cost to that of prose, where it says something.
fn worst(curve: &Curve, prose: &Curve) -> f64 {
    let pairs = curve.iter().zip(prose);
    let counted = pairs.filter(|(point, _)| point.bytes > BYTES_MIN);
    counted.map(|(point, prose)| point.cost / prose.cost).fold(0.0, f64::max)
}

fn faults(name: &str, curve: &Curve, prose: &Curve) -> Vec<String> {
    let mut faults = Vec::new();
    for (point, prose) in curve.iter().zip(prose).filter(|(point, _)| point.bytes > BYTES_MIN) {
        let (ratio, bytes) = (point.cost / prose.cost, point.bytes);
        let bound = if bytes < LARGE_BYTES_MIN { SMALL_RATIO_BOUND } else { RATIO_BOUND };
        let times = if name == INSPECTED_TWICE { 2.0 } else { 1.0 };
        if ratio > times * bound {
            faults.push(format!(
                "{name}: in {bytes} bytes each costs {ratio:.1} times what one of prose does"
            ));
        }
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
        assert!(wrong([100, 1_000], [2_400, 10_000], "").is_empty());
        assert!(wrong([100, 1_000], [2_600, 10_000], "")[0].contains("26.0 times"));
        assert!(wrong([100, 1_000], [1_000, 12_100], "")[0].contains("12.1 times"));
        assert!(wrong([100, 6_000], [500, 26_000], "")[0].contains("each 5.2 times"));
        assert!(
            wrong([100, 1_000], [100, 1_000], ",\"cut_off\":true")[0].contains("limit of steps")
        );
    }

    #[test]
    fn the_largest_bodies_have_bounds() {
        let line = |ns: u64, peak: u64, limit: &str| {
            format!(
                "{{\"family\":\"f\",\"ns\":{ns},\"peak_bytes\":{peak},\"steps\":500,\"limits\":[\"{limit}\"]}}\n"
            )
        };
        let wrong = |ns, peak| {
            let told = line(1, 1, "request_body") + &line(ns, peak, "request_body");
            largest(4, &told, Some("request_body"), SECONDS_BOUND, PEAK_BOUND)
                .map_err(|failure| failure.to_string())
                .unwrap()
                .1
                .len()
        };
        assert_eq!(wrong(2_000_000_000, 200 << 20), 0);
        assert_eq!(wrong(2_000_000_001, 200 << 20), 1);
        assert_eq!(wrong(2_000_000_000, (200 << 20) + 1), 1);
        for told in ["", "x", "{}", &line(1, 1, "values")] {
            let judged = largest(4, told, Some("request_body"), SECONDS_BOUND, PEAK_BOUND);
            assert!(judged.is_err(), "{told}");
        }
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
