//! From a test's input to the bytes that are sent, as the original runner makes them (go-ftw 2.1,
//! `ftwhttp/request.go`), and from bytes to what a web server would hand on.

use std::borrow::Cow;

use super::suite::Input;
use glacis_explain::base64;

/// Bytes that a template in `data` may grow to: 1 MiB.
const TEMPLATE_BYTES_MAX: usize = 1 << 20;

/// A request of a test.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// Made of its parts.
    Parts(Parts),
    /// Given whole.
    Raw(Vec<u8>),
}

/// The parts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) method: Vec<u8>,
    pub(crate) uri: Vec<u8>,
    pub(crate) version: Vec<u8>,
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The request that `input` stands for.
    ///
    /// # Errors
    /// When it cannot be made, with the reason.
    pub(crate) fn new(input: &Input) -> Result<Self, String> {
        match input.encoded_request.as_deref() {
            None | Some("") => Parts::of(input).map(Self::Parts),
            Some(_) if input.data.as_ref().is_some_and(|data| !data.is_empty()) => {
                Err("data and encoded_request exclude each other".to_owned())
            }
            Some(text) => match decode(text) {
                Ok(raw) => Ok(Self::Raw(raw)),
                Err(error) => Err(format!("encoded_request: {error}")),
            },
        }
    }

    /// The bytes to send, with one header more.
    pub(crate) fn to_bytes(&self, name: &str, value: &str) -> Vec<u8> {
        let header = format!("{name}: {value}\r\n");
        match self {
            Self::Parts(parts) => parts.to_bytes(&header),
            Self::Raw(raw) => {
                let line = find(raw, b"\n").map_or(raw.len(), |at| at + 1);
                let (line, rest) = raw.split_at(line);
                [line, header.as_bytes(), rest].concat()
            }
        }
    }

    /// What a web server would hand on to the engine.
    pub(crate) fn received(&self) -> Cow<'_, Parts> {
        match self {
            Self::Parts(parts) if parts.version.starts_with(b"HTTP/1.") => {
                let body = parts.framed_body(&parts.body);
                Cow::Owned(Parts { body, ..parts.clone() })
            }
            Self::Parts(parts) => Cow::Borrowed(parts),
            Self::Raw(raw) => Cow::Owned(Parts::received(raw)),
        }
    }
}

impl Parts {
    fn of(input: &Input) -> Result<Self, String> {
        let text = |text: &Option<String>, default: &str| {
            text.as_deref().unwrap_or(default).as_bytes().to_vec()
        };
        let mut parts = Self {
            method: text(&input.method, "GET"),
            uri: text(&input.uri, "/"),
            version: text(&input.version, "HTTP/1.1"),
            headers: headers(input),
            body: body(input)?,
        };
        let complete = input.completes_headers();
        if complete && !parts.body.is_empty() {
            parts.complete_form();
        }
        if parts.has_multipart_type() {
            parts.body = with_carriage_returns(&parts.body);
        }
        if complete {
            parts.complete_headers();
        }
        Ok(parts)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let wanted = name.as_bytes();
        let same = move |(name, _): &&(Vec<u8>, Vec<u8>)| name.eq_ignore_ascii_case(wanted);
        self.headers.iter().filter(same).map(|(_, value)| value.as_slice())
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        self.headers.push((name.as_bytes().to_vec(), value.to_vec()));
    }

    /// A body without a type is a form. Forms are written plainly in tests and encoded here, unless
    /// they look encoded already.
    fn complete_form(&mut self) {
        if !self.has("content-type") {
            self.add("Content-Type", FORM);
        }
        let is_form = self.values("content-type").any(|value| value.eq_ignore_ascii_case(FORM));
        if is_form && is_plain(&self.body) {
            self.body = encode_form(&self.body);
        }
    }

    fn has_multipart_type(&self) -> bool {
        let names_it =
            |value: &[u8]| find(&value.to_ascii_lowercase(), b"multipart/form-data;").is_some();
        self.values("content-type").any(names_it)
    }

    fn complete_headers(&mut self) {
        if !self.has("connection") {
            self.add("Connection", b"close");
        }
        if !self.has("content-length") && (!self.body.is_empty() || may_have_body(&self.method)) {
            let length = self.body.len().to_string();
            self.add("Content-Length", length.as_bytes());
        }
    }

