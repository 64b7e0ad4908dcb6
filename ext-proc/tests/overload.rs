//! What happens when there is more to do than can be done: evaluations that take too long, a queue that is
//! full, bodies for which there is no room, and what health says of it all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use core::time::Duration;
use std::time::Instant;

use harness::{Sent, Service, Stream, counted, eventually, get};

const FORM: &str = "content-type: application/x-www-form-urlencoded";

/// Work without an end, were there no limit to it: with that of [`ONE_THREAD`] it is over in a second or so.
const SLOW: &str = r#"
    SecRule ARGS:slow "@rx ^(?=((a+)+)+$)b" "id:1,phase:2,deny"
    SecRule ARGS:q "@contains attack" "id:2,phase:2,deny,status:403,log"
"#;

const ONE_THREAD: &str =
    "inline_body_bytes: 0\nevaluation_threads: 1\nlimits: {backtrack_steps_max: 30000000}\n";

fn slow() -> String {
    format!("slow={}c", "a".repeat(40))
}

/// Sends a request whose evaluation takes long; the answer is awaited by nobody yet.
async fn begin(service: &Service) -> Stream {
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM])).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&slow(), true)).await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn late_evaluations_end_at_the_deadline() {
    let config = format!("{ONE_THREAD}deadline_ms: 100\n");
    let service = Service::start(&config, SLOW).await;
    let began = Instant::now();
    let mut first = begin(&service).await;
    let mut second = begin(&service).await;
    assert_eq!(first.answer().await, "error DeadlineExceeded");
    // The one behind it has not begun, and never will.
    assert_eq!(second.answer().await, "error DeadlineExceeded");
    let waited = began.elapsed();
    counted(&service, "glacis_errors_total{kind=\"deadline\"} 2").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"none\"} 1").await;
    // The first is recorded when it is over; so it was the deadline that came first.
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 1").await;
    let finished = began.elapsed();
    assert!(waited < finished, "{waited:?}, {finished:?}");
    counted(&service, "glacis_evaluations_waiting 0").await;
    // Small messages did not wait for any of it, and the thread is free again.
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/?q=attack", &[])).await;
    assert!(stream.answer().await.starts_with("immediate 403"));
}

/// A profile that only looks on refuses nothing because it is slow.
#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_on_lets_pass_what_is_late() {
    const LATE: &str = "request_body allow/headers uninspected=late mode=detection_only";
    let config =
        format!("{ONE_THREAD}mode: detection\ndeadline_ms: 100\nevaluation_queue_max: 1\n");
    let service = Service::start(&config, SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(begin(&service).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.answer().await, LATE);
        // Nothing more is said, and it is no error.
        assert_eq!(stream.answer().await, "end");
    }
    let (_, metrics) = get(service.admin, "/metrics").await;
    let errors = |kind: &str| {
        let name = format!("glacis_errors_total{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse::<u32>().unwrap()
    };
    assert!(errors("deadline") > 0 && errors("overload") > 0, "{metrics}");
    assert_eq!(errors("deadline") + errors("overload"), 5, "{metrics}");
}

/// An answer that is kept in case the verdict comes too late is counted only where it is given.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_in_time_has_one_receipt() {
    let service = Service::start("inline_body_bytes: 0\nmode: detection\n", SLOW).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM])).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body("q=fine", true)).await;
    assert!(stream.answer().await.starts_with("request_body allow/body"));
    counted(&service, "glacis_receipts_total{verdict=\"pending\"} 1").await;
    counted(&service, "glacis_receipts_total{verdict=\"allow\"} 1").await;
}

/// What takes long is what is evaluated: pieces of a body, and trailers that end it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_evaluated_on_a_thread_of_its_own() {
    let unread = format!("SecRequestBodyAccess Off\n{SLOW}");
    for (rules, mode, steps, last, evaluated) in [
        (SLOW, "BUFFERED", vec![Sent::body("q=fine", true)], "request_body allow/body", 1),
        (
            SLOW,
            "STREAMED",
            vec![Sent::body("q=att", false), Sent::body("ack", false), Sent::RequestTrailers],
            "immediate 403",
            3,
        ),
        // Nobody reads this one, so that it waits for nobody.
        (
            unread.as_str(),
            "BUFFERED",
            vec![Sent::body("q=attack", true)],
            "request_body allow/headers",
            0,
        ),
    ] {
        let service = Service::start("inline_body_bytes: 0\n", rules).await;
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        stream.send(&Sent::post("/", &[FORM]).modes(mode, "NONE")).await;
        let mut answer = stream.answer().await;
        for sent in &steps {
            stream.send(sent).await;
            answer = stream.answer().await;
        }
        assert!(answer.starts_with(last), "{mode}: {answer}");
        counted(&service, &format!("glacis_evaluation_wait_seconds_count {evaluated}")).await;
    }
}

