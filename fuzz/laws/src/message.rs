//! A request, and perhaps its response, as readable text:
//!
//! ```text
//! POST /path?a=b HTTP/1.1
//! Content-Type: text/xml
//!
//! the body, with any bytes
//! === response
//! HTTP/1.1 200
//! Content-Type: text/html
//!
//! another body
//! ```
//!
//! Lines end with LF. Any bytes are a message: what is missing is empty.

use std::{fmt::Write as _, net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{
    CollectionStore, Endpoint, Flags, Limits, MemoryStore, Program, Start, Transaction,
    transform::Transformation,
};

const RESPONSE: &[u8] = b"\n=== response\n";

/// Persistent collections kept in the course of one input.
const COLLECTIONS_MAX: usize = 16;

/// One message: first line, headers, body.
#[derive(Clone, Copy, Debug, Default)]
struct Half<'m> {
    first_line: &'m [u8],
    headers: &'m [u8],
    body: &'m [u8],
}

impl<'m> Half<'m> {
    fn parse(text: &'m [u8]) -> Self {
        let (first_line, rest) = split(text, b"\n");
        if let Some(body) = rest.strip_prefix(b"\n") {
            return Self { first_line, headers: b"", body };
        }
        let (headers, body) = split(rest, b"\n\n");
        Self { first_line, headers, body }
    }

    fn headers(&self) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        let lines = self.headers.split(|&byte| byte == b'\n');
        lines.filter(|line| !line.is_empty()).map(|line| split(line, b": "))
    }
}

/// What is sent through a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'m> {
    request: Half<'m>,
    response: Half<'m>,
}

impl<'m> Message<'m> {
    pub(crate) fn parse(text: &'m [u8]) -> Self {
        let (request, response) = split(text, RESPONSE);
        Self { request: Half::parse(request), response: Half::parse(response) }
    }

    /// Sends it with bodies in pieces of these sizes, over and over; in one piece when there is none.
    pub(crate) fn send(&self, transaction: &mut Transaction, pieces: &[u8]) {
        self.send_waiting(transaction, pieces, |_| ());
    }

    /// The same, with something done wherever a host waits.
    fn send_waiting(
        &self,
        transaction: &mut Transaction,
        pieces: &[u8],
        waiting: impl Fn(&mut Transaction),
    ) {
        self.send_head(transaction);
        waiting(transaction);
        for piece in Pieces::new(self.request.body, pieces) {
            transaction.request_body(piece);
            waiting(transaction);
        }
        transaction.evaluate_request_body();
        waiting(transaction);
        let (protocol, status) = split(self.response.first_line, b" ");
        let status = String::from_utf8_lossy(status).parse().unwrap_or(200);
        transaction.response_line(status, protocol);
        for (name, value) in self.response.headers() {
            transaction.response_header(name, value);
        }
        transaction.evaluate_response_headers();
        waiting(transaction);
        for piece in Pieces::new(self.response.body, pieces) {
            transaction.response_body(piece);
            waiting(transaction);
        }
        transaction.evaluate_response_body();
        waiting(transaction);
        transaction.finish(Duration::from_secs(2));
    }

    /// Sends the head of the request alone, and says whether rules refuse it before its body has come.
    pub(crate) fn is_refused_before_body(&self, transaction: &mut Transaction) -> bool {
        self.send_head(transaction);
        transaction.refuses_before_body()
    }

    fn send_head(&self, transaction: &mut Transaction) {
        start(transaction);
        let (method, rest) = split(self.request.first_line, b" ");
        let (uri, protocol) = split(rest, b" ");
        transaction.request_line(method, uri, protocol);
        for (name, value) in self.request.headers() {
            transaction.request_header(name, value);
        }
        transaction.evaluate_request_headers();
    }

    /// Sends it and says all that came of it.
    pub(crate) fn outcome(&self, transaction: &mut Transaction, pieces: &[u8]) -> String {
        self.send(transaction, pieces);
        describe(transaction)
    }

    /// The same, where the transaction gives its memory back whenever the host waits.
    pub(crate) fn outcome_rested(&self, transaction: &mut Transaction) -> String {
        self.send_waiting(transaction, &[], Transaction::rest);
        describe(transaction)
    }
}

/// A message whose request has these as arguments too, and as headers where they can be one.
pub(crate) fn with_values(message: &[u8], values: &[Vec<u8>]) -> Vec<u8> {
    const NAMES: [&[u8]; 4] = [b"a", b"b", b"bc", b"s"];
    const HEADERS: [&[u8]; 4] = [b"User-Agent: ", b"X-S: ", b"Cookie: s=", b"Referer: "];
    let (first_line, rest) = split(message, b"\n");
    let (method, line) = split(first_line, b" ");
    let (uri, protocol) = split(line, b" ");
    let mut text = [method, b" ", uri].concat();
    let mut separator = if uri.contains(&b'?') { b'&' } else { b'?' };
    for (value, name) in values.iter().zip(NAMES.iter().cycle()) {
        let mut coded = Vec::new();
        let changed = Transformation::UrlEncode.apply(value, &mut coded);
        let coded = if changed { &coded } else { value };
        text.push(separator);
        text.extend_from_slice(&[*name, b"=", coded].concat());
        separator = b'&';
    }
    text.extend_from_slice(&[b" ", protocol, b"\n"].concat());
    for (value, header) in values.iter().zip(HEADERS.iter().cycle()) {
        if !value.contains(&b'\n') {
            text.extend_from_slice(&[header, value.as_slice(), b"\n"].concat());
        }
    }
    text.extend_from_slice(rest);
    text
}

