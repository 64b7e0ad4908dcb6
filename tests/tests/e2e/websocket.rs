//! Messages of WebSockets through Envoy, in both hosts and in each body mode: what is no attack arrives unchanged and at
//! once, and what is one ends both halves with a Close frame.

mod peers;

use std::time::Duration;

use glacis_tests::bench::measure::resident_bytes;
use glacis_tests::stack::{Ports, Processor, Stack};
use glacis_tests::{http2, native, websocket};
use serde_json::Value;

use self::peers::{
    BINARY, CLOSE, COMPRESSED, Client, Frame, LEAK, PING, PONG, TEXT, deflated, got, masked, plain,
    serve, turn,
};
use crate::support::{Own, access_log, client, eventually, folder};

/// Besides the defaults: a profile that looks on, and one that inspects no messages.
const KEYS: &str = "
max_streams: 30000
websocket: {inspect: true, message_bytes_max: 8192, frames_max: 100}
profiles:
  look: {mode: detection}
  unseen: {websocket: {inspect: false}}
";

const NATIVE_KEYS: [&str; 2] = [
    "websocket: {inspect: true, message_bytes_max: 8192, frames_max: 100}",
    "profiles: {look: {mode: detection}, unseen: {websocket: {inspect: false}}}",
];

/// The modes of bodies, of requests and responses alike, and whether trailers are sent.
const MODES: [(&str, &str, &str); 5] = [
    ("none", "NONE", "SKIP"),
    ("streamed", "STREAMED", "SEND"),
    ("buffered", "BUFFERED", "SEND"),
    ("partial", "BUFFERED_PARTIAL", "SEND"),
    ("duplex", "FULL_DUPLEX_STREAMED", "SEND"),
];

const ATTACK: &str = r#"{"user":"jo","comment":"<script>alert(1)</script>"}"#;

const OFFER: &str =
    "sec-websocket-extensions: x-other, permessage-deflate; client_max_window_bits\r\n";

fn cluster(port: u16) -> String {
    format!(
        "  clusters:\n  - name: chat\n    type: STATIC\n    circuit_breakers: {{thresholds: [{{max_connections: \
         30000, max_requests: 30000, max_pending_requests: 30000}}]}}\n    load_assignment:\n      cluster_name: chat\n      \
         endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, \
         port_value: {port}}}}}}}}}]}}]\n"
    )
}

fn route(name: &str, more: &str) -> String {
    format!(
        "              - name: {name}\n                match: {{prefix: /{name}/}}\n                \
         route: {{cluster: chat, timeout: 0s}}\n{more}"
    )
}

fn profile(name: &str) -> String {
    route(
        name,
        &format!(
            "                metadata: {{filter_metadata: {{glacis: {{profile: {name}}}}}}}\n"
        ),
    )
}

fn of_ext_proc(name: &str) -> Own {
    let [port] = glacis_tests::ports::free().unwrap();
    serve(port);
    let mode = |(name, body, trailers): &(&str, &str, &str)| {
        route(
            name,
            &format!(
                r#"                typed_per_filter_config:
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides:
                      processing_mode:
                        request_header_mode: SEND
                        response_header_mode: SEND
                        request_body_mode: {body}
                        response_body_mode: {body}
                        request_trailer_mode: {trailers}
                        response_trailer_mode: {trailers}
"#
            ),
        )
    };
    let by_stream = |name: &str| {
        route(
            name,
            &format!(
                r#"                typed_per_filter_config:
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {{grpc_initial_metadata: [{{key: glacis-profile, value: {name}}}]}}
"#
            ),
        )
    };
    let routes: String = MODES.iter().map(mode).collect();
    let routes = format!(
        "{routes}{}{}{}\n              - name: closed\n",
        by_stream("look"),
        by_stream("unseen"),
        route("inspected", "")
    );
    let edits = [("  clusters:\n", &*cluster(port)), ("              - name: closed\n", &routes)];
    Own::on(name, Ports::free().unwrap(), Processor::ExtProcWith(KEYS), &edits)
}