/// What is evaluated on the spot cannot be given up; that it took too long is counted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_late_on_the_spot_is_counted() {
    let path = format!("/?{}", slow());
    for (deadline, late) in [(1, 1), (0, 0)] {
        let config = format!("deadline_ms: {deadline}\nlimits: {{backtrack_steps_max: 1000000}}\n");
        let service = Service::start(&config, SLOW).await;
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        stream.send(&Sent::get(&path, &[])).await;
        assert!(stream.answer().await.starts_with("request_headers allow/headers"));
        counted(&service, &format!("glacis_errors_total{{kind=\"deadline\"}} {late}")).await;
    }
}

/// Envoy has no timeout there, and waits for what it has given away.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_late_in_full_duplex() {
    let config = "inline_body_bytes: 0\ndeadline_ms: 1\nlimits: {backtrack_steps_max: 1000000}\n";
    let service = Service::start(config, SLOW).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).modes("FULL_DUPLEX_STREAMED", "NONE")).await;
    stream.send(&Sent::body(&slow(), true)).await;
    let answer = stream.answer().await;
    assert!(answer.starts_with("request_headers allow/body"), "{answer}");
    counted(&service, "glacis_errors_total{kind=\"deadline\"} 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_at_once_and_health_says_so() {
    let config = format!(
        "{ONE_THREAD}evaluation_queue_max: 1\ndeadline_ms: 0\n\
         overload: {{lag_ms: 60000, after_ms: 300, clear_ms: 1000}}\n"
    );
    let service = Service::start(&config, SLOW).await;
    assert_eq!(service.health().await, 1);
    let mut streams = Vec::new();
    let mut refused = 0;
    let overloaded = async {
        loop {
            let mut stream = begin(&service).await;
            let answer = tokio::time::timeout(Duration::from_millis(20), stream.answer()).await;
            match answer {
                Ok(answer) if answer == "error ResourceExhausted" => refused += 1,
                // It waits, or is done already.
                _ => streams.push(stream),
            }
            if service.health().await == 2 {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), overloaded).await.unwrap();
    assert!(refused > 0);
    // It is Envoy's fault in no way.
    counted(&service, "glacis_errors_total{kind=\"protocol\"} 0").await;
    let (status, why) = get(service.admin, "/readyz").await;
    assert_eq!(status, 503);
    assert!(why.starts_with("overload: "), "{why}");
    // It stays so for a while after the last refusal, and ends by itself.
    let began = Instant::now();
    eventually(async || service.health().await == 1).await;
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(get(service.admin, "/readyz").await.0, 200);
}

#[tokio::test]
async fn streams_beyond_the_limit_turn_health() {
    let config = "max_streams: 1\noverload: {lag_ms: 60000, after_ms: 200, clear_ms: 300}\n";
    let service = Service::start(config, SLOW).await;
    let mut held = Stream::open(service.channel().await).await.unwrap();
    held.send(&Sent::post("/", &[FORM])).await;
    held.answer().await;
    let channel = service.channel().await;
    eventually(async || {
        let refused = Stream::open(channel.clone()).await;
        assert!(refused.is_err_and(|status| status.code() == tonic::Code::ResourceExhausted));
        service.health().await == 2
    })
    .await;
    drop(held);
    eventually(async || service.health().await == 1).await;
}

#[tokio::test]
async fn bodies_have_so_much_room() {
    let config = "\
body_bytes_max: 100000
profiles:
  pass: {body_overflow: pass}
  look: {mode: detection}
";
    let service = Service::start(config, SLOW).await;
    let open = async |profile: &str, headers: &[&str], query: &str| {
        let mut stream = Stream::open_with(service.channel().await, Some(profile)).await.unwrap();
        stream.send(&Sent::post(&format!("/?q={query}"), headers)).await;
        let answer = stream.answer().await;
        (stream, answer)
    };
    const PENDING: &str = "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE";
    const FULL: &str = "immediate 503 glacis_deny_limit deny/headers uninspected=body_overflow";
    let announced = [FORM, "content-length: 60000"];
    let (held, answer) = open("default", &announced, "").await;
    assert_eq!(answer, PENDING);
    for (profile, headers, query, expected) in [
        ("default", &announced[..], "", FULL),
        // Nobody knows how large it is: 64 KiB are set aside.
        ("default", &[FORM], "", FULL),
        ("default", &[FORM, "content-length: 40001"], "", FULL),
        ("default", &[FORM, "content-length: 40000"], "", PENDING),
        ("pass", &announced, "", "request_headers allow/headers uninspected=body_overflow"),
        (
            "pass",
            &announced,
            "attack",
            "immediate 403 glacis_deny_rule_2 deny/headers uninspected=body_overflow rules=2",
        ),
        (
            "look",
            &announced,
            "attack",
            "request_headers allow/headers uninspected=body_overflow rules=2 mode=detection_only",
        ),
    ] {
        // What the one before took is given back when its stream is over.
        counted(&service, "glacis_body_bytes_held 60000").await;
        assert_eq!(
            open(profile, headers, query).await.1,
            expected,
            "{profile} {headers:?} {query}"
        );
    }
    drop(held);
    counted(&service, "glacis_body_bytes_held 0").await;
    assert_eq!(open("default", &[FORM, "content-length: 100000"], "").await.1, PENDING);
}

/// What comes may be more than what was announced.
#[tokio::test]
async fn a_body_that_grows_finds_no_room() {
    let service =
        Service::start("body_bytes_max: 100000\nmax_message_bytes: 1048576\n", SLOW).await;
    let piece = "a".repeat(60_000);
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).modes("STREAMED", "NONE")).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&piece, false)).await;
    assert_eq!(stream.answer().await, "request_body pending/partial");
    stream.send(&Sent::body(&piece, false)).await;
    let answer = stream.answer().await;
    assert!(answer.starts_with("immediate 503 glacis_deny_limit deny/"), "{answer}");
}

