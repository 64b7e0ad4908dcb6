//! Bodies of requests: asked for, in the modes that Envoy is configured with, and in full duplex.

use super::{
    AWAITED, DENIED, FORM, PASSED, STREAMED, case,
    harness::{Case, Sent, check},
};

const GRPC: [&str; 2] = ["content-type: application/grpc+proto", "te: trailers"];
const PASS_GRPC: &str = "grpc: pass\n";
const AWAITED_HTTP2: &str =
    "request_headers pending/headers rules=10 override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers";

const UPGRADE: [&str; 3] = ["upgrade: websocket", "connection: Upgrade", "sec-websocket-key: a"];
const MALFORMED: &str = "immediate 400 glacis_reject_malformed_upgrade reject/headers";

/// So small that a body of six bytes may be cut off.
const SMALL_BUFFER: &str = "envoy_buffer_bytes: 5\n";

const MESSAGES: &str =
    "request_headers allow/headers rules=10 override=STREAMED,SKIP,NONE,request_trailers";
const JUDGED: &str = "request_body allow/body rules=10";
const REFUSED: &str = "immediate 403 glacis_deny_rule_1 deny/body rules=10,1";

/// Messages with one text, in their frames.
const FINE: &str = "\0\0\0\0\x06\n\x04fine";
const ATTACK: &str = "\0\0\0\0\x08\n\x06attack";

fn call() -> Sent<'static> {
    Sent::post("/", &GRPC).protocol("HTTP/2")
}

