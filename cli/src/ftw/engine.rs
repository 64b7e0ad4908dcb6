//! The engine in this process as the target of tests.

use std::{fmt::Write as _, sync::Arc};

use glacis_engine::{MatchedRule, Program, Transaction};
use glacis_explain::{Base64, Bytes, Id, Request, Response};
use serde_json::value::RawValue;

use super::{Entry, Log, Observed, backend, message::Message};
use crate::inspect::{inspect, status};

/// A program, ready to be asked.
pub(crate) struct Engine {
    transaction: Transaction,
}

impl Engine {
    pub(crate) fn new(program: Arc<Program>) -> Self {
        Self { transaction: Transaction::new(program) }
    }

    /// Evaluates the request and the imagined application's answer to it.
    pub(crate) fn send(&mut self, message: &Message, name: &str) -> Observed {
        let parts = message.received();
        let response = backend::answer(&parts);
        let pairs = parts
            .headers
            .iter()
            .map(|(name, value)| (Bytes(name.clone()), Bytes(value.trim_ascii().to_vec())));
        let request = Request {
            id: Id(RawValue::NULL.to_owned()),
            class: None,
            time: None,
            client: None,
            server: None,
            method: Bytes(parts.method.clone()),
            uri: Bytes(parts.uri.clone()),
            protocol: Bytes(parts.version.clone()),
            headers: pairs.collect(),
            body: None,
            body_base64: Some(Base64(parts.body.clone())),
            response: Some(response),
        };
        inspect(&mut self.transaction, &request, name, usize::MAX);
        let logged = self.transaction.matched_rules().filter(|rule| rule.log);
        Observed {
            status: status(&self.transaction, &request),
            response: self.answered(&request),
            log: Log::Entries(logged.map(|rule| entry(&rule, &parts.uri)).collect()),
            error: None,
        }
    }

    /// What the client would get.
    fn answered(&self, request: &Request) -> Vec<u8> {
        let status = status(&self.transaction, request);
        let line = format!("HTTP/1.1 {status}\r\n");
        match &request.response {
            Some(response) if self.transaction.verdict().refusal().is_none() => {
                [line.into_bytes(), rendered(response)].concat()
            }
            _ => line.into_bytes(),
        }
    }
}

fn rendered(response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in &response.headers {
        out.extend_from_slice(&[&name.0[..], b": ", &value.0, b"\r\n"].concat());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(response.body().unwrap_or_default());
    out
}

/// The rule as a line like those in ModSecurity's log, which `match_regex` is written for.
fn entry(rule: &MatchedRule<'_>, uri: &[u8]) -> Entry {
    let mut line = String::from("Glacis: Warning.");
    for matched in rule.matches {
        let variable = String::from_utf8_lossy(&matched.variable);
        let _ = write!(line, " Matched at {}.", escaped(&variable));
    }
    let _ = write!(line, " [file \"{}\"] [line \"{}\"]", escaped(rule.file), rule.line);
    line.push_str(&fields(rule.id.0, &rule.msg, &rule.logdata));
    for (name, value) in [("severity", rule.severity_name()), ("ver", rule.ver)] {
        if !value.is_empty() {
            let _ = write!(line, " [{name} \"{}\"]", escaped(value));
        }
    }
    for tag in rule.tags {
        let _ = write!(line, " [tag \"{}\"]", escaped(tag));
    }
    let _ = write!(line, " [uri \"{}\"]", escaped(&String::from_utf8_lossy(uri)));
    Entry { id: rule.id.0, line }
}

/// The fields that every log line has.
pub(crate) fn fields(id: u32, msg: &str, logdata: &str) -> String {
    let (msg, logdata) = (escaped(msg), escaped(logdata));
    format!(" [id \"{id}\"] [msg \"{msg}\"] [data \"{logdata}\"]")
}

/// A log line is one line, whatever was matched.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            letter if letter.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out
}
