//! Documents in each transport: their values as arguments, and what they come to.

use super::{Counter, Recorder};
use crate::{
    body::{
        BodyErrorKind, BodyScratch, Processor,
        graphql::{Measures, Numbers, Requests},
        process,
    },
    limits::Limits,
};

fn read(processor: Processor, content_type: &str, body: &[u8]) -> (String, Measures) {
    let mut sink = Recorder::new(usize::MAX);
    let mut scratch = BodyScratch::default();
    let limits = Limits::default();
    let mut requests = Requests::new(&limits, Numbers::default(), &mut sink);
    let content_type = content_type.as_bytes();
    process(processor, content_type, body, &limits, b'&', &mut scratch, &mut requests);
    let (measures, error) = requests.finish(&limits, &mut scratch);
    assert_eq!(error, None);
    (sink.text, measures)
}

/// Reads a document alone, with variables as a text of JSON.
fn document(document: &str, variables: &str) -> (String, Measures) {
    let quoted = |text: &str| {
        let mut quoted = String::new();
        for character in text.chars() {
            match character {
                '"' | '\\' => quoted.extend(['\\', character]),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                _ => quoted.push(character),
            }
        }
        quoted
    };
    let variables =
        if variables.is_empty() { String::new() } else { format!(",\"variables\":{variables}") };
    let body = format!("{{\"query\":\"{}\"{variables}}}", quoted(document));
    read(Processor::Json, "application/json", body.as_bytes())
}

/// The arguments of a document that is well-formed.
#[track_caller]
fn arguments(text: &str, expected: &[&str]) {
    let (seen, measures) = document(text, "");
    let seen: Vec<_> =
        seen.lines().map(|line| line.strip_prefix("a json.query.").unwrap_or(line)).collect();
    assert_eq!(seen, expected, "{text}");
    assert!(!measures.malformed, "{text}");
}

