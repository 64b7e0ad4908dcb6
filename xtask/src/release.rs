//! `cargo xtask release`: everything that a version is published as, in one folder, the same bytes each time.
//!
//! ```text
//! glacis-VERSION-TARGET.tar.gz         the programs, with the licence
//! glacis-VERSION.tgz                   the Helm chart
//! glacis_wasm_filter.wasm(.sha256)     the filter, and the digest that `sha256:` of its source asks for
//! glacis_wasm_filter_engine.wasm(…)    the filter with the engine in it
//! NAME.cdx.json                        what is linked into each, as a bill of materials
//! THIRD-PARTY.txt                      the notices of all that is linked, also among the programs
//! CHANGES.md                           what the changelog says of this version
//! SHA256SUMS                           of all of these
//! ```
//!
//! Nothing of the machine is in them: paths are mapped, times are those of the commit, archives are sorted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts, output};
use crate::charts;
use crate::digest::{self, Sums};
use crate::failure::{self, Failure, Outcome};
use crate::linked::{self, Linked, Product};

/// The version of all crates.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The notices of all that is linked.
const THIRD_PARTY: &str = "THIRD-PARTY.txt";

/// The programs, and the packages that they are built from.
const PROGRAMS: [(&str, &str); 3] = [
    ("glacis", "glacis-cli"),
    ("glacis-ext-authz", "glacis-ext-authz"),
    ("glacis-ext-proc", "glacis-ext-proc"),
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
    let parts = Parts { root: &root, folder: &folder, kind: Kind::Draft };
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
    let built = build(root)?;
    let folder = root.join("target/release-of").join(VERSION);
    let wasm = filters(root)?;
    let remark = Parts { root, folder: &folder, kind }.lay_out(&wasm, &built)?;
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
fn build(root: &Path) -> Outcome<Artifacts> {
    let mut arguments = vec!["--release"];
    for (program, package) in PROGRAMS {
        arguments.extend(["--package", package, "--bin", program]);
    }
    cargo::build_as(&arguments, |command| published(command, root))
}

/// The modules, which have no paths in them however they are built.
fn filters(root: &Path) -> Outcome<PathBuf> {
    crate::suite::build_wasm_as(|command| published(command, root))
}

/// Has a build leave nothing of this machine in what it makes.
fn published(command: &mut Command, root: &Path) {
    cargo::map_paths(command, root);
    command.current_dir(root).arg("--locked");
    command.env("CARGO_TARGET_DIR", root.join("target/release-build"));
    command.env("CARGO_INCREMENTAL", "0");
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
}

/// One release on its way into its folder.
struct Parts<'a> {
    root: &'a Path,
    folder: &'a Path,
    kind: Kind,
}

