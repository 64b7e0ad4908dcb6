//! `glacis ftw`: regression tests in the format of the OWASP CRS.
//!
//! A test has stages; each is a request and what is expected of the answer and of the log. Requests
//! go to a [`Target`]: the engine in this process, or a proxy over TCP.

mod backend;
mod check;
mod engine;
mod message;
mod overrides;
mod proxy;
mod report;
mod suite;

use std::{
    collections::BTreeSet,
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use glacis_engine::Program;

use crate::{
    arguments::FtwOptions,
    output::{self, Fault, Outcome},
    progress, ruleset,
};
use check::Judgement;
use engine::Engine;
use message::Message;
use overrides::{Override, Overrides};
use proxy::Proxy;
use report::{Report, Verdict};
use suite::{Output, Stage, Suite, Test};

/// What came of a request.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The status that the client got.
    pub(crate) status: u16,
    /// Status line, headers and body that the client got.
    pub(crate) response: Vec<u8>,
    /// The rules that matched.
    pub(crate) log: Log,
    /// Why there was no answer.
    pub(crate) error: Option<String>,
}

/// What is known of the rules that matched and log.
#[derive(Debug, Default)]
pub(crate) enum Log {
    /// Nobody was asked.
    #[default]
    Unknown,
    /// There should be a record of the request, and there is none, or not with all rules.
    Missing,
    /// In order.
    Entries(Vec<Entry>),
}

/// A rule that matched, as it stands in the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    /// The line that a log of ModSecurity's kind would have.
    pub(crate) line: String,
}

/// Where requests go.
enum Backend {
    Engine(Arc<Program>),
    Proxy(Proxy),
}

impl Backend {
    fn new(options: &FtwOptions) -> Result<Self, Fault> {
        match &options.url {
            Some(authority) => {
                let audit_log = options.audit_log.as_deref();
                Ok(Self::Proxy(Proxy::new(authority.clone(), audit_log)))
            }
            None => {
                let program = ruleset::load(&options.rules, options.quiet)?;
                Ok(Self::Engine(Arc::new(program)))
            }
        }
    }

    fn target(&self) -> Target<'_> {
        match self {
            Self::Engine(program) => Target::Engine(Box::new(Engine::new(Arc::clone(program)))),
            Self::Proxy(proxy) => Target::Proxy(proxy),
        }
    }
}

/// The way to it, of one thread.
enum Target<'b> {
    Engine(Box<Engine>),
    Proxy(&'b Proxy),
}

impl Target<'_> {
    /// `looks_at_log`: whether it is worth waiting for the log.
    fn send(&mut self, message: &Message, name: &str, looks_at_log: bool) -> Observed {
        match self {
            Self::Engine(engine) => engine.send(message, name),
            Self::Proxy(proxy) => proxy.send(message, looks_at_log),
        }
    }
}

/// A test that is to be run.
struct Case<'s> {
    suite: &'s Suite,
    test: &'s Test,
    exception: Option<&'s Override>,
}

/// Runs the tests and prints the report.
pub(crate) fn run(options: &FtwOptions) -> Result<Outcome, Fault> {
    let backend = Backend::new(options)?;
    let suites = suite::load(&options.tests)?;
    let overrides = match &options.overrides {
        Some(path) => overrides::load(path)?,
        None => Overrides::default(),
    };
    let cases = cases(&suites, &overrides, options);
    let mut report = Report::default();
    for (case, verdict) in cases.iter().zip(run_all(&backend, &cases, options.jobs)) {
        report.add(case.suite, case.test, case.exception, verdict);
    }
    if !options.quiet {
        for name in unknown(&suites, &overrides) {
            output::remark(format_args!("warning: override of {name}: there is no such test"));
        }
    }
    let mut out = output::results();
    report.write(&mut out, options.json)?;
    out.flush()?;
    Ok(if report.failed() { Outcome::Findings } else { Outcome::Clean })
}

fn cases<'s>(suites: &'s [Suite], overrides: &'s Overrides, options: &FtwOptions) -> Vec<Case<'s>> {
    let all = suites.iter().flat_map(|suite| suite.tests.iter().map(move |test| (suite, test)));
    all.filter(|(_, test)| wanted(options, &test.name))
        .map(|(suite, test)| Case { suite, test, exception: overrides.find(&test.name) })
        .collect()
}

fn wanted(options: &FtwOptions, name: &str) -> bool {
    options.only.is_empty() || options.only.iter().any(|prefix| name.starts_with(prefix.as_str()))
}

/// Names in overrides that no test has.
fn unknown<'o>(suites: &[Suite], overrides: &'o Overrides) -> BTreeSet<&'o str> {
    let mut unknown: BTreeSet<&str> = overrides.names().collect();
    for test in suites.iter().flat_map(|suite| &suite.tests) {
        unknown.remove(test.name.as_str());
    }
    unknown
}

/// The verdicts over `cases`, in their order, found by so many threads.
fn run_all(backend: &Backend, cases: &[Case<'_>], jobs: usize) -> Vec<Verdict> {
    progress::stage("running tests", Some(cases.len()));
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::with_capacity(cases.len()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut target = backend.target();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { break };
                    let verdict = run_test(&mut target, case.test, case.exception);
                    progress::count();
                    verdicts.lock().unwrap_or_else(PoisonError::into_inner).push((at, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdicts.sort_unstable_by_key(|(at, _)| *at);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

fn run_test(target: &mut Target<'_>, test: &Test, exception: Option<&Override>) -> Verdict {
    let mut verdict = Verdict::Passed;
    // An override that is not needed any more hides the day on which it will be needed again.
    let mut needless = exception.is_some();
    for (position, stage) in test.stages.iter().enumerate() {
        let expected = match exception {
            Some(Override { expect: Some(output), .. }) => output,
            _ => &stage.output,
        };
        let came = run_stage(target, stage, expected, &test.name);
        needless &= came.as_written;
        match (came.verdict, exception) {
            (_, Some(Override { expect: None, reason })) => {
                verdict = Verdict::Skipped(reason.clone());
            }
            (Verdict::Passed, _) => {}
            (Verdict::Failed(mut failure), _) => {
                failure.stage = position + 1;
                return Verdict::Failed(failure);
            }
            (skipped @ Verdict::Skipped(_), _) => verdict = skipped,
        }
    }
    if needless { report::needless(test.stages.len()) } else { verdict }
}

/// What came of a stage.
struct StageOutcome {
    verdict: Verdict,
    /// Whether it is what the test itself expects, whatever an override says.
    as_written: bool,
}

fn run_stage(
    target: &mut Target<'_>,
    stage: &Stage,
    expected: &Output,
    name: &str,
) -> StageOutcome {
    let skipped = |reason| StageOutcome { verdict: Verdict::Skipped(reason), as_written: false };
    if let Some(feature) = stage.input.unsupported() {
        return skipped(format!("{feature} is not supported"));
    }
    let message = match Message::new(&stage.input) {
        Ok(message) => message,
        Err(reason) => return skipped(reason),
    };
    let looks_at_log = check::looks_at_log(expected);
    let mut observed = target.send(&message, name, looks_at_log);
    let mut judgement = check::check(expected, &observed);
    // In process a second try has the same outcome.
    let again = matches!(judgement, Judgement::Wrong(_))
        && expected.retry_once
        && matches!(target, Target::Proxy(_));
    if again {
        observed = target.send(&message, name, looks_at_log);
        judgement = check::check(expected, &observed);
    }
    StageOutcome {
        as_written: matches!(check::check(&stage.output, &observed), Judgement::Right),
        verdict: report::verdict(judgement, &observed),
    }
}
