//! A request that reaches a limit is rejected by a verdict, on the open route as well as on the closed one: what a
//! client sends is no failure of the service, and no attack that a rule has found.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use glacis_tests::frames::{Connection, Frame, fields};
use glacis_tests::greedy::dense_form;
use glacis_tests::http::{self, Request};
use glacis_tests::log::Folder;
use glacis_tests::redis::Redis;
use glacis_tests::stack::{Processor, Stack};
use serde_json::Value;

use crate::support::{Own, access_log, client, eventually, folder, shared};

const FORM: &str = "application/x-www-form-urlencoded";
const ROUTES: [&str; 2] = ["", "/open"];

fn post(path: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::post(path, FORM, body).browser()
}

/// Text that no rule objects to, in a form.
fn prose(bytes: usize) -> String {
    format!("a={}", "glacis+and+ice+".repeat(bytes / 15))
}

fn attack() -> Request {
    Request::get("/echo?id=1%27%20UNION%20SELECT%20login,%20password%20FROM%20users--%20-")
        .browser()
}

/// The status of an answer; 0 if there was none.
fn status(stack: &Stack, from: Ipv4Addr, request: &Request) -> u16 {
    stack.send(from, request).map_or(0, |answer| answer.status)
}

fn metrics(stack: &Stack) -> BTreeMap<String, f64> {
    stack.ext_proc.as_ref().unwrap().metrics().unwrap()
}

/// What a metric of this name counts, over all samples with this label.
fn sum(metrics: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    let of = |sample: &str| sample.starts_with(name) && sample.contains(label);
    metrics.iter().filter(|(sample, _)| of(sample)).map(|(_, count)| count).sum()
}

/// Rejected requests for a reason, and those that count as attacks.
fn counted(stack: &Stack, reason: &str) -> (f64, f64) {
    let metrics = metrics(stack);
    let attacks = sum(&metrics, "glacis_requests_total", "verdict=\"deny\"")
        + sum(&metrics, "coraza_waf_blocked_requests", "");
    (sum(&metrics, "glacis_", &format!("reason=\"{reason}\"")), attacks)
}

/// What every rejection leaves behind: the status on both routes, a receipt with its reason, a counter that is none
/// of attacks, and a record that does not say "deny".
#[track_caller]
fn check(own: &Own, reason: &str, expected: u16, request: impl Fn(&str) -> Request) {
    let stack = &own.0;
    let before = counted(stack, reason);
    let clients: Vec<Ipv4Addr> = ROUTES.iter().map(|_| client()).collect();
    for (route, from) in ROUTES.iter().zip(&clients) {
        let answer = stack.send(*from, &request(&format!("{route}/echo"))).unwrap();
        assert_eq!(answer.status, expected, "{reason}, {route:?}: {:.300}", answer.text());
    }
    for line in access_log(stack, &clients) {
        let receipt = &line["glacis"];
        let told = (&receipt["verdict"], &receipt["reason"]);
        assert_eq!(told, (&"reject".into(), &reason.into()), "{line}");
        let details = line["details"].as_str().unwrap_or_default();
        assert!(details.contains(&format!("glacis_reject_{reason}")), "{line}");
    }
    eventually(&format!("{reason} is counted twice"), Duration::from_secs(30), || {
        counted(stack, reason).0 >= before.0 + 2.0
    });
    assert!(counted(stack, reason).1 <= before.1, "{reason} counts as an attack");
    eventually(&format!("two records of {reason}"), Duration::from_secs(30), || {
        let records: Vec<Value> =
            { clients.iter() }.flat_map(|from| record(stack, *from)).collect();
        { records.iter() }.for_each(|record| {
            let told = (&record["action"], &record["reason"]);
            assert_eq!(told, (&"reject".into(), &reason.into()), "{record}");
        });
        records.len() == ROUTES.len()
    });
}

fn record(stack: &Stack, from: Ipv4Addr) -> Option<Value> {
    let is_of = |record: &Value| {
        let client = record["client"].as_str().unwrap_or_default();
        client == from.to_string() || client.starts_with(&format!("{from}:"))
    };
    stack.audit_log().into_iter().find(is_of)
}