#[tokio::test]
async fn bodies_are_asked_for() {
    let post = || Sent::post("/", &[FORM]);
    for case in [
        case("fine", &[(post(), AWAITED), (Sent::body("q=fine", true), "request_body allow/body")]),
        case(
            "attack",
            &[
                (post(), AWAITED),
                (
                    Sent::body("q=attack", true),
                    "immediate 403 glacis_deny_rule_1 deny/body rules=1",
                ),
            ],
        ),
        Case {
            config: SMALL_BUFFER,
            ..case(
                "the beginning of an attack",
                &[
                    (post(), AWAITED),
                    (
                        Sent::body("q=attack", false),
                        "immediate 403 glacis_deny_rule_1 deny/partial uninspected=body_truncated rules=1",
                    ),
                ],
            )
        },
        Case {
            config: SMALL_BUFFER,
            ..case(
                "the beginning of who knows what",
                &[
                    (post(), AWAITED),
                    (
                        Sent::body("q=fine", false),
                        "immediate 413 glacis_reject_body_too_large reject/partial reason=body_too_large \
                         uninspected=body_truncated",
                    ),
                ],
            )
        },
        Case {
            config: "envoy_buffer_bytes: 5\ndirectives: |\n  SecRuleEngine DetectionOnly\n",
            ..case(
                "the beginning, detection only",
                &[
                    (
                        post(),
                        "request_headers pending/headers mode=detection_only override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
                    ),
                    (
                        Sent::body("q=fine", false),
                        "request_body allow/partial uninspected=body_truncated mode=detection_only",
                    ),
                ],
            )
        },
        case(
            "empty after all",
            &[(post(), AWAITED), (Sent::body("", true), "request_body allow/body")],
        ),
        case(
            "refused before the body",
            &[(
                Sent::post("/", &["x-drop: 1"]),
                "immediate 403 glacis_drop_rule_4 drop/headers rules=4",
            )],
        ),
        case(
            "grpc",
            &[
                (call(), MESSAGES),
                (Sent::body(FINE, false), JUDGED),
                (Sent::body(FINE, true), JUDGED),
            ],
        ),
        case(
            "grpc, an attack behind a message",
            &[
                (call(), MESSAGES),
                (Sent::body(FINE, false), JUDGED),
                (Sent::body(ATTACK, false), REFUSED),
            ],
        ),
        case(
            "grpc, an attack cut in two",
            &[
                (call(), MESSAGES),
                (Sent::body("\0\0\0\0\x08\n\x06att", false), JUDGED),
                (Sent::body("ack", false), REFUSED),
            ],
        ),
        case(
            "grpc, cut off",
            &[
                (call(), MESSAGES),
                (
                    Sent::body("\0\0\0\0\x08\n\x06att", true),
                    "immediate 400 glacis_deny_rule_100010 deny/body rules=10,100010",
                ),
            ],
        ),
        case(
            "grpc, trailers",
            &[
                (call(), MESSAGES),
                (Sent::body(FINE, false), JUDGED),
                (Sent::RequestTrailers(&[]), "request_trailers allow/body rules=10"),
            ],
        ),
        case(
            "grpc, configured otherwise",
            &[
                (call().modes("BUFFERED_PARTIAL", "NONE"), MESSAGES),
                (Sent::body(ATTACK, false), REFUSED),
            ],
        ),
        case(
            "grpc, given away",
            &[
                (
                    call().modes("FULL_DUPLEX_STREAMED", "NONE"),
                    "request_headers allow/headers rules=10",
                ),
                (Sent::body(ATTACK, false), REFUSED),
            ],
        ),
        Case {
            config: SMALL_BUFFER,
            ..case(
                "grpc, by an Envoy that takes no overrides",
                &[
                    (call().modes("BUFFERED_PARTIAL", "NONE"), MESSAGES),
                    (
                        Sent::body(FINE, false),
                        "immediate 413 glacis_reject_body_too_large reject/partial reason=body_too_large uninspected=body_truncated rules=10",
                    ),
                ],
            )
        },
        case(
            "grpc, an attack in its metadata",
            &[(
                Sent::post("/?q=attack", &GRPC).protocol("HTTP/2"),
                "immediate 403 glacis_deny_rule_1 deny/headers rules=10,1",
            )],
        ),
        Case {
            config: PASS_GRPC,
            ..case(
                "grpc",
                &[(
                    Sent::post("/", &GRPC).protocol("HTTP/2"),
                    "request_headers allow/headers uninspected=grpc_body rules=10",
                )],
            )
        },
        Case {
            config: PASS_GRPC,
            ..case(
                "grpc without te",
                &[(Sent::post("/", &GRPC[..1]).protocol("HTTP/2"), AWAITED_HTTP2)],
            )
        },
        Case {
            config: PASS_GRPC,
            ..case(
                "grpc with another method",
                &[(Sent::get_open("/", &GRPC).protocol("HTTP/2"), AWAITED_HTTP2)],
            )
        },
        Case {
            config: PASS_GRPC,
            ..case(
                "grpc over HTTP/1.1",
                &[(
                    Sent::post("/", &GRPC).protocol("HTTP/1.1"),
                    "request_headers pending/headers rules=11 override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
                )],
            )
        },
        Case {
            config: PASS_GRPC,
            ..case("grpc over who knows what", &[(Sent::post("/", &GRPC), AWAITED)])
        },
        case(
            "websocket",
            &[(
                Sent::get_open(
                    "/",
                    &["upgrade: websocket", "connection: Upgrade", "sec-websocket-key: a"],
                ),
                "request_headers allow/headers uninspected=websocket",
            )],
        ),
        case("no websocket: POST", &[(Sent::post("/", &UPGRADE), MALFORMED)]),
        case("no websocket: no key", &[(Sent::get_open("/", &UPGRADE[..2]), MALFORMED)]),
        case(
            "no websocket: a body",
            &[(Sent::get_open("/", &[&UPGRADE[..], &["content-length: 5"]].concat()), MALFORMED)],
        ),
        case(
            "no websocket: an attack",
            &[(
                Sent::get_open("/?q=attack", &UPGRADE[..2]),
                "immediate 403 glacis_deny_rule_1 deny/headers",
            )],
        ),
        Case {
            config: "directives: |\n  SecRuleEngine DetectionOnly\n",
            ..case(
                "no websocket, detection only",
                &[(
                    Sent::get_open("/", &UPGRADE[..2]),
                    "request_headers allow/headers uninspected=websocket mode=detection_only",
                )],
            )
        },
        // Envoy has taken the field out: rules must not miss it.
        case(
            "chunks",
            &[(
                Sent::post("/", &[FORM]).protocol("HTTP/1.1"),
                "request_headers pending/headers rules=11 override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
            )],
        ),
        case(
            "chunks, and the field is there",
            &[(
                Sent::post("/", &["transfer-encoding: chunked"]).protocol("HTTP/1.1"),
                "request_headers pending/headers rules=11 override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
            )],
        ),
        case(
            "no chunks with a length",
            &[(Sent::post("/", &[FORM, "content-length: 6"]).protocol("HTTP/1.1"), AWAITED)],
        ),
        case("no chunks without a body", &[(Sent::get("/", &[]).protocol("HTTP/1.1"), PASSED)]),
        case(
            "no chunks in HTTP/2",
            &[(
                Sent::post("/", &[FORM]).protocol("HTTP/2"),
                "request_headers pending/headers rules=10 override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
            )],
        ),
        case(
            "a tunnel",
            &[(
                Sent::connect(&[]).protocol("HTTP/1.1"),
                "request_headers allow/headers uninspected=tunnel",
            )],
        ),
        case(
            "engine off",
            &[(
                Sent::post("/", &["x-off: 1"]),
                "request_headers allow/none uninspected=engine_off",
            )],
        ),
        Case {
            config: "directives: |\n  SecRequestBodyAccess Off\n",
            ..case(
                "not wanted",
                &[(post(), "request_headers allow/headers uninspected=body_not_wanted")],
            )
        },
        Case {
            config: "oversized_body: partial\nenvoy_buffer_bytes: 5\n",
            ..case(
                "partially",
                &[
                    (
                        post(),
                        "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
                    ),
                    (
                        Sent::body("q=fine", false),
                        "request_body allow/partial uninspected=body_truncated",
                    ),
                ],
            )
        },
        Case {
            config: "oversized_body: partial\nenvoy_buffer_bytes: 5\n",
            ..case(
                "partially, whole",
                &[
                    (
                        post(),
                        "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE,request_trailers",
                    ),
                    (Sent::body("q=fine", true), "request_body allow/body"),
                ],
            )
        },
        Case {
            config: "directives: |\n  SecRequestBodyLimit 10\n",
            ..case(
                "beyond the limit",
                &[
                    (post(), AWAITED),
                    (
                        Sent::body("q=fine&r=fine", true),
                        "immediate 413 glacis_reject_body_too_large reject/partial",
                    ),
                ],
            )
        },
    ] {
        check(&case).await;
    }
}

