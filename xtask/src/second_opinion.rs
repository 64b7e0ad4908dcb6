//! `cargo xtask second-opinion`: makes labelled requests from public data, learns the shipped weights from them, and
//! measures the defaults of Glacis with them.
//!
//! The data sets are git repositories that nobody commits here: `sources.rs` names each with its commit. They are read
//! from a folder of clones (`DIR/OWNER+NAME/repo`, bare or not); a missing one is cloned. What is made is in
//! `target/second-opinion`.

mod carriers;
mod defaults;
mod mutation;
mod payloads;
mod recorded;
mod sources;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cargo;
use crate::failure::{Failure, Outcome, io};
use carriers::Carriers;
use sources::{Format, Label, SOURCES, Source, Use};

/// The file of weights that the repository has.
pub(crate) const WEIGHTS: &str = "rules/weights/crs-4.25.json";

/// Makes the requests, and with `--train DATE` the weights.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (folder, next) = match words.as_slice() {
        ["--data", folder, "--mutate"] => return mutate(Path::new(folder)),
        ["--data", folder] => (folder, Next::Nothing),
        ["--data", folder, "--defaults"] => (folder, Next::Compare),
        ["--data", folder, "--train", date] => (folder, Next::Learn(date)),
        _ => {
            return Err(Failure::usage(
                "write `--data DIR`, and `--train YYYY-MM-DD` to learn, `--defaults` or `--mutate`",
            ));
        }
    };
    let target = cargo::root().join("target/second-opinion");
    fs::create_dir_all(&target).map_err(io("create", &target))?;
    let training = make(Path::new(folder), Use::Training, &target.join("training.jsonl"))?;
    let test = make(Path::new(folder), Use::Test, &target.join("test.jsonl"))?;
    match next {
        Next::Nothing => Ok(()),
        Next::Compare => defaults::compare(&[training, test]),
        Next::Learn(date) => learn(&training, date),
    }
}

/// What is done with the requests.
enum Next<'a> {
    Nothing,
    /// Measures the defaults of Glacis.
    Compare,
    /// Learns weights, of that date.
    Learn(&'a str),
}

/// Measures what an attacker who knows the weights gains, on attacks that weights were not learned from.
fn mutate(folder: &Path) -> Outcome<()> {
    let target = cargo::root().join("target/second-opinion");
    fs::create_dir_all(&target).map_err(io("create", &target))?;
    let mut kinds = Vec::new();
    for (kind, name) in [("sql", "coffinxp-sql"), ("xss", "coffinxp-xss")] {
        let source = SOURCES.iter().find(|source| source.name == name);
        let source = source.ok_or_else(|| Failure::new(format!("there is no source {name}")))?;
        let mut texts = read(folder, source)?.0;
        texts.retain(|text| is_text(source, text));
        texts.sort_by_key(|text| hash(text));
        texts.dedup();
        kinds.push((kind, texts));
    }
    mutation::measure(&kinds, &target)
}

/// Writes the requests of one use, and returns the file.
fn make(folder: &Path, of: Use, path: &Path) -> Outcome<PathBuf> {
    let file = File::create(path).map_err(io("create", path))?;
    let mut out = BufWriter::new(file);
    // The same text is in many lists: the first one has it, so that no source repeats another.
    let mut seen = BTreeSet::new();
    let carriers = Carriers::new(recorded_of(folder)?);
    for source in SOURCES {
        let texts = read(folder, source)?;
        let requests = requests(source, texts, &carriers, &mut seen);
        // Sources of the other use are read, too: a text of training must not be in the test.
        if source.of != of {
            continue;
        }
        println!("{:9} {:28} {:6} requests", source.label.name(), source.name, requests.len());
        for request in requests {
            writeln!(out, "{request}").map_err(io("write", path))?;
        }
    }
    out.flush().map_err(io("write", path))?;
    Ok(path.to_path_buf())
}

/// Requests of browsers, into which payloads of both labels are put.
fn recorded_of(folder: &Path) -> Outcome<Vec<Value>> {
    let mut requests = Vec::new();
    for source in SOURCES.iter().filter(|source| source.is_carrier) {
        requests.extend(read(folder, source)?.1);
    }
    Ok(requests)
}

