//! `cargo xtask bench filter`: what the checks cost a request, in WASM and in the native module, through a real Envoy and check by check.
//! `bench/filter.md` says what is measured and how.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{self, find_on_path};
use crate::failure::{self, Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::settings::settings;
use crate::wasm;

/// `bench filter [--short] [--checks]`: `--short` takes seconds and proves that it works; `--checks` measures each
/// check by itself, under Node.js, instead.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short", "--checks"])?;
    let module = wasm::build()?;
    let fetched = fetch::ensure()?;
    if flags.contains(&"--checks") {
        return checks(&module, &fetched, flags.contains(&"--short"));
    }
    // The native module is a library.
    let wanted = ["--workspace", "--release", "--lib", "--bin", "glacis", "--bin", "filter-bench"];
    let artifacts = cargo::build(&wanted)?;
    let mut run = Command::new(artifacts.program("filter-bench")?);
    cargo::run(run.args(&flags).envs(settings(&fetched, Some(module), &artifacts)))
}

/// Each check by itself, and the first verdict, in a host under V8.
fn checks(module: &Path, fetched: &Fetched, short: bool) -> Outcome<()> {
    let missing = || Failure::new("Node.js 20 or later is not installed");
    let node = find_on_path("node").ok_or_else(missing)?;
    let artifacts = cargo::programs(&["glacis"])?;
    let mut pack = Command::new(artifacts.program("glacis")?);
    let bundle = cargo::output(pack.args(["bundle", "--quiet", "--crs"]).arg(&fetched.crs))?;
    let folder = super::folder();
    fs::create_dir_all(&folder).map_err(failure::io("create", &folder))?;
    let file = folder.join("crs.bundle");
    fs::write(&file, bundle).map_err(failure::io("write", &file))?;
    let mut command = Command::new(node);
    command.arg("bench/filter/checks.mjs").arg(module).current_dir(cargo::root());
    command.arg(if short { "2000" } else { "200000" });
    command.arg(module.with_file_name("glacis_wasm_filter_engine.wasm")).arg(file);
    cargo::run(&mut command)
}
