//! The first verdict through a real Envoy: what the filter calls clean skips ext-proc, and nothing else does.

use std::fs;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use glacis_tests::bench::stack::bundle;
use glacis_tests::filter::{Filter, Host, Setup};
use glacis_tests::http::Request;
use glacis_tests::settings;
use glacis_tests::stack::{Ports, Processor, Stack, WASM_WITH_ENGINE, replaced, with_ports};
use serde_json::Value;

use crate::support::{access_log, client, eventually, folder, shared};

const FILE: &str = "envoy-configs/first-verdict/envoy.yaml";

/// What stands in the file for rules.
const PLACE: &str = r#""seclang": "SecAction \"id:1,phase:1,pass,log,msg:'suspect'\"""#;

/// The filter for RBAC in the file, from its name to the router, as the module in its second role.
fn guarded_by_module(config: &str) -> String {
    let start = config.find("          - name: envoy.filters.http.rbac").unwrap();
    let end = config.find("          - name: envoy.filters.http.router").unwrap();
    let module = settings::wasm().unwrap().display().to_string();
    let guard = format!(
        r#"          - name: glacis_guard
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: glacis_guard
                root_id: glacis_guard
                failure_policy: FAIL_RELOAD
                vm_config: {{vm_id: guard, runtime: envoy.wasm.runtime.v8, code: {{local: {{filename: "{module}"}}}}}}
                configuration:
                  "@type": type.googleapis.com/google.protobuf.StringValue
                  value: '{{"guard": {{"clean": true}}}}'
"#
    );
    format!("{}{guard}{}", &config[..start], &config[end..])
}

