//! Whether Glacis shows a mark to the rules, or blocks the request.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use glacis_engine::{Endpoint, Input, Limits, Program, Start, Transaction};
use glacis_rules::{Assembly, CrsSettings, Defaults, ExclusionRules, FileSource, RecordingSource};

use crate::advisories::Request;
use crate::case::{Case, Place};
use crate::failure::{Failure, Outcome};
use crate::mark;

/// The way in which Glacis deals with a mark that a parser returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Rules see it where the parser returned it.
    Exposed,
    /// The base configuration blocks the request, by this rule.
    Blocked(u64),
    /// CRS with the defaults of Glacis blocks the request; the base configuration alone does not.
    BlockedByCrs(u64),
    /// Neither: an attack there would go unseen.
    Silent,
}

/// Glacis with the base configuration alone, and with CRS.
#[derive(Debug)]
pub struct Judge {
    base: Transaction,
    crs: Transaction,
}

impl Judge {
    /// Loads the rules; `crs` is a folder of CRS. `directives` follow the base configuration: a rule that they remove is
    /// a planted bug, which the tests of this crate find.
    ///
    /// # Errors
    /// If CRS is missing, or if directives are wrong.
    pub fn new(crs: &Path, directives: &str) -> Outcome<Self> {
        let directives = format!("{directives}\n{}", mark::report_rules());
        let text = Input::Text { name: "report".to_owned(), text: directives.clone() };
        let base =
            Program::build(&[glacis_rules::base(), text], &FileSource::new(), Limits::default());
        Ok(Self { base: transaction(base)?, crs: transaction(with_crs(crs, &directives)?)? })
    }

    /// Judges a case whose mark a parser returned at `place`.
    pub fn judge(&mut self, case: &Case, place: Place) -> Judgement {
        send(&mut self.base, case);
        if let Some(rule) = blocking_rule(&self.base) {
            return Judgement::Blocked(rule);
        }
        if is_exposed(&self.base, case, place) {
            return Judgement::Exposed;
        }
        send(&mut self.crs, case);
        match blocking_rule(&self.crs) {
            Some(rule) => Judgement::BlockedByCrs(rule),
            None if is_exposed(&self.crs, case, place) => Judgement::Exposed,
            None => Judgement::Silent,
        }
    }

    /// The rule by which CRS with the defaults of Glacis blocks a request, if one does.
    pub fn blocking(&mut self, request: &Request) -> Option<u64> {
        start(&mut self.crs, &request.method, &request.uri);
        let length = request.body.len().to_string();
        let is_missing =
            |name: &str| !request.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        for (name, value) in USUAL {
            if is_missing(name) {
                self.crs.request_header(name.as_bytes(), value.as_bytes());
            }
        }
        for (name, value) in &request.headers {
            self.crs.request_header(name.as_bytes(), value);
        }
        if !request.body.is_empty()
            && is_missing("Transfer-Encoding")
            && is_missing("Content-Length")
        {
            self.crs.request_header(b"Content-Length", length.as_bytes());
        }
        finish(&mut self.crs, &request.body);
        blocking_rule(&self.crs)
    }
}

/// Header fields that every client sends.
const USUAL: [(&str, &str); 3] =
    [("Host", "shop.example"), ("User-Agent", "Mozilla/5.0"), ("Accept", "*/*")];

fn start(transaction: &mut Transaction, method: &str, uri: &[u8]) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(method.as_bytes(), uri, b"HTTP/1.1");
}

fn finish(transaction: &mut Transaction, body: &[u8]) {
    if transaction.evaluate_request_headers().refusal().is_none() {
        transaction.request_body(body);
        transaction.evaluate_request_body();
    }
}

fn transaction(program: Result<Program, impl std::fmt::Debug>) -> Outcome<Transaction> {
    let program = program.map_err(|errors| Failure::new(format!("{errors:?}")))?;
    Ok(Transaction::new(Arc::new(program)))
}

fn with_crs(
    crs: &Path,
    directives: &str,
) -> Outcome<Result<Program, impl std::fmt::Debug + use<>>> {
    let source = RecordingSource::default();
    let assembly = Assembly {
        base: true,
        crs: Some(crs),
        defaults: Defaults::Glacis,
        setup: "",
        settings: CrsSettings::default(),
        graphql: "",
        openapi: "",
        exclusions: &ExclusionRules::default(),
        files: &[],
        directives,
        limits: "",
    };
    let found = assembly.assemble(&source);
    let found = found.map_err(|error| Failure::new(format!("{error}: run `cargo xtask fetch`")))?;
    Ok(Program::build(&found.inputs, &source, Limits::default()))
}

/// Sends the request of a case through both phases.
fn send(transaction: &mut Transaction, case: &Case) {
    let question_mark: &[u8] = if case.query.is_empty() { b"" } else { b"?" };
    start(transaction, "POST", &[b"/", question_mark, &case.query].concat());
    for (name, value) in USUAL {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    let length = case.body.len().to_string();
    for (name, value) in [
        ("Content-Length", length.as_bytes()),
        ("Content-Type", &case.content_type),
        ("Cookie", &case.cookie),
    ] {
        if !value.is_empty() {
            transaction.request_header(name.as_bytes(), value);
        }
    }
    finish(transaction, &case.body);
}

fn blocking_rule(transaction: &Transaction) -> Option<u64> {
    let refusal = transaction.verdict().refusal()?;
    let rule = refusal.rule.map_or(0, |rule| u64::from(rule.0));
    // The rule that adds up scores says little: the first that scored says why.
    let scored = matched(transaction).find(|id| (900_000..949_000).contains(id));
    Some(if rule == 949_110 { scored.unwrap_or(rule) } else { rule })
}

fn is_exposed(transaction: &Transaction, case: &Case, place: Place) -> bool {
    let value = [mark::REPORT_ID, mark::REPORT_DECODED_ID].map(|id| id + 2 * case.mark as u64);
    matched(transaction)
        .any(|id| value.contains(&id) || (place == Place::File && value.contains(&(id - 1))))
}

fn matched(transaction: &Transaction) -> impl Iterator<Item = u64> {
    transaction.matched_rules().map(|matched| u64::from(matched.id.0))
}
