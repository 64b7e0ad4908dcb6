//! Tables of requests and of what differs from documents of OpenAPI 3.0 and 3.1.
#![allow(clippy::expect_used, reason = "a test ends at what it did not expect")]

use glacis_engine::{ApiBody, ApiPart, ApiRequest};
use glacis_openapi::{Document, Limits};

const PETS: &str = include_str!("data/pets-3.0.yaml");
const ORDERS: &str = include_str!("data/orders-3.1.yaml");

/// Header fields as `Name: value`, separated by `|`.
fn headers(text: &str) -> Vec<(&[u8], &[u8])> {
    let fields = text.split('|').filter_map(|field| field.split_once(':'));
    fields.map(|(name, value)| (name.as_bytes(), value.trim().as_bytes())).collect()
}

fn findings(document: &Document, line: &str, fields: &str, body: &[u8]) -> Vec<String> {
    let (method, target) = line.split_once(' ').expect("a method and a target");
    let headers = headers(fields);
    let request = ApiRequest {
        method: method.as_bytes(),
        target: target.as_bytes(),
        headers: &headers,
        body: ApiBody::Whole(body),
        parts: None,
    };
    let findings = document.findings(&request);
    findings.iter().map(|finding| format!("{}: {}", finding.kind.name(), finding.message)).collect()
}

#[track_caller]
fn check(document: &Document, rows: &[(&str, &str, &str, &[&str])]) {
    for (line, fields, body, expected) in rows {
        let found = findings(document, line, fields, body.as_bytes());
        assert_eq!(found, *expected, "{line} {fields} {body}");
    }
}

fn pets() -> Document {
    Document::compile(PETS.as_bytes(), None).expect("the document is valid")
}

#[test]
fn paths_and_methods() {
    let ambiguous = |why: &str| format!("unknown_path: the path is ambiguous: {why}");
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("GET /v1/pets", "", "", &[]),
        ("GET /beta/pets", "", "", &[]),
        ("HEAD /v1/pets", "", "", &[]),
        ("GET /pets", "", "", &["unknown_path: no path of the document matches"]),
        ("GET /v1/pets/", "", "", &["unknown_path: no path of the document matches"]),
        ("GET /v1/dogs", "", "", &["unknown_path: no path of the document matches"]),
        ("GET /v1/pets/mine", "", "", &[]),
        ("DELETE /v1/pets/7", "", "", &[]),
        ("DELETE /v1/pets/mine", "", "", &["method: DELETE is no operation of /pets/mine"]),
        ("get /v1/pets", "", "", &["method: get is no operation of /pets"]),
        ("PATCH /v1/pets", "", "", &["method: PATCH is no operation of /pets"]),
        ("OPTIONS /v1/pets", "", "", &["method: OPTIONS is no operation of /pets"]),
        (
            "OPTIONS /v1/pets",
            "Origin: https://a.example|Access-Control-Request-Method: POST",
            "",
            &[],
        ),
        (
            "OPTIONS /v1/pets",
            "Origin: https://a.example|Access-Control-Request-Method: PUT",
            "",
            &["method: OPTIONS is no operation of /pets"],
        ),
        ("GET /v1/pets", "X-HTTP-Method-Override: GET", "", &[]),
        (
            "GET /v1/pets",
            "X-HTTP-Method-Override: DELETE",
            "",
            &["method: a header field replaces the method"],
        ),
        ("GET /v1/pets", "", "x", &["body: the operation takes no body"]),
    ];
    check(&pets(), rows);
    for (path, why) in [
        ("/v1/x/../pets", "it has a dot segment"),
        ("/v1/pets/%2e%2e", "it has a dot segment"),
        ("/v1/pets%2f7", "it has an encoded slash or a backslash"),
        ("/v1//pets", "it has an empty segment"),
        ("/v1/pets/7;x=y", "it has parameters after `;`"),
        ("/v1/pets#x", "it has a fragment"),
    ] {
        let found = findings(&pets(), &format!("GET {path}"), "", b"");
        let is_it = |message: &String| *message == ambiguous(why);
        // A fragment is part of the last segment, which then is none of the document.
        assert!(found.iter().any(is_it) || path.contains('#'), "{path} {found:?}");
        assert!(!found.is_empty(), "{path}");
    }
}

