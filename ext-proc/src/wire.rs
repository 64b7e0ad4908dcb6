//! What Envoy sends, as plain values. The only file that reads its messages.

use core::time::Duration;
use std::collections::HashMap;

use envoy_types::pb::{
    envoy::{
        config::core::v3::HeaderValue,
        extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode,
        service::ext_proc::v3::{
            HttpBody, HttpHeaders, ProcessingRequest, processing_request::Request,
        },
    },
    google::protobuf::{Struct, value::Kind},
};
use glacis_engine::Endpoint;
use glacis_inspector::{
    Header, RequestHead, ResponseHead, has_body, has_response_body, parse_endpoint,
};
use tonic::Status;

/// The attribute with the profile of a route. What Envoy is given in `request_attributes` are expressions
/// (CEL), and come back under their own text: this one looks into the metadata of the route.
const ROUTE_PROFILE: &str = "xds.route_metadata.filter_metadata.glacis.profile";

/// A part of an exchange.
#[derive(Debug)]
pub(crate) enum Message {
    RequestHeaders(Head),
    RequestBody(Body),
    RequestTrailers,
    ResponseHeaders(Head),
    ResponseBody(Body),
    ResponseTrailers,
}

/// What a message says besides its part.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) message: Message,
    /// Envoy does not wait for answers and ignores them.
    pub(crate) observability_mode: bool,
    /// The body modes configured in Envoy, of request and response; in the first message.
    pub(crate) modes: Option<Modes>,
}

/// The body modes configured in Envoy (`ProtocolConfiguration`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) request: BodyMode,
    pub(crate) response: BodyMode,
}

/// How Envoy sends a body (`ProcessingMode.BodySendMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyMode {
    #[default]
    None,
    Streamed,
    Buffered,
    BufferedPartial,
    FullDuplex,
}

/// Headers, as received.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    headers: Vec<HeaderValue>,
    pub(crate) end_of_stream: bool,
    pub(crate) source: Option<Endpoint>,
    pub(crate) destination: Option<Endpoint>,
    pub(crate) protocol: Option<String>,
    /// The name of the route.
    pub(crate) route: Option<String>,
    /// The profile that the route's metadata names.
    pub(crate) route_profile: Option<String>,
}

/// A body, or a piece of one.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end_of_stream: bool,
}

/// A message that cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// It has no part of an exchange in it.
    Empty,
    /// Envoy is configured to send bodies in a mode that needs answers of another kind.
    Mode,
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Empty => Self::invalid_argument("a message without a part of the exchange"),
            WireError::Mode => Self::failed_precondition(
                "the body mode GRPC is not supported: set NONE and allow_mode_override: true",
            ),
        }
    }
}

impl TryFrom<ProcessingRequest> for Incoming {
    type Error = WireError;

    fn try_from(sent: ProcessingRequest) -> Result<Self, WireError> {
        let modes = match sent.protocol_config {
            Some(config) => Some(Modes {
                request: BodyMode::try_from(config.request_body_mode)?,
                response: BodyMode::try_from(config.response_body_mode)?,
            }),
            None => None,
        };
        let message = match sent.request.ok_or(WireError::Empty)? {
            Request::RequestHeaders(head) => {
                Message::RequestHeaders(Head::new(head, &sent.attributes))
            }
            Request::RequestBody(body) => Message::RequestBody(body.into()),
            Request::RequestTrailers(_) => Message::RequestTrailers,
            Request::ResponseHeaders(head) => {
                Message::ResponseHeaders(Head::new(head, &sent.attributes))
            }
            Request::ResponseBody(body) => Message::ResponseBody(body.into()),
            Request::ResponseTrailers(_) => Message::ResponseTrailers,
        };
        Ok(Self { message, observability_mode: sent.observability_mode, modes })
    }
}

impl TryFrom<i32> for BodyMode {
    type Error = WireError;

    fn try_from(mode: i32) -> Result<Self, WireError> {
        match BodySendMode::try_from(mode) {
            Ok(BodySendMode::None) => Ok(Self::None),
            Ok(BodySendMode::Streamed) => Ok(Self::Streamed),
            Ok(BodySendMode::Buffered) => Ok(Self::Buffered),
            Ok(BodySendMode::BufferedPartial) => Ok(Self::BufferedPartial),
            Ok(BodySendMode::FullDuplexStreamed) => Ok(Self::FullDuplex),
            Ok(BodySendMode::Grpc) | Err(_) => Err(WireError::Mode),
        }
    }
}

impl From<BodyMode> for BodySendMode {
    fn from(mode: BodyMode) -> Self {
        match mode {
            BodyMode::None => Self::None,
            BodyMode::Streamed => Self::Streamed,
            BodyMode::Buffered => Self::Buffered,
            BodyMode::BufferedPartial => Self::BufferedPartial,
            BodyMode::FullDuplex => Self::FullDuplexStreamed,
        }
    }
}

impl Head {
    fn new(head: HttpHeaders, attributes: &HashMap<String, Struct>) -> Self {
        let address = |name| attribute(attributes, name).and_then(parse_endpoint);
        Self {
            source: address("source.address"),
            destination: address("destination.address"),
            protocol: attribute(attributes, "request.protocol").map(str::to_owned),
            route: attribute(attributes, "xds.route_name").map(str::to_owned),
            route_profile: attribute(attributes, ROUTE_PROFILE).map(str::to_owned),
            headers: head.headers.map(|map| map.headers).unwrap_or_default(),
            end_of_stream: head.end_of_stream,
        }
    }

    /// The headers. Envoy puts values into `raw_value`, as they may be any bytes.
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(header).collect()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |header: &HeaderValue| {
            header.key.len()
                + header.value.len()
                + header.raw_value.len()
                + size_of::<HeaderValue>()
        };
        self.headers.iter().map(of).sum()
    }

    /// Whether the body of a request, which it is the head of, has an end to wait for.
    pub(crate) fn has_body(&self) -> bool {
        has_body(&RequestHead {
            headers: &self.headers(),
            protocol: self.protocol.as_deref(),
            end_of_stream: self.end_of_stream,
            id: "",
            time: Duration::ZERO,
            source: None,
            destination: None,
            lot: 0,
            audit_lot: 0,
        })
    }

    /// The same of a response.
    pub(crate) fn has_response_body(&self) -> bool {
        has_response_body(&ResponseHead {
            headers: &self.headers(),
            end_of_stream: self.end_of_stream,
        })
    }

    /// Names of headers that begin with `prefix`, which is in lower case.
    pub(crate) fn names_with_prefix(&self, prefix: &str) -> Vec<String> {
        let names = self.headers.iter().map(|header| &header.key);
        let begins = |name: &&String| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        names.filter(begins).cloned().collect()
    }
}

fn header(header: &HeaderValue) -> Header<'_> {
    let HeaderValue { key, value, raw_value } = header;
    let value = if raw_value.is_empty() { value.as_bytes() } else { raw_value.as_slice() };
    Header { name: key.as_bytes(), value }
}

impl From<HttpBody> for Body {
    fn from(body: HttpBody) -> Self {
        let end_of_stream = body.end_of_stream || body.end_of_stream_without_message;
        Self { bytes: body.body, end_of_stream }
    }
}

/// An attribute that Envoy was asked for with `request_attributes`, when it is text. They come grouped
/// by the name of a filter, of which there is one.
fn attribute<'a>(attributes: &'a HashMap<String, Struct>, name: &str) -> Option<&'a str> {
    let value = attributes.values().find_map(|group| group.fields.get(name))?;
    match &value.kind {
        Some(Kind::StringValue(text)) => Some(text),
        _ => None,
    }
}
