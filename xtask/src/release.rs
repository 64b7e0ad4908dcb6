//! `cargo xtask release`: everything that a version is published as, in one folder, the same bytes each time.
//!
//! ```text
//! glacis-VERSION-TARGET.tar.gz         the programs, with their configurations and the licence
//! glacis-VERSION.tgz                   the Helm chart
//! libglacis-TARGET.so(.sha256)         the native module for Envoy, and the digest that a remote source of it asks for
//! glacis_wasm_filter.wasm(.sha256)     the filter, and the digest that `sha256:` of its source asks for
//! glacis_wasm_filter_engine.wasm(…)    the filter with the engine in it
//! NAME.cdx.json                        what is linked into each, as a bill of materials
//! THIRD-PARTY.txt                      the notices of all that is linked, also among the programs
//! CHANGES.md                           what the changelog says of this version
//! BUILD.txt                            the commit, and what it was built with
//! SHA256SUMS                           of all of these
//! ```
//!
//! Nothing of the machine is in them: paths are mapped, times are those of the commit, archives are sorted.

mod version;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts, output};
use crate::charts;
use crate::digest::{self, Sums};
use crate::failure::{self, Failure, Outcome};
use crate::linked::{self, Linked, PRODUCTS};
use version::VERSION;

/// The notices of all that is linked.
const THIRD_PARTY: &str = "THIRD-PARTY.txt";

/// The programs, and the packages that they are built from.
const PROGRAMS: [(&str, &str); 3] = [
    ("glacis", "glacis-cli"),
    ("glacis-ext-authz", "glacis-ext-authz"),
    ("glacis-ext-proc", "glacis-ext-proc"),
];

/// The native module, as Envoy looks for it by the name `glacis`.
const LIBRARY: &str = "libglacis.so";

/// What of the programs' folders goes along: every key of their configurations, explained.
const CONFIGURATIONS: [&str; 2] =
    ["ext-authz/glacis-ext-authz.yaml", "ext-proc/glacis-ext-proc.yaml"];

/// What decides of the bytes besides the commit, and how each says its version.
const BUILT_WITH: [&[&str]; 6] = [
    &["rustc", "--version"],
    &["cc", "--version"],
    &["ld", "--version"],
    &["getconf", "GNU_LIBC_VERSION"],
    &["tar", "--version"],
    &["gzip", "--version"],
];

/// `cargo xtask release`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--draft", "--twice"])?;
    let root = cargo::root();
    let kind = if flags.contains(&"--draft") { Kind::Draft } else { Kind::Version };
    let twice = flags.contains(&"--twice");
    if kind == Kind::Version || twice {
        is_committed(&root)?;
    }
    let folder = make(&root, kind)?;
    if twice {
        compare_with_a_clone(&root, kind, &folder)?;
    }
    println!("{}", folder.display());
    Ok(())
}

/// A step of the tests: what has just been built, which is not optimised, as a draft.
pub(crate) fn check(wasm: &Path, built: &Artifacts) -> Outcome<Option<String>> {
    let root = cargo::root();
    let folder = root.join("target/release-draft");
    let time = time(&root)?;
    let parts = Parts { root: &root, folder: &folder, kind: Kind::Draft, time: &time };
    let remark = parts.lay_out(wasm, built)?;
    let mut sums = Command::new("sha256sum");
    output(sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&folder))?;
    fs::remove_dir_all(&folder).map_err(failure::io("remove", &folder))?;
    Ok(remark)
}

/// Whether what is made may be published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of a commit, whose changelog has a section for the version.
    Version,
    /// To look at.
    Draft,
}

/// Builds everything in a checkout and lays it out there.
fn make(root: &Path, kind: Kind) -> Outcome<PathBuf> {
    let time = time(root)?;
    let built = build(root, &time)?;
    let folder = root.join("target/release-of").join(VERSION);
    // The modules, which have no paths in them however they are built.
    let wasm = crate::wasm::build_as(|command| published(command, root, &time))?;
    let remark = Parts { root, folder: &folder, kind, time: &time }.lay_out(&wasm, &built)?;
    remark.iter().for_each(|remark| println!("{remark}"));
    Ok(folder)
}

