//! The commands that build and check: `wasm`, `fmt`, `lint`, `docs`, `deny`, `test`.

use std::path::PathBuf;
use std::process::Command;

use crate::bench;
use crate::cargo::{self, cargo, find_on_path};
use crate::chaos;
use crate::charts;
use crate::failure::{Failure, Outcome};
use crate::fetch;
use crate::image;
use crate::modsecurity;
use crate::pins::WASM_TARGET;
use crate::release;
use crate::settings::settings;
use crate::steps::Steps;
use crate::tidy;
use crate::wasm;

/// `cargo xtask wasm`.
pub(crate) fn wasm(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    wasm::build().map(|_| ())
}

/// `cargo xtask fmt`.
pub(crate) fn fmt(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--check"])?;
    cargo::run(cargo(["fmt", "--all"]).args(&flags))?;
    // The fuzzer's targets are a workspace of their own.
    cargo::run(cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml"]).args(flags))
}

/// `cargo xtask lint`.
pub(crate) fn lint(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let deny = ["--", "-D", "warnings"];
    cargo::run(cargo(["clippy", "--workspace", "--all-targets"]).args(deny))?;
    // Code behind `cfg(target_arch = "wasm32")` is seen by no other check.
    let filter = ["clippy", "-p", "glacis-wasm-filter", "--target", WASM_TARGET];
    cargo::run(cargo(filter).args(deny))?;
    cargo::run(cargo(filter).args(["--features", "engine"]).args(deny))
}

/// `cargo xtask test`.
pub(crate) fn test(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let mut steps = Steps::default();
    test_steps(&mut steps)?;
    steps.finish("test");
    Ok(())
}

/// `cargo xtask docs`.
pub(crate) fn docs(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    // A link to nothing is a warning of rustdoc's, and no compiler sees it.
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    cargo::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// `cargo xtask deny`: who asks for nothing else is not content with a remark.
pub(crate) fn deny(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    policy(find_on_path("cargo-deny"))?.map_or(Ok(()), |skipped| Err(Failure::new(skipped)))
}

/// Cheap steps first: who mistyped learns of it before the long builds.
fn test_steps(steps: &mut Steps) -> Outcome<()> {
    let fetched = steps.run("fetch", fetch::ensure)?;
    steps.run("older envoys", fetch::envoy::ensure_older)?;
    let redis = steps.run("redis", fetch::redis::ensure)?;
    steps.run("fmt", || fmt(&["--check".to_owned()]))?;
    steps.run("tidy", || tidy::command(&[]))?;
    let remark = steps.run("charts", || charts::check(false))?;
    steps.remark(remark);
    let remark = steps.run("deny", || policy(find_on_path("cargo-deny")))?;
    steps.remark(remark);
    steps.run("lint", || lint(&[]))?;
    // Behind clippy, which has checked all that we depend on.
    steps.run("docs", || docs(&[]))?;
    let wasm = steps.run("wasm", wasm::build)?;
    // With `--tests` the features that tests ask of dependencies are unified here already: without
    // it a dependency could be compiled once for the binaries and again for the tests.
    let build = || cargo::build(&["--workspace", "--bins", "--lib", "--tests"]);
    let artifacts = steps.run("build", build)?;
    let remark = steps.run("image", || image::check(&fetched, &wasm, &artifacts))?;
    steps.remark(remark);
    let remark = steps.run("release", || release::check(&wasm, &artifacts))?;
    steps.remark(remark);
    steps.run("test", || {
        let wasm = wasm.clone();
        let mut test = cargo(["test", "--workspace", "--no-fail-fast"]);
        test.env("GLACIS_REDIS", &redis);
        cargo::run(test.envs(settings(&fetched, Some(wasm), &artifacts)))
    })?;
    let remark = steps.run("modsecurity-suite", || modsecurity::check(&artifacts))?;
    steps.remark(remark);
    let remark = steps.run("valkey", on_valkey)?;
    steps.remark(remark);
    for program in ["chaos", "soak"] {
        steps.run(program, || chaos::quick(program, &fetched, &wasm, &redis, &artifacts))?;
    }
    if !has_chromium() {
        let skipped =
            "SKIPPED: the admin page was not tried in a browser (no chromium on the path)";
        steps.remark(Some(skipped.to_owned()));
    }
    let remark = steps.run("bench", || bench::compare(&fetched))?;
    steps.remark(remark);
    Ok(())
}

/// The tests of the store once more, on Valkey; a remark where there is none. The whole workspace is named so that
/// nothing is compiled anew.
fn on_valkey() -> Outcome<Option<String>> {
    let program = match fetch::valkey::program()? {
        Ok(program) => program,
        Err(why) => return Ok(Some(format!("SKIPPED: limits were not tried on Valkey ({why})"))),
    };
    println!("Valkey: {} is used", program.display());
    let mut test = cargo(["test", "--workspace", "--test", "store"]);
    cargo::run(test.env("GLACIS_REDIS", program))?;
    Ok(None)
}

/// As the end-to-end tests look for it.
fn has_chromium() -> bool {
    if let Some(given) = std::env::var_os("GLACIS_CHROMIUM") {
        return PathBuf::from(given).is_file();
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    names.iter().any(|name| find_on_path(name).is_some())
}

/// The policy on dependencies of `deny.toml`; a remark where the program is missing that knows how to read it. That is
/// not fetched as Envoy is: nothing that we build or test depends on it, and a pin more has to be kept.
fn policy(cargo_deny: Option<PathBuf>) -> Outcome<Option<String>> {
    let Some(program) = cargo_deny else {
        let missing = "no cargo-deny on the path: `cargo install cargo-deny --locked`";
        return Ok(Some(format!(
            "SKIPPED: the policy on dependencies was not checked ({missing})"
        )));
    };
    // Advisories are left to those who have a copy of the database: fetching it is not for a build.
    let checks = ["--workspace", "check", "bans", "licenses", "sources"];
    cargo::run(Command::new(program).args(checks).current_dir(cargo::root()))?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_not_checked_is_told() {
        let told = policy(None).ok().flatten().unwrap();
        assert!(told.starts_with("SKIPPED: "), "{told}");
        let missing = PathBuf::from("/nowhere/cargo-deny");
        assert!(policy(Some(missing)).is_err());
    }
}
