//! `http-bench NAME WORKLOAD OUTPUT [--short]`: a bench of `bench/http`. `http-bench sizing OUTPUT`: what its curves say.
//! `cargo xtask bench NAME` builds what is needed and runs it; `bench/http.md` says what the numbers mean.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use glacis_tests::bench::definition::Definition;
use glacis_tests::bench::told::Generator;
use glacis_tests::bench::{self, GENERATORS, Options, report, sizing};
use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::machine::{load_average, machine};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a run may take beside what is planned: builds of bundles, slow starts, second load generators.
const SPARE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["sizing", output] => fit(Path::new(output)),
        [name, workload, output] => run(name, Path::new(workload), Path::new(output), false),
        [name, workload, output, "--short"] => {
            run(name, Path::new(workload), Path::new(output), true)
        }
        _ => {
            eprintln!(
                "usage: http-bench NAME WORKLOAD OUTPUT [--short]\n       http-bench sizing OUTPUT"
            );
            return ExitCode::from(2);
        }
    };
    exit("http-bench", outcome.map(|()| true))
}

fn fit(output: &Path) -> Outcome<()> {
    println!("{}", sizing::write(output, &measured_on())?);
    println!("{}", output.join("sizing.md").display());
    Ok(())
}

fn measured_on() -> String {
    format!("Machine: {}. Envoy and CRS are those of `cargo xtask fetch`.", machine())
}

fn run(name: &str, workload: &Path, output: &Path, short: bool) -> Outcome<()> {
    open_many_files();
    let planned = Definition::read(name)?.planned_seconds();
    if !short {
        println!("{name}: {:.1} minutes are planned", planned / 60.0);
    }
    end_after(Duration::from_secs_f64(planned) + SPARE);
    let folder = std::env::temp_dir().join(format!("glacis-bench-{}", std::process::id()));
    let options = Options { name, short, workload, folder: &folder };
    let file = if short { format!("{name}-short") } else { name.to_owned() };
    let before = load_average();
    let mut tools = vec!["ours (`tests/src/load.rs`)"];
    let others = GENERATORS.into_iter().filter(Generator::is_there);
    tools.extend(others.map(|generator| generator.program));
    let about = || {
        format!(
            "{}\n\nLoad generators: {}. Load of the machine before and after: {before}; {}.{}",
            measured_on(),
            tools.join(", "),
            load_average(),
            if short { " The short form: not for quoting." } else { "" },
        )
    };
    let results = bench::run(&options, &mut |line| println!("{line}"), &mut |results| {
        report::write(output, &file, results, &about()).map(drop)
    })?;
    println!("\n{}", report::write(output, &file, &results, &about())?);
    println!("{}", output.join(format!("{file}.md")).display());
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}

/// Ends this process, and with it all that it has started, if something hangs: what was seen by then is written.
fn end_after(time: Duration) {
    thread::spawn(move || {
        thread::sleep(time);
        eprintln!("http-bench: not done after {} s; ended", time.as_secs());
        std::process::exit(1);
    });
}

/// Each connection is a file: as many as may be, here and in what is started.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it may not be raised, fewer connections are tried.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
