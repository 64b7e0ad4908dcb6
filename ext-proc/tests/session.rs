//! Scripts of messages over a real gRPC connection: what Envoy sends, and what it is answered.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

#[path = "session/bodies.rs"]
mod bodies;
mod harness;

use harness::{Case, Sent, Service, Stream, check};

const RULES: &str = r#"
    SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log,msg:'found'"
    SecRule REQUEST_HEADERS:X-Bin "@rx ^a\xffb$" "id:2,phase:1,deny,status:406"
    SecRule REQUEST_HEADERS:X-Go "@streq away" "id:3,phase:1,redirect:'https://example.com/'"
    SecRule REQUEST_HEADERS:X-Drop "@streq 1" "id:4,phase:1,drop"
    SecRule RESPONSE_HEADERS:X-Leak "@streq 1" "id:5,phase:3,deny,status:502"
    SecRule RESPONSE_BODY "@contains secret" "id:6,phase:4,deny,status:503"
    SecRule REMOTE_ADDR "@ipMatch 198.51.100.7" "id:7,phase:1,deny,status:451"
    SecRule REQUEST_HEADERS:Host "!@streq example.org" "id:8,phase:1,deny,status:400"
    SecRule REQUEST_HEADERS:X-Off "@streq 1" "id:9,phase:1,pass,nolog,ctl:ruleEngine=Off"
    SecRule REQUEST_PROTOCOL "@streq HTTP/2" "id:10,phase:1,pass,log"
    SecRule REQUEST_HEADERS:Transfer-Encoding "@streq chunked" "id:11,phase:1,pass,log"
    SecResponseBodyAccess On
    SecResponseBodyMimeType text/html
"#;

const PASSED: &str = "request_headers allow/headers";
const AWAITED: &str =
    "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers";
const STREAMED: &str =
    "request_headers pending/headers override=STREAMED,SKIP,NONE,request_trailers";
const DENIED: &str = "immediate 403 glacis_deny_rule_1";
const FORM: &str = "content-type: application/x-www-form-urlencoded";

fn case<'a>(name: &'a str, steps: &'a [(Sent<'a>, &'a str)]) -> Case<'a> {
    Case { name, config: "", rules: RULES, steps }
}