fn of_native(name: &str) -> Own {
    let [port] = glacis_tests::ports::free().unwrap();
    serve(port);
    let routes = format!(
        "{}{}{}\n              - name: closed\n",
        profile("look"),
        profile("unseen"),
        route("inspected", "")
    );
    let edits = [("  clusters:\n", &*cluster(port)), ("              - name: closed\n", &routes)];
    let ports = Ports::free().unwrap();
    Own(native::start(&folder(name), ports, &NATIVE_KEYS, &edits).unwrap())
}

#[test]
fn messages_are_inspected_by_ext_proc() {
    let _turn = turn();
    let own = of_ext_proc("websocket");
    for (mode, ..) in MODES {
        talks(&own.0, mode);
        attacks_close(&own.0, mode, &["whole"], &["leak"]);
    }
    all(&own.0);
    let metrics = own.0.ext_proc.as_ref().unwrap().metrics().unwrap();
    for (from, verdict) in
        [("client", "allow"), ("client", "deny"), ("client", "reject"), ("server", "deny")]
    {
        let name =
            format!("glacis_websocket_messages_total{{from=\"{from}\",verdict=\"{verdict}\"}}");
        assert!(metrics.get(&name).is_some_and(|count| *count > 0.0), "{name}: {metrics:?}");
    }
}

#[test]
fn messages_are_inspected_natively() {
    let _turn = turn();
    let own = of_native("websocket-native");
    all(&own.0);
    for name in
        ["from.client.verdict.allow", "from.client.verdict.deny", "from.server.verdict.deny"]
    {
        let name = format!("dynamicmodulescustom.glacis_websocket_messages.{name}");
        assert!(own.0.envoy.stat(&name).unwrap() > 0, "{name}");
    }
}

/// What holds in both hosts.
fn all(stack: &Stack) {
    talks(stack, "inspected");
    let (attacks, leaks) =
        (["whole", "bytes", "fragments", "reason"], ["leak", "leak in fragments"]);
    attacks_close(stack, "inspected", &attacks, &leaks);
    compressed(stack);
    malformed(stack);
    first_message(stack);
    unasked(stack);
    extensions(stack);
    others_look_on(stack);
    over_http_2(stack);
    real_peers(stack);
    told(stack);
    unclosed(stack);
}

/// What a Close frame says.
fn code(frame: Option<&Frame>) -> Option<u16> {
    let (CLOSE, payload) = frame? else { return None };
    Some(u16::from_be_bytes(payload.get(..2)?.try_into().ok()?))
}

/// What the server has got on a path, with the Close frame at the end.
fn closed(path: &str) -> Vec<Frame> {
    eventually("the server gets a Close frame", Duration::from_secs(5), || {
        got(path).iter().any(|(first, _)| *first == CLOSE)
    });
    got(path)
}

