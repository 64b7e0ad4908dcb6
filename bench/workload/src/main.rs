//! Writes the requests that `cargo xtask bench engine` measures.
//!
//! `glacis-bench-workload DEFINITIONS.yaml FOLDER` reads what is to be made (how many requests of
//! each class, the sizes of the curves, the attacks) and writes one file for each set of requests
//! into the folder, in the format of `glacis eval` with the expected verdict added to each line.
//! The same definitions give the same bytes, on every machine.
#![allow(clippy::print_stderr, reason = "a command line tool says what went wrong")]

mod attack;
mod body;
mod browser;
mod curve;
mod definitions;
mod page;
mod random;
mod request;
mod words;
mod workload;

use std::{fs, path::Path, process::ExitCode};

use definitions::Definitions;
use request::Request;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [definitions, folder] = arguments.as_slice() else {
        eprintln!("usage: glacis-bench-workload DEFINITIONS.yaml FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(definitions), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn write(definitions: &Path, folder: &Path) -> Result<(), String> {
    let text = fs::read_to_string(definitions)
        .map_err(|error| format!("{}: {error}", definitions.display()))?;
    let definitions =
        Definitions::parse(&text).map_err(|error| format!("{}: {error}", definitions.display()))?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, requests) in workload::sets(&definitions) {
        let path = folder.join(format!("{name}.jsonl"));
        fs::write(&path, lines(&requests))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn lines(requests: &[Request]) -> String {
    requests.iter().map(|request| request.line() + "\n").collect()
}