#[tokio::test]
async fn headers_alone() {
    for case in [
        case("fine", &[(Sent::get("/?q=fine", &[]), PASSED)]),
        case(
            "attack",
            &[(
                Sent::get("/?q=attack", &[]),
                "immediate 403 glacis_deny_rule_1 deny/headers rules=1",
            )],
        ),
        case(
            "bytes that are not UTF-8",
            &[(
                Sent::get("/", &["x-bin: a\u{0}b"]),
                "immediate 406 glacis_deny_rule_2 deny/headers rules=2",
            )],
        ),
        case(
            "redirect",
            &[(
                Sent::get("/", &["x-go: away"]),
                "immediate 302 glacis_redirect_rule_3 redirect/headers rules=3 location=https://example.com/",
            )],
        ),
        case(
            "drop is 403, as Envoy cannot close",
            &[(
                Sent::get("/", &["x-drop: 1"]),
                "immediate 403 glacis_drop_rule_4 drop/headers rules=4",
            )],
        ),
        case(
            "client by attribute",
            &[(
                Sent::get("/", &[]).source("198.51.100.7:4711"),
                "immediate 451 glacis_deny_rule_7 deny/headers rules=7",
            )],
        ),
        case(
            "host beside authority",
            &[(
                Sent::get("/", &["host: example.com"]),
                "immediate 400 glacis_deny_rule_8 deny/headers rules=8",
            )],
        ),
        case(
            "headers that filters before have set for the upstream",
            &[(Sent::get("/", &["x-glacis-client: acme", "x-glacis-bot-score: 0"]), PASSED)],
        ),
        case(
            "engine off",
            &[(
                Sent::get("/?q=attack", &["x-off: 1"]),
                "request_headers allow/none uninspected=engine_off",
            )],
        ),
        case(
            "protocol by attribute",
            &[(Sent::get("/", &[]).protocol("HTTP/2"), "request_headers allow/headers rules=10")],
        ),
        Case {
            rules: "SecRule REQUEST_PROTOCOL \"@streq HTTP/3\" \"id:12,phase:1,pass,log\"",
            ..case(
                "HTTP/3 by attribute",
                &[(
                    Sent::get("/", &[]).protocol("HTTP/3"),
                    "request_headers allow/headers rules=12",
                )],
            )
        },
        Case {
            rules: "SecAction \"id:13,phase:1,deny,status:199\"",
            ..case(
                "Envoy would take this status for 200",
                &[(Sent::get("/", &[]), "immediate 403 glacis_deny_rule_13 deny/headers rules=13")],
            )
        },
        Case {
            config: "trusted_hops: 1\n",
            ..case(
                "client by hop",
                &[(
                    Sent::get("/", &["x-forwarded-for: 192.0.2.1, 198.51.100.7"]),
                    "immediate 451 glacis_deny_rule_7 deny/headers rules=7",
                )],
            )
        },
        Case {
            config: "trusted_hops: 1\n",
            ..case(
                "the leftmost hop is the client's word",
                &[(Sent::get("/", &["x-forwarded-for: 198.51.100.7, 192.0.2.1"]), PASSED)],
            )
        },
        Case {
            config: "block: {status: 499, body: 'no: {request_id}', content_type: text/html}\n",
            ..case(
                "a page and status of its own",
                &[(
                    Sent::get("/?q=attack", &[]),
                    "immediate 499 glacis_deny_rule_1 deny/headers rules=1 body=no: request-1",
                )],
            )
        },
        Case {
            config: "directives: |\n  SecRuleEngine DetectionOnly\n",
            ..case(
                "detection only",
                &[(
                    Sent::get("/?q=attack", &[]),
                    "request_headers allow/headers rules=1 mode=detection_only",
                )],
            )
        },
    ] {
        check(&case).await;
    }
}

#[tokio::test]
async fn chunks_make_no_difference() {
    for text in ["q=attack", "q=fine", "a=b&q=at%74ack", "q=%u0061ttack"] {
        let last = if text == "q=fine" { "request_body allow/body" } else { DENIED };
        let last = if text.contains("%u") { "request_body allow/body" } else { last };
        let head = Sent::post("/", &[FORM]).modes("STREAMED", "NONE");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let bytes =
            pieces.iter().map(|piece| (Sent::body(piece, false), "request_body pending/partial"));
        let mut steps = vec![(head.clone(), STREAMED)];
        steps.extend(bytes);
        steps.push((Sent::body("", true), last));
        check(&case(text, &steps)).await;
        check(&case(text, &[(head, STREAMED), (Sent::body(text, true), last)])).await;
    }
}

#[tokio::test]
async fn messages_out_of_order_are_errors() {
    const ERROR: &str = "error FailedPrecondition";
    let post = || Sent::post("/", &[FORM]);
    for case in [
        case("body first", &[(Sent::body("q=attack", true), ERROR)]),
        case("trailers first", &[(Sent::RequestTrailers(&[]), ERROR)]),
        case("response first", &[(Sent::response(200, &[]), ERROR)]),
        case("response body first", &[(Sent::response_body("a", true), ERROR)]),
        case("response trailers first", &[(Sent::ResponseTrailers(&[]), ERROR)]),
        case("headers twice", &[(Sent::get("/", &[]), PASSED), (Sent::get("/", &[]), ERROR)]),
        case("headers twice, body due", &[(post(), AWAITED), (post(), ERROR)]),
        case(
            "headers after the response's",
            &[
                (Sent::get("/", &[]), PASSED),
                (Sent::response(200, &[]), "response_headers allow/headers"),
                (Sent::get("/", &[]), ERROR),
            ],
        ),
        case(
            "response headers twice",
            &[
                (Sent::get("/", &[]), PASSED),
                (Sent::response(200, &[]), "response_headers allow/headers"),
                (Sent::response(200, &[]), ERROR),
            ],
        ),
        case(
            "response body without headers",
            &[(Sent::get("/", &[]), PASSED), (Sent::response_body("a", true), ERROR)],
        ),
        case(
            "more body after its end",
            &[
                (post(), AWAITED),
                (Sent::body("q=fine", true), "request_body allow/body"),
                (Sent::body("&r=attack", true), ERROR),
            ],
        ),
        case("nothing in it", &[(Sent::Nothing, "error InvalidArgument")]),
        case(
            "trailers where none are needed",
            &[
                (Sent::get("/", &[]), PASSED),
                (Sent::RequestTrailers(&[]), "request_trailers allow/headers"),
                (Sent::response(200, &[]), "response_headers allow/headers"),
                (Sent::ResponseTrailers(&[]), "response_trailers allow/headers"),
            ],
        ),
        case(
            "Envoy ends while a verdict is due",
            &[(post(), AWAITED), (Sent::End, "error Aborted")],
        ),
        case("Envoy ends after the verdict", &[(Sent::get("/", &[]), PASSED), (Sent::End, "end")]),
        case("Envoy ends at once", &[(Sent::End, "end")]),
    ] {
        check(&case).await;
    }
}

