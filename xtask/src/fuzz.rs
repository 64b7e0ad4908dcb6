//! `cargo xtask fuzz`: libFuzzer on the laws of `fuzz/laws`, with seeds made from the tests' data.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{self, cargo, find_on_path};
use crate::failure::{self, Failure, Outcome};
use crate::fetch;
use crate::fuzz_seeds::{
    Fixtures, api_requests, bodies, calls, crs_requests, documents, in_pieces, patterns, ruled,
    rules, sockets, streams, values,
};
use crate::pins::CARGO_FUZZ_VERSION;

/// A target of `fuzz/Cargo.toml`: one law.
#[derive(Debug)]
struct Target {
    name: &'static str,
    /// Bytes of an input at most.
    bytes_max: u32,
    /// A file of `fuzz/dictionaries`, without its ending.
    dictionary: &'static str,
    seeds: fn(&Fixtures) -> Vec<Vec<u8>>,
}

const TARGETS: &[Target] = &[
    Target { name: "seclang_parse", bytes_max: 4096, dictionary: "seclang", seeds: rules },
    Target { name: "seclang_roundtrip", bytes_max: 4096, dictionary: "seclang", seeds: rules },
    Target { name: "compile", bytes_max: 2048, dictionary: "seclang", seeds: rules },
    Target { name: "transform_total", bytes_max: 4096, dictionary: "attacks", seeds: values },
    Target { name: "body_processors", bytes_max: 4096, dictionary: "http", seeds: bodies },
    Target { name: "graphql", bytes_max: 2048, dictionary: "graphql", seeds: documents },
    Target { name: "openapi", bytes_max: 2048, dictionary: "http", seeds: api_requests },
    Target { name: "pattern", bytes_max: 512, dictionary: "pattern", seeds: patterns },
    Target { name: "chunking", bytes_max: 2048, dictionary: "http", seeds: in_pieces },
    Target { name: "before_body", bytes_max: 2048, dictionary: "attacks", seeds: ruled },
    Target { name: "fast_path", bytes_max: 2048, dictionary: "attacks", seeds: ruled },
    Target { name: "transaction_calls", bytes_max: 2048, dictionary: "http", seeds: calls },
    Target { name: "event_stream", bytes_max: 2048, dictionary: "http", seeds: streams },
    Target { name: "websocket", bytes_max: 2048, dictionary: "http", seeds: sockets },
];

/// Minutes for each target, where none are given.
const MINUTES: u64 = 1;

/// Seconds that one input may take, and memory that a target may.
const TIMEOUT_SECONDS: u32 = 10;
/// The same for CRS: the first input waits for it to be compiled.
const CRS_TIMEOUT_SECONDS: u32 = 120;
const MEMORY_MIB: u32 = 4096;

/// What was asked for.
#[derive(Debug)]
struct Choice {
    targets: Vec<&'static Target>,
    minutes: u64,
    /// Whether `fast_path` runs the fetched CRS.
    crs: bool,
}

/// No sanitizer of memory: there is no unsafe code of ours, several times as many inputs find more broken
/// laws, and without it the toolchain of the workspace will do. Overflows are caught, by the profile.
const SANITIZER: [&str; 2] = ["--sanitizer", "none"];

/// `cargo xtask fuzz [TARGET…] [--minutes N] [--crs]`.
pub(crate) fn fuzz(arguments: &[String]) -> Outcome<()> {
    let Choice { targets, minutes, crs } = chosen(arguments)?;
    prerequisites()?;
    let crs = if crs { Some(fetch::ensure()?.crs) } else { None };
    let folder = cargo::root().join("fuzz");
    let fixtures = Fixtures::read(&cargo::root())?;
    for target in targets {
        let crs = crs.as_deref().filter(|_| target.name == "fast_path");
        let mut inputs = (target.seeds)(&fixtures);
        if let Some(crs) = crs {
            inputs.extend(crs_requests(crs)?);
        }
        let name = format!("{}{}", target.name, if crs.is_some() { "-crs" } else { "" });
        let seeds = folder.join("seeds").join(&name);
        write_seeds(&seeds, &inputs)?;
        let corpus = folder.join("corpus").join(&name);
        fs::create_dir_all(&corpus).map_err(failure::io("make", &corpus))?;
        let mut command = command(target, &folder, [&corpus, &seeds], minutes);
        if let Some(crs) = crs {
            command.env("GLACIS_FUZZ_CRS_DIR", crs);
            command.arg(format!("-timeout={CRS_TIMEOUT_SECONDS}"));
        }
        println!("\n==> {name}, {minutes} min");
        cargo::run(&mut command).map_err(|failure| broken(target, &failure))?;
    }
    Ok(())
}

