//! `cargo xtask bench …`: what things cost. Here is `bench engine`, what a request costs beside the peers, with its answer
//! checked; each of the others has a module.
//!
//! `bench/README.md` says how to use them, `bench/METHODOLOGY.md` what `bench engine` measures and how.

mod authz;
mod callgrind;
mod components;
mod counts;
mod decisions;
mod engine;
mod filter;
mod hostile;
mod http;
mod load;
mod micro;
mod operators;
mod prepare;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cargo;
use crate::failure::{Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::ftw;
use engine::{Built, Engine};
use prepare::Set;
use report::Report;

/// `cargo xtask bench …`: `engine`, `authz`, `components`, `counts`, `decisions`, `filter`, `load`, `hostile`, `micro`,
/// `operators`, `sizing`, one of [`http::NAMES`], or a file of requests.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let Some((word, rest)) = arguments.split_first() else { return ftw::bench(arguments) };
    match word.as_str() {
        "engine" => run(&Options::parse(rest)?),
        "authz" => authz::command(rest),
        "components" => components::command(rest),
        "counts" => counts::command(rest),
        "decisions" => decisions::command(rest),
        name if http::NAMES.contains(&name) => http::command(name, rest),
        "filter" => filter::command(rest),
        "hostile" => hostile::command(rest),
        "load" => load::command(rest),
        "micro" => micro::command(rest),
        "operators" => operators::command(rest),
        "sizing" => http::sizing(rest),
        _ => ftw::bench(arguments),
    }
}

/// What `cargo xtask test` compares; the text is what a person has to know although nothing failed.
pub(crate) fn compare(fetched: &Fetched) -> Outcome<Option<String>> {
    load::compare(fetched)?;
    hostile::compare(fetched)?;
    counts::compare(fetched)
}

/// Times that each engine is run on each set of requests.
const ROUNDS: usize = 3;

/// CPU seconds that one run measures.
const SECONDS: f64 = 3.0;
const SECONDS_SHORT: f64 = 0.5;

#[derive(Debug, PartialEq)]
struct Options {
    /// A sample of the requests, one round, and only what is built already.
    short: bool,
    /// Only requests of this class, or of classes that begin so.
    only: Option<String>,
    /// The paranoia level up to which rules run.
    level: u8,
    /// Engines beside ours; `None` for all.
    peers: Option<Vec<String>>,
    rounds: usize,
}

impl Options {
    fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self { short: false, only: None, level: 1, peers: None, rounds: ROUNDS };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || Failure::usage(format!("`{argument}` needs a value"));
                arguments.next().cloned().ok_or_else(missing)
            };
            match argument.as_str() {
                "--short" => options.short = true,
                "--only" => options.only = Some(value()?),
                "--level" => options.level = number(&value()?, "--level", 1, 4)?,
                "--rounds" => options.rounds = number(&value()?, "--rounds", 1, 99)?.into(),
                "--peers" => options.peers = Some(peers(&value()?)?),
                other => return Err(Failure::usage(format!("bench engine: unknown `{other}`"))),
            }
        }
        if options.short {
            options.rounds = 1;
        }
        Ok(options)
    }
}

fn number(text: &str, name: &str, low: u8, high: u8) -> Outcome<u8> {
    let wrong = || Failure::usage(format!("{name} takes a number from {low} to {high}"));
    text.parse().ok().filter(|number| (low..=high).contains(number)).ok_or_else(wrong)
}

fn peers(text: &str) -> Outcome<Vec<String>> {
    let names: Vec<String> =
        text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match names.iter().find(|name| !engine::PEERS.iter().any(|peer| peer.name == **name)) {
        Some(unknown) => {
            let known: Vec<&str> = engine::PEERS.iter().map(|peer| peer.name).collect();
            Err(Failure::usage(format!("no peer `{unknown}`; there are {}", known.join(", "))))
        }
        None => Ok(names),
    }
}

fn run(options: &Options) -> Outcome<()> {
    let fetched = fetch::ensure()?;
    let folder = folder();
    let sets = prepare::sets(&folder, options.short, options.only.as_deref())?;
    let rules = prepare::rules(&folder, &fetched.crs, options.level)?;
    let engines = engines(&folder, options)?;
    let seconds = if options.short { SECONDS_SHORT } else { SECONDS };

    let mut report = Report::new(&sets, prepare::differences()?);
    let begun = Instant::now();
    for round in 1..=options.rounds {
        // All engines one after another on the same requests: what else the machine does in these
        // minutes falls on all of them.
        for set in sets.iter().filter(|set| round == 1 || !set.is_curve()) {
            for engine in &engines {
                let told = measure(engine, set, &rules, seconds, begun.elapsed(), round)?;
                report.add(engine.name, set, round, told)?;
            }
        }
    }
    let name = if options.short { "engine-short" } else { "engine" };
    report.finish(&folder.join(format!("{name}-pl{}", options.level)), options.level)
}

fn measure(
    engine: &Built,
    set: &Set,
    rules: &prepare::Rules,
    seconds: f64,
    elapsed: Duration,
    round: usize,
) -> Outcome<Option<String>> {
    println!("{:5.0} s  round {round}  {}  {}", elapsed.as_secs_f64(), set.name, engine.name);
    engine.run(rules, &set.path, seconds)
}

/// Where everything goes that this command makes.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    cargo::root().join(target.unwrap_or_else(|| PathBuf::from("target"))).join("bench")
}

/// Ours, and the peers that can be built here; those that cannot are named with the reason.
fn engines(folder: &std::path::Path, options: &Options) -> Outcome<Vec<Built>> {
    let mut engines = vec![engine::OURS.build(folder)?];
    let is_wanted = |engine: &&Engine| match &options.peers {
        Some(names) => names.iter().any(|name| name == engine.name),
        None => true,
    };
    for peer in engine::PEERS.iter().filter(is_wanted) {
        let built = match options.short {
            true => peer.built(folder),
            false => peer.build(folder),
        };
        match built {
            Ok(built) => engines.push(built),
            Err(failure) => println!("without {}: {failure}", peer.name),
        }
    }
    Ok(engines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Options::parse(&arguments).map_err(|failure| failure.to_string())
    }

    #[test]
    fn options_are_read_or_refused() {
        let options = parse("--short --only json --level 4 --peers coraza,zentinel").unwrap();
        let peers = Some(vec!["coraza".to_owned(), "zentinel".to_owned()]);
        let only = Some("json".to_owned());
        assert_eq!(options, Options { short: true, only, level: 4, peers, rounds: 1 });
        for wrong in ["--level 5", "--level", "--peers nobody", "--long", "--rounds 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