fn is_committed(root: &Path) -> Outcome<()> {
    let changes = git(root, &["status", "--porcelain"])?;
    if changes.is_empty() {
        return Ok(());
    }
    let told = "a release is made of a commit, and this is none (`--draft` makes one to look at):";
    Err(Failure::new(format!("{told}\n{changes}")))
}

/// The same once more, of a clone in another folder: what is different depends on the machine.
fn compare_with_a_clone(root: &Path, kind: Kind, first: &Path) -> Outcome<()> {
    let clone = root.join("target/release-again/clone");
    if clone.exists() {
        fs::remove_dir_all(&clone).map_err(failure::io("remove", &clone))?;
    }
    let mut git = Command::new("git");
    output(git.args(["clone", "--quiet", "--local"]).args([root, clone.as_path()]))?;
    let second = make(&clone, kind)?;
    let sums = |folder: &Path| {
        let file = folder.join("SHA256SUMS");
        digest::parse_sums(&fs::read_to_string(&file).map_err(failure::io("read", &file))?)
    };
    let differences = digest::differences(&sums(first)?, &sums(&second)?);
    if !differences.is_empty() {
        let told = differences.join("\n");
        return Err(Failure::new(format!("built twice, and not the same:\n{told}")));
    }
    println!("built twice, in two folders: the same bytes");
    Ok(())
}

/// Builds the programs of a checkout as they are published.
fn build(root: &Path, time: &str) -> Outcome<Artifacts> {
    let mut arguments = vec!["--release"];
    for (program, package) in PROGRAMS {
        arguments.extend(["--package", package, "--bin", program]);
    }
    arguments.extend(["--package", linked::MODULE, "--lib"]);
    cargo::build_as(&arguments, |command| published(command, root, time))
}

/// Has a build leave nothing of this machine in what it makes.
fn published(command: &mut Command, root: &Path, time: &str) {
    cargo::map_paths(command, root);
    command.current_dir(root).arg("--locked");
    command.env("CARGO_TARGET_DIR", root.join("target/release-build"));
    command.env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", time);
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
}

/// One release on its way into its folder.
struct Parts<'a> {
    root: &'a Path,
    folder: &'a Path,
    kind: Kind,
    /// Of the commit, in seconds.
    time: &'a str,
}

impl Parts<'_> {
    /// Returns what was left out, if anything was.
    fn lay_out(&self, wasm: &Path, built: &Artifacts) -> Outcome<Option<String>> {
        let changes = version::told(self.root, self.kind)?;
        if self.folder.exists() {
            fs::remove_dir_all(self.folder).map_err(failure::io("remove", self.folder))?;
        }
        fs::create_dir_all(self.folder).map_err(failure::io("create", self.folder))?;
        self.write("CHANGES.md", &changes)?;
        self.write("BUILD.txt", &built_with(self.root)?)?;
        self.bills()?;
        self.programs(built)?;
        let chart = format!("glacis-{VERSION}.tgz");
        self.archive(&chart, &self.root.join("charts"), &files_of_the_chart(self.root)?)?;
        let remark = charts::is_a_package(&self.folder.join(chart))?;
        self.module(&format!("libglacis-{}.so", cargo::host()?), built.module()?)?;
        self.filter(wasm)?;
        self.filter(&wasm.with_file_name("glacis_wasm_filter_engine.wasm"))?;
        self.write("SHA256SUMS", &digest::render_sums(&self.sums()?))?;
        Ok(remark)
    }

    /// What is linked into each, and the notices of all of it.
    fn bills(&self) -> Outcome<()> {
        let mut all = Vec::new();
        for product in PRODUCTS {
            let linked = Linked::into(product)?;
            self.write(&format!("{}.cdx.json", product.name()), &linked.bill())?;
            all.push(linked);
        }
        self.write(THIRD_PARTY, &linked::notices(&all)?)
    }

    fn programs(&self, built: &Artifacts) -> Outcome<()> {
        let name = format!("glacis-{VERSION}-{}", cargo::host()?);
        let inside = self.folder.join(&name);
        fs::create_dir_all(&inside).map_err(failure::io("create", &inside))?;
        for (program, _) in PROGRAMS {
            copy(built.program(program)?, &inside.join(program))?;
        }
        copy(built.module()?, &inside.join(LIBRARY))?;
        for configuration in CONFIGURATIONS.map(|name| self.root.join(name)) {
            let name = configuration.file_name().unwrap_or_default();
            copy(&configuration, &inside.join(name))?;
        }
        copy(&self.root.join("LICENSE"), &inside.join("LICENSE"))?;
        copy(&self.folder.join(THIRD_PARTY), &inside.join(THIRD_PARTY))?;
        self.archive(&format!("{name}.tar.gz"), self.folder, std::slice::from_ref(&name))?;
        fs::remove_dir_all(&inside).map_err(failure::io("remove", &inside))
    }

    /// The wasm-filter under the name of its file.
    fn filter(&self, module: &Path) -> Outcome<()> {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.module(&name, module)
    }

    /// A module for Envoy, and its digest as `sha256sum` writes it.
    fn module(&self, name: &str, module: &Path) -> Outcome<()> {
        let published = self.folder.join(name);
        copy(module, &published)?;
        let sum = Sums::from([(name.to_owned(), digest::of_file(&published)?)]);
        self.write(&format!("{name}.sha256"), &digest::render_sums(&sum))
    }

    /// Files of a folder as an archive that says nothing of who made it, or when.
    fn archive(&self, name: &str, folder: &Path, files: &[String]) -> Outcome<()> {
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--format=gnu", "--owner=0", "--group=0"]);
        tar.args(["--numeric-owner", "--mode=go=rX,u+rw", "--use-compress-program=gzip -n"]);
        tar.arg(format!("--mtime=@{}", self.time));
        tar.arg("--file").arg(self.folder.join(name)).arg("--directory").arg(folder);
        output(tar.args(files)).map(|_| ())
    }

    fn sums(&self) -> Outcome<Sums> {
        let mut sums = BTreeMap::new();
        for entry in fs::read_dir(self.folder).map_err(failure::io("list", self.folder))? {
            let file = entry.map_err(failure::io("list", self.folder))?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            sums.insert(name, digest::of_file(&file)?);
        }
        Ok(sums)
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(failure::io("write", &file))
    }
}

