//! What the host tells of a request and of a response, and what can be read off the headers.

use core::time::Duration;

use glacis_engine::Endpoint;

/// A header as received; names of pseudo headers begin with a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name, in any case.
    pub name: &'a [u8],
    /// The value, any bytes.
    pub value: &'a [u8],
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// Headers in the order received, among them `:method`, `:path`, `:authority`, `:scheme`.
    pub headers: &'a [Header<'a>],
    /// The protocol as the host names it (`HTTP/1.1`, `HTTP/2`), if it says.
    pub protocol: Option<&'a str>,
    /// Whether there is no body.
    pub end_of_stream: bool,
    /// A name for the request: see [`request_id`].
    pub id: &'a str,
    /// Time since 1970, UTC.
    pub time: Duration,
    /// The address the host was called from.
    pub source: Option<Endpoint>,
    /// The address the host was called on.
    pub destination: Option<Endpoint>,
    /// The user whom a filter before the host has authenticated, if there is one (`REMOTE_USER`).
    pub user: Option<&'a str>,
    /// A number from 0 to 99 that the host draws for each request: whether it is in a
    /// [`Sample`](crate::Sample). A client must not be able to foresee it.
    pub lot: u8,
    /// Another such number: whether it is in the [`Sample`](crate::Sample) of requests that pass and are
    /// recorded.
    pub audit_lot: u8,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// Headers in the order received, among them `:status`.
    pub headers: &'a [Header<'a>],
    /// Whether there is no body.
    pub end_of_stream: bool,
}

/// Bytes accepted of an `x-request-id`: a UUID has 36.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The value of `x-request-id`, when it can stand in logs and replies as it is.
///
/// Otherwise the host has to make up a name: what a client chose must not garble a log.
#[must_use]
pub fn request_id<'a>(headers: &[Header<'a>]) -> Option<&'a str> {
    let value = find(headers, b"x-request-id")?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let usable = (1..=REQUEST_ID_BYTES_MAX).contains(&value.len()) && value.iter().all(plain);
    if usable { core::str::from_utf8(value).ok() } else { None }
}

/// The first header of this name.
#[must_use]
pub fn find<'a>(headers: &[Header<'a>], name: &[u8]) -> Option<&'a [u8]> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// Names and values of all cookies, in the order sent (RFC 6265, 4.2.1); what is no pair is left out.
pub fn cookies<'h>(headers: &'h [Header<'_>]) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    let named = |header: &&Header<'_>| header.name.eq_ignore_ascii_case(b"cookie");
    let pairs =
        headers.iter().filter(named).flat_map(|header| header.value.split(|byte| *byte == b';'));
    pairs.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = pair.split_at_checked(at)?;
        Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
    })
}

/// The `cookie` header without one of this name; `None` if nothing is left.
#[must_use]
pub fn cookies_without(headers: &[Header<'_>], name: &str) -> Option<String> {
    let rest = cookies(headers).filter(|(key, _)| *key != name.as_bytes());
    let rest = rest.map(|(key, value)| {
        format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
    });
    let rest = rest.collect::<Vec<_>>().join("; ");
    (!rest.is_empty()).then_some(rest)
}

/// The bytes of `:path` behind the first question mark.
#[must_use]
pub fn query<'h>(headers: &[Header<'h>]) -> &'h [u8] {
    let path = find(headers, b":path").unwrap_or_default();
    let at = path.iter().position(|byte| *byte == b'?');
    at.and_then(|at| path.get(at + 1..)).unwrap_or_default()
}

