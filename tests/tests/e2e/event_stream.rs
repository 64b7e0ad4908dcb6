//! Server-sent events through Envoy, in both hosts and in each body mode: what leaks nothing arrives unchanged and at
//! once, and an event that does ends the response before a byte of it has gone on.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use glacis_tests::http::{Connection, Request, Response};
use glacis_tests::native;
use glacis_tests::stack::{Ports, Processor, Stack};
use serde_json::{Value, json};

use crate::support::{Own, access_log, client, eventually, folder};

/// Besides the defaults: a profile that looks on, and one that inspects no events.
const KEYS: &str = "
response: headers
event_stream: {inspect: true, event_bytes_max: 8192, events_per_second_max: 50}
profiles:
  look: {mode: detection}
  unseen: {response: full, event_stream: {inspect: false}}
";

const NATIVE_KEYS: [&str; 3] = [
    "response: headers",
    "event_stream: {inspect: true, event_bytes_max: 8192, events_per_second_max: 50}",
    "profiles: {look: {mode: detection}, unseen: {response: full, event_stream: {inspect: false}}}",
];

/// The modes of the response's body.
const MODES: [(&str, &str, &str); 5] = [
    ("none", "NONE", "SKIP"),
    ("streamed", "STREAMED", "SEND"),
    ("buffered", "BUFFERED", "SEND"),
    ("partial", "BUFFERED_PARTIAL", "SEND"),
    ("duplex", "FULL_DUPLEX_STREAMED", "SEND"),
];

const LEAK: &str = "ORA-00933: SQL command not properly ended";

/// The servers that wait for what they are to send, by path.
static WAITING: LazyLock<Mutex<HashMap<String, Sender<Vec<u8>>>>> = LazyLock::new(Mutex::default);

/// Answers each request with an event stream that a test writes; `coding` in the path has it compressed, as it says.
fn serve(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (sender, pieces): (_, Receiver<Vec<u8>>) = channel();
    let coding = if path.contains("/coding") { "content-encoding: gzip\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n{coding}\
         connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(answer.as_bytes())?;
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), sender);
    for piece in pieces {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        stream.write_all(&chunk)?;
    }
    stream.write_all(b"0\r\n\r\n")
}

/// Both ends of a stream.
struct Events {
    client: Connection,
    server: Option<Sender<Vec<u8>>>,
    head: Response,
    from: std::net::Ipv4Addr,
}

impl Events {
    fn open(stack: &Stack, path: &str) -> Self {
        let from = client();
        let mut connection = Connection::open(Some(from), stack.proxy()).unwrap();
        connection.set_patience(Duration::from_secs(10)).unwrap();
        let request = Request::get(path).browser().header("x-request-id", path.replace('/', "-"));
        connection.write(&request.bytes()).unwrap();
        let head = connection.read_head().unwrap();
        assert_eq!(head.status, 200, "{path}");
        let mut server = None;
        eventually("the server is asked", Duration::from_secs(5), || {
            server = WAITING.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
            server.is_some()
        });
        Self { client: connection, server, head, from }
    }

    /// Has the server send a piece.
    fn send(&self, piece: &str) {
        self.server.as_ref().unwrap().send(piece.as_bytes().to_vec()).unwrap();
    }

    /// Reads so many bytes of the body, in whatever chunks they come.
    #[track_caller]
    fn hear(&mut self, expected: &str) {
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            heard.extend(self.client.read_chunk().unwrap().expect("more of the response"));
        }
        assert_eq!(String::from_utf8_lossy(&heard), expected);
    }

    /// The response breaks off: there is neither more of it nor its end.
    #[track_caller]
    fn is_cut(&mut self) {
        let chunk = self.client.read_chunk();
        let error = chunk.expect_err("the response goes on, or has an end").to_string();
        assert!(!error.contains("time"), "{error}");
    }

    /// The server ends the response.
    #[track_caller]
    fn ends(&mut self) {
        self.server = None;
        assert_eq!(self.client.read_chunk().unwrap(), None);
    }
}

fn cluster(port: u16) -> String {
    format!(
        "  clusters:\n  - name: events\n    type: STATIC\n    load_assignment:\n      cluster_name: events\n      \
         endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, \
         port_value: {port}}}}}}}}}]}}]\n"
    )
}

