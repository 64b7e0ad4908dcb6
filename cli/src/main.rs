//! The glacis command. It checks rules, evaluates requests and explains the verdicts, learns exclusions and weights, measures
//! the cost and the false alarms of rules, runs the regression tests of the CRS, makes tables of countries, shows the state
//! of breakers, checks installations, manages bans, imports rulesets, and bundles rules for the wasm-filter.
//!
//! Exit status: 0 success, 1 findings (an error in rules or input, a blocked request, a failed test), 2 usage error, 3 a
//! verdict differs from `--expect`, 4 a service cannot be reached. Results go to standard output, remarks to standard
//! error. A reader that closes the pipe ends the command quietly.

mod admin;
mod arguments;
mod bans;
mod bench;
mod bundle;
mod doctor;
mod eval;
mod expect;
mod explain;
mod ftw;
mod geo;
mod import;
mod input;
mod inspect;
mod learn;
mod learn_api;
mod lines;
mod lint;
mod manual;
mod output;
mod patches;
mod profile;
mod progress;
mod quantify;
mod record;
mod ruleset;
mod second_opinion;
mod status;
mod train;

use std::process::ExitCode;

use arguments::{Command, GeoAction, Stop, VERSION};
use output::{Fault, Outcome};

fn main() -> ExitCode {
    // A defect of ours is said in a line: nobody but us has any use for a backtrace.
    std::panic::set_hook(Box::new(|defect| {
        output::remark(format_args!("glacis: internal error, please report it: {defect}"));
    }));
    let outcome = match arguments::parse(std::env::args_os()) {
        Ok(command) => run(&command),
        Err(Stop::Help(text)) => output::print(&text),
        Err(Stop::Usage(message)) => Err(Fault::Usage(message)),
    };
    output::exit(outcome)
}

fn run(command: &Command) -> Result<Outcome, Fault> {
    // A measurement is alone on its core.
    let is_measured = matches!(command, Command::Eval(options) if options.bench.is_some());
    let _watch = (!is_measured).then(progress::watch);
    match command {
        Command::Lint(options) => lint::run(options),
        Command::Eval(options) if options.bench.is_some() => bench::run(options),
        Command::Eval(options) => eval::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Learn(options) => learn::run(options),
        Command::LearnApi(options) => learn_api::run(options),
        Command::Profile(options) => profile::run(options),
        Command::Quantify(options) => quantify::run(options),
        Command::Ftw(options) => ftw::run(options),
        Command::Geo(GeoAction::Build(options)) => geo::run(options),
        Command::Patches(options) => patches::run(options),
        Command::Status(options) => status::run(options),
        Command::Doctor(options) => doctor::run(options),
        Command::Bans(options) => bans::run(options),
        Command::Import(options) => import::run(options),
        Command::Bundle(options) => bundle::run(options),
        Command::Train(options) => train::run(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man(options) => manual::pages(options),
        Command::Version => output::print(&format!("glacis {VERSION}\n")),
    }
}
