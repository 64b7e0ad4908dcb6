//! `envoy-configs/hybrid/`: requests without a body are inspected by the native module, others by ext-proc, and the guard
//! wants a receipt of either.

use std::net::Ipv4Addr;
use std::time::Duration;

use glacis_tests::ext_proc::AUDIT;
use glacis_tests::frames::{Connection, Frame, fields};
use glacis_tests::http::Request;
use glacis_tests::settings;
use glacis_tests::stack::{Ports, Processor, Stack, replaced, with_ports};

use crate::doctor::{doctor, of_file};
use crate::support::{Own, access_log, client, eventually, folder};

const HYBRID: &str = "envoy-configs/hybrid/envoy.yaml";
const FORM: &str = "application/x-www-form-urlencoded";
const ATTACK: &str = "q=%3Cscript%3Ealert(1)%3C/script%3E";

/// Envoy with the configuration as it is shipped, but for ports, places and these edits.
fn hybrid(name: &str, edits: &[(&str, &str)]) -> Own {
    let (ports, folder) = (Ports::free().unwrap(), folder(name));
    let records = folder.join("native-audit.jsonl");
    let crs = format!("crs: {}\n", settings::crs().unwrap().display());
    let audit = format!("audit: {{stdout: false, file: {}}}", records.display());
    let own = [("crs: .fetched/crs-4.25.0\n", &*crs), ("audit: {stdout: true}", &*audit)];
    let config = { own.iter().chain(edits) }
        .fold(with_ports(HYBRID, &ports).unwrap(), |config, (old, new)| {
            replaced(HYBRID, &config, old, new).unwrap()
        });
    Own(Stack::start_config(&folder, ports, Processor::ExtProc, &config).unwrap())
}

/// The status of a request, the route it took and the verdict of its receipt.
fn sent(stack: &Stack, request: &Request) -> (u16, String, String) {
    let from = client();
    let status = stack.send(from, &request.clone().browser()).unwrap().status;
    let (route, verdict) = logged(stack, from);
    (status, route, verdict)
}

fn logged(stack: &Stack, from: Ipv4Addr) -> (String, String) {
    let line = access_log(stack, &[from]).remove(0);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (text(&line["route"]), text(&line["glacis"]["verdict"]))
}

fn streams(stack: &Stack) -> u64 {
    stack.envoy.stat("http.glacis.ext_proc.streams_started").unwrap()
}

#[test]
fn each_request_is_inspected_once() {
    let own = hybrid("hybrid", &[]);
    let stack = &own.0;
    let attack = format!("/echo?{ATTACK}");
    // What is sent, the status, the route, the verdict, and whether ext-proc is asked.
    let rows = [
        (Request::get("/echo?q=winter+coat"), 200, "without-body", "allow", false),
        (Request::get(&attack), 403, "without-body", "deny", false),
        (Request::new("HEAD", &attack), 403, "without-body", "deny", false),
        (Request::post("/echo", FORM, "q=winter+coat"), 200, "with-body", "allow", true),
        (Request::post("/echo", FORM, ATTACK), 403, "with-body", "deny", true),
        (Request::post(&attack, FORM, "q=a"), 403, "with-body", "deny", true),
        (Request::new("DELETE", &attack), 403, "with-body", "deny", true),
    ];
    for (request, status, route, verdict, asks) in rows {
        let before = streams(stack);
        let what = format!("{} {}", request.method, request.target);
        let expected = (status, route.to_owned(), verdict.to_owned());
        assert_eq!(sent(stack, &request), expected, "{what}");
        assert_eq!(streams(stack) - before, u64::from(asks), "{what}");
    }
    // HTTP/2 announces no body: the module waits for it, and reads it.
    let from = client();
    let mut connection = Connection::open(from, stack.proxy()).unwrap();
    let head = fields("GET", "/echo", &[("content-type", FORM)]);
    let head = Frame::Headers { fields: head, pieces: 1, end_stream: false };
    let answer = connection.exchange(&[head, Frame::data(ATTACK.as_bytes(), true)]).unwrap();
    assert_eq!(answer.status, 403);
    assert_eq!(logged(stack, from), ("without-body".to_owned(), "deny".to_owned()));
    assert!(stack.folder.read("native-audit.jsonl").contains("\"action\":\"deny\""));
    assert!(stack.folder.read(AUDIT).contains("\"action\":\"deny\""));
    let file = of_file(&stack.folder.path().join("envoy.yaml"));
    assert_eq!(doctor(&file), (Vec::new(), Some(0)), "no route is without inspection");
}

/// The module needs no service, and no request with a body passes without one.
#[test]
fn without_ext_proc_only_bodies_wait() {
    let mut own = hybrid("hybrid-down", &[]);
    own.0.ext_proc.as_mut().unwrap().process().stop();
    let stack = &own.0;
    eventually("Envoy finds no ext-proc", Duration::from_secs(15), || {
        !stack.processor_is_healthy().unwrap()
    });
    assert_eq!(sent(stack, &Request::get("/echo?q=winter+coat")).0, 200);
    assert_eq!(sent(stack, &Request::get(&format!("/echo?{ATTACK}"))).0, 403);
    assert_eq!(sent(stack, &Request::post("/echo", FORM, "q=winter+coat")).0, 503);
}

/// A route that both are turned off for is the guard's.
#[test]
fn the_guard_refuses_what_neither_has_seen() {
    let filter = "                  glacis:\n                    \"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig\n                    disabled: true\n";
    let both = format!("{filter}{}", filter.replace("glacis:", "envoy.filters.http.ext_proc:"));
    let own = hybrid("hybrid-guard", &[(filter, &both)]);
    assert_eq!(sent(&own.0, &Request::post("/echo", FORM, "q=winter+coat")).0, 503);
    assert_eq!(own.0.envoy.stat("http.glacis.rbac.glacis_receipt.denied").unwrap(), 1);
    assert_eq!(sent(&own.0, &Request::get("/echo?q=winter+coat")).0, 200);
}
