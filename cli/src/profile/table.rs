//! The report as a page of plain text. Counts are sums over all requests and passes, times are
//! microseconds for each request.

use std::fmt::{self, Write as _};

use super::{LaneRow, OwnCost, PhaseRow, Report, RuleRow};

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_page(&mut out, report);
    out
}

fn write_page(out: &mut String, report: &Report) -> fmt::Result {
    let times = Times { requests: report.requests * report.passes, of_request: report.time_ns };
    let Report { requests, passes, unnamed_requests, .. } = report;
    writeln!(out, "requests {requests}, passes {passes}")?;
    writeln!(out, "without a named rule {unnamed_requests} of {}", times.requests)?;
    if report.time_ns.is_some() {
        writeln!(out, "µs for each request: {}", parts(report, times))?;
    }
    writeln!(out, "\nPhases: what is done for more than one rule")?;
    write!(out, "{}", phases(&report.phases, times))?;
    let (shown, all) = (report.rules.len(), report.rules_visited);
    writeln!(out, "\nRules: {shown} of {all} that were visited, those that cost most first")?;
    write!(out, "{}", rules(&report.rules, times))?;
    let (shown, all) = (report.lanes.len(), report.lanes_used);
    writeln!(out, "\nChains of transformations: {shown} of {all} that were used")?;
    write!(out, "{}", lanes(&report.lanes, times))
}

/// Where the time of a request goes.
fn parts(report: &Report, times: Times) -> String {
    let naming: u64 = report.phases.iter().filter_map(|phase| phase.naming_ns).sum();
    let (whole, rules) = (report.time_ns.unwrap_or_default(), report.rules_ns);
    let rest = whole.saturating_sub(rules.unwrap_or_default()).saturating_sub(naming);
    let [whole, rules, naming, rest] =
        [Some(whole), rules, Some(naming), Some(rest)].map(|time| times.micros(time));
    format!("{whole} = rules {rules} + naming {naming} + the rest {rest}")
}

/// How times are shown.
#[derive(Clone, Copy)]
struct Times {
    requests: usize,
    /// The time of all requests; `None` when no times were taken.
    of_request: Option<u64>,
}

impl Times {
    /// For each request.
    fn micros(self, sum_ns: Option<u64>) -> String {
        let micros = sum_ns.unwrap_or_default() as f64 / 1e3 / self.requests.max(1) as f64;
        format!("{micros:.2}")
    }

    fn share(self, sum_ns: Option<u64>) -> String {
        let whole = self.of_request.unwrap_or_default().max(1) as f64;
        format!("{:.1}", sum_ns.unwrap_or_default() as f64 * 100.0 / whole)
    }

    /// The columns of times, if there are any.
    fn columns<const N: usize>(self, columns: [&'static str; N]) -> Vec<&'static str> {
        if self.of_request.is_some() { columns.to_vec() } else { Vec::new() }
    }
}

fn phases(phases: &[PhaseRow], times: Times) -> Table {
    let mut table = Table::new(
        &["phase", "evaluated", "rules", "folded", "never named"],
        &["scans", "bytes", "sieves", "bytes"],
        times.columns(["naming µs", "scans µs", "sieves µs"]),
    );
    for row in phases.iter().filter(|row| row.rules > 0) {
        let (index, sieves) = (&row.index, &row.sieves);
        let mut cells = vec![row.phase.to_string(), row.evaluated.to_string()];
        cells.extend([row.rules, row.folded, row.never_named.len()].map(|it| it.to_string()));
        cells.extend(
            [index.texts, index.bytes, sieves.texts, sieves.bytes].map(|it| it.to_string()),
        );
        if times.of_request.is_some() {
            cells.extend([row.naming_ns, index.time_ns, sieves.time_ns].map(|it| times.micros(it)));
        }
        table.rows.push(cells);
    }
    table
}

fn rules(rules: &[RuleRow], times: Times) -> Table {
    let mut table = Table::new(
        &["rule", "phase", "gate", "operator"],
        &["visited", "named", "run", "matched", "values", "bytes"],
        times.columns(["µs", "shared", "%"]),
    );
    for row in rules {
        let mut cells = vec![row.id.to_string(), row.phase.to_string(), row.gate.to_owned()];
        cells.push(operator(&row.own));
        cells.extend([row.visited, row.named].map(|it| it.to_string()));
        cells.extend(counts(&row.own));
        if times.of_request.is_some() {
            cells.extend([row.time_ns, row.shared_ns].map(|it| times.micros(it)));
            cells.push(times.share(row.time_ns));
        }
        table.rows.push(cells);
        for link in &row.links {
            let mut cells = vec!["  chain".to_owned(), String::new(), String::new()];
            cells.push(operator(link));
            cells.extend([String::new(), String::new()]);
            cells.extend(counts(link));
            table.rows.push(cells);
        }
    }
    table
}

fn operator(cost: &OwnCost) -> String {
    if cost.operator.is_empty() { "SecAction".to_owned() } else { format!("@{}", cost.operator) }
}

fn counts(cost: &OwnCost) -> [String; 4] {
    [cost.run, cost.matched, cost.values, cost.bytes].map(|count| count.to_string())
}

fn lanes(lanes: &[LaneRow], times: Times) -> Table {
    let mut table = Table::new(
        &["rules", "values", "bytes", "changed"],
        &[],
        times.columns(["µs"]).into_iter().chain(["transformations"]).collect(),
    );
    for row in lanes {
        let mut cells = vec![row.rules.to_string()];
        cells.extend([row.values, row.bytes, row.changed].map(|it| it.to_string()));
        if times.of_request.is_some() {
            cells.push(times.micros(row.time_ns));
        }
        let each = if row.multi_match { "  (multiMatch)" } else { "" };
        cells.push(format!("{}{each}", row.transformations.join(" ")));
        table.rows.push(cells);
    }
    table
}

/// Columns as wide as what is in them.
struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Columns of words: they begin at the left.
const WORDS: &[&str] = &["rule", "gate", "operator", "transformations"];

impl Table {
    fn new(what: &[&'static str], counts: &[&'static str], times: Vec<&'static str>) -> Self {
        let head = what.iter().chain(counts).copied().chain(times).collect();
        Self { head, rows: Vec::new() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head.iter().map(|&name| name.to_owned()).collect();
        let rows: Vec<&Vec<String>> = [&head].into_iter().chain(&self.rows).collect();
        for row in &rows {
            let mut line = String::new();
            for (at, (cell, name)) in row.iter().zip(&self.head).enumerate() {
                let cells = rows.iter().filter_map(|row| row.get(at));
                let width = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
                let gap = if at > 0 { "  " } else { "" };
                if WORDS.contains(name) {
                    write!(line, "{gap}{cell:<width$}")?;
                } else {
                    write!(line, "{gap}{cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
