//! What happens to requests when the processor fails, on the route that fails open and on the one
//! that fails closed.

use std::time::{Duration, Instant};

use glacis_tests::http::{Request, Response};
use glacis_tests::scripted::{Script, Scripted};
use glacis_tests::stack::{Ports, Processor, Stack};

use crate::support::{Own, client, eventually};

/// Sends a request and says how long the answer took.
fn timed(stack: &Stack, request: &Request) -> (Response, Duration) {
    let begun = Instant::now();
    let response = stack.send(client(), request).unwrap();
    (response, begun.elapsed())
}

fn get(path: &str) -> Request {
    Request::get(path).browser()
}

fn post(path: &str) -> Request {
    Request::post(path, "application/json", r#"{"a": 1}"#).browser()
}

/// The guard's counters: receipts missing on the closed route, and on the open one.
fn missing(stack: &Stack) -> (u64, u64) {
    let stat = |name| stack.envoy.stat(&format!("http.glacis.rbac.glacis_receipt.{name}")).unwrap();
    (stat("denied"), stat("shadow_denied"))
}

/// Each way in which a processor can fail to give a verdict: what is answered on the closed route
/// and on the open one, and by how much the guard's two counters move.
#[test]
fn no_verdict_no_upstream() {
    let ports = Ports::free().unwrap();
    let scripted = Scripted::start(ports.ext_proc).unwrap();
    let own = Own::on("scripted", ports, Processor::Other, &[]);
    let stack = &own.0;

    // ext-proc would take these fields away too; here Envoy has to.
    let forged = get("/echo").header("x-glacis-verdict", "allow").header("X-Glacis-A", "1");
    let echoed = timed(stack, &forged.header("x-glacial", "stays")).0.text();
    assert!(echoed.contains("x-glacial") && !echoed.contains("x-glacis"), "{echoed}");

    // Script, whether with a body, closed status, open status, (closed, open) counted.
    let rows = [
        (Script::Allow, false, 200, 200, (0, 0)),
        (Script::Allow, true, 200, 200, (0, 0)),
        // The guard sees the final receipt: with BUFFERED the headers wait for the verdict on the body.
        (Script::AllowBody, true, 200, 200, (0, 0)),
        // Envoy itself would let these pass, and count nothing.
        (Script::CloseAtHeaders, false, 503, 200, (1, 1)),
        (Script::CloseAtHeaders, true, 503, 200, (1, 1)),
        (Script::CloseAtBody, true, 503, 200, (1, 1)),
        (Script::NoReceipt, false, 503, 200, (1, 1)),
        // These Envoy sees itself: on the closed route it answers before the guard.
        (Script::Error, false, 503, 200, (0, 1)),
        (Script::Silent, false, 503, 200, (0, 1)),
    ];
    for (script, has_body, closed, open, counted) in rows {
        scripted.play(script);
        let row = format!("{script:?}, body: {has_body}");
        let before = missing(stack);
        let request = if has_body { post } else { get };
        let (answer, _) = timed(stack, &request("/echo"));
        assert_eq!(answer.status, closed, "{row}: {}", answer.text());
        if closed == 503 {
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{row}");
            assert_eq!(answer.header("retry-after"), Some("1"), "{row}");
            assert_eq!(answer.json()["status"], 503, "{row}: {}", answer.text());
        }
        let (answer, _) = timed(stack, &request("/open/echo"));
        assert_eq!(answer.status, open, "{row}: {}", answer.text());
        let after = missing(stack);
        assert_eq!((after.0 - before.0, after.1 - before.1), counted, "{row}");
    }
}

/// A slow processor does not collect all requests there are: those above the bulkhead are decided
/// by the failure mode at once.
#[test]
fn the_bulkhead_decides_at_once() {
    let ports = Ports::free().unwrap();
    let scripted = Scripted::start(ports.ext_proc).unwrap();
    let narrow = ("max_requests: 8192", "max_requests: 1");
    let own = Own::on("bulkhead", ports, Processor::Other, &[narrow]);
    let stack = &own.0;
    scripted.play(Script::Silent);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| timed(stack, &get("/echo")));
        eventually("the bulkhead is full", Duration::from_secs(5), || {
            stack.envoy.stat("cluster.glacis-ext-proc.circuit_breakers.default.rq_open").unwrap()
                == 1
        });
        for (path, status) in [("/echo", 503), ("/open/echo", 200)] {
            assert_eq!(timed(stack, &get(path)).0.status, status, "{path}");
        }
        assert!(!waiting.is_finished(), "the others have waited for the first");
        assert_eq!(waiting.join().unwrap().0.status, 503);
    });
}

