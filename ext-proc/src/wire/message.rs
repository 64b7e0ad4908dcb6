//! Envoy's messages, as much of them as is looked at.
//!
//! What is generated from Envoy's files copies each text, and makes maps: with a dozen headers that costs more than
//! all the rest of an answer. Here texts and bodies are slices of what came over the wire, and maps are lists. What
//! is not listed is skipped. Numbers are those of `envoy/service/ext_proc/v3/external_processor.proto`, of
//! `envoy/config/core/v3/base.proto` and of `google/protobuf/struct.proto`.

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::ProtocolConfiguration;
use prost::{Message, Oneof};

/// What Envoy sends on a stream.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessingRequest {
    /// Attributes, by the name of a filter.
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<Group>,
    #[prost(bool, tag = "10")]
    pub(super) observability_mode: bool,
    #[prost(message, optional, tag = "11")]
    pub(super) protocol_config: Option<ProtocolConfiguration>,
    #[prost(oneof = "Part", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) part: Option<Part>,
}

/// The part of the exchange in it.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Part {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(super) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(super) headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) raw_value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: Bytes,
    #[prost(bool, tag = "2")]
    pub(super) end_of_stream: bool,
    #[prost(bool, tag = "3")]
    pub(super) end_of_stream_without_message: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpTrailers {
    #[prost(message, optional, tag = "1")]
    pub(super) trailers: Option<HeaderMap>,
}

/// An entry of `map<string, google.protobuf.Struct>`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Group {
    #[prost(message, optional, tag = "2")]
    pub(super) attributes: Option<Attributes>,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attributes {
    #[prost(message, repeated, tag = "1")]
    pub(super) fields: Vec<Attribute>,
}

/// An entry of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<Value>,
}

/// `google.protobuf.Value`, where it is a text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) text: Option<Bytes>,
}