#[test]
fn values_are_arguments_named_by_field_and_argument() {
    arguments(r#"{ user(id: 4) { name } }"#, &["user.id=4"]);
    arguments(
        r#"{ a: user(name: "x' or 1=1") { b: pic(w: 1.5e3) } }"#,
        &["user.name=x\\' or 1=1", "pic.w=1.5e3"],
    );
    arguments("{ u(a: ASC, b: true, c: null, d: $v) }", &["u.a=ASC", "u.b=true", "u.c="]);
    arguments(
        r#"{ u(w: {a: {b: ["x", "y"]}, c: {}, d: []}) }"#,
        &["u.w.a.b.array_0=x", "u.w.a.b.array_1=y", "u.w.c=", "u.w.d="],
    );
    arguments(
        r#"query Q($a: [Int!]! = [1], $b: T = {c: "d"} @e(f: "g")) { u }"#,
        &["operation=Q", "variables.a.array_0=1", "variables.b.c=d", "e.f=g"],
    );
    arguments(r#"query @on(a: "b") { u @skip(if: $x) @log(m: "c") }"#, &["on.a=b", "log.m=c"]);
    arguments(
        r#"{ ...F ... on T @d(a: "b") { x } ... { y } } fragment F on T { z(q: "r") }"#,
        &["d.a=b", "z.q=r"],
    );
    arguments(
        "\"what\" query Q { a } \"\"\"it is\"\"\" fragment F on T { b }",
        &["description=what", "operation=Q", "description=it is"],
    );
    arguments(
        "{ a # ${jndi:ldap://x}\n # two\r b }#end",
        &["comment=${jndi:ldap://x}\\n two\\nend"],
    );
    arguments("\u{feff}{a,,,b,fragment,on,query}", &[]);
    arguments("subscription S { on(on: on) } mutation { fragment }", &["operation=S", "on.on=on"]);
}

#[test]
fn strings_are_what_servers_read() {
    arguments(r#"{ a(b: "\u003cscript\u003e") }"#, &["a.b=<script>"]);
    arguments(
        r#"{ a(b: "\u{3c}\u{1F600}\uD83D\uDE00") }"#,
        &["a.b=<\\xf0\\x9f\\x98\\x80\\xf0\\x9f\\x98\\x80"],
    );
    arguments(r#"{ a(b: "\"\\\/\b\f\n\r\t#}") }"#, &["a.b=\\\"\\\\/\\x08\\x0c\\n\\r\\t#}"]);
    arguments(r#"{ a(b: "") c(d: """""") }"#, &["a.b=", "c.d="]);
    arguments(
        "{ a(b: \"\"\"\n   file:///etc\n     x\\\"\"\"\n   \n\"\"\") }",
        &["a.b=file:///etc\\n  x\\\"\\\"\\\""],
    );
    arguments("{ a(b: \"\"\"one\r\n    two\r  three\"\"\") }", &["a.b=one\\n  two\\nthree"]);
    arguments(r#"{ a(b: """ " "" \n """) }"#, &["a.b= \\\" \\\"\\\" \\\\n "]);
}

/// Whatever cannot be read is shown as it is.
#[test]
fn malformed_documents_are_text() {
    for text in [
        "",
        "{}",
        "{a",
        "{a}}",
        "{a(}",
        "{a()}",
        "{a(b)}",
        "{a(b:)}",
        "{a(b:[)}",
        "{a(b:{c})}",
        "{a(b:{)}",
        "{a{}}",
        "{a:}",
        "{..a}",
        "{...}",
        "{...on}",
        "{a(b:\"c)}",
        "{a(b:\"c\n\")}",
        "{a(b:\"\\x\")}",
        "{a(b:\"\\u12\")}",
        "{a(b:\"\\uD800\")}",
        "{a(b:\"\\u{110000}\")}",
        "{a(b:\"\\u{}\")}",
        "{a(b:\"\"\"c\"\")}",
        "{a(b:01)}",
        "{a(b:1.)}",
        "{a(b:1e)}",
        "{a(b:1x)}",
        "{a(b:-)}",
        "{a(b:$)}",
        "{a ? b}",
        "{a%00}",
        "query",
        "query Q",
        "query() {a}",
        "query($a) {a}",
        "query($a: [T) {a}",
        "fragment on on T {a}",
        "fragment F {a}",
        "type T { a: Int }",
        "\"description\"",
        "{a} ' or 1=1",
        "fragment F on T {a} fragment F on T {b} {c}",
        "fragment F on T {...F} {...F}",
        "fragment F on T {...G} fragment G on T {a{...F}} {a}",
    ] {
        let body = format!("query={}", text.replace('%', "%25").replace('+', "%2b"));
        let (seen, measures) = read(Processor::UrlEncoded, "", body.as_bytes());
        let shown = format!("a query={}\n", text.as_bytes().escape_ascii());
        if text.is_empty() {
            assert_eq!(seen, shown);
            continue;
        }
        assert!(measures.malformed, "{text}");
        let is_cycle = text.contains("fragment F on");
        assert_eq!(seen.contains(&shown), !is_cycle, "{text}: {seen}");
    }
}

#[test]
fn every_transport_is_read() {
    const OPERATIONS: &str = "--XX\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n\
        {\"query\":\"mutation($f:Upload!){up(f:$f,n:\\\"x\\\")}\",\"variables\":{\"f\":null}}\r\n\
        --XX\r\nContent-Disposition: form-data; name=\"map\"\r\n\r\n{\"0\":[\"variables.f\"]}\r\n\
        --XX\r\nContent-Disposition: form-data; name=\"0\"; filename=\"a\"\r\n\r\nfile\r\n--XX--\r\n";
    let multipart = "multipart/form-data; boundary=XX";
    let rows: [(Processor, &str, &str, &[&str], u64); 11] = [
        (
            Processor::Json,
            "",
            r#"{"query":"{a(b:\"c\")}","operationName":"Q","variables":{"v":"w"}}"#,
            &["a json.operationName=Q", "a json.variables.v=w", "a json.query.a.b=c"],
            1,
        ),
        (
            Processor::Json,
            "",
            r#"[{"query":"{a(b:\"c\")}"},{"QUERY":"{d(e:\"f\")}"},{"id":"3"}]"#,
            &["a json.array_2.id=3", "a json.array_0.query.a.b=c", "a json.array_1.QUERY.d.e=f"],
            3,
        ),
        // Members of that name elsewhere are values.
        (
            Processor::Json,
            "",
            r#"{"variables":{"query":"{a}"}}"#,
            &["a json.variables.query={a}"],
            0,
        ),
        // Repeated: servers differ in which they take.
        (
            Processor::Json,
            "",
            r#"{"query":"{a(b:1)}","query":"{c(d:2)}"}"#,
            &["a json.query.a.b=1", "a json.query.c.d=2"],
            2,
        ),
        (Processor::Json, "", r#"{"query":null}"#, &["a json.query="], 0),
        (
            Processor::Json,
            "",
            r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"ab"}}}"#,
            &[
                "a json.extensions.persistedQuery.version=1",
                "a json.extensions.persistedQuery.sha256Hash=ab",
            ],
            0,
        ),
        (Processor::Text, "text/plain", r#"{"query":"{a(b:1)}"}"#, &["a json.query.a.b=1"], 1),
        (
            Processor::UrlEncoded,
            "",
            "query={a(b:\"c\")}&variables={\"v\":{\"w\":\"x\"}}&operationName=Q&z=1",
            &["a operationName=Q", "a z=1", "a variables.v.w=x", "a query.a.b=c"],
            1,
        ),
        (
            Processor::UrlEncoded,
            "",
            "query={a}&variables={\"v\":",
            &["a variables.v=", "a variables={\\\"v\\\":"],
            1,
        ),
        (
            Processor::Multipart,
            multipart,
            OPERATIONS,
            &[
                "a map={\\\"0\\\":[\\\"variables.f\\\"]}",
                "f 0/a=file",
                "a operations.variables.f=",
                "a operations.query.up.n=x",
            ],
            1,
        ),
        (
            Processor::UrlEncoded,
            "",
            "operations=[{\"query\":\"{a(b:1)}\"},{\"query\":\"{c(d:2)}\"}]",
            &["a operations.array_0.query.a.b=1", "a operations.array_1.query.c.d=2"],
            2,
        ),
    ];
    for (processor, content_type, body, expected, batch) in rows {
        let (seen, measures) = read(processor, content_type, body.as_bytes());
        let seen: Vec<_> = seen.lines().filter(|line| !line.starts_with("h ")).collect();
        assert_eq!(seen, expected, "{body}");
        assert_eq!(measures.batch, batch, "{body}");
        assert_eq!(measures.malformed, body.ends_with("{\"v\":"), "{body}");
    }
}

/// depth, aliases, root fields, cost, directives, introspection
#[track_caller]
fn measured(text: &str, variables: &str, expected: [u64; 6]) {
    let (_, measures) = document(text, variables);
    let Measures { depth, aliases, root_fields, cost, directives, introspection, .. } = measures;
    let seen = [depth, aliases, root_fields, cost, directives, introspection];
    assert_eq!(seen, expected, "{text} {variables}");
    assert!(!measures.malformed, "{text}");
}

#[test]
fn documents_are_measured() {
    measured("{a}", "", [1, 0, 1, 1, 0, 0]);
    measured("{a{b{c}} x:d}", "", [3, 1, 2, 4, 0, 0]);
    measured("{...{a{...on T{b}}}}", "", [2, 0, 1, 2, 0, 0]);
    measured("{a @b @c(d:1) ... @e {f}}", "", [1, 0, 2, 2, 3, 0]);
    measured(
        "{__schema{types{name}} x:__type(name:\"T\"){name} __typename}",
        "",
        [3, 1, 3, 6, 0, 2],
    );
    // Fragments count in the place of each spread, whatever the order.
    measured("fragment F on T{x:b{c}} {a{...F} ...F}", "", [3, 2, 2, 5, 0, 0]);
    measured(
        "{...A} fragment A on T{a{...B}} fragment B on T{b{...C}} fragment C on T{c}",
        "",
        [3, 0, 1, 3, 0, 0],
    );
    measured("{...A ...A} fragment A on T{a ...B} fragment B on T{b ...C}", "", [1, 0, 4, 4, 0, 0]);
    // The largest operation counts: one of them runs.
    measured("query A{a b} query B{c{d{e}}}", "", [3, 0, 2, 3, 0, 0]);
}

#[test]
fn pages_multiply_what_is_within_them() {
    measured("{a(first:10){b(last:5){c}}}", "", [3, 0, 1, 61, 0, 0]);
    measured("{a(first:10,last:20){b}}", "", [2, 0, 1, 21, 0, 0]);
    measured("{a(page:{limit:10}){b}}", "", [2, 0, 1, 11, 0, 0]);
    measured("{a(size:10,first:\"10\",first:1.0){b}}", "", [2, 0, 1, 2, 0, 0]);
    measured("{a(first:0){b}} ", "", [2, 0, 1, 2, 0, 0]);
    measured("{a(first:-9){b}}", "", [2, 0, 1, 2, 0, 0]);
    measured("{a(first:10){...F}} fragment F on T{b(first:10){c}}", "", [3, 0, 1, 111, 0, 0]);
    // Variables, sent or by their default.
    measured("query($n:Int){a(first:$n){b}}", "{\"n\":7}", [2, 0, 1, 8, 0, 0]);
    measured("query($n:Int=5){a(first:$n){b}}", "{\"n\":7}", [2, 0, 1, 8, 0, 0]);
    measured("query($n:Int=5){a(first:$n){b}}", "", [2, 0, 1, 6, 0, 0]);
    measured("fragment F on T{a(first:$n){b}} query($n:Int=5){...F}", "", [2, 0, 1, 6, 0, 0]);
    measured("query($n:Int){a(first:$n){b}}", "", [2, 0, 1, 2, 0, 0]);
    measured("query($n:Int){a(size:$n){b}}", "{\"n\":7}", [2, 0, 1, 2, 0, 0]);
    measured("query($p:P){a(page:$p){b}}", "{\"p\":{\"x\":9,\"first\":7}}", [2, 0, 1, 8, 0, 0]);
    measured("query($p:P={first:6}){a(page:$p){b}}", "", [2, 0, 1, 7, 0, 0]);
    // As servers read numbers.
    measured("query($n:Int){a(first:$n){b}}", "{\"n\":7e1}", [2, 0, 1, 71, 0, 0]);
    let long = format!("{{\"n\":0.{}7e71}}", "0".repeat(69));
    measured("query($n:Int){a(first:$n){b}}", &long, [2, 0, 1, u64::MAX, 0, 0]);
    measured("{a(first:99999999999999999999999){b{c}}}", "", [3, 0, 1, u64::MAX, 0, 0]);
}

#[test]
fn batches_add_up() {
    let body = r#"[{"query":"query($n:Int){x:a(first:$n){b}}","variables":{"n":3}},{"query":"{c{d{e}}}"}]"#;
    let (_, measures) = read(Processor::Json, "", body.as_bytes());
    let Measures { depth, aliases, root_fields, cost, batch, .. } = measures;
    assert_eq!([depth, aliases, root_fields, cost, batch], [3, 1, 2, 7, 2]);
}

/// Measures saturate, and a cycle is as large as can be.
#[test]
fn fragments_do_not_explode() {
    let mut text = String::from("{...F0}");
    for number in 0..100 {
        let next = number + 1;
        text += &format!(" fragment F{number} on T{{a:b{{...F{next}}} ...F{next} ...F{next}}}");
    }
    text += " fragment F100 on T{a}";
    let (_, measures) = document(&text, "");
    assert_eq!((measures.depth, measures.aliases, measures.malformed), (101, u64::MAX, false));
    let (_, measures) = document("{...F} fragment F on T{a{...F}}", "");
    assert!(measures.malformed && measures.depth > 1 << 30 && measures.cost > 1 << 30);
}

/// At each limit, and one above it.
#[test]
fn limits_hold() {
    let nested = |depth: usize| format!("{}a{}", "{a".repeat(depth - 1) + "{", "}".repeat(depth));
    let list = |depth: usize| format!("{{a(b:{}{})}}", "[".repeat(depth), "]".repeat(depth));
    let typed =
        |depth: usize| format!("query($a:{}T{}){{a}}", "[".repeat(depth), "]".repeat(depth));
    for (make, is_measured) in
        [(&nested as &dyn Fn(usize) -> String, true), (&list, false), (&typed, false)]
    {
        let (_, measures) = document(&make(128), "");
        assert!(!measures.malformed);
        assert_eq!(measures.depth, if is_measured { 128 } else { 1 });
        let (seen, measures) = document(&make(129), "");
        assert!(measures.malformed && measures.depth > 1 << 30);
        assert!(seen.starts_with("a json.query="), "{seen}");
    }
    let fields = |tokens: usize| format!("{{{}}}", "a,".repeat(tokens - 2));
    let (_, measures) = document(&fields(100_000), "");
    assert_eq!((measures.tokens, measures.malformed), (100_000, false));
    let (_, measures) = document(&fields(100_001), "");
    assert!(measures.malformed && measures.tokens > 1 << 30);
    // Together.
    let body = format!("[{{\"query\":\"{}\"}},{{\"query\":\"{{a}}\"}}]", fields(99_998));
    assert!(read(Processor::Json, "", body.as_bytes()).1.malformed);
    let body = format!("[{{\"query\":\"{}\"}},{{\"query\":\"{{a}}\"}}]", fields(99_997));
    assert!(!read(Processor::Json, "", body.as_bytes()).1.malformed);
}

/// A full sink is an error, and not more than it may hold is kept back.
#[test]
fn arguments_have_a_limit() {
    let limits = Limits { arguments_max: 2, ..Limits::default() };
    for (body, expected) in [
        ("query={a(b:1,c:2)}", None),
        ("query={a(b:1,c:2,d:3)}", Some(BodyErrorKind::ArgumentsFull)),
        ("query={a(b:1,c:2)&query={", Some(BodyErrorKind::ArgumentsFull)),
    ] {
        let mut sink = Counter { calls_max: 2, ..Counter::default() };
        let mut scratch = BodyScratch::default();
        let mut requests = Requests::new(&limits, Numbers::default(), &mut sink);
        let form = Processor::UrlEncoded;
        process(form, b"", body.as_bytes(), &limits, b'&', &mut scratch, &mut requests);
        assert_eq!(requests.finish(&limits, &mut scratch).1, expected, "{body}");
    }
}

/// A megabyte of each kind of hostility is read to its end, which takes hours where it is not linear, and no more is
/// reported than a small multiple of it.
#[test]
fn hostile_documents_are_linear() {
    const BYTES: usize = 1 << 20;
    let fill = |before: &str, unit: &str, after: &str| {
        let times = (BYTES - before.len() - after.len()) / unit.len();
        format!("{before}{}{after}", unit.repeat(times))
    };
    let long_name = "n".repeat(BYTES / 2);
    for body in [
        fill("{", "a,", "}"),
        fill("{", "{a", "}"),
        fill("{", "...F ", "} fragment F on T{a}"),
        fill("{a(b:\"", "\\u0041", "\")}"),
        fill("{a(b:\"\"\"", " \n", "\"\"\")}"),
        fill("{a(b:\"\"\"", "\\\"\"\"", "\"\"\")}"),
        fill("{a(b:\"\"\"", "\"\" ", "\"\"\")}"),
        fill("{a ", "#\n", "}"),
        fill("{", "fragment F on T{...F}", "}"),
        fill("", "fragment F on T{...F}", ""),
        fill("query(", "$a:T={first:1}", "){a}"),
        fill("{a(", "b:$c,", ")}"),
        fill("{a", "@b", "}"),
        fill("{a(b:", "[", ")}"),
        fill(&format!("{{{long_name}("), "a:1,", ")}"),
    ] {
        let limits = Limits { graphql_tokens_max: usize::MAX, ..Limits::default() };
        let mut sink = Counter { calls_max: 100_000, ..Counter::default() };
        let mut scratch = BodyScratch::default();
        let mut requests = Requests::new(&limits, Numbers::default(), &mut sink);
        requests.document(body.as_bytes());
        requests.finish(&limits, &mut scratch);
        let name: String = body.chars().take(24).collect();
        assert!(sink.bytes <= 8 * BYTES + (2 << 20), "{name}: {} bytes", sink.bytes);
    }
}