#[test]
fn parameters_of_3_0() {
    let not_integer = |place: &str| format!("parameter: {place}: value is not of type \"integer\"");
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("GET /v1/pets?limit=10", "", "", &[]),
        ("GET /v1/pets?limit=99", "", "", &[]),
        (
            "GET /v1/pets?limit=100",
            "",
            "",
            &["parameter: query limit: value is greater than or equal to the maximum of 100"],
        ),
        (
            "GET /v1/pets?limit=0",
            "",
            "",
            &["parameter: query limit: value is less than the minimum of 1"],
        ),
        (
            "GET /v1/pets?limit=1&limit=2",
            "",
            "",
            &["parameter: query limit: it is sent more than once"],
        ),
        ("GET /v1/pets?limit=%zz", "", "", &["parameter: query limit: it has an invalid escape"]),
        ("GET /v1/pets?limit=%ff", "", "", &["parameter: query limit: it is not UTF-8"]),
        ("GET /v1/pets?l%69mit=5", "", "", &[]),
        ("GET /v1/pets?Limit=5", "", "", &["unknown_parameter: query Limit: it is not declared"]),
        (
            "GET /v1/pets?limit[]=5",
            "",
            "",
            &["unknown_parameter: query limit[]: it is not declared"],
        ),
        (
            "GET /v1/pets?a=1&b=2",
            "",
            "",
            &[
                "unknown_parameter: query a: it is not declared",
                "unknown_parameter: query b: it is not declared",
            ],
        ),
        ("GET /v1/pets?api_key=x", "", "", &[]),
        ("GET /v1/pets?tags=a&tags=b", "", "", &[]),
        ("GET /v1/pets?tags=a,b", "", "", &[]),
        (
            "GET /v1/pets?tags=a&tags=b&tags=c",
            "",
            "",
            &["parameter: query tags: value has more than 2 items"],
        ),
        ("GET /v1/pets?ids=1,2,3", "", "", &[]),
        (
            "GET /v1/pets?ids=1,x",
            "",
            "",
            &["parameter: query ids: /1: value is not of type \"integer\""],
        ),
        ("GET /v1/pets?ids=1&ids=2", "", "", &["parameter: query ids: it is sent more than once"]),
        ("GET /v1/pets?words=a%20b", "", "", &[]),
        ("GET /v1/pets?words=a+b", "", "", &[]),
        (
            "GET /v1/pets?words=a,b",
            "",
            "",
            &["parameter: query words: value has less than 2 items"],
        ),
        ("GET /v1/pets?pipes=a|b", "", "", &[]),
        ("GET /v1/pets?pipes=a%7Cb", "", "", &[]),
        ("GET /v1/pets?filter[age]=3&filter[name]=x", "", "", &[]),
        ("GET /v1/pets?filter%5Bage%5D=3", "", "", &[]),
        (
            "GET /v1/pets?filter[age]=x",
            "",
            "",
            &["parameter: query filter: /age: value is not of type \"integer\""],
        ),
        (
            "GET /v1/pets?filter[age]=1&filter[age]=2",
            "",
            "",
            &["parameter: query filter: it has a member twice"],
        ),
        (
            "GET /v1/pets?filter[x]=1",
            "",
            "",
            &[
                "parameter: query filter: Additional properties are not allowed ('x' was unexpected)",
            ],
        ),
        (
            "GET /v1/pets?filter[a][b]=1",
            "",
            "",
            &["unknown_parameter: query filter[a][b]: it is not declared"],
        ),
        ("GET /v1/pets?from=1&to=2", "", "", &[]),
        (
            "GET /v1/pets?from=x",
            "",
            "",
            &["parameter: query page: /from: value is not of type \"integer\""],
        ),
        ("GET /v1/pets?flag", "", "", &[]),
        ("GET /v1/pets?flag=", "", "", &[]),
        ("GET /v1/pets?flag=true", "", "", &[]),
        (
            "GET /v1/pets?flag=1",
            "",
            "",
            &["parameter: query flag: value is not of type \"boolean\""],
        ),
        ("GET /v1/pets?q=%7B%22a%22:1%7D", "", "", &[]),
        (
            "GET /v1/pets?q={\"a\":1,\"a\":2}",
            "",
            "",
            &["parameter: query q: a JSON object has a name twice"],
        ),
        ("GET /v1/pets?q=1", "", "", &["parameter: query q: value is not of type \"object\""]),
        ("GET /v1/pets", "X-Trace: 123e4567-e89b-12d3-a456-426614174000", "", &[]),
        ("GET /v1/pets", "x-trace: 1", "", &["parameter: header X-Trace: value is not a \"uuid\""]),
        (
            "GET /v1/pets",
            "X-Trace: 123e4567-e89b-12d3-a456-426614174000|x-trace: 1",
            "",
            &["parameter: header X-Trace: it is sent more than once"],
        ),
        ("GET /v1/pets", "X-Ids: 1, 2,3", "", &[]),
        (
            "GET /v1/pets",
            "X-Ids: 1;2",
            "",
            &["parameter: header X-Ids: /0: value is not of type \"integer\""],
        ),
        ("GET /v1/pets", "X-Other: 1|Accept: text/html", "", &[]),
        ("GET /v1/pets", "Cookie: a=b; sid=abcd", "", &[]),
        (
            "GET /v1/pets",
            "Cookie: sid=abc",
            "",
            &["parameter: cookie sid: value is shorter than 4 characters"],
        ),
        (
            "GET /v1/pets",
            "Cookie: sid=abcd; sid=x",
            "",
            &["parameter: cookie sid: it is sent more than once"],
        ),
        ("GET /v1/pets/7", "", "", &[]),
        ("GET /v1/shapes/1,2/.x/;matrix=1;matrix=2", "", "", &[]),
        (
            "GET /v1/shapes/1,2/x/;matrix=1",
            "",
            "",
            &["parameter: path label: it is written in another style"],
        ),
        (
            "GET /v1/shapes/1/.x/;other=1",
            "",
            "",
            &["parameter: path matrix: it is written in another style"],
        ),
    ];
    check(&pets(), rows);
    for value in ["x", "1.0", "01", "+1", "1e1", "0x1", "%31%00", "true", "7%20"] {
        let found = findings(&pets(), &format!("GET /v1/pets/{value}"), "", b"");
        let expected = match value.contains("%00") {
            true => "unknown_path: the path is ambiguous: it has a control character".to_owned(),
            false => not_integer("path id"),
        };
        assert_eq!(found, [expected], "{value}");
    }
}

