//! What the curves say about larger fleets: `cargo xtask bench sizing`.
//!
//! Straight lines are laid through what was measured (`bench/http/curves.yaml`), and the mix of `bench/http/barbacana.yaml` is
//! multiplied. `docs/sizing.md` says what the model is, and what it leaves out.

mod fleet;

use std::fs;
use std::path::Path;

use super::report::COLUMNS;
use crate::failure::{Failure, Outcome, io};

/// A line of a CSV file, as far as it is needed here.
#[derive(Clone, Debug, Default, PartialEq)]
struct Point {
    curve: String,
    at: f64,
    stack: String,
    rate: Option<f64>,
    held: bool,
    per_second: f64,
    p99_ms: f64,
    start_seconds: f64,
    envoy: Used,
    ext_proc: Used,
}

/// What a line is laid through.
type Of = fn(&Point) -> f64;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Used {
    /// Microseconds of CPU time for each request.
    us: f64,
    /// The most memory.
    mib: f64,
}

/// `at * slope + base`, and how far the worst point is from it, as a share of that point.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    base: f64,
    slope: f64,
    off: f64,
}

/// Reads the CSV files of the last runs in `folder`, and writes `sizing.md` into it.
///
/// # Errors
///
/// If `curves` was not run, or its file cannot be read.
pub fn write(folder: &Path, about: &str) -> Outcome<String> {
    let mut curves = points(&folder.join("curves.csv"))?;
    curves.extend(points(&folder.join("profiles.csv")).unwrap_or_default());
    // Without the mix, what is predicted is for pages alone.
    let mix = points(&folder.join("barbacana.csv")).unwrap_or_default();
    let text = text(&curves, &mix, about);
    let path = folder.join("sizing.md");
    fs::write(&path, &text).map_err(io("write", &path))?;
    Ok(text)
}

fn points(file: &Path) -> Outcome<Vec<Point>> {
    let text = fs::read_to_string(file).map_err(io("read", file))?;
    read(&text).ok_or_else(|| Failure::new(format!("{} has other columns", file.display())))
}

fn read(text: &str) -> Option<Vec<Point>> {
    let mut lines = text.lines();
    if lines.next()? != COLUMNS {
        return None;
    }
    let names: Vec<&str> = COLUMNS.split(',').collect();
    lines.map(|line| point(line, &names)).collect()
}

fn point(line: &str, names: &[&str]) -> Option<Point> {
    // Only the name of the part may have commas, and it is in quotes.
    let (part, rest) = line.strip_prefix('"')?.split_once("\",")?;
    let fields: Vec<&str> = [part].into_iter().chain(rest.split(',')).collect();
    if fields.len() != names.len() {
        return None;
    }
    let field = |name: &str| -> Option<&str> {
        names.iter().zip(&fields).find(|(one, _)| **one == name).map(|(_, field)| *field)
    };
    let number = |name: &str| -> Option<f64> { field(name)?.parse().ok() };
    let processes = field("processes")?;
    // Other load generators have seen the same; who is not ours is another matter.
    let tool = if field("tool")? == "ours" { "" } else { " by another" };
    Some(Point {
        curve: field("curve")?.to_owned(),
        at: number("at").unwrap_or(0.0),
        stack: format!("{}{tool}", field("stack")?),
        rate: number("rate"),
        held: field("held")? == "true",
        per_second: number("per_second")?,
        p99_ms: number("p99_ms")?,
        start_seconds: number("start_seconds")?,
        envoy: used(processes, "envoy"),
        ext_proc: used(processes, "ext-proc"),
    })
}

/// `NAME:USus:KIBKiB` among several; nothing for a process that is not there.
fn used(processes: &str, name: &str) -> Used {
    let read = |text: &str| {
        let (us, kib) = text.strip_prefix(name)?.strip_prefix(':')?.split_once("us:")?;
        let kib: f64 = kib.strip_suffix("KiB")?.parse().ok()?;
        Some(Used { us: us.parse().ok()?, mib: kib / 1024.0 })
    };
    processes.split(' ').find_map(read).unwrap_or_default()
}

