//! What is no attack reaches the upstream as it was sent.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_tests::http::{Connection, Request, Response};
use glacis_tests::stack::Stack;
use glacis_tests::upstream::{EVENT_PAUSE, EVENTS};
use glacis_tests::{http2, websocket};
use serde_json::Value;

use crate::support::{client, eventually, metric, native, shared};

/// What Envoy adds; anything else that differs is a finding.
const ADDED: &[&str] =
    &["x-forwarded-for", "x-forwarded-proto", "x-request-id", "x-envoy-external-address"];
/// What a connection has of its own, or is compared in another way.
const OF_THE_CONNECTION: &[&str] = &["host", "content-length", "transfer-encoding", "te"];

fn requests() -> Vec<(&'static str, Request)> {
    let multipart = concat!(
        "--b0undary\r\ncontent-disposition: form-data; name=\"title\"\r\n\r\nHolidays\r\n",
        "--b0undary\r\ncontent-disposition: form-data; name=\"photo\"; filename=\"beach.jpg\"\r\n",
        "content-type: image/jpeg\r\n\r\n\u{ff}\u{d8}\u{ff}\r\n--b0undary--\r\n",
    );
    let multipart_type = "multipart/form-data; boundary=b0undary";
    let form = "name=J%C3%BCrgen+M%C3%BCller&city=K%C3%B6ln&note=see+you+at+5";
    let json = r#"{"items": [{"sku": "A-17", "count": 2}], "note": "leave it at the door"}"#;
    // 200 kB in a file field: more than Envoy's window, in many pieces.
    let mut upload = b"--b0undary\r\ncontent-disposition: form-data; name=\"file\"; \
        filename=\"report.bin\"\r\ncontent-type: application/octet-stream\r\n\r\n"
        .to_vec();
    upload.extend((0..200_000u32).map(|i| b"glacis and ice "[i as usize % 15]));
    upload.extend(b"\r\n--b0undary--\r\n");
    vec![
        ("get", Request::get("/echo?q=winter%20coat&page=2").browser()),
        ("open route", Request::get("/open/echo?q=winter+coat").browser()),
        ("header bytes", Request::get("/echo").header("x-note", b"caf\xe9").browser()),
        ("repeated", Request::get("/echo").header("x-a", "1").header("x-a", "2").browser()),
        ("form", Request::post("/echo", "application/x-www-form-urlencoded", form).browser()),
        ("json", Request::post("/echo", "application/json", json).browser()),
        ("multipart", Request::post("/echo", multipart_type, multipart).browser()),
        ("upload", Request::post("/echo", multipart_type, upload).browser()),
    ]
}

#[test]
fn http_1_arrives_as_sent() {
    for stack in [shared(), native()] {
        for (name, request) in requests() {
            let answer = stack.send(client(), &request).unwrap();
            check(name, &request, &answer, |headers| headers);
        }
    }
}

/// Over HTTP/2 the cookie may come in pieces, and then stands last.
#[test]
fn http_2_arrives_as_sent() {
    for stack in [shared(), native()] {
        for (name, request) in requests() {
            let answer = http2::send(client(), stack.proxy(), &request).unwrap();
            check(name, &request, &answer, |mut headers| {
                headers.sort_by(|left, right| left.0.cmp(&right.0));
                headers
            });
        }
    }
}

/// Compares what the upstream saw with what was sent.
#[track_caller]
fn check(
    name: &str,
    request: &Request,
    answer: &Response,
    order: impl Fn(Vec<(String, String)>) -> Vec<(String, String)>,
) {
    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    let seen = answer.json();
    assert_eq!(seen["method"], *request.method, "{name}");
    assert_eq!(seen["uri"], *request.target, "{name}");
    let body = STANDARD.decode(seen["body_base64"].as_str().unwrap()).unwrap();
    assert!(body == request.body, "{name}: {} of {} bytes", body.len(), request.body.len());

    let sent = request.headers.iter().map(|(name, value)| {
        (name.to_ascii_lowercase(), String::from_utf8_lossy(value).into_owned())
    });
    let seen = headers(&seen).filter(|(name, _)| !ADDED.contains(&&**name));
    assert_eq!(order(comparable(seen)), order(comparable(sent)), "{name}");
}