/// Whether a list of tokens (RFC 9110, 5.6.1) in any header of this name has `token`.
fn has_token(headers: &[Header<'_>], name: &[u8], token: &[u8]) -> bool {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name))
        .flat_map(|header| header.value.split(|&byte| byte == b','))
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

/// The announced size of the body. More than one announcement that differ are refused by Envoy.
pub(crate) fn content_length(headers: &[Header<'_>]) -> Option<usize> {
    let value = find(headers, b"content-length")?;
    core::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn media_type<'a>(headers: &[Header<'a>]) -> &'a [u8] {
    let value = find(headers, b"content-type").unwrap_or_default();
    value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether the media type is one of gRPC (`application/grpc`, `application/grpc+proto`, `application/grpc-web`).
/// Any client may write it: see [`is_grpc_call`].
pub(crate) fn is_grpc(headers: &[Header<'_>]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let media = media_type(headers);
    let Some((start, rest)) = media.split_at_checked(GRPC.len()) else { return false };
    start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b'-'))
}

/// Whether the request is a call of gRPC itself, not of gRPC-Web, whose clients read an answer of HTTP: a POST over
/// HTTP/2 or HTTP/3 with `te: trailers` (gRPC over HTTP/2, "Requests"). Where the host does not say which protocol it
/// is, it is none.
pub(crate) fn is_grpc_call(head: &RequestHead<'_>) -> bool {
    is_multiplexed(head) && has_grpc_headers(head.headers)
}

/// Whether the headers are those of a call of gRPC, for a host that does not know the protocol: only what is shown to
/// a client may depend on it.
pub(crate) fn has_grpc_headers(headers: &[Header<'_>]) -> bool {
    find(headers, b":method").is_some_and(|method| method == b"POST")
        && has_token(headers, b"te", b"trailers")
        && is_grpc(headers)
        && !media_type(headers).contains(&b'-')
}

/// Whether the protocol is HTTP/2 or HTTP/3.
fn is_multiplexed(head: &RequestHead<'_>) -> bool {
    head.protocol.is_some_and(|name| name.starts_with("HTTP/2") || name.starts_with("HTTP/3"))
}

/// Whether the body is a stream of server-sent events, which has no end to wait for.
pub(crate) fn is_event_stream(headers: &[Header<'_>]) -> bool {
    media_type(headers).eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether the request opens a WebSocket: what follows the headers is not a body, and waiting for its
/// end would hang the handshake.
///
/// RFC 6455, 4.1 (HTTP/1.1: GET with key) and RFC 8441, 4 (HTTP/2 and 3: extended CONNECT, which
/// Envoy shows to filters as GET with the two headers and no key). A request that merely carries some
/// of these headers, or has a body of its own, is none: that would be a way around inspection.
pub(crate) fn is_websocket(head: &RequestHead<'_>) -> bool {
    let headers = head.headers;
    let has_method = |name: &[u8]| find(headers, b":method").is_some_and(|method| method == name);
    let has_key = || find(headers, b"sec-websocket-key").is_some();
    let handshake = || asks_for_websocket(headers) && (is_multiplexed(head) || has_key());
    let extended = || find(headers, b":protocol").is_some_and(|name| name == b"websocket");
    !has_framed_body(headers)
        && ((has_method(b"GET") && handshake()) || (has_method(b"CONNECT") && extended()))
}

/// Whether the request asks for a WebSocket, but is no handshake: it has another method, a body, or no key. Envoy shows
/// no end of any of them.
pub(crate) fn is_malformed_websocket(head: &RequestHead<'_>) -> bool {
    asks_for_websocket(head.headers) && !is_websocket(head)
}

fn asks_for_websocket(headers: &[Header<'_>]) -> bool {
    has_token(headers, b"upgrade", b"websocket") && has_token(headers, b"connection", b"upgrade")
}

/// Whether the headers announce a body.
fn has_framed_body(headers: &[Header<'_>]) -> bool {
    find(headers, b"content-length").is_some_and(|length| length != b"0")
        || find(headers, b"transfer-encoding").is_some()
}

/// Whether what follows the headers of a request is a body with an end: not frames of a WebSocket, a tunnel or
/// messages of gRPC.
#[must_use]
pub fn has_body(head: &RequestHead<'_>) -> bool {
    !head.end_of_stream && !is_websocket(head) && !is_tunnel(head.headers) && !is_grpc_call(head)
}

/// The same of a response: nothing that goes on as long as somebody listens.
#[must_use]
pub fn has_response_body(head: &ResponseHead<'_>) -> bool {
    let switched = find(head.headers, b":status") == Some(b"101");
    !head.end_of_stream && !switched && !is_event_stream(head.headers) && !is_grpc(head.headers)
}

/// Whether the request opens a tunnel: it has no content (RFC 9110, 9.3.6), and what follows are bytes
/// for somebody else, which come only once it has been answered. Waiting for their end would hang it.
pub(crate) fn is_tunnel(headers: &[Header<'_>]) -> bool {
    find(headers, b":method").is_some_and(|method| method == b"CONNECT")
}

/// Whether the body was sent in chunks, although no header says so: Envoy takes `Transfer-Encoding` out,
/// and rules that look for it or for `Content-Length` would take the request for a malformed one. In
/// HTTP/1.1 a body without a length has chunks (RFC 9112, 6.3).
pub(crate) fn is_chunked(head: &RequestHead<'_>) -> bool {
    let framed = |name: &[u8]| find(head.headers, name).is_some();
    head.protocol == Some("HTTP/1.1")
        && !head.end_of_stream
        && !framed(b"content-length")
        && !framed(b"transfer-encoding")
        && !is_tunnel(head.headers)
        && !is_websocket(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<'a>(pairs: &'a [(&'a str, &'a str)]) -> Vec<Header<'a>> {
        let header = |(name, value): &(&'a str, &'a str)| Header {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        pairs.iter().map(header).collect()
    }

    fn head<'h>(headers: &'h [Header<'h>], protocol: Option<&'h str>) -> RequestHead<'h> {
        RequestHead {
            headers,
            protocol,
            end_of_stream: false,
            id: "",
            time: Duration::ZERO,
            source: None,
            destination: None,
            user: None,
            lot: 0,
            audit_lot: 0,
        }
    }

    #[test]
    fn genuine_websockets() {
        let upgrade = [("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade")];
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        for (protocol, more, expected) in [
            ("HTTP/1.1", vec![(":method", "GET"), key], true),
            ("HTTP/1.1", vec![(":method", "GET")], false),
            ("HTTP/1.1", vec![(":method", "POST"), key], false),
            ("HTTP/1.1", vec![(":method", "GET"), key, ("content-length", "10")], false),
            ("HTTP/1.1", vec![(":method", "GET"), key, ("transfer-encoding", "chunked")], false),
            ("HTTP/1.1", vec![(":method", "GET"), key, ("content-length", "0")], true),
            ("HTTP/2", vec![(":method", "GET")], true),
            ("HTTP/2", vec![(":method", "CONNECT"), (":protocol", "websocket")], true),
            ("HTTP/2", vec![(":method", "CONNECT"), (":protocol", "connect-udp")], false),
        ] {
            let pairs: Vec<_> = more.into_iter().chain(upgrade).collect();
            let headers = headers(&pairs);
            let head = head(&headers, Some(protocol));
            assert_eq!(is_websocket(&head), expected, "{protocol} {pairs:?}");
            assert_eq!(is_malformed_websocket(&head), !expected, "{protocol} {pairs:?}");
        }
    }

    #[test]
    fn grpc_media_types() {
        for (value, expected, is_call) in [
            ("application/grpc", true, true),
            ("application/grpc+proto", true, true),
            ("Application/gRPC-web; a=b", true, false),
            ("application/grpc-web-text+proto", true, false),
            ("application/grpcx", false, false),
            ("application/json", false, false),
            ("", false, false),
        ] {
            let pairs = [("Content-Type", value)];
            assert_eq!(is_grpc(&headers(&pairs)), expected, "{value}");
            let call = [(":method", "POST"), ("te", "trailers"), ("Content-Type", value)];
            for (protocol, call, expected) in [
                (Some("HTTP/2"), call, is_call),
                (Some("HTTP/3"), call, is_call),
                (Some("HTTP/1.1"), call, false),
                (None, call, false),
                (Some("HTTP/2"), [(":method", "GET"), call[1], call[2]], false),
                (Some("HTTP/2"), [call[0], ("te", "gzip"), call[2]], false),
            ] {
                let headers = headers(&call);
                let head = head(&headers, protocol);
                assert_eq!(is_grpc_call(&head), expected, "{protocol:?} {call:?}");
            }
        }
    }

    #[test]
    fn request_ids_that_can_stand_in_a_log() {
        for (value, expected) in [
            ("7f9c2ba4-e88f-4b3e-8f2e-0c1b5d0a9b11", true),
            ("", false),
            ("a b", false),
            ("a\nb", false),
            ("\"}", false),
            (&"a".repeat(129), false),
        ] {
            let id = request_id(&headers(&[("x-request-id", value)])).is_some();
            assert_eq!(id, expected, "{value}");
        }
    }

    #[test]
    fn cookies_that_stay() {
        for (given, expected) in [
            (&[("cookie", "a=b; key=1; c=d")][..], Some("a=b; c=d")),
            (&[("cookie", "key=1"), ("cookie", "c=d")], Some("c=d")),
            (&[("cookie", "key=1")], None),
            (&[], None),
        ] {
            assert_eq!(cookies_without(&headers(given), "key").as_deref(), expected, "{given:?}");
        }
    }

    #[test]
    fn what_is_behind_the_question_mark() {
        for (path, expected) in [("/a?b=c", "b=c"), ("/a", ""), ("/a?", ""), ("/a?b?c", "b?c")] {
            let expected = expected.as_bytes();
            assert_eq!(query(&headers(&[(":path", path)])), expected, "{path}");
        }
    }
}
