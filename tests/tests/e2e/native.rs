//! What is the native module's own: routes, reloading, threads, versions of Envoy. Attacks, framings and what passes are
//! tried on it beside ext-proc, in `attacks`, `framing` and `pass_through`.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use glacis_tests::envoy::{self, CONFIG};
use glacis_tests::greedy::dense_form;
use glacis_tests::http::{Connection, Request};
use glacis_tests::log::Folder;
use glacis_tests::stack::{Ports, Processor, Stack};
use glacis_tests::{http2, native as stack, settings};
use serde_json::{Value, json};

use crate::support::{Own, access_log, client, eventually, folder, native, shared};

const FORM: &str = "application/x-www-form-urlencoded";
const ATTACK: &str = "q=%3Cscript%3Ealert(1)%3C/script%3E";

fn attack(path: &str) -> Request {
    Request::get(&format!("{path}?{ATTACK}")).browser()
}

/// A counter of the module.
fn counted(stack: &Stack, name: &str) -> u64 {
    stack.envoy.stat(&format!("dynamicmodulescustom.{name}")).unwrap()
}

/// The gauges of the rules in use; those that are no longer in use are 0.
fn rulesets_in_use(stack: &Stack) -> Vec<String> {
    let gauges = stack.envoy.stats("glacis_ruleset_info").unwrap();
    gauges.into_iter().filter(|(_, value)| *value == 1).map(|(name, _)| name).collect()
}

