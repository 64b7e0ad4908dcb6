//! Audit records of Glacis as requests, as far as they go.

use std::net::IpAddr;

use glacis_engine::Transaction;
use serde::Deserialize;

use crate::{
    bytes::Bytes,
    request::{Id, Peer, Request},
    timestamp::Timestamp,
};

/// What stands in a record in the place of a secret.
const MASK: &str = "[redacted]";

/// What an audit record says besides its request.
#[derive(Debug)]
pub struct Reading {
    missing: Vec<String>,
    /// The rules that matched when the record was written.
    rules: Vec<u32>,
    ruleset: String,
}

/// The fields of a record (see `docs/reference/audit-log.md`) that matter here.
#[derive(Debug, Deserialize)]
struct Record {
    request_id: Id,
    #[serde(default)]
    time: Option<Timestamp>,
    client: String,
    method: String,
    uri: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    ruleset: String,
    #[serde(default)]
    rules: Vec<RecordedRule>,
    #[serde(default)]
    request: Option<RecordedRequest>,
}

#[derive(Debug, Deserialize)]
struct RecordedRule {
    id: u32,
}

/// Parts A, B and C of a record.
#[derive(Debug, Default, Deserialize)]
struct RecordedRequest {
    protocol: Option<String>,
    headers: Option<Vec<(String, String)>>,
    #[serde(default)]
    headers_omitted: u32,
    body: Option<String>,
    #[serde(default)]
    body_bytes: usize,
    #[serde(default)]
    body_cut: bool,
}

/// Reads a line that is an audit record; `None` when it is something else.
pub(crate) fn read(line: &[u8]) -> Option<Result<(Request, Option<Reading>), String>> {
    let record: Record = serde_json::from_slice(line).ok()?;
    Some(request(record))
}

fn request(record: Record) -> Result<(Request, Option<Reading>), String> {
    let client = record.client.parse::<IpAddr>();
    let client = client.map_err(|_| format!("client {:?} is no address", record.client))?;
    let mut missing = Vec::new();
    let recorded = record.request.unwrap_or_default();
    if recorded.protocol.is_none() {
        missing.push("the record does not say the protocol; HTTP/1.1 is assumed".to_owned());
    }
    let headers = recorded.headers.unwrap_or_else(|| {
        missing
            .push("the record has no request headers (SecAuditLogParts B); only Host".to_owned());
        vec![("Host".to_owned(), record.host)]
    });
    if recorded.headers_omitted > 0 {
        missing.push(format!("{} request headers are left out", recorded.headers_omitted));
    }
    if recorded.body_bytes > 0 && recorded.body.is_none() {
        let bytes = recorded.body_bytes;
        missing.push(format!("the record has no body (SecAuditLogParts C); it had {bytes} bytes"));
    }
    if recorded.body_cut {
        missing.push("the record has only the beginning of the body".to_owned());
    }
    masked(&mut missing, "the URI", &record.uri);
    for (name, value) in &headers {
        masked(&mut missing, &format!("the header {name}"), value);
    }
    let body = recorded.body.as_deref().unwrap_or_default();
    masked(&mut missing, "the body", body);
    if body.contains('\u{fffd}') {
        missing.push("bytes of the body that are no UTF-8 are lost".to_owned());
    }
    let bytes = |text: String| Bytes(text.into_bytes());
    let request = Request {
        id: record.request_id,
        class: None,
        time: record.time,
        client: Some(Peer::at(client)),
        server: None,
        method: bytes(record.method),
        uri: bytes(record.uri),
        protocol: bytes(recorded.protocol.unwrap_or_else(|| "HTTP/1.1".to_owned())),
        headers: headers.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        body: recorded.body.map(bytes),
        body_base64: None,
        response: None,
    };
    let rules = record.rules.into_iter().map(|rule| rule.id).collect();
    Ok((request, Some(Reading { missing, rules, ruleset: record.ruleset })))
}

fn masked(missing: &mut Vec<String>, place: &str, text: &str) {
    if text.contains(MASK) {
        missing.push(format!("{place} is masked in part or as a whole: {MASK} was evaluated"));
    }
}

impl Reading {
    /// What has to be said about this record, now that its request has been evaluated again.
    pub(crate) fn notes(self, transaction: &Transaction) -> Vec<String> {
        let mut notes = self.missing;
        if self.ruleset != transaction.program().hash() {
            notes.push("the record was written by another ruleset".to_owned());
        }
        let again: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
        let lost = self.rules.iter().filter(|rule| !again.contains(rule));
        let lost: Vec<String> = lost.map(u32::to_string).collect();
        if !lost.is_empty() {
            notes.push(format!("in the record and not seen again: {}", lost.join(", ")));
        }
        notes
    }
}
