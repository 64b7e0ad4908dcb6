//! What Envoy asks and is answered, as plain values. The only file that knows its messages.

use std::collections::HashMap;

use envoy_types::pb::{
    envoy::{
        config::core::v3::{
            Address, HeaderValue, HeaderValueOption, Metadata, address,
            header_value_option::HeaderAppendAction, socket_address,
        },
        service::auth::v3::{
            CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
            attribute_context::Peer, check_response::HttpResponse,
        },
        r#type::v3::{HttpStatus, StatusCode},
    },
    google::{
        protobuf::{Struct, Value as WireValue, value::Kind},
        rpc::Status as RpcStatus,
    },
};
use glacis_engine::Endpoint;
use glacis_inspector::Header;
use serde_json::{Map, Number, Value};
use tonic::{Code, Status};

use crate::answer::{Answer, Facts, Passed, Refused};

/// The filter whose metadata holds the claims of a token.
const JWT_FILTER: &str = "envoy.filters.http.jwt_authn";

/// Under which name the facts of an answer stand in the metadata of `envoy.filters.http.ext_authz`.
const METADATA: &str = "glacis.authz";

/// The extension of a route's `check_settings.context_extensions` that names a profile of rules.
const PROFILE: &str = "glacis.profile";

/// A header that Envoy adds where it sends bodies: whether it is only the beginning of one.
const PARTIAL_BODY: &str = "x-envoy-auth-partial-body";

/// A request about which Envoy asks.
#[derive(Debug)]
pub(crate) struct Asked {
    headers: Vec<HeaderValue>,
    /// Whether headers came one by one, with all their bytes.
    pub(crate) raw_headers: bool,
    pub(crate) source: Option<Endpoint>,
    pub(crate) destination: Option<Endpoint>,
    pub(crate) protocol: Option<String>,
    /// The name that Envoy gives the exchange.
    pub(crate) stream: String,
    /// What Envoy sends of the body.
    pub(crate) body: Vec<u8>,
    /// The profile that the route names.
    pub(crate) profile: Option<String>,
    /// The claims of a token that Envoy has checked, by the key of its metadata.
    tokens: Map<String, Value>,
}

impl TryFrom<CheckRequest> for Asked {
    type Error = Status;

    fn try_from(request: CheckRequest) -> Result<Self, Status> {
        let mut attributes = request.attributes.unwrap_or_default();
        let http = attributes.request.and_then(|request| request.http);
        let http =
            http.ok_or_else(|| Status::invalid_argument("a Check without an HTTP request"))?;
        let raw_headers = http.header_map.is_some();
        let mut headers = match http.header_map {
            Some(map) => map.headers,
            None => of_map(http.headers),
        };
        // Without them it could not be said what is asked for.
        for (name, value) in
            [(":method", http.method), (":path", http.path), (":authority", http.host)]
        {
            if !headers.iter().any(|header| header.key == name) {
                headers.push(HeaderValue { key: name.to_owned(), value, ..HeaderValue::default() });
            }
        }
        let body = if http.raw_body.is_empty() { http.body.into_bytes() } else { http.raw_body };
        Ok(Self {
            headers,
            raw_headers,
            source: endpoint(attributes.source),
            destination: endpoint(attributes.destination),
            protocol: Some(http.protocol).filter(|protocol| !protocol.is_empty()),
            stream: http.id,
            body,
            profile: attributes.context_extensions.remove(PROFILE),
            tokens: tokens(attributes.metadata_context),
        })
    }
}

impl Asked {
    /// The headers, among them `:method`, `:path` and `:authority`.
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().filter(|header| header.key != PARTIAL_BODY).map(plain).collect()
    }

    /// Whether Envoy says that the body is only the beginning of one; `None` if it sends no bodies.
    pub(crate) fn is_partial(&self) -> Option<bool> {
        // Envoy leaves out a field of this name that a client sends, and puts its own behind all others.
        let value = self
            .headers
            .iter()
            .rev()
            .map(plain)
            .find(|header| header.name == PARTIAL_BODY.as_bytes())?;
        Some(value.value != b"false")
    }

    /// The claims of the token that Envoy has kept under `key`.
    pub(crate) fn claims(&self, key: &str) -> Option<&Map<String, Value>> {
        self.tokens.get(key).and_then(Value::as_object)
    }
}

