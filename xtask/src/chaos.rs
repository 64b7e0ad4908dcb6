//! `cargo xtask chaos`: what happens when it breaks; and `cargo xtask soak`: what does not hold for long.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts};
use crate::failure::{Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::settings::settings;
use crate::wasm;

/// The soak that is a step of the tests: long enough for leaks that show at once, and for the commands to work.
const SHORT_SOAK: [&str; 4] = ["--seconds", "20", "--rps", "60"];

/// What runs in a fleet and beside it.
const SERVICES: [&str; 4] = ["glacis-ext-proc", "glacis-ext-authz", "glacis", "sample-upstream"];

/// `cargo xtask chaos [--quick] [--list] [--report FILE] [NAME…]`.
///
/// The binaries of both are optimised: times are what they are about.
pub(crate) fn chaos(arguments: &[String]) -> Outcome<()> {
    become_program("chaos", arguments)
}

/// `cargo xtask soak [--hours N | --minutes N] [--rps R] [--report FOLDER]`.
pub(crate) fn soak(arguments: &[String]) -> Outcome<()> {
    become_program("soak", arguments)
}

/// Both in their short forms, as steps of the tests.
pub(crate) fn quick(
    program: &str,
    fetched: &Fetched,
    wasm: &Path,
    redis: &Path,
    artifacts: &Artifacts,
) -> Outcome<()> {
    let arguments: &[&str] = if program == "soak" { &SHORT_SOAK } else { &["--quick"] };
    let mut command = command(program, fetched, wasm.to_path_buf(), redis, artifacts)?;
    cargo::run(command.args(arguments))
}

fn become_program(program: &str, arguments: &[String]) -> Outcome<()> {
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = wasm::build()?;
    let artifacts = cargo::programs(&[&SERVICES[..], &[program]].concat())?;
    let mut command = command(program, &fetched, wasm, &redis, &artifacts)?;
    // Without it scenarios that set a clock are left out, and say so.
    if let Ok(library) = fetch::debian::library("libfaketimeMT.so.1", "libfaketime")? {
        command.env("GLACIS_FAKETIME", library);
    }
    // One process to signal, as with `up`.
    let error = command.args(arguments).exec();
    Err(Failure::new(format!("cannot start {program}: {error}")))
}

fn command(
    name: &str,
    fetched: &Fetched,
    wasm: PathBuf,
    redis: &Path,
    artifacts: &Artifacts,
) -> Outcome<Command> {
    let program = artifacts.program(name)?;
    // Thousands of connections need as many file descriptors as there may be.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$(ulimit -Hn)\"; exec \"$@\"", "sh"]).arg(program);
    command.envs(settings(fetched, Some(wasm), artifacts)).env("GLACIS_REDIS", redis);
    Ok(command)
}
