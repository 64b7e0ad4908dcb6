//! `glacis explain`: what became of a request, why, and what would let it pass.

use std::{io::Write as _, sync::Arc};

use glacis_engine::{Limits, Transaction};
use glacis_explain::{Occasion, Show, explain, read};

use crate::{
    arguments::ExplainOptions,
    input,
    inspect::now,
    output::{self, Fault, Outcome},
    ruleset::{self, Rebuilt},
    second_opinion,
};

/// Explains every request of the input.
pub(crate) fn run(options: &ExplainOptions) -> Result<Outcome, Fault> {
    let (rules, weights) = second_opinion::rules(&options.rules, options.second_opinion.as_ref())?;
    let program = Arc::new(ruleset::load(&rules, options.quiet)?);
    let mut transaction = Transaction::new(program).with_trace();
    let mut lines = input::open(&options.requests, options.quiet)?;
    let mut out = output::results();
    let mut given = Rebuilt::new(&rules, Limits::default());
    let (mut outcome, mut count) = (Outcome::Clean, 0);
    while let Some(line) = lines.batch(1)?.pop() {
        let (request, record) = line.read(read).map_err(|error| lines.malformed(&error))?;
        if options.id.as_ref().is_some_and(|id| *id != request.id.text()) {
            continue;
        }
        let rules = Some(&mut given);
        let occasion = Occasion::at(now());
        let show = Show { all: options.all, second_opinion: weights.as_ref() };
        let explanation = explain(rules, &mut transaction, request, record, &occasion, show)?;
        if options.json {
            // Writing plain data to memory does not fail; if it ever did, the line would be visibly cut.
            let _ = serde_json::to_writer(&mut out, &explanation);
            writeln!(out)?;
        } else {
            let gap = if count > 0 { "\n" } else { "" };
            write!(out, "{gap}{}", explanation.text())?;
        }
        if explanation.is_refused() {
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