#[test]
fn bodies_of_3_0() {
    let json = "Content-Type: application/json";
    let form = "Content-Type: application/x-www-form-urlencoded";
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("POST /v1/pets", json, r#"{"kind": "kitty", "name": "tom", "lives": 9}"#, &[]),
        ("POST /v1/pets", json, r#"{"kind": "Dog", "name": "rex", "lives": "one"}"#, &[]),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Cat", "name": "tom"}"#,
            &["body: body /kind: value is not one of \"kitty\" or \"Dog\""],
        ),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "name": "rex", "lives": 1}"#,
            &["body: body /lives: value is not of type \"string\""],
        ),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "name": "REX"}"#,
            &["body: body /name: value does not match \"^[a-z]+$\""],
        ),
        ("POST /v1/pets", json, r#"{"kind": "Dog", "name": "rex", "note": null}"#, &[]),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "name": "rex", "friend": null, "born": "2026-02-28"}"#,
            &[],
        ),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "name": "rex", "born": "2026-02-30"}"#,
            &["body: body /born: value is not a \"date\""],
        ),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "name": "rex", "friend": {"kind": "Dog", "name": "a"}}"#,
            &[],
        ),
        (
            "POST /v1/pets",
            json,
            r#"{"name": "rex"}"#,
            &["body: body: \"kind\" is a required property"],
        ),
        ("POST /v1/pets", json, "[]", &["body: body: value is not of type \"object\""]),
        ("POST /v1/pets", json, "{", &["body: body: malformed JSON at line 1 column 1"]),
        (
            "POST /v1/pets",
            json,
            r#"{"kind": "Dog", "kind": "kitty", "name": "a"}"#,
            &["body: body: a JSON object has a name twice"],
        ),
        ("POST /v1/pets", json, "", &["body: the body is missing"]),
        (
            "POST /v1/pets",
            "",
            "{}",
            &["media_type: the body has no Content-Type, or more than one"],
        ),
        (
            "POST /v1/pets",
            "Content-Type: application/json|Content-Type: text/plain",
            "{}",
            &["media_type: the body has no Content-Type, or more than one"],
        ),
        (
            "POST /v1/pets",
            "Content-Type: application/json, text/plain",
            "{}",
            &["media_type: the Content-Type is malformed"],
        ),
        (
            "POST /v1/pets",
            "Content-Type: application/json; charset=utf-16",
            "{}",
            &["media_type: the charset is not UTF-8"],
        ),
        (
            "POST /v1/pets",
            "Content-Type: application/xml",
            "<a/>",
            &["media_type: application/xml is not declared"],
        ),
        ("POST /v1/pets", form, "name=tom&age=3&ok=true&tags=1&tags=2&owner=%7B%22id%22:1%7D", &[]),
        (
            "POST /v1/pets",
            form,
            "name=tom&age=x",
            &["body: body /age: value is not of type \"integer\""],
        ),
        ("POST /v1/pets", form, "name=tom&name=x", &["body: body name: it is sent more than once"]),
        (
            "POST /v1/pets",
            form,
            "name=tom&tags=x",
            &["body: body /tags/0: value is not of type \"integer\""],
        ),
        ("POST /v1/pets", form, "age=3", &["body: body: \"name\" is a required property"]),
        (
            "POST /v1/pets",
            form,
            "name=a&owner=%7B%22id%22:%22x%22%7D",
            &["body: body /owner/id: value is not of type \"integer\""],
        ),
        ("PUT /v1/pets/7", "Content-Type: text/plain; charset=utf-8", "abc", &[]),
        (
            "PUT /v1/pets/7",
            "Content-Type: text/plain",
            "abcd",
            &["body: body: value is longer than 3 characters"],
        ),
        ("PUT /v1/pets/7", "Content-Type: image/png", "\u{0}\u{1}", &[]),
        ("PUT /v1/pets/7", "", "", &[]),
    ];
    check(&pets(), rows);
}

