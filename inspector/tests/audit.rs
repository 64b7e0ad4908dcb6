//! Audit records: when there is one, what it says, and what it must not say.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{CollectionStore, Input, Limits, MemoryStore, NoFiles, Program};
use glacis_inspector::{
    AuditFormat, BodyOverflow, Decision, End, Header, Inspector, Redaction, Rejection, RequestHead,
    Sample, Settings,
};

const JSON: (&str, &str) = ("content-type", "application/json");
const MULTIPART: (&str, &str) = ("content-type", "multipart/form-data; boundary=XX");
const PARTS: &str =
    "--XX\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2\r\n--XX--\r\n";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// As the base configuration chooses them.
const PROCESSORS: &str = "SecRule REQUEST_HEADERS:content-type \"@contains json\" \
    \"id:90001,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON\"\n";

fn inspector(rules: &str, settings: Settings) -> Inspector {
    let text = format!(
        "SecRuleEngine On\nSecRequestBodyAccess On\n{PROCESSORS}SecAuditLogParts AHZ\n{rules}"
    );
    let input = Input::Text { name: "test".into(), text };
    let program = Program::build(&[input], &NoFiles, Limits::default()).map_err(|e| e.to_string());
    Inspector::new(Arc::new(program.unwrap()), Arc::new(settings))
}

/// Begins a request.
fn begin(
    inspector: &mut Inspector,
    path: &str,
    headers: &[(&str, &str)],
    end_of_stream: bool,
) -> Decision {
    let pseudo = [(":method", "POST"), (":path", path), (":authority", "example.org")];
    let headers: Vec<_> = pseudo
        .iter()
        .chain(headers)
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    inspector.request_headers(&RequestHead {
        headers: &headers,
        protocol: Some("HTTP/1.1"),
        end_of_stream,
        id: "request-1",
        time: Duration::from_secs(1_700_000_000),
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    })
}

