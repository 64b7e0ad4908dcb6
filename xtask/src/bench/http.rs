//! `cargo xtask bench barbacana`, `crowdsec`, `proxies`, `curves`: HTTP through Envoy and other proxies, as `bench/http` defines
//! it. `bench/http.md` says what is measured and how.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{self, find_on_path};
use crate::failure::{Failure, Outcome};
use crate::{fetch, suite};

/// Definitions in `bench/http`.
pub(super) const NAMES: [&str; 4] = ["barbacana", "crowdsec", "proxies", "curves"];

/// `bench NAME [--short]`: `--short` takes seconds, leaves peers out, and proves that it works.
pub(super) fn command(name: &str, arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short"])?;
    let fetched = fetch::ensure()?;
    let wasm = suite::build_wasm()?;
    let wanted = [
        ("glacis-ext-proc", "glacis-ext-proc"),
        ("glacis-bench-empty-ext-proc", "empty-ext-proc"),
        ("glacis-cli", "glacis"),
        ("glacis-tests", "http-bench"),
        ("glacis-tests", "sample-upstream"),
    ];
    let wanted = wanted.into_iter().flat_map(|(package, bin)| ["-p", package, "--bin", bin]);
    let build: Vec<&str> = ["--release"].into_iter().chain(wanted).collect();
    let artifacts = cargo::build(&build)?;
    let Some(program) = artifacts.binaries.get("http-bench") else {
        return Err(Failure::new("the workspace has no binary named `http-bench`"));
    };
    let folder = super::folder();
    let workload = super::prepare::workload(&folder)?;
    let mut run = Command::new(program);
    run.arg(name).arg(workload).arg(folder.join("http")).args(&flags);
    run.envs(suite::settings(&fetched, Some(wasm), &artifacts));
    if flags.is_empty() {
        match coraza_proxy() {
            Ok(program) => drop(run.env("GLACIS_BENCH_CORAZA_PROXY", program)),
            Err(failure) => println!("without Coraza: {failure}"),
        }
    }
    cargo::run(&mut run)
}

/// The server of Go with Coraza, built anew when its source is.
fn coraza_proxy() -> Outcome<PathBuf> {
    let program = super::folder().join("coraza-proxy");
    let go = find_on_path("go").ok_or_else(|| Failure::new("there is no Go on the path"))?;
    let source = cargo::root().join("bench/drivers/coraza-proxy");
    let mut build = Command::new(go);
    cargo::run(build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source))?;
    Ok(program)
}
