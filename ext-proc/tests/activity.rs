//! What the admin port keeps and counts of requests: in detection mode, too, and with a filter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use harness::{Sent, Service, Stream, ask, counted, eventually};
use serde_json::{Value, json};

const CONFIG: &str = "
mode: detection
recent: {requests_max: 3}
profiles:
  strict: {mode: 'on'}
";

const RULES: &str = r#"
    SecAction "id:1,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=5"
    SecRule ARGS "@contains select" "id:942100,phase:2,pass,log,severity:CRITICAL,msg:'SQL Injection (%{MATCHED_VAR})',tag:'attack-sqli',setvar:tx.blocking_inbound_anomaly_score=+5"
    SecRule ARGS "@contains <b" "id:941100,phase:2,pass,log,severity:WARNING,msg:'XSS',tag:'attack-xss',setvar:tx.blocking_inbound_anomaly_score=+5"
    SecRule TX:BLOCKING_INBOUND_ANOMALY_SCORE "@ge %{tx.inbound_anomaly_score_threshold}" "id:949110,phase:2,deny,status:403,log,severity:EMERGENCY,msg:'Score exceeded',tag:'anomaly-evaluation'"
    SecRule RESPONSE_HEADERS:x-leak "@streq 1" "id:953100,phase:3,deny,status:502,log,msg:'Leak',tag:'attack-disclosure'"
"#;

async fn exchange(service: &Service, profile: Option<&str>, client: u8, uri: &str) {
    let source = format!("192.0.2.{client}:4711");
    let mut stream = Stream::open_with(service.channel().await, profile).await.unwrap();
    stream.send(&Sent::get(uri, &["user-agent: plain"]).source(&source)).await;
    stream.answer().await;
}

async fn told(service: &Service, path: &str) -> Value {
    let (status, body) = ask(service.admin, "GET", path, None).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn sum(series: &Value) -> u64 {
    series.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
}

/// Detection mode lists, counts and records what it would block.
#[tokio::test]
async fn detection_mode_is_visible() {
    let service = Service::start(CONFIG, RULES).await;
    exchange(&service, None, 1, "/shop?q=select&x=%3Cb").await;
    exchange(&service, None, 2, "/fine").await;
    counted(&service, "glacis_would_deny_total{profile=\"default\"} 1").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 2").await;
    let recent = told(&service, "/recent").await;
    assert_eq!(recent["last"], 1);
    let request = &recent["requests"][0];
    for (field, expected) in [
        ("verdict", json!("would_block")),
        ("action", json!("allow")),
        ("rule", json!(949_110)),
        ("attack_rule", json!(942_100)),
        ("attack", json!("SQL Injection")),
        ("rules", json!([942_100, 941_100])),
        ("categories", json!(["SQL injection", "Cross-site scripting"])),
        ("score_inbound", json!(10)),
    ] {
        assert_eq!(request[field], expected, "{field}: {request}");
    }
    let (status, record) = ask(service.admin, "GET", "/recent/1", None).await;
    assert_eq!(status, 200);
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["would_deny"], json!({"phase": 2, "rule": 949_110}));
    let activity = told(&service, "/activity").await;
    let series = &activity["series"];
    assert_eq!((sum(&series["would_block"]), sum(&series["allowed"])), (1, 1), "{activity}");
    assert_eq!(series["scores"][10], 1);
    assert_eq!(activity["threshold"], 5);
    // Which replica this is, and in which mode.
    let status = told(&service, "/status").await;
    assert_eq!(status["profiles"][0]["mode"], "detection_only");
    assert!(!status["instance"].as_str().unwrap().is_empty(), "{status}");
    assert!(status["started"].as_u64().unwrap() > 1_700_000_000, "{status}");
}

/// A response that would be blocked counts as well; exclusions are not learned from it.
#[tokio::test]
async fn responses_that_would_be_blocked() {
    let config = "mode: detection\nresponse: headers\n";
    let service = Service::start(config, RULES).await;
    let mut stream = Stream::open_with(service.channel().await, None).await.unwrap();
    stream.send(&Sent::get("/fine", &["user-agent: plain"])).await;
    stream.answer().await;
    stream.send(&Sent::response(200, &["x-leak: 1"])).await;
    stream.answer().await;
    drop(stream);
    counted(&service, "glacis_would_deny_total{profile=\"default\"} 1").await;
    eventually(async || told(&service, "/recent").await["last"] == 1).await;
    let request = &told(&service, "/recent").await["requests"][0];
    assert_eq!(
        (&request["attack_rule"], &request["categories"]),
        (&json!(953_100), &json!(["Data leak"]))
    );
    assert_eq!(told(&service, "/proposals?days=1").await["requests"], 0);
}