#[tokio::test]
async fn configured_body_modes_are_kept() {
    let streamed = || Sent::post("/", &[FORM]).modes("STREAMED", "NONE");
    const MORE: &str = "request_body pending/partial";
    const BUFFERED: &str =
        "request_headers pending/headers override=BUFFERED,SKIP,NONE,request_trailers";
    for case in [
        case(
            "buffered, obeyed",
            &[
                (Sent::post("/", &[FORM]).modes("BUFFERED", "NONE"), BUFFERED),
                (Sent::body("q=attack", true), DENIED),
            ],
        ),
        case(
            "buffered, with trailers the stream goes on",
            &[
                (Sent::post("/", &[FORM]).modes("BUFFERED", "NONE"), BUFFERED),
                (Sent::body("q=fine", false), "request_body allow/body"),
            ],
        ),
        case(
            "buffered, not needed",
            &[
                (
                    Sent::get_open(
                        "/",
                        &["upgrade: websocket", "connection: Upgrade", "sec-websocket-key: a"],
                    )
                    .modes("BUFFERED", "NONE"),
                    "request_headers allow/headers uninspected=websocket override=NONE,SKIP,NONE",
                ),
                (Sent::body("late", false), "request_body allow/headers uninspected=websocket"),
            ],
        ),
        case(
            "streamed",
            &[
                (streamed(), STREAMED),
                (Sent::body("q=att", false), MORE),
                (Sent::body("ack", false), MORE),
                (Sent::body("", true), DENIED),
            ],
        ),
        case(
            "streamed, fine",
            &[
                (streamed(), STREAMED),
                (Sent::body("q=f", false), MORE),
                (Sent::body("ine", true), "request_body allow/body"),
            ],
        ),
        case(
            "streamed, trailers end it",
            &[
                (streamed(), STREAMED),
                (Sent::body("q=attack", false), MORE),
                (Sent::RequestTrailers(&[]), DENIED),
            ],
        ),
        case(
            "streamed, fine trailers",
            &[
                (streamed(), STREAMED),
                (Sent::body("q=fine", false), MORE),
                (Sent::RequestTrailers(&[]), "request_trailers allow/body"),
            ],
        ),
        case(
            "messages of gRPC",
            &[(Sent::post("/", &[FORM]).modes("GRPC", "NONE"), "error FailedPrecondition")],
        ),
    ] {
        check(&case).await;
    }
}

