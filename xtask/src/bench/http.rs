//! `cargo xtask bench barbacana`, `boundary`, `crowdsec`, `proxies`, `curves`, `profiles`: HTTP through Envoy and other proxies, as
//! `bench/http` defines it; `sizing`: what the curves say. `bench/http.md` says what is measured and how.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, find_on_path};
use crate::failure::{self, Failure, Outcome};
use crate::{fetch, settings::settings, wasm};

/// Definitions in `bench/http`.
pub(super) const NAMES: [&str; 6] =
    ["barbacana", "boundary", "crowdsec", "proxies", "curves", "profiles"];

/// What Debian has of other proxies.
const PACKAGES: [&str; 4] = ["nginx", "libnginx-mod-http-modsecurity", "haproxy", "caddy"];

/// Programs of ours in Go with Coraza in them, by their folders in `bench/drivers`.
const GO_DRIVERS: [(&str, &str); 2] = [
    ("coraza-proxy", "GLACIS_BENCH_CORAZA_PROXY"),
    ("coraza-ext-proc", "GLACIS_BENCH_CORAZA_EXT_PROC"),
];

const OHA: &str = "oha";
const OHA_VERSION: &str = "1.16.0";

/// `bench NAME [--short] [--oha] [--report]`: `--short` takes seconds, leaves peers out, and proves that it works; `--oha`
/// builds that load generator where it is missing; `--report` copies what was written to `docs/results/http`.
pub(super) fn command(name: &str, arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short", "--oha", "--report"])?;
    let short = flags.contains(&"--short");
    if short && flags.contains(&"--report") {
        return Err(Failure::usage("the short form is not for a report"));
    }
    let fetched = fetch::ensure()?;
    let wasm = wasm::build()?;
    // The native module is a library.
    let mut build = vec!["--workspace", "--release", "--lib"];
    for name in ["glacis-ext-proc", "empty-ext-proc", "glacis", "http-bench", "sample-upstream"] {
        build.extend(["--bin", name]);
    }
    let artifacts = cargo::build(&build)?;
    let folder = super::folder();
    let workload = super::prepare::workload(&folder)?;
    let written = folder.join("http");
    let mut run = Command::new(artifacts.program("http-bench")?);
    run.arg(name).arg(workload).arg(&written);
    run.envs(settings(&fetched, Some(wasm), &artifacts));
    if short {
        run.arg("--short");
    } else {
        peers(&mut run)?;
        tools(&mut run, flags.contains(&"--oha"))?;
    }
    cargo::run(&mut run)?;
    if flags.contains(&"--report") {
        report(name, &written)?;
    }
    Ok(())
}

/// `bench sizing [--report]`: a model of what the last runs have written.
pub(super) fn sizing(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--report"])?;
    let artifacts = cargo::programs(&["http-bench"])?;
    let written = super::folder().join("http");
    cargo::run(Command::new(artifacts.program("http-bench")?).arg("sizing").arg(&written))?;
    if flags.contains(&"--report") {
        report("sizing", &written)?;
    }
    Ok(())
}

/// Tells the bench where other proxies are. What cannot be had is said, and left out.
fn peers(run: &mut Command) -> Outcome<()> {
    match fetch::debian::tree("proxies", &PACKAGES)? {
        Ok(folder) => debian(run, &folder),
        Err(why) => println!("without Debian's proxies: {why}"),
    }
    for (name, variable) in GO_DRIVERS {
        match go_driver(name) {
            Ok(program) => drop(run.env(variable, program)),
            Err(failure) => println!("without {name}: {failure}"),
        }
    }
    Ok(())
}

/// Programs that are unpacked, not installed. One that the user has named stays.
fn debian(run: &mut Command, folder: &Path) {
    let libraries = folder.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let places = [
        ("GLACIS_BENCH_NGINX", "usr/sbin/nginx"),
        ("GLACIS_BENCH_HAPROXY", "usr/sbin/haproxy"),
        ("GLACIS_BENCH_CADDY", "usr/bin/caddy"),
        ("GLACIS_BENCH_MODSECURITY_MODULE", "usr/lib/nginx/modules/ngx_http_modsecurity_module.so"),
    ];
    let places = places.map(|(variable, file)| (variable, folder.join(file)));
    for (variable, path) in places.into_iter().chain([("GLACIS_BENCH_LIBRARIES", libraries)]) {
        if std::env::var_os(variable).is_none() && path.exists() {
            run.env(variable, path);
        }
    }
}

/// A program of Go with Coraza in it, built anew when its source is.
fn go_driver(name: &str) -> Outcome<PathBuf> {
    let program = super::folder().join(name);
    let go = find_on_path("go").ok_or_else(|| Failure::new("there is no Go on the path"))?;
    let source = cargo::root().join("bench/drivers").join(name);
    let mut build = Command::new(go);
    cargo::run(build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source))?;
    Ok(program)
}

/// Puts oha on the path of the bench where it was built, or is to be.
fn tools(run: &mut Command, wanted: bool) -> Outcome<()> {
    let folder = super::folder().join(OHA);
    let bin = folder.join("bin");
    if wanted && find_on_path(OHA).is_none() && !bin.join(OHA).exists() {
        let mut install =
            cargo::cargo(["install", OHA, "--version", OHA_VERSION, "--locked", "--root"]);
        cargo::run(install.arg(&folder))?;
    }
    if bin.join(OHA).exists() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::env::split_paths(&path).chain([bin]);
        let joined = std::env::join_paths(paths);
        run.env("PATH", joined.map_err(|error| Failure::new(error.to_string()))?);
    }
    Ok(())
}

/// Copies what a bench has written to where results are kept.
fn report(name: &str, written: &Path) -> Outcome<()> {
    let results = cargo::root().join("docs/results/http");
    fs::create_dir_all(&results).map_err(failure::io("create", &results))?;
    for entry in fs::read_dir(written).map_err(failure::io("list", written))?.flatten() {
        let file = entry.file_name();
        if is_of(name, &file.to_string_lossy()) {
            let to = results.join(&file);
            fs::copy(entry.path(), &to).map_err(failure::io("write", &to))?;
            println!("{}", to.display());
        }
    }
    Ok(())
}

/// Whether a file was written by the long form of this bench.
fn is_of(name: &str, file: &str) -> bool {
    let rest = file.strip_prefix(name).unwrap_or_default();
    (rest.starts_with('.') || rest.starts_with('-')) && !rest.starts_with("-short")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has parts is a definition; `envoy.yaml` and the like are what stacks are made of.
    #[test]
    fn each_definition_has_a_name_here() {
        let mut defined = Vec::new();
        for entry in fs::read_dir(cargo::root().join("bench/http")).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_some_and(|kind| kind == "yaml") && text.contains("\nparts:\n") {
                defined.push(path.file_stem().unwrap().to_string_lossy().into_owned());
            }
        }
        defined.sort();
        let mut names = NAMES;
        names.sort_unstable();
        assert_eq!(defined, names);
    }

    #[test]
    fn files_of_the_long_form_are_told_apart() {
        for (file, expected) in [
            ("curves.md", true),
            ("curves.csv", true),
            ("curves-curve-keys.svg", true),
            ("curves-short.md", false),
            ("curves-short-3-cpu.svg", false),
            ("crowdsec.md", false),
            ("curves", false),
        ] {
            assert_eq!(is_of("curves", file), expected, "{file}");
        }
    }
}
