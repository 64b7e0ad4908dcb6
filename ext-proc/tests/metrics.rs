//! Metrics as they are scraped: what the reference says is there, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use glacis_ext_proc::metrics_reference;
use harness::{Sent, Service, Stream, counted, get};

/// A profile with everything that has metrics: a canary, an exclusion, a limit that is reached.
const CONFIG: &str = "
canary: /?q=attack
exclusions: [{rules: [2], owner: o, reason: r, expires: never}]
inline_body_bytes: 8
profiles:
  look: {mode: detection}
  next: {directives: SecRuleEngine On}
shadow: {profile: next, percent: 100}
oversized_body: partial
request_body_bytes_max: 10
bans: {redis: {nodes: ['127.0.0.1:1']}, scenarios: [{name: a, capacity: 9, leak_seconds: 9, ban_seconds: 9}]}
";

/// Those of the base configuration and of [`RULES`].
const RULES_COUNT: u32 = 14;

const RULES: &str = r#"
    SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log,severity:CRITICAL,tag:'attack-sqli',setvar:tx.blocking_inbound_anomaly_score=+5"
    SecRule ARGS "@contains other" "id:2,phase:2,pass,log"
    SecRule ARGS "@contains score" "id:3,phase:2,pass,log,severity:NOTICE,setvar:tx.blocking_inbound_anomaly_score=+7"
"#;

/// One exchange: each message, answered.
async fn exchange(service: &Service, profile: Option<&str>, sent: &[Sent<'_>]) {
    let mut stream = Stream::open_with(service.channel().await, profile).await.unwrap();
    for sent in sent {
        stream.send(sent).await;
        stream.answer().await;
    }
}

#[test]
fn the_reference_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, metrics_reference()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == metrics_reference(), "docs/reference/metrics.md; UPDATE_EXPECT=1 renews it");
}

/// Family → type and labels, as the reference says.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = metrics_reference();
    let rows = rows.lines().filter_map(|line| line.strip_prefix("| `"));
    let families = rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].trim_end_matches('`').trim_end_matches("_total").to_owned();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        (name, (cells[1].to_owned(), labels.filter(|label| !label.is_empty()).collect()))
    });
    families.collect()
}

/// The same as a scrape says.
fn scraped(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types = types.map(|line| line.split_once(' ').unwrap());
    let labels = |name: &str| {
        let of = |line: &&str| {
            let rest = line.strip_prefix(name).unwrap_or("-");
            ["{", " ", "_total", "_bucket", "_sum", "_count"]
                .iter()
                .any(|next| rest.starts_with(next))
        };
        let samples: Vec<&str> = text.lines().filter(of).collect();
        assert!(!samples.is_empty(), "no sample of {name}");
        let names = samples.iter().filter_map(|line| line.split_once('{')).flat_map(|(_, rest)| {
            let labels = rest.rsplit_once('}').unwrap().0;
            labels.split(',').map(|label| label.split_once('=').unwrap().0.to_owned())
        });
        names.filter(|name| name != "le").collect()
    };
    types.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), labels(name)))).collect()
}

#[tokio::test]
async fn a_scrape_has_what_is_documented() {
    let service = Service::start(CONFIG, RULES).await;
    let attack = [Sent::get("/?q=attack", &[])];
    exchange(&service, None, &attack).await;
    let answered = [Sent::get("/?q=attack", &[]), Sent::response(200, &[])];
    exchange(&service, Some("look"), &answered).await;
    exchange(&service, Some("look"), &[Sent::get("/?q=plain", &[])]).await;
    exchange(&service, None, &[Sent::get("/?q=score", &[])]).await;
    let form = ["content-type: application/x-www-form-urlencoded"];
    let body = [Sent::post("/", &form), Sent::body("q=abcdefghijklmnop", true)];
    exchange(&service, None, &body).await;
    exchange(&service, None, &[Sent::post("/", &form)]).await;
    let coraza = "engine=\"glacis\",namespace=\"default\",driver_type=\"ext_proc\"";
    for line in [
        "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 1",
        "glacis_requests_total{profile=\"default\",verdict=\"none\"} 1",
        "glacis_requests_total{profile=\"look\",verdict=\"allow\"} 2",
        "glacis_requests_total{profile=\"look\",verdict=\"deny\"} 0",
        "glacis_would_deny_total{profile=\"look\"} 1",
        "glacis_would_deny_total{profile=\"default\"} 0",
        "glacis_rule_matches_total{rule_id=\"1\"} 2",
        "glacis_rule_matches_total{rule_id=\"other\"} 0",
        // Answered with 200 where rules only look on, and refused where they block.
        "glacis_rule_evidence_total{rule_id=\"1\",of=\"served\"} 1",
        "glacis_rule_evidence_total{rule_id=\"1\",of=\"banned\"} 0",
        "glacis_receipts_total{verdict=\"pending\"} 2",
        "glacis_truncated_bodies_total{message=\"request\"} 1",
        "glacis_anomaly_score_bucket{le=\"5.0\",profile=\"look\",direction=\"inbound\"} 2",
        "glacis_anomaly_score_bucket{le=\"5.0\",profile=\"default\",direction=\"inbound\"} 3",
        "glacis_anomaly_score_bucket{le=\"7.0\",profile=\"default\",direction=\"inbound\"} 4",
        "glacis_inspection_seconds_count{profile=\"default\",phase=\"request_body\"} 1",
        "glacis_evaluation_wait_seconds_count 1",
        // Nobody listens there.
        "glacis_store_connected{store=\"bans\"} 0",
        "glacis_store_requests_total{store=\"bans\",result=\"answered\"} 0",
        &format!("glacis_rules{{profile=\"look\"}} {RULES_COUNT}"),
    ] {
        counted(&service, line).await;
    }
    for (line, value) in [
        ("coraza_waf_requests_total{C,outcome=\"block\"}", 1),
        ("coraza_waf_requests_total{C,outcome=\"detect\"}", 1),
        ("coraza_waf_requests_total{C,outcome=\"error\"}", 1),
        ("coraza_waf_rule_hits_total{C,rule_id=\"1\",severity=\"CRITICAL\",outcome=\"block\"}", 1),
        ("coraza_waf_rule_hits_total{C,rule_id=\"1\",severity=\"CRITICAL\",outcome=\"detect\"}", 1),
        ("coraza_waf_blocked_requests_total{C,category=\"sqli\",severity=\"CRITICAL\"}", 1),
        ("coraza_waf_blocked_requests_total{C,category=\"other\",severity=\"INFO\"}", 0),
        ("coraza_waf_plugin_loads_total{C,status=\"success\"}", 1),
        ("coraza_waf_plugin_rule_count{C}", RULES_COUNT),
    ] {
        counted(&service, &format!("{} {value}", line.replace("{C", &format!("{{{coraza}")))).await;
    }
    let text = get(service.admin, "/metrics").await.1;
    assert_eq!(scraped(&text), documented(), "left: scraped, right: documented, in\n{text}");
}
