//! What the base configuration does to requests.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, RuleEngine, Start, Transaction};

/// `{"a":["attack"]}`.
const GZIP: &[u8] =
    b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xabVJT\xb2\x8aVJ,)IL\xceV\x8a\xad\x05\x004x\xcc\xf5\x10\0\0\0";

const MULTIPART: &str = "multipart/form-data; boundary=x";

/// The base configuration between rules that say what a body was understood as.
fn program() -> Program {
    program_in("On")
}

fn program_in(mode: &str) -> Program {
    let text = |text: &str| Input::Text { name: "probe.conf".to_owned(), text: text.to_owned() };
    let before = text(
        r#"SecRule REQBODY_PROCESSOR "@rx (.+)" "id:1,phase:2,pass,log,capture,msg:'%{TX.1}'""#,
    );
    let after = text(&format!(
        r#"
            SecRuleEngine {mode}
            SecRule ARGS "@contains attack" "id:2,phase:2,deny,status:403,log,msg:'attack'"
            SecRule XML:/* "@contains attack" "id:3,phase:2,deny,status:403,log,msg:'attack'"
        "#,
    ));
    let inputs = [before, glacis_rules::base(), after];
    Program::build(&inputs, &NoFiles, Limits::default()).unwrap()
}

/// What `media_type` may carry behind it is a content coding: `text/xml in gzip`.
///
/// The ids of the rules that matched and log, what body processor there was, and the status.
fn outcome(
    program: &Arc<Program>,
    uri: &str,
    media_type: &str,
    body: &[u8],
) -> (Vec<u32>, String, u16) {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::ZERO;
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    let (media_type, coding) = media_type.split_once(" in ").unwrap_or((media_type, ""));
    transaction.request_header(b"Content-Type", media_type.as_bytes());
    transaction.request_header(b"Content-Encoding", coding.as_bytes());
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    transaction.finish(time);
    let status = transaction.verdict().refusal().map_or(200, |refusal| refusal.status);
    let processor = transaction.matched_rules().find(|rule| rule.id.0 == 1);
    let processor = processor.map(|rule| rule.msg.into_owned()).unwrap_or_default();
    let ids = transaction.matched_rules().map(|rule| rule.id.0).filter(|&id| id != 1).collect();
    (ids, processor, status)
}

#[test]
fn it_builds_without_a_warning_and_blocks() {
    let program = program();
    assert_eq!(program.warnings(), &[] as &[String]);
    assert_eq!(program.rule_engine(), RuleEngine::On);
    assert!(program.inspects_request_body());
    assert!(!program.inspects_response_body());
}

type Field = (&'static str, &'static [u8]);

/// Query strings: a byte beyond ASCII within an escape is blocked, because a server that drops it reads another escape.
#[test]
fn bytes_within_escapes() {
    let program = Arc::new(program());
    for (uri, status) in [
        (&b"/?q=%27\xff27"[..], 200),
        (b"/?q=\xc3\xa9", 200),
        (b"/?q=100%", 200),
        (b"/?q=%\xff27", 400),
        (b"/?q=%2\xc37", 400),
    ] {
        let mut transaction = Transaction::new(Arc::clone(&program));
        let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
        let time = Duration::ZERO;
        transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
        transaction.request_line(b"GET", uri, b"HTTP/1.1");
        transaction.request_header(b"Host", b"shop.example");
        transaction.evaluate_request_headers();
        let found = transaction.verdict().refusal().map_or(200, |refusal| refusal.status);
        assert_eq!(found, status, "{}", uri.escape_ascii());
    }
}

/// Header fields, and the rules that match; each refuses with 400.
#[test]
fn heads() {
    let program = Arc::new(program());
    let table: &[(&[Field], &[u32])] = &[
        (&[("Host", b"shop.example"), ("X-A", b"b c\td")], &[]),
        (&[("Host", b"shop.example:8443")], &[]),
        (&[("Host", b"xn--bcher-kva.example.")], &[]),
        (&[("Host", b"192.0.2.1")], &[]),
        (&[("Host", b"[2001:db8::1]:8080")], &[]),
        (&[("Host", b"my_service.shop.svc.cluster.local")], &[]),
        (&[("Host", b"")], &[]),
        (&[("X-A", b"a,b, c")], &[]),
        (&[("Host", b"shop.example,other.example")], &[100016]),
        (&[("Host", b"shop.example, other.example")], &[100016]),
        (&[("Host", b"shop.example other.example")], &[100016]),
        (&[("Host", b"shop.example/a")], &[100016]),
        (&[("Host", b"shop.example#a")], &[100016]),
        (&[("Host", b"shop.example?a")], &[100016]),
        (&[("Host", b"other@shop.example")], &[100016]),
        (&[("Host", b"shop.example\\a")], &[100016]),
        (&[("Host", b"shop.example"), ("host", b"other.example")], &[100017]),
    ];
    for (fields, expected) in table {
        let mut transaction = Transaction::new(Arc::clone(&program));
        let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
        let time = Duration::ZERO;
        transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
        transaction.request_line(b"GET", b"/", b"HTTP/1.1");
        for (name, value) in *fields {
            transaction.request_header(name.as_bytes(), value);
        }
        transaction.evaluate_request_headers();
        transaction.finish(time);
        let ids: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
        let status = transaction.verdict().refusal().map_or(200, |refusal| refusal.status);
        let wanted = if expected.is_empty() { 200 } else { 400 };
        assert_eq!((&*ids, status), (*expected, wanted), "{fields:?}");
    }
}

/// Content type, body, and what comes of it: ids, body processor, status.
type Row<'a> = (&'a str, &'a [u8], &'a [u32], &'a str, u16);

#[test]
fn bodies() {
    let program = Arc::new(program());
    let many = |count: usize| (0..count).map(|n| format!("a{n}=1&")).collect::<String>();
    let table: &[Row<'_>] = &[
        ("application/x-www-form-urlencoded", b"a=1", &[], "URLENCODED", 200),
        ("application/x-www-form-urlencoded", b"a=attack", &[2], "URLENCODED", 403),
        ("application/json", br#"{"a":"attack"}"#, &[2], "JSON", 403),
        ("Application/JSON; charset=utf-8", br#"{"a":1}"#, &[], "JSON", 200),
        ("application/problem+json", br#"{"a":"attack"}"#, &[2], "JSON", 403),
        ("application/jsonish", br#"{"a":"attack"}"#, &[], "", 200),
        ("application/json", br#"{"a":"#, &[100_010], "JSON", 400),
        ("application/xml", b"<a>attack</a>", &[3], "XML", 403),
        ("text/xml", b"<a>1</a>", &[], "XML", 200),
        ("application/soap+xml", b"<a>attack</a>", &[3], "XML", 403),
        ("application/xml", b"<a>", &[100_010], "XML", 400),
        (
            MULTIPART,
            b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nattack\r\n--x--\r\n",
            &[2],
            "MULTIPART",
            403,
        ),
        ("application/json in gzip", GZIP, &[2], "JSON", 403),
        ("application/json in br", GZIP, &[100_010], "JSON", 400),
        ("application/json in zstd", b"{}", &[100_010], "JSON", 400),
        ("application/json in compress", b"{}", &[100_015], "JSON", 415),
        ("application/json in gzip, gzip, gzip", GZIP, &[100_015], "JSON", 415),
        (
            MULTIPART,
            b"--x\nContent-Disposition: form-data; name=\"a\"\n\n1\n--x--\n",
            &[100_011],
            "MULTIPART",
            400,
        ),
        (
            MULTIPART,
            b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--xy\r\n2\r\n--x--\r\n",
            &[100_010],
            "MULTIPART",
            400,
        ),
    ];
    for (media_type, body, ids, processor, status) in table {
        let expected = (ids.to_vec(), (*processor).to_owned(), *status);
        let text = String::from_utf8_lossy(body);
        assert_eq!(outcome(&program, "/", media_type, body), expected, "{media_type}: {text}");
    }
    let form = "application/x-www-form-urlencoded";
    assert_eq!(outcome(&program, "/", form, many(999).as_bytes()).2, 200);
    assert_eq!(outcome(&program, &format!("/?{}", many(999)), form, b"").2, 200);
    let (ids, _, status) = outcome(&program, &format!("/?{}", many(1000)), form, b"");
    assert_eq!((ids, status), (vec![100_012], 400));
    assert_eq!(outcome(&program, "/", form, many(1_000_000).as_bytes()).2, 200);
    let (ids, _, status) = outcome(&program, "/", form, many(1_000_001).as_bytes());
    assert_eq!((ids, status), (vec![100_010], 400));
}

/// What looks like a boundary is reported beside the error that such a body has anyway.
#[test]
fn unmatched_boundaries() {
    let body = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--y\r\n";
    let program = Arc::new(program_in("DetectionOnly"));
    let (ids, _, status) = outcome(&program, "/", MULTIPART, body);
    assert_eq!((ids, status), (vec![100_010, 100_011, 100_013], 200));
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let body = vec![b'a'; 13_107_201];
    let program = Arc::new(program());
    assert_eq!(outcome(&program, "/", "application/octet-stream", &body).2, 413);
    assert_eq!(outcome(&program, "/", "application/octet-stream", &body[1..]).2, 200);
}
