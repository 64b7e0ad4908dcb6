//! A question to Envoy's admin port: HTTP/1.1 on a trusted address, one request a connection.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long connecting, and each read and write, may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer: an Envoy with ten thousand clusters stays below.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The body of a GET.
///
/// # Errors
/// When there is no answer, or another than 200: a sentence.
pub(super) fn get(address: &str, path: &str) -> Result<String, String> {
    let answer = exchange(address, path).map_err(|error| error.to_string())?;
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = match split.and_then(|at| answer.split_at_checked(at)) {
        Some((head, rest)) => (head, rest.get(4..).unwrap_or_default()),
        None => return Err("the answer is no HTTP".to_owned()),
    };
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if head.split(' ').nth(1) != Some("200") {
        let line = head.lines().next().unwrap_or_default();
        return Err(format!("{path} is answered {line:?}: is this the admin port of an Envoy?"));
    }
    let body = match head.contains("\r\ntransfer-encoding: chunked") {
        true => unchunked(body).ok_or("the answer ends early")?,
        false => body.to_vec(),
    };
    String::from_utf8(body).map_err(|_| "the answer is no text".to_owned())
}

fn exchange(address: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut last = std::io::Error::other("the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, PATIENCE) {
            Ok(stream) => return talk(stream, address, path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn talk(mut stream: TcpStream, address: &str, path: &str) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
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
pub(super) fn encoded(text: &str) -> String {
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
    fn any_text_fits_into_a_query() {
        assert_eq!(encoded("^a\\.|b&"), "%5e%61%5c%2e%7c%62%26");
    }
}
