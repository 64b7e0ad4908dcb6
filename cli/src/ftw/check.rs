//! Whether what came of a request is what was expected, in the order in which the original runner
//! looks (go-ftw 2.1, `runner/run.go`): error, status, response, log.

use regex_automata::{meta, util::syntax};

use super::{
    Log, Observed,
    suite::{self, Output},
};

/// The outcome of a check.
#[derive(Debug)]
pub(crate) enum Judgement {
    Right,
    /// What was expected and is not so.
    Wrong(String),
    /// It cannot be told.
    Unknown(String),
}

/// Compares.
pub(crate) fn check(expected: &Output, observed: &Observed) -> Judgement {
    let outcome = match (expected.expect_error, &observed.error) {
        (Some(true), Some(_)) => return Judgement::Right,
        (Some(true), None) => Err(format!("an error, not status {}", observed.status)),
        (_, Some(error)) => Err(format!("an answer: {error}")),
        (_, None) => status(expected, observed).and_then(|()| response(expected, observed)),
    };
    match (outcome, &observed.log) {
        (Err(wrong), _) => Judgement::Wrong(wrong),
        (Ok(()), _) if !looks_at_log(expected) => Judgement::Right,
        (Ok(()), Log::Unknown) => Judgement::Unknown(
            "it looks at the rules that matched: --audit-log is needed".to_owned(),
        ),
        (Ok(()), Log::Missing) => {
            Judgement::Wrong("an audit record of the request, with all its rules".to_owned())
        }
        (Ok(()), Log::Entries(entries)) => {
            let ids: Vec<u32> = entries.iter().map(|entry| entry.id).collect();
            let lines: Vec<&str> = entries.iter().map(|entry| entry.line.as_str()).collect();
            match log(expected, &ids, &lines) {
                Ok(()) => Judgement::Right,
                Err(wrong) => Judgement::Wrong(wrong),
            }
        }
    }
}

fn status(expected: &Output, observed: &Observed) -> Result<(), String> {
    match expected.status {
        Some(status) if status != 0 && status != observed.status => {
            Err(format!("status {status}, not {}", observed.status))
        }
        _ => Ok(()),
    }
}

fn response(expected: &Output, observed: &Observed) -> Result<(), String> {
    let wanted = expected.response_contains.as_bytes();
    let found =
        wanted.is_empty() || observed.response.windows(wanted.len()).any(|window| window == wanted);
    if !found {
        return Err(format!("a response with {:?}", expected.response_contains));
    }
    Ok(())
}

/// Whether the rules that matched make a difference.
pub(crate) fn looks_at_log(expected: &Output) -> bool {
    let suite::Log { expect_ids, no_expect_ids, .. } = &expected.log;
    !expect_ids.is_empty()
        || !no_expect_ids.is_empty()
        || !match_regex(expected).is_empty()
        || !no_match_regex(expected).is_empty()
        || expected.isolated
}

/// `log_contains` counts when nothing newer says what the log should have.
fn match_regex(expected: &Output) -> &str {
    let log = &expected.log;
    if log.match_regex.is_empty() && log.expect_ids.is_empty() {
        return &expected.log_contains;
    }
    &log.match_regex
}

fn no_match_regex(expected: &Output) -> &str {
    let log = &expected.log;
    if log.no_match_regex.is_empty() && log.no_expect_ids.is_empty() {
        return &expected.no_log_contains;
    }
    &log.no_match_regex
}

fn log(expected: &Output, ids: &[u32], lines: &[&str]) -> Result<(), String> {
    let pattern = match_regex(expected);
    if !pattern.is_empty() && !matches_any(pattern, lines)? {
        return Err(format!("a log line like {pattern}"));
    }
    let missing: Vec<_> = expected.log.expect_ids.iter().filter(|id| !ids.contains(id)).collect();
    if !missing.is_empty() {
        return Err(format!("rules {missing:?}"));
    }
    if expected.isolated {
        let mut distinct = ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != 1 {
            return Err(format!("rules {:?} and no other", expected.log.expect_ids));
        }
    }
    let pattern = no_match_regex(expected);
    if !pattern.is_empty() && matches_any(pattern, lines)? {
        return Err(format!("no log line like {pattern}"));
    }
    let unwanted: Vec<_> =
        expected.log.no_expect_ids.iter().filter(|id| ids.contains(id)).collect();
    if !unwanted.is_empty() {
        return Err(format!("none of the rules {unwanted:?}"));
    }
    Ok(())
}

fn matches_any(pattern: &str, lines: &[&str]) -> Result<bool, String> {
    let regex = meta::Regex::builder()
        // Classes such as \d are those of ASCII, as in the runner that the tests were written for.
        .syntax(syntax::Config::new().utf8(false).unicode(false))
        .build(pattern)
        .map_err(|error| format!("a pattern that compiles, not {pattern}: {}", reason(&error)))?;
    Ok(lines.iter().any(|line| regex.is_match(line)))
}

fn reason(error: &meta::BuildError) -> String {
    match error.syntax_error() {
        // Its last line; those before repeat the pattern.
        Some(error) => error.to_string().lines().last().unwrap_or_default().to_owned(),
        None => error.to_string(),
    }
}
