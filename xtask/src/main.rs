//! Every developer command of the project, behind one entry: `cargo xtask`.
//!
//! Continuous integration calls the same commands, so what is green here is green there.
//! Nothing in this crate depends on the rest of the workspace: cargo is run as a subprocess, and a
//! workspace that does not build can still be formatted, linted and tidied.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

mod bench;
mod cargo;
mod chaos;
mod charts;
mod differential;
mod digest;
mod failure;
mod fetch;
mod ftw;
mod fuzz;
mod fuzz_seeds;
mod gotestwaf;
mod image;
mod linked;
mod lock;
mod machine;
mod mesh;
mod modsecurity;
mod newcomer;
mod pins;
mod release;
mod second_opinion;
mod settings;
mod slowest;
mod steps;
mod suite;
mod tidy;
mod up;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

use failure::{Failure, Outcome};

/// One word after `cargo xtask`.
struct Command {
    name: &'static str,
    options: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "up",
        options: "[--release] [-- ARGS]",
        about: "start Envoy, the filter, the services and a sample upstream; Ctrl-C stops them",
        run: up::up,
    },
    Command {
        name: "test",
        options: "",
        about: "everything that must be green: fetch, fmt, tidy, lint, docs, wasm, build, tests, costs",
        run: suite::test,
    },
    Command {
        name: "gotestwaf",
        options: "--data DIR",
        about: "play GoTestWAF's test cases in process, with and without a second opinion; write docs/results",
        run: gotestwaf::command,
    },
    Command {
        name: "second-opinion",
        options: "--data DIR [--train DATE|--defaults|--mutate]",
        about: "make labelled requests from public data sets; learn the weights of the second opinion",
        run: second_opinion::command,
    },
    Command {
        name: "fetch",
        options: "",
        about: "bring Envoy, CRS and the wasm target, pinned and verified, into `.fetched/`",
        run: fetch::command,
    },
    Command {
        name: "wasm",
        options: "",
        about: "build the proxy-wasm filter; print its path and size",
        run: suite::wasm,
    },
    Command {
        name: "fmt",
        options: "[--check]",
        about: "format the workspace, or only say what is not formatted",
        run: suite::fmt,
    },
    Command {
        name: "lint",
        options: "",
        about: "clippy on all targets and on the wasm target; warnings are errors",
        run: suite::lint,
    },
    Command {
        name: "docs",
        options: "",
        about: "documentation of the workspace; a link to nothing is an error",
        run: suite::docs,
    },
    Command {
        name: "deny",
        options: "",
        about: "the policy on dependencies in deny.toml, by cargo-deny",
        run: suite::deny,
    },
    Command {
        name: "tidy",
        options: "[--stats | --write]",
        about: "house rules no other tool checks; --write shortens the lists of exceptions, --stats prints numbers",
        run: tidy::command,
    },
    Command {
        name: "charts",
        options: "[--write]",
        about: "the Helm chart, its dashboards and alerts, without a cluster; --write renews what is made of it",
        run: charts::command,
    },
    Command {
        name: "mesh",
        options: "[--report FILE]",
        about: "attacks through a real istiod and Envoy Gateway, built from source; as root",
        run: mesh::command,
    },
    Command {
        name: "image",
        options: "",
        about: "the files of the services' images, tried; images of them by buildah, where it is installed",
        run: image::command,
    },
    Command {
        name: "sbom",
        options: "PACKAGE",
        about: "what is linked into a package, as a CycloneDX bill of materials",
        run: linked::sbom,
    },
    Command {
        name: "notices",
        options: "PACKAGE…",
        about: "the notices that come with what is linked into packages",
        run: linked::print_notices,
    },
    Command {
        name: "newcomer",
        options: "[--report FILE]",
        about: "how long README's way from a clone to a refused attack takes, in a new clone",
        run: newcomer::command,
    },
    Command {
        name: "slowest",
        options: "",
        about: "the twenty tests that take longest",
        run: slowest::command,
    },
    Command {
        name: "release",
        options: "[--draft] [--twice]",
        about: "what a version is published as, with digests; --twice: again elsewhere, and compared",
        run: release::command,
    },
    Command {
        name: "modsecurity-suite",
        options: "[--write-report] [-- --show CASE]",
        about: "ModSecurity's regression suite, fetched by apt, in process; --write-report renews docs/results",
        run: modsecurity::command,
    },
    Command {
        name: "ftw",
        options: "[--envoy [--module]] [--write-readme] [-- ARGS]",
        about: "the CRS regression tests in process, or through a real Envoy with ext-proc or the native module",
        run: ftw::ftw,
    },
    Command {
        name: "bench",
        options: "engine|authz|components|counts|decisions|filter|load|hostile|micro|operators|barbacana|boundary|crowdsec|proxies|curves|profiles|sizing | -- FILE",
        about: "what requests and loading cost, beside the peers or what is on file (bench/README.md)",
        run: bench::command,
    },
    Command {
        name: "fuzz",
        options: "[TARGET…] [--minutes N] [--crs]",
        about: "libFuzzer on the laws in `fuzz/laws`, a minute each or N; --crs: `fast_path` on CRS",
        run: fuzz::fuzz,
    },
    Command {
        name: "differential",
        options: "[--minutes N | --cases N] [--parser NAME] [--seed N] [--first N] [--remove RULE] [--record]",
        about: "mutated requests to Glacis and to parsers of applications (docs/differential.md)",
        run: differential::command,
    },
    Command {
        name: "reload",
        options: "[--release] [-- [--module] COUNT]",
        about: "replace the rules under load through a real Envoy, 100 times by default; --module: in the native module",
        run: up::reload,
    },
    Command {
        name: "chaos",
        options: "[--quick] [--list] [--report FILE] [NAME…]",
        about: "break things under load through a real Envoy, and tell what was seen (docs/resilience.md)",
        run: chaos::chaos,
    },
    Command {
        name: "soak",
        options: "[--hours|--minutes N] [--rps R] [--report FOLDER]",
        about: "mixed traffic at a steady rate through the whole stack, and what grows: 3 minutes unless told",
        run: chaos::soak,
    },
    Command { name: "help", options: "", about: "this table", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome<()> {
    let Some((word, rest)) = arguments.split_first() else {
        return help(&[]);
    };
    let word = match word.as_str() {
        "-h" | "--help" => "help",
        word => word,
    };
    match COMMANDS.iter().find(|command| command.name == word) {
        Some(command) => (command.run)(rest),
        None => Err(Failure::usage(format!("unknown command `{word}`\n\n{}", table()))),
    }
}

fn help(_: &[String]) -> Outcome<()> {
    println!("{}", table());
    Ok(())
}

fn table() -> String {
    let mut text = String::from("cargo xtask COMMAND\n");
    for Command { name, options, about, .. } in COMMANDS {
        text.push_str(&format!("\n  {name:<6} {options:<36} {about}"));
    }
    text
}

/// Splits the flags a command knows from what it passes on after `--`; anything else is refused,
/// so a mistyped flag never means "run the default".
fn flags<'a>(arguments: &'a [String], known: &[&str]) -> Outcome<(Vec<&'a str>, &'a [String])> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (own, passed) = arguments.split_at(end);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    match own.iter().find(|flag| !known.contains(flag)) {
        Some(flag) => Err(Failure::usage(format!("unknown option `{flag}`\n\n{}", table()))),
        None => Ok((own, passed.get(1..).unwrap_or_default())),
    }
}

