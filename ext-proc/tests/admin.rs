//! What the admin port tells of rules and requests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use std::{fs, path::PathBuf};

use harness::{Sent, Service, Stream, ask, counted, eventually};
use serde_json::{Value, json};

const CONFIG: &str = r#"
mode: on
cost_sample: 1
rules: [rules.conf]
directives: |
  SecRule ARGS:name "@rx ^.{30}" "id:20,phase:2,deny,status:403,log,msg:'Too long'"
block: {status: 451}
profiles:
  look: {mode: detection, limits: {cookies_max: 5}}
"#;

const RULES: &str = r#"
SecAction "id:9,phase:1,pass,nolog"
SecRule ARGS "@contains attack" "id:10,phase:2,deny,status:403,log,msg:'An attack in %{MATCHED_VAR_NAME}',tag:'attack-generic',tag:'paranoia-level/2'"
SecRule REQUEST_HEADERS:User-Agent "@contains scanner" "id:11,phase:1,deny,status:403,log,msg:'A scanner',chain"
  SecRule ARGS "@contains x"
"#;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("admin-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("rules.conf"), RULES).unwrap();
    fs::write(folder.join("config.yaml"), CONFIG).unwrap();
    folder
}

async fn exchange(service: &Service, profile: Option<&str>, sent: &[Sent<'_>]) {
    let mut stream = Stream::open_with(service.channel().await, profile).await.unwrap();
    for sent in sent {
        stream.send(sent).await;
        stream.answer().await;
    }
}

async fn told(service: &Service, path: &str) -> Value {
    let (status, body) = ask(service.admin, "GET", path, None).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn ids(rules: &Value) -> Vec<u64> {
    let rules = rules["rules"].as_array().unwrap();
    rules.iter().map(|rule| rule["id"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn rules_and_configuration() {
    let folder = folder("rules");
    let service = Service::start_file(&folder.join("config.yaml")).await;
    for _ in 0..2 {
        exchange(&service, None, &[Sent::get("/?q=attack", &[])]).await;
    }
    exchange(
        &service,
        Some("look"),
        &[Sent::get("/?q=attack&name=abcdefghijklmnopqrstuvwxyz0123456789", &[])],
    )
    .await;
    counted(&service, "glacis_requests_total{profile=\"look\",verdict=\"allow\"} 1").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 2").await;
    for (query, expected, total) in [
        ("", &[9, 11, 10, 20][..], None),
        ("?sort=hits", &[10, 11, 20, 9], None),
        ("?sort=hits&limit=1&offset=1", &[11], None),
        ("?matched=true", &[10], Some(1)),
        ("?profile=look&matched=true", &[10, 20], Some(2)),
        ("?profile=look&matched=true&id=20", &[20], Some(1)),
        ("?phase=1", &[9, 11], None),
        ("?tag=attack-generic", &[10], Some(1)),
        ("?text=SCANNER", &[11], Some(1)),
        ("?text=rules.conf&phase=2", &[10], Some(1)),
        ("?id=5", &[], Some(0)),
    ] {
        let rules = told(&service, &format!("/rules{query}")).await;
        // Without those of the base configuration.
        let found: Vec<u64> = ids(&rules).into_iter().filter(|id| *id < 100_000).collect();
        assert_eq!(found, expected, "{query}");
        assert!(total.is_none_or(|total| rules["total"] == total), "{query}: {rules}");
    }
    let mut rule = told(&service, "/rules?id=10").await["rules"][0].take();
    assert!(rule["file"].take().as_str().unwrap().ends_with("rules.conf"));
    assert_eq!((&rule["cost"]["visited"], &rule["cost"]["run"]), (&json!(2), &json!(2)));
    rule["cost"].take();
    assert_eq!(
        rule,
        json!({"id": 10, "phase": 2, "file": null, "line": 3, "msg": "An attack in %{MATCHED_VAR_NAME}",
            "paranoia": 2, "tags": ["attack-generic", "paranoia-level/2"], "links": 0, "hits": 2,
            "evidence": {"served": 0, "banned": 0}, "cost": null})
    );
    let rules = told(&service, "/rules?sort=cost").await;
    let sample = &rules["cost_sample"];
    assert_eq!((&sample["one_of"], &sample["exchanges"]), (&json!(1), &json!(2)));
    let percents = rules["rules"].as_array().unwrap().iter();
    let percents: Vec<f64> =
        percents.map(|rule| rule["cost"]["percent"].as_f64().unwrap()).collect();
    assert!(percents.is_sorted_by(|a, b| a >= b) && percents[0] > 0.0, "{percents:?}");
    assert!(percents.iter().sum::<f64>() < 100.5, "{percents:?}");
    // What only looks on has costs of its own.
    assert_eq!(told(&service, "/rules?profile=look").await["cost_sample"]["exchanges"], 1);
    let rule = &told(&service, "/rules?id=9").await["rules"][0];
    assert_eq!((&rule["hits"], &rule["links"]), (&Value::Null, &json!(0)), "it does not log");
    assert_eq!(told(&service, "/rules?id=11").await["rules"][0]["links"], 1);

    let config = told(&service, "/config").await;
    assert_eq!(
        (&config["mode"], &config["block"]["status"], &config["admin"]["address"]),
        (&json!("on"), &json!(451), &json!("127.0.0.1:9101"))
    );
    let config = told(&service, "/config?profile=look").await;
    assert_eq!(
        (&config["profile"], &config["mode"], &config["limits"]["cookies_max"]),
        (&json!("look"), &json!("detection"), &json!(5))
    );
    assert_eq!(config["limits"]["headers_max"], 256);
    let status = told(&service, "/status").await;
    assert_eq!((&status["ready"], &status["last_reload"]), (&json!(true), &Value::Null));
    assert_eq!(status["profiles"][1]["mode"], "detection_only");
    for (path, status, words) in [
        ("/rules?profile=no", 404, "profile"),
        ("/rules?limit=many", 400, "limit"),
        ("/rules?sort=id", 400, "sort: write hits or cost"),
        ("/config?profile=no", 404, "profile"),
        ("/recent/9", 404, "none"),
        ("/recent/a", 404, "none"),
        ("/recent?after=a", 400, "after"),
        ("/explain", 405, "POST"),
        ("/elsewhere", 404, "/rules"),
    ] {
        let (found, body) = ask(service.admin, "GET", path, None).await;
        assert!(found == status && body.contains(words), "{path}: {found} {body}");
    }
    for (method, path) in [("POST", "/recent/9"), ("PUT", "/recent/9"), ("POST", "/status")] {
        let (status, body) = ask(service.admin, method, path, Some("{}")).await;
        assert!(status == 405 && body.contains("GET only"), "{method} {path}: {status} {body}");
    }
}

#[tokio::test]
async fn reloads_are_told() {
    let folder = folder("reloads");
    let service = Service::start_file(&folder.join("config.yaml")).await;
    for (config, error, status) in [
        (CONFIG.replace("451", "452"), "", 452),
        ("rules: [none.conf]".to_owned(), "none.conf", 452),
        (format!("{CONFIG}max_streams: 7\n"), "", 451),
    ] {
        fs::write(folder.join("config.yaml"), config).unwrap();
        eventually(async || {
            let last = told(&service, "/status").await["last_reload"].take();
            let found = last["error"].as_str().unwrap_or_default();
            last["at"].is_number() && found.contains(error) && error.is_empty() == found.is_empty()
        })
        .await;
        // What is not good changes nothing.
        let expected = if error.is_empty() { status } else { 452 };
        assert_eq!(told(&service, "/config").await["block"]["status"], expected);
    }
    let waiting = told(&service, "/status").await["restart_needed"].take();
    assert!(waiting.as_array().unwrap().contains(&json!("max_streams")), "{waiting}");
}

/// What was refused is kept, masked, and can be explained with an exclusion that works.
#[tokio::test]
async fn refused_requests_and_their_stories() {
    let folder = folder("stories");
    let service = Service::start_file(&folder.join("config.yaml")).await;
    let headers = ["user-agent: plain", "authorization: Bearer t0p-secret"];
    let uri = "/shop?q=attack&password=hunter2&x=%3Cimg%20src=x%20onerror=alert(1)%3E";
    exchange(&service, None, &[Sent::get("/", &headers)]).await;
    exchange(&service, None, &[Sent::get(uri, &headers)]).await;
    let form = ["content-type: application/x-www-form-urlencoded", "user-agent: plain"];
    let body = "name=abcdefghijklmnopqrstuvwxyz0123456789";
    exchange(&service, None, &[Sent::post("/form", &form), Sent::body(body, true)]).await;
    eventually(async || told(&service, "/recent").await["last"] == 2).await;
    let recent = told(&service, "/recent").await;
    let first = &recent["requests"][0];
    assert_eq!(
        (&first["number"], &first["method"], &first["rule"], &first["status"], &first["profile"]),
        (&json!(1), &json!("GET"), &json!(10), &json!(451), &json!("default"))
    );
    assert!(!recent.to_string().contains("hunter2"));
    assert_eq!(told(&service, "/recent?after=1").await["requests"].as_array().unwrap().len(), 1);
    for (number, way, directives, place) in [
        (1, "everywhere", "SecRuleUpdateTargetById 10 \"!ARGS:q\"\n", "directives"),
        (2, "on_this_path", "REQUEST_FILENAME \"@streq /form\"", "setup"),
    ] {
        let (_, record) = ask(service.admin, "GET", &format!("/recent/{number}"), None).await;
        assert!(!record.contains("hunter2") && !record.contains("t0p-secret"), "{record}");
        let (status, answer) = ask(service.admin, "POST", "/explain", Some(&record)).await;
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let found = &answer["explanation"]["exclusion"][way];
        assert_eq!(found["passes"], true, "{answer}");
        let text = found["directives"].as_str().unwrap();
        assert!(text.contains(directives), "{text}");
        assert!(answer["text"].as_str().unwrap().contains("It is refused by rule"));
        // It can be written where the page says.
        let mut config: Value = glacis_service::config::document(CONFIG).unwrap();
        let before = config[place].as_str().unwrap_or_default().to_owned();
        config[place] = format!("{before}\n{text}").into();
        let with = folder.join("with.yaml");
        fs::write(&with, config.to_string()).unwrap();
        let with = Service::start_file(&with).await;
        if number == 1 {
            exchange(&with, None, &[Sent::get(uri, &headers)]).await;
        } else {
            exchange(&with, None, &[Sent::post("/form", &form), Sent::body(body, true)]).await;
        }
        counted(&with, "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 1").await;
    }
}

#[tokio::test]
async fn requests_are_explained() {
    let folder = folder("explain");
    let service = Service::start_file(&folder.join("config.yaml")).await;
    let request = r#"{"id": "a", "method": "GET", "uri": "/?q=attack", "protocol": "HTTP/1.1"}"#;
    let large = format!("{{\"id\": \"{}\"}}", "a".repeat(1 << 20));
    for (path, body, status, words) in [
        ("/explain", request, 200, "It is refused by rule 10 in phase 2"),
        ("/explain?profile=look", request, 200, "It passes, as SecRuleEngine is DetectionOnly"),
        ("/explain?all=true", request, 200, "\"id\":9"),
        ("/explain?profile=no", request, 404, "no such profile"),
        ("/explain", "{}", 400, "`id`"),
        ("/explain", "a request", 400, "eval"),
        ("/explain", &*large, 413, "1 MiB"),
    ] {
        let (found, answer) = ask(service.admin, "POST", path, Some(body)).await;
        assert!(found == status && answer.contains(words), "{path}: {found} {answer}");
    }
    // Rules that are not those in use any more are not searched for an exclusion.
    fs::write(folder.join("rules.conf"), format!("{RULES}\nnot SecLang\n")).unwrap();
    let (_, answer) = ask(service.admin, "POST", "/explain", Some(request)).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["explanation"]["exclusion"], Value::Null);
    assert!(answer["text"].as_str().unwrap().contains("no exclusion was looked for"), "{answer}");
    // What changes something is not done by a link.
    let (status, _) = ask(service.admin, "GET", "/log-level?level=debug", None).await;
    let (put, why) = ask(service.admin, "PUT", "/log-level", Some("{\"level\": \"loud\"}")).await;
    assert!(status == 200 && put == 400 && why.contains("debug"), "{why}");
}

/// A profile in detection mode collects what it would block, and proposes exclusions that have been tried.
#[tokio::test]
async fn detection_mode_proposes_exclusions() {
    let folder = folder("proposals");
    let service = Service::start_file(&folder.join("config.yaml")).await;
    for (client, uri) in [
        (1, "/shop/1?q=attack"),
        (2, "/shop/2?q=attack"),
        (2, "/shop/3?q=attack"),
        (3, "/shop/4?q=attack"),
        // A known attack is no evidence.
        (4, "/shop/5?q=attack%27%20OR%20%271%27=%271"),
        (5, "/fine"),
    ] {
        let source = format!("192.0.2.{client}:4711");
        let sent = Sent::get(uri, &["user-agent: plain"]).source(&source);
        exchange(&service, Some("look"), &[sent]).await;
    }
    // What blocks proposes nothing.
    exchange(&service, None, &[Sent::get("/shop/9?q=attack", &["user-agent: plain"])]).await;
    // One of each client is enough: the second request of the second one is not kept.
    let wanted = "/proposals?profile=look&days=1";
    eventually(async || told(&service, wanted).await["requests"] == 4).await;
    let found = told(&service, wanted).await;
    assert_eq!((&found["blocked"], &found["passing"]), (&json!(4), &json!(3)), "{found}");
    let yaml = found["yaml"].as_str().unwrap();
    for part in [
        "rules: [10]",
        "targets: [\"ARGS:q\"]",
        "path: \"/shop/{number}\"",
        "owner: \"\"",
        "evidence: {requests: 3, clients: 3, days: 1}",
    ] {
        assert!(yaml.contains(part), "{part}: {yaml}");
    }
    assert!(found["declined"].to_string().contains("known attack"), "{found}");
    let strict = told(&service, "/proposals?profile=look&days=2").await;
    assert_eq!(strict["exclusions"], 0, "{strict}");
    let none = told(&service, "/proposals").await;
    assert_eq!((&none["requests"], &none["yaml"]), (&json!(0), &json!("exclusions: []\n")));
    for (path, status) in [
        ("/proposals?profile=none", 404),
        ("/proposals?days=x", 400),
        ("/proposals?profile=look", 200),
    ] {
        let (seen, body) = ask(service.admin, "GET", path, None).await;
        assert_eq!(seen, status, "{path}: {body}");
    }
    assert_eq!(ask(service.admin, "POST", "/proposals", Some("{}")).await.0, 405);
}

/// The service checks itself: at the start, and when asked.
#[tokio::test]
async fn the_service_checks_itself() {
    const CONFIG: &str = "
canary_seconds: 0
audit: {stdout: false, redact: false}
rules: [rules.conf]
exclusions:
- {rules: [7], targets: [ARGS:a], path: /a, owner: o, reason: r, expires: never}
- {rules: [8], targets: [ARGS:a], owner: o, reason: r, expires: never}
- {rules: [10], targets: [ARGS:a], path: /a, owner: o, reason: r, expires: 2020-01-31}
";
    let folder = folder("doctor");
    fs::write(folder.join("config.yaml"), CONFIG).unwrap();
    let service = Service::start_file(&folder.join("config.yaml")).await;
    let answer = told(&service, "/doctor?now=true").await;
    let ids = |answer: &Value| -> Vec<String> {
        let findings = answer["findings"].as_array().unwrap();
        findings.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&answer), ["GD104", "GD116", "GD117", "GD118", "GD203", "GD211"], "{answer}");
    assert_eq!(ids(&told(&service, "/doctor").await), ids(&answer));
    let (_, metrics) = ask(service.admin, "GET", "/metrics", None).await;
    for (id, severity, count) in [
        ("GD104", "warning", 1),
        ("GD203", "warning", 1),
        ("GD401", "error", 0),
        ("GD421", "note", 0),
    ] {
        let labels = format!("id=\"{id}\",severity=\"{severity}\"");
        let line = format!("glacis_doctor_finding{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("GD302"), "Envoy's configuration is not known to a service");
}