/// When the commit was made, in seconds.
fn time(root: &Path) -> Outcome<String> {
    Ok(git(root, &["log", "-1", "--format=%ct"])?.trim().to_owned())
}

/// What the chart consists of, from `charts/`; what it is compared with is for those who change it.
fn files_of_the_chart(root: &Path) -> Outcome<Vec<String>> {
    let known = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "glacis"];
    let charts = root.join("charts");
    let told = git(&charts, &known)?;
    Ok(of_the_chart(&told, |name| charts.join(name).is_file()))
}

fn of_the_chart(told: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let names = told.split('\0').filter(|name| !name.is_empty() && is_there(name));
    let names = names.filter(|name| !name.starts_with("glacis/tests/"));
    let mut names: Vec<String> = names.map(ToOwned::to_owned).collect();
    names.sort();
    names
}

/// With the same of all this, the same bytes come out.
fn built_with(root: &Path) -> Outcome<String> {
    let commit = git(root, &["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])?;
    let mut text = format!("commit {}\n", commit.trim());
    for command in BUILT_WITH {
        let Some((program, arguments)) = command.split_first() else { continue };
        let told = output(Command::new(program).args(arguments).current_dir(root))?;
        text.push_str(&format!("{program}: {}\n", told.lines().next().unwrap_or_default()));
    }
    text.push_str("The programs need this C library, or a later one.\n");
    Ok(text)
}

fn git(root: &Path, arguments: &[&str]) -> Outcome<String> {
    output(Command::new("git").args(arguments).current_dir(root))
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::copy(from, to).map(|_| ()).map_err(failure::io("copy", from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_what_git_knows_of_it() {
        let told =
            "glacis/values.yaml\0glacis/Chart.yaml\0glacis/tests/all.yaml\0glacis/gone.yaml\0";
        let there = of_the_chart(told, |name| name != "glacis/gone.yaml");
        assert_eq!(there, ["glacis/Chart.yaml", "glacis/values.yaml"]);
    }

    #[test]
    fn what_it_was_built_with_is_told() {
        let told = built_with(&cargo::root()).unwrap();
        for part in ["commit ", "\nrustc: rustc 1.", "\nld: ", "\ngetconf: glibc "] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }
}
