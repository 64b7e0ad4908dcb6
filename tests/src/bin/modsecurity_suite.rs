//! `modsecurity-suite FOLDER VERSION [--report FILE | --compare FILE | --show ID]`: plays ModSecurity's regression suite, whose
//! `test-cases` are in the folder. `cargo xtask modsecurity-suite` fetches it and runs this.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command line tool talks on its standard streams"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use glacis_tests::failure::{Failure, Outcome, exit, io};
use glacis_tests::modsecurity::case::{self, Case};
use glacis_tests::modsecurity::expectations::Expectations;
use glacis_tests::modsecurity::judge::Judged;
use glacis_tests::modsecurity::report::{self, Counts};
use glacis_tests::modsecurity::{judge_all, play};
use glacis_tests::settings;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    exit("modsecurity-suite", run(&arguments))
}

fn run(arguments: &[String]) -> Outcome<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [folder, version] => judge(Path::new(folder), version, &Page::None),
        [folder, version, "--report", file] => {
            judge(Path::new(folder), version, &Page::Write(file.into()))
        }
        [folder, version, "--compare", file] => {
            judge(Path::new(folder), version, &Page::Compare(file.into()))
        }
        [folder, _, "--show", id] => show(Path::new(folder), id),
        _ => Err(Failure::new(
            "write FOLDER VERSION, and nothing, --report FILE, --compare FILE or --show ID",
        )),
    }
}

/// What becomes of the page of results.
enum Page {
    None,
    Write(PathBuf),
    Compare(PathBuf),
}

fn judge(folder: &Path, version: &str, page: &Page) -> Outcome<bool> {
    let path = settings::root().join("tests/modsecurity/expectations.yaml");
    let expectations = Expectations::read(&path)?;
    let judged = judge_all(folder, &expectations)?;
    for (case, judged) in &judged {
        if let Judged::Wrong(why) = judged {
            println!("{}: {why}", case.id);
        }
    }
    let cases: Vec<&Case> = judged.iter().map(|(case, _)| case).collect();
    let unknown: Vec<&str> = expectations.unknown(&cases).collect();
    for id in &unknown {
        println!("{id}: it is listed, and not in the suite");
    }
    let counts = Counts::of(&judged);
    let Counts { passes, reworded, differs, wrong } = counts;
    println!(
        "ModSecurity {version}: {} cases, {passes} pass, {reworded} with another pattern, {differs} differ as listed, {wrong} wrong",
        cases.len()
    );
    let text = report::page(version, &judged, &expectations);
    let mut stale = false;
    match page {
        Page::None => {}
        Page::Write(file) => std::fs::write(file, text).map_err(io("write", file))?,
        Page::Compare(file) => {
            stale = std::fs::read_to_string(file).map_err(io("read", file))? != text;
        }
    }
    if stale {
        println!("docs/results is stale: cargo xtask modsecurity-suite --write-report");
    }
    Ok(wrong == 0 && unknown.is_empty() && !stale)
}

/// All there is to know of one case.
fn show(folder: &Path, id: &str) -> Outcome<bool> {
    let cases = case::read_all(&folder.join("test-cases/regression"))?;
    let case = cases.into_iter().find(|case| case.id == id);
    let case = case.ok_or_else(|| Failure::new(format!("there is no case {id}")))?;
    match &case.data {
        Err(why) => println!("{why}"),
        Ok(data) => {
            println!("{data:#?}\n{}", data.rules.0);
            let seen = play::play(&case.file, data, folder);
            let rejected = seen.rejected.unwrap_or_default();
            let logs = seen.logs;
            println!("{} {:?} {rejected}", seen.status, seen.location);
            println!("--- debug\n{}--- error\n{}--- audit\n{}", logs.debug, logs.error, logs.audit);
        }
    }
    Ok(true)
}