fn start(name: &str, guard: fn(&str) -> String) -> Stack {
    let ports = Ports::free().unwrap();
    let config = with_ports(FILE, &ports).unwrap();
    let module = settings::wasm_with_engine().unwrap().display().to_string();
    let config = replaced(FILE, &config, WASM_WITH_ENGINE, &module).unwrap();
    let rules = format!(r#""rules": "{}""#, bundle().unwrap());
    let config = guard(&replaced(FILE, &config, PLACE, &rules).unwrap());
    Stack::start_config(&folder(name), ports, Processor::ExtProc, &config).unwrap()
}

/// How many streams ext_proc has begun.
fn streams(stack: &Stack) -> u64 {
    stack
        .envoy
        .stats("ext_proc.")
        .unwrap()
        .iter()
        .filter(|(name, _)| name.ends_with("streams_started"))
        .map(|(_, value)| value)
        .sum()
}

fn counted(stack: &Stack, name: &str) -> u64 {
    stack.envoy.stat(&format!("wasmcustom.glacis_wasm_{name}")).unwrap()
}

fn get(path: &str) -> Request {
    Request::get(path).browser()
}

/// Requests, whether they skip ext-proc, and their status while it is there and while it is not.
fn rows() -> Vec<(&'static str, Request, bool, u16, u16)> {
    let post = Request::post("/echo", "application/json", r#"{"a": 1}"#).browser();
    let attack = "/echo?q=%3Cscript%3Ealert(1)%3C/script%3E";
    vec![
        ("a page", get("/echo?q=shoes"), true, 200, 200),
        ("an attack", get(attack), false, 403, 503),
        (
            "an attack in a header",
            get("/echo").header("x-a", "${jndi:ldap://x/a}"),
            false,
            403,
            503,
        ),
        ("a body", post, false, 200, 503),
        // Whatever a client says of it, in whatever case: the verdict is no header field.
        (
            "a forged verdict",
            get(attack)
                .header("x-glacis-first-verdict", "clean")
                .header("wasm.glacis.first_verdict", "clean")
                .header("X-Glacis-Verdict", "allow"),
            false,
            403,
            503,
        ),
    ]
}

#[track_caller]
fn check(stack: &Stack, alive: bool) {
    // Workers tell Envoy of clean verdicts four times a second: those of earlier requests are to be told before.
    thread::sleep(Duration::from_secs(1));
    for (name, request, skips, status, without) in rows() {
        let before = (streams(stack), counted(stack, "first_verdict_total.clean"));
        let answer = stack.send(client(), &request).unwrap();
        let expected = if alive { status } else { without };
        assert_eq!(answer.status, expected, "{name}, ext-proc there: {alive}: {}", answer.text());
        eventually(name, Duration::from_secs(5), || {
            let clean = counted(stack, "first_verdict_total.clean") - before.1;
            let began = streams(stack) - before.0;
            // While ext-proc is away no stream may even be begun.
            clean == u64::from(skips) && (began == u64::from(!skips) || !alive && began <= 1)
        });
        assert!(!skips || streams(stack) == before.0, "{name} was sent to ext-proc");
    }
}

#[test]
fn clean_requests_pass_without_ext_proc_and_others_do_not() {
    let mut stack = start("first-verdict", |config| config.to_owned());
    check(&stack, true);
    let policy = |stack: &Stack, name: &str| {
        let stats = stack.envoy.stats(&format!("policy.{name}.")).unwrap();
        stats
            .iter()
            .filter(|(name, _)| name.ends_with(".allowed"))
            .map(|(_, value)| value)
            .sum::<u64>()
    };
    // A receipt and a clean first verdict are counted apart.
    assert_eq!((policy(&stack, "glacis_clean"), policy(&stack, "glacis_receipt")), (1, 1));
    against_the_quickstart(&stack);
    stack.ext_proc.as_mut().unwrap().process().kill();
    check(&stack, false);
}

/// What is clean here scores zero in the quickstart, where everything goes to ext-proc.
fn against_the_quickstart(stack: &Stack) {
    let corpus = settings::root().join("tests/corpora/ordinary/browsers.jsonl");
    let corpus = fs::read_to_string(corpus).unwrap();
    let paths = [
        "/echo?id=1%27%20or%20%271%27=%271",
        "/echo?file=../../../../etc/passwd",
        "/.git/config",
        "/echo?c=;cat%20/etc/passwd",
        "/echo?p=%24%7Bjndi:ldap://x%7D",
        "/wp-admin/../../etc",
    ];
    let ordinary = corpus.lines().filter_map(ordinary).take(16);
    let requests: Vec<Request> = ordinary.chain(paths.iter().map(|path| get(path))).collect();
    let clients: Vec<Ipv4Addr> = requests.iter().map(|_| client()).collect();
    for (request, from) in requests.iter().zip(&clients) {
        let (here, there) = (stack.send(*from, request), shared().send(*from, request));
        assert_eq!(here.unwrap().status, there.unwrap().status, "{request:?}");
    }
    let (here, there) = (access_log(stack, &clients), access_log(shared(), &clients));
    let mut clean = 0;
    for ((here, there), request) in here.iter().zip(&there).zip(&requests) {
        if here["first_verdict"] != "clean" {
            continue;
        }
        clean += 1;
        assert_eq!(here["glacis"], Value::Null, "it was inspected all the same: {here}");
        assert_eq!(there["glacis"]["verdict"], "allow", "{request:?}: {there}");
        assert_eq!(there["glacis"]["score"].as_f64().unwrap_or(0.0), 0.0, "{request:?}: {there}");
    }
    assert!(clean >= 10, "{clean} of {} are clean", requests.len());
}

/// A request without a body of the corpus.
fn ordinary(line: &str) -> Option<Request> {
    let value: Value = serde_json::from_str(line).ok()?;
    let request = Request::new(value["method"].as_str()?, value["uri"].as_str()?);
    if value["body"].is_string() || value["body_base64"].is_string() || value["method"] != "GET" {
        return None;
    }
    let fields = value["headers"].as_array()?.iter().filter_map(|field| {
        let (name, value) = (field[0].as_str()?, field[1].as_str()?);
        // What belongs to the connection is this client's own affair.
        let own = ["host", "connection", "upgrade", "te", "transfer-encoding", "content-length"];
        (!own.contains(&name.to_ascii_lowercase().as_str())).then_some((name, value))
    });
    Some(fields.fold(request, |request, (name, value)| request.header(name, value)))
}

#[test]
fn the_module_guards_as_well() {
    let mut stack = start("first-verdict-guard", guarded_by_module);
    check(&stack, true);
    let guard = |stack: &Stack, name: &str| counted(stack, &format!("guard_total.{name}"));
    assert_eq!((guard(&stack, "clean"), guard(&stack, "receipt")), (1, 1));
    stack.ext_proc.as_mut().unwrap().process().kill();
    check(&stack, false);
    assert_eq!((guard(&stack, "clean"), guard(&stack, "missing_denied")), (2, 0));
}

/// The guard alone: receipts come from a header here, which stands for ext-proc.
#[test]
fn receipts_by_route() {
    [Host::Wasm, Host::Native].into_iter().for_each(check_receipts);
}

fn check_receipts(host: Host) {
    const RECEIPTS: &str = r#"
          - name: envoy.filters.http.header_to_metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
              request_rules:
              - {header: x-receipt, on_header_present: {metadata_namespace: glacis, key: verdict, type: STRING}, remove: true}"#;
    let plugin = r#"{"guard": {"verdicts": ["allow", "observed"], "clean": true,
        "routes": [{"name": "open", "missing": "allow"}]}}"#;
    let setup = Setup { plugin, before: RECEIPTS, ..Setup::default() };
    let filter = Filter::start_in(host, &folder("guard"), setup, 0).unwrap();
    for (path, receipt, status, found) in [
        ("/a", "allow", 200, "receipt"),
        ("/a", "observed", 200, "receipt"),
        ("/a", "pending", 503, "missing:denied"),
        ("/a", "", 503, "missing:denied"),
        ("/open/a", "", 200, "missing:allowed"),
        ("/open/a", "deny", 200, "missing:allowed"),
        ("/open/a", "allow", 200, "receipt"),
    ] {
        let request = Request::get(path);
        let request = match receipt {
            "" => request,
            receipt => request.header("x-receipt", receipt),
        };
        let from = client();
        let answer = filter.send(from, &request).unwrap();
        assert_eq!(answer.status, status, "{path} {receipt}: {}", answer.text());
        if status == 503 {
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        eventually("it is noted", Duration::from_secs(10), || {
            filter.logged(from, "guard").unwrap() == [found]
        });
    }
    let family = match host {
        Host::Wasm => "wasmcustom.glacis_wasm_guard_total",
        Host::Native => "dynamicmodulescustom.glacis_check_guard.found",
    };
    let stat = |name: &str| filter.envoy.stat(&format!("{family}.{name}"));
    assert_eq!(stat("missing_denied").unwrap(), 2);
    assert_eq!(stat("missing_allowed").unwrap(), 2);
}

/// The module without the engine says what to take instead.
#[test]
fn the_small_module_refuses_rules() {
    let plugin = r#"{"first_verdict": {"seclang": "SecRuleEngine On"}}"#;
    let setup = Setup { plugin, ..Setup::default() };
    let told = Filter::start(&folder("no-engine"), setup).unwrap_err().to_string();
    assert!(told.contains("take glacis_wasm_filter_engine.wasm"), "{told}");
}