/// `glacis status` shows which listener has the module, and its rules after the first request.
#[test]
fn status_shows_the_module() {
    let own = Own::native("native-status", &["mode: detection"], &[]);
    let status = || {
        let mut command = Command::new(settings::cli().unwrap());
        let admin = own.0.envoy.admin().to_string();
        let output = command.args(["status", "--json", "--admin", &admin]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8(output.stderr)));
        assert!(output.status.success(), "{status}");
        status["native"].clone()
    };
    let filters = json!([
        {"listener": "glacis", "filter": "glacis", "module": "glacis", "off_by_default": false}
    ]);
    let before = status();
    assert_eq!((&before["filters"], &before["version"]), (&filters, &Value::Null));
    let from = client();
    assert_eq!(own.0.send(from, &attack("/echo")).unwrap().status, 200);
    eventually("the rules are shown", Duration::from_secs(5), || !status()["version"].is_null());
    let after = status();
    assert_eq!(after["filters"], filters);
    assert_eq!(after["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(after["rulesets"][0]["mode"], "detection");
    assert_eq!(after["requests"], json!({"allow": 1}));
    assert_eq!(after["rulesets"][0]["hash"], receipt(&own.0, from)["ruleset"]);
}

/// A receipt without what differs from one request to the next.
fn receipt(stack: &Stack, from: Ipv4Addr) -> Value {
    let mut receipt = access_log(stack, &[from]).remove(0)["glacis"].take();
    if let Some(entries) = receipt.as_object_mut() {
        entries.remove("request_id");
    }
    receipt
}

/// The same request leaves the same receipt, and the same answer, in both hosts.
#[test]
fn receipts_are_those_of_ext_proc() {
    let long = format!("a={}&{ATTACK}", "glacis+and+ice+".repeat(2_000));
    let rows = [
        Request::get("/echo?q=winter+coat"),
        attack("/echo"),
        Request::get("/echo").header("user-agent", "${jndi:ldap://192.0.2.1/a}"),
        Request::post("/echo", FORM, "name=Jo"),
        Request::post("/echo", FORM, ATTACK),
        Request::post("/echo", FORM, long),
        Request::post("/echo", "application/json", r#"{"q": "<script>alert(1)</script>"}"#),
        Request::post("/echo", FORM, vec![b'a'; 13_107_201]),
        Request::get("/echo").header("cookie", "a=1; ".repeat(300)),
        // Headers that are evaluated on another thread.
        Request::get(&format!("/echo?q={}", "winter+coat+".repeat(1_500))),
        Request::get(&format!("/echo?q={}&{ATTACK}", "winter+coat+".repeat(1_500))),
        Request::post("/echo", FORM, ATTACK).header("x-note", "winter ".repeat(1_500)),
        Request::post("/echo", FORM, "name=Jo").header("x-note", "winter ".repeat(1_500)),
        // Envoy answers in the words of gRPC, whatever the rules take it for.
        Request::post("/echo", "application/grpc+proto", "\0\0\0\0\x06\n\x04fine")
            .header("x-note", "${jndi:ldap://a}"),
    ];
    for request in rows {
        let request = request.browser();
        let of = |stack: &Stack| {
            let from = client();
            let answer = stack.send(from, &request).unwrap();
            let mut body = answer.text();
            // The name of the request is its own.
            let line = access_log(stack, &[from]).remove(0);
            if let Some(id) = line["glacis"]["request_id"].as_str() {
                body = body.replace(id, "");
            }
            let own: Vec<_> =
                ["content-type", "cache-control", "vary", "retry-after", "grpc-status"]
                    .map(|name| answer.header(name).map(str::to_owned))
                    .to_vec();
            let body = (answer.status != 200).then_some(body);
            (answer.status, own, body, receipt(stack, from))
        };
        assert_eq!(of(native()), of(shared()), "{} {}", request.method, request.target);
    }
}

/// Each way in which a route chooses a profile, or none.
#[test]
fn routes_choose_profiles() {
    let routes = r#"              - name: by-route
                match: {prefix: /by-route/}
                route: *route
                typed_per_filter_config:
                  glacis:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                    dynamic_module_config: {name: glacis}
                    filter_name: waf
                    filter_config:
                      "@type": type.googleapis.com/google.protobuf.Struct
                      value: {profile: look}
              - name: by-metadata
                match: {prefix: /by-metadata/}
                route: *route
                metadata: {filter_metadata: {glacis: {profile: look}}}
              - name: by-name
                match: {prefix: /by-name/}
                route: *route
              - name: misspelt
                match: {prefix: /misspelt/}
                route: *route
                metadata: {filter_metadata: {glacis: {profile: lok}}}
              - name: closed
"#;
    let keys = ["profiles: {look: {mode: detection}}", "routes: {by-name: look}"];
    let own = Own::native("native-profiles", &keys, &[("              - name: closed\n", routes)]);
    for (path, profile, status) in [
        ("/echo", Some("default"), 403),
        ("/by-route/echo", Some("look"), 200),
        ("/by-metadata/echo", Some("look"), 200),
        ("/by-name/echo", Some("look"), 200),
        // Not open for want of a profile.
        ("/misspelt/echo", Some("default"), 403),
        ("/static/echo", None, 200),
    ] {
        let from = client();
        assert_eq!(own.0.send(from, &attack(path)).unwrap().status, status, "{path}");
        let receipt = receipt(&own.0, from);
        assert_eq!(receipt["profile"].as_str(), profile, "{path}: {receipt}");
    }
    assert_eq!(counted(&own.0, "glacis_unknown_profiles"), 1);
    assert_eq!(counted(&own.0, "glacis_requests.profile.look.verdict.allow"), 3);
    assert_eq!(counted(&own.0, "glacis_requests.profile.default.verdict.deny"), 2);
}

/// A profile for each policy, in both hosts.
const POLICIES: &str = "\
profiles: {\
 detect: {mode: detection},\
 idle: {mode: off},\
 unsampled: {sample_percent: 0},\
 excluded: {exclusions: [{tags: [attack-xss], owner: tests, reason: tests, expires: never}]},\
 page: {block: {status: 406, body: blocked, content_type: text/plain}},\
 strict: {request_body_bytes_max: 10000},\
 partial: {request_body_bytes_max: 10000, oversized_body: partial},\
 pass: {request_body_bytes_max: 10000, oversized_body: pass},\
 steps: {limits: {rule_steps_max: 500}},\
 bodies: {directives: SecRequestBodyAccess Off},\
 responses: {response: full, directives: 'SecResponseBodyAccess On'}}";

/// Routes to these profiles, before the last of the quickstart.
fn routes_to_profiles() -> String {
    let names = POLICIES.split(": {").filter_map(|part| part.rsplit([' ', '{', ',']).next());
    let names = names.filter(|name| !["profiles", "block", "limits"].contains(name));
    let routes = names.filter(|name| name.chars().all(char::is_alphabetic) && !name.is_empty());
    let routes: String = routes
        .map(|name| {
            format!(
                "              - name: to-{name}\n                match: {{prefix: /{name}/}}\n                \
                 route: *route\n                metadata: {{filter_metadata: {{glacis: {{profile: {name}}}}}}}\n"
            )
        })
        .collect();
    format!("{routes}              - name: closed\n")
}

/// What each policy makes of a request is the same in both hosts.
#[test]
fn policies_are_those_of_ext_proc() {
    let routes = routes_to_profiles();
    let last = "              - name: closed\n";
    let attributes = "[source.address, destination.address, request.protocol]";
    let with_profile = "[source.address, destination.address, request.protocol, \
                        xds.route_metadata.filter_metadata.glacis.profile]";
    let edits = [(last, &*routes), (attributes, with_profile)];
    let keys = format!("{POLICIES}\ndeadline_ms: 0\ncanary_seconds: 0\n");
    let of_ext_proc =
        Own::start("native-policies-peer", Processor::ExtProcWith(keys.leak()), &edits);
    let own = Own::native("native-policies", &[POLICIES, "deadline_ms: 0"], &[(last, &routes)]);
    let form = |body: String| Request::post("/echo", FORM, body);
    let long = |end: &str| format!("a={}{end}", "glacis+and+ice+".repeat(1_000));
    let dense = dense_form(9_000, 50);
    let rows: Vec<(&str, Request, u16)> = vec![
        ("detect", attack("/echo"), 200),
        ("idle", attack("/echo"), 200),
        ("idle", form(ATTACK.to_owned()), 200),
        ("unsampled", form(ATTACK.to_owned()), 200),
        ("excluded", attack("/echo"), 200),
        ("excluded", Request::get("/echo?q=1'+or+1=1--+"), 403),
        ("page", attack("/echo"), 406),
        ("strict", form(long("")), 413),
        ("strict", form("a=b".to_owned()), 200),
        ("partial", form(long("")), 200),
        ("partial", form(format!("{ATTACK}&{}", long(""))), 403),
        ("partial", form(long(&format!("&{ATTACK}"))), 200),
        ("pass", form(format!("{ATTACK}&{}", long(""))), 200),
        ("steps", form(dense), 503),
        ("bodies", form(ATTACK.to_owned()), 200),
        ("responses", Request::get("/echo"), 200),
    ];
    for (profile, request, status) in rows {
        let mut request = request.browser();
        request.target = format!("/{profile}{}", request.target);
        let of = |stack: &Stack| {
            let from = client();
            let answer = stack.send(from, &request).unwrap();
            let kind = answer.header("content-type").map(str::to_owned);
            (answer.status, kind, receipt(stack, from))
        };
        let (native, peer) = (of(&own.0), of(&of_ext_proc.0));
        assert_eq!(native, peer, "{profile}: {} {}", request.method, request.target);
        assert_eq!(native.0, status, "{profile}: {} {}", request.method, request.target);
    }
}

/// A client of gRPC is refused in its own words.
#[test]
fn calls_of_grpc_are_refused_in_trailers() {
    let request = Request::post("/glacis.test.Text/Echo", "application/grpc", "");
    let request = request.header("te", "trailers").header("x-note", "${jndi:ldap://192.0.2.1/a}");
    let answer = http2::send(client(), native().proxy(), &request).unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/grpc"), "{answer:?}");
    assert_eq!(answer.header("grpc-status"), Some("7"), "{answer:?}");
    let message = answer.header("grpc-message").unwrap_or_default();
    assert!(message.starts_with("Forbidden; request "), "{answer:?}");
}

/// A file of rules that a test changes.
fn rules(name: &str, text: &str) -> PathBuf {
    let folder = Folder::new(&folder(&format!("{name}-rules"))).unwrap();
    folder.write("local.conf", text).unwrap()
}

/// Rules are replaced while requests are served, and what is not good changes nothing.
#[test]
fn rules_are_reloaded() {
    let rule = |word: &str| {
        format!("SecRule ARGS \"@streq {word}\" \"id:9000,phase:2,deny,status:418,log\"\n")
    };
    let file = rules("native-reload", &rule("one"));
    let key = format!("rules: [{}]", file.display());
    let own = Own::native("native-reload", &[&key, "reload_seconds: 1"], &[]);
    let status = |word: &str| {
        let request = Request::get(&format!("/echo?q={word}")).browser();
        own.0.send(client(), &request).unwrap().status
    };
    assert_eq!((status("one"), status("two")), (418, 200));
    let rulesets = || rulesets_in_use(&own.0);
    let [first] = &rulesets()[..] else { panic!("one profile: {:?}", rulesets()) };
    assert!(first.ends_with(".profile.default.mode.on"), "{first}");
    let ended = AtomicBool::new(false);
    scope(|scope| {
        let load = scope.spawn(|| {
            let mut others = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                others.extend(Some(status("three")).filter(|status| *status != 200));
            }
            others
        });
        fs::write(&file, rule("two")).unwrap();
        eventually("the new rule is in use", Duration::from_secs(30), || status("two") == 418);
        assert_eq!(status("one"), 200);
        fs::write(&file, "SecRule ARGS \"@rxx a\" \"id:1,deny\"\n").unwrap();
        let log = || own.0.folder.read(envoy::LOG);
        eventually("the broken rule is refused", Duration::from_secs(30), || {
            log().contains("the rules in use stay") && log().contains("local.conf:1")
        });
        assert_eq!((status("one"), status("two")), (200, 418));
        ended.store(true, Ordering::Relaxed);
        assert_eq!(load.join().unwrap(), Vec::<u16>::new());
    });
    let [second] = &rulesets()[..] else { panic!("those before are gone: {:?}", rulesets()) };
    assert_ne!(first, second);
    assert_eq!(counted(&own.0, "glacis_reloads.result.success"), 1);
    assert_eq!(counted(&own.0, "glacis_reloads.result.failure"), 1);
    assert!(counted(&own.0, "glacis_rule_matches.rule_id.9000") > 0);
}

/// Envoy refuses a configuration with rules that are not good, and says where they are not.
#[test]
fn what_is_not_good_is_refused_with_its_place() {
    let file =
        rules("native-refused", "SecRuleEngine On\nSecRule ARGUMENTS \"@rx a\" \"id:1,deny\"\n");
    let folder = Folder::new(&folder("native-refused")).unwrap();
    let rules = format!("rules: [{}]", file.display());
    for (key, words) in [
        (&*rules, &["local.conf:2", "ARGUMENTS", "^"][..]),
        ("paranoia: 5", &["paranoia: write a level from 1 to 4"]),
        ("parnoia: 2", &["parnoia"]),
        ("late: fail", &["late (profile default): "]),
    ] {
        let text = stack::config(&Ports::QUICKSTART, &folder, &[key]).unwrap();
        let config = folder.write(CONFIG, &text).unwrap();
        let refused = envoy::validate(&settings::envoy().unwrap(), &settings::root(), &config);
        let refused = refused.unwrap_err().to_string();
        for word in words {
            assert!(refused.contains(word), "{key}: no {word} in {refused}");
        }
    }
}

/// The time that each of so many requests takes on one connection.
fn times(stack: &Stack, count: usize) -> Vec<Duration> {
    let mut connection = Connection::open(Some(client()), stack.proxy()).unwrap();
    let request = Request::get("/echo?q=winter+coat").browser();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        assert_eq!(connection.send(&request).unwrap().status, 200);
        times.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    times
}

/// While the largest hostile bodies are evaluated, the worker that has taken them serves others: there is one worker only,
/// and an evaluation takes it some hundred milliseconds.
#[test]
fn workers_do_not_wait_for_evaluations() {
    let keys = ["evaluation_threads: 1", "deadline_ms: 0"];
    let (envoy, ports) = (settings::envoy().unwrap(), Ports::free().unwrap());
    let own = stack::start_in(&envoy, &folder("native-threads"), ports, &keys, &[], 1);
    let own = Own(own.unwrap());
    let quiet = times(&own.0, 100);
    let dense = dense_form(1_000_000, 50);
    let ended = AtomicBool::new(false);
    scope(|scope| {
        let hostile = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                let request = Request::post("/echo", FORM, &*dense).browser();
                let status = own.0.send(client(), &request).unwrap().status;
                assert!(matches!(status, 403 | 503), "{status}");
                longest = longest.max(began.elapsed());
            }
            longest
        });
        std::thread::sleep(Duration::from_millis(100));
        let busy = times(&own.0, 100);
        ended.store(true, Ordering::Relaxed);
        let longest = hostile.join().unwrap();
        // Half of all requests: a machine that does other things, too, is late for some.
        let (quiet, busy) = (quiet[50], busy[50]);
        eprintln!("quiet {quiet:?}, busy {busy:?}, an evaluation {longest:?}");
        assert!(busy <= quiet + Duration::from_millis(2), "{quiet:?}, then {busy:?}");
        assert!(longest > Duration::from_millis(20), "no evaluation took long: {longest:?}");
    });
}

