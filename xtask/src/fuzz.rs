//! `cargo xtask fuzz`: libFuzzer on the laws of `fuzz/laws`, with seeds made from the tests' data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, cargo, find_on_path};
use crate::failure::{self, Failure, Outcome};
use crate::fetch;
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
    Target { name: "pattern", bytes_max: 512, dictionary: "pattern", seeds: patterns },
    Target { name: "chunking", bytes_max: 2048, dictionary: "http", seeds: in_pieces },
    Target { name: "fast_path", bytes_max: 2048, dictionary: "attacks", seeds: ruled },
    Target { name: "transaction_calls", bytes_max: 2048, dictionary: "http", seeds: calls },
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

/// What the engine's tests are fed with.
#[derive(Debug, Default)]
struct Fixtures {
    rules: Vec<String>,
    requests: Vec<Request>,
}

/// A request of a fixture, and its response if it has one.
#[derive(Debug)]
struct Request {
    head: String,
    body: Vec<u8>,
    response: Option<String>,
}

/// Folders of SecLang files, and the folder of fixtures with rules and requests.
const RULES: &[&str] = &[
    "engine/seclang/tests/data/ok",
    "engine/seclang/tests/data/err",
    "engine/core/tests/data/refused",
    "engine/core/tests/data/warnings",
    "fuzz/laws/src",
];
const TRANSACTIONS: &str = "engine/core/tests/data/transactions";

impl Fixtures {
    fn read(root: &Path) -> Outcome<Self> {
        let mut fixtures = Self::default();
        for folder in RULES {
            for path in files(&root.join(folder), "conf")? {
                fixtures.rules.push(text(&path)?);
            }
        }
        for path in files(&root.join(TRANSACTIONS), "txt")? {
            fixtures.add(&text(&path)?);
        }
        Ok(fixtures)
    }

    /// Takes a file of sections that begin with `=== NAME`.
    fn add(&mut self, text: &str) {
        for section in text.strip_prefix("=== ").unwrap_or(text).split("\n=== ") {
            let (name, content) = section.split_once('\n').unwrap_or((section, ""));
            match name {
                "rules" => self.rules.push(format!("{content}\n")),
                "response" => {
                    if let Some(request) = self.requests.last_mut() {
                        request.response = Some(content.to_owned());
                    }
                }
                name if name.starts_with("request") => {
                    let (head, body) = content.split_once("\n\n").unwrap_or((content, ""));
                    let is_escaped = name.ends_with("escaped");
                    let body = if is_escaped { unescape(body) } else { body.as_bytes().to_vec() };
                    self.requests.push(Request { head: head.to_owned(), body, response: None });
                }
                _ => {}
            }
        }
    }
}

fn files(folder: &Path, ending: &str) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(failure::io("read", folder))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(failure::io("read", path))
}

/// Line ends are for the reader; those that count are written `\r` and `\n`, other bytes `\xHH`.
fn unescape(body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = body.chars().filter(|&char| char != '\n');
    while let Some(char) = rest.next() {
        match (char, if char == '\\' { rest.next() } else { None }) {
            (_, Some('n')) => bytes.push(b'\n'),
            (_, Some('r')) => bytes.push(b'\r'),
            (_, Some('x')) => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.extend(u8::from_str_radix(&digits, 16));
            }
            (_, Some(other)) => bytes.extend(other.to_string().bytes()),
            (char, None) => bytes.extend(char.to_string().bytes()),
        }
    }
    bytes
}

impl Request {
    /// As `fuzz/laws/src/message.rs` reads it.
    fn message(&self) -> Vec<u8> {
        let mut message = [self.head.as_bytes(), b"\n\n", &self.body].concat();
        if let Some(response) = &self.response {
            message.extend_from_slice(b"\n=== response\n");
            message.extend_from_slice(response.as_bytes());
        }
        message
    }

    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .unwrap_or_default()
            .1
    }
}

fn rules(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    fixtures.rules.iter().map(|rules| rules.clone().into_bytes()).collect()
}

