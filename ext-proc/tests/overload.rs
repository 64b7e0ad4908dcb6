//! What happens when there is more to do than can be done: evaluations that take too long, a queue that is
//! full, bodies for which there is no room, and what health says of it all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use core::time::Duration;
use std::time::Instant;

use harness::{Sent, Service, Stream, counted, eventually, get};

const FORM: &str = "content-type: application/x-www-form-urlencoded";

/// Work without an end, were there no limit to it. That of [`ONE_THREAD`] is several deadlines of these tests away on a
/// fast machine, and ends within a few seconds on a slow one.
const SLOW: &str = r#"
    SecRule ARGS:slow "@rx ^(a|aa)+\1b$" "id:1,phase:2,deny"
    SecRule ARGS:q "@contains attack" "id:2,phase:2,deny,status:403,log"
"#;

const ONE_THREAD: &str =
    "inline_body_bytes: 0\nevaluation_threads: 1\nlimits: {backtrack_steps_max: 120000000}\n";

fn slow() -> String {
    format!("slow={}cb", "a".repeat(60))
}

/// Sends a request whose evaluation takes long; the answer is awaited by nobody yet.
async fn begin(service: &Service) -> Stream {
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM])).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&slow(), true)).await;
    stream
}

/// Sends a request of this client whose evaluation takes long; the answer is awaited by nobody yet.
async fn begin_from(service: &Service, source: &str) -> Stream {
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).source(source)).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&slow(), true)).await;
    stream
}

/// By the engine, which has seen the body, or by the stream that waits for it.
const LATE: &str = "immediate 503 glacis_reject_late reject/";

/// How long an evaluation takes is for the client to choose: the answer is a verdict, and no error for which Envoy has
/// a failure mode.
#[tokio::test(flavor = "multi_thread")]
async fn late_evaluations_are_rejected_at_the_deadline() {
    let config = format!("{ONE_THREAD}deadline_ms: 100\n");
    let service = Service::start(&config, SLOW).await;
    let began = Instant::now();
    let mut first = begin(&service).await;
    let mut second = begin(&service).await;
    assert!(first.answer().await.starts_with(LATE));
    // The one behind it has not begun.
    assert!(second.answer().await.starts_with(LATE));
    let waited = began.elapsed();
    // Both are recorded when the thread comes to them; so it was the deadline that came first.
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"reject\"} 2").await;
    counted(&service, "glacis_rejected_total{reason=\"late\"} 2").await;
    let finished = began.elapsed();
    assert!(waited < finished, "{waited:?}, {finished:?}");
    counted(&service, "glacis_errors_total{kind=\"deadline\"} 0").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 0").await;
    counted(&service, "glacis_evaluations_waiting 0").await;
    // Small messages did not wait for any of it, and the thread is free again.
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/?q=attack", &[])).await;
    assert!(stream.answer().await.starts_with("immediate 403"));
}

/// The engine ends many small steps at the deadline by itself: the thread is free at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_ends_at_the_deadline() {
    let rules: String = (1..200)
        .map(|id| format!("SecRule ARGS \"@rx (a[ab]*c){id}d\" \"id:{id},phase:2,deny\"\n"))
        .collect();
    let config = "inline_body_bytes: 0\nevaluation_threads: 1\ndeadline_ms: 20\n";
    let service = Service::start(config, &rules).await;
    let body = format!("q={}&{}", "abc1d".repeat(2_000), "a=abc200".repeat(20_000));
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM])).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&body, true)).await;
    let answer = stream.answer().await;
    // Which rule is reached by then is the machine's affair.
    let is_expected = answer.starts_with("immediate 503 glacis_reject_late")
        || answer.starts_with("immediate 403");
    assert!(is_expected, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_may_leave_what_is_late_to_the_failure_mode() {
    let config = format!("{ONE_THREAD}deadline_ms: 100\nlate: fail\n");
    let service = Service::start(&config, SLOW).await;
    let mut first = begin(&service).await;
    let mut second = begin(&service).await;
    assert_eq!(first.answer().await, "error DeadlineExceeded");
    assert_eq!(second.answer().await, "error DeadlineExceeded");
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"none\"} 2").await;
}

