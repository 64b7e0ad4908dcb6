//! Every limit can be seen when it is hit: a row for each field of [`Limits`], with what it is set to, a
//! request that is one too large for it, and what is seen of that: the verdict, the flags by the names
//! that audit records and metrics have, and the variables that rules can look at.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, Lookup, NoFiles, Program, Start, Transaction};

/// A request and its response, as far as limits look at them.
#[derive(Clone, Debug)]
struct Request {
    rules: &'static str,
    query: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: Vec<u8>,
    response: &'static str,
}

/// What is looked at in each row; the rules of the row stand before it.
const SEEN: &str = r#"
    SecRule REQUEST_HEADERS:Content-Type "@contains json" "id:901,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON"
    SecRule REQUEST_HEADERS:Content-Type "@contains protobuf" "id:905,phase:1,pass,nolog,ctl:requestBodyProcessor=PROTOBUF"
    SecRule REQUEST_HEADERS:Content-Type "@contains xml" "id:902,phase:1,pass,nolog,ctl:requestBodyProcessor=XML"
    SecRule RESPONSE_BODY "@contains never" "id:903,phase:4,pass,nolog"
    SecRule REQBODY_ERROR|INBOUND_DATA_ERROR|OUTBOUND_DATA_ERROR|MULTIPART_STRICT_ERROR|MSC_PCRE_ERROR|MSC_PCRE_LIMITS_EXCEEDED|MSC_STEPS_LIMIT_EXCEEDED|GRAPHQL:malformed "@eq 1" "id:904,phase:5,pass,log""#;

struct Nothing;

impl std::fmt::Debug for Nothing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nothing")
    }
}

impl Lookup for Nothing {
    fn geo(&self, _: std::net::IpAddr) -> Option<glacis_engine::Geo> {
        None
    }

    fn rbl(&self, _: &str) -> Option<bool> {
        Some(false)
    }
}

fn run(limits: Limits, request: &Request) -> String {
    let text = format!(
        "SecRuleEngine On\nSecRequestBodyAccess On\nSecResponseBodyAccess On\n{}\n{SEEN}",
        request.rules
    );
    let input = Input::Text { name: "limits.conf".to_owned(), text };
    let program = Program::build(&[input], &NoFiles, limits).unwrap_or_else(|why| panic!("{why}"));
    let mut transaction =
        Transaction::new(Arc::new(program)).with_lookup(Arc::new(Nothing)).with_trace();
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1);
    transaction.start(&Start { unique_id: "limits", time, client: endpoint, server: endpoint });
    let uri = format!("/?{}", request.query);
    transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    for (name, value) in request.headers {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(&request.body);
    transaction.evaluate_request_body();
    transaction.response_line(200, b"HTTP/1.1");
    transaction.response_header(b"Content-Type", b"text/html");
    transaction.evaluate_response_headers();
    transaction.response_body(request.response.as_bytes());
    transaction.evaluate_response_body();
    transaction.finish(time);
    let mut seen: Vec<String> = Vec::new();
    seen.extend(transaction.verdict().refusal().map(|refusal| refusal.status.to_string()));
    seen.extend(transaction.flags().names().map(str::to_owned));
    for rule in transaction.matched_rules().filter(|rule| rule.id.0 == 904) {
        seen.extend(
            rule.matches.iter().map(|found| String::from_utf8_lossy(&found.variable).into_owned()),
        );
    }
    seen.join(" ")
}

const OBSERVED: &str = "SecRuleEngine DetectionOnly";
const FORM: &[(&str, &str)] = &[("Content-Type", "application/x-www-form-urlencoded")];
const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];
const PROTOBUF: &[(&str, &str)] = &[("Content-Type", "application/protobuf")];
const GRAPHQL: &[(&str, &str)] = &[("Content-Type", "application/graphql")];
const XML: &[(&str, &str)] = &[("Content-Type", "text/xml")];
const MULTIPART: &[(&str, &str)] = &[("Content-Type", "multipart/form-data; boundary=XX")];

fn get(rules: &'static str, query: &'static str) -> Request {
    Request { rules, query, headers: &[], body: Vec::new(), response: "" }
}

fn post(headers: &'static [(&'static str, &'static str)], body: &str) -> Request {
    Request { headers, body: body.as_bytes().to_vec(), ..get("", "") }
}

fn graphql(document: &str) -> Request {
    Request { rules: "SecGraphqlPath /", ..post(GRAPHQL, document) }
}

fn file(name: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\nx\r\n")
}

fn gzip(body: &[u8], times: usize) -> Request {
    const ENCODINGS: [&[(&str, &str)]; 3] = [
        FORM,
        &[("Content-Type", FORM[0].1), ("Content-Encoding", "gzip")],
        &[("Content-Type", FORM[0].1), ("Content-Encoding", "gzip, gzip")],
    ];
    let mut body = body.to_vec();
    for _ in 0..times {
        let mut coded = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(&*body, flate2::Compression::best());
        std::io::Read::read_to_end(&mut encoder, &mut coded).unwrap();
        body = coded;
    }
    Request { body, ..post(ENCODINGS[times], "") }
}

