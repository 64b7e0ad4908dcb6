//! CRS with the defaults of Glacis and with its own: what browsers, telemetry and APIs send passes, attacks in it do not,
//! and `crs` changes nothing.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]
#![allow(clippy::disallowed_methods, reason = "the test reads a document")]

use std::{fs, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Limits, Program, Start, Transaction};
use glacis_rules::{Assembly, CrsSettings, Defaults, ExclusionRules, RecordingSource};

fn program(defaults: Defaults, setup: &str) -> Arc<Program> {
    let crs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let source = RecordingSource::default();
    let assembly = Assembly {
        base: true,
        crs: Some(&crs),
        defaults,
        setup,
        settings: CrsSettings::default(),
        exclusions: &ExclusionRules::default(),
        files: &[],
        directives: "",
        limits: "",
    };
    let found = assembly.assemble(&source);
    let found = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    Arc::new(Program::build(&found.inputs, &source, Limits::default()).unwrap())
}

/// A request: method, further header fields, body.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [u8]);

fn is_blocked(program: &Arc<Program>, uri: &str, &(method, fields, body): &Row<'_>) -> bool {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(method.as_bytes(), uri.as_bytes(), b"HTTP/1.1");
    let length = body.len().to_string();
    let usual = [("Host", "shop.example"), ("User-Agent", "Mozilla/5.0"), ("Accept", "*/*")];
    let length = [("Content-Length", length.as_str())];
    for (name, value) in usual.iter().chain(&length[..usize::from(!body.is_empty())]).chain(fields)
    {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    transaction.verdict().refusal().is_some()
}

/// What CRS refuses by its own defaults, and what is ordinary today.
const ORDINARY: &[Row<'_>] = &[
    ("PUT", &[("Content-Type", "application/json")], b"{\"name\":\"Anna\"}"),
    ("PATCH", &[("Content-Type", "application/merge-patch+json")], b"{\"name\":null}"),
    ("DELETE", &[], b""),
    ("POST", &[("Content-Type", "text/plain;charset=UTF-8")], b"{\"event\":\"view\",\"ms\":12}"),
    ("POST", &[("Content-Type", "text/plain")], b"hello"),
    ("POST", &[("Content-Type", "text/ping")], b"PING"),
    ("POST", &[("Content-Type", "application/csp-report")], b"{\"csp-report\":{\"line\":1}}"),
    ("POST", &[("Content-Type", "application/reports+json")], b"[{\"type\":\"crash\",\"age\":1}]"),
    ("POST", &[("Content-Type", "application/x-ndjson")], b"{\"a\":1}\n{\"a\":2}\n"),
    ("POST", &[("Content-Type", "application/x-amz-json-1.1")], b"{\"StreamName\":\"clicks\"}"),
    ("POST", &[("Content-Type", "application/vnd.api+json; charset=utf-8")], b"{\"data\":[]}"),
    ("POST", &[("Content-Type", "application/x-protobuf")], b"\x0a\x03abc\x10\x01"),
    ("POST", &[("Content-Type", "application/octet-stream")], b"{\"a\":1}"),
    ("POST", &[("Content-Type", "application/json;charset=utf8")], b"{\"a\":1}"),
    ("POST", &[("Content-Type", "image/png")], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    ("POST", &[("Content-Type", "application/json"), ("Expect", "100-continue")], b"{\"a\":1}"),
];

#[test]
fn ordinary_requests_pass() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    for row in ORDINARY {
        assert!(!is_blocked(&ours, "/api/items", row), "{row:?}");
        assert!(is_blocked(&plain, "/api/items", row), "CRS by itself: {row:?}");
    }
    let link = "/p?sessionid=42&x=1";
    let referer = [("Referer", "https://news.example/")];
    assert!(!is_blocked(&ours, link, &("GET", &referer, b"")));
    assert!(is_blocked(&plain, link, &("GET", &referer, b"")));
}

/// What may carry text is read: the same attack is refused in each type.
#[test]
fn attacks_in_these_types_are_refused() {
    const SQL: &str = "1' UNION SELECT login, password FROM users-- -";
    const XSS: &str = "<script>alert(document.cookie)</script>";
    let ours = program(Defaults::Glacis, "");
    for attack in [SQL, XSS] {
        let json = format!("{{\"a\":\"{attack}\"}}");
        let lines = format!("{{\"b\":1}}\n{json}\n");
        let form = format!("a={}", attack.replace(' ', "+"));
        for (media_type, body) in [
            ("application/csp-report", &json),
            ("application/reports+json", &json),
            ("application/vnd.api+json", &json),
            ("application/x-amz-json-1.0", &json),
            ("application/x-ndjson", &lines),
            ("application/json-seq", &lines),
            ("text/plain", &json),
            ("text/plain;charset=UTF-8", &form),
            ("text/plain", &attack.to_owned()),
            ("application/octet-stream", &json),
            ("application/graphql", &json),
        ] {
            let fields = [("Content-Type", media_type)];
            let row: Row<'_> = ("POST", &fields, body.as_bytes());
            assert!(is_blocked(&ours, "/api/items", &row), "{media_type}: {body}");
        }
        for body in [&json, &form, &attack.to_owned()] {
            assert!(is_blocked(&ours, "/", &("POST", &[], body.as_bytes())), "no type: {body}");
        }
    }
}

/// What CRS is right to refuse stays so, and so does what `crs-setup.conf` sets.
#[test]
fn the_rest_is_refused() {
    let ours = program(Defaults::Glacis, "");
    for row in [
        ("TRACE", &[][..], &b""[..]),
        ("POST", &[("Content-Type", "application/x-java-serialized-object")], b"x"),
        ("POST", &[("Content-Type", "application/json;charset=utf-7")], b"{}"),
        ("POST", &[("Content-Type", "application/ujson")], b"{}"),
        ("GET", &[("Proxy", "a")], b""),
        ("GET", &[("X-HTTP-Method-Override", "DELETE")], b""),
        // JSON of a type that says so has to be JSON.
        ("POST", &[("Content-Type", "application/x-ndjson")], b"{\"a\":1}\n{b"),
    ] {
        assert!(is_blocked(&ours, "/", &row), "{row:?}");
    }
    let setup = "SecAction \"id:900200,phase:1,pass,nolog,setvar:'tx.allowed_methods=GET'\"\n\
         SecAction \"id:900220,phase:1,pass,nolog,\
         setvar:'tx.allowed_request_content_type=|application/json|'\"";
    let own = program(Defaults::Glacis, setup);
    for row in [
        ("DELETE", &[][..], &b""[..]),
        ("POST", &[("Content-Type", "text/plain")], b"hello"),
        ("GET", &[("Content-Type", "application/vnd.api+json")], b"{}"),
    ] {
        assert!(is_blocked(&own, "/", &row), "{row:?}");
    }
}

/// The document has a row for each rule.
#[test]
fn the_reference_names_every_rule() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let rules = fs::read_to_string(root.join("base/defaults.conf")).unwrap();
    let reference = fs::read_to_string(root.join("../docs/reference/defaults.md")).unwrap();
    let ids = rules.split("id:").skip(1).map(|rest| &rest[..6]);
    let removed = rules.lines().filter_map(|line| line.strip_prefix("SecRuleRemoveById "));
    let mut rows = 0;
    for id in ids.chain(removed.flat_map(str::split_whitespace)) {
        assert!(reference.contains(&format!("| {id}")), "{id} is not in the reference");
        rows += 1;
    }
    assert!(rows > 9);
}
