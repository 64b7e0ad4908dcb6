//! Profiles over a real gRPC connection: how one is chosen, what it may have of its own, and what
//! becomes of exclusions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use harness::{Sent, Service, Stream, get};

const RULES: &str = r#"
    SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log,msg:'found'"
    SecRule ARGS "@contains probe" "id:2,phase:2,deny,status:403,log,msg:'probe'"
"#;

const CONFIG: &str = r#"
profiles:
  look:
    mode: detection
  out:
    mode: off
  none:
    sample_percent: 0
  other:
    directives: SecRule ARGS "@contains other" "id:9,phase:2,deny,status:409,log"
  page:
    block: {status: 451, body: "gone {request_id}"}
routes:
  checkout: other
"#;

const DENIED: &str = "immediate 403 glacis_deny_rule_1 deny/headers rules=1";
const PASSED: &str = "request_headers allow/headers";

/// What becomes of a request for `/?q=QUERY` on a stream that names a profile, or on a route.
async fn answer(service: &Service, profile: Option<&str>, sent: Sent<'_>) -> String {
    let mut stream = Stream::open_with(service.channel().await, profile).await.unwrap();
    stream.send(&sent).await;
    stream.answer().await
}

#[tokio::test]
async fn each_profile_has_its_own_way() {
    let service = Service::start(CONFIG, RULES).await;
    let attack = || Sent::get("/?q=attack", &[]);
    for (profile, sent, expected) in [
        (None, attack(), DENIED),
        (Some("default"), attack(), DENIED),
        (Some("look"), attack(), "request_headers allow/headers rules=1 mode=detection_only"),
        (Some("out"), attack(), "request_headers allow/none uninspected=engine_off"),
        (Some("none"), attack(), "request_headers allow/none uninspected=not_sampled"),
        (Some("other"), attack(), PASSED),
        (
            Some("other"),
            Sent::get("/?q=other", &[]),
            "immediate 409 glacis_deny_rule_9 deny/headers rules=9",
        ),
        (
            Some("page"),
            attack(),
            "immediate 451 glacis_deny_rule_1 deny/headers rules=1 body=gone request-1",
        ),
        // By the route's name, which what came with the stream takes precedence over.
        (None, attack().attribute("xds.route_name", "checkout"), PASSED),
        (None, attack().attribute("xds.route_name", "elsewhere"), DENIED),
        (Some("default"), attack().attribute("xds.route_name", "checkout"), DENIED),
        (None, attack().attribute(METADATA, "other"), PASSED),
        (
            None,
            attack().attribute(METADATA, "default").attribute("xds.route_name", "checkout"),
            DENIED,
        ),
        // A client's header is none of these.
        (None, Sent::get("/?q=attack", &["glacis-profile: out"]), DENIED),
    ] {
        assert_eq!(answer(&service, profile, sent).await, expected, "{profile:?}");
    }
    let (_, metrics) = get(service.admin, "/metrics").await;
    assert!(metrics.contains("glacis_unknown_profiles_total 0\n"), "{metrics}");
    // Those that differ only in how rules are applied have the same rules.
    let hash = |profile: &str| {
        let end = format!("profile=\"{profile}\"}} 1");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("glacis_ruleset_info{") && line.ends_with(&end))
            .unwrap_or_else(|| panic!("{metrics}"));
        line.split('"').nth(1).unwrap().to_owned()
    };
    assert_eq!(hash("default"), hash("look"));
    assert_ne!(hash("default"), hash("other"));
}

const METADATA: &str = "xds.route_metadata.filter_metadata.glacis.profile";

#[tokio::test]
async fn an_unknown_profile_is_counted_and_decided() {
    for (policy, expected) in [("default", DENIED), ("refuse", "error FailedPrecondition")] {
        let service = Service::start(&format!("unknown_profile: {policy}\n{CONFIG}"), RULES).await;
        let attack = || Sent::get("/?q=attack", &[]);
        for (profile, sent) in [
            (Some("lok"), attack()),
            (Some(""), attack()),
            (None, attack().attribute(METADATA, "lok")),
        ] {
            assert_eq!(answer(&service, profile, sent).await, expected, "{policy}, {profile:?}");
        }
        let (_, metrics) = get(service.admin, "/metrics").await;
        assert!(metrics.contains("glacis_unknown_profiles_total 3\n"), "{metrics}");
    }
}

