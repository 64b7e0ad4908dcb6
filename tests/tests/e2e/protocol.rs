//! Attacks on the protocol: shapes that mean one thing to Envoy and perhaps another to an upstream, and floods. For
//! each: who answers, and what. What Envoy refuses never reaches the rules; what reaches the upstream is what was
//! inspected.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use glacis_tests::http::{BROWSER, Connection, Request};
use glacis_tests::stack::Processor;

use crate::support::{Own, client, eventually, shared};

/// Who answers, and how: the status, and how Envoy's reason for it begins (`%RESPONSE_CODE_DETAILS%`).
type Answer = (u16, &'static str);

const PASSED: Answer = (200, "via_upstream");
const FORBIDDEN: Answer = (403, "glacis_");
/// Our answer to a body that cannot be read, or to more of something than is read.
const MALFORMED: Answer = (400, "glacis_");
const CODEC: Answer = (400, "http1.codec_error");
const NUL: Answer = (400, "http1.invalid_characters");
const OLD: Answer = (426, "low_version");

/// Sends bytes as a client of its own; the status of the first answer, 0 if there was none.
fn first_status(from: Ipv4Addr, bytes: &[u8]) -> u16 {
    let mut connection = Connection::open(Some(from), shared().proxy()).unwrap();
    // Envoy may answer and close before it has read everything.
    let _ = connection.write(bytes);
    connection.read_head().map_or(0, |head| head.status)
}

/// Sends each row and holds it against its answer, by the access log too.
#[track_caller]
fn check(rows: &[(&str, Vec<u8>, Answer)]) {
    let stack = shared();
    let mut sent = Vec::new();
    for (name, bytes, wanted) in rows {
        let from = client();
        sent.push((name, from, first_status(from, bytes), wanted));
    }
    let mut logged = BTreeMap::new();
    eventually("a line in the access log for each", Duration::from_secs(15), || {
        for line in stack.access_log().unwrap() {
            let client = line["client"].as_str().unwrap_or_default().to_owned();
            logged
                .entry(client)
                .or_insert_with(|| line["details"].as_str().unwrap_or_default().to_owned());
        }
        sent.iter().all(|(_, from, ..)| logged.contains_key(&from.to_string()))
    });
    let mut wrong = Vec::new();
    for (name, from, status, (wanted, reason)) in sent {
        let details = &logged[&from.to_string()];
        if status != *wanted || !details.starts_with(reason) {
            wrong.push(format!("{name}: {status} {details}, not {wanted} {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A request of a browser with these lines in its head, and this body.
fn raw(line: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let mut head = format!("{line}\r\nhost: shop.example\r\n");
    for (name, value) in BROWSER {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(fields);
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

fn post(fields: &str, body: &[u8]) -> Vec<u8> {
    raw(
        "POST /echo HTTP/1.1",
        &format!("content-type: application/x-www-form-urlencoded\r\n{fields}"),
        body,
    )
}

fn get(target: &str) -> Vec<u8> {
    raw(&format!("GET {target} HTTP/1.1"), "", b"")
}

/// Where a body ends, and so where the next request begins: nothing that could be read in two ways goes on.
#[test]
fn where_a_body_ends() {
    let chunked = "transfer-encoding: chunked\r\n";
    check(&[
        (
            "CL.TE",
            post(&format!("content-length: 6\r\n{chunked}"), b"0\r\n\r\nG"),
            (400, "http1.content_length_and_chunked"),
        ),
        (
            "TE.CL",
            post(&format!("{chunked}content-length: 3\r\n"), b"1\r\nx\r\n0\r\n\r\n"),
            (400, "http1.content_length_and_chunked"),
        ),
        (
            "TE.TE",
            post(&format!("{chunked}transfer-encoding: x\r\n"), b"0\r\n\r\n"),
            (501, "http1"),
        ),
        (
            "an unknown coding",
            post("transfer-encoding: xchunked\r\n", b"0\r\n\r\n"),
            (501, "http1"),
        ),
        (
            "chunked, twice",
            post("transfer-encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
            (501, "http1"),
        ),
        ("a blank before the colon", post("transfer-encoding : chunked\r\n", b"0\r\n\r\n"), CODEC),
        ("two lengths", post("content-length: 1\r\ncontent-length: 2\r\n", b"ab"), CODEC),
        ("one length twice", post("content-length: 1\r\ncontent-length: 1\r\n", b"a"), CODEC),
        ("a list of lengths", post("content-length: 1, 1\r\n", b"a"), CODEC),
        ("a signed length", post("content-length: +1\r\n", b"a"), CODEC),
        ("a length below zero", post("content-length: -1\r\n", b"a"), CODEC),
        ("a length of another base", post("content-length: 0x1\r\n", b"a"), CODEC),
        ("a length beyond 64 bits", post("content-length: 99999999999999999999\r\n", b"a"), CODEC),
        // Envoy reads what follows in one way only, and writes it anew for the upstream.
        ("a folded field", post("x-a: b\r\n c\r\ncontent-length: 1\r\n", b"a"), PASSED),
        ("a folded coding", post("transfer-encoding:\r\n chunked\r\n", b"0\r\n\r\n"), PASSED),
        ("a size of a chunk that is none", post(chunked, b"g\r\nx\r\n0\r\n\r\n"), CODEC),
        ("a size beyond 64 bits", post(chunked, b"10000000000000001\r\nx\r\n0\r\n\r\n"), CODEC),
        ("a chunk longer than said", post(chunked, b"1\r\nxy\r\n0\r\n\r\n"), PASSED),
        ("a field with a bare CR", post("x-a: b\rc\r\ncontent-length: 1\r\n", b"a"), PASSED),
        ("a field with NUL", post("x-a: b\0c\r\ncontent-length: 1\r\n", b"a"), NUL),
        ("a name with a blank", post("x a: b\r\ncontent-length: 1\r\n", b"a"), CODEC),
        ("a field without a name", post(": b\r\ncontent-length: 1\r\n", b"a"), CODEC),
        ("no version", raw("GET /", "", b""), OLD),
        ("HTTP/1.0", raw("GET / HTTP/1.0", "", b""), OLD),
        ("a version of the future", raw("GET / HTTP/1.7", "", b""), OLD),
        ("a method that is none", raw("G@T / HTTP/1.1", "", b""), CODEC),
        ("two hosts", raw("GET / HTTP/1.1", "host: other.example\r\n", b""), MALFORMED),
    ]);
}

/// The second of two requests in one packet is a request of its own: what hides behind a body is inspected.
#[test]
fn what_follows_is_inspected() {
    let form = "application/x-www-form-urlencoded";
    let first = Request::post("/echo", form, "a=1").browser().bytes();
    let second = Request::get("/echo?q=%3Cscript%3Ealert(1)%3C/script%3E").browser().bytes();
    let mut connection = Connection::open(Some(client()), shared().proxy()).unwrap();
    let answer = connection.exchange(&[first, second].concat(), "").unwrap();
    assert_eq!(answer.status, 200);
    // What has reached the upstream ends where the length says.
    assert_eq!(answer.json()["body"], "a=1");
    assert_eq!(connection.exchange(b"", "").unwrap().status, 403);
}

/// Envoy takes a bare CR out of a field: rules and upstream see the same, and no second field.
#[test]
fn a_bare_cr_begins_no_field() {
    let bytes = raw("GET /echo HTTP/1.1", "x-a: b\rx-b: c\r\n", b"");
    let mut connection = Connection::open(Some(client()), shared().proxy()).unwrap();
    let answer = connection.exchange(&bytes, "").unwrap();
    let seen = &answer.json()["headers"];
    let of = |name: &str| seen.as_array().unwrap().iter().find(|field| field[0] == *name).cloned();
    assert_eq!(of("x-a").unwrap()[1], "bx-b: c");
    assert_eq!(of("x-b"), None);
}

#[test]
fn more_of_it_than_is_read() {
    let many = |count: usize, each: fn(usize) -> String| (0..count).map(each).collect::<String>();
    let query = many(1_100, |n| format!("a{n}=1&"));
    let cookies = format!("cookie: {}\r\n", many(300, |n| format!("c{n}=1; ")));
    let form = "application/x-www-form-urlencoded";
    check(&[
        ("fields", raw("GET / HTTP/1.1", &many(120, |n| format!("x-{n}: 1\r\n")), b""), (431, "")),
        (
            "a field of 70 KiB",
            raw("GET / HTTP/1.1", &format!("x-a: {}\r\n", "a".repeat(70 << 10)), b""),
            (431, ""),
        ),
        ("a path of 70 KiB", get(&format!("/{}", "a".repeat(70 << 10))), (431, "")),
        ("arguments in a query", get(&format!("/echo?{query}")), MALFORMED),
        // Of a body a million are read.
        (
            "arguments in a form",
            Request::post("/echo", form, query).browser().bytes(),
            (200, "via_upstream"),
        ),
        ("cookies", raw("GET /echo HTTP/1.1", &cookies, b""), (431, "glacis_")),
    ]);
}

/// Rules and upstream see the path as it was written. What could be an attempt to reach another one is refused or,
/// where it is nothing but odd, passed on unchanged.
#[test]
fn paths_that_could_mean_another_one() {
    check(&[
        ("dot segments", get("/a/../../../../etc/passwd"), FORBIDDEN),
        ("coded dots", get("/a/%2e%2e/%2e%2e/%2e%2e/etc/passwd"), FORBIDDEN),
        ("coded slashes", get("/a/..%2f..%2f..%2fetc%2fpasswd"), FORBIDDEN),
        ("coded twice", get("/a/..%252f..%252f..%252fetc%252fpasswd"), FORBIDDEN),
        ("overlong UTF-8", get("/a/..%c0%af..%c0%af..%c0%afetc/passwd"), FORBIDDEN),
        ("backslashes", get("/a/..\\..\\..\\windows\\win.ini"), FORBIDDEN),
        ("parameters of segments", get("/a/..;/..;/etc/passwd"), FORBIDDEN),
        ("a coded NUL", get("/echo?file=a.txt%00.png"), FORBIDDEN),
        ("a NUL", get("/echo\0.png"), NUL),
        ("two slashes", get("//echo"), PASSED),
        ("a parameter of a segment", get("/echo;a=b"), PASSED),
        ("a coded slash", get("/a%2fb"), PASSED),
        ("a fragment", get("/echo#a"), (400, "")),
        ("no slash", get("echo"), (400, "")),
        ("an absolute form", get("http://shop.example/echo"), PASSED),
        (
            "an absolute form with an attack",
            get("http://shop.example/?q=%3Cscript%3Ealert(1)%3C/script%3E"),
            FORBIDDEN,
        ),
        ("invalid UTF-8", get("/echo?q=%ff%fe"), PASSED),
        (
            "invalid UTF-8 around an attack",
            get("/echo?q=%ff%3Cscript%3Ealert(1)%3C/script%3E%fe"),
            FORBIDDEN,
        ),
    ]);
}

/// One argument with several values: each is looked at.
#[test]
fn arguments_of_one_name() {
    check(&[
        ("harmless", get("/echo?id=1&id=2"), PASSED),
        ("the first", get("/echo?id=1'+UNION+SELECT+password+FROM+users--&id=2"), FORBIDDEN),
        ("the last", get("/echo?id=2&id=1'+UNION+SELECT+password+FROM+users--"), FORBIDDEN),
        ("as a list", get("/echo?id[]=2&id[]=1'+UNION+SELECT+password+FROM+users--"), FORBIDDEN),
        (
            "in query and body",
            Request::post(
                "/echo?id=2",
                "application/x-www-form-urlencoded",
                "id=1'+UNION+SELECT+password+FROM+users--",
            )
            .browser()
            .bytes(),
            FORBIDDEN,
        ),
    ]);
}

fn part(head: &str, body: &str) -> String {
    format!("--b\r\n{head}\r\n\r\n{body}\r\n")
}

/// Bodies that an application may read in another way than the rules do.
#[test]
fn bodies_that_parsers_read_differently() {
    const XSS: &str = "<script>alert(1)</script>";
    let send = |content_type: &str, body: String| {
        Request::post("/echo", content_type, body).browser().bytes()
    };
    let multipart =
        |parts: &str| send("multipart/form-data; boundary=b", format!("{parts}--b--\r\n"));
    let field = "content-disposition: form-data; name=\"a\"";
    let json = "application/json";
    check(&[
        ("multipart", multipart(&part(field, "plain")), PASSED),
        ("an attack in a part", multipart(&part(field, XSS)), FORBIDDEN),
        ("parts of one name", multipart(&(part(field, "plain") + &part(field, XSS))), FORBIDDEN),
        (
            "an attack in a name",
            multipart(&part(
                "content-disposition: form-data; name=\"<script>alert(1)</script>\"",
                "a",
            )),
            FORBIDDEN,
        ),
        (
            "a name of a file that runs",
            multipart(&part("content-disposition: form-data; name=\"a\"; filename=\"a.php\"", "a")),
            FORBIDDEN,
        ),
        (
            "filename*",
            multipart(&part(
                "content-disposition: form-data; name=\"a\"; filename=\"a.txt\"; filename*=UTF-8''a.php",
                "a",
            )),
            FORBIDDEN,
        ),
        (
            "two boundaries",
            send("multipart/form-data; boundary=b; boundary=c", part(field, XSS) + "--b--\r\n"),
            MALFORMED,
        ),
        ("no boundary", send("multipart/form-data", part(field, XSS) + "--b--\r\n"), MALFORMED),
        ("no end", send("multipart/form-data; boundary=b", part(field, "plain")), MALFORMED),
        (
            "text before the first part",
            send(
                "multipart/form-data; boundary=b",
                format!("{XSS}\r\n{}--b--\r\n", part(field, "a")),
            ),
            MALFORMED,
        ),
        (
            "a part in base64",
            multipart(&part(
                &format!("{field}\r\ncontent-transfer-encoding: base64"),
                "PHNjcmlwdD4=",
            )),
            FORBIDDEN,
        ),
        (
            "another charset",
            send("application/x-www-form-urlencoded; charset=ibm037", "a=1".to_owned()),
            FORBIDDEN,
        ),
        (
            "two charsets",
            send(
                "application/x-www-form-urlencoded; charset=utf-8; charset=utf-7",
                "a=1".to_owned(),
            ),
            FORBIDDEN,
        ),
        ("a key twice", send(json, format!(r#"{{"a": "plain", "a": "{XSS}"}}"#)), FORBIDDEN),
        (
            "a key twice, the other way",
            send(json, format!(r#"{{"a": "{XSS}", "a": "plain"}}"#)),
            FORBIDDEN,
        ),
        (
            "escapes",
            send(json, r#"{"a": "\u003cscript\u003ealert(1)\u003c/script\u003e"}"#.to_owned()),
            FORBIDDEN,
        ),
        ("an attack in a key", send(json, format!(r#"{{"{XSS}": 1}}"#)), FORBIDDEN),
        ("200 lists in each other", send(json, "[".repeat(200) + &"]".repeat(200)), MALFORMED),
        ("JSON that is cut off", send(json, r#"{"a": "#.to_owned()), MALFORMED),
        ("something behind JSON", send(json, format!(r#"{{"a": 1}} {XSS}"#)), MALFORMED),
        ("a form that says it is JSON", send(json, "a=1".to_owned()), MALFORMED),
        (
            "JSON that says it is a form",
            send("application/x-www-form-urlencoded", format!(r#"{{"a": "{XSS}"}}"#)),
            FORBIDDEN,
        ),
        ("a type that is not allowed", send("application/x-java", XSS.to_owned()), FORBIDDEN),
        (
            "no type",
            raw("POST /echo HTTP/1.1", "content-length: 25\r\n", XSS.as_bytes()),
            FORBIDDEN,
        ),
    ]);
}

/// Compressed bodies: what they decode to is what is looked at, up to a limit.
#[test]
fn compressed_bodies() {
    let compressed = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let form = "application/x-www-form-urlencoded";
    let send = |body: Vec<u8>| {
        Request::post("/echo", form, body).header("content-encoding", "gzip").browser().bytes()
    };
    let bomb = compressed(&vec![b'a'; 16 << 20]);
    assert!(bomb.len() < 100 << 10);
    check(&[
        ("a form", send(compressed(b"a=1")), PASSED),
        ("an attack", send(compressed(b"a=<script>alert(1)</script>")), FORBIDDEN),
        ("16 MiB of nothing in 16 KiB", send(bomb), MALFORMED),
        ("no gzip at all", send(b"a=<script>alert(1)</script>".to_vec()), MALFORMED),
    ]);
}

/// Frames of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET /` of shop.example, as HPACK writes it without compression (RFC 7541, section 6).
fn head() -> Vec<u8> {
    let mut block = vec![0x82, 0x84, 0x86, 0x01, 12];
    block.extend_from_slice(b"shop.example");
    block
}

/// A field without a place in the table.
fn field(name: &str, value: &str) -> Vec<u8> {
    let (name_length, value_length) = (name.len() as u8, value.len() as u8);
    [&[0, name_length], name.as_bytes(), &[value_length], value.as_bytes()].concat()
}

/// What a connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection over HTTP/2, to be spoken to by hand.
fn http2(proxy: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Sends so many frames; whether Envoy ends the connection. Many go with one write: of frames that come one by one
/// Envoy can answer each before the next is there, and that is no flood.
fn ends_at(proxy: SocketAddr, mut frames: impl FnMut(u32) -> Vec<u8>, count: u32) -> bool {
    const TOGETHER: u32 = 4_000;
    let mut stream = http2(proxy);
    for first in (0..count).step_by(TOGETHER as usize) {
        let last = count.min(first + TOGETHER);
        let many: Vec<u8> = (first..last).flat_map(&mut frames).collect();
        if stream.write_all(&many).is_err() {
            return true;
        }
    }
    // The end of the connection, with a reset or without, or nothing for ten seconds.
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Floods of frames end the connection that they come by, and nobody else's.
#[test]
fn floods_over_http2() {
    let endless = |number| match number {
        0 => frame(HEADERS, END_STREAM, 1, &head()),
        _ => frame(CONTINUATION, 0, 1, &field("x-a", &"a".repeat(100))),
    };
    let empty = |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &head()),
        _ => frame(DATA, 0, 1, &[]),
    };
    type Frames = Box<dyn FnMut(u32) -> Vec<u8>>;
    let rows: Vec<(&str, Frames, u32)> = vec![
        ("rapid reset", Box::new(rapid), 20_000),
        ("CONTINUATION", Box::new(endless), 20_000),
        ("empty DATA", Box::new(empty), 20_000),
        ("PING", Box::new(|_| frame(PING, 0, 0, &[0; 8])), 100_000),
        ("SETTINGS", Box::new(|_| frame(SETTINGS, 0, 0, &[])), 100_000),
    ];
    // Streams that are opened by thousands take places at ext-proc for a moment, so nobody else is to be there.
    let stack = Own::start("floods", Processor::ExtProc, &[]);
    for (name, frames, count) in rows {
        assert!(ends_at(stack.0.proxy(), frames, count), "{name}: the connection does not end");
        let request = Request::get("/echo").browser();
        eventually(&format!("an answer after {name}"), Duration::from_secs(5), || {
            stack.0.send(client(), &request).unwrap().status == 200
        });
    }
}

/// Who opens streams and resets them, on connection after connection, each from another address, takes nothing from
/// others: they are answered as ever meanwhile.
#[test]
fn others_are_served_during_a_flood_of_resets() {
    let own = Own::start("resets", Processor::ExtProc, &[]);
    let (stack, over, resets) = (&own.0, AtomicBool::new(false), AtomicU64::new(0));
    let request = Request::get("/echo").browser();
    // The first request finds everything warm that has to be.
    assert_eq!(stack.send(client(), &request).unwrap().status, 200);
    let statuses: Vec<u16> = scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    resets.fetch_add(reset(stack.proxy(), client()), Ordering::Relaxed);
                }
            });
        }
        let answers = (0..100).map(|_| stack.send(client(), &request).map_or(0, |it| it.status));
        let statuses = answers.collect();
        over.store(true, Ordering::Relaxed);
        statuses
    });
    let resets = resets.load(Ordering::Relaxed);
    assert!(resets > 5_000, "{resets} resets are no flood");
    assert_eq!(statuses, vec![200; 100], "after {resets} resets");
}

/// Opens and resets streams on a connection until that ends; how many.
fn reset(proxy: SocketAddr, from: Ipv4Addr) -> u64 {
    const AT_ONCE: u32 = 50;
    let Ok(mut connection) = Connection::open(Some(from), proxy) else { return 0 };
    let preface = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let mut written = connection.write(&preface);
    for number in (0..20_000).step_by(50) {
        let pairs = (number..number + AT_ONCE).map(rapid).collect::<Vec<_>>().concat();
        if written.is_err() {
            return u64::from(number);
        }
        written = connection.write(&pairs);
    }
    20_000
}

/// A stream that is opened and reset at once.
fn rapid(number: u32) -> Vec<u8> {
    let stream = number * 2 + 1;
    let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head());
    [open, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// Heads that HTTP/1.1 would read otherwise: the stream or the connection ends, and nothing reaches an upstream.
#[test]
fn heads_that_only_http2_has() {
    let rows = [
        ("two paths", [head(), vec![0x84]].concat()),
        ("a name in capitals", [head(), field("X-A", "b")].concat()),
        ("a field of the connection", [head(), field("connection", "close")].concat()),
        ("a coding", [head(), field("transfer-encoding", "chunked")].concat()),
        ("a line break in a value", [head(), field("x-a", "b\r\nc: d")].concat()),
        ("a colon in a name", [head(), field("a:b", "c")].concat()),
        ("a blank in a path", [vec![0x82, 0x86, 0x04, 6], b"/a b/c".to_vec()].concat()),
        ("a pseudo field that is none", [head(), field(":a", "b")].concat()),
        ("a length that is not that of the body", [head(), field("content-length", "5")].concat()),
    ];
    // An answer of the upstream is known for one: without these fields the request passes.
    assert_eq!(told(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head())), Told::Passed);
    for (name, block) in rows {
        let head = frame(HEADERS, END_HEADERS, 1, &block);
        let told = told(&[head, frame(DATA, END_STREAM, 1, b"ab")].concat());
        assert_ne!(told, Told::Passed, "{name} has reached the upstream");
    }
}

/// What is said of the request that these frames are, on a connection of its own.
fn told(frames: &[u8]) -> Told {
    let mut stream = http2(shared().proxy());
    // Envoy may end the connection before it has read everything.
    let _ = stream.write_all(frames);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // RST_STREAM, GOAWAY, an answer, or the end.
    loop {
        if let Some(told) = first_answer(&seen) {
            return told;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Told::Nothing,
            Ok(read) => seen.extend(buffer.iter().take(read)),
        }
    }
}

/// What the server says of a request.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Passed,
    Refused,
    Nothing,
}

/// The first frame that is an answer to stream 1, or ends it.
fn first_answer(mut bytes: &[u8]) -> Option<Told> {
    const GOAWAY: u8 = 7;
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (payload, rest) = rest.split_at_checked(length)?;
        match (head[3], payload.first()) {
            // `:status 200` is one byte (RFC 7541, appendix A); where other fields stand before it, it is none of ours.
            (HEADERS, Some(0x88)) => return Some(Told::Passed),
            (HEADERS | RST_STREAM | GOAWAY, _) => return Some(Told::Refused),
            _ => bytes = rest,
        }
    }
    None
}
