//! Envoy set up for `FULL_DUPLEX_STREAMED`: bodies arrive as they were sent, and none before its verdict.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_tests::http::Request;
use glacis_tests::http2;
use glacis_tests::stack::Processor;

use crate::support::{Own, client};

const EDITS: &[(&str, &str)] = &[
    ("request_body_mode: NONE", "request_body_mode: FULL_DUPLEX_STREAMED"),
    ("request_trailer_mode: SKIP", "request_trailer_mode: SEND"),
    ("allow_mode_override: true", "allow_mode_override: false"),
];

#[test]
fn bodies_wait_for_their_verdict() {
    let own = Own::start("full-duplex", Processor::ExtProc, EDITS);
    let stack = &own.0;
    let json = "application/json";
    let long = format!(r#"{{"a": "{}"}}"#, "glacis and ice ".repeat(20_000));
    let attack = format!(r#"{{"a": "{}<script>alert(1)</script>"}}"#, "and ice ".repeat(10_000));
    for (name, request, status) in [
        ("no body", Request::get("/echo?q=winter+coat"), 200),
        ("a short one", Request::post("/echo", json, r#"{"a": 1}"#), 200),
        ("a long one", Request::post("/echo", json, long), 200),
        ("attack in the query", Request::get("/echo?q=%3Cscript%3Ealert(1)%3C/script%3E"), 403),
        ("attack at the end of a long one", Request::post("/echo", json, attack), 403),
    ] {
        let request = request.browser();
        for answer in [
            stack.send(client(), &request).unwrap(),
            http2::send(client(), stack.proxy(), &request).unwrap(),
        ] {
            assert_eq!(answer.status, status, "{name}: {:.300}", answer.text());
            if status == 200 {
                let body = answer.json()["body_base64"].as_str().unwrap().to_owned();
                assert!(STANDARD.decode(body).unwrap() == request.body, "{name}: another body");
            }
        }
    }
}
