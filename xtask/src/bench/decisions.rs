//! `cargo xtask bench decisions`: what asking ext-proc adds to a request, beside an external processor that looks at
//! nothing. `bench/decisions.md` says what is measured and how.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{self, find_on_path};
use crate::failure::Outcome;
use crate::{fetch, settings::settings};

/// The tool that asks ext-proc without Envoy.
const GHZ: &str = "github.com/bojand/ghz/cmd/ghz@v0.93.0";

/// `bench decisions [--short] [--long] [--off]`: `--short` takes seconds and proves that it works; `--long` adds
/// decisions per second by ghz, and memory under 400 connections; `--off` runs no rules.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short", "--long", "--off"])?;
    let fetched = fetch::ensure()?;
    let artifacts = cargo::programs(&["glacis-ext-proc", "empty-ext-proc", "decisions"])?;
    let mut run = Command::new(artifacts.program("decisions")?);
    run.args(&flags).envs(settings(&fetched, None, &artifacts));
    if flags.contains(&"--long") {
        run.env("GLACIS_GHZ", ghz()?);
    }
    cargo::run(&mut run)
}

/// The pinned ghz, built when it is not there.
pub(super) fn ghz() -> Outcome<PathBuf> {
    let folder = super::folder().join("ghz");
    let program = folder.join("ghz");
    if !program.exists() {
        let go = find_on_path("go").unwrap_or_else(|| PathBuf::from("go"));
        cargo::run(Command::new(go).args(["install", GHZ]).env("GOBIN", &folder))?;
    }
    Ok(program)
}