fn messages(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    fixtures.requests.iter().map(Request::message).collect()
}

/// The requests; and rules made of the patterns of all rules, before one of them.
fn ruled(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    const RULES: usize = 4;
    let messages = messages(fixtures);
    let patterns = patterns(fixtures);
    let patterns: Vec<&[u8]> =
        patterns.iter().filter_map(|seed| seed.split(|&byte| byte == b'\n').next()).collect();
    let with_rules = patterns.chunks(RULES).zip(messages.iter().cycle()).map(|(rules, message)| {
        let mut seed = b"=== rules\n".to_vec();
        for (choice, pattern) in (b'b'..).zip(rules) {
            seed.extend_from_slice(&[choice, b'a', b'0', choice, choice, b'b', b' ']);
            seed.extend_from_slice(pattern);
            seed.push(b'\n');
        }
        [&seed, b"=== request\n".as_slice(), message].concat()
    });
    with_rules.chain(messages.iter().cloned()).collect()
}

fn in_pieces(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    messages(fixtures).iter().map(|message| [b"\x03\x07\n", message.as_slice()].concat()).collect()
}

fn values(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    messages(fixtures).iter().map(|message| [b"\x01\x08\n", message.as_slice()].concat()).collect()
}

/// Each body, with default limits and with small ones; as it is, and compressed or taken for it.
fn bodies(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    /// Codings, as the law counts them behind the lowest bit, which is for small limits.
    const CODINGS: [&str; 5] = ["", "gzip", "deflate", "Deflate", "br"];
    let with_body = fixtures.requests.iter().filter(|request| !request.body.is_empty());
    let seed = |(index, request): (usize, &Request)| {
        let media_type = request.header("Content-Type");
        let known = ["urlencoded", "multipart", "json", "xml"];
        let processor = known.iter().position(|known| media_type.contains(known)).unwrap_or(0);
        let named = request.header("Content-Encoding");
        let coding = CODINGS.iter().position(|coding| *coding == named).unwrap_or(5);
        [coding << 1, 1, (index % 9) << 1].map(|choice| {
            let choices = [processor, choice].map(|choice| u8::try_from(choice).unwrap_or(0));
            [&choices, media_type.as_bytes(), b"\n", &request.body].concat()
        })
    };
    with_body.enumerate().flat_map(seed).collect()
}

/// The patterns of all rules, with a value that many match.
fn patterns(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let operators = fixtures.rules.iter().flat_map(|rules| rules.split("@rx ").skip(1));
    let patterns = operators.filter_map(|rest| Some(rest.split_once("\" ")?.0));
    let seed = |pattern: &str| format!("{}\nabc select 12", pattern.replace('\n', " "));
    patterns.map(seed).map(String::into_bytes).collect()
}

/// The calls that send a request, in the letters of the law, every other time with a trace.
fn calls(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let seed = |(index, request): (usize, &Request)| {
        let mut lines = request.head.lines();
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').take(2).collect();
        let headers: String =
            lines.map(|line| format!("h{}\n", line.replacen(": ", "=", 1))).collect();
        let trace = if index % 2 == 1 { "t\n" } else { "" };
        let begin = format!("{trace}s\nl{}\n{headers}1\nb", first.join("="));
        let end = b"\n2\nLHTTP/1.1=\nHContent-Type=text/html\n3\nB<p>a</p>\n4\n5\nd\n";
        [begin.as_bytes(), &request.body, end].concat()
    };
    fixtures.requests.iter().enumerate().map(seed).collect()
}

/// The first requests of each of the regression tests of CRS, as near as lines tell: seeds need not be
/// exact. A CRS without its tests has none.
fn crs_requests(crs: &Path) -> Outcome<Vec<Vec<u8>>> {
    const OF_EACH: usize = 3;
    let folder = crs.join("tests");
    let mut seeds = Vec::new();
    for group in fs::read_dir(folder).into_iter().flatten().flatten() {
        for path in files(&group.path(), "yaml")? {
            let text = text(&path)?;
            seeds.extend(text.split("- input:").skip(1).take(OF_EACH).map(crs_request));
        }
    }
    seeds.sort();
    Ok(seeds)
}

