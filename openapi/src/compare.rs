//! The comparison of a request with a document.

mod body;
mod parameters;

use glacis_engine::{ApiBody, ApiDescription, ApiRequest};

use crate::{
    document::{Document, Operation, PathItem},
    limits::Limits,
    parameter::{Location, Style},
    path::PathMatch,
    validate,
};

/// How a request differs from a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No path of the document matches.
    UnknownPath,
    /// The path has no such operation.
    Method,
    /// The body has a media type that the operation does not declare, or none.
    MediaType,
    /// The query string has a parameter that the operation does not declare.
    UnknownParameter,
    /// A parameter is missing, or its value does not meet its schema.
    Parameter,
    /// The body is missing, malformed, or does not meet its schema.
    Body,
    /// Something was not compared as it exceeds a limit.
    Limit,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::UnknownPath,
        Self::Method,
        Self::MediaType,
        Self::UnknownParameter,
        Self::Parameter,
        Self::Body,
        Self::Limit,
    ];

    /// The name of the member of `OPENAPI`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownPath => "unknown_path",
            Self::Method => "method",
            Self::MediaType => "media_type",
            Self::UnknownParameter => "unknown_parameter",
            Self::Parameter => "parameter",
            Self::Body => "body",
            Self::Limit => "limit",
        }
    }
}

/// A difference between a request and a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What differs.
    pub kind: Kind,
    /// The name or place of what differs, and how. It quotes names that the client chose, and no values.
    pub message: String,
}

/// The findings of one request, as far as there is room for them.
struct Findings<'l> {
    limits: &'l Limits,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, kind: Kind, message: &str) {
        if self.found.len() < self.limits.findings_max {
            let message = shown(message, self.limits.message_bytes_max);
            self.found.push(Finding { kind, message });
        }
    }
}

/// A text without control characters, cut.
fn shown(text: &str, bytes_max: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        let character = if character.is_control() { '\u{fffd}' } else { character };
        if shown.len() + character.len_utf8() > bytes_max {
            break;
        }
        shown.push(character);
    }
    shown
}

/// Bytes of a request in a message.
fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let cut = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
    shown(&String::from_utf8_lossy(cut), 2 * SHOWN_BYTES_MAX)
}

impl ApiDescription for Document {
    fn compare(&self, request: &ApiRequest<'_>, report: &mut dyn FnMut(&str, &str)) {
        for finding in self.findings(request) {
            report(finding.kind.name(), &finding.message);
        }
    }
}

/// Header fields by which some servers take another method than the request line's.
const METHOD_OVERRIDES: &[&[u8]] =
    &[b"x-http-method-override", b"x-http-method", b"x-method-override"];

impl Document {
    /// Compares a request with the document.
    #[must_use]
    pub fn findings(&self, request: &ApiRequest<'_>) -> Vec<Finding> {
        let mut findings = Findings { limits: &self.limits, found: Vec::new() };
        validate::start(&self.limits);
        self.compare_all(request, &mut findings);
        findings.found
    }

    fn compare_all(&self, request: &ApiRequest<'_>, findings: &mut Findings<'_>) {
        let target = request.target;
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(end);
        let query = query.strip_prefix(b"?").unwrap_or(query);
        let found = match self.templates.find(path) {
            Err(why) => {
                return findings.add(Kind::UnknownPath, &format!("the path is ambiguous: {why}"));
            }
            Ok(None) => return findings.add(Kind::UnknownPath, "no path of the document matches"),
            Ok(Some(found)) => found,
        };
        let Some(item) = self.items.get(found.number) else { return };
        if target.contains(&b'#') {
            return findings.add(Kind::UnknownPath, "the path is ambiguous: it has a fragment");
        }
        let Some(operation) = self.operation(item, request, findings) else { return };
        let path = PathValues { item, found: &found };
        self.parameters(operation, path, query, request, findings);
        self.body(operation, request, findings);
    }

    /// The operation of a request; `None` where there is none to compare it with.
    fn operation<'d>(
        &'d self,
        item: &'d PathItem,
        request: &ApiRequest<'_>,
        findings: &mut Findings<'_>,
    ) -> Option<&'d Operation> {
        let by_name = |method: &[u8]| {
            core::str::from_utf8(method).ok().and_then(|method| item.operations.get(method))
        };
        let header = |name: &[u8]| {
            let mut headers = request.headers.iter();
            headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
        };
        for name in METHOD_OVERRIDES {
            if header(name).is_some_and(|value| value != request.method) {
                findings.add(Kind::Method, "a header field replaces the method");
            }
        }
        // A server answers HEAD wherever it answers GET (RFC 9110, section 9.3.2).
        let is_head = request.method == b"HEAD";
        let operation = by_name(request.method).or_else(|| by_name(b"GET").filter(|_| is_head));
        if operation.is_some() {
            return operation;
        }
        // The request before a request of a browser (Fetch standard, "CORS-preflight fetch") reaches no operation.
        let is_preflight = request.method == b"OPTIONS"
            && request.body == ApiBody::Whole(b"")
            && header(b"origin").is_some()
            && header(b"access-control-request-method").and_then(by_name).is_some();
        if !is_preflight {
            let method = quoted(request.method);
            let message = format!("{method} is no operation of {}", item.template);
            findings.add(Kind::Method, &message);
        }
        None
    }
}

/// The values of the parameters of a path.
#[derive(Clone, Copy)]
struct PathValues<'f> {
    item: &'f PathItem,
    found: &'f PathMatch,
}

impl PathValues<'_> {
    /// The value of a parameter, as sent.
    fn get(&self, name: &str) -> Option<&[u8]> {
        let mut pairs = self.item.names.iter().zip(&self.found.values);
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value.as_slice())
    }

    /// Whether all segments with parameters after `;` are values of parameters of style `matrix`.
    fn are_unambiguous(&self, operation: &Operation) -> bool {
        let matrix = operation.parameters.iter().filter(|parameter| {
            parameter.location == Location::Path && parameter.written.style == Style::Matrix
        });
        let values: Vec<&[u8]> =
            matrix.filter_map(|parameter| self.get(&parameter.written.name)).collect();
        self.found.with_parameters.iter().all(|segment| values.contains(&segment.as_slice()))
    }
}
