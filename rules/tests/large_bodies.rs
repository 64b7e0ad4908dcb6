//! Bodies of 1 to 12 MB with the base configuration and CRS: benign ones pass in every format, and an attack is blocked
//! wherever it is in them.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Limits, Program, Start, Transaction};
use glacis_rules::{Assembly, CrsSettings, Defaults, ExclusionRules, RecordingSource};

/// More than the first MiB, of which nothing beyond was once inspected.
const BYTES: usize = 2_000_000;

/// `SecRequestBodyLimit` and `SecRequestBodyNoFilesLimit` of the base configuration.
const BYTES_MAX: usize = 13_107_200;

const ATTACK: &str = "1' UNION SELECT password FROM users -- ";

const TEXT: &str = "Later that year many letters arrived at home with greetings of friends. ";

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=XX";

fn program(directives: &str) -> Arc<Program> {
    program_with("", directives)
}

fn program_with(setup: &str, directives: &str) -> Arc<Program> {
    let crs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let source = RecordingSource::default();
    let assembly = Assembly {
        base: true,
        crs: Some(&crs),
        defaults: Defaults::Glacis,
        setup,
        settings: CrsSettings::default(),
        graphql: "",
        openapi: "",
        exclusions: &ExclusionRules::default(),
        files: &[],
        directives,
        limits: "",
    };
    let found = assembly.assemble(&source);
    let found = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    Arc::new(Program::build(&found.inputs, &source, Limits::default()).unwrap())
}

/// The status that a POST is refused with, 0 where it passes; and the limits that were reached.
fn judge(
    program: &Arc<Program>,
    content_type: &str,
    body: &[u8],
) -> (u16, Vec<&'static str>, Vec<u64>) {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", b"/notes", b"HTTP/1.1");
    let length = body.len().to_string();
    for (name, value) in [
        ("Host", "shop.example"),
        ("User-Agent", "Mozilla/5.0"),
        ("Accept", "*/*"),
        ("Content-Type", content_type),
        ("Content-Length", &length),
    ] {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    let status = transaction.verdict().refusal().map_or(0, |refusal| refusal.status);
    let rules =
        transaction.matched_rules().filter(|rule| rule.log).map(|rule| u64::from(rule.id.0));
    (status, transaction.flags().names().collect(), rules.collect())
}

/// A text of so many bytes, with `attack` at so many hundredths of it.
fn text(bytes: usize, attack: Option<usize>) -> String {
    let mut text = TEXT.repeat(bytes / TEXT.len());
    if let Some(percent) = attack {
        text.insert_str(text.len() * percent / 100, ATTACK);
    }
    text
}

/// What a body is made of, by the text in it.
type Format = (&'static str, &'static str, fn(&str) -> String);

const FORMATS: &[Format] = &[
    ("form", FORM, |text| format!("id=1&text={}", text.replace(' ', "+"))),
    ("fields of a form", FORM, |text| {
        let fields = text.as_bytes().chunks(BYTES / 400).enumerate();
        let field = |(at, part): (usize, &[u8])| {
            format!("f{at}={}", String::from_utf8_lossy(part).replace(' ', "+"))
        };
        fields.map(field).collect::<Vec<_>>().join("&")
    }),
    ("field", MULTIPART, |text| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{text}\r\n--XX--\r\n")
    }),
    ("JSON", "application/json", |text| format!("{{\"id\":1,\"text\":\"{text}\"}}")),
    ("list of JSON", "application/json", |text| {
        let parts = text.as_bytes().chunks(BYTES / 400).map(String::from_utf8_lossy);
        format!("[\"{}\"]", parts.collect::<Vec<_>>().join("\",\""))
    }),
    ("many fields of a form", FORM, |text| {
        let fields = text.as_bytes().chunks(60).enumerate();
        let field = |(at, part): (usize, &[u8])| {
            format!("f{at}={}", String::from_utf8_lossy(part).replace(' ', "+"))
        };
        fields.map(field).collect::<Vec<_>>().join("&")
    }),
    ("records of JSON", "application/json", |text| {
        let records = text.as_bytes().chunks(60).enumerate();
        let record = |(at, part): (usize, &[u8])| {
            let text = String::from_utf8_lossy(part);
            format!("{{\"id\":{at},\"text\":\"{text}\",\"is_new\":true,\"note\":\"\"}}")
        };
        format!("[{}]", records.map(record).collect::<Vec<_>>().join(","))
    }),
    ("records of XML", "text/xml", |text| {
        let records = text.as_bytes().chunks(60).enumerate();
        let record = |(at, part): (usize, &[u8])| {
            format!("<r id=\"{at}\"><t>{}</t></r>", String::from_utf8_lossy(part))
        };
        format!("<a>{}</a>", records.map(record).collect::<String>())
    }),
    ("XML", "text/xml", |text| format!("<a><b>{text}</b></a>")),
    ("attribute", "application/xml", |text| format!("<a b=\"{text}\"/>")),
    ("plain text", "text/plain", str::to_owned),
    ("bytes", "application/octet-stream", str::to_owned),
    ("CSV", "text/csv", |text| text.replace(". ", ".\n")),
];