#[test]
fn multipart_bodies() {
    let field = |name: &'static str, value: &'static str| ApiPart {
        name: name.as_bytes(),
        value: value.as_bytes(),
        is_file: false,
    };
    let photo = ApiPart { name: b"photo", value: b"a.png", is_file: true };
    let rows: &[(&[ApiPart<'_>], &[&str])] = &[
        (&[field("name", "tom"), photo], &[]),
        (
            &[
                field("name", "tom"),
                field("age", "3"),
                field("tags", "a"),
                field("tags", "b"),
                photo,
            ],
            &[],
        ),
        (&[field("name", "tom"), field("owner", "{\"id\": 1}"), photo], &[]),
        (
            &[field("name", "thomas"), photo],
            &["body: body /name: value is longer than 5 characters"],
        ),
        (
            &[field("name", "a"), field("name", "b"), photo],
            &["body: body name: it is sent more than once"],
        ),
        (
            &[field("name", "tom"), field("age", "x"), photo],
            &["body: body /age: value is not of type \"integer\""],
        ),
        (
            &[field("name", "tom"), field("tags", "c"), photo],
            &["body: body /tags/0: value is not one of \"a\" or \"b\""],
        ),
        (&[field("name", "tom")], &["body: body: \"photo\" is a required property"]),
        (
            &[field("name", "tom"), field("more", "1"), photo],
            &["body: body: Additional properties are not allowed ('more' was unexpected)"],
        ),
    ];
    let document = pets();
    let ask = |parts: Option<&[ApiPart<'_>]>| {
        let headers: &[(&[u8], &[u8])] = &[(b"content-type", b"multipart/form-data; boundary=x")];
        let body = ApiBody::Whole(b"--x");
        let request = ApiRequest { method: b"POST", target: b"/v1/pets", headers, body, parts };
        let findings = document.findings(&request);
        findings.iter().map(|it| format!("{}: {}", it.kind.name(), it.message)).collect::<Vec<_>>()
    };
    for (parts, expected) in rows {
        let found = ask(Some(parts));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{found} is not {expected}");
        }
    }
    assert_eq!(ask(None), ["body: body: it is malformed, or has too many parts"]);
}

#[test]
fn documents_of_3_1() {
    let json = "Content-Type: application/json";
    let tree = "Content-Type: application/vnd.tree+json";
    let document = Document::compile(ORDERS.as_bytes(), None).expect("the document is valid");
    let rows: &[(&str, &str, &str, &[&str])] = &[
        (
            "POST /orders",
            json,
            r#"{"total": 5, "state": "new", "pair": [1, "x"], "any": [], "x-a": "b"}"#,
            &[],
        ),
        (
            "POST /orders",
            json,
            r#"{"total": 11}"#,
            &["body: body /total: value is greater than the maximum of 10"],
        ),
        (
            "POST /orders",
            json,
            r#"{"total": 0.5}"#,
            &["body: body /total: value is less than the minimum of 1"],
        ),
        (
            "POST /orders",
            json,
            r#"{"state": "new"}"#,
            &["body: body: \"total\" is a required property"],
        ),
        (
            "POST /orders",
            json,
            r#"{"state": "old", "total": 1}"#,
            &["body: body /state: \"new\" was expected"],
        ),
        (
            "POST /orders",
            json,
            r#"{"pair": [1, "x"]}"#,
            &["body: body: \"state\" is a required property"],
        ),
        (
            "POST /orders",
            json,
            r#"{"x-a": 1}"#,
            &["body: body /x-a: value is not of type \"string\""],
        ),
        (
            "POST /orders",
            json,
            r#"{"never": 1}"#,
            &["body: body /never: False schema does not allow value"],
        ),
        ("POST /orders", tree, r#"{"value": 1, "children": [{"value": null}]}"#, &[]),
        (
            "POST /orders",
            tree,
            r#"{"value": 0}"#,
            &["body: body /value: value is less than or equal to the minimum of 0"],
        ),
        (
            "POST /orders",
            "Content-Type: application/vnd.tree+xml",
            "x",
            &["media_type: application/vnd.tree+xml is not declared"],
        ),
        ("GET /search?n=1", "", "", &[]),
        ("GET /search?n=", "", "", &[]),
        ("GET /search", "", "", &["parameter: query n: it is missing"]),
        ("GET /search?n=1&either=12", "", "", &[]),
        ("GET /search?n=1&either=5", "", "", &[]),
        ("GET /search?n=1&a=true&z=7", "", "", &[]),
        (
            "GET /search?n=1&z=x",
            "",
            "",
            &["parameter: query rest: /z: value is not of type \"integer\""],
        ),
    ];
    check(&document, rows);
    let unexpected = findings(
        &document,
        "POST /orders",
        tree,
        br#"{"value": 1, "children": [{"value": 1, "more": 1}]}"#,
    );
    assert_eq!(unexpected.len(), 1, "{unexpected:?}");
    assert!(
        unexpected.iter().all(|text| text.contains("members that are not declared")),
        "{unexpected:?}"
    );
}

#[test]
fn the_base_path_can_be_given() {
    let document =
        Document::compile(PETS.as_bytes(), Some("/api/")).expect("the document is valid");
    check(
        &document,
        &[
            ("GET /api/pets", "", "", &[]),
            ("GET /v1/pets", "", "", &["unknown_path: no path of the document matches"]),
        ],
    );
}

#[test]
fn limits_of_requests() {
    let text = r##"{"openapi": "3.1.0", "paths": {"/a": {"post": {
        "parameters": [{"name": "a", "in": "query", "schema": {"type": "array", "items": {"type": "integer"}}}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": {"minLength": 1}}}}}}}}}"##;
    let json = "Content-Type: application/json";
    let limited = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        Document::compile_with(text.as_bytes(), None, limits).expect("the document is valid")
    };
    let longer = "limit: body: it is longer than what is compared";
    check(
        &limited(|limits| limits.body_bytes_max = 7),
        &[("POST /a", json, "[1,2,3]", &[]), ("POST /a", json, "[1,2,34]", &[longer])],
    );
    let values = "limit: body: it has more values than are compared";
    check(
        &limited(|limits| limits.body_values_max = 4),
        &[("POST /a", json, "[1,2,3]", &[]), ("POST /a", json, "[1,2,3,4]", &[values])],
    );
    let deeper = "limit: body: it is nested deeper than what is compared";
    check(
        &limited(|limits| limits.body_depth_max = 3),
        &[("POST /a", json, "[[[]]]", &[]), ("POST /a", json, "[[[[]]]]", &[deeper])],
    );
    check(
        &limited(|limits| limits.pairs_max = 2),
        &[
            ("POST /a?a=1&a=2", "", "", &[]),
            ("POST /a?a=1&a=2&a=3", "", "", &["limit: query: there are too many parameters"]),
        ],
    );
    check(
        &limited(|limits| limits.findings_max = 2),
        &[(
            "POST /a?b&c&d",
            "",
            "",
            &[
                "unknown_parameter: query b: it is not declared",
                "unknown_parameter: query c: it is not declared",
            ],
        )],
    );
    check(
        &limited(|limits| limits.message_bytes_max = 10),
        &[("POST /a?b", "", "", &["unknown_parameter: query b: i"])],
    );
    // Each element takes a step, and the array one for itself and one for each element.
    check(
        &limited(|limits| limits.steps_max = 7),
        &[
            ("POST /a", json, "[1,2,3]", &[]),
            ("POST /a", json, "[1,2,3,4]", &["limit: body: the comparison takes too many steps"]),
        ],
    );
}

#[test]
fn a_schema_that_doubles_the_work_at_each_level_is_bounded() {
    let text = r##"{"openapi": "3.1.0", "components": {"schemas": {"N": {"anyOf": [
        {"properties": {"a": {"$ref": "#/components/schemas/N"}, "b": {"const": 1}}},
        {"properties": {"a": {"$ref": "#/components/schemas/N"}, "b": {"const": 2}}}]}}},
        "paths": {"/a": {"post": {"requestBody": {"content": {"application/json":
        {"schema": {"$ref": "#/components/schemas/N"}}}}}}}}"##;
    let document = Document::compile(text.as_bytes(), None).expect("the document is valid");
    let body = "{\"a\":".repeat(40) + "{\"b\":3}" + &"}".repeat(40);
    let found = findings(&document, "POST /a", "Content-Type: application/json", body.as_bytes());
    assert_eq!(
        found,
        ["body: body: it meets no choice of the schema, or has members that are not declared"]
    );
}