/// The file that `--report FILE` names, of a command that takes nothing else.
fn report_file(arguments: &[String]) -> Outcome<Option<&Path>> {
    match arguments {
        [] => Ok(None),
        [flag, file] if flag == "--report" => Ok(Some(Path::new(file))),
        _ => Err(Failure::usage(format!("write `--report FILE`, or nothing\n\n{}", table()))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[track_caller]
    fn check(arguments: &[&str], expected: Result<(&[&str], &[&str]), ()>) {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let actual = flags(&arguments, &["--check"]);
        match (actual, expected) {
            (Ok((own, passed)), Ok((own_expected, passed_expected))) => {
                assert_eq!(own, own_expected);
                assert_eq!(passed, passed_expected);
            }
            (Err(_), Err(())) => {}
            (actual, _) => panic!("{actual:?}"),
        }
    }

    #[test]
    fn flags_are_known_or_refused() {
        check(&[], Ok((&[], &[])));
        check(&["--check"], Ok((&["--check"], &[])));
        check(&["--", "--other"], Ok((&[], &["--other"])));
        check(&["--check", "--", "a", "--"], Ok((&["--check"], &["a", "--"])));
        check(&["--chekc"], Err(()));
        check(&["word"], Err(()));
    }

    #[test]
    fn a_report_has_a_file() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            report_file(&words).ok().map(|file| file.map(Path::to_path_buf))
        };
        assert_eq!(read(&[]), Some(None));
        assert_eq!(read(&["--report", "a.md"]), Some(Some(PathBuf::from("a.md"))));
        for wrong in [&["--report"][..], &["a.md"], &["--report", "a.md", "b"]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    /// `cargo xtask NAME --option` in documents: both are known, by the table above or somewhere in the programs.
    #[test]
    fn commands_in_documents_are_known() {
        let root = cargo::root();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let programs =
            ["xtask/src", "tests/src", "bench"].map(|folder| sources(&root.join(folder)));
        let mut wrong = Vec::new();
        for document in charts::commands::documents().unwrap() {
            for (_, rest) in
                read(&document).lines().filter_map(|line| line.split_once("cargo xtask "))
            {
                let rest = rest.split(['`', '#', ',', ';', ')', ':']).next().unwrap_or_default();
                let mut words = rest.split_whitespace().map(|word| word.trim_end_matches('.'));
                let name = words.next().unwrap_or_default();
                let command = COMMANDS.iter().find(|command| command.name == name);
                let is_known = |word: &&str| {
                    let quoted = format!("\"{word}\"");
                    programs.iter().flatten().any(|(_, program)| program.contains(&quoted))
                };
                let mut options = words.filter(|word| word.starts_with("--") && word.len() > 2);
                if command.is_none() || !options.all(|option| is_known(&option)) {
                    wrong.push(format!("{document}: cargo xtask {rest}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The sources in a folder and in those below it, with their texts.
    pub(crate) fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
        found
    }

    #[test]
    fn an_unknown_command_names_the_known_ones() {
        let failure = dispatch(&["nonsense".to_owned()]).unwrap_err().to_string();
        for command in COMMANDS {
            assert!(failure.contains(command.name), "{failure}");
        }
    }
}