fn chosen(arguments: &[String]) -> Outcome<Choice> {
    let mut choice = Choice { targets: Vec::new(), minutes: MINUTES, crs: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--crs" => choice.crs = true,
            "--minutes" => {
                let number = words.next().and_then(|word| word.parse().ok());
                choice.minutes = number
                    .filter(|&number| number > 0)
                    .ok_or_else(|| Failure::usage("--minutes needs a number"))?;
            }
            name => choice.targets.push(target(name)?),
        }
    }
    if choice.targets.is_empty() {
        choice.targets = TARGETS.iter().collect();
    }
    Ok(choice)
}

fn target(name: &str) -> Outcome<&'static Target> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        Failure::usage(format!("no target `{name}`; there are: {}", names.join(", ")))
    })
}

fn prerequisites() -> Outcome<()> {
    if find_on_path("cargo-fuzz").is_none() {
        return Err(Failure::new(format!(
            "cargo-fuzz is not installed: \
             `cargo install cargo-fuzz --version {CARGO_FUZZ_VERSION} --locked`"
        )));
    }
    // As the build of libFuzzer looks for it.
    if std::env::var_os("CXX").is_none() && find_on_path("c++").is_none() {
        return Err(Failure::new("no C++ compiler: install g++ or clang, or name one in CXX"));
    }
    Ok(())
}

fn command(target: &Target, folder: &Path, inputs: [&Path; 2], minutes: u64) -> Command {
    let Target { name, bytes_max, dictionary, .. } = target;
    let mut command = cargo(["fuzz", "run"]);
    command.args(SANITIZER).arg(name);
    // New inputs go into the first folder.
    command.args(inputs).arg("--");
    command.arg(format!("-max_total_time={}", minutes * 60));
    command.arg(format!("-max_len={bytes_max}"));
    command.arg(format!("-dict={}/dictionaries/{dictionary}.dict", folder.display()));
    command.arg(format!("-timeout={TIMEOUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.arg("-print_final_stats=1");
    command
}

/// What to do now.
fn broken(target: &Target, failure: &Failure) -> Failure {
    let name = target.name;
    let sanitizer = SANITIZER.join(" ");
    Failure::new(format!(
        "{failure}\n\n\
         If it was built, the law `{name}` is broken, or an input took too long: it is the newest file of\n\
         fuzz/artifacts/{name}.\n\
         Again:     cargo fuzz run {sanitizer} {name} FILE\n\
         Smaller:   cargo fuzz tmin {sanitizer} {name} FILE\n\
         For good:  put it into fuzz/regressions/{name}, under a name that says what was wrong;\n\
         \x20          `cargo test -p glacis-laws` replays it"
    ))
}

fn write_seeds(folder: &Path, seeds: &[Vec<u8>]) -> Outcome<()> {
    fs::create_dir_all(folder).map_err(failure::io("make", folder))?;
    for (index, seed) in seeds.iter().enumerate() {
        let path = folder.join(format!("{index:04}"));
        fs::write(&path, seed).map_err(failure::io("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn targets_and_minutes_are_chosen() {
        let chosen = |text| {
            let choice = chosen(&words(text)).ok()?;
            Some((choice.targets.len(), choice.minutes, choice.crs))
        };
        assert_eq!(chosen(""), Some((TARGETS.len(), MINUTES, false)));
        assert_eq!(chosen("pattern --minutes 10"), Some((1, 10, false)));
        assert_eq!(chosen("--minutes 2 --crs pattern compile"), Some((2, 2, true)));
        for wrong in ["patern", "--minutes", "--minutes x", "--minutes 0", "--fast"] {
            assert_eq!(chosen(wrong), None, "{wrong}");
        }
    }

    /// Each target is in `fuzz/Cargo.toml`, and has seeds that it can take, and a dictionary.
    #[test]
    fn targets_are_complete() {
        let root = cargo::root();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let laws = fs::read_to_string(root.join("fuzz/laws/src/lib.rs")).unwrap();
        let fixtures = Fixtures::read(&root).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for Target { name, bytes_max, dictionary, seeds } in TARGETS {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            assert!(laws.contains(&format!("(\"{name}\", {name})")), "{name}");
            let dictionary = root.join("fuzz/dictionaries").join(format!("{dictionary}.dict"));
            assert!(dictionary.is_file(), "{name}");
            let seeds = seeds(&fixtures);
            let usable = seeds.iter().filter(|seed| seed.len() <= *bytes_max as usize).count();
            assert!(usable > 20, "{name} has {usable} seeds");
        }
    }
}
