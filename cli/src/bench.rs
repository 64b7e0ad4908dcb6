//! `glacis eval --bench`: what a request costs in CPU time; by class, or with `--each` request by
//! request.
//!
//! Measured is the time of this thread's CPU (not what else runs on the machine) for a whole
//! transaction: made, fed, all phases evaluated, the audit record built where one is due, all of it
//! released. Reading the request from JSON is not part of it. One call of the clock takes a fraction
//! of a microsecond and is part of each value.
//!
//! In WASM the host's monotonic clock is taken, since WASI's one for CPU time is out of reach of
//! Rust's library: a host that wants CPU time measured answers with that.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use glacis_engine::{Program, Transaction};
use glacis_explain::Request;
use glacis_second_opinion::{Evidence, Weights};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    arguments::EvalOptions,
    input,
    inspect::{inspect, status},
    lines::Lines,
    output::{self, Fault, Outcome},
    record::Record,
    ruleset, second_opinion,
};

/// Requests in a corpus: they are all held in memory.
const REQUESTS_MAX: usize = 1_000_000;

/// Values that are kept, 8 bytes each; measuring ends when there are so many.
const SAMPLES_MAX: usize = 50_000_000;

/// Passes over all requests that are measured at least.
const PASSES_MIN: usize = 2;

/// The class of requests that name none.
const UNNAMED: &str = "default";

/// The report.
#[derive(Debug, Serialize)]
struct Report<'a> {
    classes: BTreeMap<&'a str, Statistics>,
    all: Statistics,
    load_ms: f64,
    rss_bytes: Option<u64>,
}

/// Times of requests. `bytes_per_s` is over the bytes of request and response.
#[derive(Debug, Serialize)]
struct Statistics {
    count: usize,
    median_ns: u64,
    p99_ns: u64,
    mean_ns: f64,
    bytes_per_s: f64,
}

/// The first line with `--each`.
#[derive(Debug, Serialize)]
struct About {
    engine: &'static str,
    version: &'static str,
    load_ms: f64,
    rss_bytes: Option<u64>,
}

/// The line of a request with `--each`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: &'a RawValue,
    verdict: &'static str,
    status: u16,
    matched: Vec<u32>,
    median_ns: u64,
    mean_ns: u64,
    samples: usize,
}

/// How a request ended; not part of what is measured.
struct Found {
    verdict: &'static str,
    status: u16,
    matched: Vec<u32>,
}

