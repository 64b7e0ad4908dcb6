//! The messages of opentelemetry-proto, with the fields that are sent. Numbers and types are those of
//! `opentelemetry/proto/{common,resource,logs,trace}/v1` and `collector/{logs,trace}/v1`; a field that is
//! not sent is one that a reader takes for its default.

use prost::{Enumeration, Message, Oneof};

/// The value of an attribute, or the body of a log record.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 5")]
    pub(super) value: Option<Value>,
}

/// What a value is.
#[derive(Clone, PartialEq, Oneof)]
#[expect(missing_docs, reason = "the names say it")]
#[expect(private_interfaces, reason = "a list is made from values")]
pub enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(message, tag = "5")]
    List(ArrayValue),
}

impl Value {
    /// Numbers, in order.
    pub fn ints(numbers: impl IntoIterator<Item = i64>) -> Self {
        let values = numbers.into_iter().map(|number| AnyValue { value: Some(Self::Int(number)) });
        Self::List(ArrayValue { values: values.collect() })
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

impl KeyValue {
    pub(super) fn new(key: &str, value: Value) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// How much a log record matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SeverityNumber {
    Unspecified = 0,
    Info = 9,
    Warn = 13,
}

/// A log record.
#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(enumeration = "SeverityNumber", tag = "2")]
    severity_number: i32,
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    event_name: String,
}

impl LogRecord {
    /// A record of something that was, and was seen, at `nanos` since 1970.
    #[must_use]
    pub fn new(event: &str, nanos: u64, severity: SeverityNumber, body: &str) -> Self {
        Self {
            time_unix_nano: nanos,
            severity_number: severity.into(),
            body: Some(AnyValue { value: Some(body.into()) }),
            observed_time_unix_nano: nanos,
            event_name: event.to_owned(),
            ..Self::default()
        }
    }

    /// With an attribute more.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.attributes.push(KeyValue::new(key, value));
        self
    }

    /// Of this span.
    #[must_use]
    pub fn of_span(mut self, trace: [u8; 16], span: [u8; 8]) -> Self {
        (self.trace_id, self.span_id) = (trace.to_vec(), span.to_vec());
        self
    }
}

/// A span: a piece of the work on one request.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the protocol says what they mean")]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// 1 for work within a process, 2 for what a server does for a client.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

impl Span {
    /// With an attribute more.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.attributes.push(KeyValue::new(key, value));
        self
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TraceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// The answer to both requests: the two have the same form.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}
