//! What `eval` answers, and the record that an audit log would hold.

use glacis_engine::{MatchedRule, Transaction, Verdict};
use glacis_second_opinion::Opinion;
use serde::Serialize;
use serde_json::value::RawValue;

/// The answer to one request.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    id: &'a RawValue,
    action: &'static str,
    status: u16,
    phase: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
    matched: Vec<Matched<'a>>,
    scores: Scores,
    #[serde(skip_serializing_if = "Option::is_none")]
    second_opinion: Option<&'a Opinion>,
}

/// A rule that matched.
#[derive(Debug, Serialize)]
struct Matched<'a> {
    id: u32,
    phase: u8,
    msg: String,
    logdata: String,
    severity: &'static str,
    tags: Vec<&'a str>,
    matches: Vec<Match>,
}

#[derive(Debug, Serialize)]
struct Match {
    variable: String,
    value: String,
}

#[derive(Debug, Serialize)]
struct Scores {
    inbound: i64,
    outbound: i64,
}

/// The answer to a line that is no request.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorRecord<'a> {
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) error: &'a str,
}

impl<'a> Record<'a> {
    /// The outcome of `transaction`, with every matched rule that `keep` lets through.
    pub(crate) fn new(
        id: &'a RawValue,
        transaction: &'a Transaction,
        status: u16,
        keep: impl Fn(&MatchedRule<'_>) -> bool,
    ) -> Self {
        let verdict = transaction.verdict();
        let scores = transaction.scores();
        Self {
            id,
            action: verdict.name(),
            status,
            phase: verdict.refusal().map(|refusal| refusal.phase.number()),
            location: match verdict {
                Verdict::Redirect { location, .. } => Some(location),
                _ => None,
            },
            matched: transaction.matched_rules().filter(keep).map(Matched::new).collect(),
            scores: Scores { inbound: scores.inbound, outbound: scores.outbound },
            second_opinion: None,
        }
    }

    /// Adds a second opinion.
    pub(crate) fn with_opinion(self, opinion: Option<&'a Opinion>) -> Self {
        Self { second_opinion: opinion, ..self }
    }

    /// Writes the answer as one line.
    pub(crate) fn write(&self, line: &mut Vec<u8>) {
        write(self, line);
    }
}

impl ErrorRecord<'_> {
    /// Writes the answer as one line.
    pub(crate) fn write(&self, line: &mut Vec<u8>) {
        write(self, line);
    }
}

fn write(record: &impl Serialize, line: &mut Vec<u8>) {
    // Writing plain data to memory does not fail; if it ever did, the line would be visibly cut.
    let _ = serde_json::to_writer(&mut *line, record);
    line.push(b'\n');
}

impl<'a> Matched<'a> {
    fn new(rule: MatchedRule<'a>) -> Self {
        let severity = rule.severity_name();
        Self {
            id: rule.id.0,
            phase: rule.phase.number(),
            msg: rule.msg.into_owned(),
            logdata: rule.logdata.into_owned(),
            severity,
            tags: rule.tags.iter().map(|tag| &**tag).collect(),
            matches: rule.matches.iter().map(Match::new).collect(),
        }
    }
}

impl Match {
    fn new(matched: &glacis_engine::Match) -> Self {
        Self { variable: text(&matched.variable), value: text(&matched.value) }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
