//! `crs-over-envoy [--module] [ARGUMENT…]`: the regression tests of CRS over a real Envoy with ext-proc or with the
//! native module, with these arguments for `glacis ftw`. `cargo xtask ftw --envoy` runs it.
#![allow(clippy::print_stderr, reason = "a command line tool talks on its standard streams")]

use std::process::ExitCode;

use glacis_tests::crs::Regression;
use glacis_tests::failure::{Outcome, doing, exit};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    exit("crs-over-envoy", run(&arguments))
}

fn run(arguments: &[String]) -> Outcome<bool> {
    let folder = std::env::temp_dir().join(format!("glacis-crs-{}", std::process::id()));
    let (regression, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == "--module" => (Regression::start_natively(&folder)?, rest),
        _ => (Regression::start(&folder)?, arguments),
    };
    let status = regression.ftw(arguments)?.status().map_err(doing("run glacis"))?;
    if status.success() {
        std::fs::remove_dir_all(&folder).map_err(doing("remove the logs"))?;
    } else {
        eprintln!("logs: {}", folder.display());
    }
    Ok(status.success())
}