#[test]
fn benign_bodies_pass_and_attacks_do_not() {
    let program = program("");
    for &(name, content_type, make) in FORMATS {
        let benign = judge(&program, content_type, make(&text(BYTES, None)).as_bytes());
        assert_eq!(benign, (0, Vec::new(), Vec::new()), "{name}");
        for percent in [0, 50, 100] {
            let body = make(&text(BYTES, Some(percent)));
            let (status, ..) = judge(&program, content_type, body.as_bytes());
            assert_eq!(status, 403, "{name}, at {percent} %");
        }
    }
}

/// At the limit a body is inspected in full, and one byte more is refused.
#[test]
fn the_largest_body() {
    let program = program("");
    let body = |bytes: usize, attack: &str| {
        let around = "{\"text\":\"\",\"last\":\"\"}".len() + attack.len();
        let text = "a ".repeat((bytes - around) / 2) + &"a".repeat((bytes - around) % 2);
        format!("{{\"text\":\"{text}\",\"last\":\"{attack}\"}}")
    };
    let status = |body: String| judge(&program, "application/json", body.as_bytes()).0;
    assert_eq!(status(body(BYTES_MAX, "")), 0);
    assert_eq!(status(body(BYTES_MAX, ATTACK)), 403);
    assert_eq!(status(body(BYTES_MAX + 1, "")), 413);
}

/// Files are not text that the application parses: CRS looks at their names.
#[test]
fn content_of_files_is_not_inspected() {
    let body = format!(
        "--XX\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.txt\"\r\n\r\n{}\r\n--XX--\r\n",
        text(BYTES, Some(50)),
    );
    assert_eq!(judge(&program(""), MULTIPART, body.as_bytes()).0, 0);
}

/// A limit without files that is lower than that of bodies is still one.
#[test]
fn a_lower_limit_without_files() {
    let program = program("SecRequestBodyNoFilesLimit 1048576");
    let body = |bytes: usize| format!("a={}", "b".repeat(bytes - 2));
    assert_eq!(judge(&program, FORM, body(1_048_576).as_bytes()).0, 0);
    let (status, limits, rules) = judge(&program, FORM, body(1_048_577).as_bytes());
    assert_eq!((status, limits, rules), (400, vec!["body_processor"], vec![100_010]));
}

/// Where rules look on, the first MiB is inspected: no verdict depends on the rest.
#[test]
fn where_rules_look_on() {
    let program = program("SecRuleEngine DetectionOnly");
    let body = |percent| format!("{{\"text\":\"{}\"}}", text(BYTES, Some(percent)));
    let rules = |percent| judge(&program, "application/json", body(percent).as_bytes());
    let (status, limits, found) = rules(0);
    assert!(status == 0 && limits.contains(&"request_body"), "{status}, {limits:?}");
    assert!(found.contains(&942_100), "{found:?}");
    let (status, limits, found) = rules(100);
    assert_eq!((status, limits, found), (0, vec!["request_body"], vec![]));
}

