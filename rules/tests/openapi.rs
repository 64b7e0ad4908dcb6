//! Requests that differ from an OpenAPI document, by the rules that a document stands for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{fs, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, Program, Start, Transaction};
use glacis_rules::{FileSource, OpenApiAction, OpenApiRules, base};

const DOCUMENT: &str = r##"
openapi: "3.1.0"
paths:
  /pets/{id}:
    put:
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
      requestBody:
        required: true
        content:
          application/json:
            schema: { type: object, required: [name], additionalProperties: false, properties: { name: { type: string } } }
          multipart/form-data:
            schema: { type: object, required: [photo], properties: { age: { type: integer }, photo: { type: string, format: binary } } }
  /pets:
    get: {}
"##;

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

fn build(rules: &OpenApiRules<'_>, more: &str) -> Result<Program, String> {
    let text = |name: &str, text: String| Input::Text { name: name.to_owned(), text };
    let inputs = [base(), text("openapi", rules.directives()), text("own", more.to_owned())];
    Program::build(&inputs, &FileSource::new(), Limits::default()).map_err(|it| it.to_string())
}

fn program(document: &str, action: OpenApiAction, more: &str) -> Arc<Program> {
    let document = file(document, DOCUMENT);
    let rules = OpenApiRules { document: &document, base_path: None, actions: [action; 7] };
    Arc::new(build(&rules, more).unwrap())
}

/// The status and the rules that match, with what they log.
fn judged(program: &Arc<Program>, line: &str, media_type: &str, body: &str) -> String {
    let (method, uri) = line.split_once(' ').unwrap();
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(method.as_bytes(), uri.as_bytes(), b"HTTP/1.1");
    transaction.request_header(b"Host", b"shop.example");
    if !body.is_empty() {
        transaction.request_header(b"Content-Length", body.len().to_string().as_bytes());
        transaction.request_header(b"Content-Type", media_type.as_bytes());
    }
    transaction.evaluate_request_headers();
    if transaction.wants_request_body() {
        transaction.request_body(body.as_bytes());
    }
    transaction.evaluate_request_body();
    let status = transaction.verdict().refusal().map_or(200, |refusal| refusal.status);
    let rules = transaction.matched_rules().map(|rule| format!(" {} {}", rule.id, rule.logdata));
    format!("{status}{}", rules.collect::<String>())
}

const JSON: &str = "application/json";

#[test]
fn each_kind_of_difference_is_a_rule() {
    let program = program("kinds.yaml", OpenApiAction::Block, "");
    let form = "multipart/form-data; boundary=x";
    let part = |name: &str, rest: &str, value: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{rest}\r\n\r\n{value}\r\n")
    };
    let photo = part("photo", "; filename=\"a.png\"", "\u{1}png");
    for (line, media_type, body, expected) in [
        ("GET /pets", "", "", "200".to_owned()),
        ("GET /dogs", "", "", "404 100091 no path of the document matches".to_owned()),
        ("DELETE /pets", "", "", "405 100092 DELETE is no operation of /pets".to_owned()),
        ("PUT /pets/1", "text/plain", "a", "415 100093 text/plain is not declared".to_owned()),
        ("GET /pets?a=b", "", "", "400 100094 query a: it is not declared".to_owned()),
        (
            "PUT /pets/x",
            JSON,
            "{\"name\": \"a\"}",
            "400 100095 path id: value is not of type \"integer\"".to_owned(),
        ),
        ("PUT /pets/1", JSON, "{\"name\": \"a\"}", "200".to_owned()),
        ("PUT /pets/1", "", "", "400 100096 the body is missing".to_owned()),
        (
            "PUT /pets/1",
            JSON,
            "{\"name\": 1}",
            "400 100096 body /name: value is not of type \"string\"".to_owned(),
        ),
        (
            "PUT /pets/1",
            form,
            &format!("{photo}{}--x--\r\n", part("age", "", "3")),
            "200".to_owned(),
        ),
        (
            "PUT /pets/1",
            form,
            &format!("{photo}{}--x--\r\n", part("age", "", "x")),
            "400 100096 body /age: value is not of type \"integer\"".to_owned(),
        ),
        (
            "PUT /pets/1",
            form,
            &format!("{}--x--\r\n", part("age", "", "3")),
            "400 100096 body: \"photo\" is a required property".to_owned(),
        ),
    ] {
        assert_eq!(judged(&program, line, media_type, body), expected, "{line} {body}");
    }
    let deep = "[".repeat(60) + &"]".repeat(60);
    let expected = "400 100097 body: it is nested deeper than what is compared";
    assert_eq!(judged(&program, "PUT /pets/1", JSON, &deep), expected);
}

#[test]
fn a_body_that_is_not_there_as_a_whole_is_reported() {
    let body = "{\"name\": \"a\"}";
    let off = "SecAction \"id:1,phase:1,pass,nolog,ctl:requestBodyAccess=Off\"";
    let without = program("off.yaml", OpenApiAction::Block, off);
    let expected = "400 100097 the body is not compared: rules leave the body out";
    assert_eq!(judged(&without, "PUT /pets/1", JSON, body), expected);
    assert_eq!(judged(&without, "GET /pets", "", ""), "200");
    // Where rules may block, a body that is cut off is no JSON, which is enough for another rule.
    let partial = "SecRequestBodyLimit 5\nSecRequestBodyLimitAction ProcessPartial\nSecRuleEngine DetectionOnly";
    let partial = program("partial.yaml", OpenApiAction::Report, partial);
    let found = judged(&partial, "PUT /pets/1", JSON, body);
    assert!(found.contains("100097 the body is not compared: the body is longer"), "{found}");
}

#[test]
fn reports_and_detection_block_nothing() {
    let report = program("report.yaml", OpenApiAction::Report, "");
    let expected = "200 100094 query a: it is not declared";
    assert_eq!(judged(&report, "GET /pets?a=b", "", ""), expected);
    let detection = program("detection.yaml", OpenApiAction::Block, "SecRuleEngine DetectionOnly");
    assert_eq!(judged(&detection, "GET /pets?a=b", "", ""), expected);
    let ignore = program("ignore.yaml", OpenApiAction::Ignore, "");
    assert_eq!(judged(&ignore, "GET /dogs?a=b", "", ""), "200");
    let excluded = program("excluded.yaml", OpenApiAction::Block, "SecRuleRemoveById 100094");
    assert_eq!(judged(&excluded, "GET /pets?a=b", "", ""), "200");
}

#[test]
fn the_body_is_asked_for() {
    let program = program("asked.yaml", OpenApiAction::Block, "");
    assert!(program.inspects_request_body());
    assert!(program.describes_api());
}

#[test]
fn errors_name_the_file_and_the_place() {
    let document =
        file("wrong.yaml", "openapi: '3.1.0'\npaths: {/a: {get: {parameters: [{in: query}]}}}");
    let rules = OpenApiRules { document: &document, base_path: None, actions: Default::default() };
    let error = build(&rules, "").unwrap_err();
    let expected = "wrong.yaml: /paths/~1a/get/parameters/0: `name` is missing, or is no text";
    assert!(error.contains(expected), "{error}");
}