/// Measures, and prints the report.
pub(crate) fn run(options: &EvalOptions) -> Result<Outcome, Fault> {
    let duration = options.bench.unwrap_or_default();
    let begin = Instant::now();
    let (rules, weights) = second_opinion::rules(&options.rules, options.second_opinion.as_ref())?;
    let program = Arc::new(ruleset::load(&rules, options.quiet)?);
    let load_ms = begin.elapsed().as_secs_f64() * 1e3;

    let corpus = read_lines(input::open(&options.requests, options.quiet)?)?;
    let body_chunk = options.body_chunk.unwrap_or(usize::MAX);
    let mut bench = Bench::new(program, options.reuse, body_chunk, weights);
    bench.warm_up(&corpus, duration / 5);
    // What is in use before the values below are collected is the engine's, and the corpus.
    let rss_bytes = rss_bytes();
    if options.each {
        let about =
            About { engine: "glacis", version: env!("CARGO_PKG_VERSION"), load_ms, rss_bytes };
        return each(&about, &mut bench, &corpus, duration);
    }
    let samples = bench.measure(&corpus, duration);
    let (classes, all) = statistics(&corpus, samples);
    let report = Report { classes, all, load_ms, rss_bytes };

    let mut out = output::results();
    serde_json::to_writer(&mut out, &report).map_err(std::io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(Outcome::Clean)
}

/// Prints a line for each request.
fn each(
    about: &About,
    bench: &mut Bench,
    corpus: &[Case],
    duration: Duration,
) -> Result<Outcome, Fault> {
    let found: Vec<Found> = corpus.iter().map(|case| bench.find(case)).collect();
    let samples = bench.measure(corpus, duration);
    let mut out = output::results();
    serde_json::to_writer(&mut out, about).map_err(std::io::Error::from)?;
    writeln!(out)?;
    for ((case, found), mut times) in corpus.iter().zip(found).zip(samples) {
        times.sort_unstable();
        let samples = times.len();
        let answer = Answer {
            id: &case.request.id.0,
            verdict: found.verdict,
            status: found.status,
            matched: found.matched,
            median_ns: times.get(samples / 2).copied().unwrap_or_default(),
            mean_ns: times.iter().sum::<u64>() / samples.max(1) as u64,
            samples,
        };
        serde_json::to_writer(&mut out, &answer).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

/// A request to be evaluated again and again.
pub(crate) struct Case {
    pub(crate) request: Request,
    pub(crate) unique_id: String,
    bytes: usize,
}

/// All requests of a file, or of standard input; one at least.
pub(crate) fn read(path: Option<&Path>) -> Result<Vec<Case>, Fault> {
    read_lines(Lines::open(path)?)
}

fn read_lines(mut lines: Lines) -> Result<Vec<Case>, Fault> {
    let mut corpus = Vec::new();
    loop {
        let batch = lines.batch(usize::MAX)?;
        if batch.is_empty() {
            break;
        }
        for line in batch {
            let request = line.parse().map_err(|malformed| lines.malformed(&malformed))?;
            corpus.push(Case { unique_id: request.id.text(), bytes: request.bytes(), request });
            if corpus.len() > REQUESTS_MAX {
                return Err(Fault::Input(format!("more than {REQUESTS_MAX} requests")));
            }
        }
    }
    if corpus.is_empty() {
        return Err(Fault::Input("there is no request to measure".to_owned()));
    }
    Ok(corpus)
}

struct Bench {
    program: Arc<Program>,
    /// The transaction that is used again and again, if that is what is measured.
    reused: Option<Transaction>,
    body_chunk: usize,
    /// Those of a second opinion, which is part of what is measured.
    weights: Option<Weights>,
    line: Vec<u8>,
}

impl Bench {
    fn new(
        program: Arc<Program>,
        reuse: bool,
        body_chunk: usize,
        weights: Option<Weights>,
    ) -> Self {
        let reused = reuse.then(|| Transaction::new(Arc::clone(&program)));
        Self { program, reused, body_chunk, weights, line: Vec::new() }
    }

    /// One pass at least, so that every pattern that will be needed has been used.
    fn warm_up(&mut self, corpus: &[Case], duration: Duration) {
        let begin = Instant::now();
        loop {
            for case in corpus {
                self.once(case);
            }
            if begin.elapsed() >= duration {
                return;
            }
        }
    }

    /// What comes of a request.
    fn find(&mut self, case: &Case) -> Found {
        let mut transaction = Transaction::new(Arc::clone(&self.program));
        transact(&mut transaction, case, self.body_chunk, &mut self.line);
        let logged = transaction.matched_rules().filter(|rule| rule.log);
        Found {
            verdict: transaction.verdict().name(),
            status: status(&transaction, &case.request),
            matched: logged.map(|rule| rule.id.0).collect(),
        }
    }

    /// Times in nanoseconds, by request.
    fn measure(&mut self, corpus: &[Case], duration: Duration) -> Vec<Vec<u64>> {
        let begin = Instant::now();
        let mut samples: Vec<Vec<u64>> =
            corpus.iter().map(|case| (0..PASSES_MIN).map(|_| self.once(case)).collect()).collect();
        let mut count = samples.len() * PASSES_MIN;
        loop {
            for (case, samples) in corpus.iter().zip(&mut samples) {
                if begin.elapsed() < duration && count < SAMPLES_MAX {
                    samples.push(self.once(case));
                    count += 1;
                }
            }
            if begin.elapsed() >= duration || count >= SAMPLES_MAX {
                return samples;
            }
        }
    }

    /// The CPU time of one request.
    fn once(&mut self, case: &Case) -> u64 {
        let begin = cpu_time();
        match &mut self.reused {
            Some(transaction) => {
                transact(transaction, case, self.body_chunk, &mut self.line);
                opine(transaction, self.weights.as_ref());
            }
            None => {
                let mut transaction = Transaction::new(Arc::clone(&self.program));
                transact(&mut transaction, case, self.body_chunk, &mut self.line);
                opine(&transaction, self.weights.as_ref());
            }
        }
        let time = cpu_time().saturating_sub(begin);
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

fn transact(transaction: &mut Transaction, case: &Case, body_chunk: usize, line: &mut Vec<u8>) {
    inspect(transaction, &case.request, &case.unique_id, body_chunk);
    let status = status(transaction, &case.request);
    if transaction.audit_due(status) {
        line.clear();
        Record::new(&case.request.id.0, transaction, status, |_| true).write(line);
    }
}

/// Forms the second opinion, if there is one.
fn opine(transaction: &Transaction, weights: Option<&Weights>) {
    std::hint::black_box(weights.map(|weights| weights.opinion(&Evidence::of(transaction))));
}

/// The CPU time that this thread has taken.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

/// What the host gives out as its monotonic clock.
#[cfg(target_family = "wasm")]
pub(crate) fn cpu_time() -> Duration {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

fn statistics(corpus: &[Case], samples: Vec<Vec<u64>>) -> (BTreeMap<&str, Statistics>, Statistics) {
    let mut by_class: BTreeMap<&str, (Vec<u64>, f64)> = BTreeMap::new();
    let mut all = (Vec::new(), 0.0);
    for (case, times) in corpus.iter().zip(samples) {
        let bytes = case.bytes as f64 * times.len() as f64;
        let class = case.request.class.as_deref().unwrap_or(UNNAMED);
        let (class_times, class_bytes) = by_class.entry(class).or_default();
        *class_bytes += bytes;
        all.1 += bytes;
        class_times.extend_from_slice(&times);
        all.0.extend(times);
    }
    let classes =
        by_class.into_iter().map(|(class, (times, bytes))| (class, Statistics::of(times, bytes)));
    (classes.collect(), Statistics::of(all.0, all.1))
}

impl Statistics {
    fn of(mut times: Vec<u64>, bytes: f64) -> Self {
        times.sort_unstable();
        let count = times.len();
        let sum: f64 = times.iter().map(|&time| time as f64).sum();
        let at = |position: usize| times.get(position).copied().unwrap_or_default();
        Self {
            count,
            median_ns: at(count / 2),
            p99_ns: at((count * 99 / 100).min(count.saturating_sub(1))),
            mean_ns: if count > 0 { sum / count as f64 } else { 0.0 },
            bytes_per_s: if sum > 0.0 { bytes / (sum / 1e9) } else { 0.0 },
        }
    }
}

/// Memory of this process that is in use, where the system tells (Linux, proc(5), `statm`).
fn rss_bytes() -> Option<u64> {
    // A module may see its host's `/proc`; the memory told there is not its own.
    if cfg!(target_family = "wasm") {
        return None;
    }
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