/// Asks `/readyz` over and over while `work` is done: every answer that is not 200.
fn unready(own: &Own, work: impl FnOnce()) -> Vec<String> {
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, own.0.ports.ext_proc_admin));
    let (end, ended) = channel::<()>();
    let seen = Mutex::new(Vec::new());
    scope(|scope| {
        scope.spawn(|| {
            // The other end goes with `work`, also when that fails.
            let ended = ended;
            while ended.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                // Who does not answer at once on a busy machine has not said that it is not ready.
                let Ok(told) = http::fetch(admin, "/readyz") else { continue };
                if told.status != 200 {
                    seen.lock().unwrap().push(told.text());
                }
            }
        });
        let _end = end;
        work();
    });
    seen.into_inner().unwrap()
}

/// The evaluation of a large body takes longer than it may.
#[test]
fn a_late_evaluation() {
    let own = Own::start("limits-late", Processor::ExtProcWith("deadline_ms: 1\n"), &[]);
    check(&own, "late", 503, |path| post(path, prose(200_000)));
    // An attack that is late is no less an attack for it: it does not pass.
    let dense = dense_form(200_000, 50);
    // Late for longer than overload has to last before a service is not ready.
    let unready = unready(&own, || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            for route in ROUTES {
                let status = status(&own.0, client(), &post(&format!("{route}/echo"), &*dense));
                assert!(matches!(status, 403 | 503), "{route:?}: {status}");
            }
        }
    });
    assert_eq!(unready, Vec::<String>::new());
    assert_eq!(status(&own.0, client(), &Request::get("/echo").browser()), 200);
}

/// More evaluations wait than may.
#[test]
fn a_full_queue() {
    let keys =
        "inline_body_bytes: 0\nevaluation_threads: 1\nevaluation_queue_max: 1\ndeadline_ms: 0\n";
    let own = Own::start("limits-queue", Processor::ExtProcWith(keys), &[]);
    let dense = dense_form(20_000, 50);
    let before = counted(&own.0, "queue_full").0;
    let unready = unready(&own, || {
        let send = || {
            let requests = (0..3).map(|number| {
                let request = post(&format!("{}/echo", ROUTES[number % 2]), &*dense);
                status(&own.0, client(), &request)
            });
            requests.collect::<Vec<_>>()
        };
        scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
            for thread in threads {
                let statuses = thread.join().unwrap();
                assert!(statuses.iter().all(|it| matches!(it, 403 | 503)), "{statuses:?}");
            }
        });
    });
    assert_eq!(unready, Vec::<String>::new());
    assert!(counted(&own.0, "queue_full").0 > before, "the queue was never full");
}

/// A request that holds the only place there is.
fn idle(stack: &Stack) -> Connection {
    let more = [("content-type", FORM), ("content-length", "1000")];
    let fields = fields("POST", "/echo", &more);
    let mut connection = Connection::open(client(), stack.proxy()).unwrap();
    let headers = Frame::Headers { fields, pieces: 1, end_stream: false };
    connection.begin(&[headers, Frame::data(b"a", false)]).unwrap();
    connection
}

#[test]
fn more_streams_than_there_may_be() {
    let own = Own::start("limits-streams", Processor::ExtProcWith("max_streams: 1\n"), &[]);
    let _idle = idle(&own.0);
    eventually("the place is taken", Duration::from_secs(10), || {
        metrics(&own.0)["glacis_streams_open"] >= 1.0
    });
    let unready = unready(&own, || {
        check(&own, "max_streams", 503, Request::get);
        std::thread::sleep(Duration::from_secs(1));
    });
    assert_eq!(unready, Vec::<String>::new());
}

#[test]
fn more_steps_than_rules_may_take() {
    let keys = "limits: {rule_steps_max: 500}\ncanary_seconds: 0\n";
    let own = Own::start("limits-steps", Processor::ExtProcWith(keys), &[]);
    check(&own, "rule_steps", 503, |path| post(path, dense_form(20_000, 50)));
}

