//! The law of OpenAPI: any bytes of a request are compared with a document, twice alike, and within the limits. The
//! input is a request: a line with method and target, lines of header fields, an empty line, and the body.

use std::sync::LazyLock;

use glacis_engine::{ApiBody, ApiPart, ApiRequest};
use glacis_openapi::{Document, Limits};

const DOCUMENT: &str = r##"
openapi: "3.1.0"
components:
  schemas:
    Node:
      anyOf:
        - { properties: { a: { $ref: "#/components/schemas/Node" }, b: { type: [integer, "null"] } }, unevaluatedProperties: false }
        - { type: array, items: { $ref: "#/components/schemas/Node" }, uniqueItems: true }
        - { enum: [1, x, { a: [] }] }
paths:
  /{list}/{label}/{matrix}.x:
    get:
      parameters:
        - { name: list, in: path, required: true, schema: { type: array, items: { type: integer } } }
        - { name: label, in: path, required: true, style: label, explode: true, schema: { type: object } }
        - { name: matrix, in: path, required: true, style: matrix, schema: { type: string, pattern: "^[a-z;=]+$" } }
  /a:
    get:
      parameters:
        - { name: a, in: query, schema: { type: array, items: { type: [number, boolean] } } }
        - { name: b, in: query, style: pipeDelimited, explode: false, schema: { type: array, items: { type: string, format: email } } }
        - { name: c, in: query, style: deepObject, schema: { type: object, additionalProperties: { type: integer } } }
        - { name: d, in: query, content: { application/json: { schema: { $ref: "#/components/schemas/Node" } } } }
        - { name: e, in: cookie, schema: { type: string, format: date-time } }
        - { name: f, in: header, schema: { type: array, items: { type: string, format: uri } } }
        - { name: g, in: query, schema: { type: object, additionalProperties: { type: string } } }
    post:
      requestBody:
        content:
          application/json: { schema: { $ref: "#/components/schemas/Node" } }
          application/x-www-form-urlencoded: { schema: { type: object, properties: { a: { type: array, items: { type: integer } }, n: { $ref: "#/components/schemas/Node" } } } }
          multipart/form-data: { schema: { type: object, properties: { a: { type: array, items: { type: integer } }, n: { $ref: "#/components/schemas/Node" } } } }
          text/*: { schema: { type: [integer, string], maxLength: 9 } }
"##;

static DOCUMENTS: LazyLock<[Document; 2]> = LazyLock::new(|| {
    let small = Limits { steps_max: 40, body_values_max: 8, findings_max: 2, ..Limits::default() };
    [Limits::default(), small]
        .map(|limits| Document::compile_with(DOCUMENT.as_bytes(), None, limits).unwrap())
});

/// Whatever a request is, it is compared without a panic, always alike, and what is reported is bounded.
pub fn openapi(input: &[u8]) {
    let (head, body) = match input.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&input[..at], &input[at + 2..]),
        None => (input, &b""[..]),
    };
    let mut lines = head.split(|&byte| byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let space = line.iter().position(|&byte| byte == b' ').unwrap_or(0);
    let (method, target) = line.split_at(space);
    let headers: Vec<(&[u8], &[u8])> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
        .collect();
    let parts: Vec<ApiPart<'_>> = body
        .split(|&byte| byte == b'&')
        .map(|part| {
            let (name, value) = part.split_at(part.len().min(1));
            ApiPart { name, value, is_file: part.len() % 7 == 6 }
        })
        .collect();
    let target = target.strip_prefix(b" ").unwrap_or(target);
    for body in [ApiBody::Whole(body), ApiBody::Incomplete("it is long")] {
        let request = ApiRequest { method, target, headers: &headers, body, parts: Some(&parts) };
        for document in DOCUMENTS.iter() {
            let first = document.findings(&request);
            assert_eq!(first, document.findings(&request), "two answers to one request");
            assert!(first.len() <= Limits::default().findings_max);
            assert!(first.iter().all(|it| it.message.len() <= Limits::default().message_bytes_max));
        }
    }
}