/// The texts of a source, and its whole requests.
fn read(folder: &Path, source: &Source) -> Outcome<(Vec<String>, Vec<Value>)> {
    let git = Git::open(folder, source)?;
    let (mut texts, mut requests) = (Vec::new(), Vec::new());
    for path in git.files()? {
        let bytes = git.show(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        match source.format {
            Format::Requests(read) => requests.extend(read(&text)),
            Format::Text(read) => texts.extend(read(&text)),
        }
    }
    Ok((texts, requests))
}

/// The labelled requests of a source: each text once, at most as many as the source may have.
fn requests(
    source: &Source,
    (texts, whole): (Vec<String>, Vec<Value>),
    carriers: &Carriers,
    seen: &mut BTreeSet<u64>,
) -> Vec<Value> {
    let mut chosen: Vec<(u64, String)> = texts
        .into_iter()
        .filter(|text| is_text(source, text))
        .map(|text| (hash(text.trim()), text))
        .collect();
    chosen.extend(whole.iter().map(|request| (hash(&shape(request)), String::new())));
    let mut requests: Vec<Value> = Vec::new();
    let mut whole = whole.into_iter().map(Some).collect::<Vec<_>>();
    let first_whole = chosen.len() - whole.len();
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    // A hash orders them, so that a part of a source is one by chance, and the same each time.
    order.sort_by_key(|at| chosen.get(*at).map(|(hash, _)| *hash));
    for at in order {
        let Some((hash, text)) = chosen.get(at) else { continue };
        if requests.len() >= source.requests_max {
            break;
        }
        if !seen.insert(*hash) {
            continue;
        }
        let recorded = at.checked_sub(first_whole).and_then(|at| whole.get_mut(at)?.take());
        match recorded {
            Some(request) => requests.push(request),
            None => {
                requests.extend((0..source.carriers).map(|nth| carriers.carry(text, *hash, nth)));
            }
        }
    }
    for (number, request) in requests.iter_mut().enumerate() {
        request["id"] = Value::from(format!("{}-{number}", source.name));
        request["label"] = Value::from(source.label.name());
        request["source"] = Value::from(source.name);
    }
    requests
}

/// Whether a text is worth a request. Lists of attacks have single characters and names among them.
fn is_text(source: &Source, text: &str) -> bool {
    match source.label {
        Label::Attack => {
            (5..=4_096).contains(&text.len())
                && text.bytes().any(|byte| !byte.is_ascii_alphanumeric())
        }
        Label::Benign | Label::Technical => (2..=4_096).contains(&text.len()),
    }
}

/// What makes two requests the same: method, URI and body.
fn shape(request: &Value) -> String {
    format!("{} {} {}", request["method"], request["uri"], request["body"])
}

fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// A clone of the repository of a source.
struct Git<'s> {
    folder: PathBuf,
    source: &'s Source,
}

impl<'s> Git<'s> {
    fn open(folder: &Path, source: &'s Source) -> Outcome<Self> {
        let repository = folder.join(source.repository.replace('/', "+")).join("repo");
        let with_tree = repository.join(".git");
        if !repository.exists() {
            let url = format!("https://github.com/{}", source.repository);
            cargo::run(Command::new("git").args(["clone", "--bare", &url]).arg(&repository))?;
        }
        let folder = if with_tree.exists() { with_tree } else { repository };
        Ok(Self { folder, source })
    }

    fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.folder);
        command
    }

    /// The files of the source at its commit, sorted.
    fn files(&self) -> Outcome<Vec<String>> {
        let commit = self.source.commit;
        let mut list = self.git();
        let listed = cargo::output(list.args(["ls-tree", "-r", "-z", "--name-only", commit]))?;
        let files = listed.split('\0').filter(|path| self.source.has(path)).map(str::to_owned);
        let files: Vec<String> = files.collect();
        match files.is_empty() {
            true => Err(Failure::new(format!("{}: no file at {commit}", self.source.name))),
            false => Ok(files),
        }
    }

    /// A file; nothing where the clone has not all objects.
    fn show(&self, path: &str) -> Outcome<Vec<u8>> {
        let object = format!("{}:{path}", self.source.commit);
        let shown = self.git().args(["show", &object]).output();
        let shown = shown.map_err(|error| Failure::new(format!("cannot start git: {error}")))?;
        match shown.status.success() {
            true => Ok(shown.stdout),
            false => Err(Failure::new(format!("{}: no file {path}", self.source.repository))),
        }
    }
}

/// Learns the weights that the repository has.
fn learn(requests: &Path, date: &str) -> Outcome<()> {
    let crs = crate::fetch::ensure()?.crs;
    let glacis = ["run", "--release", "-q", "-p", "glacis-cli", "--", "train", "-q", "-j", "2"];
    let mut train = cargo::cargo(glacis);
    train.arg("--crs").arg(crs).args(["--name", "CRS 4.25.0", "--date", date]).arg(requests);
    let weights = cargo::output(&mut train)?;
    let path = cargo::root().join(WEIGHTS);
    fs::write(&path, weights).map_err(io("write", &path))
}