fn route(name: &str, more: &str) -> String {
    format!(
        "              - name: {name}\n                match: {{prefix: /{name}/}}\n                \
         route: {{cluster: events, timeout: 0s}}\n{more}"
    )
}

fn of_ext_proc(name: &str) -> Own {
    let [port] = glacis_tests::ports::free().unwrap();
    serve(port);
    let per_route = |overrides: &str| {
        format!(
            r#"                typed_per_filter_config:
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {overrides}
"#
        )
    };
    let mode = |(name, body, trailers): &(&str, &str, &str)| {
        let overrides = format!(
            "{{processing_mode: {{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: {body}, \
             response_body_mode: {body}, request_trailer_mode: {trailers}, response_trailer_mode: {trailers}}}}}"
        );
        route(name, &per_route(&overrides))
    };
    let by_stream = |name: &str| {
        let overrides =
            format!("{{grpc_initial_metadata: [{{key: glacis-profile, value: {name}}}]}}");
        route(name, &per_route(&overrides))
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
    let profile = |name: &str| {
        let metadata = format!(
            "                metadata: {{filter_metadata: {{glacis: {{profile: {name}}}}}}}\n"
        );
        route(name, &metadata)
    };
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
fn events_are_inspected_by_ext_proc() {
    let own = of_ext_proc("event-stream");
    for (mode, ..) in MODES {
        passes(&own.0, mode);
        leaks_end(&own.0, mode);
    }
    all(&own.0);
    let metrics = own.0.ext_proc.as_ref().unwrap().metrics().unwrap();
    for name in [
        r#"glacis_stream_events_total{verdict="allow"}"#,
        r#"glacis_stream_events_total{verdict="deny"}"#,
        r#"glacis_stream_events_total{verdict="reject"}"#,
        r#"glacis_rejected_total{reason="event_rate"}"#,
        r#"glacis_would_deny_total{profile="look"}"#,
        r#"glacis_uninspected_total{reason="event_stream"}"#,
        r#"glacis_uninspected_total{reason="response_encoded"}"#,
        r#"glacis_uninspected_total{reason="response_truncated"}"#,
    ] {
        assert!(metrics.get(name).is_some_and(|count| *count > 0.0), "{name}: {metrics:#?}");
    }
}

#[test]
fn events_are_inspected_natively() {
    let own = of_native("event-stream-native");
    all(&own.0);
    for name in [
        "stream_events.verdict.allow",
        "stream_events.verdict.deny",
        "stream_events.verdict.reject",
        "rejected.reason.event_rate",
        "uninspected.reason.event_stream",
        "uninspected.reason.response_encoded",
        "uninspected.reason.response_truncated",
    ] {
        let name = format!("dynamicmodulescustom.glacis_{name}");
        assert!(own.0.envoy.stat(&name).unwrap() > 0, "{name}");
    }
}

/// What holds in both hosts.
fn all(stack: &Stack) {
    passes(stack, "inspected");
    leaks_end(stack, "inspected");
    limits(stack);
    others_look_on(stack);
    compressed(stack);
    told(stack);
}

/// What leaks nothing goes through unchanged, each event before the next is sent.
fn passes(stack: &Stack, route: &str) {
    let mut events = Events::open(stack, &format!("/{route}/passes"));
    for event in [
        "data: hello\n\n",
        ": note\r\nevent: add\r\nid: 7\r\ndata: {\"user\":\"jo\"}\r\n\r\n",
        ":\n\n",
        "\u{feff}data: a\rdata: b\r\r",
        "retry: 10\n\n",
    ] {
        events.send(event);
        events.hear(event);
    }
    // An event goes on with its blank line, which may come alone.
    for piece in ["data: in ", "pieces\n", "data: and lines"] {
        events.send(piece);
    }
    std::thread::sleep(Duration::from_millis(50));
    events.send("\n\ndata: next");
    events.hear("data: in pieces\ndata: and lines\n\n");
    events.send("\n\n");
    events.hear("data: next\n\n");
    // Without its end.
    events.send("data: last");
    std::thread::sleep(Duration::from_millis(50));
    events.server = None;
    events.hear("data: last");
    events.ends();
}

/// A leak ends the response wherever it stands: nothing of it, and nothing after it, reaches the client.
fn leaks_end(stack: &Stack, route: &str) {
    let halves = LEAK.split_at(20);
    for (name, pieces) in [
        ("alone", vec![format!("data: {LEAK}\n\n")]),
        ("json", vec![format!("event: add\ndata: {{\"error\":\"{LEAK}\"}}\n\n")]),
        ("halves", vec![format!("data: {}", halves.0), format!("{}\n\n", halves.1)]),
        ("bytes", format!("data: {LEAK}\r\n\r\n").chars().map(String::from).collect()),
        ("id", vec![format!("id: {LEAK}\ndata: a\n\n")]),
        ("comment", vec![format!(": {LEAK}\n\n")]),
    ] {
        let mut events = Events::open(stack, &format!("/{route}/leaks/{name}"));
        for number in 0..3 {
            let event = format!("data: {{\"number\":{number}}}\n\n");
            events.send(&event);
            events.hear(&event);
        }
        for piece in pieces {
            events.send(&piece);
        }
        events.is_cut();
    }
    // The events before it in the same piece go on, and not those after it.
    let mut events = Events::open(stack, &format!("/{route}/leaks/between"));
    events.send(&format!("data: before\n\ndata: {LEAK}\n\ndata: after\n\n"));
    events.hear("data: before\n\n");
    events.is_cut();
}

/// Events that are too long pass behind what is inspected; too many end the response.
fn limits(stack: &Stack) {
    for (name, before, is_cut) in [("at", 8_000, true), ("above", 8_200, false)] {
        let mut events = Events::open(stack, &format!("/inspected/limits/{name}"));
        let long = format!("data: {}\ndata: {LEAK}\n\n", "winter coats ".repeat(before / 13));
        events.send(&long);
        if is_cut {
            events.is_cut();
        } else {
            events.hear(&long);
            events.send("data: next\n\n");
            events.hear("data: next\n\n");
            events.send(&format!("data: {LEAK}\n\n"));
            events.is_cut();
        }
    }
    let mut events = Events::open(stack, "/inspected/limits/rate");
    events.send(&"data: a\n\n".repeat(101));
    events.hear(&"data: a\n\n".repeat(50));
    // The second may end in between.
    while let Ok(Some(_)) = events.client.read_chunk() {}
    let mut events = Events::open(stack, "/inspected/limits/pings");
    let pings = ":\n\n".repeat(200);
    events.send(&pings);
    events.hear(&pings);
    events.ends();
}

/// Where rules may not block, everything passes; where events are not inspected, nothing is changed.
fn others_look_on(stack: &Stack) {
    for profile in ["look", "unseen"] {
        let mut events = Events::open(stack, &format!("/{profile}/on"));
        for event in ["data: a\n\n", &format!("data: {LEAK}\n\n"), "data: b\n\n"] {
            events.send(event);
            events.hear(event);
        }
        let many = "data: a\n\n".repeat(120);
        events.send(&many);
        events.hear(&many);
        events.ends();
    }
}

/// Compressed streams pass uninspected.
fn compressed(stack: &Stack) {
    let mut events = Events::open(stack, "/inspected/coding");
    assert_eq!(events.head.header("content-encoding"), Some("gzip"));
    events.send("data: what gzip makes of it");
    events.hear("data: what gzip makes of it");
    events.ends();
}

/// The audit record and the receipt name the event.
fn told(stack: &Stack) {
    let path = "/inspected/told";
    let mut events = Events::open(stack, path);
    events.send("data: a\n\n");
    events.hear("data: a\n\n");
    events.send(&format!("data: {LEAK}\n\n"));
    events.is_cut();
    let mut found = Value::Null;
    eventually("the event is in the audit log", Duration::from_secs(5), || {
        let log = std::fs::read_to_string(stack.folder.file(glacis_tests::ext_proc::AUDIT));
        let log = log.unwrap_or_default();
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut records = records.filter(|record| record["uri"] == path);
        found = records.find(|record| record["action"] == "deny").unwrap_or_default();
        !found.is_null()
    });
    assert_eq!(found["event_stream"], json!({"event": 2}), "{found}");
    assert_eq!((&found["inspected"], &found["status"]), (&json!("body"), &json!(403)), "{found}");
    assert!(found["rules"].to_string().contains("RESPONSE_BODY"), "{found}");
    assert_eq!(found["score_inbound"], 0, "{found}");
    let line = access_log(stack, &[events.from]).remove(0);
    assert_eq!(line["glacis"]["message"], "event 2", "{line}");
    assert_eq!(line["glacis"]["verdict"], "deny", "{line}");
}
