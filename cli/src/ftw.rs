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

use std::{collections::BTreeSet, io::Write as _};

use crate::{
    arguments::FtwOptions,
    output::{self, Fault, Outcome},
    ruleset,
};
use check::Judgement;
use engine::Engine;
use message::Message;
use overrides::{Override, Overrides};
use proxy::Proxy;
use report::{Report, Verdict};
use suite::{Output, Stage, Test};

/// What came of a request.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The status that the client got.
    pub(crate) status: u16,
    /// Status line, headers and body that the client got.
    pub(crate) response: Vec<u8>,
    /// The rules that matched and log, in order; `None` when nobody can tell.
    pub(crate) log: Option<Vec<Entry>>,
    /// Why there was no answer.
    pub(crate) error: Option<String>,
}

/// A rule that matched, as it stands in the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    /// The line that a log of ModSecurity's kind would have.
    pub(crate) line: String,
}

/// Where requests go.
enum Target {
    Engine(Box<Engine>),
    Proxy(Proxy),
}

impl Target {
    fn send(&mut self, message: &Message, name: &str) -> Observed {
        match self {
            Self::Engine(engine) => engine.send(message, name),
            Self::Proxy(proxy) => proxy.send(message),
        }
    }
}

/// Runs the tests and prints the report.
pub(crate) fn run(options: &FtwOptions) -> Result<Outcome, Fault> {
    let mut target = target(options)?;
    let suites = suite::load(&options.tests)?;
    let overrides = match &options.overrides {
        Some(path) => overrides::load(path)?,
        None => Overrides::default(),
    };
    let mut report = Report::default();
    let mut unused: BTreeSet<&str> = overrides.names().collect();
    for suite in &suites {
        for test in &suite.tests {
            unused.remove(test.name.as_str());
            if wanted(options, &test.name) {
                let exception = overrides.find(&test.name);
                let verdict = run_test(&mut target, test, exception);
                report.add(suite, test, exception, verdict);
            }
        }
    }
    if !options.quiet {
        for name in unused {
            output::remark(format_args!("warning: override of {name}: there is no such test"));
        }
    }
    let mut out = output::results();
    report.write(&mut out, options.json)?;
    out.flush()?;
    Ok(if report.failed() { Outcome::Findings } else { Outcome::Clean })
}

fn target(options: &FtwOptions) -> Result<Target, Fault> {
    match &options.url {
        Some(authority) => {
            Ok(Target::Proxy(Proxy::new(authority.clone(), options.audit_log.clone())))
        }
        None => {
            let program = ruleset::load(&options.rules, options.quiet)?;
            Ok(Target::Engine(Box::new(Engine::new(program))))
        }
    }
}

fn wanted(options: &FtwOptions, name: &str) -> bool {
    options.only.is_empty() || options.only.iter().any(|prefix| name.starts_with(prefix.as_str()))
}

fn run_test(target: &mut Target, test: &Test, exception: Option<&Override>) -> Verdict {
    let expected = match exception {
        Some(Override { expect: Some(output), .. }) => Some(output),
        Some(skip) => return Verdict::Skipped(skip.reason.clone()),
        None => None,
    };
    let mut verdict = Verdict::Passed;
    for (position, stage) in test.stages.iter().enumerate() {
        match run_stage(target, stage, expected.unwrap_or(&stage.output), &test.name) {
            Verdict::Passed => {}
            Verdict::Failed(mut failure) => {
                failure.stage = position + 1;
                return Verdict::Failed(failure);
            }
            skipped @ Verdict::Skipped(_) => verdict = skipped,
        }
    }
    verdict
}

fn run_stage(target: &mut Target, stage: &Stage, expected: &Output, name: &str) -> Verdict {
    if let Some(feature) = stage.input.unsupported() {
        return Verdict::Skipped(format!("{feature} is not supported"));
    }
    let message = match Message::new(&stage.input) {
        Ok(message) => message,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let observed = target.send(&message, name);
    let judgement = check::check(expected, &observed);
    // In process a second try has the same outcome.
    let again = matches!(judgement, Judgement::Wrong(_))
        && expected.retry_once
        && matches!(target, Target::Proxy(_));
    if again {
        let observed = target.send(&message, name);
        let judgement = check::check(expected, &observed);
        return report::verdict(judgement, &observed);
    }
    report::verdict(judgement, &observed)
}
