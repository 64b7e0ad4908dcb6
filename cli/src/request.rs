//! A line of requests: what is asked, and what the application answered.

use std::net::{IpAddr, Ipv4Addr};

use glacis_engine::Endpoint;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bytes::{Base64, Bytes};

/// One request, and perhaps its response.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// Given back as it came.
    pub(crate) id: Id,
    /// What kind of request it is, for [`crate::bench`].
    #[serde(default)]
    pub(crate) class: Option<String>,
    #[serde(default)]
    pub(crate) client: Option<Peer>,
    #[serde(default)]
    pub(crate) server: Option<Peer>,
    pub(crate) method: Bytes,
    pub(crate) uri: Bytes,
    pub(crate) protocol: Bytes,
    #[serde(default)]
    pub(crate) headers: Vec<(Bytes, Bytes)>,
    /// The body, readable; [`Self::body`] is either of the two.
    #[serde(default)]
    pub(crate) body: Option<Bytes>,
    #[serde(default)]
    pub(crate) body_base64: Option<Base64>,
    #[serde(default)]
    pub(crate) response: Option<Response>,
}

/// What the application answered.
#[derive(Debug, Deserialize)]
pub(crate) struct Response {
    pub(crate) status: u16,
    #[serde(default = "http_1_1")]
    pub(crate) protocol: Bytes,
    #[serde(default)]
    pub(crate) headers: Vec<(Bytes, Bytes)>,
    /// The body, readable; [`Self::body`] is either of the two.
    #[serde(default)]
    pub(crate) body: Option<Bytes>,
    #[serde(default)]
    pub(crate) body_base64: Option<Base64>,
}

impl Response {
    /// The body, however it was written.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        either(self.body.as_ref(), self.body_base64.as_ref())
    }
}

fn either<'b>(text: Option<&'b Bytes>, base64: Option<&'b Base64>) -> Option<&'b [u8]> {
    text.map(|text| &*text.0).or_else(|| base64.map(|base64| &*base64.0))
}

fn http_1_1() -> Bytes {
    Bytes(b"HTTP/1.1".to_vec())
}

/// An address in a request.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Peer {
    ip: IpAddr,
    #[serde(default)]
    port: u16,
}

impl Peer {
    /// The address; this machine's when none is given.
    pub(crate) fn endpoint(peer: Option<Self>, port: u16) -> Endpoint {
        match peer {
            Some(peer) => Endpoint { address: peer.ip, port: peer.port },
            None => Endpoint { address: Ipv4Addr::LOCALHOST.into(), port },
        }
    }
}

/// The name of a request: a string or a number, kept as written.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) Box<RawValue>);

impl Id {
    /// The name without quotes.
    pub(crate) fn text(&self) -> String {
        let raw = self.0.get();
        serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get().as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9') => Ok(Self(raw)),
            _ => Err(serde::de::Error::custom("id must be a string or a number")),
        }
    }
}

/// The one field of a malformed line that is worth having.
#[derive(Deserialize)]
struct OnlyId {
    id: Id,
}

/// A line that is not a request: its id, if it has one, and what is wrong.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<Id>,
    pub(crate) message: String,
}

impl Request {
    /// Reads one line.
    ///
    /// # Errors
    /// When it is not a request in JSON; the message says where in the line.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Malformed> {
        // An array would be taken for the fields in order.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err(Malformed { id: None, message: "a request is a JSON object".to_owned() });
        }
        let request: Self = serde_json::from_slice(line).map_err(|error| {
            let id = serde_json::from_slice(line).ok().map(|OnlyId { id }| id);
            Malformed { id, message: explain(&error) }
        })?;
        let twice = request.body.is_some() && request.body_base64.is_some()
            || request
                .response
                .as_ref()
                .is_some_and(|given| given.body.is_some() && given.body_base64.is_some());
        if twice {
            let message = "body and body_base64 are given, which is one too many".to_owned();
            return Err(Malformed { id: Some(request.id), message });
        }
        Ok(request)
    }

    /// The body, however it was written.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        either(self.body.as_ref(), self.body_base64.as_ref())
    }

    /// Bytes of the request and its response, the syntax of HTTP/1.1 between them included.
    pub(crate) fn bytes(&self) -> usize {
        let line = self.method.0.len() + self.uri.0.len() + self.protocol.0.len() + 4;
        let body = self.body().map_or(0, <[u8]>::len);
        let response = self.response.as_ref().map_or(0, |response| {
            let body = response.body().map_or(0, <[u8]>::len);
            response.protocol.0.len() + 6 + header_bytes(&response.headers) + body
        });
        line + header_bytes(&self.headers) + body + response
    }
}

fn header_bytes(headers: &[(Bytes, Bytes)]) -> usize {
    2 + headers.iter().map(|(name, value)| name.0.len() + value.0.len() + 4).sum::<usize>()
}

/// The message without serde's own line number, which is always 1 here; the column stays.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) if error.column() > 0 => {
            format!("{message} at column {}", error.column())
        }
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}
