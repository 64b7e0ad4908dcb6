//! Settings under which Envoy lets requests pass by a processor without a word. The guard refuses them on
//! the closed route and counts them on the open one; ext-proc raises an alarm where it can see them.
//! (Streams that merely end are in `failure`.)

use std::thread::sleep;
use std::time::Duration;

use glacis_tests::http::{Connection, Request};
use glacis_tests::scripted::Scripted;
use glacis_tests::stack::{Ports, Processor, Stack};

use crate::support::{Own, client, eventually};

fn get(path: &str) -> Request {
    Request::get(path).browser()
}

fn post(path: &str) -> Request {
    Request::post(path, "application/json", r#"{"a": 1}"#).browser()
}

/// Answers on the closed and on the open route, and by how much the guard's counters move.
#[track_caller]
fn check(stack: &Stack, request: fn(&str) -> Request, closed: u16, counted: (u64, u64)) {
    let stat = |name| stack.envoy.stat(&format!("http.glacis.rbac.glacis_receipt.{name}")).unwrap();
    let before = (stat("denied"), stat("shadow_denied"));
    for (path, status) in [("/echo", closed), ("/open/echo", 200)] {
        let answer = stack.send(client(), &request(path)).unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let after = (stat("denied"), stat("shadow_denied"));
    assert_eq!((after.0 - before.0, after.1 - before.1), counted);
}

#[track_caller]
fn alarmed(stack: &Stack, kind: &str, count: f64) {
    let name = format!(r#"glacis_alarms_total{{kind="{kind}"}}"#);
    eventually(&format!("{name} is {count}"), Duration::from_secs(5), || {
        stack.ext_proc.as_ref().unwrap().metrics().unwrap()[&name] == count
    });
}

const SHIPPED: &str = "allow_mode_override: true";

/// The answer to the headers asks for the body; Envoy does not send it, and says nothing.
#[test]
fn a_mode_override_that_envoy_ignores() {
    for (name, setting) in [
        ("override-forbidden", "allow_mode_override: false"),
        (
            "override-unmatched",
            "allow_mode_override: true\n              \
             allowed_override_modes: [{request_body_mode: BUFFERED, response_header_mode: SEND}]",
        ),
    ] {
        let own = Own::start(name, Processor::ExtProc, &[(SHIPPED, setting)]);
        check(&own.0, get, 200, (0, 0));
        check(&own.0, post, 503, (1, 1));
        // Without responses ext-proc cannot tell one from a client that has gone: it counts what it knows.
        let name = r#"glacis_uninspected_total{reason="body_not_sent"}"#;
        eventually("both bodies are counted", Duration::from_secs(5), || {
            own.0.ext_proc.as_ref().unwrap().metrics().unwrap()[name] == 2.0
        });
        alarmed(&own.0, "mode_override_ignored", 0.0);
        // Three in a row are no accident.
        check(&own.0, post, 503, (1, 1));
        alarmed(&own.0, "mode_override_ignored", 2.0);
    }
}

/// With responses it can be told, and is said.
#[test]
fn a_mode_override_that_is_ignored_is_an_alarm() {
    let edits = [
        (SHIPPED, "allow_mode_override: false"),
        ("response_header_mode: SKIP", "response_header_mode: SEND"),
    ];
    let own = Own::start("override-alarm", Processor::ExtProc, &edits);
    check(&own.0, get, 200, (0, 0));
    alarmed(&own.0, "mode_override_ignored", 0.0);
    check(&own.0, post, 503, (1, 1));
    alarmed(&own.0, "mode_override_ignored", 2.0);
    alarmed(&own.0, "no_protocol_config", 0.0);
    alarmed(&own.0, "no_client_address", 0.0);
}

/// Envoy does not wait for verdicts, and drops their metadata: no request has a receipt.
#[test]
fn observability_mode() {
    let edit = (SHIPPED, "observability_mode: true");
    let own = Own::start("observability", Processor::ExtProc, &[edit]);
    check(&own.0, get, 503, (1, 1));
    check(&own.0, post, 503, (1, 1));
    alarmed(&own.0, "observability_mode", 4.0);
}

/// Receipts are dropped by Envoy.
#[test]
fn receiving_namespaces_are_missing() {
    let ports = Ports::free().unwrap();
    Scripted::start(ports.ext_proc).unwrap();
    let edit = ("metadata_options: {receiving_namespaces: {untyped: [glacis]}}", "");
    let own = Own::on("namespaces", ports, Processor::Other, &[edit]);
    check(&own.0, get, 503, (1, 1));
}

/// The client for the processor cannot be made: on this route the cluster is not there.
#[test]
fn no_client_for_the_processor() {
    let ports = Ports::free().unwrap();
    Scripted::start(ports.ext_proc).unwrap();
    let absent = r#"              - name: absent
                match: {prefix: /absent/}
                route: *route
                typed_per_filter_config:
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {grpc_service: {envoy_grpc: {cluster_name: absent}}}
              - name: closed
"#;
    let own =
        Own::on("client", ports, Processor::Other, &[("              - name: closed\n", absent)]);
    check(&own.0, get, 200, (0, 0));
    let answer = own.0.send(client(), &get("/absent/echo")).unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
}

/// Pieces of a body go on before the verdict: it is given all the same, and an alarm with it.
#[test]
fn streamed_bodies() {
    let edit = ("request_body_mode: NONE", "request_body_mode: STREAMED");
    let own = Own::start("streamed", Processor::ExtProc, &[edit]);
    alarmed(&own.0, "streamed_body", 0.0);
    // A body that is there with its headers is judged with them.
    assert_eq!(own.0.send(client(), &post("/echo")).unwrap().status, 200);
    let attack =
        Request::post("/echo", "application/json", r#"{"a": "<script>alert(1)</script>"}"#);
    assert_eq!(own.0.send(client(), &attack.browser()).unwrap().status, 403);
    // Headers do not wait for a body that comes later: the guard sees `pending`, and refuses.
    let bytes = post("/echo").bytes();
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let mut connection = Connection::open(Some(client()), own.0.proxy()).unwrap();
    connection.write(&bytes[..head]).unwrap();
    sleep(Duration::from_millis(300));
    // Envoy may have answered and closed already.
    let _ = connection.write(&bytes[head..]);
    assert_eq!(connection.read_head().unwrap().status, 503);
    alarmed(&own.0, "streamed_body", 3.0);
}