/// The record of a request, if there is one.
fn record(
    inspector: &mut Inspector,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<String> {
    if begin(inspector, path, headers, body.is_empty()) == Decision::NeedBody {
        inspector.request_body(body.as_bytes(), End::Last);
    }
    inspector.finish(Duration::from_secs(1_700_000_001)).audit
}

#[test]
fn what_is_due() {
    const RULE: &str = "SecRule ARGS:q \"@streq attack\" \"id:1,phase:2,log,auditlog,";
    for (rules, path, expected) in [
        (format!("{RULE}deny\""), "/?q=fine", None),
        (format!("{RULE}deny\""), "/?q=attack", Some("\"action\":\"deny\"")),
        (format!("{RULE}redirect:http://a/\""), "/?q=attack", Some("\"action\":\"redirect\"")),
        (format!("{RULE}drop\""), "/?q=attack", Some("\"action\":\"drop\"")),
        (format!("{RULE}pass\""), "/?q=attack", None),
        (format!("SecAuditEngine On\n{RULE}pass\""), "/?q=fine", Some("\"action\":\"allow\"")),
        (format!("SecAuditEngine RelevantOnly\n{RULE}pass\""), "/?q=fine", None),
        (format!("SecAuditEngine RelevantOnly\n{RULE}pass\""), "/?q=attack", Some("\"id\":1")),
        (
            format!("SecAuditEngine RelevantOnly\nSecRuleEngine DetectionOnly\n{RULE}deny\""),
            "/?q=attack",
            Some("\"mode\":\"detection_only\""),
        ),
        // Detection mode records what it withholds also where `SecAuditEngine` is not written.
        (
            format!("SecRuleEngine DetectionOnly\n{RULE}deny\""),
            "/?q=attack",
            Some("\"would_deny\":{\"phase\":2,\"rule\":1}"),
        ),
        (format!("SecRuleEngine DetectionOnly\n{RULE}deny\""), "/?q=fine", None),
        (
            format!("SecAuditEngine Off\nSecRuleEngine DetectionOnly\n{RULE}deny\""),
            "/?q=attack",
            None,
        ),
        // What rules say about records is obeyed, also for requests that are refused.
        (format!("SecAuditEngine Off\n{RULE}deny\""), "/?q=attack", None),
        (format!("{RULE}deny,ctl:auditEngine=Off\""), "/?q=attack", None),
        (format!("SecAuditEngine RelevantOnly\n{RULE}deny,noauditlog\""), "/?q=attack", None),
        (
            format!(
                "SecAuditEngine RelevantOnly\nSecAuditLogRelevantStatus ^403$\n{RULE}deny,noauditlog\""
            ),
            "/?q=attack",
            Some("\"status\":403"),
        ),
        (
            format!("SecAuditEngine Off\n{RULE}pass,ctl:auditEngine=On\""),
            "/?q=attack",
            Some("\"action\":\"allow\""),
        ),
    ] {
        let record = record(&mut inspector(&rules, Settings::default()), path, &[], "");
        assert_eq!(record.is_some(), expected.is_some(), "{rules} {path}");
        if let (Some(record), Some(expected)) = (record, expected) {
            assert!(record.contains(expected), "no {expected} in {record}");
        }
    }
}

/// Requests that pass are recorded as the sample says, refused ones always.
#[test]
fn a_sample_of_what_passes() {
    const RULE: &str = "SecAuditEngine On\nSecRule ARGS:q \"@streq attack\" \"id:1,phase:2,log,";
    for (action, path, percent, expected) in [
        ("deny", "/?q=fine", 100, true),
        ("deny", "/?q=fine", 1, true),
        ("deny", "/?q=fine", 0, false),
        ("pass", "/?q=attack", 0, false),
        ("deny", "/?q=attack", 0, true),
        ("redirect:http://a/", "/?q=attack", 0, true),
    ] {
        let audit_sample = Sample::percent(percent).unwrap();
        let settings = Settings { audit_sample, ..Settings::default() };
        let mut inspector = inspector(&format!("{RULE}{action}\""), settings);
        let record = record(&mut inspector, path, &[], "");
        assert_eq!(record.is_some(), expected, "{action} {path} {percent}");
    }
}

#[test]
fn secrets_stay_out() {
    const DENY: &str = "phase:2,deny,log,msg:'msg %{MATCHED_VAR}',logdata:'data %{MATCHED_VAR}'";
    for (targets, path, headers, body) in [
        ("ARGS", "/?password=hunter2", &[][..], ""),
        ("ARGS", "/", &[FORM], "user=a&user[api_key]=hunter2"),
        ("ARGS", "/?pass%77ord=hunter2", &[], ""),
        ("REQUEST_HEADERS", "/", &[("authorization", "Basic hunter2")], ""),
        ("REQUEST_HEADERS", "/", &[("X-Auth-Token", "hunter2")], ""),
        ("REQUEST_HEADERS", "/", &[("cookie", "sid=hunter2")], ""),
        ("REQUEST_HEADERS", "/", &[("referer", "http://a/?token=hunter2")], ""),
        ("REQUEST_COOKIES", "/", &[("cookie", "sid=hunter2")], ""),
        ("REQUEST_BODY", "/", &[FORM], "password=hunter2"),
        ("QUERY_STRING", "/?a=b&token=hunter2", &[], ""),
        ("REQUEST_URI", "/?a=b&token=hunter2", &[], ""),
        ("REQUEST_LINE", "/?a=b&token=hunter2", &[], ""),
        ("FULL_REQUEST", "/", &[FORM], "password=hunter2"),
        ("ARGS", "/", &[JSON], r#"{"a":{"client_secret":"hunter2"}}"#),
        ("ARGS", "/", &[JSON], r#"{"pass\u0077ord":["hunter2"]}"#),
        ("ARGS", "/", &[MULTIPART], PARTS),
        ("REQUEST_HEADERS", "/", &[("Proxy-Authorization", "Basic hunter2")], ""),
    ] {
        let rules = format!(
            "SecAuditLogParts ABCFHIJKZ\nSecRule {targets} \"@contains hunter2\" \"id:1,{DENY}\""
        );
        let name = format!("{targets} {path} {headers:?} {body}");
        for (audit_format, rule) in [
            (AuditFormat::Native, "\"id\":1"),
            (AuditFormat::ModSecurity, "\"ruleId\":\"1\""),
            (AuditFormat::Ocsf, "\"firewall_rule\":{\"uid\":\"1\""),
        ] {
            let settings = Settings { audit_format, ..Settings::default() };
            let masked = record(&mut inspector(&rules, settings), path, headers, body);
            let Some(masked) = masked else { panic!("{name}: no record") };
            assert!(!masked.contains("hunter2"), "{name}: {masked}");
            assert!(masked.contains(rule) && masked.contains("[redacted]"), "{name}: {masked}");
        }
        let open = Settings { redaction: Redaction::new(false, [], []), ..Settings::default() };
        let open = record(&mut inspector(&rules, open), path, headers, body).unwrap();
        assert!(open.contains("hunter2"), "{name}: {open}");
    }
}

/// Rules can hide what no name gives away, also where masking is off.
#[test]
fn what_rules_sanitise_stays_out() {
    const DENY: &str = "phase:2,deny,log,msg:'msg %{MATCHED_VAR}',logdata:'data %{MATCHED_VAR}'";
    for (targets, sanitise, path, headers, body) in [
        ("ARGS", "sanitiseArg:note", "/?note=hunter2", &[][..], ""),
        ("ARGS_POST", "sanitiseArg:Note", "/", &[FORM], "note=hunter2"),
        ("REQUEST_URI", "sanitiseArg:note", "/?a=b&note=hunter2", &[], ""),
        ("REQUEST_BODY", "sanitiseArg:note", "/", &[FORM], "note=hunter2"),
        ("ARGS", "sanitiseArg:%2d", "/?%2d=hunter2", &[], ""),
        ("ARGS", "sanitiseArg:--", "/?--=hunter2", &[], ""),
        ("REQUEST_HEADERS", "sanitiseRequestHeader:x-note", "/", &[("X-Note", "hunter2")], ""),
        ("ARGS", "sanitiseMatched", "/?note=hunter2", &[], ""),
        ("REQUEST_URI", "sanitiseMatched", "/hunter2", &[], ""),
        ("ARGS", "sanitiseMatchedBytes:1/2", "/?note=hunter2", &[], ""),
    ] {
        let settings =
            || Settings { redaction: Redaction::new(false, [], []), ..Settings::default() };
        let rule = |action: &str| {
            format!("SecRule {targets} \"@contains hunter2\" \"id:1,{DENY}{action}\"")
        };
        let mut open = inspector(&rule(""), settings());
        assert!(record(&mut open, path, headers, body).unwrap().contains("hunter2"));
        let mut masking = inspector(&rule(&format!(",{sanitise}")), settings());
        let masked = record(&mut masking, path, headers, body).unwrap();
        assert!(!masked.contains("hunter2"), "{targets} {sanitise}: {masked}");
        assert!(masked.contains("[redacted]"), "{targets} {sanitise}: {masked}");
    }
}

/// Beyond the names that are kept, everything is hidden.
#[test]
fn too_many_sanitised_names_hide_everything() {
    let names: String = (0..300).map(|name| format!(",sanitiseArg:n{name}")).collect();
    let rules = format!("SecRule REQUEST_METHOD \"@rx (.*)\" \"id:1,phase:2,deny,log{names}\"");
    let record = record(&mut inspector(&rules, Settings::default()), "/hunter2", &[], "").unwrap();
    assert!(record.contains(r#""uri":"[redacted]""#), "{record}");
    assert!(record.contains(r#""variable":"REQUEST_METHOD","value":"[redacted]""#), "{record}");
}

/// An inspector hands its transactions the store that it was given.
#[test]
fn collections_outlive_exchanges_where_there_is_a_store() {
    let rules = r#"SecAction "id:1,phase:1,pass,nolog,initcol:global=all,setvar:global.n=+1"
        SecRule GLOBAL:n "@ge 2" "id:2,phase:1,deny,log""#;
    let store = Arc::new(MemoryStore::new(1, Limits::default().collections()));
    for (collections, denied) in [(None, false), (Some(store as Arc<dyn CollectionStore>), true)] {
        let settings = Settings { collections, ..Settings::default() };
        let mut inspector = inspector(rules, settings);
        assert_eq!(record(&mut inspector, "/", &[], ""), None);
        assert_eq!(record(&mut inspector, "/", &[], "").is_some(), denied);
    }
}

#[test]
fn secrets_of_a_chain_stay_out() {
    for link in [
        r#"ARGS:q "@streq attack" "logdata:'%{MATCHED_VARS} %{MATCHED_VAR}',setvar:tx.a=1""#,
        r#"TX:1|MATCHED_VAR "@rx .""#,
        r#"MATCHED_VARS "@contains hunter""#,
    ] {
        let rules = |argument: &str| {
            format!(
                "SecRule ARGS:{argument} \"@rx (.+)\" \"id:1,phase:2,deny,log,capture,chain\"\n\
                 SecRule {link}"
            )
        };
        for audit_format in [AuditFormat::Native, AuditFormat::ModSecurity, AuditFormat::Ocsf] {
            let settings = Settings { audit_format, ..Settings::default() };
            let mut inspector = inspector(&rules("password"), settings);
            let record = record(&mut inspector, "/?password=hunter2&q=attack", &[], "").unwrap();
            assert!(!record.contains("hunter2"), "{link}: {record}");
        }
        // What is no secret is shown wherever it is looked at.
        let mut inspector = inspector(&rules("name"), Settings::default());
        let record = record(&mut inspector, "/?name=hunter&q=attack", &[], "").unwrap();
        assert!(!record.contains("[redacted]"), "{link}: {record}");
    }
}

/// Of a message the fixed text and the name of what matched are shown; what stands for another macro only if
/// nothing that matched is a secret.
#[test]
fn messages_show_no_secret() {
    const FORMATS: [AuditFormat; 3] =
        [AuditFormat::Native, AuditFormat::ModSecurity, AuditFormat::Ocsf];
    // More than the matches that are recorded of one rule, the secret behind them.
    let many: String = (0..20).map(|arg| format!("a{arg}=x&")).collect();
    let long = format!("/?{many}password=hunter2");
    let last = "SecRule ARGS \"@rx .\" \"id:1,phase:2,deny,log,msg:'last %{MATCHED_VAR}'\"";
    let part = |argument: &str| {
        format!(
            "SecRule ARGS:{argument} \"@rx ^(hunt)\" \
             \"id:1,phase:2,deny,log,capture,msg:'begins with %{{TX.1}}'\""
        )
    };
    let name = "SecRule ARGS \"@rx ^hunt\" \"id:1,phase:2,deny,log,msg:'in %{matched_var_name}'\"";
    let fixed = "SecRule ARGS \"@rx ^hunt\" \"id:1,phase:2,deny,log,msg:'a token: %{ of it'\"";
    let link = "SecRule ARGS \"@rx ^hunt\" \"id:1,phase:2,deny,log,chain\"\n\
        SecRule ARGS:password \"@rx ^hunt\" \"msg:'last %{MATCHED_VAR}'\"";
    for (rules, path, shown) in [
        (last.to_owned(), long.as_str(), "last [redacted]"),
        (last.to_owned(), "/?name=hunter2", "last hunter2"),
        (part("password"), "/?password=hunter2", "begins with [redacted]"),
        (part("name"), "/?name=hunter2", "begins with hunt"),
        (name.to_owned(), "/?password=hunter2", "in ARGS:password"),
        (fixed.to_owned(), "/?password=hunter2", "a token: %{ of it"),
        (link.to_owned(), "/?password=hunter2", "[redacted]"),
    ] {
        for audit_format in FORMATS {
            let settings = Settings { audit_format, ..Settings::default() };
            let record = record(&mut inspector(&rules, settings), path, &[], "").unwrap();
            let name = format!("{rules} {path}: {record}");
            assert!(record.contains(&format!(":\"{shown}\"")), "{name}");
            assert!(!path.contains("password") || !record.contains("hunt"), "{name}");
        }
    }
}

/// A receipt says that rules have seen a part of a body, if there was no room for the rest.
#[test]
fn a_body_without_room_is_seen_in_part() {
    for (pieces, expected) in [(0, "headers"), (1, "partial")] {
        let settings = Settings { body_overflow: BodyOverflow::Pass, ..Settings::default() };
        let rules = "SecRule ARGS \"@streq attack\" \"id:1,phase:2,deny\"";
        let mut inspector = inspector(rules, settings);
        assert_eq!(begin(&mut inspector, "/", &[FORM], false), Decision::NeedBody);
        for _ in 0..pieces {
            assert_eq!(inspector.request_body(b"a=b&", End::More), Decision::NeedBody);
        }
        assert_eq!(inspector.request_body_overflow(Rejection::BodyOverflow), Decision::Continue);
        assert_eq!(inspector.receipt().inspected, expected);
    }
}

#[test]
fn records_are_bounded() {
    let parts = "SecAuditLogParts ABCEFHIJKZ\n".to_owned();
    let rules: String = (1..=400)
        .map(|id| {
            format!(
                "SecRule ARGS \"@rx .\" \"id:{id},phase:2,pass,log,logdata:'%{{MATCHED_VAR}}'\"\n"
            )
        })
        .chain([parts, "SecAction \"id:1000,phase:2,deny\"".to_owned()])
        .collect();
    // Each byte takes six when it is escaped.
    let body: String = (0..40).map(|arg| format!("a{arg}={}&", "%01".repeat(5_000))).collect();
    let path = format!("/{}", "a".repeat(100_000));
    let open = Settings { redaction: Redaction::new(false, [], []), ..Settings::default() };
    let long = "\u{1}".repeat(5_000);
    let headers: Vec<(&str, &str)> = (0..200).map(|_| ("x-long", long.as_str())).collect();
    let headers = [&headers[..], &[FORM]].concat();
    let record = record(&mut inspector(&rules, open), &path, &headers, &body).unwrap();
    assert!(record.len() < 512 << 10, "{}", record.len());
    for omitted in ["\"rules_omitted\":", "\"headers_omitted\":", "\"body_cut\":true"] {
        assert!(record.contains(omitted), "{omitted}");
    }
}