/// What is no attack goes through unchanged, each message before the next is sent.
fn talks(stack: &Stack, route: &str) {
    let path = format!("/{route}/chat/talks");
    let mut client = Client::ask(stack, &path, "", b"");
    assert_eq!(client.status(), "101", "{route}: {}", client.answer);
    let long = "winter coats and ".repeat(480);
    for (first, payload) in [
        (TEXT, b"hello".to_vec()),
        (TEXT, br#"{"user":"jo","comment":"see you at 5"}"#.to_vec()),
        (TEXT, Vec::new()),
        (TEXT, long.into_bytes()),
        (BINARY, vec![0, 1, 2, 0xff]),
        (PONG, b"x".to_vec()),
        (TEXT, b"still there".to_vec()),
    ] {
        client.send(&masked(first, &payload));
        if first != PONG {
            assert_eq!(client.hear(), Some((first, payload)), "{route}");
        }
    }
    // A ping is answered while a message is not complete; then the fragments arrive as they were sent.
    client.send(&[masked(0x01, b"one "), masked(PING, b"there?")].concat());
    assert_eq!(client.hear(), Some((PONG, b"there?".to_vec())), "{route}");
    client.send(&masked(0x00, b"and "));
    client.send(&masked(0x80, b"two"));
    for frame in [(0x01, &b"one "[..]), (0x00, b"and "), (0x80, b"two")] {
        assert_eq!(client.hear(), Some((frame.0, frame.1.to_vec())), "{route}");
    }
    client.send(&masked(CLOSE, b"\x03\xe8"));
    assert_eq!(client.hear(), Some((CLOSE, b"\x03\xe8".to_vec())), "{route}");
    assert_eq!(client.hear(), None, "{route}");
}

/// An attack ends the socket wherever it stands: nothing of it, and nothing behind it, reaches the server.
fn attacks_close(stack: &Stack, route: &str, attacks: &[&str], leaks: &[&str]) {
    let fragments: Vec<u8> = ATTACK
        .bytes()
        .enumerate()
        .flat_map(|(at, byte)| masked(if at == 0 { 0x01 } else { 0x00 }, &[byte]))
        .chain(masked(0x80, b""))
        .collect();
    for (name, messages) in [
        ("whole", masked(TEXT, ATTACK.as_bytes())),
        ("bytes", masked(BINARY, ATTACK.as_bytes())),
        ("fragments", fragments),
        ("reason", masked(CLOSE, b"\x03\xe8<script>alert(1)</script>")),
    ] {
        if !attacks.contains(&name) {
            continue;
        }
        let path = format!("/{route}/chat/{name}");
        let mut client = Client::ask(stack, &path, "", b"");
        for number in 0..20 {
            let text = format!("{{\"number\":{number}}}");
            client.send(&masked(TEXT, text.as_bytes()));
            assert_eq!(client.hear(), Some((TEXT, text.into_bytes())), "{route} {name}");
        }
        client.send(&[&messages[..], &masked(TEXT, b"behind")].concat());
        assert_eq!(code(client.hear().as_ref()), Some(1008), "{route} {name}");
        assert_eq!(client.hear(), None, "{route} {name}");
        let got = closed(&path);
        assert_eq!(got.len(), 21, "{route} {name}: {got:?}");
        assert_eq!(code(got.last()), Some(1008), "{route} {name}: {got:?}");
    }
    for text in leaks {
        let path = format!("/{route}/chat/{}", text.replace(' ', "-"));
        let mut client = Client::ask(stack, &path, "", b"");
        client.send(&masked(TEXT, text.as_bytes()));
        let mut heard = client.hear();
        if heard == Some((PING, b"p".to_vec())) {
            heard = client.hear();
        }
        assert_eq!(code(heard.as_ref()), Some(1008), "{route} {text}: {heard:?}");
        client.send(&[masked(TEXT, b"more"), masked(CLOSE, b"\x03\xf0")].concat());
        assert_eq!(client.hear(), None, "{route} {text}");
        let got = closed(&path);
        assert_eq!((got.len(), code(got.last())), (2, Some(1008)), "{route} {text}: {got:?}");
    }
}

/// Messages that are compressed, in both directions.
fn compressed(stack: &Stack) {
    let mut client = Client::ask(stack, "/inspected/chat/deflate", OFFER, b"");
    let agreed = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; \
                  client_no_context_takeover\r\n";
    assert!(client.answer.contains(agreed), "{}", client.answer);
    for text in ["hello", r#"{"user":"jo"}"#, "hello"] {
        let payload = deflated(text.as_bytes());
        client.send(&masked(COMPRESSED, &payload));
        assert_eq!(client.hear(), Some((COMPRESSED, payload)));
    }
    client.send(&masked(TEXT, b"not compressed"));
    assert_eq!(client.hear(), Some((TEXT, b"not compressed".to_vec())));
    client.send(&masked(COMPRESSED, &deflated(ATTACK.as_bytes())));
    assert_eq!(code(client.hear().as_ref()), Some(1008));
    let got = closed("/inspected/chat/deflate");
    assert_eq!((got.len(), code(got.last())), (5, Some(1008)), "{got:?}");
    let mut client = Client::ask(stack, "/inspected/chat/deflate-leak", OFFER, b"");
    client.send(&masked(COMPRESSED, &deflated(b"leak")));
    assert_eq!(code(client.hear().as_ref()), Some(1008));
}

/// What cannot be read closes the socket with the code of RFC 6455.
fn malformed(stack: &Stack) {
    for (name, offer, frame, expected) in [
        ("no mask", "", plain(TEXT, b"hello"), 1002),
        ("reserved bit", "", masked(COMPRESSED, b"hello"), 1002),
        ("opcode", "", masked(0x83, b"hello"), 1002),
        ("no beginning", "", masked(0x80, b"hello"), 1002),
        ("text", "", masked(TEXT, b"\xff\xfe"), 1007),
        ("deflate", OFFER, masked(COMPRESSED, b"\xff\xff\xff"), 1007),
        ("length", "", masked(TEXT, &[b'a'; 8_193]), 1009),
        ("bomb", OFFER, masked(COMPRESSED, &deflated(&vec![b'a'; 1 << 20])), 1009),
        ("fragments", "", [masked(0x01, b"a"), masked(0x00, b"").repeat(100)].concat(), 1009),
    ] {
        let path = format!("/inspected/chat/malformed-{}", name.replace(' ', "-"));
        let mut client = Client::ask(stack, &path, offer, b"");
        client.send(&masked(TEXT, b"hello"));
        assert_eq!(client.hear(), Some((TEXT, b"hello".to_vec())), "{name}");
        client.send(&frame);
        assert_eq!(code(client.hear().as_ref()), Some(expected), "{name}");
        let got = closed(&path);
        assert_eq!((got.len(), code(got.last())), (2, Some(expected)), "{name}: {got:?}");
    }
}

/// The first message is refused as any other. Through ext-proc the client may see the end of the connection only: see
/// docs/websocket.md.
fn first_message(stack: &Stack) {
    let path = "/inspected/chat/first";
    let mut client = Client::ask(stack, path, "", b"");
    client.send(&masked(TEXT, ATTACK.as_bytes()));
    let heard = client.hear();
    assert!(heard.is_none() || code(heard.as_ref()) == Some(1008), "{heard:?}");
    let got = closed(path);
    assert_eq!((got.len(), code(got.last())), (1, Some(1008)), "{got:?}");
}

/// Bytes that no server has agreed to read as frames.
fn unasked(stack: &Stack) {
    let smuggled = b"GET /admin HTTP/1.1\r\nhost: shop.example\r\n\r\n";
    let early = Client::ask(stack, "/inspected/chat/early", "", smuggled);
    assert_eq!(early.status(), "400", "{}", early.answer);
    let mut client = Client::ask(stack, "/inspected/refuse/smuggled", "", b"");
    assert_eq!(client.status(), "200", "{}", client.answer);
    client.send(smuggled);
    client.send(&masked(TEXT, b"hello"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(got("/inspected/refuse/smuggled"), []);
    assert_eq!(got("/inspected/chat/early"), []);
}

/// What is offered is what can be inspected, and nothing else is accepted.
fn extensions(stack: &Stack) {
    drop(Client::ask(stack, "/inspected/chat/offer", OFFER, b""));
    let offered = got("/inspected/chat/offer offer");
    let expected = "permessage-deflate; server_no_context_takeover; client_no_context_takeover; \
                    client_max_window_bits";
    assert_eq!(offered, [(0, expected.as_bytes().to_vec())]);
    drop(Client::ask(stack, "/inspected/chat/none", "sec-websocket-extensions: x-other\r\n", b""));
    assert_eq!(got("/inspected/chat/none offer"), []);
    for path in ["/inspected/window", "/inspected/other"] {
        let client = Client::ask(stack, path, OFFER, b"");
        assert_eq!(client.status(), "502", "{path}: {}", client.answer);
    }
}

/// Where rules may not block, everything passes; where messages are not inspected, nothing is changed.
fn others_look_on(stack: &Stack) {
    for profile in ["look", "unseen"] {
        let mut client = Client::ask(stack, &format!("/{profile}/chat/on"), "", b"");
        for message in [ATTACK, "hello", "leak"] {
            client.send(&masked(TEXT, message.as_bytes()));
            let expected = if message == "leak" { LEAK } else { message };
            assert_eq!(client.hear(), Some((TEXT, expected.as_bytes().to_vec())), "{profile}");
        }
        // Longer than is inspected, in fragments, and then something that is no frame.
        client.send(&masked(0x01, &[b'a'; 9_000]));
        assert_eq!(client.hear(), Some((0x01, vec![b'a'; 9_000])), "{profile}");
        client.send(&masked(0x80, b"end"));
        assert_eq!(client.hear(), Some((0x80, b"end".to_vec())), "{profile}");
        client.send(&masked(0x83, b"what"));
        assert_eq!(client.hear(), Some((0x83, b"what".to_vec())), "{profile}");
        client.send(&masked(TEXT, ATTACK.as_bytes()));
        assert_eq!(client.hear(), Some((TEXT, ATTACK.as_bytes().to_vec())), "{profile}");
        let window = Client::ask(stack, &format!("/{profile}/window/on"), OFFER, b"");
        assert_eq!(window.status(), "101", "{profile}");
    }
    assert_eq!(got("/unseen/window/on offer").len(), 1);
}

/// Extended CONNECT (RFC 8441).
fn over_http_2(stack: &Stack) {
    let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let path = "/inspected/chat/http2";
    let texts = ["hello", "and again"];
    let heard = http2::web_socket(client(), stack.proxy(), path, &[key], &texts).unwrap();
    assert_eq!(heard, texts.map(|text| websocket::server_frame(text.as_bytes())));
    let attack = ["<script>alert(1)</script>"];
    let path = "/inspected/chat/http2-attack";
    let heard = http2::web_socket(client(), stack.proxy(), path, &[key], &attack);
    // The echo has the length of the attack; a Close frame with its reason has at least that.
    let heard = heard.unwrap_or_default().concat();
    assert!(heard.is_empty() || heard.starts_with(&[0x88]), "{heard:?}");
    assert_eq!(code(closed(path).last()), Some(1008));
}

/// A client and a server that others have written.
fn real_peers(stack: &Stack) {
    let url = format!("ws://{}/inspected/tungstenite/chat", stack.proxy());
    let (mut socket, _) = tungstenite::connect(&url).unwrap();
    for text in ["hello", r#"{"number":1}"#, "\u{1f600}"] {
        socket.send(text.into()).unwrap();
        assert_eq!(socket.read().unwrap().to_text().unwrap(), text);
    }
    let bytes = vec![7; 5_000];
    socket.send(bytes.clone().into()).unwrap();
    assert_eq!(socket.read().unwrap().into_data(), bytes);
    socket.send(ATTACK.into()).unwrap();
    let closed = loop {
        match socket.read() {
            Ok(tungstenite::Message::Close(frame)) => break frame,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(closed.map(|frame| u16::from(frame.code)), Some(1008));
    let got = got("/inspected/tungstenite/chat");
    assert!(
        !got.iter().any(|(_, text)| text.windows(8).any(|part| part == b"<script>")),
        "{got:?}"
    );
}

/// A socket that neither peer ends is reset some time after the Close frame.
fn unclosed(stack: &Stack) {
    let path = "/inspected/chat/stubborn";
    let mut client = Client::ask(stack, path, "", b"");
    client.send(&masked(TEXT, b"hello"));
    assert_eq!(client.hear(), Some((TEXT, b"hello".to_vec())));
    client.send(&masked(TEXT, ATTACK.as_bytes()));
    let begun = std::time::Instant::now();
    while client.hear().is_some() {}
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    let from = client.address();
    drop(client);
    let line = access_log(stack, &[from]).remove(0);
    assert_eq!(line["details"], "glacis_websocket_not_closed", "{line}");
}

/// The audit record and the receipt name the message.
fn told(stack: &Stack) {
    let mut client = Client::ask(stack, "/inspected/chat/told", "x-request-id: told-1\r\n", b"");
    client.send(&masked(TEXT, b"hello"));
    client.hear();
    client.send(&masked(TEXT, ATTACK.as_bytes()));
    let (first, payload) = client.hear().unwrap();
    assert_eq!(first, CLOSE);
    let reason = String::from_utf8_lossy(&payload[2..]).into_owned();
    let id = reason.strip_prefix("blocked; request ").unwrap_or_else(|| panic!("{reason}"));
    let mut found = Value::Null;
    eventually("the message is in the audit log", Duration::from_secs(5), || {
        let log = std::fs::read_to_string(stack.folder.file(glacis_tests::ext_proc::AUDIT));
        let log = log.unwrap_or_default();
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut records = records.filter(|record| record["request_id"] == id);
        found = records.find(|record| record["action"] == "deny").unwrap_or_default();
        !found.is_null()
    });
    assert_eq!(found["websocket"], serde_json::json!({"from": "client", "message": 2}), "{found}");
    assert_eq!(found["inspected"], "body", "{found}");
    let rules = found["rules"].to_string();
    assert!(rules.contains("ARGS:json.comment"), "{rules}");
    let from = client.address();
    drop(client);
    let line = access_log(stack, &[from]).remove(0);
    assert_eq!(line["glacis"]["message"], "client 2", "{line}");
    assert_eq!(line["glacis"]["verdict"], "deny", "{line}");
}

/// Bytes that an idle socket may take of what is ours.
const SOCKET_BYTES_MAX: u64 = 4 << 10;

/// Bytes that a process takes besides while sockets are opened: tables that double, memory that is freed later.
const PROCESS_BYTES_MAX: u64 = 8 << 20;

/// Sockets that are opened; `GLACIS_SOCKETS` is another number. The more, the less does the rest count.
const SOCKETS: usize = 400;

/// What an idle socket takes beside one that is not inspected: memory of ext-proc, or of Envoy with the native module.
#[test]
fn idle_sockets_take_little() {
    let _turn = turn();
    let count = std::env::var("GLACIS_SOCKETS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(SOCKETS);
    let mut own = of_ext_proc("websocket-idle");
    let process = own.0.ext_proc.as_mut().unwrap().process().id();
    take_little(&own.0, process, count, "ext-proc");
    drop(own);
    let mut own = of_native("websocket-idle-native");
    let process = own.0.envoy.process().id();
    take_little(&own.0, process, count, "native module");
}

fn take_little(stack: &Stack, process: u32, count: usize, host: &str) {
    let one = |profile: &str| {
        let mut client = Client::ask(stack, &format!("/{profile}/chat/idle"), "", b"");
        client.send(&masked(TEXT, br#"{"number":1}"#));
        assert!(client.hear().is_some());
        client
    };
    let open = |profile: &str| {
        let before = resident_bytes(process).unwrap();
        let clients: Vec<Client> = (0..count).map(|_| one(profile)).collect();
        // What is freed a little later does not count.
        std::thread::sleep(Duration::from_secs(1));
        let bytes = resident_bytes(process).unwrap().saturating_sub(before);
        (bytes / count as u64, clients)
    };
    // What is needed once is there before anything is measured.
    let warm: Vec<Client> = (0..50).flat_map(|_| ["unseen", "inspected"].map(one)).collect();
    let (uninspected, others) = open("unseen");
    let (inspected, clients) = open("inspected");
    let ours = inspected.saturating_sub(uninspected);
    eprintln!(
        "{host}: {count} idle sockets take {inspected} bytes each, uninspected ones {uninspected}"
    );
    let bytes_max = SOCKET_BYTES_MAX + PROCESS_BYTES_MAX / count as u64;
    assert!(ours <= bytes_max, "{host}: {ours} bytes for each of {count} sockets");
    drop((warm, others, clients));
}