impl Parts<'_> {
    /// Returns what was left out, if anything was.
    fn lay_out(&self, wasm: &Path, built: &Artifacts) -> Outcome<Option<String>> {
        let changelog = self.read("CHANGELOG.md")?;
        let changes = changes(&changelog, VERSION, self.kind)?;
        is_the_charts(&self.read("charts/glacis/Chart.yaml")?)?;
        if self.folder.exists() {
            fs::remove_dir_all(self.folder).map_err(failure::io("remove", self.folder))?;
        }
        fs::create_dir_all(self.folder).map_err(failure::io("create", self.folder))?;
        self.write("CHANGES.md", &changes)?;
        self.bills()?;
        self.programs(built)?;
        let chart = format!("glacis-{VERSION}.tgz");
        self.archive(&chart, &self.root.join("charts"), &["glacis"])?;
        let remark = charts::is_a_package(&self.folder.join(chart))?;
        self.filter(wasm)?;
        self.filter(&wasm.with_file_name("glacis_wasm_filter_engine.wasm"))?;
        self.write("SHA256SUMS", &digest::render_sums(&self.sums()?))?;
        Ok(remark)
    }

    /// What is linked into each, and the notices of all of it.
    fn bills(&self) -> Outcome<()> {
        let programs = PROGRAMS.iter().map(|(_, package)| Product::Program(package));
        let mut all = Vec::new();
        for product in programs.chain([Product::Filter, Product::FilterWithEngine]) {
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
        copy(&self.root.join("LICENSE"), &inside.join("LICENSE"))?;
        copy(&self.folder.join(THIRD_PARTY), &inside.join(THIRD_PARTY))?;
        self.archive(&format!("{name}.tar.gz"), self.folder, &[&name])?;
        fs::remove_dir_all(&inside).map_err(failure::io("remove", &inside))
    }

    /// The module, and its digest as `sha256sum` writes it.
    fn filter(&self, module: &Path) -> Outcome<()> {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let published = self.folder.join(&name);
        copy(module, &published)?;
        let sum = Sums::from([(name.clone(), digest::of_file(&published)?)]);
        self.write(&format!("{name}.sha256"), &digest::render_sums(&sum))
    }

    /// Files of a folder as an archive that says nothing of who made it, or when.
    fn archive(&self, name: &str, folder: &Path, files: &[&str]) -> Outcome<()> {
        let time = git(self.root, &["log", "-1", "--format=%ct"])?;
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--format=gnu", "--owner=0", "--group=0"]);
        tar.args(["--numeric-owner", "--mode=go=rX,u+rw", "--use-compress-program=gzip -n"]);
        // What the chart is compared with is for those who change it.
        tar.arg("--exclude=glacis/tests");
        tar.arg(format!("--mtime=@{}", time.trim()));
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

    fn read(&self, name: &str) -> Outcome<String> {
        let file = self.root.join(name);
        fs::read_to_string(&file).map_err(failure::io("read", &file))
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(failure::io("write", &file))
    }
}

/// What is to become the next version.
const UNRELEASED: &str = "## Unreleased";

/// What the changelog says of a version, or of what is to become one.
fn changes(changelog: &str, version: &str, kind: Kind) -> Outcome<String> {
    let own = format!("## {version}");
    let is_there = |heading: &str| changelog.lines().any(|line| is_heading(line, heading));
    let heading = match kind {
        Kind::Draft if is_there(UNRELEASED) => UNRELEASED,
        Kind::Draft | Kind::Version => &own,
    };
    let mut lines = changelog.lines().skip_while(|line| !is_heading(line, heading));
    let first = lines.next().ok_or_else(|| {
        Failure::new(format!("CHANGELOG.md has no section `{heading}`: write what changes"))
    })?;
    let section = lines.take_while(|line| !line.starts_with("## "));
    let text: String =
        std::iter::once(first).chain(section).map(|line| format!("{line}\n")).collect();
    Ok(format!("{}\n", text.trim_end()))
}

/// `## 1.2.3`, or that with a date behind it.
fn is_heading(line: &str, heading: &str) -> bool {
    line.strip_prefix(heading).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The chart has the version of the programs, whose images it names.
fn is_the_charts(chart: &str) -> Outcome<()> {
    for key in ["version", "appVersion"] {
        let told = chart.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        if told.map(|told| told.trim_matches('"')) != Some(VERSION) {
            let told = told.unwrap_or("nothing");
            return Err(Failure::new(format!(
                "Chart.yaml says {key}: {told}; write {VERSION}, the version of the crates"
            )));
        }
    }
    Ok(())
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

    const CHANGELOG: &str =
        "# Changelog\n\n## Unreleased\n\nA.\n\n## 1.2.10 - 2026-01-01\n\nB.\n\n## 1.2.1\n\nC.\n";

    #[test]
    fn a_version_has_its_own_section() {
        let told = |version, kind| changes(CHANGELOG, version, kind).ok();
        let rows = [
            ("1.2.1", Kind::Version, Some("## 1.2.1\n\nC.\n")),
            ("1.2.10", Kind::Version, Some("## 1.2.10 - 2026-01-01\n\nB.\n")),
            ("1.2", Kind::Version, None),
            ("1.2.1", Kind::Draft, Some("## Unreleased\n\nA.\n")),
        ];
        for (version, kind, expected) in rows {
            assert_eq!(told(version, kind).as_deref(), expected, "{version}");
        }
        let released = changes("# Changelog\n\n## 1.2.1\n\nC.\n", "1.2.1", Kind::Draft);
        assert_eq!(released.ok().as_deref(), Some("## 1.2.1\n\nC.\n"));
    }

    #[test]
    fn the_chart_has_the_version_of_the_programs() {
        let both = format!("name: glacis\nversion: {VERSION}\nappVersion: \"{VERSION}\"\n");
        assert!(is_the_charts(&both).is_ok());
        assert!(is_the_charts(&both.replace("appVersion", "other")).is_err());
        assert!(is_the_charts("version: 0.0.0\nappVersion: 0.0.0\n").is_err());
    }
}