fn crs_request(test: &str) -> Vec<u8> {
    let lines = || test.lines().map(str::trim);
    let field = |name: &str| {
        let value = lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        value.trim_matches(['"', '\'']).replace("\\\"", "\"")
    };
    let method = if field("method:").is_empty() { "GET".to_owned() } else { field("method:") };
    let headers = lines().skip_while(|line| *line != "headers:").skip(1);
    let headers: String = headers
        .take_while(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| format!("\n{}", line.replace('"', "")))
        .collect();
    format!("{method} {} HTTP/1.1{headers}\n\n{}", field("uri:"), field("data:")).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let manifest = text(&root.join("fuzz/Cargo.toml")).unwrap();
        let laws = text(&root.join("fuzz/laws/src/lib.rs")).unwrap();
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

    #[test]
    fn requests_are_found_in_tests_of_crs() {
        let test = "\n  headers:\n    Host: \"a\"\n    Cookie: b=c\n  method: POST\n  uri: '/d?e'\n  \
                    data: \"f=\\\"g\"\n  output:\n    log: x\n";
        let request = String::from_utf8(crs_request(test)).unwrap();
        assert_eq!(request, "POST /d?e HTTP/1.1\nHost: a\nCookie: b=c\n\nf=\"g");
        assert_eq!(crs_request(""), b"GET  HTTP/1.1\n\n");
    }

    /// What is fuzzed is what is built: the two lock files agree on what is in both, where versions that Cargo
    /// would not exchange for each other are not the same. If not,
    /// `cargo update --manifest-path fuzz/Cargo.toml NAME --precise VERSION`.
    #[test]
    fn lock_files_agree() {
        let packages = |path: &str| -> BTreeSet<(String, String)> {
            let text = text(&cargo::root().join(path)).unwrap();
            let packages = text.split("[[package]]\n").skip(1);
            let field = |package: &str, name: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim_matches([' ', '=', '"']).to_owned()
            };
            packages.map(|package| (field(package, "name"), field(package, "version"))).collect()
        };
        let (built, fuzzed) = (packages("Cargo.lock"), packages("fuzz/Cargo.lock"));
        // 1.2.3 is a 1, 0.2.3 a 0.2.
        let series = |(name, version): &(String, String)| {
            let parts = if version.starts_with("0.") { 2 } else { 1 };
            (name.clone(), version.split('.').take(parts).collect::<Vec<_>>().join("."))
        };
        let known: BTreeSet<(String, String)> = built.iter().map(series).collect();
        let in_both = fuzzed.iter().filter(|package| known.contains(&series(package)));
        let others: Vec<_> = in_both.filter(|package| !built.contains(package)).collect();
        assert_eq!(others, Vec::<&(String, String)>::new());
        assert!(fuzzed.iter().any(|(name, _)| name == "regex-automata"));
    }

    #[test]
    fn sections_become_requests() {
        let mut fixtures = Fixtures::default();
        fixtures.add(
            "=== rules\nSecX\n=== request escaped\nPOST /a HTTP/1.1\nContent-Type: text/xml\n\n\
             a\\r\nb\\x41\\\\\n=== response\nHTTP/1.1 200\n\nc\n=== expect\nallow\n",
        );
        assert_eq!(fixtures.rules, ["SecX\n"]);
        let message =
            "POST /a HTTP/1.1\nContent-Type: text/xml\n\na\rbA\\\n=== response\nHTTP/1.1 200\n\nc";
        assert_eq!(messages(&fixtures), [message.as_bytes()]);
        assert_eq!(bodies(&fixtures)[1], b"\x03\x01text/xml\na\rbA\\");
        assert!(ruled(&fixtures).contains(&message.as_bytes().to_vec()));
        assert!(calls(&fixtures)[0].starts_with(b"s\nlPOST=/a\nhContent-Type=text/xml\n1\nba\r"));
    }
}
