//! Framings of responses: trailers with a body and without one, compressed bodies, and answers that come before the
//! request's end.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use glacis_tests::frames::{Connection, Frame, fields};
use glacis_tests::stack::{Processor, Stack};
use serde_json::{Value, json};

use super::UPSTREAM;
use super::requests::{PAUSE, Parts};
use crate::body_modes::{CLOSED, OF_RESPONSES, routes};
use crate::support::{Own, client, native, shared};

/// Both rules are of phase 4: they run when the response's body is there, or when there is none.
const RULES: &str = "response: full\ndirectives: |\n  SecResponseBodyAccess On\n  \
    SecRule RESPONSE_BODY \"@contains leaked-secret\" \"id:9000,phase:4,deny,status:502,log\"\n  \
    SecRule RESPONSE_HEADERS:X-Leak \"@streq yes\" \"id:9001,phase:4,deny,status:502,log\"\n";

/// Where a response's body is held back until its verdict.
const MODES: [&str; 4] = ["none", "buffered", "partial", "duplex"];

#[test]
fn trailers() {
    let edits = [(CLOSED, &*routes(OF_RESPONSES)), UPSTREAM];
    let own = Own::start("framing-responses", Processor::ExtProcWith(RULES), &edits);
    check(&own.0, &MODES.map(|mode| format!("/{mode}")));
}

#[test]
fn trailers_natively() {
    let keys: Vec<&str> = RULES.lines().collect();
    let own = Own::native("framing-responses-native", &keys, &[UPSTREAM]);
    check(&own.0, &[String::new()]);
}

/// An error that CRS blocks in responses (951230).
const SQL_ERROR: &str = "<p>You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
                         server version for the right syntax to use near 'x' at line 1</p>";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The description of a response whose body is said to be compressed with gzip.
fn compressed(body: &[u8]) -> Value {
    let headers = json!({"content-type": "text/html", "content-encoding": "gzip"});
    json!({"status": 200, "headers": headers, "encodedBody": STANDARD.encode(body)})
}

/// Sends each row to each route, which are given by their prefixes.
#[track_caller]
fn check(stack: &Stack, routes: &[String]) {
    let body = |text: &str| json!({"status": 200, "body": text});
    let leak = json!({"status": 200, "headers": {"x-leak": "yes"}});
    let rows: [(&str, Value, u16); 9] = [
        ("body, trailers", body("hello"), 200),
        ("a body that leaks, trailers", body("a leaked-secret"), 502),
        ("trailers", json!({"status": 200}), 200),
        ("headers that leak, trailers", leak.clone(), 502),
        ("headers that leak, no trailers", leak, 502),
        ("compressed, trailers", compressed(&gzip("hello")), 200),
        ("compressed, a leak, trailers", compressed(&gzip("a leaked-secret")), 502),
        ("compressed, an error of SQL, no trailers", compressed(&gzip(SQL_ERROR)), 403),
        ("no gzip, trailers", compressed(b"hello"), 200),
    ];
    let mut wrong = Vec::new();
    for route in routes {
        for (name, described, status) in &rows {
            let path = if name.contains("no trailers") { "reflect" } else { "trailed" };
            let more = [("content-type", "application/json")];
            let headers = fields("POST", &format!("{route}/{path}"), &more);
            let frames = [
                Frame::Headers { fields: headers, pieces: 1, end_stream: false },
                Frame::data(described.to_string().as_bytes(), true),
            ];
            let mut connection = Connection::open(client(), stack.proxy()).unwrap();
            let answer = connection.exchange(&frames).unwrap_or_default();
            let expected = match described["encodedBody"].as_str() {
                Some(encoded) => STANDARD.decode(encoded).unwrap(),
                None => described["body"].as_str().unwrap_or_default().as_bytes().to_vec(),
            };
            let is_whole = *status != 200 || (answer.body == expected && answer.trailers);
            if answer.status != *status || !is_whole {
                wrong.push(format!("{name}, {route:?}: {answer:?} instead of {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The upstream answers when it has the headers, which it does not get before the verdict on the body.
#[test]
fn an_early_answer_does_not_outrun_the_verdict() {
    let filler = "and+ice+".repeat(1_500);
    for (stack, route) in [(shared(), ""), (shared(), "/open"), (native(), "")] {
        for (end, status) in [("b=2", 200), ("b=1'+UNION+SELECT+password+FROM+users--", 403)] {
            let more = [("content-type", "application/x-www-form-urlencoded")];
            let headers = fields("POST", &format!("{route}/early"), &more);
            let frames = [
                Frame::Headers { fields: headers, pieces: 1, end_stream: false },
                Frame::data(format!("a={filler}&").as_bytes(), false),
                Frame::Pause(PAUSE),
                Frame::data(end.as_bytes(), false),
                Frame::Pause(PAUSE),
                Frame::Trailers(Parts::harmless_trailers()),
            ];
            let mut connection = Connection::open(client(), stack.proxy()).unwrap();
            let answer = connection.exchange(&frames).unwrap_or_default();
            assert_eq!(answer.status, status, "{route:?}, {end}: {answer:?}");
        }
    }
}
