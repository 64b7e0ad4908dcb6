//! Each alert has a row in `docs/incidents.md` that says what to do, and a test in which it goes off.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{ALERT_TESTS, CHART};
use crate::failure::{self, Failure, Outcome};

/// Where each alert stands in the first column of a table.
const INCIDENTS: &str = "docs/incidents.md";
const HEADING: &str = "## By alert";

pub(super) fn check(root: &Path) -> Outcome<()> {
    let read = |path: &Path| fs::read_to_string(path).map_err(failure::io("read", path));
    let chart = root.join(CHART);
    let folder = chart.join("alerts");
    let mut alerts = String::new();
    for entry in fs::read_dir(&folder).map_err(failure::io("list", &folder))? {
        alerts.push_str(&read(&entry.map_err(failure::io("list", &folder))?.path())?);
    }
    let mut tests = String::new();
    for file in ALERT_TESTS {
        tests.push_str(&read(&chart.join(file))?);
    }
    let wrong = wrong(&alerts, &read(&root.join(INCIDENTS))?, &tests);
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn wrong(alerts: &str, incidents: &str, tests: &str) -> Vec<String> {
    let alerts: BTreeSet<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let (told, tried) = (told(incidents), tried(tests));
    let without = |known: &BTreeSet<&str>, what: &str| -> Vec<String> {
        alerts.difference(known).map(|alert| format!("the alert {alert} has no {what}")).collect()
    };
    let mut wrong = without(&told, &format!("row in {INCIDENTS}"));
    wrong.extend(without(&tried, "test in which it goes off"));
    let gone = told.difference(&alerts);
    wrong.extend(gone.map(|alert| format!("{INCIDENTS}: there is no alert {alert}")));
    wrong
}

/// The alerts that have a row.
fn told(incidents: &str) -> BTreeSet<&str> {
    let lines = incidents.lines().skip_while(|line| *line != HEADING).skip(1);
    let section = lines.take_while(|line| !line.starts_with("## "));
    section.filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0)).collect()
}

/// The alerts of which a test expects something, and not that they are silent.
fn tried(tests: &str) -> BTreeSet<&str> {
    let expectations = tests.split("alertname: ").skip(1);
    let loud = expectations.filter(|rest| rest.lines().any(|line| line.trim() == "exp_alerts:"));
    loud.filter_map(|rest| rest.split([',', '\n']).next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALERTS: &str =
        "  - name: g\n    rules:\n      - alert: A\n        expr: x\n      - alert: B\n";
    const INCIDENTS_OF_BOTH: &str =
        "| `C` | x |\n## By alert\n\n| alert |\n| `A` | x |\n| `B` | y |\n\n## Z\n| `D` | x |\n";
    const TESTS_OF_BOTH: &str = "- alertname: A\n  eval_time: 1m\n  exp_alerts:\n  - x\n\
                                 - {alertname: A, eval_time: 2m}\n\
                                 - eval_time: 3m\n  alertname: B\n  exp_alerts:\n  - x\n";

    #[track_caller]
    fn check(incidents: &str, tests: &str, expected: &[&str]) {
        assert_eq!(wrong(ALERTS, incidents, tests), expected);
    }

    #[test]
    fn alerts_are_explained_and_tried() {
        check(INCIDENTS_OF_BOTH, TESTS_OF_BOTH, &[]);
        check(
            &INCIDENTS_OF_BOTH.replace("`B`", "`E`"),
            TESTS_OF_BOTH,
            &[
                "the alert B has no row in docs/incidents.md",
                "docs/incidents.md: there is no alert E",
            ],
        );
        // That it is silent is no test of it.
        let silent = TESTS_OF_BOTH.replacen("  exp_alerts:\n  - x\n", "", 1);
        check(INCIDENTS_OF_BOTH, &silent, &["the alert A has no test in which it goes off"]);
    }
}
