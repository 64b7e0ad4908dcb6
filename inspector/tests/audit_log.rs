//! Audit records as a whole, in both shapes: golden files in `data`, which `UPDATE_EXPECT=1` renews.
//! `docs/reference/audit-log.md` describes them.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests read their data and fail as assertions do"
)]

use core::time::Duration;
use std::{fmt::Write as _, fs, path::Path, sync::Arc};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program};
use glacis_inspector::{
    AuditFormat, Decision, End, Header, Inspector, RequestHead, ResponseHead, ResponseInspection,
    Settings,
};

const RULES: &str = r#"SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecResponseBodyMimeType text/html application/json
SecAuditEngine On
SecComponentSignature "example/1.0"
SecRule REQUEST_HEADERS:content-type "@contains json" "id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON"
SecRule ARGS:note|FILES "@rx ^(at)" "id:7,phase:2,deny,status:406,log,auditlog,capture,msg:'found \"%{TX.1}\"',logdata:'%{MATCHED_VAR_NAME}=%{MATCHED_VAR}',severity:CRITICAL,tag:'a',tag:'b',ver:'example/1.0',rev:2,maturity:7,accuracy:8,setvar:tx.blocking_inbound_anomaly_score=+5"
SecRule RESPONSE_BODY "@contains leak" "id:8,phase:4,pass,log,auditlog,msg:'leak'"
"#;

struct Case {
    name: &'static str,
    rules: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    response: Option<(&'static str, &'static str)>,
}

const ALL: &str = "SecAuditLogParts ABCEFHJKZ";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");
const MULTIPART: (&str, &str) = ("content-type", "multipart/form-data; boundary=XX");
const UPLOAD: &str = concat!(
    "--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nattack\r\n",
    "--XX\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2\r\n",
    "--XX\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"cat.png\"\r\n\r\nhunter2\r\n",
    "--XX--\r\n"
);

