//! `cargo xtask differential`: installs parsers of applications and gives them and Glacis the same mutated requests
//! (docs/differential.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, find_on_path};
use crate::digest;
use crate::failure::{Failure, Outcome, io};
use crate::fetch;

/// The programs that run parsers, below the top folder.
const PARSERS: &str = "tests/differential/parsers";

/// The options of a run.
struct Options<'a> {
    /// For `differential`: how long, how many, which seed.
    passed: Vec<&'a str>,
    parser: Option<&'a str>,
    record: bool,
}

impl<'a> Options<'a> {
    fn read(arguments: &'a [String]) -> Outcome<Self> {
        let mut options = Self { passed: Vec::new(), parser: None, record: false };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if word == "--record" {
                options.record = true;
                continue;
            }
            let value = words.next();
            let value = value.ok_or_else(|| Failure::usage(format!("`{word}` needs a value")))?;
            match word {
                "--parser" => options.parser = Some(value),
                "--minutes" | "--cases" | "--seed" | "--first" | "--remove" => {
                    options.passed.extend([word, value]);
                }
                _ => return Err(Failure::usage(format!("unknown option `{word}`"))),
            }
        }
        Ok(options)
    }
}

/// `cargo xtask differential [--minutes N | --cases N] [--parser NAME] [--seed N] [--first N] [--remove RULE] [--record]`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let options = Options::read(arguments)?;
    let fetched = fetch::ensure()?;
    let artifacts = cargo::build(&["--package", "glacis-differential", "--bin", "differential"])?;
    let program = artifacts.program("differential")?;
    let listed = cargo::output(Command::new(program).arg("--list"))?;
    let known: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
    let is_wanted = |name: &str| options.parser.is_none_or(|wanted| wanted == name);
    let wanted: Vec<_> = known.iter().filter(|(name, _)| is_wanted(name)).collect();
    if wanted.is_empty() {
        return Err(Failure::usage(format!("no such parser; there are:\n{listed}")));
    }
    let mut failed = Vec::new();
    for (name, folder) in wanted {
        let command = match install(folder) {
            Ok(command) => command,
            Err(why) => {
                println!("{name}: SKIPPED ({})", why.to_string().lines().next().unwrap_or("?"));
                continue;
            }
        };
        let mut run = Command::new(program);
        run.arg("--crs").arg(&fetched.crs).args(["--parser", name]).args(&options.passed);
        if options.record {
            let file =
                cargo::root().join("tests/differential/recorded").join(format!("{name}.jsonl"));
            run.arg("--record").arg(file);
        }
        run.arg("--").args(command);
        if cargo::run(&mut run).is_err() {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("silent bypasses, or parsers that ended: {}", failed.join(", "))))
}

/// Installs what the programs of a folder need, once for each version of their pins; returns the command that starts them.
fn install(folder: &str) -> Outcome<Vec<String>> {
    let source = cargo::root().join(PARSERS).join(folder);
    let place =
        cargo::root().join(".fetched/differential").join(format!("{folder}-{}", pins(&source)?));
    let ready = place.join("ready");
    if !ready.is_file() {
        fs::create_dir_all(&place).map_err(io("create", &place))?;
        prepare(folder, &source, &place)?;
        fs::write(&ready, "").map_err(io("write", &ready))?;
    }
    let path = |path: PathBuf| path.display().to_string();
    Ok(match folder {
        "python" => vec![path(place.join("bin/python")), path(source.join("main.py"))],
        "node" => vec!["node".to_owned(), path(place.join("main.js"))],
        "go" => vec![path(place.join("parser"))],
        "rust" => vec![path(place.join("debug/glacis-differential-rust"))],
        "php" => vec!["php".to_owned(), path(source.join("main.php"))],
        _ => {
            let classes = format!("{}:{}/*", path(place.join("classes")), path(place.join("lib")));
            ["java", "-cp", &classes, "Main"].map(ToOwned::to_owned).to_vec()
        }
    })
}

/// A name for what a folder holds: sources and pins.
fn pins(source: &Path) -> Outcome<String> {
    let mut files = Vec::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(io("list", &folder))? {
            let path = entry.map_err(io("list", &folder))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(&file).map_err(io("read", &file))?);
    }
    Ok(digest::of_bytes(&all).chars().take(12).collect())
}

/// Installs by the ordinary client of each language; every file it brings is pinned by a digest.
fn prepare(folder: &str, source: &Path, place: &Path) -> Outcome<()> {
    match folder {
        "python" => {
            needs(&["python3"])?;
            cargo::output(Command::new("python3").args(["-m", "venv"]).arg(place))?;
            let mut pip = Command::new(place.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--require-hashes", "-r"]).arg(source.join("requirements.txt"));
            cargo::output(&mut pip)?;
        }
        "node" => {
            needs(&["node", "npm"])?;
            for file in ["main.js", "package.json", "package-lock.json"] {
                let to = place.join(file);
                fs::copy(source.join(file), &to).map_err(io("write", &to))?;
            }
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(place);
            cargo::output(&mut npm)?;
        }
        "go" => {
            needs(&["go"])?;
            let mut go = Command::new("go");
            go.args(["build", "-mod=readonly", "-o"]).arg(place.join("parser")).arg(".");
            cargo::output(go.current_dir(source))?;
        }
        "rust" => {
            let mut build = cargo::cargo(["build", "--locked", "--manifest-path"]);
            build.arg(source.join("Cargo.toml")).env("CARGO_TARGET_DIR", place);
            cargo::output(&mut build)?;
        }
        "php" => needs(&["php", "php-cgi"])?,
        _ => {
            needs(&["mvn", "javac"])?;
            prepare_java(source, place)?;
        }
    }
    Ok(())
}

fn prepare_java(source: &Path, place: &Path) -> Outcome<()> {
    let library = place.join("lib");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies"]).current_dir(source);
    maven.arg(format!("-DoutputDirectory={}", library.display()));
    maven.arg(format!("-DbuildDirectory={}", place.join("build").display()));
    cargo::output(&mut maven)?;
    let list = source.join("jars.sha256");
    let pinned = fs::read_to_string(&list).map_err(io("read", &list))?;
    for (sha256, jar) in pinned.lines().filter_map(|line| line.split_once("  ")) {
        digest::verify(&library.join(jar), sha256)?;
    }
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(format!("{}/*", library.display()));
    javac.arg("-d").arg(place.join("classes")).arg(source.join("src/Main.java"));
    cargo::output(&mut javac).map(drop)
}

fn needs(programs: &[&str]) -> Outcome<()> {
    let missing: Vec<&str> =
        programs.iter().copied().filter(|name| find_on_path(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("not installed: {}", missing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            Options::read(&words).map(|options| {
                (options.passed.join(" "), options.parser.map(ToOwned::to_owned), options.record)
            })
        };
        let found = read(&["--cases", "9", "--parser", "php", "--record"]);
        assert_eq!(found.ok(), Some(("--cases 9".to_owned(), Some("php".to_owned()), true)));
        for wrong in [&["--cases"][..], &["--case", "9"], &["9"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
