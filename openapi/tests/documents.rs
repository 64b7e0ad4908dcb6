//! Documents that are rejected, with the place and the reason, and the limits of documents.

use glacis_openapi::{Document, Limits};

fn refused(text: &str, limits: Limits) -> String {
    match Document::compile_with(text.as_bytes(), None, limits) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A document whose one operation has this inside.
fn with(operation: &str) -> String {
    format!("openapi: 3.1.0\npaths: {{/a: {{post: {{{operation}}}}}}}\n")
}

fn with_schema(schema: &str) -> String {
    with(&format!("requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}"))
}

#[test]
fn documents_that_make_no_sense_are_rejected() {
    let body = "/paths/~1a/post/requestBody/content/application~1json/schema";
    for (text, expected) in [
        ("openapi: 3.0.0\npaths: {}".to_owned(), "ok".to_owned()),
        ("[]".to_owned(), "an OpenAPI document has to be an object".to_owned()),
        ("swagger: '2.0'".to_owned(), "this is Swagger 2.0: convert it to OpenAPI 3.0 or 3.1".to_owned()),
        (
            "openapi: 3.2.0\npaths: {}".to_owned(),
            "/openapi: expected the version as a text, such as \"3.0.4\" or \"3.1.1\"".to_owned(),
        ),
        ("openapi: 3.1.0".to_owned(), "there are no `paths`".to_owned()),
        (
            "{\"openapi\": \"3.1.0\", \"openapi\": \"3.1.0\"}".to_owned(),
            "a JSON object has a name twice".to_owned(),
        ),
        ("{\"openapi\": ".to_owned(), "malformed JSON at line 1 column 12".to_owned()),
        (
            "openapi: 3.1.0\npaths: {/a: {get: {parameters: [{$ref: 'b.yaml#/x'}]}}}".to_owned(),
            "/paths/~1a/get/parameters/0: the reference `b.yaml#/x` leaves the document: bundle all \
             files into one, as nothing is fetched"
                .to_owned(),
        ),
        (
            "openapi: 3.1.0\npaths: {/a: {get: {parameters: [{$ref: '#/x'}]}}}".to_owned(),
            "/paths/~1a/get/parameters/0: nothing is at the reference `#/x`".to_owned(),
        ),
        (
            "openapi: 3.1.0\nx: {$ref: '#/x'}\npaths: {/a: {$ref: '#/x'}}".to_owned(),
            "/paths/~1a: references lead from one to the next, in a circle or too often".to_owned(),
        ),
        (
            "openapi: 3.1.0\npaths: {'/a/{id}': {get: {}}}".to_owned(),
            "/paths/~1a~1{id}/get: the parameter `id` of the path is not declared".to_owned(),
        ),
        (
            "openapi: 3.1.0\npaths: {'/{a}': {}, '/{b}': {}}".to_owned(),
            "/paths/~1{b}: another path matches the same requests".to_owned(),
        ),
        (
            with("parameters: [{name: a, in: query, style: matrix}]"),
            "/paths/~1a/post/parameters/0: `style` is none that a parameter of this kind may have".to_owned(),
        ),
        (
            with("requestBody: {content: {json: {}}}"),
            "/paths/~1a/post/requestBody/content/json: this is no media type".to_owned(),
        ),
        (
            with_schema("{$ref: 'https://example.com/a.json'}"),
            format!(
                "{body}: the reference `https://example.com/a.json` leaves the document: bundle all \
                 files into one, as nothing is fetched"
            ),
        ),
        (
            with_schema("{$dynamicRef: '#a'}"),
            format!("{body}: `$dynamicRef` is not supported: use `$ref` with a JSON pointer"),
        ),
        (with_schema("{items: 7}"), format!("{body}/items: a schema has to be an object")),
    ] {
        assert_eq!(refused(&text, Limits::default()), expected, "{text}");
    }
    // These messages are those of the crate for JSON Schema.
    for (text, expected) in [
        (with_schema("{type: strange}"), "strange"),
        (with_schema("{pattern: '(?=a)'}"), "(?=a)"),
        (with_schema("{pattern: '('}"), "("),
        ("openapi: 3.1.0\na: 1\na: 2".to_owned(), "line 3 column 1: duplicate mapping key: a"),
        ("openapi: [".to_owned(), "line 1"),
        (
            "openapi: 3.1.0\ncomponents: {schemas: {A: {allOf: [{$ref: '#/components/schemas/A'}]}}}\n\
             paths: {/a: {post: {requestBody: {content: {a/json: {schema: {$ref: \
             '#/components/schemas/A'}}}}}}}"
                .to_owned(),
            "/components/schemas/A: a schema applies to a value through itself, without end",
        ),
    ] {
        let found = refused(&text, Limits::default());
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn limits_of_documents() {
    type Change = fn(&mut Limits, usize);
    let two = "openapi: 3.1.0\npaths: {/a: {get: {}, put: {}}}";
    let entries = with("parameters: [{name: a, in: query}, {name: b, in: query}]");
    let nested = with_schema("{items: {items: {}}}");
    let chain = with_schema("{allOf: [{allOf: [{type: string}]}]}");
    let servers =
        "openapi: 3.1.0\nservers: [{url: '/{v}', variables: {v: {enum: [a, b]}}}]\npaths: {}";
    let cases: [(&str, Change, usize, &str); 8] = [
        (two, |limits, max| limits.document_bytes_max = max, two.len(), "longer than"),
        (two, |limits, max| limits.operations_max = max, 2, "more than 1 operations"),
        (&entries, |limits, max| limits.entries_max = max, 2, "more than 1 parameters"),
        (&entries, |limits, max| limits.parameters_max = max, 2, "more than 1 parameters"),
        (&nested, |limits, max| limits.schemas_max = max, 3, "more than 2 schemas"),
        (&nested, |limits, max| limits.schema_depth_max = max, 2, "nested more than 1 deep"),
        (&chain, |limits, max| limits.schema_chain_max = max, 2, "more than 1 schemas apply"),
        (servers, |limits, max| limits.base_paths_max = max, 2, "more than 1 paths"),
    ];
    for (text, change, fits, expected) in cases {
        let with = |max: usize| {
            let mut limits = Limits::default();
            change(&mut limits, max);
            refused(text, limits)
        };
        assert_eq!(with(fits), "ok", "{text}");
        assert!(with(fits - 1).contains(expected), "{text}: {}", with(fits - 1));
    }
    let limits = Limits { pattern_bytes_max: 1_000, ..Limits::default() };
    assert!(refused(&with_schema("{pattern: 'a{1000}'}"), limits).contains("a{1000}"));
}
