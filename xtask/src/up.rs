//! `cargo xtask up`: the whole thing on this machine, until Ctrl-C; and `cargo xtask reload`: the same with
//! rules that are exchanged under load.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::cargo;
use crate::failure::{Failure, Outcome};
use crate::{fetch, settings::settings, wasm};

/// Builds what is needed and becomes the `up` program of `tests/`.
///
/// The development profile is the default: the tests use the same binaries, and the engine and its
/// dependencies are optimised in it. `--release` is for measurements.
pub(crate) fn up(arguments: &[String]) -> Outcome<()> {
    become_program("up", arguments)
}

/// As [`up`], for the program `reload-under-load`.
pub(crate) fn reload(arguments: &[String]) -> Outcome<()> {
    become_program("reload-under-load", arguments)
}

fn become_program(name: &str, arguments: &[String]) -> Outcome<()> {
    let (flags, passed) = crate::flags(arguments, &["--release"])?;
    let fetched = fetch::ensure()?;
    let wasm = wasm::build()?;
    // `--lib` has Envoy's native module made, which no program links.
    let mut build = vec!["--workspace", "--bins", "--lib"];
    build.extend(flags);
    let artifacts = cargo::build(&build)?;
    let mut command = Command::new(artifacts.program(name)?);
    command.args(passed).envs(settings(&fetched, Some(wasm), &artifacts));
    // Replacing ourselves leaves one process to signal: Ctrl-C, and a SIGTERM to the process that
    // was started, reach the program that knows how to stop what it has started.
    let error = command.exec();
    Err(Failure::new(format!("cannot start {name}: {error}")))
}