/// A row: the field and its value, what just fits, what does not, and what is then seen.
macro_rules! rows {
    ($($field:ident = $value:expr, $fits:expr, $too_large:expr, $seen:literal;)*) => {
        vec![$((
            stringify!($field),
            Limits { $field: $value, ..Limits::default() },
            $fits,
            $too_large,
            $seen,
        )),*]
    };
}

type Row = (&'static str, Limits, Request, Request, &'static str);

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    let upload = |names: &str| {
        let parts: String = names.chars().map(|name| file(&name.to_string())).collect();
        post(MULTIPART, &format!("{parts}--XX--\r\n"))
    };
    let backtrack = "SecRule ARGS \"@rx ^(?!x)(a|aa)+\\1c?$\" \"id:1,phase:1,pass\"";
    let lookups = "SecRule ARGS \"@rbl bl.example\" \"id:1,phase:1,pass\"";
    let members = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,nolog,setvar:'tx.x_%{MATCHED_VAR}=1'\"";
    let collection = "SecAction \"id:1,phase:1,pass,nolog,initcol:ip=x\"\n\
                      SecRule ARGS \"@unconditionalMatch\" \"id:2,phase:1,pass,nolog,setvar:'ip.%{MATCHED_VAR}=123'\"";
    let logged = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,log\"";
    let two_logged = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,log\"\n\
                      SecRule ARGS:b \"@unconditionalMatch\" \"id:2,phase:1,pass,log\"";
    let pattern = "SecRule ARGS \"@rx ^%{ARGS.p}$\" \"id:1,phase:1,pass,nolog\"\n\
                   SecRule ARGS \"@rx ^%{ARGS.q}$\" \"id:2,phase:1,pass,nolog\"";
    let nested = "SecNestedDecoding On";
    let grown = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,nolog,t:hexEncode\"";
    let watched = "SecRule ARGS \"@contains never\" \"id:1,phase:1,pass,nolog\"";
    let expanded = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,nolog,setvar:'tx.x=%{MATCHED_VAR}'\"";
    let steps = "SecRule ARGS \"@unconditionalMatch\" \"id:1,phase:1,pass,nolog\"";
    let part_headers = |line: &str| post(MULTIPART, &format!(
        "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n{line}\r\nx\r\n--XX--\r\n"));
    rows! {
        request_body_bytes_max = 3, post(FORM, "a=1"), post(FORM, "a=12"), "413 request_body INBOUND_DATA_ERROR";
        request_body_no_files_bytes_max = 3, post(FORM, "a=1"), post(FORM, "a=12"), "body_processor REQBODY_ERROR";
        request_body_no_files_bytes_max = 3, Request { rules: OBSERVED, ..post(FORM, "a=1") }, Request { rules: OBSERVED, ..post(FORM, "a=12") }, "request_body body_processor REQBODY_ERROR INBOUND_DATA_ERROR";
        observed_body_bytes_max = 3, Request { rules: OBSERVED, ..post(FORM, "a=1") }, Request { rules: OBSERVED, ..post(FORM, "a=12") }, "request_body INBOUND_DATA_ERROR";
        decoded_ratio_max = 2, gzip(&[b'a'; 65_536], 1), gzip(&[b'a'; 65_537], 1), "request_body body_processor REQBODY_ERROR INBOUND_DATA_ERROR";
        content_codings_max = 1, gzip(b"a=1", 1), gzip(b"a=1", 2), "body_processor REQBODY_ERROR";
        response_body_bytes_max = 3, Request { response: "abc", ..get("", "") }, Request { response: "abcd", ..get("", "") }, "response_body OUTBOUND_DATA_ERROR";
        arguments_max = 1, post(FORM, "a=1"), post(FORM, "a=1&b=2"), "body_processor arguments REQBODY_ERROR";
        arguments_max = 2, Request { query: "q=1", ..post(FORM, "a=1") }, Request { query: "q=1", ..post(FORM, "a=1&b=2") }, "body_processor arguments REQBODY_ERROR";
        query_arguments_max = 1, Request { query: "q=1", ..post(FORM, "a=1&b=2") }, get("", "a=1&b=2"), "400 arguments";
        json_depth_max = 1, post(JSON, "[1]"), post(JSON, "[[1]]"), "body_processor REQBODY_ERROR";
        protobuf_depth_max = 1, post(PROTOBUF, "\x0b\x0c"), post(PROTOBUF, "\x0b\x0b\x0c\x0c"), "body_processor REQBODY_ERROR";
        graphql_depth_max = 1, graphql("{a}"), graphql("{a{b}}"), "GRAPHQL:malformed";
        graphql_tokens_max = 3, graphql("{a}"), graphql("{a b}"), "GRAPHQL:malformed";
        xml_depth_max = 1, post(XML, "<a/>"), post(XML, "<a><b>1</b></a>"), "body_processor REQBODY_ERROR";
        xml_nodes_max = 1, post(XML, "<a>1</a>"), post(XML, "<a>1<b>2</b></a>"), "body_processor REQBODY_ERROR";
        xml_elements_max = 1, post(XML, "<a/>"), post(XML, "<a><b/></a>"), "body_processor REQBODY_ERROR";
        headers_max = 1, post(&[("a", "1")], ""), post(&[("a", "1"), ("b", "2")], ""), "431 headers";
        cookies_max = 1, post(&[("Cookie", "a=1")], ""), post(&[("Cookie", "a=1; b=2")], ""), "431 cookies";
        multipart_parts_max = 1, upload("a"), upload("ab"), "body_processor REQBODY_ERROR MULTIPART_STRICT_ERROR";
        upload_files_max = 1, upload("a"), upload("ab"), "body_processor REQBODY_ERROR MULTIPART_STRICT_ERROR";
        multipart_part_headers_max = 1, part_headers(""), part_headers("X-A: b\r\n"), "body_processor REQBODY_ERROR MULTIPART_STRICT_ERROR";
        nested_bytes_max = 6, get(nested, "a=YWJjZGVm"), get(nested, "a=YWJjZGVm&b=YWJjZGVm"), "values";
        transform_bytes_max = 2, get(grown, "a=1"), get(grown, "a=12"), "values";
        transformed_bytes_max = 2, get(grown, "a=1"), get(grown, "a=12"), "views";
        views_max = 4, get(watched, "a=1"), get(watched, "a&b&c&d&e&f"), "views";
        expansion_bytes_max = 8, get(expanded, "a=12345678"), get(expanded, "a=123456789"), "values";
        tx_members_max = 1, get(members, "a=1"), get(members, "a=1&b=2"), "tx_members";
        collection_members_max = 6, get(collection, "a=1"), get(collection, "a=1&b=2&c=3&d=4&e=5&f=6&g=7"), "collection_members";
        collection_bytes_max = 100, get(collection, "a=1"), get(collection, "a=11111111111111111111&b=22222222222222222222&c=33333333333333333333&d=44444444444444444444&e=5555555555555555555555"), "collection_members";
        matched_vars_max = 1, get(steps, "a=1"), get(steps, "a=1&b=2"), "matches";
        matches_per_rule_max = 1, get(logged, "a=1"), get(logged, "a=1&b=2"), "matches";
        match_value_bytes_max = 2, get(logged, "a=12"), get(logged, "a=123"), "matches";
        matched_rules_max = 1, get(two_logged, "a=1"), get(two_logged, "a=1&b=2"), "matches";
        trace_steps_max = 2, get(logged, "a=1"), get(logged, "a=1&b=2"), "trace";
        trace_bytes_max = 8, get(logged, "a=1"), get(logged, "a=12"), "trace";
        expanded_patterns_max = 1, get(pattern, "p=1&q=1"), get(pattern, "p=1&q=2"), "patterns MSC_PCRE_ERROR";
        expanded_pattern_bytes_max = 16, get(pattern, "p=12345678901234"), get(pattern, "p=123456789012345"), "patterns MSC_PCRE_ERROR";
        lookups_max = 1, get(lookups, "a=1"), get(lookups, "a=1&b=2"), "lookups";
        backtrack_steps_max = 1_000, get(backtrack, "a=aaab"), get(backtrack, "a=aaaaaaaaaaaaaaaaaaab"), "400 patterns MSC_PCRE_LIMITS_EXCEEDED";
        rule_steps_max = 20, get(steps, "a=1&b=2"), get(steps, "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q&r&s&t&u"), "503 rule_steps MSC_STEPS_LIMIT_EXCEEDED";
    }
}

#[test]
fn every_limit_can_be_seen() {
    let mut wrong = Vec::new();
    for (name, limits, fits, too_large, expected) in rows() {
        let seen = [run(limits.clone(), &fits), run(limits, &too_large)];
        if seen != ["", expected] {
            wrong.push(format!("{name}: {seen:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_limit_has_a_row() {
    let debug = format!("{:?}", Limits::default());
    let fields = debug.trim_start_matches("Limits {").trim_end_matches('}').split(',');
    let fields: BTreeSet<String> =
        fields.filter_map(|field| Some(field.split_once(':')?.0.trim().to_owned())).collect();
    let tested: BTreeSet<String> = rows().iter().map(|row| row.0.to_owned()).collect();
    let unseen = BTreeSet::from(["kept_members_max".to_owned()]);
    assert!(tested.is_disjoint(&unseen));
    assert_eq!(tested.union(&unseen).cloned().collect::<BTreeSet<_>>(), fields);
}
