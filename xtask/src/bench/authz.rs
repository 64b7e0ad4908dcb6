//! `cargo xtask bench authz`: what asking ext-authz costs, and what leases save. `bench/authz.md` says what is measured
//! and how.

use std::process::Command;

use super::decisions;
use crate::cargo;
use crate::failure::Outcome;
use crate::{fetch, suite};

/// `bench authz [--short] [--peer PROGRAM]`: `--short` takes seconds and proves that it works; PROGRAM is a built
/// envoyproxy/ratelimit.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let short = arguments.iter().any(|argument| argument == "--short");
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = suite::build_wasm()?;
    let artifacts = cargo::programs(&["glacis-ext-authz", "authz"])?;
    let mut run = Command::new(artifacts.program("authz")?);
    run.args(arguments).env("GLACIS_REDIS", redis);
    run.envs(suite::settings(&fetched, Some(wasm), &artifacts));
    if !short {
        run.env("GLACIS_GHZ", decisions::ghz()?);
    }
    cargo::run(&mut run)
}
