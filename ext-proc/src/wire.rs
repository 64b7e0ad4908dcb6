//! What Envoy sends, as plain values. The only file that reads its messages.

mod message;

use core::time::Duration;

use bytes::Bytes;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use glacis_engine::Endpoint;
use glacis_inspector::{
    Header, RequestHead, ResponseHead, has_body, has_response_body, parse_endpoint,
};
use tonic::Status;

pub(crate) use message::ProcessingRequest;
use message::{Group, HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, Part};

/// The attribute with the profile of a route. What Envoy is given in `request_attributes` are expressions
/// (CEL), and come back under their own text: this one looks into the metadata of the route.
const ROUTE_PROFILE: &str = "xds.route_metadata.filter_metadata.glacis.profile";

/// The attribute with the user whom a filter before ours has authenticated: dynamic metadata, which no client can set.
const USER: &str = "metadata.filter_metadata.glacis.user";

/// A part of an exchange.
#[derive(Debug)]
pub(crate) enum Message {
    RequestHeaders(Head),
    RequestBody(Body),
    RequestTrailers(Trailers),
    ResponseHeaders(Head),
    ResponseBody(Body),
    ResponseTrailers(Trailers),
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
    /// Whom a filter of Envoy's has authenticated.
    pub(crate) user: Option<String>,
    pub(crate) protocol: Option<String>,
    /// The name of the route.
    pub(crate) route: Option<String>,
    /// The profile that the route's metadata names.
    pub(crate) route_profile: Option<String>,
}

/// Trailers, as received.
#[derive(Clone, Debug)]
pub(crate) struct Trailers {
    fields: Vec<HeaderValue>,
}

/// A body, or a piece of one.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) end_of_stream: bool,
}

/// A message that cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// It has no part of an exchange in it.
    Empty,
    /// The name of a header is no text: it could not be taken out.
    Name,
    /// Envoy is configured to send bodies in a mode that needs answers of another kind.
    Mode,
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Name => Self::invalid_argument("the name of a header is no text"),
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
        let message = match sent.part.ok_or(WireError::Empty)? {
            Part::RequestHeaders(head) => {
                Message::RequestHeaders(Head::new(head, &sent.attributes)?)
            }
            Part::RequestBody(body) => Message::RequestBody(body.into()),
            Part::RequestTrailers(trailers) => Message::RequestTrailers(trailers.try_into()?),
            Part::ResponseHeaders(head) => {
                Message::ResponseHeaders(Head::new(head, &sent.attributes)?)
            }
            Part::ResponseBody(body) => Message::ResponseBody(body.into()),
            Part::ResponseTrailers(trailers) => Message::ResponseTrailers(trailers.try_into()?),
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
    fn new(head: HttpHeaders, attributes: &[Group]) -> Result<Self, WireError> {
        let address = |name| attribute(attributes, name).and_then(parse_endpoint);
        let headers = fields(head.headers)?;
        Ok(Self {
            source: address("source.address"),
            destination: address("destination.address"),
            user: attribute(attributes, USER).map(str::to_owned),
            protocol: attribute(attributes, "request.protocol").map(str::to_owned),
            route: attribute(attributes, "xds.route_name").map(str::to_owned),
            route_profile: attribute(attributes, ROUTE_PROFILE).map(str::to_owned),
            headers,
            end_of_stream: head.end_of_stream,
        })
    }

    /// The same in memory of its own: it holds nothing else of what came with it.
    pub(crate) fn detached(&self) -> Self {
        let headers = self.headers.iter().map(|header| HeaderValue {
            key: Bytes::copy_from_slice(&header.key),
            value: Bytes::copy_from_slice(&header.value),
            raw_value: Bytes::copy_from_slice(&header.raw_value),
        });
        Self { headers: headers.collect(), ..self.clone() }
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
        self.headers.iter().map(of).sum::<usize>() + self.user.as_ref().map_or(0, String::len)
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
            user: None,
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
}

impl Trailers {
    /// The fields, as those of [`Head::headers`].
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.fields.iter().map(header).collect()
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |field: &HeaderValue| String::from_utf8_lossy(&field.key).into_owned();
        self.fields.iter().map(name).collect()
    }
}

impl TryFrom<HttpTrailers> for Trailers {
    type Error = WireError;

    fn try_from(sent: HttpTrailers) -> Result<Self, WireError> {
        Ok(Self { fields: fields(sent.trailers)? })
    }
}

/// The fields of headers or trailers.
fn fields(map: Option<HeaderMap>) -> Result<Vec<HeaderValue>, WireError> {
    let fields = map.map(|map| map.headers).unwrap_or_default();
    let is_text = |field: &HeaderValue| core::str::from_utf8(&field.key).is_ok();
    if fields.iter().all(is_text) { Ok(fields) } else { Err(WireError::Name) }
}