/// Evaluations that find no place are rejected, and counted.
#[test]
fn a_full_queue_is_a_503() {
    let keys = [
        "inline_body_bytes: 0",
        "evaluation_threads: 1",
        "evaluation_queue_max: 1",
        "deadline_ms: 0",
    ];
    let own = Own::native("native-queue", &keys, &[]);
    let dense = dense_form(200_000, 50);
    let send = || {
        let request = Request::post("/echo", FORM, &*dense).browser();
        own.0.send(client(), &request).unwrap().status
    };
    let mut statuses = Vec::new();
    for _ in 0..5 {
        scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
            statuses.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
        if statuses.contains(&503) {
            break;
        }
    }
    assert!(statuses.iter().all(|status| matches!(status, 403 | 503)), "{statuses:?}");
    assert!(statuses.contains(&503), "the queue was never full");
    let rejected = statuses.iter().filter(|status| **status == 503).count() as u64;
    let name = "glacis_rejected.reason.queue_full";
    assert_eq!(counted(&own.0, name), rejected);
}

/// Clients that do not wait for the verdict on their bodies harm nobody.
#[test]
fn clients_may_go_while_they_are_evaluated() {
    let own = Own::native("native-gone", &["evaluation_threads: 1", "inline_body_bytes: 0"], &[]);
    let dense = dense_form(300_000, 50);
    for number in 0..20 {
        let mut connection = Connection::open(Some(client()), own.0.proxy()).unwrap();
        connection.write(&Request::post("/echo", FORM, &*dense).browser().bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(number));
    }
    eventually("the queue is empty again", Duration::from_secs(30), || {
        let request = Request::post("/echo", FORM, "a=b").browser();
        own.0.send(client(), &request).unwrap().status == 200
    });
    assert_eq!(own.0.send(client(), &attack("/echo")).unwrap().status, 403);
}

