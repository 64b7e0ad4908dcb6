//! `cargo xtask slowest`: the tests that take longest. What they guard stands in `tests/README.md`.
//!
//! Examples in documentation are not among them: another harness runs those. Tests run beside each other, as in
//! `cargo xtask test`: a time is what a test took while others ran.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use crate::cargo::{self, Artifacts, cargo};
use crate::failure::{Failure, Outcome};
use crate::fetch;
use crate::settings::settings;
use crate::wasm;

/// How many are listed.
const LISTED: usize = 20;

/// Runs each test in a shell's `env`, which lets the test harness of a stable toolchain report times. Set for cargo
/// itself, the variable would have crates compiled anew.
const RUNNER: &str = "env RUSTC_BOOTSTRAP=1";

/// `cargo xtask slowest`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let fetched = fetch::ensure()?;
    let redis = fetch::redis::ensure()?;
    let wasm = wasm::build()?;
    let artifacts = cargo::build(&["--workspace", "--bins", "--lib", "--tests"])?;
    let mut test = cargo(["test", "--color", "never", "--workspace", "--tests", "--no-fail-fast"]);
    test.args(["--", "-Zunstable-options", "--report-time"]);
    test.env(format!("CARGO_TARGET_{}_RUNNER", variable(&cargo::host()?)), RUNNER);
    test.env("GLACIS_REDIS", &redis);
    test.envs(settings(&fetched, Some(wasm), &artifacts));
    let mut told = Told::of(&artifacts);
    let status = run(test, |line| told.hear(line));
    let status = status.map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
    println!("{}", table(&told.tests, LISTED));
    if status.success() { Ok(()) } else { Err(Failure::new("a test has failed")) }
}

/// A target's name as cargo has it in names of variables.
fn variable(target: &str) -> String {
    target.to_uppercase().replace('-', "_")
}

/// Runs cargo to its end and hands over each line that it, or a test, has written.
fn run(mut test: Command, mut hear: impl FnMut(&str)) -> io::Result<ExitStatus> {
    // One pipe for both: cargo names a program on standard error, and what its tests took is on standard output behind.
    let (reader, writer) = io::pipe()?;
    test.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = test.spawn()?;
    // It has ends of the pipe too, which is read until all of them are closed.
    drop(test);
    for line in BufReader::new(reader).split(b'\n') {
        hear(&String::from_utf8_lossy(&line?));
    }
    child.wait()
}

/// One that has ended.
#[derive(Debug, PartialEq)]
struct Test {
    seconds: f64,
    /// The source of the program that it is in: two programs may have tests of one name.
    source: String,
    name: String,
}

/// What has been told so far.
#[derive(Default)]
struct Told {
    /// Of each program, by the name of its file.
    sources: BTreeMap<String, String>,
    /// That of the program that runs.
    source: String,
    tests: Vec<Test>,
}

impl Told {
    fn of(artifacts: &Artifacts) -> Self {
        let root = cargo::root();
        let names = artifacts.tests.iter().map(|(program, source)| {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, source.strip_prefix(&root).unwrap_or(source).display().to_string())
        });
        Self { sources: names.collect(), ..Self::default() }
    }

    /// Prints what is of no test that has ended.
    fn hear(&mut self, line: &str) {
        if let Some(program) = program(line) {
            let source = self.sources.get(program);
            self.source = source.map_or(program, String::as_str).to_owned();
        }
        match time(line) {
            Some((seconds, name)) => {
                let (source, name) = (self.source.clone(), name.to_owned());
                self.tests.push(Test { seconds, source, name });
            }
            None => println!("{line}"),
        }
    }
}

/// The file's name of a line such as `     Running tests/usage.rs (target/debug/deps/usage-0a1b2c)`.
fn program(line: &str) -> Option<&str> {
    let running = line.trim_start().strip_prefix("Running ")?;
    let path = running.rsplit_once('(')?.1.strip_suffix(')')?;
    path.rsplit('/').next()
}

/// Of a line such as `test lease::renewed ... ok <0.012s>`, seconds and name.
fn time(line: &str) -> Option<(f64, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.split_once('<')?.1.strip_suffix("s>")?;
    Some((seconds.parse().ok()?, name))
}

/// The slowest below the sources of their programs, each of these with the sum of all of its tests.
fn table(tests: &[Test], listed: usize) -> String {
    let mut slowest: Vec<&Test> = tests.iter().collect();
    slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    slowest.truncate(listed);
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for test in tests {
        *sums.entry(&test.source).or_default() += test.seconds;
    }
    let mut programs = Vec::from_iter(&sums);
    programs.sort_by(|one, other| other.1.total_cmp(one.1));
    let all: f64 = sums.values().sum();
    let mut out = format!("{} tests, {all:.0} s if one is added to the other\n", tests.len());
    for (source, sum) in programs {
        let own: Vec<_> = slowest.iter().filter(|test| test.source == **source).collect();
        if !own.is_empty() {
            out.push_str(&format!("\n{sum:>8.2} s  {source}\n"));
        }
        for Test { seconds, name, .. } in own {
            out.push_str(&format!("{seconds:>8.2} s    {name}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn times_are_those_of_a_program() {
        let source = cargo::root().join("cli/tests/usage.rs");
        let tests = BTreeMap::from([(PathBuf::from("/t/debug/deps/usage-0a"), source)]);
        let mut told = Told::of(&Artifacts { tests, ..Artifacts::default() });
        let text = "   Compiling a v0.1.0 (/a)\n     Running tests/usage.rs (t/debug/deps/usage-0a)\n\
                    running 3 tests\ntest a::b ... ok <0.012s>\ntest c ... FAILED <3.500s>\n\
                    test d ... ignored\n\ntest result: ok. 1 passed; finished in 0.01s\n\
                    \x20    Running unittests src/lib.rs (t/debug/deps/other-1b)\ntest c ... ok <1.000s>\n";
        text.lines().for_each(|line| told.hear(line));
        let expected = [
            (0.012, "cli/tests/usage.rs", "a::b"),
            (3.5, "cli/tests/usage.rs", "c"),
            (1.0, "other-1b", "c"),
        ];
        let expected = expected.map(|(seconds, source, name)| Test {
            seconds,
            source: source.to_owned(),
            name: name.to_owned(),
        });
        assert_eq!(told.tests, expected);
        assert_eq!(
            table(&told.tests, 2),
            "3 tests, 5 s if one is added to the other\n\n    3.51 s  cli/tests/usage.rs\n    \
             3.50 s    c\n\n    1.00 s  other-1b\n    1.00 s    c\n"
        );
    }

    #[test]
    fn both_streams_are_heard_in_order() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo a >&2; echo b; echo c >&2; exit 3"]);
        let mut heard = Vec::new();
        let status = run(shell, |line| heard.push(line.to_owned())).unwrap();
        assert_eq!(heard, ["a", "b", "c"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_target_names_a_variable() {
        assert_eq!(variable("x86_64-unknown-linux-gnu"), "X86_64_UNKNOWN_LINUX_GNU");
    }
}
