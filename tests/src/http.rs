//! An HTTP/1.1 client that sends exactly the bytes it is given.
//!
//! A real client library would correct what a test wants to be wrong.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Failure, Outcome, doing};

/// Longer than everything that is tested to be fast.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A request as bytes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// What stands in the request line.
    pub target: String,
    /// The fields in their order. `host` and `content-length` are added if they are not there.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without fields of its own and without a body.
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, headers: Vec::new(), body: Vec::new() }
    }

    /// A GET.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST.
    pub fn post(target: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut request = Self::new("POST", target).header("content-type", content_type);
        request.body = body.into();
        request
    }

    /// The request with one more field.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The request with the fields that a browser sends. A bare request is itself suspicious.
    #[must_use]
    pub fn browser(mut self) -> Self {
        for (name, value) in BROWSER {
            if !self.has(name) {
                self.headers.push(((*name).to_owned(), value.as_bytes().to_vec()));
            }
        }
        self
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(field, _)| field.eq_ignore_ascii_case(name))
    }

    /// As it is written on the connection.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        let mut field = |name: &str, value: &[u8]| {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        };
        if !self.has("host") {
            field("host", HOST.as_bytes());
        }
        for (name, value) in &self.headers {
            field(name, value);
        }
        if !self.body.is_empty() && !self.has("content-length") && !self.has("transfer-encoding") {
            field("content-length", self.body.len().to_string().as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// The host of requests that name none. A number instead of a name would be suspicious.
pub const HOST: &str = "shop.example";

/// What a browser sends: twelve fields.
pub const BROWSER: &[(&str, &str)] = &[
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "de,en-US;q=0.7,en;q=0.3"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("dnt", "1"),
    ("sec-gpc", "1"),
    ("referer", "https://shop.example/products?page=2"),
    ("cookie", "session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; cart=3"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "same-origin"),
    ("upgrade-insecure-requests", "1"),
];

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// The first field of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A connection, for one request after the other.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Bytes that have been read but not used.
    unread: Vec<u8>,
}

impl Connection {
    /// Connects, from the address `from` if it is given. All of 127.0.0.0/8 is ours on Linux, so
    /// that one machine can be many clients.
    ///
    /// # Errors
    ///
    /// If nobody listens.
    pub fn open(from: Option<Ipv4Addr>, to: SocketAddr) -> Outcome<Self> {
        let stream = match from {
            None => TcpStream::connect_timeout(&to, PATIENCE),
            Some(from) => connect_from(from.into(), to),
        };
        let stream = stream.map_err(doing(&format!("connect to {to}")))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(doing("set a timeout"))?;
        stream.set_nodelay(true).map_err(doing("set nodelay"))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sets how long it waits for the next bytes.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn set_patience(&self, patience: Duration) -> Outcome<()> {
        self.stream.set_read_timeout(Some(patience)).map_err(doing("set a timeout"))
    }

    /// Sends bytes.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    pub fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.stream.write_all(bytes).map_err(doing("send"))
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    ///
    /// If the peer is gone, silent, or answers with what is no HTTP.
    pub fn send(&mut self, request: &Request) -> Outcome<Response> {
        self.exchange(&request.bytes(), &request.method)
    }

    /// Sends the bytes of a request of this method and reads the answer.
    ///
    /// # Errors
    ///
    /// As [`Connection::send`].
    pub fn exchange(&mut self, request: &[u8], method: &str) -> Outcome<Response> {
        // A refusal may come, and the connection be closed, before the body is sent: then the
        // answer is what matters, not the error.
        let written = self.write(request);
        let answer = self.read_head().and_then(|head| self.read_body(head, method));
        match (written, answer) {
            (_, Ok(answer)) => Ok(answer),
            (Err(failure), Err(_)) | (Ok(()), Err(failure)) => Err(failure),
        }
    }

    /// Reads the status line and the fields of an answer.
    ///
    /// # Errors
    ///
    /// As [`Connection::send`].
    pub fn read_head(&mut self) -> Outcome<Response> {
        let head = self.read_until(b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let Some(status) = status.and_then(|status| status.parse().ok()) else {
            return Err(Failure::new(format!("not an HTTP answer: {text:?}")));
        };
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        Ok(Response { status, headers: headers.collect(), body: Vec::new() })
    }

    fn read_body(&mut self, mut answer: Response, method: &str) -> Outcome<Response> {
        if method == "HEAD" || matches!(answer.status, 100..200 | 204 | 304) {
            return Ok(answer);
        }
        let chunked = answer.header("transfer-encoding") == Some("chunked");
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        answer.body = match (chunked, length) {
            (true, _) => {
                let mut body = Vec::new();
                while let Some(chunk) = self.read_chunk()? {
                    body.extend(chunk);
                }
                body
            }
            (false, Some(length)) => self.read_exact(length)?,
            (false, None) => self.read_to_end()?,
        };
        Ok(answer)
    }

    /// Reads one chunk of a body in chunks; `None` after the last.
    ///
    /// # Errors
    ///
    /// As [`Connection::send`].
    pub fn read_chunk(&mut self) -> Outcome<Option<Vec<u8>>> {
        let line = String::from_utf8_lossy(&self.read_until(b"\r\n")?).into_owned();
        let Ok(size) = usize::from_str_radix(line.trim(), 16) else {
            return Err(Failure::new(format!("not the size of a chunk: {line:?}")));
        };
        let chunk = self.read_exact(size)?;
        self.read_until(b"\r\n")?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads so many bytes.
    ///
    /// # Errors
    ///
    /// As [`Connection::send`].
    pub fn read_exact(&mut self, length: usize) -> Outcome<Vec<u8>> {
        while self.unread.len() < length {
            self.more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn read_until(&mut self, end: &[u8]) -> Outcome<Vec<u8>> {
        loop {
            let found = self.unread.windows(end.len()).position(|window| window == end);
            if let Some(start) = found {
                return Ok(self.unread.drain(..start + end.len()).collect());
            }
            self.more()?;
        }
    }

    fn read_to_end(&mut self) -> Outcome<Vec<u8>> {
        let mut body = std::mem::take(&mut self.unread);
        self.stream.read_to_end(&mut body).map_err(doing("read the answer"))?;
        Ok(body)
    }

    fn more(&mut self) -> Outcome<()> {
        let mut buffer = [0; 16 << 10];
        let read = loop {
            match self.stream.read(&mut buffer) {
                // A signal, such as that a child has ended, is nothing that the peer has done.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(doing("read the answer"))?,
            }
        };
        if read == 0 || self.unread.len() > ANSWER_BYTES_MAX {
            return Err(Failure::new("the answer ended early, or is too long"));
        }
        self.unread.extend(buffer.iter().take(read));
        Ok(())
    }
}

/// Sends one request on a connection of its own.
///
/// # Errors
///
/// As [`Connection::open`] and [`Connection::send`].
pub fn send(from: Option<Ipv4Addr>, to: SocketAddr, request: &Request) -> Outcome<Response> {
    Connection::open(from, to)?.send(request)
}

/// A plain GET, as for an admin port.
///
/// # Errors
///
/// As [`send`].
pub fn fetch(to: SocketAddr, target: &str) -> Outcome<Response> {
    send(None, to, &Request::get(target).header("host", to.to_string()))
}

/// The standard library cannot bind a socket before it connects it; tokio can.
fn connect_from(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await
    })?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}
