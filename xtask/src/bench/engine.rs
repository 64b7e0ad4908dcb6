//! The engines: how their drivers are built and run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::prepare::Rules;
use crate::cargo::{self, find_on_path, output};
use crate::failure::{self, Failure, Outcome};
use crate::fetch::python;
use crate::pins::WASM_TARGET;

/// A run that takes longer is ended, and the report says so.
const RUN_SECONDS_MAX: u64 = 180;

/// The release of libmodsecurity that is measured, as its Python binding carries it; where there is
/// no wheel for a machine, `GLACIS_BENCH_LIBMODSECURITY` names the library.
const LIBMODSECURITY: &str = "libmodsecurity==3.0.15.post2";
const LIBMODSECURITY_SHA256: &str =
    "12a02e8c0d47fe23e2948e89c8a3862b3f8176c8a140db9abb743e98557eff94";
const LIBMODSECURITY_VARIABLE: &str = "GLACIS_BENCH_LIBMODSECURITY";

/// An engine that can be measured.
pub(super) struct Engine {
    pub(super) name: &'static str,
    make: fn(&Path) -> Outcome<Built>,
    /// Tells what was made before; an error is what is missing.
    find: fn(&Path) -> Outcome<Built>,
}

impl Engine {
    /// Builds the driver.
    pub(super) fn build(&self, folder: &Path) -> Outcome<Built> {
        println!("building {}", self.name);
        (self.make)(folder).map(|built| Built { name: self.name, ..built })
    }

    /// The driver as it was built before.
    pub(super) fn built(&self, folder: &Path) -> Outcome<Built> {
        let built = (self.find)(folder)?;
        match built.needs.iter().find(|file| !file.is_file()) {
            Some(_) => Err(Failure::new("not built yet; a run without --short builds it")),
            None => Ok(Built { name: self.name, ..built }),
        }
    }
}

/// Ours, with nothing remembered of texts that came before: what a first request costs.
const NO_RECALL: &str = "glacis-no-recall";

pub(super) const OURS: Engine = Engine { name: "glacis", make: make_ours, find: make_ours };

pub(super) const PEERS: &[Engine] = &[
    Engine { name: NO_RECALL, make: make_ours, find: make_ours },
    Engine { name: "glacis-wasm", make: make_wasm, find: find_wasm },
    Engine { name: "coraza", make: make_coraza, find: find_coraza },
    Engine { name: "coraza-prefilter", make: make_coraza, find: find_coraza },
    Engine { name: "modsecurity", make: make_modsecurity, find: find_modsecurity },
    Engine { name: "zentinel", make: make_zentinel, find: find_zentinel },
];

/// Ours with every rule run, as if there were no fast path: what a single rule costs.
pub(super) const RULE_BY_RULE: Engine =
    Engine { name: "glacis-rule-by-rule", make: make_ours, find: make_ours };

/// A driver that can be run.
pub(super) struct Built {
    pub(super) name: &'static str,
    program: PathBuf,
    /// Before the file of rules.
    arguments: Vec<String>,
    environment: Option<(&'static str, PathBuf)>,
    /// Files that must be there.
    needs: Vec<PathBuf>,
}

impl Built {
    fn new(program: PathBuf) -> Self {
        let needs = vec![program.clone()];
        Self { name: "", program, arguments: Vec::new(), environment: None, needs }
    }

    /// Runs the driver and returns what it printed; `None` when it took too long.
    pub(super) fn run(
        &self,
        rules: &Rules,
        requests: &Path,
        seconds: f64,
    ) -> Outcome<Option<String>> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let ours = [
            (OURS.name, None),
            (NO_RECALL, Some("--no-recall")),
            (RULE_BY_RULE.name, Some("--every-rule")),
        ];
        if let Some((_, option)) = ours.into_iter().find(|(name, _)| *name == self.name) {
            command.args(["eval", "--quiet", "--rules"]).arg(&rules.shipped).args(option);
            command.args(["--reuse", "--each", "--bench", &seconds.to_string()]).arg(requests);
        } else {
            command.arg(self.rules(rules)?).arg(requests).arg(seconds.to_string());
        }
        command.envs(self.environment.clone());
        limited(&mut command, &requests.with_extension("out"))
    }

    /// Coraza's filter in front of patterns is off unless a ruleset switches it on.
    fn rules(&self, rules: &Rules) -> Outcome<PathBuf> {
        if self.name != "coraza-prefilter" {
            return Ok(rules.main.clone());
        }
        let path = rules.main.with_file_name("main-prefilter.conf");
        let text = "SecRxPreFilter On\nInclude main.conf\n";
        fs::write(&path, text).map_err(failure::io("write", &path))?;
        Ok(path)
    }
}