/// Requests are counted by what they have in common, and chosen by it.
#[tokio::test]
async fn what_is_shown_can_be_chosen() {
    let service = Service::start(CONFIG, RULES).await;
    for (profile, client, uri) in [
        (None, 1, "/shop/1?q=select"),
        (None, 1, "/shop/1?q=select"),
        (Some("strict"), 2, "/wiki?q=select"),
        (Some("strict"), 3, "/wiki?Needle=%3Cb"),
        (None, 4, "/fine"),
    ] {
        exchange(&service, profile, client, uri).await;
    }
    counted(&service, "glacis_requests_total{profile=\"strict\",verdict=\"deny\"} 2").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 3").await;
    for (query, matching) in [
        ("", 4),
        ("?minutes=1", 4),
        ("?minutes=60", 4),
        ("?verdict=would_block", 2),
        ("?verdict=blocked", 2),
        ("?verdict=rejected", 0),
        ("?category=sqli", 3),
        ("?category=xss", 1),
        ("?rule=942100", 3),
        ("?rule=949110", 0),
        ("?client=192.0.2.1", 2),
        ("?client=192.0.2", 0),
        ("?path=/wiki", 2),
        ("?user_agent=plain", 4),
        ("?user_agent=other", 0),
        ("?profile=strict&path=/wiki&category=sqli", 1),
        ("?text=needle", 1),
        ("?text=94110", 1),
        ("?text=nowhere", 0),
    ] {
        let found = told(&service, &format!("/activity{query}")).await;
        assert_eq!(found["kept"]["matching"], matching, "{query}: {found}");
        assert_eq!(sum(&found["matching_series"]), matching, "{query}");
        assert_eq!(found["kept"]["all"], 4, "{query}");
    }
    let found = told(&service, "/activity?limit=1").await;
    let requests = found["requests"].as_array().unwrap();
    assert_eq!((requests.len(), &requests[0]["number"]), (1, &json!(4)), "the newest first");
    for (list, expected) in [
        (
            "clients",
            json!([
                ["192.0.2.1", "192.0.2.1", 2],
                ["192.0.2.2", "192.0.2.2", 1],
                ["192.0.2.3", "192.0.2.3", 1]
            ]),
        ),
        ("paths", json!([["/shop/1", "/shop/1", 2], ["/wiki", "/wiki", 2]])),
        ("user_agents", json!([["plain", "plain", 4]])),
        ("rules", json!([["942100", "SQL Injection", 3], ["941100", "XSS", 1]])),
        ("categories", json!([["sqli", "SQL injection", 3], ["xss", "Cross-site scripting", 1]])),
    ] {
        let top = found["top"][list].as_array().unwrap();
        let rows = top.iter().map(|row| json!([row["value"], row["label"], row["count"]]));
        assert_eq!(Value::Array(rows.collect()), expected, "{list}");
    }
    // Three records are kept, and what lists need of all.
    let all = told(&service, "/activity").await;
    let has: Vec<bool> =
        all["requests"].as_array().unwrap().iter().map(|one| one["has_record"] == true).collect();
    assert_eq!(has, [true, true, true, false]);
    for (path, words) in [
        ("/activity?verdict=maybe", "verdict"),
        ("/activity?category=maybe", "category"),
        ("/activity?rule=maybe", "rule"),
        ("/activity?minutes=0", "from 1 to 60"),
        ("/activity?minutes=61", "from 1 to 60"),
    ] {
        let (status, body) = ask(service.admin, "GET", path, None).await;
        assert!(status == 400 && body.contains(words), "{path}: {status} {body}");
    }
}

/// With `recent.requests_max: 0` nothing of a request is kept; it is still counted.
#[tokio::test]
async fn nothing_is_kept_where_nothing_may_be() {
    let config = "mode: detection\nrecent: {requests_max: 0}\nproposals: {requests_max: 0}\n";
    let service = Service::start(config, RULES).await;
    exchange(&service, None, 1, "/?q=select").await;
    counted(&service, "glacis_would_deny_total{profile=\"default\"} 1").await;
    let activity = told(&service, "/activity").await;
    assert_eq!((&activity["kept"]["all"], sum(&activity["series"]["would_block"])), (&json!(0), 1));
}

/// No more than 500 requests are listed, however many are asked for; all are counted.
#[tokio::test]
async fn lists_are_bounded() {
    let service = Service::start(CONFIG, RULES).await;
    for number in 0..501 {
        exchange(&service, None, 1, &format!("/{number}?q=select")).await;
    }
    counted(&service, "glacis_would_deny_total{profile=\"default\"} 501").await;
    for (limit, listed) in [(0, 0), (499, 499), (500, 500), (501, 500)] {
        let found = told(&service, &format!("/activity?limit={limit}")).await;
        assert_eq!(found["requests"].as_array().unwrap().len(), listed, "{limit}");
        assert_eq!(found["kept"]["matching"], 501, "{limit}");
        assert_eq!(found["top"]["paths"].as_array().unwrap().len(), 10, "{limit}");
    }
}

/// Of many warnings a hundred are listed, and all counted.
#[tokio::test]
async fn warnings_are_bounded() {
    for (count, listed) in [(100, 100), (101, 100)] {
        let warnings = "SecUploadKeepFiles On\n".repeat(count);
        let service = Service::start("mode: detection", &format!("{RULES}\n{warnings}")).await;
        let found = told(&service, "/warnings").await;
        let texts = found["warnings"].as_array().unwrap();
        assert_eq!((texts.len(), &found["total"]), (listed, &json!(count)), "{found}");
    }
}

/// The texts behind the number of warnings.
#[tokio::test]
async fn warnings_are_listed() {
    let rules = format!("{RULES}\nSecUploadKeepFiles On\n");
    let service = Service::start(CONFIG, &rules).await;
    let found = told(&service, "/warnings").await;
    assert!(found["warnings"].to_string().contains("SecUploadKeepFiles"), "{found}");
    let status = told(&service, "/status").await;
    assert_eq!(status["profiles"][0]["warnings"], found["total"], "{status}");
    assert_eq!(ask(service.admin, "GET", "/warnings?profile=none", None).await.0, 404);
}
