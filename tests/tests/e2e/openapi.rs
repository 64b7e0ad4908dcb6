//! OpenAPI through Envoy, with ext-proc and with the native module: requests that conform pass, each kind of difference
//! is a refusal with its rule, and reports block nothing.

use std::fs;
use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::stack::Processor;
use serde_json::{Value, json};

use crate::support::{Own, access_log, client, eventually, folder};

/// Whatever the sample upstream and the readiness of the stack are asked for is declared as well.
const DOCUMENT: &str = r#"
openapi: "3.1.0"
servers: [{ url: "https://{host}.example.com/", variables: { host: { default: shop } } }]
paths:
  /:
    get: {}
  /echo:
    get:
      parameters:
        - { name: page, in: query, schema: { type: integer, minimum: 1 } }
    post:
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [name]
              additionalProperties: false
              properties: { name: { type: string, maxLength: 8 }, tags: { type: array, items: { type: string } } }
          application/x-www-form-urlencoded:
            schema: { type: object, properties: { age: { type: integer } } }
  /echo/{id}:
    get:
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
"#;

/// The configuration, with the document beside the logs of the stack.
fn keys(name: &str, action: &str) -> &'static str {
    let folder = folder(&format!("{name}-document"));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("openapi.yaml");
    fs::write(&file, DOCUMENT).unwrap();
    format!("openapi: {{document: \"{}\", action: {action}}}", file.display()).leak()
}

fn get(target: &str) -> Request {
    Request::get(target).browser()
}

fn send(media_type: &str, body: &str) -> Request {
    Request::post("/echo", media_type, body).browser()
}

/// Each request, its status and the rule that refuses it.
fn rows() -> Vec<(Request, u16, &'static str)> {
    let json = |body: &Value| send("application/json", &body.to_string());
    let form = "application/x-www-form-urlencoded";
    vec![
        (get("/echo"), 200, ""),
        (get("/echo?page=2"), 200, ""),
        (get("/echo/7"), 200, ""),
        (json(&json!({ "name": "tom", "tags": ["a"] })), 200, ""),
        (send(form, "age=3"), 200, ""),
        (get("/elsewhere"), 404, "100091"),
        (get("/echo/7/more"), 404, "100091"),
        (get("/echo%2f7"), 404, "100091"),
        (Request::post("/echo/7", "application/json", "{}").browser(), 405, "100092"),
        (send("text/plain", "a"), 415, "100093"),
        (get("/echo?debug=1"), 400, "100094"),
        (get("/echo?page=0"), 400, "100095"),
        (get("/echo?page=1&page=2"), 400, "100095"),
        (get("/echo/x"), 400, "100095"),
        (json(&json!({ "name": 1 })), 400, "100096"),
        (json(&json!({ "name": "tom", "admin": true })), 400, "100096"),
        (send("application/json", "{\"name\": \"a\", \"name\": \"b\"}"), 400, "100096"),
        (send(form, "age=x"), 400, "100096"),
        (send("application/json", &("[".repeat(60) + &"]".repeat(60))), 400, "100097"),
        // A conforming request is inspected as any other.
        (json(&json!({ "name": "' or 1=1" })), 403, "949110"),
    ]
}

fn check(own: &Own, reports: bool) {
    for (number, (request, status, rule)) in rows().into_iter().enumerate() {
        let from = client();
        let answer = own.0.send(from, &request).unwrap();
        let is_api = rule.starts_with("10009");
        if !reports || !is_api {
            assert_eq!(answer.status, status, "{number}: {request:?}: {}", answer.text());
        }
        if rule.is_empty() || (reports && !is_api) {
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
fn differences_from_a_document_are_refusals() {
    let block = keys("openapi", "block");
    check(&Own::start("openapi", Processor::ExtProcWith(block), &[]), false);
    let block = keys("openapi-native", "block");
    check(&Own::native("openapi-native", &[block], &[]), false);
}

#[test]
fn differences_are_only_reported_where_that_is_configured() {
    let report = keys("openapi-report", "report");
    check(&Own::start("openapi-report", Processor::ExtProcWith(report), &[]), true);
}