/// Runs to the end, or to the limit. Output goes through a file: nobody reads a pipe meanwhile.
fn limited(command: &mut Command, out: &Path) -> Outcome<Option<String>> {
    let errors = out.with_extension("err");
    let create = |path: &Path| File::create(path).map_err(failure::io("create", path));
    command.stdin(Stdio::null()).stdout(create(out)?).stderr(create(&errors)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child =
        command.spawn().map_err(|error| Failure::new(format!("cannot start {name}: {error}")))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(failure::io("wait for", Path::new(&name)))? {
            Some(status) => break status,
            None if begun.elapsed() > Duration::from_secs(RUN_SECONDS_MAX) => {
                child.kill().map_err(failure::io("end", Path::new(&name)))?;
                child.wait().map_err(failure::io("wait for", Path::new(&name)))?;
                return Ok(None);
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let read = |path: &Path| fs::read_to_string(path).map_err(failure::io("read", path));
    if status.success() {
        return read(out).map(Some);
    }
    Err(Failure::new(format!("{name} ended with {status}:\n{}", read(&errors)?.trim())))
}

fn make_ours(_: &Path) -> Outcome<Built> {
    Ok(Built::new(cargo::programs(&["glacis"])?.program("glacis")?.clone()))
}

fn make_wasm(folder: &Path) -> Outcome<Built> {
    let built = find_wasm(folder)?;
    let artifacts = cargo::build(&["--release", "-p", "glacis-cli", "--target", WASM_TARGET])?;
    let Some(module) = artifacts.wasm.last() else {
        return Err(Failure::new("glacis-cli was built, but made no .wasm file"));
    };
    let copy = folder.join("glacis.wasm");
    fs::copy(module, &copy).map_err(failure::io("write", &copy))?;
    Ok(built)
}

fn find_wasm(folder: &Path) -> Outcome<Built> {
    let module = folder.join("glacis.wasm");
    let mut built = Built::new(on_path("node", "Node.js 20 or later")?);
    let script = cargo::root().join("bench/drivers/wasm/run.mjs");
    built.arguments = vec![
        "--no-warnings".to_owned(),
        "--no-turbo-fast-api-calls".to_owned(),
        script.display().to_string(),
        module.display().to_string(),
    ];
    built.needs.push(module);
    Ok(built)
}

fn make_coraza(folder: &Path) -> Outcome<Built> {
    let built = find_coraza(folder)?;
    let mut go = Command::new(on_path("go", "Go 1.26 or later")?);
    go.args(["build", "-trimpath", "-o"]).arg(&built.program).arg(".");
    output(go.current_dir(cargo::root().join("bench/drivers/coraza")))?;
    Ok(built)
}

fn find_coraza(folder: &Path) -> Outcome<Built> {
    Ok(Built::new(folder.join("drivers/coraza")))
}

fn make_zentinel(folder: &Path) -> Outcome<Built> {
    make_with_cargo(folder, "zentinel")?;
    find_zentinel(folder)
}

fn find_zentinel(folder: &Path) -> Outcome<Built> {
    Ok(Built::new(folder.join("drivers/release/glacis-bench-zentinel")))
}

fn make_modsecurity(folder: &Path) -> Outcome<Built> {
    make_with_cargo(folder, "modsecurity")?;
    if std::env::var_os(LIBMODSECURITY_VARIABLE).is_none() && library(folder).is_err() {
        download_library(&library_folder(folder))?;
    }
    find_modsecurity(folder)
}

fn find_modsecurity(folder: &Path) -> Outcome<Built> {
    let mut built = Built::new(folder.join("drivers/release/glacis-bench-modsecurity"));
    let named = std::env::var_os(LIBMODSECURITY_VARIABLE).map(PathBuf::from);
    let library = named.map_or_else(|| library(folder), Ok)?;
    built.environment = Some((LIBMODSECURITY_VARIABLE, library));
    Ok(built)
}

/// The drivers' own workspace.
fn make_with_cargo(folder: &Path, name: &str) -> Outcome<()> {
    let mut build = cargo::cargo(["build", "--locked", "--release", "--manifest-path"]);
    build.arg("bench/drivers/Cargo.toml").args(["-p", &format!("glacis-bench-{name}")]);
    output(build.arg("--target-dir").arg(folder.join("drivers"))).map(|_| ())
}

fn library_folder(folder: &Path) -> PathBuf {
    folder.join("libmodsecurity")
}

/// The wheel's name for the library has a part that changes with each build.
fn library(folder: &Path) -> Outcome<PathBuf> {
    let folder = library_folder(folder).join("libmodsecurity.libs");
    let entries = fs::read_dir(&folder).map_err(failure::io("list", &folder))?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libmodsecurity") && name.contains(".so")
    };
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let missing = || Failure::new(format!("{} has no libmodsecurity", folder.display()));
    paths.find(is_it).ok_or_else(missing)
}

fn download_library(folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder).map_err(failure::io("create", folder))?;
    let options = ["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"];
    let options = [&options[..], &["--platform", "manylinux_2_28_x86_64"]].concat();
    let wheel = python::download(LIBMODSECURITY, &options, folder, LIBMODSECURITY_SHA256)?;
    python::unpack(&wheel, folder)
}

fn on_path(name: &str, what: &str) -> Outcome<PathBuf> {
    find_on_path(name).ok_or_else(|| Failure::new(format!("{what} is not installed")))
}