    fn to_bytes(&self, header: &str) -> Vec<u8> {
        let mut out = [&self.method[..], b" ", &self.uri, b" ", &self.version, b"\r\n"].concat();
        out.extend_from_slice(header.as_bytes());
        for (name, value) in &self.headers {
            out.extend_from_slice(&[&name[..], b": ", value, b"\r\n"].concat());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
        out
    }

    /// Reads a request like a lenient web server: HTTP/1.1, RFC 9112 sections 2 to 7.
    fn received(raw: &[u8]) -> Self {
        let mut parts = Self::default();
        let (line, mut rest) = split_line(raw);
        let mut words = line.splitn(3, |&byte| byte == b' ').map(<[u8]>::to_vec);
        parts.method = words.next().unwrap_or_default();
        parts.uri = words.next().unwrap_or_default();
        parts.version = words.next().unwrap_or_default();
        while !rest.is_empty() {
            let (line, after) = split_line(rest);
            rest = after;
            if line.is_empty() {
                break;
            }
            let colon = find(line, b":").unwrap_or(line.len());
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            parts.headers.push((name.to_vec(), value.to_vec()));
        }
        parts.body = parts.framed_body(rest);
        parts
    }

    /// The body as framed by `Transfer-Encoding` or `Content-Length` (RFC 9112 section 6.3): without
    /// either there is none.
    fn framed_body(&self, rest: &[u8]) -> Vec<u8> {
        // The last coding frames. Values that a test gives as parts may have blanks around them.
        let is_chunked = |value: &[u8]| {
            let last = value.rsplit(|&byte| byte == b',').next().unwrap_or_default();
            last.trim_ascii().eq_ignore_ascii_case(b"chunked")
        };
        if self.values("transfer-encoding").any(is_chunked) {
            return dechunk(rest);
        }
        let length = self
            .values("content-length")
            .next()
            .and_then(|value| std::str::from_utf8(value.trim_ascii()).ok()?.parse::<usize>().ok());
        rest.get(..length.unwrap_or(0).min(rest.len())).unwrap_or_default().to_vec()
    }
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";

fn headers(input: &Input) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    match &input.ordered_headers {
        Some(headers) => headers.iter().map(|header| pair(&header.name, &header.value.0)).collect(),
        None => input.headers.iter().map(|(name, value)| pair(name, &value.0)).collect(),
    }
}

fn body(input: &Input) -> Result<Vec<u8>, String> {
    match (&input.data, &input.encoded_data) {
        (Some(data), _) => expand(data).map(String::into_bytes),
        (None, Some(data)) => decode(data).map_err(|error| format!("encoded_data: {error}")),
        (None, None) => Ok(Vec::new()),
    }
}

/// Base64, perhaps over several lines.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    base64(&text.replace(['\r', '\n'], ""))
}

/// Expands `{{ "text" | repeat 3 }}`, the one form of template that CRS's tests use.
fn expand(data: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = data;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((template, after)) = after.split_once("}}") else { break };
        out.push_str(before);
        match repetition(template) {
            Some((text, times)) if text.len().saturating_mul(times) <= TEMPLATE_BYTES_MAX => {
                out.push_str(&text.repeat(times));
            }
            _ => return Err(format!("the template {{{{{template}}}}} is not supported")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn repetition(template: &str) -> Option<(&str, usize)> {
    let (text, action) = template.rsplit_once('|')?;
    let text = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    let times = action.trim().strip_prefix("repeat")?.trim().parse().ok()?;
    Some((text, times))
}

/// Methods to which a client adds `Content-Length: 0`.
fn may_have_body(method: &[u8]) -> bool {
    method.starts_with(b"POST")
        || find(method, b"PUT").is_some()
        || find(method, b"PATCH").is_some()
        || method.ends_with(b"DELETE")
}

/// Whether decoding would change nothing: neither `+` nor `%`.
fn is_plain(body: &[u8]) -> bool {
    !body.contains(&b'+') && !body.contains(&b'%')
}

fn encode_form(body: &[u8]) -> Vec<u8> {
    let mut tokens: Vec<&[u8]> = body.split(|&byte| byte == b'&').collect();
    // A separator at the end ends the last token and begins no other.
    if tokens.last().is_some_and(|token| token.is_empty()) {
        tokens.pop();
    }
    let encoded = tokens.iter().map(|token| {
        let mut halves = token.splitn(2, |&byte| byte == b'=').map(encode);
        let key = halves.next().unwrap_or_default();
        match halves.next() {
            Some(value) => [key, value].join(&b'='),
            None => key,
        }
    });
    encoded.collect::<Vec<_>>().join(&b'&')
}

/// Percent-encoding of form values (WHATWG URL, `application/x-www-form-urlencoded`).
fn encode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte),
            b' ' => out.push(b'+'),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

fn with_carriage_returns(body: &[u8]) -> Vec<u8> {
    body.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..])
}

