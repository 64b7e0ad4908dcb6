//! `cargo xtask bench authz`: what asking ext-authz costs, and what leases save. `bench/authz.md` says what is measured
//! and how.

use std::process::Command;

use super::decisions;
use crate::cargo;
use crate::failure::{Failure, Outcome};
use crate::{fetch, suite};

/// `bench authz [--short] [--peer PROGRAM]`: `--short` takes seconds and proves that it works; PROGRAM is a built
/// envoyproxy/ratelimit.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let short = arguments.iter().any(|argument| argument == "--short");
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = suite::build_wasm()?;
    let wanted = [("glacis-ext-authz", "glacis-ext-authz"), ("glacis-tests", "authz")];
    let wanted = wanted.into_iter().flat_map(|(package, bin)| ["-p", package, "--bin", bin]);
    let build: Vec<&str> = ["--release"].into_iter().chain(wanted).collect();
    let artifacts = cargo::build(&build)?;
    let Some(program) = artifacts.binaries.get("authz") else {
        return Err(Failure::new("the workspace has no binary named `authz`"));
    };
    let mut run = Command::new(program);
    run.args(arguments).env("GLACIS_REDIS", redis);
    run.envs(suite::settings(&fetched, Some(wasm), &artifacts));
    if !short {
        run.env("GLACIS_GHZ", decisions::ghz()?);
    }
    cargo::run(&mut run)
}