#[test]
fn the_deepest_body_and_schema_fit_on_a_stack() {
    let limits = Limits::default();
    // Sixteen schemas apply to each level, and each of them goes on to the next level.
    let count = limits.schema_chain_max - 1;
    let schemas: Vec<String> = (0..=count)
        .map(|at| match at < count {
            true => format!(
                "\"N{at}\": {{\"allOf\": [{{\"$ref\": \"#/components/schemas/N{}\"}}]}}",
                at + 1
            ),
            false => format!("\"N{at}\": {{\"items\": {{\"$ref\": \"#/components/schemas/N0\"}}}}"),
        })
        .collect();
    let text = |schemas: &str| {
        format!(
            "{{\"openapi\": \"3.0.0\", \"components\": {{\"schemas\": {{{schemas}}}}}, \"paths\": \
             {{\"/a\": {{\"post\": {{\"requestBody\": {{\"content\": {{\"application/json\": \
             {{\"schema\": {{\"$ref\": \"#/components/schemas/N0\"}}}}}}}}}}}}}}}}"
        )
    };
    match Document::compile(text(&schemas.join(",")).as_bytes(), None) {
        Err(error) => assert!(error.to_string().contains("apply to one value"), "{error}"),
        Ok(document) => {
            let depth = limits.body_depth_max;
            let body = "[".repeat(depth) + &"]".repeat(depth);
            let json = "Content-Type: application/json";
            assert_eq!(findings(&document, "POST /a", json, body.as_bytes()), [""; 0]);
        }
    }
}