/// Headers as text, of which several of one name are one.
fn of_map(headers: HashMap<String, String>) -> Vec<HeaderValue> {
    let header = |(key, value)| HeaderValue { key, value, ..HeaderValue::default() };
    let mut headers: Vec<_> = headers.into_iter().map(header).collect();
    headers.sort_by(|one, other| one.key.cmp(&other.key));
    headers
}

fn plain(header: &HeaderValue) -> Header<'_> {
    let HeaderValue { key, value, raw_value } = header;
    let value = if raw_value.is_empty() { value.as_bytes() } else { raw_value.as_slice() };
    Header { name: key.as_bytes(), value }
}

fn endpoint(peer: Option<Peer>) -> Option<Endpoint> {
    let Address { address: Some(address::Address::SocketAddress(socket)) } = peer?.address? else {
        return None;
    };
    let port = match socket.port_specifier {
        Some(socket_address::PortSpecifier::PortValue(port)) => u16::try_from(port).unwrap_or(0),
        _ => 0,
    };
    let address: core::net::IpAddr = socket.address.parse().ok()?;
    Some(Endpoint { address: address.to_canonical(), port })
}

fn tokens(metadata: Option<Metadata>) -> Map<String, Value> {
    let of_filter = metadata.and_then(|mut metadata| metadata.filter_metadata.remove(JWT_FILTER));
    of_filter.map(object).unwrap_or_default()
}

fn object(fields: Struct) -> Map<String, Value> {
    fields.fields.into_iter().map(|(name, field)| (name, value(field))).collect()
}

/// The nesting is that of the message, which has a limit.
fn value(value: WireValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => {
            Number::from_f64(number).map_or(Value::Null, Value::Number)
        }
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(truth)) => Value::Bool(truth),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields)),
        Some(Kind::ListValue(list)) => {
            Value::Array(list.values.into_iter().map(self::value).collect())
        }
    }
}

impl From<Answer> for CheckResponse {
    fn from(answer: Answer) -> Self {
        let dynamic_metadata = Some(metadata(answer.facts()));
        let (code, http_response) = match answer {
            Answer::Pass(passed, _) => (Code::Ok, HttpResponse::OkResponse(ok(passed))),
            Answer::Refuse(refused, _) => {
                (Code::PermissionDenied, HttpResponse::DeniedResponse(denied(refused)))
            }
        };
        Self {
            status: Some(RpcStatus { code: code as i32, ..RpcStatus::default() }),
            dynamic_metadata,
            http_response: Some(http_response),
        }
    }
}

fn ok(passed: Passed) -> OkHttpResponse {
    OkHttpResponse {
        headers: passed.set.into_iter().map(overwrite).collect(),
        headers_to_remove: passed.remove,
        response_headers_to_add: passed.response.into_iter().map(append).collect(),
        query_parameters_to_remove: passed.remove_query,
        ..OkHttpResponse::default()
    }
}

fn denied(refused: Refused) -> DeniedHttpResponse {
    // Envoy takes a status that is none of these for 403 as well.
    let good = (200..=599).contains(&refused.status);
    let code = if good { i32::from(refused.status) } else { StatusCode::Forbidden as i32 };
    DeniedHttpResponse {
        status: Some(HttpStatus { code }),
        headers: refused.headers.into_iter().map(overwrite).collect(),
        body: refused.body,
    }
}

fn overwrite(header: (String, String)) -> HeaderValueOption {
    option(header, HeaderAppendAction::OverwriteIfExistsOrAdd)
}

/// The upstream may have a field of that name too, and both are lists.
fn append(header: (String, String)) -> HeaderValueOption {
    option(header, HeaderAppendAction::AppendIfExistsOrAdd)
}

fn option((key, value): (String, String), action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key, value, raw_value: Vec::new() }),
        append_action: action as i32,
        ..HeaderValueOption::default()
    }
}

fn metadata(facts: &Facts) -> Struct {
    let text = |text: &str| WireValue { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = facts.fields().map(|(name, value)| (name.to_owned(), text(value)));
    let facts = Struct { fields: fields.collect() };
    let facts = WireValue { kind: Some(Kind::StructValue(facts)) };
    Struct { fields: [(METADATA.to_owned(), facts)].into() }
}
