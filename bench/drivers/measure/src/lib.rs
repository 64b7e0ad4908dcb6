//! What the benchmark's drivers have in common: reading requests, measuring passes over them, and
//! printing what was found. `bench/README.md` describes the interface.

use std::{error::Error, fs, io::Write as _, time::Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Deserializer, Serialize};

/// Passes that are measured at least, however long they take.
const PASSES_MIN: usize = 2;

/// Passes that are measured at most.
const PASSES_MAX: usize = 100_000;

/// An address.
#[derive(Debug, Deserialize)]
pub struct Peer {
    pub ip: String,
    pub port: u16,
}

/// What the application answers.
#[derive(Debug, Deserialize)]
pub struct Response {
    pub status: u16,
    pub protocol: String,
    pub headers: Vec<(String, String)>,
    #[serde(rename = "body_base64", deserialize_with = "base64")]
    pub body: Vec<u8>,
}

/// A request as `glacis eval` reads it, as far as the workload uses that format.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub id: String,
    pub client: Peer,
    pub server: Peer,
    pub method: String,
    pub uri: String,
    pub protocol: String,
    pub headers: Vec<(String, String)>,
    #[serde(default, rename = "body_base64", deserialize_with = "base64")]
    pub body: Vec<u8>,
    pub response: Option<Response>,
}

impl Request {
    /// The name of the server, without a port.
    pub fn host(&self) -> &str {
        let host = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        host.and_then(|(_, value)| value.split(':').next()).unwrap_or_default()
    }
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

/// How a transaction ended.
#[derive(Debug)]
pub struct Outcome {
    /// The status of a refusal.
    pub refused: Option<u16>,
    /// Ids of rules that matched.
    pub matched: Vec<u64>,
}

/// A rule engine with its rules.
pub trait Engine: Sized {
    type Transaction;

    /// Reads the file of rules.
    fn load(rules: &str) -> Result<Self, Box<dyn Error>>;

    /// Name and version.
    fn version(&self) -> (String, String);

    /// Does all that a host does for a request, but for the release of the transaction.
    fn evaluate(&self, request: &Request) -> Result<Self::Transaction, Box<dyn Error>>;

    /// What came of it; not measured.
    fn outcome(&self, transaction: &Self::Transaction) -> Outcome;
}

#[derive(Serialize)]
struct About {
    engine: String,
    version: String,
    load_ms: f64,
    rss_bytes: u64,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    verdict: &'static str,
    status: u16,
    matched: Vec<u64>,
    median_ns: u64,
    mean_ns: u64,
    samples: usize,
}

/// The whole program: `DRIVER RULES.conf REQUESTS.jsonl SECONDS`.
pub fn run<E: Engine>() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rules, requests, seconds] = arguments.as_slice() else {
        return Err("usage: DRIVER RULES.conf REQUESTS.jsonl SECONDS".into());
    };
    let seconds: f64 = seconds.parse()?;
    let begin = Instant::now();
    let engine = E::load(rules)?;
    let load_ms = begin.elapsed().as_secs_f64() * 1e3;
    let text = fs::read_to_string(requests)?;
    let requests: Vec<Request> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    drop(text);

    // A pass that is not measured finds out the verdicts.
    let mut outcomes = Vec::new();
    for request in &requests {
        let transaction = engine.evaluate(request)?;
        outcomes.push(engine.outcome(&transaction));
    }
    let rss_bytes = rss_bytes();
    let samples = measure(&engine, &requests, seconds)?;

    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (name, version) = engine.version();
    writeln!(
        out,
        "{}",
        serde_json::to_string(&About { engine: name, version, load_ms, rss_bytes })?
    )?;
    for ((request, outcome), samples) in requests.iter().zip(outcomes).zip(samples) {
        let answer = answer(request, outcome, samples);
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(out.flush()?)
}

fn measure<E: Engine>(
    engine: &E,
    requests: &[Request],
    seconds: f64,
) -> Result<Vec<Vec<u64>>, Box<dyn Error>> {
    let mut samples = vec![Vec::new(); requests.len()];
    let begin = cpu_ns();
    for pass in 0..PASSES_MAX {
        if pass >= PASSES_MIN && (cpu_ns() - begin) as f64 >= seconds * 1e9 {
            break;
        }
        for (request, samples) in requests.iter().zip(&mut samples) {
            let start = cpu_ns();
            drop(engine.evaluate(request)?);
            samples.push(cpu_ns() - start);
        }
    }
    Ok(samples)
}

fn answer(request: &Request, outcome: Outcome, mut samples: Vec<u64>) -> Answer<'_> {
    samples.sort_unstable();
    let count = samples.len();
    Answer {
        id: &request.id,
        verdict: if outcome.refused.is_some() { "deny" } else { "allow" },
        status: outcome.refused.unwrap_or(200),
        matched: outcome.matched,
        median_ns: samples[count / 2],
        mean_ns: samples.iter().sum::<u64>() / count as u64,
        samples: count,
    }
}

/// The CPU time that all threads of this process have taken.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Memory in use (proc(5), `statm`); 0 where the system does not tell.
fn rss_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