/// Every message that may follow headers whose body is awaited, in every mode: see the table at `end_of`.
#[tokio::test]
async fn trailers() {
    const SEEN: &str = "immediate 403 glacis_deny_rule_14";
    const TAKEN_OUT: &str =
        "request_trailers allow/body uninspected=request_trailers remove=x-trailer";
    let rules = format!(
        "{}\nSecRule REQUEST_HEADERS:X-Trailer \"@streq attack\" \"id:14,phase:2,deny,log\"",
        super::RULES
    );
    let attack = || Sent::RequestTrailers(&["x-trailer: attack"]);
    let fine = || Sent::RequestTrailers(&["x-trailer: fine"]);
    let whole = || Sent::body("q=fine", false);
    let long = "a".repeat(20_000);
    let mut cases = Vec::new();
    for mode in ["NONE", "BUFFERED", "BUFFERED_PARTIAL", "STREAMED", "FULL_DUPLEX_STREAMED"] {
        let duplex = mode == "FULL_DUPLEX_STREAMED";
        let asked = match mode {
            _ if duplex => String::new(),
            "NONE" => AWAITED.to_owned(),
            mode => format!(
                "request_headers pending/headers override={mode},SKIP,NONE,request_trailers"
            ),
        };
        let post = |path| Sent::post(path, &[FORM]).modes(mode, "NONE");
        let good =
            if duplex { "request_headers allow/body" } else { "request_trailers allow/body" };
        cases.push((mode, "no body", vec![(post("/"), asked.clone()), (fine(), good.to_owned())]));
        cases.push((
            mode,
            "attack in query",
            vec![(post("/?q=attack"), asked.clone()), (fine(), DENIED.to_owned())],
        ));
        cases.push((
            mode,
            "attack in trailers",
            vec![(post("/"), asked.clone()), (attack(), SEEN.to_owned())],
        ));
        let (body, last) = match mode {
            "STREAMED" => ("request_body pending/partial", SEEN),
            _ if duplex => ("", SEEN),
            _ => ("request_body allow/body", TAKEN_OUT),
        };
        cases.push((
            mode,
            "attack behind a body",
            vec![
                (post("/"), asked.clone()),
                (whole(), body.to_owned()),
                (attack(), last.to_owned()),
            ],
        ));
        let bodies = ["NONE", "BUFFERED_PARTIAL"];
        if bodies.contains(&mode) {
            let cut = "immediate 413 glacis_reject_body_too_large";
            cases.push((
                mode,
                "who knows whether it is whole",
                vec![(post("/"), asked.clone()), (Sent::body(&long, false), cut.to_owned())],
            ));
            let announced = Sent::post("/", &[FORM, "content-length: 20000"]).modes(mode, "NONE");
            cases.push((
                mode,
                "as long as announced",
                vec![
                    (announced, asked),
                    (Sent::body(&long, false), "request_body allow/body".to_owned()),
                ],
            ));
        }
    }
    for (mode, name, steps) in &cases {
        let steps: Vec<_> =
            steps.iter().map(|(sent, words)| (sent.clone(), words.as_str())).collect();
        let name = format!("{mode}: {name}");
        check(&Case { name: &name, config: "", rules: &rules, steps: &steps }).await;
    }
}