/// The line whose distance from the points, as a share of each, is least in squares: small numbers count as much as large ones.
fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(_, y)| *y > 0.0 && y.is_finite()).collect();
    let (mut sw, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in &points {
        let weight = 1.0 / (y * y);
        sw += weight;
        sx += weight * x;
        sy += weight * y;
        sxx += weight * x * x;
        sxy += weight * x * y;
    }
    let determinant = sw * sxx - sx * sx;
    if points.len() < 2 || determinant.abs() < f64::EPSILON * sw * sxx {
        return None;
    }
    let slope = (sw * sxy - sx * sy) / determinant;
    let base = (sy - slope * sx) / sw;
    let off = points.iter().map(|(x, y)| ((base + slope * x - y) / y).abs()).fold(0.0, f64::max);
    Some(Line { base, slope, off })
}

fn on_curve<'a>(points: &'a [Point], curve: &'a str) -> impl Iterator<Item = &'a Point> {
    points.iter().filter(move |point| point.curve == curve && !point.stack.ends_with("another"))
}

/// The line of something over a curve.
fn line(points: &[Point], curve: &str, value: Of) -> Option<Line> {
    let pairs: Vec<(f64, f64)> =
        on_curve(points, curve).map(|point| (point.at, value(point))).collect();
    fit(&pairs)
}

fn text(curves: &[Point], mix: &[Point], about: &str) -> String {
    let mut text = format!("# Sizing\n\n{about}\n\n## What was fitted\n\n");
    text.push_str(
        "| what | at nothing | for each | of | worst point off by |\n|---|--:|--:|---|--:|\n",
    );
    let rows: [(&str, &str, &str, Of); 9] = [
        ("Envoy, CPU us a request", "body KiB", "KiB of body", |point| point.envoy.us),
        ("ext-proc, CPU us a request", "body KiB", "KiB of body", |point| point.ext_proc.us),
        ("ext-proc, CPU us a request", "profiles", "profile", |point| point.ext_proc.us),
        ("ext-proc, memory, MiB", "profiles", "profile", |point| point.ext_proc.mib),
        ("start, seconds", "profiles", "profile", |point| point.start_seconds),
        ("Envoy, CPU us a request", "connections", "connection", |point| point.envoy.us),
        ("Envoy, memory, MiB", "connections", "connection", |point| point.envoy.mib),
        ("Envoy, CPU us a request", "keys", "key of a limit", |point| point.envoy.us),
        ("Envoy, memory, MiB", "keys", "key of a limit", |point| point.envoy.mib),
    ];
    for (what, curve, each, value) in rows {
        match line(curves, curve, value) {
            Some(line) => text.push_str(&format!(
                "| {what} | {:.2} | {:.5} | {each} | {:.0} % |\n",
                line.base,
                line.slope,
                line.off * 100.0
            )),
            None => text.push_str(&format!("| {what} | not measured | | {each} | |\n")),
        }
    }
    text.push_str(&levels(curves));
    text.push_str(&threads(curves));
    text.push_str(&fleet::text(curves, mix));
    text
}

/// What higher paranoia levels cost.
fn levels(curves: &[Point]) -> String {
    let mut text =
        "\n| paranoia level | ext-proc, CPU us a request | of level 1 |\n|--:|--:|--:|\n"
            .to_owned();
    let first = on_curve(curves, "paranoia level").next().map_or(1.0, |point| point.ext_proc.us);
    for point in on_curve(curves, "paranoia level") {
        let us = point.ext_proc.us;
        text.push_str(&format!("| {} | {us:.0} | {:.2} |\n", point.at, us / first.max(1e-9)));
    }
    text
}

