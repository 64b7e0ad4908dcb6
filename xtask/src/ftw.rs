//! `cargo xtask ftw` and `bench`: `glacis ftw`, in process or over Envoy, and `glacis eval --bench` on the
//! fetched CRS.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value};

use crate::cargo::{self, cargo};
use crate::failure::{self, Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::settings::settings;

/// The page with the tables.
const PAGE: &str = "docs/results/crs.md";

/// The place of a table on that page, between two comments.
struct Place {
    begin: &'static str,
    end: &'static str,
}

const IN_PROCESS: Place = Place { begin: "<!-- ftw:begin -->", end: "<!-- ftw:end -->" };
const OVER_ENVOY: Place =
    Place { begin: "<!-- ftw-envoy:begin -->", end: "<!-- ftw-envoy:end -->" };

/// What CRS's documentation asks of an engine that its tests are run on; below the top folder.
const CONFIGURATION: &str = "tests/crs/regression.conf";

/// Our deviations from CRS's expectations, each with its reason; below the top folder.
const OVERRIDES: &str = "tests/crs/overrides.yaml";

/// `cargo xtask ftw [--envoy [--module]] [--write-readme] [-- ARGS]`.
///
/// `--write-readme` renews the table in docs/results/crs.md instead of printing: of all families in process, of
/// the sum alone over Envoy.
pub(crate) fn ftw(arguments: &[String]) -> Outcome<()> {
    let (flags, passed) = crate::flags(arguments, &["--envoy", "--module", "--write-readme"])?;
    let fetched = fetch::ensure()?;
    if !fetched.crs.join("tests").is_dir() {
        let folder = fetched.crs.display();
        return Err(Failure::new(format!("{folder} has no folder `tests`: unset GLACIS_CRS_DIR")));
    }
    let over_envoy = flags.contains(&"--envoy");
    let natively = flags.contains(&"--module");
    if natively && (!over_envoy || flags.contains(&"--write-readme")) {
        return Err(Failure::usage("--module goes with --envoy, and without --write-readme"));
    }
    let mut command = if over_envoy { through_envoy(&fetched)? } else { in_process(&fetched) };
    command.args(natively.then_some("--module")).args(passed);
    if !flags.contains(&"--write-readme") {
        return cargo::run(&mut command);
    }
    let told = cargo::output(command.arg("--json"))?;
    let report: Value = serde_json::from_str(&told)
        .map_err(|error| Failure::new(format!("`glacis ftw --json` is not JSON: {error}")))?;
    if over_envoy {
        write_readme(&OVER_ENVOY, &table(&report, None)?)
    } else {
        write_readme(&IN_PROCESS, &table(&report, report["files"].as_object())?)
    }
}

fn in_process(fetched: &Fetched) -> Command {
    let mut command = glacis("ftw");
    command.arg("--base").arg("--rules").arg(cargo::root().join(CONFIGURATION));
    command.arg("--crs").arg(&fetched.crs);
    command.arg("--tests").arg(fetched.crs.join("tests"));
    command.arg("--overrides").arg(cargo::root().join(OVERRIDES));
    command
}

/// The program of `tests/` that starts everything; it takes the arguments of `glacis ftw`.
fn through_envoy(fetched: &Fetched) -> Outcome<Command> {
    let artifacts = cargo::build(&["--workspace", "--bins", "--lib"])?;
    let program = artifacts.program("crs-over-envoy")?;
    let mut command = Command::new(program);
    command.envs(settings(fetched, None, &artifacts));
    Ok(command)
}

/// `cargo xtask bench -- REQUESTS.jsonl [ARGS]`; a `--bench SECONDS` among them replaces ours.
pub(crate) fn bench(arguments: &[String]) -> Outcome<()> {
    let (_, passed) = crate::flags(arguments, &[])?;
    if passed.is_empty() {
        return Err(Failure::usage("bench needs a file of requests: `-- REQUESTS.jsonl`"));
    }
    let fetched = fetch::ensure()?;
    let passed = passed.iter().map(|argument| from_caller(argument));
    let mut command = glacis("eval");
    command.arg("--crs").arg(&fetched.crs).args(["--bench", "10"]).args(passed);
    cargo::run(&mut command)
}

/// Programs run in the top folder; a file named from where the caller stands must still be found.
fn from_caller(argument: &str) -> PathBuf {
    let path = PathBuf::from(argument);
    let found = path.canonicalize().ok().filter(|found| found.is_file());
    found.unwrap_or(path)
}

fn glacis(word: &str) -> Command {
    cargo(["run", "--quiet", "--release", "-p", "glacis-cli", "--", word])
}

fn write_readme(place: &Place, table: &str) -> Outcome<()> {
    let path = cargo::root().join(PAGE);
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let text = replace_between_markers(&text, place, table)?;
    fs::write(&path, text).map_err(failure::io("write", &path))
}

const COLUMNS: [&str; 5] = ["total", "passed", "failed", "skipped", "overridden"];

/// A Markdown table: one row per family of rules, if their files are given, then the sum. The total must
/// be there: without it this is not a report.
fn table(report: &Value, files: Option<&Map<String, Value>>) -> Outcome<String> {
    if !report["total"].is_u64() {
        return Err(Failure::new("`glacis ftw --json` has no number named `total`"));
    }
    let mut table = format!("| tests | {} |\n", COLUMNS.join(" | "));
    table.push_str(&format!("|---|{}\n", "---:|".repeat(COLUMNS.len())));
    let mut families: BTreeMap<&str, [u64; COLUMNS.len()]> = BTreeMap::new();
    for (name, counts) in files.into_iter().flatten() {
        let family = families.entry(name.get(..3).unwrap_or(name)).or_default();
        for (sum, count) in family.iter_mut().zip(counts_of(counts)) {
            *sum += count;
        }
    }
    for (family, counts) in families {
        table.push_str(&row(&format!("{family}xxx"), counts));
    }
    table.push_str(&row("**all**", counts_of(report)));
    Ok(table)
}

fn counts_of(report: &Value) -> [u64; COLUMNS.len()] {
    COLUMNS.map(|column| report[column].as_u64().unwrap_or(0))
}

fn row(name: &str, counts: [u64; COLUMNS.len()]) -> String {
    format!("| {name} | {} |\n", counts.map(|count| count.to_string()).join(" | "))
}

fn replace_between_markers(text: &str, place: &Place, table: &str) -> Outcome<String> {
    let Place { begin, end } = place;
    let missing = || Failure::new(format!("{PAGE} has no `{begin}` … `{end}`"));
    let (before, rest) = text.split_once(begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = IN_PROCESS.begin;
    const END: &str = IN_PROCESS.end;

    #[test]
    fn the_table_replaces_what_is_between_the_markers_and_nothing_else() {
        let report = r#"{"total": 3, "passed": 2, "failed": 1, "skipped": 0,
            "files": {"942100.yaml": {"total": 2, "passed": 2}, "942110.yaml": {"total": 1, "failed": 1}}}"#;
        let report: Value = serde_json::from_str(report).unwrap();
        for (files, families) in
            [(report["files"].as_object(), "| 942xxx | 3 | 2 | 1 | 0 | 0 |\n"), (None, "")]
        {
            let table = table(&report, files).unwrap();
            let readme = format!("a\n{BEGIN}\nold\n{END}\nz\n");
            let expected = format!(
                "a\n{BEGIN}\n\
                 | tests | total | passed | failed | skipped | overridden |\n\
                 |---|---:|---:|---:|---:|---:|\n\
                 {families}\
                 | **all** | 3 | 2 | 1 | 0 | 0 |\n\
                 {END}\nz\n"
            );
            let once = replace_between_markers(&readme, &IN_PROCESS, &table).unwrap();
            assert_eq!(once, expected);
            assert_eq!(replace_between_markers(&once, &IN_PROCESS, &table).unwrap(), expected);
        }
    }

    #[test]
    fn reports_and_readmes_of_another_shape_are_refused() {
        for report in ["{}", "[]", "null", r#"{"total": "3"}"#] {
            assert!(table(&serde_json::from_str(report).unwrap(), None).is_err(), "{report}");
        }
        for readme in ["", BEGIN, END, &format!("{END}{BEGIN}")] {
            assert!(replace_between_markers(readme, &IN_PROCESS, "").is_err(), "{readme}");
        }
    }
}