#[tokio::test]
async fn responses() {
    let get = || Sent::get("/", &[]);
    const ASKED: &str = "request_headers allow/headers override=NONE,SEND,NONE";
    const HTML: &str = "content-type: text/html";
    let headers = |name, steps| Case { config: "response: headers\n", ..case(name, steps) };
    let full = |name, steps| Case { config: "response: full\n", ..case(name, steps) };
    for case in [
        case(
            "off",
            &[
                (get(), PASSED),
                (Sent::response(200, &["x-leak: 1"]), "response_headers allow/headers"),
            ],
        ),
        headers(
            "leak",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &["x-leak: 1"]),
                    "immediate 502 glacis_deny_rule_5 deny/headers rules=5",
                ),
            ],
        ),
        headers(
            "no body",
            &[(get(), ASKED), (Sent::response(200, &[HTML]), "response_headers allow/headers")],
        ),
        full(
            "fine",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &[HTML]),
                    "response_headers allow/headers override=NONE,SEND,BUFFERED_PARTIAL,response_trailers",
                ),
                (Sent::response_body("fine", true), "response_body allow/headers"),
            ],
        ),
        full(
            "leak",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &[HTML]),
                    "response_headers allow/headers override=NONE,SEND,BUFFERED_PARTIAL,response_trailers",
                ),
                (
                    Sent::response_body("a secret", true),
                    "immediate 503 glacis_deny_rule_6 deny/headers rules=6",
                ),
            ],
        ),
        full(
            "other media type",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &["content-type: image/png"]),
                    "response_headers allow/headers",
                ),
            ],
        ),
        full(
            "events have no end",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &["content-type: text/event-stream"]),
                    "response_headers allow/headers uninspected=event_stream",
                ),
            ],
        ),
        full(
            "upgraded",
            &[(get(), ASKED), (Sent::response(101, &[HTML]), "response_headers allow/headers")],
        ),
        full(
            "Envoy ends while a verdict is due",
            &[
                (get(), ASKED),
                (
                    Sent::response(200, &[HTML]),
                    "response_headers allow/headers override=NONE,SEND,BUFFERED_PARTIAL,response_trailers",
                ),
                (Sent::End, "error Aborted"),
            ],
        ),
        case(
            "a body at which nobody looks is not to be sent",
            &[(
                get().modes("NONE", "BUFFERED"),
                "request_headers allow/headers override=NONE,SKIP,NONE",
            )],
        ),
        full(
            "both bodies",
            &[
                (
                    Sent::post("/", &[FORM]),
                    "request_headers pending/headers override=BUFFERED_PARTIAL,SEND,NONE,request_trailers",
                ),
                (Sent::body("q=fine", true), "request_body allow/body"),
                (
                    Sent::response(200, &[HTML]),
                    "response_headers allow/body override=NONE,SEND,BUFFERED_PARTIAL,response_trailers",
                ),
                (
                    Sent::response_body("a secret", true),
                    "immediate 503 glacis_deny_rule_6 deny/body rules=6",
                ),
            ],
        ),
        full(
            "streamed",
            &[
                (
                    get().modes("NONE", "STREAMED"),
                    "request_headers allow/headers override=NONE,SEND,STREAMED",
                ),
                (
                    Sent::response(200, &[HTML]),
                    "response_headers allow/headers override=NONE,SEND,STREAMED,response_trailers",
                ),
                (Sent::response_body("a sec", false), "response_body allow/headers"),
                (Sent::response_body("ret", false), "response_body allow/headers"),
                (
                    Sent::ResponseTrailers(&[]),
                    "immediate 503 glacis_deny_rule_6 deny/headers rules=6",
                ),
            ],
        ),
    ] {
        check(&case).await;
    }
}