/// What more threads bring.
fn threads(curves: &[Point]) -> String {
    let mut text = "\n| threads | req/s | of one |\n|---|--:|--:|\n".to_owned();
    for curve in ["Envoy workers", "ext-proc threads", "workers and threads"] {
        let Some(first) = on_curve(curves, curve).next() else { continue };
        for point in on_curve(curves, curve) {
            let (rate, of) = (point.per_second, point.per_second / first.per_second.max(1e-9));
            text.push_str(&format!("| {curve}: {} | {rate:.0} | {of:.2} |\n", point.at));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::measure::{Account, Row};
    use crate::bench::report::csv;

    #[test]
    fn a_line_is_found_through_points_of_all_sizes() {
        let exact = |x: f64| (x, 3.0 + 0.25 * x);
        let found = fit(&[0.0, 1.0, 10.0, 1000.0].map(exact)).unwrap();
        assert!((found.base - 3.0).abs() < 1e-6 && (found.slope - 0.25).abs() < 1e-9, "{found:?}");
        assert!(found.off < 1e-6);
        // What was not measured is no zero.
        assert_eq!(fit(&[(0.0, 3.0), (5.0, 0.0)]), None);
        assert_eq!(fit(&[(2.0, 3.0), (2.0, 4.0)]), None);
        let bent = fit(&[(0.0, 1.0), (1.0, 2.0), (2.0, 5.0)]).unwrap();
        assert!(bent.off > 0.1, "{bent:?}");
    }

    fn row(curve: &str, at: f64, envoy_us: f64, ext_proc_us: f64) -> Row {
        let account = |process: &str, us: f64| Account {
            process: process.to_owned(),
            cpu_seconds: us * 1000.0 / 1e6,
            rss: 0,
            rss_peak: (50 << 20) + ((at as u64) << 20),
        };
        Row {
            part: format!("{curve}, {at}"),
            curve: Some((curve.to_owned(), at)),
            stack: "crs".to_owned(),
            tool: "ours",
            ours: true,
            start_seconds: 2.0,
            connections: 10,
            rate: None,
            answered: 1000,
            per_second: 5000.0,
            held: true,
            mean_ms: 1.0,
            p50_ms: 1.0,
            p90_ms: 1.0,
            p99_ms: 2.0,
            max_ms: 3.0,
            wrong: BTreeMap::new(),
            shed: 0,
            shed_p99_ms: 0.0,
            broken: 0,
            unsent: 0,
            client_us: 10.0,
            used: vec![account("envoy", envoy_us), account("ext-proc", ext_proc_us)],
        }
    }

    #[test]
    fn what_is_written_is_read_and_fitted() {
        let rows = [
            row("body KiB", 0.0, 100.0, 60.0),
            row("body KiB", 10.0, 110.0, 160.0),
            row("body KiB", 100.0, 200.0, 1060.0),
            row("profiles", 1.0, 100.0, 60.0),
            row("profiles", 100.0, 100.0, 60.0),
            row("paranoia level", 1.0, 100.0, 60.0),
            row("paranoia level", 4.0, 100.0, 120.0),
        ];
        let read = read(&csv(&rows)).unwrap();
        assert_eq!(read.len(), rows.len());
        let envoy = line(&read, "body KiB", |point| point.envoy.us).unwrap();
        assert!((envoy.base - 100.0).abs() < 0.1 && (envoy.slope - 1.0).abs() < 0.01, "{envoy:?}");
        let memory = line(&read, "profiles", |point| point.ext_proc.mib).unwrap();
        assert!(
            (memory.base - 50.0).abs() < 0.1 && (memory.slope - 1.0).abs() < 0.01,
            "{memory:?}"
        );
        let mut mixed = read[0].clone();
        (mixed.curve, mixed.rate) = (String::new(), Some(2000.0));
        let text = text(&read, &[mixed], "about");
        assert!(text.contains("| 4 | 120 | 2.00 |"), "{text}");
        assert!(
            text.contains("| Envoy, memory, MiB | not measured | | key of a limit | |"),
            "{text}"
        );
        // 100,000 a second of 160 us each, at 60 %: 16.7 processors for Envoy and 10 for ext-proc.
        assert!(text.contains("| 100000 | crs | 16.7 | 10.0 |"), "{text}");
    }

    #[test]
    fn files_of_others_are_refused() {
        assert_eq!(read("a,b\n1,2\n"), None);
        assert_eq!(read(&format!("{COLUMNS}\n\"x\",1,2\n")), None);
        assert_eq!(read(""), None);
    }
}
