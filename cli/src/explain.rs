//! `glacis explain`: what became of a request, why, and what would let it pass.

mod audit_record;
mod exclusion;
mod story;
mod text;

use std::{io::Write as _, sync::Arc};

use glacis_engine::Transaction;
use serde::Serialize;

use crate::{
    arguments::ExplainOptions,
    eval::Lines,
    inspect::inspect,
    output::{self, Fault, Outcome},
    request::Request,
    ruleset,
};
use exclusion::Exclusion;
use story::Story;

/// All that is said of one request.
#[derive(Debug, Serialize)]
struct Explanation {
    id: Box<serde_json::value::RawValue>,
    #[serde(flatten)]
    story: Story,
    /// What an audit record did not tell; empty for a request.
    notes: Vec<String>,
    /// What would let the request pass; `None` when nothing refuses it.
    exclusion: Option<Exclusion>,
}

/// Explains every request of the input.
pub(crate) fn run(options: &ExplainOptions) -> Result<Outcome, Fault> {
    let program = Arc::new(ruleset::load(&options.rules, options.quiet)?);
    let mut transaction = Transaction::new(program).with_trace();
    let mut lines = Lines::open(options.requests.as_deref())?;
    let mut out = output::results();
    let (mut outcome, mut count) = (Outcome::Clean, 0);
    while let Some(line) = lines.batch(1)?.pop() {
        let (request, record) = match line.text().and_then(audit_record::read) {
            Some(read) => read.map_err(|error| lines.malformed(&line.malformed(&error)))?,
            None => (line.parse().map_err(|error| lines.malformed(&error))?, None),
        };
        if options.id.as_ref().is_some_and(|id| *id != request.id.text()) {
            continue;
        }
        let explanation = explain(options, &mut transaction, request, record)?;
        if options.json {
            // Writing plain data to memory does not fail; if it ever did, the line would be visibly cut.
            let _ = serde_json::to_writer(&mut out, &explanation);
            writeln!(out)?;
        } else {
            let gap = if count > 0 { "\n" } else { "" };
            write!(out, "{gap}{}", text::page(&explanation))?;
        }
        if explanation.story.refusal.is_some() {
            outcome = Outcome::Findings;
        }
        count += 1;
    }
    out.flush()?;
    if count == 0 {
        return Err(Fault::Input("there is no such request in the input".to_owned()));
    }
    Ok(outcome)
}

fn explain(
    options: &ExplainOptions,
    transaction: &mut Transaction,
    request: Request,
    record: Option<audit_record::Reading>,
) -> Result<Explanation, Fault> {
    inspect(transaction, &request, &request.id.text(), usize::MAX);
    let story = Story::of(transaction, &request, options.all);
    let notes = record.map_or_else(Vec::new, |record| record.notes(transaction));
    let exclusion = match &story.refusal {
        Some(refusal) => Some(exclusion::find(&options.rules, &request, transaction, refusal)?),
        None => None,
    };
    Ok(Explanation { id: request.id.0, story, notes, exclusion })
}