/// Envoy ends while bodies are evaluated: no thread touches what is gone.
#[test]
fn envoy_ends_while_bodies_are_evaluated() {
    let keys = ["evaluation_threads: 1", "deadline_ms: 0"];
    let mut own = Own::native("native-end", &keys, &[]);
    let dense = dense_form(1_000_000, 50);
    let open = || {
        let mut connection = Connection::open(Some(client()), own.0.proxy()).unwrap();
        connection.write(&Request::post("/echo", FORM, &*dense).browser().bytes()).unwrap();
        connection
    };
    let _connections: Vec<Connection> = (0..6).map(|_| open()).collect();
    std::thread::sleep(Duration::from_millis(200));
    let process = own.0.envoy.process();
    process.terminate().unwrap();
    let mut status = None;
    eventually("Envoy has ended", Duration::from_secs(30), || {
        status = process.ended();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
}

/// A body is held up to the limit of the rules, whatever Envoy's own limit is.
#[test]
fn large_bodies_reach_the_rules() {
    let small = (
        "    filter_chains:\n",
        "    per_connection_buffer_limit_bytes: 32768\n    filter_chains:\n",
    );
    let own = Own::native("native-large", &["deadline_ms: 0"], &[small]);
    let large = |end: &str| format!("a={}{end}", "glacis+and+ice+".repeat(20_000));
    for (body, status) in [(large(""), 200), (large(&format!("&{ATTACK}")), 403)] {
        let request = Request::post("/echo", FORM, body).browser();
        let answer = own.0.send(client(), &request).unwrap();
        assert_eq!(answer.status, status, "{:.300}", answer.text());
    }
}

/// One file for all supported versions. Older ones lack a callback for receipts, and name the profile of a route in
/// another field: the receipt is the same.
#[test]
fn older_envoys_load_the_module() {
    let own_field = ("filter_name: waf  # per", "per_route_config_name: waf  # per");
    let requests = [
        Request::get("/echo?q=winter+coat"),
        attack("/echo"),
        attack("/static/echo"),
        Request::post("/echo", FORM, format!("a={}&{ATTACK}", "ice+".repeat(10_000))),
        Request::post("/echo", "application/json", r#"{"q": "<script>alert(1)</script>"}"#),
    ];
    for program in settings::older_envoys().unwrap() {
        let name = program.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let (folder, ports) = (folder(&format!("native-{name}")), Ports::free().unwrap());
        let old = Own(stack::start_in(&program, &folder, ports, &[], &[own_field], 2).unwrap());
        for request in &requests {
            let request = request.clone().browser();
            let of = |stack: &Stack| {
                let from = client();
                let status = stack.send(from, &request).unwrap().status;
                let mut receipt = receipt(stack, from);
                // A list without entries cannot be written there.
                if let Some(entries) = receipt.as_object_mut() {
                    entries.retain(|_, value| *value != Value::Array(Vec::new()));
                }
                (status, receipt)
            };
            assert_eq!(of(&old.0), of(native()), "{name}: {} {}", request.method, request.target);
        }
        assert_eq!(rulesets_in_use(&old.0), rulesets_in_use(native()), "{name}");
    }
}

/// The shipped filter with checks before the rules: each answers what is its own, and a route can do without checks.
#[test]
fn checks_stand_before_the_rules() {
    let file = settings::root().join("envoy-configs/native/checks.yaml");
    let checks = fs::read_to_string(file).unwrap();
    let off = "                match: {prefix: /static/}\n                route: *route\n                typed_per_filter_config:\n";
    let more = off.to_owned()
        + r#"                  glacis-checks:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                    dynamic_module_config: {name: glacis}
                    filter_name: checks
                    filter_config:
                      "@type": type.googleapis.com/google.protobuf.StringValue
                      value: "{disabled: true}"
"#;
    let before = "          # The rules. Envoy holds";
    let edits = [(before, &*format!("{checks}\n{before}")), (off, &*more)];
    let own = Own::native("native-checks", &[], &edits);
    let sqlmap = |path: &str| Request::get(path).header("user-agent", "sqlmap/1.8");
    let rows = [
        (Request::get("/echo").browser(), 200, "via_upstream"),
        (sqlmap("/echo"), 403, "glacis_denied_bot_scanner_sqlmap"),
        (attack("/echo"), 403, "glacis_deny_rule_949110"),
        (sqlmap("/static/a"), 200, "via_upstream"),
    ];
    for (request, status, details) in rows {
        let from = client();
        assert_eq!(own.0.send(from, &request).unwrap().status, status, "{request:?}");
        assert_eq!(access_log(&own.0, &[from]).remove(0)["details"], details, "{request:?}");
    }
    let denied = "glacis_check_verdicts.check.bots.verdict.denied.detail.bot.scanner.sqlmap";
    assert_eq!(counted(&own.0, denied), 1);
    assert_eq!(counted(&own.0, "glacis_check_verdicts.check.all.verdict.passed.detail.-"), 2);
}

/// A `Struct` of Envoy is handed over as JSON, with numbers in floating point.
#[test]
fn checks_are_configured_by_a_struct() {
    let file = settings::root().join("envoy-configs/native/checks.yaml");
    let checks = fs::read_to_string(file).unwrap();
    let (head, value) = checks.split_once("value: |\n").unwrap();
    let head = head.replace("StringValue", "Struct");
    let checks = format!("{head}value:\n{value}");
    let before = "          # The rules. Envoy holds";
    let own = Own::native("native-struct", &[], &[(before, &*format!("{checks}\n{before}"))]);
    let sqlmap = Request::get("/echo").header("user-agent", "sqlmap/1.8");
    assert_eq!(own.0.send(client(), &sqlmap).unwrap().status, 403);
}
