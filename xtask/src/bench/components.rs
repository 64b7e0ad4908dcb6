//! `cargo xtask bench components`: what each part takes by itself. `bench/components.md` says what is measured and how.

use std::process::Command;

use crate::failure::Outcome;
use crate::{cargo, fetch, settings::settings};

/// `bench components [--short]`: `--short` takes seconds and proves that it works.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short"])?;
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let programs = ["glacis-ext-proc", "glacis-ext-authz", "empty-ext-proc", "components"];
    let artifacts = cargo::programs(&programs)?;
    let mut run = Command::new(artifacts.program("components")?);
    run.args(&flags).env("GLACIS_REDIS", redis);
    cargo::run(run.envs(settings(&fetched, None, &artifacts)))
}