fn headers(echoed: &Value) -> impl Iterator<Item = (String, String)> {
    let pairs = echoed["headers"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    pairs.map(move |pair| (text(&pair[0]), text(&pair[1])))
}

fn comparable(headers: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    headers.filter(|(name, _)| !OF_THE_CONNECTION.contains(&&**name)).collect()
}

/// Nobody outside can write what only we may write.
#[test]
fn forged_fields_are_taken_away() {
    let stack = shared();
    let request = Request::get("/echo")
        .header("x-glacis-verdict", "allow")
        .header("X-Glacis-Anything", "1")
        .header("x-glacial", "stays")
        .browser();
    let answer = stack.send(client(), &request).unwrap();
    let seen: Vec<_> = headers(&answer.json()).map(|(name, _)| name).collect();
    assert!(!seen.iter().any(|name| name.starts_with("x-glacis-")), "{seen:?}");
    assert!(seen.iter().any(|name| name == "x-glacial"), "{seen:?}");
}

/// The frames are not inspected, and that is counted.
#[test]
fn a_web_socket_talks() {
    let before = metric(UNINSPECTED);
    talk(shared());
    // It is counted when the exchange is over.
    let counted = || metric(UNINSPECTED) >= before + 1.0;
    eventually("the WebSocket is counted", Duration::from_secs(5), counted);
    let before = native_web_sockets();
    talk(native());
    assert!(native_web_sockets() > before);
}

/// Opens a WebSocket, and closes it after a talk.
#[track_caller]
fn talk(stack: &Stack) {
    let mut connection = Connection::open(Some(client()), stack.proxy()).unwrap();
    let handshake = Request::get("/ws")
        .header("upgrade", "websocket")
        .header("connection", "Upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .browser();
    connection.write(&handshake.bytes()).unwrap();
    let answer = connection.read_head().unwrap();
    assert_eq!(answer.status, 101, "{answer:?}");
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    for text in ["hello", "and again"] {
        connection.write(&websocket::client_frame(text, [1, 2, 3, 4])).unwrap();
        let expected = websocket::server_frame(text.as_bytes());
        assert_eq!(connection.read_exact(expected.len()).unwrap(), expected);
    }
}

/// WebSockets that the native module has counted.
fn native_web_sockets() -> u64 {
    native().envoy.stat("dynamicmodulescustom.glacis_uninspected.reason.websocket").unwrap()
}

const UNINSPECTED: &str = r#"glacis_uninspected_total{reason="websocket"}"#;

/// Over HTTP/2 as well (extended CONNECT), and its headers are inspected as any.
#[test]
fn a_web_socket_talks_over_http_2() {
    // The sample upstream speaks HTTP/1.1, which has a key.
    let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let before = metric(UNINSPECTED);
    for stack in [shared(), native()] {
        let talk =
            |path, texts: &[&str]| http2::web_socket(client(), stack.proxy(), path, &[key], texts);
        let heard = talk("/ws", &["hello", "and again"]).unwrap();
        let expected = ["hello", "and again"].map(|text| websocket::server_frame(text.as_bytes()));
        assert_eq!(heard, expected);
        let refused = talk("/ws?q=%3Cscript%3Ealert(1)%3C/script%3E", &[]).unwrap_err();
        assert_eq!(refused.to_string(), "the answer is 403 Forbidden");
    }
    let counted = || metric(UNINSPECTED) >= before + 1.0;
    eventually("the WebSocket is counted", Duration::from_secs(5), counted);
}

/// Each event arrives before the next is sent: nothing on the way holds the response back.
#[test]
fn events_arrive_one_by_one() {
    for stack in [shared(), native()] {
        events_arrive(stack);
    }
}

#[track_caller]
fn events_arrive(stack: &Stack) {
    let mut connection = Connection::open(Some(client()), stack.proxy()).unwrap();
    connection.write(&Request::get("/events").browser().bytes()).unwrap();
    let head = connection.read_head().unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let mut times = Vec::new();
    while let Some(chunk) = connection.read_chunk().unwrap() {
        assert_eq!(chunk, format!("data: {}\n\n", times.len() + 1).into_bytes());
        times.push(Instant::now());
    }
    assert_eq!(times.len(), EVENTS as usize);
    let spread = times[times.len() - 1] - times[0];
    assert!(spread > EVENT_PAUSE * (EVENTS - 2), "all within {spread:?}");
}

/// Large answers are not held back or cut either.
#[test]
fn a_large_answer_arrives() {
    for stack in [shared(), native()] {
        let answer = stack.send(client(), &Request::get("/size/3000000").browser()).unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 3_000_000));
        assert!(answer.body.iter().all(|byte| *byte == b'x'));
    }
}

/// An address that the deny list does not name: see `limits`.
#[test]
fn each_client_is_seen_with_its_address() {
    let from = Ipv4Addr::new(127, 9, 8, 7);
    let answer = shared().send(from, &Request::get("/echo").browser()).unwrap();
    let seen = headers(&answer.json()).find(|(name, _)| name == "x-forwarded-for").unwrap().1;
    assert_eq!(seen, from.to_string());
}

/// What is too large to be inspected does not arrive at all.
#[test]
fn a_body_beyond_the_limit_is_refused() {
    let limit = 13_107_200;
    let form = "application/x-www-form-urlencoded";
    let request = Request::post("/echo", form, vec![b'a'; limit + 1]).browser();
    for stack in [shared(), native()] {
        let answer = stack.send(client(), &request).unwrap();
        assert_eq!(answer.status, 413, "{}", answer.text());
    }
}
