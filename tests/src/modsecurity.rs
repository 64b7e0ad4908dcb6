//! ModSecurity's regression suite, played through our engine.
//!
//! The suite is data: requests, responses, rules and what ModSecurity does with them. [`case`] reads it, [`play`] runs one
//! case, [`judge`] compares what was seen with what is expected, and with [`expectations`], the file in which each
//! difference has a reason. [`report`] writes the page of results.
//!
//! Compared are
//! - the status that the client gets, and where it is redirected to;
//! - whether the rules are rejected (`parser_error`; the wording is that of each engine);
//! - patterns for the debug log, the error log and the audit log, on logs that [`log`] writes from the engine's trace in
//!   ModSecurity's shape: values looked at, transformations, captures, results of rules, bodies' arguments.
//!
//! A pattern for words that only ModSecurity writes (a message of a parser) is replaced in the expectations file by one for
//! what the engine knows, such as the value of a variable at the end of the transaction.
//!
//! Not compared are the wording of messages and the layout of audit records, which are those of each engine. [`play`] is
//! the host: it has ModSecurity's defaults, the suite's data files, and answers about the places of two clients.

pub mod case;
pub mod expectations;
pub mod judge;
pub mod log;
pub mod play;
pub mod report;

use std::path::Path;

use crate::failure::Outcome;
use case::Case;
use expectations::Expectations;
use judge::Judged;

/// Plays every case of the suite in `folder`, which holds `test-cases`.
///
/// # Errors
///
/// If the folder or the expectations cannot be read.
pub fn judge_all(folder: &Path, expectations: &Expectations) -> Outcome<Vec<(Case, Judged)>> {
    let cases = case::read_all(&folder.join("test-cases/regression"))?;
    let judged = |case: Case| {
        let judged = judge::judge(&case, folder, expectations.of(&case.id));
        (case, judged)
    };
    Ok(cases.into_iter().map(judged).collect())
}
