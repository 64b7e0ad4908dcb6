//! Bodies of requests: asked for, in the modes that Envoy is configured with, and in full duplex.

use super::{
    AWAITED, DENIED, FORM, PASSED, STREAMED, case,
    harness::{Case, Sent, check},
};

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
        case(
            "the beginning of an attack",
            &[
                (post(), AWAITED),
                (
                    Sent::body("q=attack", false),
                    "immediate 403 glacis_deny_rule_1 deny/partial uninspected=body_truncated rules=1",
                ),
            ],
        ),
        case(
            "the beginning of who knows what",
            &[
                (post(), AWAITED),
                (
                    Sent::body("q=fine", false),
                    "immediate 413 glacis_deny_limit deny/partial uninspected=body_truncated",
                ),
            ],
        ),
        Case {
            config: "directives: |\n  SecRuleEngine DetectionOnly\n",
            ..case(
                "the beginning, detection only",
                &[
                    (
                        post(),
                        "request_headers pending/headers mode=detection_only override=BUFFERED_PARTIAL,SKIP,NONE",
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
            &[(
                Sent::post("/", &["content-type: application/grpc+proto"]),
                "request_headers allow/headers uninspected=grpc_body",
            )],
        ),
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
        case(
            "no websocket",
            &[(
                Sent::post(
                    "/",
                    &["upgrade: websocket", "connection: Upgrade", "sec-websocket-key: a"],
                ),
                AWAITED,
            )],
        ),
        // Envoy has taken the field out: rules must not miss it.
        case(
            "chunks",
            &[(
                Sent::post("/", &[FORM]).protocol("HTTP/1.1"),
                "request_headers pending/headers rules=11 override=BUFFERED_PARTIAL,SKIP,NONE",
            )],
        ),
        case(
            "chunks, and the field is there",
            &[(
                Sent::post("/", &["transfer-encoding: chunked"]).protocol("HTTP/1.1"),
                "request_headers pending/headers rules=11 override=BUFFERED_PARTIAL,SKIP,NONE",
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
                "request_headers pending/headers rules=10 override=BUFFERED_PARTIAL,SKIP,NONE",
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
            config: "oversized_body: partial\n",
            ..case(
                "partially",
                &[
                    (post(), "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE"),
                    (
                        Sent::body("q=fine", false),
                        "request_body allow/partial uninspected=body_truncated",
                    ),
                ],
            )
        },
        Case {
            config: "oversized_body: partial\n",
            ..case(
                "partially, whole",
                &[
                    (post(), "request_headers pending/headers override=BUFFERED_PARTIAL,SKIP,NONE"),
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
                        "immediate 413 glacis_deny_limit deny/partial",
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
    for case in [
        case(
            "buffered, obeyed",
            &[
                (
                    Sent::post("/", &[FORM]).modes("BUFFERED", "NONE"),
                    "request_headers pending/headers",
                ),
                (Sent::body("q=attack", true), DENIED),
            ],
        ),
        case(
            "buffered, with trailers the stream goes on",
            &[
                (
                    Sent::post("/", &[FORM]).modes("BUFFERED", "NONE"),
                    "request_headers pending/headers",
                ),
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
                (Sent::RequestTrailers, DENIED),
            ],
        ),
        case(
            "streamed, fine trailers",
            &[
                (streamed(), STREAMED),
                (Sent::body("q=fine", false), MORE),
                (Sent::RequestTrailers, "request_trailers allow/body"),
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

/// Envoy gives headers and body away, and waits for what it gets back: nothing before the verdict.
#[tokio::test]
async fn full_duplex() {
    let post = || Sent::post("/", &[FORM]).modes("FULL_DUPLEX_STREAMED", "NONE");
    let grpc = ["content-type: application/grpc"];
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
                (Sent::RequestTrailers, "request_headers allow/body"),
                (Sent::More, "request_body back=q=fine"),
                (Sent::More, "request_trailers allow/body"),
            ],
        ),
        case(
            "an attack with trailers",
            &[(post(), ""), (Sent::body("q=attack", false), ""), (Sent::RequestTrailers, DENIED)],
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
                    Sent::post("/", &grpc).modes("FULL_DUPLEX_STREAMED", "NONE"),
                    "request_headers allow/headers uninspected=grpc_body",
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