/// What rules look for, each with few signs: most rules are left out for those that are missing in a long value.
const PAYLOADS: &[&str] = &[
    "union select password",
    "' or 'a'='a",
    "/etc/passwd",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "<img src=x onerror=y>",
    "javascript:x",
    "${jndi:ldap://x/a}",
    "system('id');",
    "; cat /bin/sh",
    "|| ping -c 1 x",
    "exec xp_cmdshell",
    "<?php phpinfo();",
    "$(id)",
    "sleep(5)",
    "admin'--",
    "1;drop table users",
    "%3cscript%3e",
    "&#x3c;script&#x3e;",
    "\\u003cscript\\u003e",
    "{{7*7}}",
    "O:8:\"stdClass\":0:{}",
    "java.lang.Runtime",
    "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "http://169.254.169.254/latest/meta-data",
    "\r\nSet-Cookie: a=b",
    "*)(uid=*))(|(uid=*",
];

/// A payload with `separator` between its characters, all of it escaped.
fn separated(payload: &str, separator: &str) -> String {
    let bytes = payload.bytes().map(|byte| format!("%{byte:02x}"));
    bytes.collect::<Vec<_>>().join(separator)
}

/// The rules of paranoia level 4, where they look on.
fn with_and_without_gates() -> (Arc<Program>, Arc<Program>) {
    let setup =
        "SecAction \"id:900000,phase:1,pass,t:none,nolog,setvar:tx.blocking_paranoia_level=4\"";
    let fast = program_with(setup, "SecRuleEngine DetectionOnly");
    let slow = program_with(setup, "SecRuleEngine DetectionOnly");
    let slow = Arc::new(Arc::into_inner(slow).unwrap().without_gates());
    (fast, slow)
}

/// The law of the fast path, for values of which it knows which signs are missing, what they are without separators and
/// which groups of patterns match: the same rules match without it.
#[test]
fn long_values_are_judged_as_without_gates() {
    let (fast, slow) = with_and_without_gates();
    let mut matched = 0;
    for payload in PAYLOADS {
        for (padding, separator) in [
            ("a", ""),
            ("a+", ""),
            ("9Zz%2F", ""),
            ("and+or+the+%22word%22%2C+", ""),
            ("on+its+way%0A", "+"),
            ("a+", "%22"),
            ("b;", "%5e"),
            ("x+y%2C", "%0a%09"),
            ("%C3%A4+%20", "%c2%a0"),
        ] {
            let (payload, padding) = (separated(payload, separator), padding.repeat(1_500));
            let body = format!("v={padding}{payload}{padding}");
            let (_, _, rules) = judge(&fast, FORM, body.as_bytes());
            assert_eq!(judge(&slow, FORM, body.as_bytes()).2, rules, "{payload:?}");
            matched += rules.len();
        }
    }
    assert!(matched > 900, "{matched}");
}

/// The law of the fast path for members of large collections, of which nothing is kept where no gate names a rule: the
/// same rules match without gates, wherever a payload is, as a name or as a value.
#[test]
fn many_members_are_judged_as_without_gates() {
    let (fast, slow) = with_and_without_gates();
    let mut matched = 0;
    for (at, payload) in PAYLOADS.iter().enumerate() {
        let payload = separated(payload, ["", "", "%22", "+", "%0a"][at % 5]);
        let fillers = ["some+words", "", "7", "it%27s", "a=b", "%C3%A4"];
        let filler = fillers[at % fillers.len()];
        let before: String = (0..1_100).map(|at| format!("n{at}={filler}&")).collect();
        let after: String = (0..300).map(|at| format!("&m{at}={filler}{at}")).collect();
        for pair in [format!("v={payload}"), format!("{payload}=v")] {
            let body = format!("{before}{pair}{after}");
            let (_, _, rules) = judge(&fast, FORM, body.as_bytes());
            assert_eq!(judge(&slow, FORM, body.as_bytes()).2, rules, "{payload:?}");
            matched += rules.len();
        }
        let text: String = PAYLOADS[at].bytes().map(|byte| format!("\\u00{byte:02x}")).collect();
        let items = vec![format!("{{\"a\":\"{}\",\"b\":1}}", fillers[at % 3]); 700].join(",");
        let body = format!("[{items},{{\"c\":\"{text}\"}},{{\"{text}\":\"d\"}},{items}]");
        let (_, _, rules) = judge(&fast, "application/json", body.as_bytes());
        assert_eq!(judge(&slow, "application/json", body.as_bytes()).2, rules, "{payload:?}");
        matched += rules.len();
    }
    assert!(matched > 400, "{matched}");
}
