//! One request of HTTP/1.1 as it is on the wire, or as people write it down.

use super::Parts;

/// Whether a line begins a request: a method, a target, and the protocol, which may be left out before a path.
pub(super) fn is_request_line(line: &[u8]) -> bool {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let Some(at) = line.iter().position(|byte| *byte == b' ') else { return false };
    let (method, rest) = line.split_at_checked(at).unwrap_or_default();
    let is_method =
        !method.is_empty() && method.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'-');
    let rest = rest.trim_ascii_start();
    let has_protocol =
        line.rsplit(|byte| *byte == b' ').next().is_some_and(|last| last.starts_with(b"HTTP/"));
    is_method && !rest.is_empty() && (has_protocol || rest.starts_with(b"/"))
}

/// Reads a request; lines end with CRLF or LF.
///
/// # Errors
/// When there is no request line, or a header has no colon.
pub(super) fn request(text: &[u8]) -> Result<Parts, String> {
    let mut rest = text.trim_ascii_start();
    let first = line(&mut rest).trim_ascii_end();
    let mut words = first.splitn(2, |byte| *byte == b' ');
    let method = words.next().unwrap_or_default().to_vec();
    let target = words.next().unwrap_or_default().trim_ascii();
    // A target that is not encoded may have spaces; the protocol is the last word.
    let at = target.iter().rposition(|byte| *byte == b' ');
    let (target, protocol) = match at.and_then(|at| target.split_at_checked(at)) {
        Some((target, protocol)) if protocol.trim_ascii().starts_with(b"HTTP/") => {
            (target, protocol.trim_ascii())
        }
        _ => (target, &b"HTTP/1.1"[..]),
    };
    if target.is_empty() {
        return Err("no request line: METHOD TARGET HTTP/1.1".to_owned());
    }
    let mut request =
        Parts { method, uri: target.to_vec(), protocol: protocol.to_vec(), ..Parts::default() };
    while !rest.is_empty() {
        let header = line(&mut rest);
        if header.is_empty() {
            break;
        }
        if header.starts_with(b" ") || header.starts_with(b"\t") {
            // A folded line belongs to the one before.
            if let Some((_, value)) = request.headers.last_mut() {
                value.push(b' ');
                value.extend(header.trim_ascii());
                continue;
            }
        }
        let Some(colon) = header.iter().position(|byte| *byte == b':') else {
            let shown = String::from_utf8_lossy(header);
            return Err(format!("header line without a colon: {shown}"));
        };
        let (name, value) = header.split_at_checked(colon).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        request.headers.push((name, value.get(1..).unwrap_or_default().trim_ascii().to_vec()));
    }
    if !rest.is_empty() {
        request.body = Some(body(&request, rest));
    }
    Ok(request)
}

/// The body: what Content-Length covers where there is more, such as the line end that an editor adds.
fn body(request: &Parts, rest: &[u8]) -> Vec<u8> {
    let mut lengths =
        request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().and_then(|(_, value)| str::from_utf8(value).ok()?.parse().ok());
    rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest).to_vec()
}

/// Takes one line, without its end.
fn line<'t>(rest: &mut &'t [u8]) -> &'t [u8] {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = match end {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default()),
        None => (*rest, &[][..]),
    };
    *rest = after;
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::{is_request_line, request};

    #[test]
    fn raw_requests_are_read() {
        let text =
            b"POST /a b?x=<y> HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc\n";
        let read = request(text).unwrap();
        assert_eq!(
            (read.method.as_slice(), read.uri.as_slice()),
            (&b"POST"[..], &b"/a b?x=<y>"[..])
        );
        assert_eq!(read.headers.get(1), Some(&("X".to_owned(), b"a b".to_vec())));
        assert_eq!(read.body.as_deref(), Some(&b"abc"[..]));
        assert_eq!(request(b"GET /\n").unwrap().protocol, b"HTTP/1.1");
        assert!(request(b"GET / HTTP/1.1\nno colon\n").is_err());
        for (line, expected) in [
            ("GET /?q=1 HTTP/1.1", true),
            ("GET /?q=1", true),
            ("GET http://a/ HTTP/1.1", true),
            ("get the file", false),
            ("requests.jsonl", false),
            ("A b", false),
        ] {
            assert_eq!(is_request_line(line.as_bytes()), expected, "{line}");
        }
    }
}