/// What a response is too large for is not looked at, and that is said; the response passes.
#[tokio::test]
async fn a_response_that_grows_finds_no_room() {
    let rules = "SecResponseBodyAccess On\nSecResponseBodyMimeType text/html\n\
                 SecRule RESPONSE_BODY \"@contains secret\" \"id:1,phase:4,deny\"\n";
    let config = "response: full\nbody_bytes_max: 100000\nmax_message_bytes: 1048576\n";
    let service = Service::start(config, rules).await;
    let piece = "a".repeat(60_000);
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/", &[]).modes("NONE", "STREAMED")).await;
    assert!(stream.answer().await.starts_with("request_headers allow/headers"));
    stream.send(&Sent::response(200, &["content-type: text/html"])).await;
    assert!(stream.answer().await.starts_with("response_headers allow/headers"));
    for expected in [
        "response_body allow/headers",
        "response_body allow/headers uninspected=response_truncated",
    ] {
        stream.send(&Sent::response_body(&piece, false)).await;
        assert_eq!(stream.answer().await, expected);
    }
}

/// Streams that only wait for their end hold no inspector, as soon as there are many of them: each is counted when its
/// verdict is final. Where Envoy brings responses all the same, their status is waited for.
#[tokio::test]
async fn many_open_streams_hold_few_inspectors() {
    let service = Service::start("", SLOW).await;
    let channel = service.channel().await;
    let allowed = |count: usize| {
        format!("glacis_requests_total{{profile=\"default\",verdict=\"allow\"}} {count}")
    };
    let open = async |streams: &mut Vec<Stream>| {
        let mut stream = Stream::open(channel.clone()).await.unwrap();
        stream.send(&Sent::get("/?q=fine", &[])).await;
        assert!(stream.answer().await.starts_with("request_headers allow/headers"));
        streams.push(stream);
    };
    let mut streams = Vec::new();
    for _ in 0..40 {
        open(&mut streams).await;
    }
    counted(&service, "glacis_streams_open 40").await;
    counted(&service, &allowed(24)).await;
    // A response of an exchange that is not counted yet says nothing: the next one is counted at once.
    streams[0].send(&Sent::response(200, &[])).await;
    assert_eq!(streams[0].answer().await, "response_headers allow/headers");
    open(&mut streams).await;
    counted(&service, &allowed(26)).await;
    let mut last = streams.pop().unwrap();
    last.send(&Sent::response(500, &[])).await;
    assert_eq!(last.answer().await, "response_headers none");
    open(&mut streams).await;
    open(&mut streams).await;
    streams.push(last);
    counted(&service, "glacis_streams_open 43").await;
    counted(&service, &allowed(26)).await;
    streams.clear();
    counted(&service, &allowed(43)).await;
}

/// What was set aside for a body is given back as soon as its exchange is counted, though its stream is open still.
#[tokio::test]
async fn many_open_streams_leave_room_for_bodies() {
    let service = Service::start("", SLOW).await;
    let channel = service.channel().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = Stream::open(channel.clone()).await.unwrap();
        stream.send(&Sent::post("/", &[FORM, "content-length: 6"])).await;
        assert!(stream.answer().await.starts_with("request_headers pending"));
        stream.send(&Sent::body("q=fine", true)).await;
        assert!(stream.answer().await.starts_with("request_body allow/body"));
        streams.push(stream);
    }
    counted(&service, "glacis_streams_open 20").await;
    counted(&service, "glacis_body_bytes_held 96").await;
    streams.clear();
    counted(&service, "glacis_body_bytes_held 0").await;
}