/// There is no memory left for the body. Those who are rejected for it have attacked nobody, and are not banned.
#[test]
fn no_memory_for_a_body() {
    let redis = Redis::start(&Folder::new(&folder("limits-redis")).unwrap()).unwrap();
    let keys = format!(
        "body_bytes_max: 100000\nbans: {{redis: {}, scenarios: [{{name: attacks, capacity: 3, leak_seconds: 600, ban_seconds: 60}}]}}\n",
        redis.place()
    );
    let own = Own::start("limits-memory", Processor::ExtProcWith(keys.leak()), &[]);
    let large = |path: &str| post(path, prose(150_000));
    check(&own, "body_overflow", 503, large);
    let bans = || metrics(&own.0)[r#"glacis_bans_total{scenario="attacks"}"#];
    let victim = client();
    for _ in 0..10 {
        assert_eq!(status(&own.0, victim, &large("/echo")), 503);
    }
    // Of an attacker it is known when the ban was counted; by then that of the victim would have been, too.
    let attacker = client();
    for _ in 0..5 {
        assert_eq!(status(&own.0, attacker, &attack()), 403);
    }
    eventually("the attacker is banned", Duration::from_secs(10), || bans() >= 1.0);
    assert_eq!(bans(), 1.0);
}

/// Limits on the content of a request, which the shipped configuration has.
#[test]
fn more_content_than_is_inspected() {
    let cookies: String = (0..300).map(|number| format!("c{number}=1; ")).collect();
    let arguments: String = (0..1_100).map(|number| format!("a{number}=1&")).collect();
    let file = format!(
        "--b\r\ncontent-disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n{}\r\n--b--\r\n",
        "a".repeat(13_107_200)
    );
    let upload = Request::post("/echo", "multipart/form-data; boundary=b", file).browser();
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    let rows: [(Request, &[(u16, &str)]); 5] = [
        // A million arguments of a body are read; on a busy machine the time may be over before.
        (post("/echo", "a&".repeat(1_000_001)), &[(400, "body_limits"), (503, "late")]),
        (Request::post("/echo", "application/json", deep).browser(), &[(400, "body_limits")]),
        (Request::get("/echo").header("cookie", cookies).browser(), &[(431, "headers")]),
        (Request::get(&format!("/echo?{arguments}")).browser(), &[(400, "arguments")]),
        // On a busy machine the time may be over before the end of so large a body is there.
        (upload, &[(413, "body_too_large"), (503, "late")]),
    ];
    for (request, expected) in rows {
        for route in ROUTES {
            let mut request = request.clone();
            request.target = format!("{route}{}", request.target);
            let is_right = |status, receipt: &Value| {
                let reason = receipt["reason"].as_str().unwrap_or_default();
                receipt["verdict"] == "reject" && expected.contains(&(status, reason))
            };
            persistent_fault(&request, is_right);
        }
    }
}

/// Bodies that cost the most of all are attacks: whatever they cost, they do not pass.
#[test]
fn a_dense_body_never_passes() {
    for (bytes, arguments) in [(1_000_000, 50), (1_000_000, 900), (1_000_000, 1), (380_000, 50)] {
        let body = dense_form(bytes, arguments);
        for route in ROUTES {
            let request = post(&format!("{route}/echo"), &*body);
            // Whoever refuses it, it has to be ext-proc: an error of its would be left to the failure mode.
            persistent_fault(&request, |status, receipt| {
                let verdict = receipt["verdict"].as_str().unwrap_or_default();
                matches!((status, verdict), (403, "deny") | (503 | 413, "reject"))
            });
        }
    }
}

/// Sends a request until its status and its receipt are right, three times at most: a machine that stands still for
/// half a second makes every processor late, but what costs too much is late each time.
#[track_caller]
fn persistent_fault(request: &Request, is_right: impl Fn(u16, &Value) -> bool) {
    let stack = shared();
    let mut wrong = Vec::new();
    for _ in 0..3 {
        eventually("a healthy processor", Duration::from_secs(20), || {
            stack.processor_is_healthy().unwrap()
        });
        let from = client();
        let status = status(stack, from, request);
        let line = access_log(stack, &[from]).remove(0);
        if is_right(status, &line["glacis"]) {
            return;
        }
        wrong.push(format!("{status}, {line}"));
    }
    panic!("{:.80}: {}", request.target, wrong.join("\n"));
}