const CASES: &[Case] = &[
    Case {
        name: "the parts of default: neither headers nor bodies",
        rules: "",
        path: "/a?note=attack%0a&token=hunter2",
        headers: &[("authorization", "Basic hunter2")],
        body: "",
        response: None,
    },
    Case {
        name: "all parts, a form",
        rules: ALL,
        path: "/a?page=1",
        headers: &[
            FORM,
            ("Authorization", "Basic hunter2"),
            ("Proxy-Authorization", "Basic hunter2"),
            ("Cookie", "sid=hunter2"),
            ("X-Api-Key", "hunter2"),
        ],
        body: "note=attack&user[password]=hunter2&next=%2F%3Ftoken%3Dhunter2",
        response: None,
    },
    Case {
        name: "all parts, JSON both ways",
        rules: ALL,
        path: "/a",
        headers: &[JSON],
        body: r#"{"user":{"name":"x","apiKey":"hunter2"},"n":1}"#,
        response: Some(("application/json", r#"{"leak":true,"access_token":"hunter2"}"#)),
    },
    Case {
        name: "all parts, a response of another type",
        rules: ALL,
        path: "/a",
        headers: &[],
        body: "",
        response: Some(("text/html", "<p>leak hunter2</p>")),
    },
    Case {
        name: "an upload, with its body",
        rules: ALL,
        path: "/upload",
        headers: &[MULTIPART],
        body: UPLOAD,
        response: None,
    },
    Case {
        name: "an upload, without the contents of files",
        rules: "SecAuditLogParts AIJZ",
        path: "/upload",
        headers: &[MULTIPART],
        body: UPLOAD,
        response: None,
    },
    Case {
        name: "detection mode withholds a refusal",
        rules: "SecRuleEngine DetectionOnly",
        path: "/a?note=attack",
        headers: &[],
        body: "",
        response: None,
    },
    Case {
        name: "parts changed by rules",
        rules: "SecAuditLogParts ABZ\nSecAction \"id:9,phase:1,pass,nolog,ctl:auditLogParts=+C,ctl:auditLogParts=-B\"",
        path: "/a",
        headers: &[FORM],
        body: "note=fine",
        response: None,
    },
    Case {
        name: "what rules sanitise",
        rules: "SecAuditLogParts ABCHZ\nSecAction \"id:9,phase:1,pass,nolog,sanitiseArg:note,sanitiseRequestHeader:x-plain\"",
        path: "/a?note=attack-hunter2",
        headers: &[FORM, ("x-plain", "hunter2")],
        body: "note=attack-hunter2&a=b",
        response: None,
    },
];

fn headers<'h>(list: &[(&'h str, &'h str)]) -> Vec<Header<'h>> {
    let header = |(name, value): &(&'h str, &'h str)| Header {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    list.iter().map(header).collect()
}

fn record(case: &Case, format: AuditFormat) -> String {
    let text = format!("{RULES}{}", case.rules);
    let input = Input::Text { name: "test".into(), text };
    let program = Program::build(&[input], &NoFiles, Limits::default());
    let program = Arc::new(program.map_err(|errors| errors.to_string()).unwrap());
    let settings = Settings {
        profile: "shop".into(),
        audit_format: format,
        response: ResponseInspection::Full,
        ..Settings::default()
    };
    let mut inspector = Inspector::new(program, Arc::new(settings));
    let pseudo = [(":method", "POST"), (":path", case.path), (":authority", "example.org")];
    let head = RequestHead {
        headers: &headers(&[&pseudo[..], case.headers].concat()),
        protocol: Some("HTTP/1.1"),
        end_of_stream: case.body.is_empty(),
        id: "request-1",
        time: Duration::from_secs(1_700_000_000),
        source: Some(Endpoint { address: [192, 0, 2, 7].into(), port: 4711 }),
        destination: Some(Endpoint { address: [192, 0, 2, 1].into(), port: 443 }),
        user: None,
        lot: 0,
        audit_lot: 0,
    };
    if inspector.request_headers(&head) == Decision::NeedBody {
        inspector.request_body(case.body.as_bytes(), End::Last);
    }
    if let Some((content_type, body)) = case.response {
        let list =
            [(":status", "200"), ("content-type", content_type), ("set-cookie", "sid=hunter2")];
        let head = ResponseHead { headers: &headers(&list), end_of_stream: false };
        if inspector.response_headers(&head) == Decision::NeedBody {
            inspector.response_body(body.as_bytes(), End::Last);
        }
    }
    let hash = inspector.program().hash().to_owned();
    let record = inspector.finish(Duration::from_secs(1_700_000_001)).audit.unwrap();
    record.replace(&hash, "HASH").replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[track_caller]
fn check(golden: &str, format: AuditFormat) {
    let mut seen = String::new();
    for case in CASES {
        let record = record(case, format);
        assert!(!record.contains("hunter2"), "{}: {record}", case.name);
        let _ = writeln!(seen, "# {}\n{record}", case.name);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(golden);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &seen).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, expected, "{golden}; UPDATE_EXPECT=1 rewrites it");
}

/// Names of members in a record; not those of headers, which are members in one of the shapes.
fn members(record: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = record.split('"').collect();
    let named = |pair: &[&'_ str]| pair[1].starts_with(':') && !pair[0].ends_with('\\');
    let ours = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.contains('-')
    };
    let pairs: Vec<&str> =
        parts.windows(2).filter(|pair| named(pair)).map(|pair| pair[0]).collect();
    pairs.into_iter().filter(ours)
}

#[test]
fn every_field_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/audit-log.md");
    let page = fs::read_to_string(path).unwrap();
    let mut count = 0;
    for format in [AuditFormat::Native, AuditFormat::ModSecurity, AuditFormat::Ocsf] {
        let records: Vec<String> = CASES.iter().map(|case| record(case, format)).collect();
        for name in records.iter().flat_map(|record| members(record)) {
            let named = [format!("`{name}`"), format!(".{name}`")];
            assert!(named.iter().any(|named| page.contains(named)), "{name}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn our_own_shape() {
    check("native.txt", AuditFormat::Native);
}

#[test]
fn the_events_of_ocsf() {
    check("ocsf.txt", AuditFormat::Ocsf);
}

/// What the schema of version 1.7.0 asks of the class HTTP Activity: attributes that are required, numbers
/// that are of an enumeration, and of which attributes there has to be one.
#[test]
fn what_ocsf_requires_is_there() {
    const REQUIRED: &[(&str, &str)] = &[
        ("/activity_id", "number"),
        ("/category_uid", "4"),
        ("/class_uid", "4002"),
        ("/metadata/product/name", "string"),
        ("/metadata/version", "\"1.7.0\""),
        ("/severity_id", "number"),
        ("/time", "1700000000000"),
        ("/type_uid", "number"),
        // One of the two endpoints, each with an address; of request and response; of path and whole URL.
        ("/src_endpoint/ip", "string"),
        ("/http_request/url/path", "string"),
        // Of the policy and the rule a name or an id.
        ("/policy/name", "string"),
    ];
    const ENUMERATIONS: &[(&str, &[i64])] = &[
        ("/activity_id", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]),
        ("/severity_id", &[0, 1, 2, 3, 4, 5, 6, 99]),
        ("/action_id", &[0, 1, 2, 3, 4, 99]),
        ("/disposition_id", &[0, 1, 2, 6, 15]),
    ];
    for case in CASES {
        let record = record(case, AuditFormat::Ocsf);
        let event: serde_json::Value = serde_json::from_str(&record).unwrap();
        let at = |path: &str| event.pointer(path).cloned().unwrap_or_default();
        for (path, expected) in REQUIRED {
            let found = at(path);
            let good = match *expected {
                "number" => found.is_i64(),
                "string" => found.as_str().is_some_and(|text| !text.is_empty()),
                value => found == serde_json::from_str::<serde_json::Value>(value).unwrap(),
            };
            assert!(good, "{}: {path} is {found}", case.name);
        }
        for (path, known) in ENUMERATIONS {
            let found = at(path).as_i64().unwrap();
            assert!(known.contains(&found), "{}: {path} is {found}", case.name);
        }
        let number = |path| at(path).as_i64().unwrap();
        assert_eq!(number("/type_uid"), number("/class_uid") * 100 + number("/activity_id"));
        if let Some(response) = event.get("http_response") {
            assert!(response["code"].is_i64(), "{}", case.name);
        }
        if let Some(rule) = event.get("firewall_rule") {
            assert!(rule["uid"].is_string(), "{}", case.name);
        }
        for message in ["http_request", "http_response"] {
            for header in at(&format!("/{message}/http_headers")).as_array().into_iter().flatten() {
                assert!(header["name"].is_string() && header["value"].is_string());
            }
        }
    }
}

#[test]
fn the_shape_of_modsecurity() {
    check("modsecurity.txt", AuditFormat::ModSecurity);
}
