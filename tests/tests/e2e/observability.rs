//! What an operator sees of a refused request: metrics and the audit log.

use std::net::Ipv4Addr;
use std::time::Duration;

use glacis_tests::ext_proc::AUDIT;
use glacis_tests::http::Request;
use glacis_tests::http2;
use serde_json::Value;

use crate::support::{client, eventually, metric, shared};

const ATTACK: &str =
    "/echo?q=%3Cscript%3Ealert(document.cookie)%3C/script%3E&password=hunter2-secret";

fn attack() -> Request {
    Request::get(ATTACK).header("authorization", "Bearer t0p-secret-token").browser()
}

#[test]
fn metrics_count_each_verdict() {
    // Other tests send requests at the same time, so that a counter may move by more than ours.
    let before = (metric(DENY), metric(ALLOW));
    for _ in 0..3 {
        assert_eq!(shared().send(client(), &attack()).unwrap().status, 403);
    }
    assert_eq!(shared().send(client(), &Request::get("/").browser()).unwrap().status, 200);
    // A request is counted when its stream has ended, which may be after its answer.
    eventually("three are denied and one is allowed", Duration::from_secs(5), || {
        metric(DENY) >= before.0 + 3.0 && metric(ALLOW) >= before.1 + 1.0
    });
    assert!(metric(r#"glacis_rule_matches_total{rule_id="941100"}"#) >= 3.0);
}

const DENY: &str = r#"glacis_requests_total{profile="default",verdict="deny"}"#;
const ALLOW: &str = r#"glacis_requests_total{profile="default",verdict="allow"}"#;

/// The record of the audit log about the request of this client, as text and parsed.
fn audit_record(from: Ipv4Addr) -> (String, Value) {
    let mut found = None;
    eventually("a line in the audit log", Duration::from_secs(5), || {
        let log = shared().folder.read(AUDIT);
        found = log.lines().find_map(|line| {
            let record: Value = serde_json::from_str(line).ok()?;
            let client = record["client"].as_str()?;
            // With or without a port.
            let same = client == from.to_string() || client.starts_with(&format!("{from}:"));
            same.then(|| (line.to_owned(), record))
        });
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn the_audit_log_names_rules_and_no_secrets() {
    let from = client();
    assert_eq!(shared().send(from, &attack()).unwrap().status, 403);
    let (line, record) = audit_record(from);
    assert_eq!((&record["status"], &record["action"]), (&403.into(), &"deny".into()), "{line}");
    let rules = record["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["id"] == 941_100);
    let rule = rule.unwrap_or_else(|| panic!("no rule 941100: {line}"));
    assert!(rule["msg"].as_str().unwrap().contains("XSS"), "{line}");
    assert!(rules.iter().any(|rule| rule["id"] == 949_110), "{line}");
    for secret in ["hunter2", "t0p-secret"] {
        assert!(!line.contains(secret), "{secret} in {line}");
    }
}

/// What rules see of the request line is what was sent, in each version.
#[test]
fn the_protocol_and_the_raw_uri_are_those_of_the_request() {
    let target = "/echo/%2E/a//b;c=1?q=%3Cscript%3Ealert(1)%3C/script%3E";
    let request = Request::get(target).browser();
    let clients = [client(), client()];
    assert_eq!(shared().send(clients[0], &request).unwrap().status, 403);
    assert_eq!(http2::send(clients[1], shared().proxy(), &request).unwrap().status, 403);
    for (from, protocol) in clients.into_iter().zip(["HTTP/1.1", "HTTP/2"]) {
        let (line, record) = audit_record(from);
        assert_eq!(record["uri"], target, "{line}");
        assert_eq!(record["request"]["protocol"], protocol, "{line}");
    }
}
