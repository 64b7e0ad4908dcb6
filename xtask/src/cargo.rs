//! Running cargo and other programs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// The top folder of the repository.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable when it runs us; the compiled-in value serves a binary run by hand.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// `cargo` of the toolchain that runs us, in the top folder.
pub(crate) fn cargo<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    // What cargo tells us of ourselves is not for those whom it builds next: some build scripts (ring's) take it for a
    // change, and everything on top of them would be built again whenever somebody has built in a shell before.
    let of_ours = |name: &OsString| {
        name.to_str().is_some_and(|name| OF_A_PACKAGE.iter().any(|prefix| name.starts_with(prefix)))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_ours(name)) {
        command.env_remove(name);
    }
    command
}

/// How the names of variables begin in which cargo describes the package that runs.
const OF_A_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Runs to the end with our own standard streams; any status but 0 is a failure.
pub(crate) fn run(command: &mut Command) -> Outcome<()> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{}` ended with {status}", shown(command))))
}

/// Runs to the end and returns standard output as text; on failure its standard error is told.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, &error))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let told = if stderr.trim().is_empty() { stdout.trim() } else { stderr.trim() };
    let (shown, status) = (shown(command), output.status);
    Err(Failure::new(format!("`{shown}` ended with {status}:\n{told}")))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start `{}`: {error}", shown(command)))
}

/// The command as one would type it, with the program's path shortened to its name.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The triple that is built for where none is named.
pub(crate) fn host() -> Outcome<String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(ToOwned::to_owned).ok_or_else(|| Failure::new("rustc does not say its host"))
}

/// Has a build write nothing of where it was made into what it makes: panics name files of sources.
pub(crate) fn map_paths(command: &mut Command, root: &Path) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let maps = |option: &str| {
        let known = [(Some(root), "/glacis"), (home.as_deref(), "/cargo")];
        let known = known.into_iter().filter_map(|(path, name)| Some((path?, name)));
        known.map(|(path, name)| format!("{option}={}={name}", path.display())).collect::<Vec<_>>()
    };
    command.env("CARGO_ENCODED_RUSTFLAGS", maps("--remap-path-prefix").join("\u{1f}"));
    command.env("CFLAGS", maps("-ffile-prefix-map").join(" "));
}

/// What `cargo build` has made.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    /// Binary name → path; test executables are not among them.
    pub(crate) binaries: BTreeMap<String, PathBuf>,
    /// Test executable → the source that it begins with.
    pub(crate) tests: BTreeMap<PathBuf, PathBuf>,
    /// Each `.wasm` file.
    pub(crate) wasm: Vec<PathBuf>,
    /// Each native module for Envoy.
    pub(crate) modules: Vec<PathBuf>,
}

/// Runs `cargo build` with `arguments` and returns where the results are, as cargo tells it: that
/// is right with any `CARGO_TARGET_DIR`, profile or target.
pub(crate) fn build(arguments: &[&str]) -> Outcome<Artifacts> {
    build_as(arguments, |_| {})
}

/// The same, with a folder and variables that the caller sets.
pub(crate) fn build_as(arguments: &[&str], set: impl FnOnce(&mut Command)) -> Outcome<Artifacts> {
    let mut command = cargo(["build", "--message-format=json-render-diagnostics"]);
    command.args(arguments).stderr(Stdio::inherit()).stdout(Stdio::piped());
    if arguments.iter().any(|argument| ["--release", "--profile"].contains(argument)) {
        // Built incrementally, programs are cut into more pieces and run slower: what is measured
        // must not depend on how the caller likes to build.
        command.env("CARGO_INCREMENTAL", "0");
    }
    set(&mut command);
    let child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    let output = child.wait_with_output().map_err(|error| cannot_start(&command, &error))?;
    if !output.status.success() {
        let arguments = arguments.join(" ");
        return Err(Failure::new(format!(
            "`cargo build {arguments}` ended with {}",
            output.status
        )));
    }
    Ok(artifacts(&String::from_utf8_lossy(&output.stdout)))
}

impl Artifacts {
    /// The native module for Envoy.
    pub(crate) fn module(&self) -> Outcome<&PathBuf> {
        self.modules.last().ok_or_else(|| Failure::new("no libglacis.so was built"))
    }

    /// The program of this name.
    pub(crate) fn program(&self, name: &str) -> Outcome<&PathBuf> {
        let missing = || Failure::new(format!("the workspace has no binary named `{name}`"));
        self.binaries.get(name).ok_or_else(missing)
    }
}

/// Optimised programs of the workspace, by name. Whichever are asked for, their libraries are built with what all of
/// the workspace asks of them, so that one command uses what another has built.
pub(crate) fn programs(names: &[&str]) -> Outcome<Artifacts> {
    let wanted = names.iter().flat_map(|name| ["--bin", name]);
    build(&["--workspace", "--release"].into_iter().chain(wanted).collect::<Vec<_>>())
}

/// Reads cargo's messages, one JSON object a line; those of other kinds are passed over.
fn artifacts(messages: &str) -> Artifacts {
    let mut artifacts = Artifacts::default();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let target = |field: &str| message["target"][field].as_str();
        let is_test = message["profile"]["test"] == true;
        match (message["executable"].as_str(), target("name"), target("src_path")) {
            (Some(path), _, Some(source)) if is_test => {
                artifacts.tests.insert(PathBuf::from(path), PathBuf::from(source));
            }
            (Some(path), Some(name), _) if !is_test => {
                artifacts.binaries.insert(name.to_owned(), PathBuf::from(path));
            }
            _ => {}
        }
        let files = message["filenames"].as_array().into_iter().flatten();
        for file in files.filter_map(Value::as_str) {
            if file.ends_with(".wasm") {
                artifacts.wasm.push(PathBuf::from(file));
            } else if file.ends_with("/libglacis.so") {
                artifacts.modules.push(PathBuf::from(file));
            }
        }
    }
    artifacts
}

/// The first executable file of that name on `PATH`.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_binaries_tests_and_modules() {
        let messages = r#"
            not json
            {"reason":"build-finished","success":true}
            {"reason":"compiler-artifact","target":{"name":"up"},"profile":{"test":false},"executable":"/t/up","filenames":["/t/up"]}
            {"reason":"compiler-artifact","target":{"name":"e2e","src_path":"/w/e2e.rs"},"profile":{"test":true},"executable":"/t/e2e-1","filenames":["/t/e2e-1"]}
            {"reason":"compiler-artifact","target":{"name":"f"},"profile":{"test":false},"executable":null,"filenames":["/t/f.wasm","/t/f.rlib"]}
            {"reason":"compiler-artifact","target":{"name":"glacis"},"profile":{"test":false},"executable":null,"filenames":["/t/libglacis.so","/t/libglacis.rlib"]}
            {"reason":"compiler-artifact","target":{"name":"derive"},"profile":{"test":false},"executable":null,"filenames":["/t/libderive.so"]}
        "#;
        let artifacts = artifacts(messages);
        assert_eq!(artifacts.binaries, BTreeMap::from([("up".to_owned(), "/t/up".into())]));
        assert_eq!(artifacts.tests, BTreeMap::from([("/t/e2e-1".into(), "/w/e2e.rs".into())]));
        assert_eq!(artifacts.wasm, [PathBuf::from("/t/f.wasm")]);
        assert_eq!(artifacts.modules, [PathBuf::from("/t/libglacis.so")]);
    }
}
