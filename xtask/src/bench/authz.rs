//! `cargo xtask bench authz`: what asking ext-authz costs, and what leases save. `bench/authz.md` says what is measured
//! and how.

use std::process::Command;

use super::decisions;
use crate::cargo;
use crate::failure::{Failure, Outcome};
use crate::{fetch, settings::settings, wasm};

/// `bench authz [--short] [--peer PROGRAM]`: `--short` takes seconds and proves that it works; PROGRAM is a built
/// envoyproxy/ratelimit.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let short = is_short(arguments)?;
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = wasm::build()?;
    let artifacts = cargo::programs(&["glacis-ext-authz", "authz"])?;
    let mut run = Command::new(artifacts.program("authz")?);
    run.args(arguments).env("GLACIS_REDIS", redis);
    run.envs(settings(&fetched, Some(wasm), &artifacts));
    if !short {
        run.env("GLACIS_GHZ", decisions::ghz()?);
    }
    cargo::run(&mut run)
}

/// Whether the short form is wanted; what the bench would pass over is refused.
fn is_short(arguments: &[String]) -> Outcome<bool> {
    let mut short = false;
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--short" => short = true,
            "--peer" => {
                let missing = || Failure::usage("--peer takes a built envoyproxy/ratelimit");
                words.next().ok_or_else(missing)?;
            }
            other => return Err(Failure::usage(format!("bench authz: unknown `{other}`"))),
        }
    }
    Ok(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        for (text, expected) in [
            ("", Some(false)),
            ("--short", Some(true)),
            ("--peer /a/b", Some(false)),
            ("--peer /a/b --short", Some(true)),
            ("--peer", None),
            ("--shrot", None),
        ] {
            let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(is_short(&arguments).ok(), expected, "{text}");
        }
    }
}
