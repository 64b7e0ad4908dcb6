//! `differential --crs DIR --parser NAME [--cases N] [--minutes N] [--seed N] [--first N] [--remove RULE]
//! [--record FILE] [--bypasses FILE] -- COMMAND…`: one run against one parser, whose program the command starts.
//! `differential --list`: the parsers, each with the folder of its program.
//!
//! `cargo xtask differential` installs the parsers and runs this for each.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command line tool talks on its standard streams"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use glacis_differential::failure::{Failure, Outcome, io};
use glacis_differential::judge::Judge;
use glacis_differential::parser::{PARSERS, Parser, Process};
use glacis_differential::recorded::Recorded;
use glacis_differential::run::{Seen, Until, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match play(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("differential: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Options by name, and the command behind `--`.
struct Options<'a> {
    named: BTreeMap<&'a str, &'a str>,
    command: &'a [String],
}

impl<'a> Options<'a> {
    fn read(arguments: &'a [String]) -> Outcome<Self> {
        let end = arguments.iter().position(|argument| argument == "--");
        let end =
            end.ok_or_else(|| Failure::new("write -- and the parser's command at the end"))?;
        let (named, command) = arguments.split_at(end);
        let mut options = BTreeMap::new();
        for pair in named.chunks(2) {
            let [name, value] = pair else { return Err(Failure::new("an option has no value")) };
            options.insert(name.as_str(), value.as_str());
        }
        Ok(Self { named: options, command: command.get(1..).unwrap_or_default() })
    }

    fn text(&self, name: &str) -> Outcome<&'a str> {
        self.named.get(name).copied().ok_or_else(|| Failure::new(format!("write {name}")))
    }

    fn number(&self, name: &str, usual: u64) -> Outcome<u64> {
        let Some(text) = self.named.get(name) else { return Ok(usual) };
        text.parse().map_err(|_| Failure::new(format!("{name} {text} is no number")))
    }
}

/// Returns the number of silent bypasses.
fn play(arguments: &[String]) -> Outcome<u64> {
    if arguments.first().is_some_and(|word| word == "--list") {
        PARSERS.iter().for_each(|parser| println!("{} {}", parser.name, parser.program));
        return Ok(0);
    }
    let options = Options::read(arguments)?;
    let name = options.text("--parser")?;
    let parser = PARSERS.iter().find(|parser| parser.name == name);
    let parser = parser.ok_or_else(|| Failure::new(format!("there is no parser {name}")))?;
    let removed = options.named.get("--remove").map(|rule| format!("SecRuleRemoveById {rule}"));
    let mut judge =
        Judge::new(&PathBuf::from(options.text("--crs")?), &removed.unwrap_or_default())?;
    let mut process = Process::start(options.command, name)?;
    let seconds = 60 * options.number("--minutes", 0)?;
    let until = Until {
        cases: options.number("--cases", if seconds > 0 { u64::MAX } else { 10_000 })?,
        time: (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds)),
    };
    let (seed, first) = (options.number("--seed", 1)?, options.number("--first", 0)?);
    let seen = run(parser, &mut process, &mut judge, seed, first, until)?;
    report(parser, &seen, seed);
    if let Some(file) = options.named.get("--record") {
        write(file, seen.sample.iter())?;
    }
    if let Some(file) = options.named.get("--bypasses") {
        write(file, seen.bypasses.iter().map(|(_, _, recorded)| recorded))?;
    }
    Ok(seen.silent)
}

fn report(parser: &Parser, seen: &Seen, seed: u64) {
    let Seen { cases, returned, exposed, blocked, blocked_by_crs, silent, bypasses, .. } = seen;
    let sum = |rules: &BTreeMap<u64, u64>| rules.values().sum::<u64>();
    println!(
        "{}: {cases} cases, {returned} returned, {exposed} exposed, {} blocked, {} blocked by CRS, {silent} silent",
        parser.name,
        sum(blocked),
        sum(blocked_by_crs)
    );
    println!("  blocked: {blocked:?}; by CRS: {blocked_by_crs:?}");
    for (kind, number, recorded) in bypasses.iter().take(SHOWN_MAX) {
        println!("  seed {seed} {} {number}: {}", kind.name(), recorded.line());
    }
}

/// Bypasses that are printed.
const SHOWN_MAX: usize = 12;

fn write<'r>(file: &str, cases: impl Iterator<Item = &'r Recorded>) -> Outcome<()> {
    let text: String = cases.map(|recorded| recorded.line() + "\n").collect();
    std::fs::write(file, text).map_err(io("write a file of cases"))
}