/// A message whose request has a form with these values as its body.
pub(crate) fn with_body(message: &[u8], values: &[Vec<u8>]) -> Vec<u8> {
    const FORM: &[u8] = b"Content-Type: application/x-www-form-urlencoded\n";
    let (head, _) = split(message, b"\n\n");
    let (first_line, headers) = split(head, b"\n");
    let mut text = [first_line, b"\n", FORM, headers, b"\n\n"].concat();
    for (index, value) in values.iter().enumerate() {
        let mut coded = Vec::new();
        let changed = Transformation::UrlEncode.apply(value, &mut coded);
        let coded = if changed { &coded } else { value };
        text.extend_from_slice(&[b"&", &[b'a' + (index % 4) as u8][..], b"=", coded].concat());
    }
    text
}

/// What stands before the first `separator` and behind it; all and nothing if there is none.
pub(crate) fn split<'t>(text: &'t [u8], separator: &[u8]) -> (&'t [u8], &'t [u8]) {
    let at = text.windows(separator.len()).position(|window| window == separator);
    at.map_or((text, b""), |at| (&text[..at], &text[at + separator.len()..]))
}

/// Pieces of a body.
struct Pieces<'b> {
    body: &'b [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'b, u8>>,
}

impl<'b> Pieces<'b> {
    fn new(body: &'b [u8], sizes: &'b [u8]) -> Self {
        Self { body, sizes: sizes.iter().cycle() }
    }
}

impl<'b> Iterator for Pieces<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if self.body.is_empty() {
            return None;
        }
        let size = self.sizes.next().map_or(self.body.len(), |&size| usize::from(size).max(1));
        let (piece, rest) = self.body.split_at(size.min(self.body.len()));
        self.body = rest;
        Some(piece)
    }
}

pub(crate) fn start(transaction: &mut Transaction) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    transaction.start(&Start {
        unique_id: "law",
        time: Duration::from_secs(1),
        client: endpoint,
        server: endpoint,
    });
}

/// A new transaction with a store of its own.
pub(crate) fn fresh(program: &Arc<Program>) -> Transaction {
    with_empty_store(Transaction::new(Arc::clone(program)))
}

pub(crate) fn with_empty_store(transaction: Transaction) -> Transaction {
    let limits: &Limits = transaction.program().limits();
    let store: Arc<dyn CollectionStore> =
        Arc::new(MemoryStore::new(COLLECTIONS_MAX, limits.collections()));
    transaction.with_collections(store)
}

/// All that a host can learn of a transaction, but for its trace.
pub(crate) fn describe(transaction: &Transaction) -> String {
    let flags = Flags { trace_cut: false, ..transaction.flags() };
    let mut text = format!(
        "{:?}\n{flags:?}\n{:?} {:?} {:?} {}\n{:?} {:?}\n",
        transaction.verdict(),
        transaction.scores(),
        transaction.hidden(),
        transaction.rule_engine(),
        transaction.audit_due(200),
        transaction.audit_parts(),
        transaction.matched_ids().collect::<Vec<_>>(),
    );
    for rule in transaction.matched_rules() {
        let _ = writeln!(text, "{} {} {:?}", rule.id, rule.msg, rule.logdata);
        for found in rule.matches {
            let variable = found.variable.escape_ascii();
            let _ = writeln!(text, "    {variable}={}", found.value.escape_ascii());
        }
    }
    for upload in transaction.uploads() {
        let _ = writeln!(text, "{upload:?}");
    }
    text
}

/// The trace of a transaction that has one.
pub(crate) fn story(transaction: &Transaction) -> String {
    let mut text = String::new();
    for step in transaction.trace() {
        let _ = writeln!(text, "{step:?}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_message() {
        let text = b"POST /a b HTTP/1.1\nA: b\nC\n\nbody\n\n=== response\nHTTP/1.1 403\n\nno";
        let Message { request, response } = Message::parse(text);
        assert_eq!(request.first_line, b"POST /a b HTTP/1.1");
        assert_eq!(request.headers().collect::<Vec<_>>(), [(&b"A"[..], &b"b"[..]), (b"C", b"")]);
        assert_eq!((request.body, response.body), (&b"body\n"[..], &b"no"[..]));
        assert_eq!(response.first_line, b"HTTP/1.1 403");
        for text in [&b""[..], b"\n", b"\n\n", b"GET\n\n\n"] {
            let _ = Message::parse(text).request.headers().count();
        }
    }

    #[test]
    fn values_are_arguments_and_headers() {
        let values = [b"x y".to_vec(), b"\n".to_vec()];
        let message = with_values(b"GET /?q=1 HTTP/2\nHost: h\n\nbody", &values);
        let expected = b"GET /?q=1&a=x+y&b=%0a HTTP/2\nUser-Agent: x y\nHost: h\n\nbody";
        assert_eq!(message.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn pieces_are_the_body() {
        for sizes in [&b""[..], &[0], &[1], &[2, 255]] {
            let pieces: Vec<&[u8]> = Pieces::new(b"12345", sizes).collect();
            assert_eq!(pieces.concat(), b"12345");
        }
        assert_eq!(Pieces::new(b"12345", &[2, 1]).count(), 3);
    }
}