/// Envoy gives headers and body away, and waits for what it gets back: nothing before the verdict.
#[tokio::test]
async fn full_duplex() {
    let post = || Sent::post("/", &[FORM]).modes("FULL_DUPLEX_STREAMED", "NONE");
    let long = "a".repeat(70_000);
    let (first, second) = long.split_at(64 << 10);
    let (first, second) =
        (format!("request_body back={first}"), format!("request_body back={second} end"));
    let limited = "directives: |\n  SecRequestBodyLimit 10\n";
    let partial = "request_body_bytes_max: 10\noversized_body: partial\n";
    for case in [
        case(
            "fine",
            &[
                (post(), ""),
                (Sent::body("q=f", false), ""),
                (Sent::body("ine", true), "request_headers allow/body"),
                (Sent::More, "request_body back=q=fine end"),
                (Sent::response(200, &[]), "response_headers allow/body"),
            ],
        ),
        case(
            "attack",
            &[(post(), ""), (Sent::body("q=att", false), ""), (Sent::body("ack", true), DENIED)],
        ),
        case(
            "trailers",
            &[
                (post(), ""),
                (Sent::body("q=fine", false), ""),
                (Sent::RequestTrailers(&[]), "request_headers allow/body"),
                (Sent::More, "request_body back=q=fine"),
                (Sent::More, "request_trailers allow/body"),
            ],
        ),
        case(
            "an attack with trailers",
            &[
                (post(), ""),
                (Sent::body("q=attack", false), ""),
                (Sent::RequestTrailers(&[]), DENIED),
            ],
        ),
        case(
            "nothing in it",
            &[
                (post(), ""),
                (Sent::body("", true), "request_headers allow/body"),
                (Sent::More, "request_body back= end"),
            ],
        ),
        case("no body", &[(Sent::get("/", &[]).modes("FULL_DUPLEX_STREAMED", "NONE"), PASSED)]),
        case(
            "not needed",
            &[
                (
                    Sent::post("/", &[FORM, "x-off: 1"]).modes("FULL_DUPLEX_STREAMED", "NONE"),
                    "request_headers allow/none uninspected=engine_off",
                ),
                (Sent::body("abc", false), "request_body back=abc"),
                (Sent::body("", true), "request_body back= end"),
            ],
        ),
        case(
            "in pieces",
            &[
                (post(), ""),
                (Sent::body(&long, true), "request_headers allow/body"),
                (Sent::More, &first),
                (Sent::More, &second),
            ],
        ),
        Case {
            config: limited,
            ..case(
                "too large",
                &[(post(), ""), (Sent::body("q=0123456789", false), "immediate 413")],
            )
        },
        Case {
            config: partial,
            ..case(
                "too large, in part",
                &[
                    (post(), ""),
                    (
                        Sent::body("q=0123456789", false),
                        "request_headers allow/partial uninspected=body_truncated",
                    ),
                    (Sent::More, "request_body back=q=0123456789"),
                    (Sent::body("&r=attack", true), "request_body back=&r=attack end"),
                ],
            )
        },
        // No verdict is due any more, and there is none on this.
        case(
            "more behind the end",
            &[
                (post(), ""),
                (Sent::body("q=fine", true), "request_headers allow/body"),
                (Sent::More, "request_body back=q=fine end"),
                (Sent::body("&r=attack", true), "error FailedPrecondition"),
            ],
        ),
        case("Envoy ends before the verdict", &[(post(), ""), (Sent::End, "error Aborted")]),
        Case {
            config: "response: full\n",
            ..case(
                "a response",
                &[
                    (Sent::get("/", &[]).modes("NONE", "FULL_DUPLEX_STREAMED"), PASSED),
                    (Sent::response(200, &["content-type: text/html"]), ""),
                    (Sent::response_body("fi", false), ""),
                    (Sent::response_body("ne", true), "response_headers allow/headers"),
                    (Sent::More, "response_body back=fine end"),
                ],
            )
        },
        Case {
            config: "response: full\n",
            ..case(
                "a response with a leak",
                &[
                    (Sent::get("/", &[]).modes("NONE", "FULL_DUPLEX_STREAMED"), PASSED),
                    (Sent::response(200, &["content-type: text/html"]), ""),
                    (Sent::response_body("a sec", false), ""),
                    (Sent::response_body("ret", true), "immediate 503 glacis_deny_rule_6"),
                ],
            )
        },
        // As much as is inspected is held, and the rest passes, as everywhere.
        Case {
            config: "response: full\ndirectives: |\n  SecResponseBodyLimit 10\n",
            ..case(
                "a response that is too large",
                &[
                    (Sent::get("/", &[]).modes("NONE", "FULL_DUPLEX_STREAMED"), PASSED),
                    (Sent::response(200, &["content-type: text/html"]), ""),
                    (Sent::response_body("0123456789", false), ""),
                    (
                        Sent::response_body("a", false),
                        "response_headers allow/headers uninspected=response_truncated",
                    ),
                    (Sent::More, "response_body back=0123456789a"),
                    (Sent::response_body("a secret", true), "response_body back=a secret end"),
                ],
            )
        },
    ] {
        check(&case).await;
    }
}
