//! The engine alone, for tools that measure a process from outside.
//!
//! `glacis-bench-probe counts RULES.conf REQUESTS.jsonl` warms one transaction up with all requests
//! and takes it through each of them once more, in [`counted`]. Run under callgrind, which is told to
//! count within that function and to write its counts down whenever it is left, this gives the
//! instructions of each request. No clock is read, which would not be the same twice.
//!
//! `glacis-bench-probe load RULES.conf REQUESTS.jsonl WORKERS` tells the time that loading takes and the
//! memory of the process when so many workers have taken all requests.
//!
//! `glacis-bench-probe hostile RULES.conf SIZES [FAMILY]` tells what requests cost that were made to cost
//! much, at each of the sizes; `glacis-bench-probe search RULES.conf SECONDS` looks for dearer ones.
//!
//! `glacis-bench-probe bounds RULES.conf BYTES` prints the CPU time and the memory that bodies of this size take, and
//! `whole` the same where all of a body is inspected, as it is where rules may block.
//!
//! `glacis-bench-probe large RULES.conf BYTES [FORMAT]` prints what benign bodies of this size cost in each format, and
//! the verdicts on the same bodies with an attack in them.
//!
//! `cargo xtask bench counts`, `load` and `hostile` run it and compare.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bounds;
mod clock;
mod hostile;
mod large;
mod load;
mod request;

use std::{error::Error, fs, process::ExitCode, sync::Arc};

use glacis_engine::{Input, Limits, Program, Transaction};
use glacis_rules::FileSource;
use request::Request;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Passes over all requests before the one that counts. What the engine builds while it runs, it
/// builds within bounds for each transaction, so that one pass does not build it all.
const WARM_UP_PASSES: usize = 48;

const USAGE: &str = "usage: glacis-bench-probe counts RULES REQUESTS | load RULES REQUESTS WORKERS | \
                     hostile RULES SIZES [FAMILY] | bounds RULES BYTES [FAMILY] | \
                     whole RULES BYTES [FAMILY] | large RULES BYTES [FORMAT] | search RULES SECONDS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome<()> {
    match words {
        ["counts", rules, requests] => counts(rules, requests),
        ["hostile", rules, sizes] => hostile::run(rules, sizes, ""),
        ["hostile", rules, sizes, only] => hostile::run(rules, sizes, only),
        ["bounds", rules, bytes] => bounds::run(program(rules)?, bytes, ""),
        ["bounds", rules, bytes, only] => bounds::run(program(rules)?, bytes, only),
        ["whole", rules, bytes] => bounds::run(program_for_whole_bodies(rules)?, bytes, ""),
        ["whole", rules, bytes, only] => bounds::run(program_for_whole_bodies(rules)?, bytes, only),
        ["large", rules, bytes] => large::run(rules, bytes, ""),
        ["large", rules, bytes, only] => large::run(rules, bytes, only),
        ["search", rules, seconds] => hostile::search(rules, seconds),
        ["load", rules, requests, workers] => load::run(rules, requests, workers),
        _ => Err(USAGE.into()),
    }
}

fn counts(rules: &str, requests: &str) -> Outcome<()> {
    let requests = self::requests(requests)?;
    let mut transaction = Transaction::new(program(rules)?);
    for _ in 0..WARM_UP_PASSES {
        for request in &requests {
            request.inspect(&mut transaction);
        }
    }
    for request in &requests {
        counted(request, &mut transaction);
        println!("{}", request.answer(&transaction));
    }
    Ok(())
}

/// Callgrind finds this function by its name.
#[inline(never)]
fn counted(request: &Request, transaction: &mut Transaction) {
    request.inspect(transaction);
}

/// Builds the program of a file of rules.
fn program(rules: &str) -> Outcome<Arc<Program>> {
    program_within(rules, Limits::default())
}

/// The same, that inspects bodies in full where rules look on, as where they may block.
fn program_for_whole_bodies(rules: &str) -> Outcome<Arc<Program>> {
    program_within(rules, Limits { observed_body_bytes_max: usize::MAX, ..Limits::default() })
}

fn program_within(rules: &str, limits: Limits) -> Outcome<Arc<Program>> {
    let inputs = [Input::File(rules.to_owned())];
    Ok(Arc::new(Program::build(&inputs, &FileSource::new(), limits)?))
}

fn requests(path: &str) -> Outcome<Vec<Request>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.lines().map(Request::parse).collect::<Result<_, _>>()?)
}