/// Faster than any timeout: the breaker is open.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Two probes that fail, each after a fifth of a second and with a quarter of a second's patience, and
/// what a busy machine needs.
const OPENS_WITHIN: Duration = Duration::from_millis(2_500);
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// While the breaker is open: the open route passes uninspected, attacks included, and counts it;
/// the closed route says 503. Both at once.
#[track_caller]
fn is_open(stack: &Stack) {
    let (_, before) = missing(stack);
    for (path, status) in [("/open/echo?back=..%2f", 200), ("/echo", 503)] {
        // One slow answer out of five is the machine's fault, five are ours.
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let (answer, time) = timed(stack, &get(path));
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
            fastest = fastest.min(time);
        }
        assert!(fastest < AT_ONCE, "{path}: {fastest:?}");
    }
    let (_, after) = missing(stack);
    assert_eq!(after - before, 5, "receipts missing on the open route");
    // Who would be let through tries to get the open route; these paths do not get it.
    for trick in [
        "..",
        "%2e%2e",
        ".%2E",
        "..%2f",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "%f0%80%80%ae",
        "%u002e%u002e",
        ".%00.",
        "..;",
        "\\..",
        ".;x.",
        ".%3b.",
        ".",
        ".%7f.",
        "%ef%bc%8e%ef%bc%8e",
        "a.",
        "%20",
    ] {
        let path = &format!("/open/{trick}/echo");
        assert_eq!(timed(stack, &get(path)).0.status, 503, "{path}");
    }
}

/// With the breaker closed everything is inspected again, on both routes.
#[track_caller]
fn is_closed(stack: &Stack) {
    for path in ["/echo", "/open/echo"] {
        assert_eq!(timed(stack, &get(path)).0.status, 200, "{path}");
        let attack = get(&format!("{path}?q=%3Cscript%3Ealert(1)%3C/script%3E"));
        assert_eq!(timed(stack, &attack).0.status, 403, "{path}");
    }
}

fn wait_until_closed(stack: &Stack) {
    eventually("the breaker closes", CLOSES_WITHIN, || stack.processor_is_healthy().unwrap());
    // Ejection by outlier detection ends with a good probe too, a moment later.
    eventually("requests pass", CLOSES_WITHIN, || timed(stack, &get("/echo")).0.status == 200);
}

#[test]
fn a_dead_processor_opens_the_breaker_and_a_new_one_closes_it() {
    let mut own = Own::start("dead", Processor::ExtProc, &[]);
    is_closed(&own.0);
    own.0.ext_proc.as_mut().unwrap().process().kill();
    // Nobody waits for probes here: a refused connection is seen by each request itself.
    is_open(&own.0);
    own.0.ext_proc.as_mut().unwrap().restart().unwrap();
    wait_until_closed(&own.0);
    is_closed(&own.0);
}

#[test]
fn a_frozen_processor_opens_the_breaker_and_closes_it_when_it_thaws() {
    let mut own = Own::start("frozen", Processor::ExtProc, &[]);
    is_closed(&own.0);
    own.0.ext_proc.as_mut().unwrap().process().freeze().unwrap();
    // Until the probes have failed, each request pays the message timeout.
    let (answer, time) = timed(&own.0, &get("/echo"));
    assert_eq!(answer.status, 503);
    assert!(time >= Duration::from_millis(400), "{time:?}");
    assert_eq!(timed(&own.0, &get("/open/echo")).0.status, 200);
    eventually("the breaker opens", OPENS_WITHIN, || !own.0.processor_is_healthy().unwrap());
    is_open(&own.0);
    own.0.ext_proc.as_mut().unwrap().process().thaw().unwrap();
    wait_until_closed(&own.0);
    is_closed(&own.0);
}
