//! Requests to an admin port, Envoy's or a service's: HTTP/1.1 in plain text, one request a connection.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use crate::output::Fault;

/// How long connecting, and each read and write, may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer: an Envoy with ten thousand clusters stays below.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file with a token.
const TOKEN_BYTES_MAX: u64 = 8_192;

/// Why there is no answer from an admin port.
#[derive(Debug)]
pub(crate) enum AdminError {
    /// Nothing is there, or it does not finish its answer.
    Unreachable(String),
    /// The answer is not the one of an admin port that was meant.
    Answer(String),
}

impl AdminError {
    /// As a fault, with the address.
    pub(crate) fn fault(self, address: &str) -> Fault {
        match self {
            Self::Unreachable(message) => Fault::Unreachable(format!(
                "{address}: {message}: is the service running? --admin HOST:PORT names another port"
            )),
            Self::Answer(message) => Fault::Input(format!("{address}: {message}")),
        }
    }
}

/// An admin port.
pub(crate) struct Admin {
    address: String,
    token: Option<String>,
}

impl Admin {
    /// That at `address` (`host:port`). Requests bring the token in `token_file`, where one is named.
    ///
    /// # Errors
    /// When the file is not good: a sentence.
    pub(crate) fn new(address: &str, token_file: Option<&Path>) -> Result<Self, String> {
        let token = token_file.map(token).transpose()?;
        Ok(Self { address: address.to_owned(), token })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The body of a GET.
    ///
    /// # Errors
    /// When there is no answer, or another than 200: a sentence.
    pub(crate) fn get(&self, path: &str) -> Result<String, AdminError> {
        self.ask("GET", path, None)
    }

    /// The body of an answer; `body` is JSON.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<String, AdminError> {
        let request = self.request(method, path, body);
        let unreachable = |error: std::io::Error| AdminError::Unreachable(error.to_string());
        let answer = self.exchange(&request).map_err(unreachable)?;
        read(&answer, path).map_err(AdminError::Answer)
    }
    fn request(&self, method: &str, path: &str, body: Option<&str>) -> String {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        if let Some(token) = &self.token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        if let Some(body) = body {
            let length = body.len();
            head.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {length}\r\n"
            ));
        }
        format!("{head}\r\n{}", body.unwrap_or_default())
    }

    fn exchange(&self, request: &str) -> std::io::Result<Vec<u8>> {
        let mut last = std::io::Error::other("the name has no address");
        for resolved in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&resolved, PATIENCE) {
                Ok(stream) => return talk(stream, request),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The body of an answer to a request of `path`.
fn read(answer: &[u8], path: &str) -> Result<String, String> {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = match split.and_then(|at| answer.split_at_checked(at)) {
        Some((head, rest)) => (head, rest.get(4..).unwrap_or_default()),
        None => return Err("the answer is no HTTP".to_owned()),
    };
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let body = match head.contains("\r\ntransfer-encoding: chunked") {
        true => unchunked(body).ok_or("the answer ends early")?,
        false => body.to_vec(),
    };
    let body = String::from_utf8(body).map_err(|_| "the answer is no text".to_owned())?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body),
        Some("401") => Err("the admin port wants a token: write --token-file FILE".to_owned()),
        _ => {
            let line = head.lines().next().unwrap_or_default();
            let why = body.lines().next().unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            Err(format!("{path} is answered {line:?}, {why:?}: is this the right admin port?"))
        }
    }
}

fn talk(mut stream: TcpStream, request: &str) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The token in a file, as it goes into a header field.
fn token(file: &Path) -> Result<String, String> {
    let refuse = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| refuse(&error))?;
    let read = opened.take(TOKEN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| refuse(&error))?;
    let token = text.trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(refuse(&"a token is visible characters of ASCII")),
    }
}

/// A body without its chunks (RFC 9112, section 7.1); nothing when it is cut off.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let line = str::from_utf8(body.get(..end)?).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        let rest = body.get(end + 2..)?;
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(rest.get(..size)?);
        body = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// A text as a value in a query.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        for (body, whole) in [
            ("5\r\nhello\r\n0\r\n\r\n", Some("hello")),
            ("2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", Some("hello")),
            ("0\r\n\r\n", Some("")),
            ("5\r\nhel", None),
            ("x\r\nhello\r\n0\r\n\r\n", None),
            ("ffffffffffffffff\r\nhello", None),
            ("", None),
        ] {
            let wanted = whole.map(|text| text.as_bytes().to_vec());
            assert_eq!(unchunked(body.as_bytes()), wanted, "{body:?}");
        }
    }

    #[test]
    fn requests_bring_the_token() {
        let file = std::env::temp_dir().join(format!("glacis-cli-token-{}", std::process::id()));
        for (content, expected) in [
            (&b"0123456789abcdef\n"[..], Some("0123456789abcdef")),
            (b"", None),
            (b"two words", None),
            (b"a\r\nx-other: 1", None),
            (b"\xff", None),
        ] {
            std::fs::write(&file, content).unwrap();
            let found = token(&file);
            assert_eq!(found.as_deref().ok(), expected, "{content:?}");
        }
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let admin = Admin::new("127.0.0.1:1", Some(&file)).unwrap();
        let request = admin.request("PUT", "/bans", Some("{}"));
        assert_eq!(
            request,
            "PUT /bans HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\n\
             authorization: Bearer 0123456789abcdef\r\ncontent-type: application/json\r\n\
             content-length: 2\r\n\r\n{}"
        );
        let admin = Admin::new("127.0.0.1:1", None).unwrap();
        assert!(!admin.request("GET", "/", None).contains("authorization"));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn any_text_fits_into_a_query() {
        assert_eq!(encoded("^a\\.|b&"), "%5e%61%5c%2e%7c%62%26");
    }
}
