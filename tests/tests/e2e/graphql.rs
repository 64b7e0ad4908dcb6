//! GraphQL through Envoy, with ext-proc and with the native module: values in documents are inspected, documents of
//! clients pass, and each limit is a refusal with its rule. In detection mode the same rules match, and nothing is refused.

use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::stack::Processor;
use serde_json::{Value, json};

use crate::support::{Own, access_log, client, eventually};

const DETECTION: &str = "mode: detection\n";

/// Detection mode, with limits that short documents reach.
const DETECTING: &str = "mode: detection\n\
    graphql: {paths: [/echo], depth_max: 3, aliases_max: 2, root_fields_max: 3, directives_max: 1, \
    tokens_max: 60, batch_max: 2, cost_max: 50, introspection: deny}";

/// The same limits where rules may block.
const KEYS: &str = DETECTING.split_at(DETECTION.len()).1;

fn post(document: &str) -> Request {
    send(&json!({ "query": document }))
}

fn send(body: &Value) -> Request {
    Request::post("/echo", "application/json", body.to_string()).browser()
}

fn get(query: &str) -> Request {
    Request::get(&format!("/echo?query={query}")).browser()
}

/// Each request, its status and the rule that refuses it.
fn rows() -> Vec<(Request, u16, &'static str)> {
    vec![
        (post("{ a { b { c } } }"), 200, ""),
        (post("{ a { b { c { d } } } }"), 400, "100050"),
        (post("{ a { ...F } } fragment F on T { b { c { d } } }"), 400, "100050"),
        (post("{ x: a y: b c }"), 200, ""),
        (post("{ x: a y: b z: c }"), 400, "100051"),
        (post("{ a b c }"), 200, ""),
        (post("{ a b c d }"), 400, "100052"),
        (post("{ a @x }"), 200, ""),
        (post("{ a @x @y }"), 400, "100053"),
        (post(&format!("{{ a {{ {} }} }}", "b ".repeat(61))), 400, "100054"),
        (send(&json!([{ "query": "{ a }" }, { "query": "{ b }" }])), 200, ""),
        (send(&json!([{ "query": "{a}" }, { "query": "{b}" }, { "id": "c" }])), 400, "100055"),
        (post("{ a(first: 49) { b } }"), 200, ""),
        (post("{ a(first: 50) { b } }"), 400, "100056"),
        (
            send(
                &json!({ "query": "query($n: Int) { a(first: $n) { b } }", "variables": { "n": 50 } }),
            ),
            400,
            "100056",
        ),
        (post("{ __schema { types { name } } }"), 400, "100057"),
        (post("{ __typename }"), 200, ""),
        (post("{ a } }"), 400, "100058"),
        (post("fragment F on T { ...F } { ...F }"), 400, "100050"),
        (get("%7Ba%7D"), 200, ""),
        (get("%7Ba%7Bb%7Bc%7Bd%7D%7D%7D%7D"), 400, "100050"),
        (Request::post("/echo", "application/graphql", "{ a b c d }").browser(), 400, "100052"),
        // Values are inspected as any argument; what is no GraphQL elsewhere is.
        (post("{ a(b: \"<script>alert(document.cookie)</script>\") }"), 403, "949110"),
        (
            post("{ a(b: \"\\u003cscript\\u003ealert(document.cookie)\\u003c/script\\u003e\") }"),
            403,
            "949110",
        ),
        (post("{ user(edges: 1) { node { select } } }"), 200, ""),
    ]
}

fn check(own: &Own, detects: bool) {
    for (number, (request, status, rule)) in rows().into_iter().enumerate() {
        let from = client();
        let answer = own.0.send(from, &request).unwrap();
        let expected = if detects { 200 } else { status };
        assert_eq!(answer.status, expected, "{number}: {request:?}: {}", answer.text());
        if rule.is_empty() {
            continue;
        }
        let mut line = Value::Null;
        eventually("the access log has the request", Duration::from_secs(5), || {
            line = access_log(&own.0, &[from]).pop().unwrap_or_default();
            !line.is_null()
        });
        let rules = line["glacis"]["rules"].as_array().into_iter().flatten();
        let ids: Vec<_> = rules.filter_map(Value::as_str).collect();
        assert!(ids.contains(&rule), "{number}: {request:?}: {line}");
    }
}

#[test]
fn limits_of_graphql_are_refusals() {
    check(&Own::start("graphql", Processor::ExtProcWith(KEYS), &[]), false);
    check(&Own::native("graphql-native", &[KEYS], &[]), false);
}

#[test]
fn limits_of_graphql_are_only_reported_in_detection_mode() {
    check(&Own::start("graphql-detection", Processor::ExtProcWith(DETECTING), &[]), true);
}
