//! `http-bench NAME WORKLOAD OUTPUT [--short]`: a bench of `bench/http`. `cargo xtask bench NAME` builds what is needed and runs
//! it; `bench/http.md` says what the numbers mean.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use glacis_tests::bench::{self, Options, nighthawk, report};
use glacis_tests::failure::{Outcome, doing};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [name, workload, output] => run(name, Path::new(workload), Path::new(output), false),
        [name, workload, output, "--short"] => {
            run(name, Path::new(workload), Path::new(output), true)
        }
        _ => {
            eprintln!("usage: http-bench NAME WORKLOAD OUTPUT [--short]");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("http-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, workload: &Path, output: &Path, short: bool) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("glacis-bench-{}", std::process::id()));
    let options = Options { name, short, workload, folder: &folder };
    let before = load_average();
    let (definition, rows) = bench::run(&options, &mut |line| println!("{line}"))?;
    let about = format!(
        "Load generator: ours (`tests/src/load.rs`){}. Load of the machine before and after: {before}; {}.{}",
        if nighthawk::is_there() { "; `nighthawk_client` is there" } else { "" },
        load_average(),
        if short { " The short form: not for quoting." } else { "" },
    );
    let name = if short { format!("{name}-short") } else { name.to_owned() };
    println!("\n{}", report::write(output, &name, &definition, &rows, &about)?);
    println!("{}", output.join(format!("{name}.md")).display());
    fs::remove_dir_all(&folder).map_err(doing("remove the logs"))
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}
