//! The commands that build and check: `wasm`, `fmt`, `lint`, `docs`, `deny`, `test`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::bench;
use crate::cargo::{self, Artifacts, cargo, find_on_path};
use crate::chaos;
use crate::charts;
use crate::failure::{self, Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::image;
use crate::modsecurity;
use crate::pins::WASM_TARGET;
use crate::release;
use crate::steps::Steps;
use crate::tidy;
use crate::wasm;

/// `cargo xtask wasm`.
pub(crate) fn wasm(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    build_wasm().map(|_| ())
}

/// Bytes of the filter, and of the filter with the engine in it, at most: each worker compiles it.
const MODULE_BYTES_MAX: u64 = 1 << 20;
const ENGINE_MODULE_BYTES_MAX: u64 = 4 << 20;

/// Builds the filter, and the one with the engine beside it; returns the path of the former.
pub(crate) fn build_wasm() -> Outcome<PathBuf> {
    build_wasm_as(|_| {})
}

/// The same, with a folder and variables that the caller sets.
pub(crate) fn build_wasm_as(set: impl Fn(&mut Command)) -> Outcome<PathBuf> {
    // Both have one name while they are built, so this one is copied away first.
    let engine = build_module(&["--features", "engine"], ENGINE_MODULE_BYTES_MAX, &set)?;
    let copy = engine.with_file_name("glacis_wasm_filter_engine.wasm");
    fs::copy(&engine, &copy).map_err(failure::io("write", &copy))?;
    build_module(&[], MODULE_BYTES_MAX, &set)
}

fn build_module(
    features: &[&str],
    bytes_max: u64,
    set: impl FnOnce(&mut Command),
) -> Outcome<PathBuf> {
    let arguments = ["-p", "glacis-wasm-filter", "--profile", "wasm", "--target", WASM_TARGET];
    // Whoever builds the module gets the same one, which is known by its digest.
    let artifacts = cargo::build_as(&[&arguments[..], features].concat(), |command| {
        cargo::map_paths(command, &cargo::root());
        set(command);
    })?;
    let Some(path) = artifacts.wasm.last() else {
        return Err(Failure::new("glacis-wasm-filter was built, but made no .wasm file"));
    };
    let module = fs::read(path).map_err(failure::io("read", path))?;
    let module = wasm::without_idle_callbacks(&module)?;
    let bytes = module.len() as u64;
    fs::write(path, module).map_err(failure::io("write", path))?;
    let kibibytes = bytes.div_ceil(1024);
    println!("{} {} ({kibibytes} KiB)", path.display(), features.join(" "));
    if bytes > bytes_max {
        return Err(Failure::new(format!("the module has {bytes} bytes, more than {bytes_max}")));
    }
    Ok(path.clone())
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
    let wasm = steps.run("wasm", build_wasm)?;
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

/// How the end-to-end tests, `up` and `ftw --envoy` learn where things are. What has not been built has
/// no setting.
pub(crate) fn settings(
    fetched: &Fetched,
    wasm: Option<PathBuf>,
    artifacts: &Artifacts,
) -> Vec<(&'static str, PathBuf)> {
    let mut settings = vec![
        ("GLACIS_ROOT", cargo::root()),
        ("GLACIS_ENVOY", fetched.envoy.clone()),
        ("GLACIS_CRS_DIR", fetched.crs.clone()),
    ];
    settings.extend(wasm.map(|wasm| ("GLACIS_WASM", wasm)));
    let module = artifacts.modules.last();
    settings.extend(module.map(|module| ("GLACIS_ENVOY_MODULE", module.clone())));
    let binaries = [
        ("GLACIS_EXT_PROC", "glacis-ext-proc"),
        ("GLACIS_EXT_AUTHZ", "glacis-ext-authz"),
        ("GLACIS_CLI", "glacis"),
        ("GLACIS_EMPTY_EXT_PROC", "empty-ext-proc"),
        ("GLACIS_SAMPLE_UPSTREAM", "sample-upstream"),
    ];
    settings.extend(
        binaries
            .into_iter()
            .filter_map(|(name, binary)| Some((name, artifacts.binaries.get(binary)?.clone()))),
    );
    settings
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