/// `late` says nothing about bodies for which there is no memory.
#[tokio::test]
async fn the_failure_mode_is_not_asked_about_memory() {
    let config = "body_bytes_max: 1000\nlate: fail\n";
    let service = Service::start(config, SLOW).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM])).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&"a".repeat(1_001), true)).await;
    assert!(stream.answer().await.starts_with("immediate 503 glacis_reject_body_overflow"));
}

/// What Envoy has given away it gets back, although nobody has looked at it.
#[tokio::test(flavor = "multi_thread")]
async fn in_detection_mode_a_full_queue_gives_back_what_is_in_full_duplex() {
    let config = format!("{ONE_THREAD}mode: detection\nevaluation_queue_max: 0\n");
    let service = Service::start(&config, SLOW).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).modes("FULL_DUPLEX_STREAMED", "NONE")).await;
    stream.send(&Sent::body("q=attack", true)).await;
    let headers = stream.answer().await;
    assert!(headers.starts_with("request_headers allow/body uninspected=late"), "{headers}");
    assert_eq!(stream.answer().await, "request_body back=q=attack end");
}

/// A profile that only looks on refuses nothing because it is slow.
#[tokio::test(flavor = "multi_thread")]
async fn in_detection_mode_late_requests_pass() {
    let config =
        format!("{ONE_THREAD}mode: detection\ndeadline_ms: 100\nevaluation_queue_max: 1\n");
    let service = Service::start(&config, SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(begin(&service).await);
    }
    for stream in &mut streams {
        // By the stream, which was told of the headers, or by the engine, which has seen the body.
        let answer = stream.answer().await;
        let is_passed = answer.starts_with("request_body allow/")
            && answer.ends_with(" uninspected=late mode=detection_only");
        assert!(is_passed, "{answer}");
        // Nothing more is answered, and it is no error. A stream on which the engine was the first waits for a response.
        stream.send(&Sent::End).await;
        assert_eq!(stream.answer().await, "end");
    }
    counted(&service, "glacis_uninspected_total{reason=\"late\"} 5").await;
    counted(&service, "glacis_errors_total{kind=\"deadline\"} 0").await;
    counted(&service, "glacis_errors_total{kind=\"overload\"} 0").await;
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
            vec![Sent::body("q=att", false), Sent::body("ack", false), Sent::RequestTrailers(&[])],
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

#[tokio::test(flavor = "multi_thread")]
async fn headers_may_be_late_as_well() {
    for (deadline, expected) in
        [(1, "immediate 503 glacis_reject_late"), (0, "immediate 400 glacis_reject_patterns")]
    {
        // Evaluated at once, and on a thread.
        for more in [0, 20_000] {
            let path = format!("/?{}&more={}", slow(), "a".repeat(more));
            let config =
                format!("deadline_ms: {deadline}\nlimits: {{backtrack_steps_max: 1000000}}\n");
            let service = Service::start(&config, SLOW).await;
            let mut stream = Stream::open(service.channel().await).await.unwrap();
            stream.send(&Sent::get(&path, &[])).await;
            let answer = stream.answer().await;
            assert!(answer.starts_with(expected), "{deadline} {more}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_full_duplex_may_be_late() {
    let config = "inline_body_bytes: 0\ndeadline_ms: 1\nlimits: {backtrack_steps_max: 1000000}\n";
    let service = Service::start(config, SLOW).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).modes("FULL_DUPLEX_STREAMED", "NONE")).await;
    stream.send(&Sent::body(&slow(), true)).await;
    let answer = stream.answer().await;
    assert!(answer.starts_with("immediate 503 glacis_reject_late reject/"), "{answer}");
    counted(&service, "glacis_errors_total{kind=\"deadline\"} 0").await;
}

/// Rejections say nothing about the service: one client could otherwise take it from all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_rejects_at_once_and_health_stays() {
    let config = format!(
        "{ONE_THREAD}evaluation_queue_max: 1\ndeadline_ms: 0\n\
         overload: {{lag_ms: 60000, after_ms: 100, clear_ms: 1000}}\n"
    );
    let service = Service::start(&config, SLOW).await;
    let mut streams = Vec::new();
    let mut rejected = 0;
    let began = Instant::now();
    while rejected < 5 || began.elapsed() < Duration::from_millis(400) {
        let mut stream = begin(&service).await;
        match tokio::time::timeout(Duration::from_millis(20), stream.answer()).await {
            Ok(answer) if answer.starts_with("immediate 503 glacis_reject_queue_full reject/") => {
                rejected += 1;
            }
            // It waits, or is done already.
            _ => streams.push(stream),
        }
        assert_eq!(service.health().await, 1);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    counted(&service, "glacis_errors_total{kind=\"overload\"} 0").await;
    assert_eq!(get(service.admin, "/readyz").await.0, 200);
}

#[tokio::test]
async fn streams_beyond_the_limit_are_rejected_and_health_stays() {
    let config = "\
max_streams: 2
client_share_percent: 100
overload: {lag_ms: 60000, after_ms: 100, clear_ms: 300}
profiles: {look: {mode: detection}, fail: {late: fail}}
";
    let service = Service::start(config, SLOW).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        stream.send(&Sent::post("/", &[FORM])).await;
        assert!(stream.answer().await.starts_with("request_headers pending"));
        held.push(stream);
    }
    for (profile, expected) in [
        ("default", "immediate 503 glacis_reject_max_streams reject/headers reason=max_streams"),
        ("look", "request_headers allow/headers uninspected=overload mode=detection_only"),
        ("fail", "error ResourceExhausted"),
    ] {
        let mut stream = Stream::open_with(service.channel().await, Some(profile)).await.unwrap();
        stream.send(&Sent::get("/?q=attack", &[])).await;
        assert_eq!(stream.answer().await, expected, "{profile}");
    }
    // Nobody who sends his headers at once comes to this.
    let mut silent = Vec::new();
    eventually(async || match Stream::open(service.channel().await).await {
        Ok(stream) => {
            silent.push(stream);
            false
        }
        Err(status) => status.code() == tonic::Code::ResourceExhausted,
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(service.health().await, 1);
}

/// One client holds no more than half of what there is, and never what others hold.
#[tokio::test]
async fn clients_have_shares_of_the_streams_that_wait_for_bodies() {
    let service = Service::start("max_streams: 20\n", SLOW).await;
    let channel = service.channel().await;
    let open = async |source: &str| {
        let mut stream = Stream::open(channel.clone()).await.unwrap();
        stream.send(&Sent::post("/", &[FORM]).source(source)).await;
        let answer = stream.answer().await;
        (stream, answer)
    };
    const PENDING: &str =
        "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers";
    const SHARE: &str =
        "immediate 503 glacis_reject_client_share reject/headers reason=client_share";
    let mut held = Vec::new();
    for number in 0..15 {
        let (stream, answer) = open("[2001:db8::1]:80").await;
        assert_eq!(answer, if number < 10 { PENDING } else { SHARE }, "{number}");
        if number < 10 {
            held.push(stream);
        }
    }
    // Another address of the same network is the same client.
    assert_eq!(open("[2001:db8::2]:80").await.1, SHARE);
    for number in 0..6 {
        let (stream, answer) = open("192.0.2.1:80").await;
        assert_eq!(answer, if number < 5 { PENDING } else { SHARE }, "{number}");
        held.push(stream);
    }
    assert_eq!(open("192.0.2.2:80").await.1, PENDING);
    // What has no body waits for nothing.
    let mut stream = Stream::open(channel.clone()).await.unwrap();
    stream.send(&Sent::get("/?q=fine", &[]).source("[2001:db8::1]:80")).await;
    assert_eq!(stream.answer().await, "request_headers allow/headers");
    held.clear();
    counted(&service, "glacis_streams_open 1").await;
    assert_eq!(open("192.0.2.1:80").await.1, PENDING);
}

/// A second client is served while the first has filled its share of the queue, and all threads but one.
#[tokio::test(flavor = "multi_thread")]
async fn clients_take_turns_at_long_evaluations() {
    let config = "\
inline_body_bytes: 0
evaluation_threads: 2
evaluation_queue_max: 8
deadline_ms: 0
limits: {backtrack_steps_max: 120000000}
";
    let service = Service::start(config, SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(begin_from(&service, "192.0.2.1:80").await);
    }
    assert!(metric(&service, "glacis_rejected_total{reason=\"client_share\"} ").await > 0);
    let mut other = Stream::open(service.channel().await).await.unwrap();
    other.send(&Sent::post("/", &[FORM]).source("192.0.2.2:80")).await;
    assert!(other.answer().await.starts_with("request_headers pending"));
    other.send(&Sent::body("q=attack", true)).await;
    assert!(other.answer().await.starts_with("immediate 403"));
    let waiting = metric(&service, "glacis_evaluations_waiting ").await;
    assert!(waiting > 0, "the second client did not wait for the first");
}

/// The number in a line of metrics that begins like this.
async fn metric(service: &Service, name: &str) -> u64 {
    let (_, metrics) = get(service.admin, "/metrics").await;
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// Bytes count when they have come, and not when they are announced.
#[tokio::test]
async fn bodies_have_so_much_room() {
    let config = "\
body_bytes_max: 100000
client_share_percent: 100
profiles:
  pass: {body_overflow: pass}
  look: {mode: detection}
";
    let service = Service::start(config, SLOW).await;
    let open = async |profile: &str, path: &str, headers: &[&str]| {
        let mut stream = Stream::open_with(service.channel().await, Some(profile)).await.unwrap();
        stream.send(&Sent::post(path, headers).modes("STREAMED", "NONE")).await;
        assert!(stream.answer().await.starts_with("request_headers pending"));
        stream
    };
    let announced: Vec<_> = (0..21).map(|_| "content-length: 13107200").collect();
    let mut idle = Vec::new();
    for length in announced {
        idle.push(open("default", "/", &[FORM, length]).await);
    }
    counted(&service, "glacis_body_bytes_held 0").await;
    let mut held = open("default", "/", &[FORM]).await;
    held.send(&Sent::body(&"a".repeat(60_000), false)).await;
    assert_eq!(held.answer().await, "request_body pending/partial");
    for (profile, path, bytes, expected) in [
        (
            "default",
            "/",
            40_001,
            "immediate 503 glacis_reject_body_overflow reject/headers reason=body_overflow \
             uninspected=body_overflow",
        ),
        ("default", "/", 40_000, "request_body allow/body"),
        ("pass", "/", 40_001, "request_body allow/headers uninspected=body_overflow"),
        (
            "pass",
            "/?q=attack",
            40_001,
            "immediate 403 glacis_deny_rule_2 deny/headers uninspected=body_overflow rules=2",
        ),
        (
            "look",
            "/?q=attack",
            40_001,
            "request_body allow/headers uninspected=body_overflow rules=2 mode=detection_only",
        ),
    ] {
        // What the one before took is given back when its stream is over.
        counted(&service, "glacis_body_bytes_held 60000").await;
        let mut stream = open(profile, path, &[FORM]).await;
        stream.send(&Sent::body(&"a".repeat(bytes), true)).await;
        assert_eq!(stream.answer().await, expected, "{profile} {path} {bytes}");
    }
    drop(held);
    counted(&service, "glacis_body_bytes_held 0").await;
}

/// What comes may be more than what was announced.
#[tokio::test]
async fn a_body_that_grows_finds_no_room() {
    let config = "body_bytes_max: 100000\nmax_message_bytes: 1048576\n";
    let service = Service::start(config, SLOW).await;
    let piece = "a".repeat(60_000);
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[FORM]).modes("STREAMED", "NONE")).await;
    assert!(stream.answer().await.starts_with("request_headers pending"));
    stream.send(&Sent::body(&piece, false)).await;
    assert_eq!(stream.answer().await, "request_body pending/partial");
    stream.send(&Sent::body(&piece, false)).await;
    let answer = stream.answer().await;
    assert!(answer.starts_with("immediate 503 glacis_reject_body_overflow reject/"), "{answer}");
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