#[tokio::test]
async fn exclusions_end() {
    let exclusion = "exclusions: [{rules: [1], owner: o, reason: r, expires: DATE}]\n";
    const OTHER: &str = "immediate 403 glacis_deny_rule_2 deny/headers rules=2";
    for (expires, late, expected, state) in [
        ("never", "drop", PASSED, "valid"),
        ("2026-11-21", "drop", PASSED, "valid"),
        ("2026-11-20", "drop", DENIED, "expired"),
        ("2026-11-20", "apply", PASSED, "expired"),
    ] {
        let config = exclusion.replace("DATE", expires) + &format!("expired_exclusions: {late}\n");
        let service = Service::start(&config, RULES).await;
        let found = answer(&service, None, Sent::get("/?q=attack", &[])).await;
        assert_eq!(found, expected, "{expires}, {late}");
        let found = answer(&service, None, Sent::get("/?q=probe", &[])).await;
        assert_eq!(found, OTHER, "{expires}, {late}");
        let (_, metrics) = get(service.admin, "/metrics").await;
        let line = format!("glacis_exclusions{{profile=\"default\",state=\"{state}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

/// The typed settings of CRS stand behind `setup` and before the rules: the later one counts.
#[tokio::test]
async fn typed_settings() {
    let rules = r#"
        SecRule TX:blocking_paranoia_level "@streq 3" "id:1,phase:1,deny,status:403"
        SecRule TX:inbound_anomaly_score_threshold "@streq 7" "id:2,phase:1,deny,status:407"
    "#;
    let setup =
        "setup: SecAction \"id:5,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=1\"\n";
    for (config, expected) in [
        ("", PASSED),
        ("paranoia: 3\n", "immediate 403 glacis_deny_rule_1 deny/headers rules=1"),
        ("inbound_threshold: 7\n", "immediate 407 glacis_deny_rule_2 deny/headers rules=2"),
    ] {
        let service = Service::start(&format!("{setup}{config}"), rules).await;
        assert_eq!(answer(&service, None, Sent::get("/", &[])).await, expected, "{config}");
    }
}

/// How large a body may be, and what becomes of a larger one, differ from profile to profile.
#[tokio::test]
async fn body_limits() {
    let config = r#"
request_body_bytes_max: 10
envoy_buffer_bytes: 0
profiles:
  part: {oversized_body: partial}
  pass: {oversized_body: pass}
  more: {request_body_bytes_max: 100}
"#;
    let service = Service::start(config, RULES).await;
    let form = "content-type: application/x-www-form-urlencoded";
    let long = "q=attack&r=0123456789";
    let refused = "immediate 413 glacis_reject_body_too_large reject/partial";
    let passed = "request_body allow/partial uninspected=body_truncated";
    let found = "immediate 403 glacis_deny_rule_1 deny/partial uninspected=body_truncated rules=1";
    for (profile, body, end, expected) in [
        ("default", long, true, refused),
        ("part", long, true, found),
        ("part", "q=fine&r=0123456789", true, passed),
        ("part", "q=attack", false, found),
        ("more", long, true, "immediate 403 glacis_deny_rule_1 deny/body rules=1"),
        // Its size was not announced; the beginning is looked at, as it is there.
        ("pass", long, true, found),
        // Envoy's buffer was too small for it: nothing of it is looked at.
        ("pass", "q=attack", false, "request_body allow/headers uninspected=body_too_large"),
        ("pass", "q=attack", true, "immediate 403 glacis_deny_rule_1 deny/body rules=1"),
    ] {
        let channel = service.channel().await;
        let mut stream = Stream::open_with(channel, Some(profile)).await.unwrap();
        stream.send(&Sent::post("/", &[form])).await;
        assert!(stream.answer().await.starts_with("request_headers pending"), "{profile}");
        stream.send(&Sent::body(body, end)).await;
        let answer = stream.answer().await;
        assert!(answer.starts_with(expected), "{profile} {body} {end}: {answer}");
    }
    // With an announced size it is not even asked for, and the rest of the request is looked at.
    for (query, expected) in [
        ("fine", "request_headers allow/headers uninspected=body_too_large"),
        (
            "attack",
            "immediate 403 glacis_deny_rule_1 deny/headers uninspected=body_too_large rules=1",
        ),
    ] {
        let (path, length) = (format!("/?q={query}"), "content-length: 21");
        let sent = Sent::post(&path, &[form, length]);
        assert_eq!(answer(&service, Some("pass"), sent).await, expected);
    }
}