fn header(header: &HeaderValue) -> Header<'_> {
    let HeaderValue { key, value, raw_value } = header;
    let value = if raw_value.is_empty() { value } else { raw_value };
    Header { name: key, value }
}

impl From<HttpBody> for Body {
    fn from(body: HttpBody) -> Self {
        let end_of_stream = body.end_of_stream || body.end_of_stream_without_message;
        Self { bytes: body.body, end_of_stream }
    }
}

/// An attribute that Envoy was asked for with `request_attributes`, when it is text. They come grouped
/// by the name of a filter, of which there is one.
fn attribute<'a>(attributes: &'a [Group], name: &str) -> Option<&'a str> {
    let groups = attributes.iter().filter_map(|group| group.attributes.as_ref());
    let mut fields = groups.flat_map(|group| &group.fields);
    let field = fields.find(|field| field.name == name.as_bytes())?;
    core::str::from_utf8(field.value.as_ref()?.text.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::{
        envoy::{
            config::core::v3 as core,
            service::ext_proc::v3::{self as generated, processing_request::Request},
        },
        google::protobuf::{self, value::Kind},
    };
    use prost::Message as _;

    use super::*;

    /// As others write it.
    fn sent(names: &[&str]) -> generated::ProcessingRequest {
        let header = |name: &&str| core::HeaderValue {
            key: (*name).to_owned(),
            value: "text".to_owned(),
            raw_value: if name.starts_with(':') { b"ra\xffw".to_vec() } else { Vec::new() },
        };
        let map = core::HeaderMap { headers: names.iter().map(header).collect() };
        let value = |kind| protobuf::Value { kind: Some(kind) };
        let fields = [
            ("source.address", value(Kind::StringValue("192.0.2.1:80".to_owned()))),
            ("request.protocol", value(Kind::NumberValue(2.0))),
            ("xds.route_name", value(Kind::StringValue("shop".to_owned()))),
            ("metadata.filter_metadata.glacis.user", value(Kind::StringValue("jane".to_owned()))),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        let group = protobuf::Struct { fields: fields.into() };
        generated::ProcessingRequest {
            attributes: [("envoy.filters.http.ext_proc".to_owned(), group)].into(),
            observability_mode: true,
            protocol_config: Some(generated::ProtocolConfiguration {
                request_body_mode: BodySendMode::Streamed as i32,
                ..generated::ProtocolConfiguration::default()
            }),
            request: Some(Request::RequestHeaders(generated::HttpHeaders {
                headers: Some(map),
                end_of_stream: true,
                ..generated::HttpHeaders::default()
            })),
            ..generated::ProcessingRequest::default()
        }
    }

    fn read(bytes: &[u8]) -> Result<Incoming, WireError> {
        ProcessingRequest::decode(bytes).unwrap().try_into()
    }

    #[test]
    fn what_others_write_is_read() {
        let bytes = sent(&[":path", "accept", "X-Glacis-Test"]).encode_to_vec();
        let incoming = read(&bytes).unwrap();
        assert!(incoming.observability_mode);
        let modes = Modes { request: BodyMode::Streamed, response: BodyMode::None };
        assert_eq!(incoming.modes, Some(modes));
        let Message::RequestHeaders(head) = incoming.message else { panic!("{incoming:?}") };
        let head = head.detached();
        let pairs: Vec<_> = head.headers().iter().map(|it| (it.name, it.value)).collect();
        let path = (&b":path"[..], &b"ra\xffw"[..]);
        let (accept, own) = ((&b"accept"[..], &b"text"[..]), (&b"X-Glacis-Test"[..], &b"text"[..]));
        assert_eq!(pairs, [path, accept, own]);
        assert!(head.end_of_stream);
        assert_eq!(head.source.map(|source| source.port), Some(80));
        assert_eq!((head.destination, head.protocol.as_deref()), (None, None));
        assert_eq!(head.user.as_deref(), Some("jane"));
        assert_eq!(head.route.as_deref(), Some("shop"));
    }

    #[test]
    fn what_cannot_be_answered_is_an_error() {
        assert_eq!(read(&[]).unwrap_err(), WireError::Empty);
        let mut bytes = sent(&["x-glacis-q"]).encode_to_vec();
        let place = bytes.windows(10).position(|window| window == b"x-glacis-q").unwrap();
        bytes[place + 9] = 0xff;
        assert_eq!(read(&bytes).unwrap_err(), WireError::Name);
        let unknown = generated::ProtocolConfiguration {
            request_body_mode: BodySendMode::Grpc as i32,
            ..generated::ProtocolConfiguration::default()
        };
        let message = generated::ProcessingRequest { protocol_config: Some(unknown), ..sent(&[]) };
        assert_eq!(read(&message.encode_to_vec()).unwrap_err(), WireError::Mode);
    }
}
