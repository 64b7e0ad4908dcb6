//! URLs, and what a client sends with them.

use super::Headers;

/// The `User-Agent` of a request whose client is not known.
const USER_AGENT: &[u8] = b"curl/8.14.1";

/// Whether a word is a URL of HTTP.
pub(super) fn is_url(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

/// A URL in its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) user: Option<Vec<u8>>,
    pub(super) host: Vec<u8>,
    /// The path with the query, as it is sent.
    pub(super) target: Vec<u8>,
}

impl Url {
    /// Reads a URL; `http` is assumed where there is no scheme.
    pub(super) fn parse(text: &[u8], as_is: bool) -> Result<Self, String> {
        let shown = String::from_utf8_lossy(text);
        let rest = match text.windows(3).position(|window| window == b"://") {
            Some(at) => {
                let scheme = text.get(..at).unwrap_or_default().to_ascii_lowercase();
                if scheme != b"http" && scheme != b"https" {
                    return Err(format!("{shown}: not a URL of HTTP"));
                }
                text.get(at + 3..).unwrap_or_default()
            }
            None => text,
        };
        let rest = rest.split(|byte| *byte == b'#').next().unwrap_or_default();
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or_default();
        let (user, host) = match authority.iter().rposition(|byte| *byte == b'@') {
            Some(at) => (authority.get(..at), authority.get(at + 1..).unwrap_or_default()),
            None => (None, authority),
        };
        if host.is_empty() {
            return Err(format!("{shown}: no host"));
        }
        let mut target = if path.starts_with(b"/") { Vec::new() } else { vec![b'/'] };
        target.extend(path);
        let target = if as_is { target } else { without_dots(&target) };
        Ok(Self { user: user.map(<[u8]>::to_vec), host: host.to_vec(), target: sendable(&target) })
    }
}

/// What no client sends as it is: white space and bytes beyond ASCII.
fn sendable(target: &[u8]) -> Vec<u8> {
    let mut sent = Vec::new();
    for byte in target {
        match byte {
            0..=b' ' | 0x7f.. => sent.extend(format!("%{byte:02X}").into_bytes()),
            byte => sent.push(*byte),
        }
    }
    sent
}

/// RFC 3986 section 5.2.4, as curl does before it sends a path.
fn without_dots(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at_checked(end).unwrap_or_default();
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push(b"");
        }
    }
    let mut joined = vec![b'/'];
    joined.extend(kept.join(&b'/'));
    joined.extend(query);
    joined
}

/// The headers of a plain request.
pub(super) fn usual_headers(host: &[u8]) -> Headers {
    vec![
        ("Host".to_owned(), host.to_vec()),
        ("User-Agent".to_owned(), USER_AGENT.to_vec()),
        ("Accept".to_owned(), b"*/*".to_vec()),
    ]
}

/// Percent-encodes all but unreserved characters, as `--data-urlencode` does.
pub(super) fn encoded(text: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(*byte)
            }
            byte => encoded.extend(format!("%{byte:02X}").into_bytes()),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn urls_have_parts() {
        for (text, host, target) in [
            ("http://a", "a", "/"),
            ("https://u:p@a:8443?x=1#f", "a:8443", "/?x=1"),
            ("a/b c", "a", "/b%20c"),
            ("a/b/../c/./?q=../<x>", "a", "/c/?q=../<x>"),
            ("a/../..", "a", "/"),
            ("http://[::1]:80/é", "[::1]:80", "/%C3%A9"),
        ] {
            let url = Url::parse(text.as_bytes(), false).unwrap();
            assert_eq!((url.host, url.target), (host.into(), target.into()), "{text}");
        }
        assert!(Url::parse(b"ftp://a/", false).is_err());
        assert!(Url::parse(b"http:///a", false).is_err());
    }
}