#[tokio::test]
async fn sizes() {
    let many: Vec<String> = (0..2_000).map(|number| format!("x-{number}: {number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = format!("x-long: {}", "a".repeat(1 << 20));
    let big = format!("a={}&q=attack", "b".repeat(500_000));
    for case in [
        case("many headers", &[(Sent::get("/", &many[..200]), PASSED)]),
        case(
            "too many headers",
            &[(
                Sent::get("/", &many),
                "immediate 431 glacis_reject_headers reject/headers reason=headers",
            )],
        ),
        case("a long header", &[(Sent::get("/?q=attack", &[&long]), DENIED)]),
        case(
            "a body for a thread of its own",
            &[(Sent::post("/", &[FORM]), AWAITED), (Sent::body(&big, true), DENIED)],
        ),
        Case {
            config: "max_message_bytes: 1048576\n",
            ..case("too large a message", &[(Sent::get("/", &[&long]), "error OutOfRange")])
        },
    ] {
        check(&case).await;
    }
}

#[tokio::test]
async fn envoy_does_not_listen_in_observability_mode() {
    let steps = [(Sent::get("/?q=attack", &[]).observed(), "end")];
    check(&case("attack", &steps)).await;
    let steps = [(Sent::get("/?q=fine", &[]).observed(), ""), (Sent::End, "end")];
    check(&case("fine", &steps)).await;
}

/// Every sequence of three messages: each message is answered with an answer of its own kind or an
/// immediate response, or the stream ends with an error; it never just ends while something is due.
#[tokio::test]
async fn every_sequence() {
    let kinds = [
        (Sent::get("/?q=fine", &[]), "request_headers"),
        (Sent::post("/", &[FORM]), "request_headers"),
        (Sent::body("q=att", false), "request_body"),
        (Sent::body("q=attack", true), "request_body"),
        (Sent::RequestTrailers(&[]), "request_trailers"),
        (Sent::response(200, &["content-type: text/html"]), "response_headers"),
        (Sent::response_body("a secret", true), "response_body"),
        (Sent::ResponseTrailers(&[]), "response_trailers"),
        (Sent::Nothing, "error"),
    ];
    let service = Service::start("response: full\n", RULES).await;
    let channel = service.channel().await;
    for sequence in 0..kinds.len().pow(3) {
        let picks = [sequence % 9, sequence / 9 % 9, sequence / 81];
        let mut stream = Stream::open(channel.clone()).await.unwrap();
        let mut answers = Vec::new();
        for pick in picks {
            let (sent, kind) = &kinds[pick];
            stream.send(sent).await;
            let answer = stream.answer().await;
            let word = answer.split(' ').next().unwrap().to_owned();
            answers.push(answer);
            if word == "immediate" || word == "error" {
                break;
            }
            assert_eq!(word, *kind, "{picks:?}: {answers:?}");
        }
        let last = answers.last().unwrap();
        if !last.starts_with("immediate") && !last.starts_with("error") {
            stream.send(&Sent::End).await;
            let end = stream.answer().await;
            // The last receipt tells whether the request's verdict is due; a response's may be.
            let good = end == "error Aborted" || end == "end" && !last.contains("pending");
            assert!(good, "{picks:?}: {answers:?}, then {end}");
        }
        // A request that was answered before its body came must not have a verdict.
        if picks[0] == 1 {
            assert!(answers[0].contains("pending"), "{picks:?}: {answers:?}");
        }
    }
}
