//! `chaos [--quick | --list] [--report FILE] [NAME…]`: plays scenarios of `tests/chaos/` on a whole fleet, and
//! ends in a table. `cargo xtask chaos` runs it.
#![allow(clippy::print_stdout, reason = "a command line tool talks on its standard streams")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use glacis_tests::chaos::{Player, Scenario, Verdict, read, report, result};
use glacis_tests::failure::{Failure, Outcome, exit, io};
use glacis_tests::machine::{date, machine};
use glacis_tests::settings;

/// Times of the quick form may be so many times longer: it is played while other tests use the machine.
const SLACK: f64 = 6.0;

/// What a report begins with.
const HEADING: &str = "What `cargo xtask chaos` has shown; [`tests/chaos`](../../tests/chaos/README.md) says what each \
scenario breaks. \"Failed\" are clean requests with 5xx, which is what a route that fails closed is for; \
\"uninspected\" are those that a route which fails open let pass.";

/// What is asked for.
#[derive(Debug, Default)]
struct Wanted {
    quick: bool,
    list: bool,
    report: Option<String>,
    names: Vec<String>,
}

fn main() -> ExitCode {
    exit("chaos", run())
}

fn wanted() -> Outcome<Wanted> {
    let mut wanted = Wanted::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => wanted.quick = true,
            "--list" => wanted.list = true,
            "--report" => {
                let file = arguments.next();
                wanted.report = Some(file.ok_or_else(|| Failure::new("--report needs a file"))?);
            }
            option if option.starts_with('-') => {
                return Err(Failure::new(format!("there is no option {option}")));
            }
            name => wanted.names.push(name.to_owned()),
        }
    }
    Ok(wanted)
}

/// Those that are asked for; without names all of them, or those of the quick form.
fn chosen(all: Vec<Scenario>, wanted: &Wanted) -> Outcome<Vec<Scenario>> {
    for name in &wanted.names {
        if !all.iter().any(|scenario| scenario.name == *name) {
            let names: Vec<_> = all.iter().map(|scenario| scenario.name.as_str()).collect();
            let names = names.join(", ");
            return Err(Failure::new(format!("there is no scenario {name}; there are {names}")));
        }
    }
    let named = |scenario: &Scenario| wanted.names.contains(&scenario.name);
    let is_chosen = |scenario: &Scenario| match wanted.names.is_empty() {
        true => !wanted.quick || scenario.core,
        false => named(scenario),
    };
    let mut chosen: Vec<_> = all.into_iter().filter(is_chosen).collect();
    // Those with the fleet as it is follow each other, so that it is started once.
    chosen.sort_by_key(|scenario| scenario.setup.is_some());
    Ok(chosen)
}

fn write(file: &Path, text: &str) -> Outcome<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(io("make", folder))?;
    }
    let measured = format!("Measured on {}: {}.", date(), machine());
    let text = format!("# Chaos\n\n{HEADING}\n{measured}\n\n{text}");
    std::fs::write(file, text).map_err(io("write", file))
}

fn run() -> Outcome<bool> {
    let wanted = wanted()?;
    let scenarios = chosen(read(&settings::root().join("tests/chaos"))?, &wanted)?;
    if wanted.list {
        scenarios.iter().for_each(|scenario| println!("{:<28} {}", scenario.name, scenario.about));
        return Ok(true);
    }
    let folder = std::env::temp_dir().join(format!("glacis-chaos-{}", std::process::id()));
    let mut player = Player::new(&folder, if wanted.quick { SLACK } else { 1.0 });
    let mut verdicts = Vec::new();
    for scenario in &scenarios {
        println!("{}: {}", scenario.name, scenario.about);
        let begun = Instant::now();
        // One that cannot be played to its end is no reason not to play the others.
        let verdict = player.play(scenario).unwrap_or_else(|failure| Verdict {
            name: scenario.name.clone(),
            faults: vec![failure.to_string()],
            ..Verdict::default()
        });
        verdict.faults.iter().for_each(|fault| println!("  {fault}"));
        verdict.notes.iter().chain(&verdict.left_out).for_each(|note| println!("  {note}"));
        let result = result(&verdict);
        println!("  {result} ({:.1} s)", begun.elapsed().as_secs_f64());
        verdicts.push(verdict);
    }
    player.stop();
    let text = report(&verdicts);
    println!("\n{text}");
    if let Some(file) = &wanted.report {
        write(file.as_ref(), &text)?;
    }
    let good = verdicts.iter().all(|verdict| verdict.faults.is_empty());
    match good {
        true => std::fs::remove_dir_all(&folder).map_err(io("remove", &folder))?,
        false => println!("logs: {}", folder.display()),
    }
    Ok(good)
}
