//! Requests that carry an attack where an exclusion applies.

use glacis_explain::{Bytes, Id, Peer, Request};
use serde_json::value::RawValue;

use crate::{attacks::percent_encoded as encoded, target::Target};

/// An address of documentation (RFC 5737): rules that trust local addresses do not trust this one.
const CLIENT: core::net::IpAddr = core::net::IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

/// Where attacks are put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The value of an argument.
    Argument(String),
    /// The name of an argument.
    ArgumentName,
    Cookie(String),
    Header(String),
    /// The text of an XML body.
    Xml,
    /// The whole body, of this type.
    Body(String),
    /// The file name of a part of a form.
    FileName,
    Path,
}

impl Place {
    /// Where the values of a target come from; `None` where a client cannot choose them, or only as a name that the
    /// exclusion gives.
    pub(crate) fn of(target: &Target, content_type: &str) -> Option<Self> {
        let name = || target.name.clone().unwrap_or_else(|| "q".to_owned());
        Some(match target.collection.as_str() {
            "ARGS" | "ARGS_GET" | "ARGS_POST" => Self::Argument(name()),
            "QUERY_STRING" | "REQUEST_URI" | "REQUEST_URI_RAW" | "REQUEST_LINE" => {
                Self::Argument("q".to_owned())
            }
            "ARGS_NAMES" | "ARGS_GET_NAMES" | "ARGS_POST_NAMES" if target.name.is_none() => {
                Self::ArgumentName
            }
            "REQUEST_COOKIES" => Self::Cookie(name()),
            "REQUEST_COOKIES_NAMES" if target.name.is_none() => Self::ArgumentName,
            "REQUEST_HEADERS" => Self::Header(target.name.clone()?),
            "XML" => Self::Xml,
            "REQUEST_BODY" => Self::Body(content_type.to_owned()),
            "FILES" | "FILES_NAMES" | "MULTIPART_FILENAME" | "MULTIPART_PART_HEADERS" => {
                Self::FileName
            }
            "REQUEST_FILENAME" | "REQUEST_BASENAME" => Self::Path,
            _ => return None,
        })
    }

    /// A request for `path` of `host` with the payload at this place.
    pub(crate) fn request(&self, host: &str, path: &str, payload: &[u8]) -> Request {
        let mut uri = path.as_bytes().to_vec();
        let (mut headers, mut body, mut method) = (Vec::new(), None, "GET");
        let header = |name: &str, value: &[u8]| (bytes(name), Bytes(value.to_vec()));
        headers.push(header("Host", host.as_bytes()));
        let agent: &[u8] =
            b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let is_header = |wanted: &str| matches!(self, Self::Header(name) if name == wanted);
        if !is_header("user-agent") {
            headers.push(header("User-Agent", agent));
        }
        if !is_header("accept") {
            headers.push(header("Accept", b"*/*"));
        }
        match self {
            Self::Argument(name) => {
                uri.extend(
                    format!("?{}={}", encoded(name.as_bytes()), encoded(payload)).into_bytes(),
                );
            }
            Self::ArgumentName => uri.extend(format!("?{}=1", encoded(payload)).into_bytes()),
            Self::Cookie(name) => {
                let value = format!("{name}={}", cookie(payload));
                headers.push(header("Cookie", value.as_bytes()));
            }
            Self::Header(name) => headers.push(header(name, &one_line(payload))),
            Self::Xml => {
                method = "POST";
                headers.push(header("Content-Type", b"application/xml"));
                let text = String::from_utf8_lossy(payload);
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                body = Some(format!("<a>{text}</a>").into_bytes());
            }
            Self::Body(content_type) => {
                method = "POST";
                headers.push(header("Content-Type", content_type.as_bytes()));
                body = Some(payload.to_vec());
            }
            Self::FileName => {
                method = "POST";
                headers.push(header("Content-Type", b"multipart/form-data; boundary=glacis"));
                let name = String::from_utf8_lossy(&one_line(payload)).replace('"', "%22");
                let part = "Content-Disposition: form-data; name=\"f\"; filename=";
                body = Some(
                    format!("--glacis\r\n{part}\"{name}\"\r\n\r\nx\r\n--glacis--\r\n").into_bytes(),
                );
            }
            Self::Path => {
                uri.push(b'/');
                uri.extend(encoded(payload).into_bytes());
            }
        }
        if let Some(body) = &body {
            headers.push(header("Content-Length", body.len().to_string().as_bytes()));
        }
        Request {
            id: Id(RawValue::NULL.to_owned()),
            class: None,
            time: None,
            client: Some(Peer::at(CLIENT)),
            server: None,
            method: bytes(method),
            uri: Bytes(uri),
            protocol: bytes("HTTP/1.1"),
            headers,
            body: body.map(Bytes),
            body_base64: None,
            response: None,
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes(text.as_bytes().to_vec())
}

/// What a cookie's value cannot hold is encoded.
fn cookie(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(&one_line(payload)).into_owned();
    text.replace(';', "%3B").replace(',', "%2C")
}

fn one_line(payload: &[u8]) -> Vec<u8> {
    payload.iter().map(|&byte| if byte < b' ' || byte == 0x7f { b' ' } else { byte }).collect()
}
