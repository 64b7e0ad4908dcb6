//! A line of requests: what is asked, and what the application answered.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use glacis_engine::Endpoint;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    bytes::{Base64, Bytes},
    timestamp::Timestamp,
};

/// One request, and perhaps its response.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// Given back as it came.
    pub id: Id,
    /// What kind of request it is, for statistics by kind.
    #[serde(default)]
    pub class: Option<String>,
    /// When it came.
    #[serde(default)]
    pub time: Option<Timestamp>,
    /// Who asks.
    #[serde(default)]
    pub client: Option<Peer>,
    /// Where it came in.
    #[serde(default)]
    pub server: Option<Peer>,
    /// The method.
    pub method: Bytes,
    /// Path and query as sent.
    pub uri: Bytes,
    /// Such as `HTTP/1.1`.
    pub protocol: Bytes,
    /// Names and values in order: a list of pairs, or a map from name to value or values.
    #[serde(default, deserialize_with = "headers")]
    pub headers: Vec<(Bytes, Bytes)>,
    /// The body, readable; [`Self::body`] is either of the two.
    #[serde(default)]
    pub body: Option<Bytes>,
    /// The body as base64.
    #[serde(default)]
    pub body_base64: Option<Base64>,
    /// What the application answered, if that is known.
    #[serde(default)]
    pub response: Option<Response>,
}

/// What the application answered.
#[derive(Debug, Deserialize)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Such as `HTTP/1.1`, which it is where nothing is said.
    #[serde(default = "http_1_1")]
    pub protocol: Bytes,
    /// Names and values in order: a list of pairs, or a map from name to value or values.
    #[serde(default, deserialize_with = "headers")]
    pub headers: Vec<(Bytes, Bytes)>,
    /// The body, readable; [`Self::body`] is either of the two.
    #[serde(default)]
    pub body: Option<Bytes>,
    /// The body as base64.
    #[serde(default)]
    pub body_base64: Option<Base64>,
}

impl Response {
    /// The body, however it was written.
    pub fn body(&self) -> Option<&[u8]> {
        either(self.body.as_ref(), self.body_base64.as_ref())
    }
}

fn either<'b>(text: Option<&'b Bytes>, base64: Option<&'b Base64>) -> Option<&'b [u8]> {
    text.map(|text| &*text.0).or_else(|| base64.map(|base64| &*base64.0))
}

/// Reads `[[name, value]…]`, `{name: value}` or `{name: [value…]}`.
fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Bytes, Bytes)>, D::Error> {
    struct HeadersVisitor;

    impl<'de> Visitor<'de> for HeadersVisitor {
        type Value = Vec<(Bytes, Bytes)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of [name, value] pairs or a map of names to values")
        }

        fn visit_seq<A: SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Vec<(Bytes, Bytes)>, A::Error> {
            let mut headers = Vec::new();
            while let Some(pair) = list.next_element()? {
                headers.push(pair);
            }
            Ok(headers)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<(Bytes, Bytes)>, A::Error> {
            let mut headers = Vec::new();
            while let Some((name, values)) = map.next_entry::<String, Values>()? {
                let name = Bytes(name.into_bytes());
                match values {
                    Values::One(value) => headers.push((name, value)),
                    Values::Many(values) => {
                        headers.extend(values.into_iter().map(|value| (name.clone(), value)));
                    }
                }
            }
            Ok(headers)
        }
    }

    deserializer.deserialize_any(HeadersVisitor)
}

/// The values of one name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    Many(Vec<Bytes>),
    One(Bytes),
}

fn http_1_1() -> Bytes {
    Bytes(b"HTTP/1.1".to_vec())
}

/// An address in a request.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Peer {
    ip: IpAddr,
    #[serde(default)]
    port: u16,
}

impl Peer {
    /// An address without a port.
    #[must_use]
    pub const fn at(ip: IpAddr) -> Self {
        Self { ip, port: 0 }
    }

    /// The address.
    #[must_use]
    pub const fn ip(self) -> IpAddr {
        self.ip
    }

    /// The address; this machine's when none is given.
    pub fn endpoint(peer: Option<Self>, port: u16) -> Endpoint {
        match peer {
            Some(peer) => Endpoint { address: peer.ip, port: peer.port },
            None => Endpoint { address: Ipv4Addr::LOCALHOST.into(), port },
        }
    }
}

/// The name of a request: a string or a number, kept as written.
#[derive(Debug)]
pub struct Id(pub Box<RawValue>);

impl Id {
    /// The name without quotes.
    pub fn text(&self) -> String {
        let raw = self.0.get();
        serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get().as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9') => Ok(Self(raw)),
            _ => Err(de::Error::custom("id must be a string or a number")),
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
pub struct Malformed {
    /// Its id, where it can be read.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub message: String,
}

impl Request {
    /// Reads one line.
    ///
    /// # Errors
    /// When it is not a request in JSON; the message says where in the line.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
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
    pub fn body(&self) -> Option<&[u8]> {
        either(self.body.as_ref(), self.body_base64.as_ref())
    }

    /// Bytes of the request and its response, the syntax of HTTP/1.1 between them included.
    pub fn bytes(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_or_a_map() {
        let pair = |name: &str, value: &str| (Bytes(name.into()), Bytes(value.into()));
        for (headers, expected) in [
            (r#"[["host","a"],["x","\u00e9"]]"#, vec![pair("host", "a"), pair("x", "é")]),
            (
                r#"{"host":"a","x":["1","2"]}"#,
                vec![pair("host", "a"), pair("x", "1"), pair("x", "2")],
            ),
            (r#"{"x":{"base64":"YQ=="}}"#, vec![pair("x", "a")]),
        ] {
            let line = format!(
                r#"{{"id":1,"method":"GET","uri":"/","protocol":"HTTP/1.1","headers":{headers}}}"#
            );
            let request = Request::parse(line.as_bytes()).unwrap();
            assert_eq!(request.headers, expected, "{headers}");
        }
        let line =
            br#"{"id":1,"method":"GET","uri":"/","protocol":"HTTP/1.1","headers":"host: a"}"#;
        let error = Request::parse(line).unwrap_err().message;
        assert!(error.contains("a list of [name, value] pairs or a map"), "{error}");
    }
}
