//! `glacis learn-api`: an OpenAPI document from recorded requests.

use std::{io::Write as _, path::Path, sync::Arc};

use glacis_engine::Transaction;
use glacis_explain::{Occasion, Request, inspect, read};
use glacis_openapi::{ApiLearner, LearnOptions, Recorded};

use crate::{
    arguments::LearnApiOptions,
    inspect::now,
    lines::Lines,
    output::{self, Fault, Outcome},
    ruleset,
};

/// Lines that are no request and are named.
const NAMED_MAX: usize = 10;

/// Counts of the requests that were read, used and left out.
#[derive(Default)]
struct Counts {
    malformed: usize,
    blocked: u64,
    failed: u64,
}

/// Learns from every request of the input that rules and application accept, and prints a document.
pub(crate) fn run(options: &LearnApiOptions) -> Result<Outcome, Fault> {
    let mut transaction = match options.rules.iter().any(ruleset::Rules::are_named) {
        true => {
            let program = ruleset::build(&options.rules)?;
            let program = program.map_err(|errors| Fault::Input(errors.to_string()))?;
            Some(Transaction::new(Arc::new(program)))
        }
        false => None,
    };
    let defaults = LearnOptions::default();
    let mut learner = ApiLearner::new(LearnOptions {
        requests_min: options.min_requests.unwrap_or(defaults.requests_min),
        clients_min: options.min_clients.unwrap_or(defaults.clients_min),
    });
    let mut counts = Counts::default();
    match options.files.as_slice() {
        [] => observe(&mut learner, None, transaction.as_mut(), &mut counts)?,
        files => {
            for file in files {
                let path = Some(file.as_path()).filter(|path| path.as_os_str() != "-");
                observe(&mut learner, path, transaction.as_mut(), &mut counts)?;
            }
        }
    }
    let learned = learner.learn();
    let mut out = output::results();
    out.write_all(learned.yaml().as_bytes())?;
    out.flush()?;
    if !options.quiet {
        let Counts { blocked, failed, .. } = counts;
        output::remark(format_args!(
            "{} operations from {} requests; left out: {} ambiguous, {blocked} blocked by rules, {failed} \
             answered with an error",
            learned.operations, learned.requests, learned.left_out
        ));
    }
    Ok(if counts.malformed > 0 { Outcome::Findings } else { Outcome::Clean })
}

/// Reads a file, or standard input.
fn observe(
    learner: &mut ApiLearner,
    path: Option<&Path>,
    mut transaction: Option<&mut Transaction>,
    counts: &mut Counts,
) -> Result<(), Fault> {
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.batch(1)?.pop() {
        match line.read(read) {
            Ok((request, _)) => learn(learner, &request, transaction.as_deref_mut(), counts),
            Err(error) => {
                counts.malformed += 1;
                if counts.malformed <= NAMED_MAX {
                    output::remark(error.message);
                }
            }
        }
    }
    Ok(())
}

fn learn(
    learner: &mut ApiLearner,
    request: &Request,
    transaction: Option<&mut Transaction>,
    counts: &mut Counts,
) {
    if request.response.as_ref().is_some_and(|response| response.status >= 400) {
        counts.failed += 1;
        return;
    }
    if let Some(transaction) = transaction {
        inspect(transaction, request, &request.id.text(), &Occasion::at(now()));
        if transaction.verdict().refusal().is_some() {
            counts.blocked += 1;
            return;
        }
    }
    let client = request.client.map(|peer| peer.ip().to_string());
    let headers: Vec<(&[u8], &[u8])> = request
        .headers
        .iter()
        .map(|(name, value)| (name.0.as_slice(), value.0.as_slice()))
        .collect();
    learner.observe(&Recorded {
        client: client.as_deref().unwrap_or_default(),
        method: &request.method.0,
        target: &request.uri.0,
        headers: &headers,
        body: request.body().unwrap_or_default(),
    });
}