/// A line without its end, and what follows.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    match find(text, b"\n") {
        Some(at) => {
            let (line, rest) = text.split_at(at);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            (line, rest.get(1..).unwrap_or_default())
        }
        None => (text, &[]),
    }
}

/// Removes the chunked coding (RFC 9112 section 7.1); ends at the first mistake.
fn dechunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let (line, after) = split_line(rest);
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let size =
            std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        match size {
            None | Some(0) => return body,
            Some(size) => {
                let size = size.min(after.len());
                let (chunk, after) = after.split_at(size);
                body.extend_from_slice(chunk);
                rest = split_line(after).1;
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded_unless_they_are() {
        let table = [
            ("a=b c&d", "a=b+c&d"),
            ("a=<x>&b=1=2", "a=%3Cx%3E&b=1%3D2"),
            ("a=1&", "a=1"),
            ("&a", "&a"),
            ("ü", "%C3%BC"),
        ];
        for (plain, encoded) in table {
            assert!(is_plain(plain.as_bytes()), "{plain}");
            assert_eq!(encode_form(plain.as_bytes()), encoded.as_bytes(), "{plain}");
        }
        assert!(!is_plain(b"a=b+c"));
        assert!(!is_plain(b"a=%3C"));
    }

    #[test]
    fn templates() {
        let table = [
            ("a", Ok("a")),
            (r#"a{{ "xy" | repeat 3 }}b"#, Ok("axyxyxyb")),
            ("{{ now }}", Err(())),
            (r#"{{ "1" | repeat 99999999 }}"#, Err(())),
            ("a{{b", Ok("a{{b")),
        ];
        for (data, expected) in table {
            assert_eq!(expand(data).map_err(|_| ()), expected.map(str::to_owned), "{data}");
        }
    }

    #[test]
    fn bodies_are_framed_as_their_headers_say() {
        for (name, value, body) in [
            ("Content-Length", "1", &b"2"[..]),
            ("Content-Length", " 1\t", b"2"),
            ("Content-Length", "x", b""),
            ("Transfer-Encoding", "chunked", b"ab"),
            ("Transfer-Encoding", " gzip, Chunked ", b"ab"),
            ("Transfer-Encoding", "chunked, gzip", b""),
            ("Host", "a", b""),
        ] {
            let mut parts = Parts::default();
            parts.add(name, value.as_bytes());
            assert_eq!(parts.framed_body(b"2\r\nab\r\n0\r\n\r\n"), body, "{name}: {value}");
        }
    }

    /// A request, and its method, number of headers and body.
    type Row = (&'static [u8], &'static [u8], usize, &'static [u8]);

    #[test]
    fn raw_requests_are_read_as_a_web_server_would() {
        let table: [Row; 4] = [
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nHi \r\n2;x\r\nyo\r\n0\r\n\r\n", b"POST", 1, b"Hi yo"),
            (b"GET / HTTP/1.0\r\nHost:\r\nContent-Length: 2\r\n\r\nabc", b"GET", 2, b"ab"),
            (b"GET / HTTP/1.0\nHost: x\n\nabc", b"GET", 1, b""),
            (b"", b"", 0, b""),
        ];
        for (raw, method, headers, body) in table {
            let parts = Parts::received(raw);
            assert_eq!(
                (&parts.method[..], parts.headers.len(), &parts.body[..]),
                (method, headers, body)
            );
        }
    }
}
