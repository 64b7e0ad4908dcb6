//! Evaluations that nobody waits for: what is answered at once, what is found afterwards, and what is counted where
//! there is no room for it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use harness::{Case, Sent, Service, Stream, check, counted, eventually, get};

const FORM: &str = "content-type: application/x-www-form-urlencoded";

const RULES: &str = r#"
    SecRequestBodyAccess On
    SecRule ARGS_GET:q "@contains attack" "id:1,phase:1,deny,status:403,log,auditlog"
    SecRule ARGS:q "@contains attack" "id:2,phase:2,deny,status:403,log,auditlog"
    SecRule RESPONSE_STATUS "@streq 500" "id:3,phase:3,deny,log"
    SecRule ARGS:slow "@rx ^(a|aa)+\1b$" "id:4,phase:2,deny"
"#;

const OF_RESPONSES: &str = r#"
    SecRequestBodyAccess On
    SecResponseBodyAccess On
    SecResponseBodyMimeType text/html
    SecRule ARGS:q "@contains attack" "id:1,phase:2,deny,log"
    SecRule RESPONSE_BODY "@contains secret" "id:2,phase:4,deny,log"
"#;

const ASKED: &str = "request_headers observed/later mode=detection_only \
                     override=STREAMED,SKIP,NONE,request_trailers";
const PASSED: &str = "request_headers observed/later mode=detection_only";
const BODY: &str = "request_body observed/later mode=detection_only";
const TRAILERS: &str = "request_trailers observed/later mode=detection_only";

const fn case<'a>(name: &'a str, steps: &'a [(Sent<'a>, &'a str)]) -> Case<'a> {
    Case { name, config: "evaluation: out_of_band\n", rules: RULES, steps }
}

#[tokio::test]
async fn answers_come_at_once() {
    const ASKED_ALL: &str = "request_headers observed/later mode=detection_only \
                             override=STREAMED,SEND,NONE,request_trailers";
    const RESPONSE_ASKED: &str = "response_headers observed/later mode=detection_only \
                                  override=NONE,SEND,STREAMED,response_trailers";
    const BOTH_ASKED: &str = "response_headers observed/later mode=detection_only \
                              override=STREAMED,SEND,STREAMED,request_trailers,response_trailers";
    const RESPONSE_BODY: &str = "response_body observed/later mode=detection_only";
    let post = || Sent::post("/", &[FORM]);
    let html = || Sent::response(200, &["content-type: text/html"]);
    let of_responses = |name, steps| Case {
        config: "evaluation: out_of_band\nresponse: full\n",
        rules: OF_RESPONSES,
        ..case(name, steps)
    };
    for case in [
        case("no body", &[(Sent::get("/?q=attack", &[]), PASSED)]),
        case(
            "a body in pieces",
            &[(post(), ASKED), (Sent::body("q=at", false), BODY), (Sent::body("tack", true), BODY)],
        ),
        case(
            "trailers",
            &[
                (post(), ASKED),
                (Sent::body("q=attack", false), BODY),
                (Sent::RequestTrailers(&[]), TRAILERS),
            ],
        ),
        case(
            "configured otherwise",
            &[(post().modes("BUFFERED", "NONE"), PASSED), (Sent::body("q=attack", true), BODY)],
        ),
        case(
            "given away",
            &[
                (post().modes("FULL_DUPLEX_STREAMED", "NONE"), PASSED),
                (Sent::body("q=at", false), "request_body back=q=at"),
                (Sent::body("tack", true), "request_body back=tack end"),
            ],
        ),
        case(
            "messages of gRPC",
            &[(
                Sent::post("/", &["content-type: application/grpc", "te: trailers"])
                    .protocol("HTTP/2"),
                PASSED,
            )],
        ),
        case("the end", &[(post(), ASKED), (Sent::End, "end")]),
        Case {
            config: "evaluation: out_of_band\nresponse: headers\n",
            ..case(
                "a response",
                &[
                    (
                        Sent::get("/", &[]),
                        "request_headers observed/later mode=detection_only override=NONE,SEND,NONE",
                    ),
                    (
                        Sent::response(500, &[]),
                        "response_headers observed/later mode=detection_only",
                    ),
                ],
            )
        },
        of_responses(
            "a response behind the request's body",
            &[
                (post(), ASKED_ALL),
                (Sent::body("q=fine", true), BODY),
                (html(), RESPONSE_ASKED),
                (Sent::response_body("a sec", false), RESPONSE_BODY),
                (Sent::response_body("ret", true), RESPONSE_BODY),
            ],
        ),
        of_responses(
            "a response before the end of the request's body",
            &[(post(), ASKED_ALL), (Sent::body("q=fi", false), BODY), (html(), BOTH_ASKED)],
        ),
        of_responses(
            "no body of a request",
            &[
                (
                    Sent::get("/", &[]),
                    "request_headers observed/later mode=detection_only override=NONE,SEND,NONE",
                ),
                (html(), RESPONSE_ASKED),
            ],
        ),
        Case {
            config: "mode: off\nevaluation: out_of_band\n",
            ..case("off", &[(post(), "request_headers allow/none uninspected=engine_off")])
        },
    ] {
        check(&case).await;
    }
}

/// Sends a request and does not wait for anything.
async fn send(service: &Service, steps: &[Sent<'_>]) {
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    for sent in steps {
        stream.send(sent).await;
        if !matches!(sent, Sent::End) {
            stream.answer().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_found_afterwards() {
    let audit = std::env::temp_dir().join(format!("glacis-out-of-band-{}", std::process::id()));
    let config = format!(
        "evaluation: out_of_band\nresponse: headers\naudit: {{file: {}}}\n\
         directives: SecAuditEngine RelevantOnly\n",
        audit.display()
    );
    let service = Service::start(&config, RULES).await;
    let (post, body) = (Sent::post("/", &[FORM]), Sent::body);
    send(&service, &[Sent::get("/?q=attack", &[]), Sent::response(200, &[])]).await;
    send(&service, &[post, body("q=at", false), body("tack", true), Sent::response(500, &[])])
        .await;
    for line in [
        "glacis_requests_total{profile=\"default\",verdict=\"observed\"} 2",
        "glacis_requests_total{profile=\"default\",verdict=\"none\"} 0",
        // In detection all rules are run.
        "glacis_rule_matches_total{rule_id=\"1\"} 1",
        "glacis_rule_matches_total{rule_id=\"2\"} 2",
        "glacis_rule_matches_total{rule_id=\"3\"} 1",
        "glacis_out_of_band_waiting 0",
        "glacis_out_of_band_bytes_held 0",
    ] {
        counted(&service, line).await;
    }
    let mut records = String::new();
    eventually(async || {
        records = std::fs::read_to_string(&audit).unwrap_or_default();
        records.lines().count() == 2
    })
    .await;
    std::fs::remove_file(&audit).unwrap();
    assert_eq!(records.matches(r#""action":"observed""#).count(), 2, "{records}");
    assert_eq!(records.matches(r#""mode":"detection_only""#).count(), 2, "{records}");
}

/// Envoy does not wait, and the profile does not expect it to.
#[tokio::test(flavor = "multi_thread")]
async fn observability_mode_is_expected() {
    let service = Service::start("evaluation: out_of_band\n", RULES).await;
    let post = Sent::post("/", &[FORM]).modes("STREAMED", "NONE").observed().source("192.0.2.7:80");
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&post).await;
    for (text, end) in [("q=at", false), ("tack", true)] {
        stream.messages.as_ref().unwrap().send(observed(text, end)).await.unwrap();
    }
    // It is evaluated as soon as it is there, not when the stream ends.
    counted(&service, "glacis_rule_matches_total{rule_id=\"2\"} 1").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"observed\"} 1").await;
    for kind in ["observability_mode", "streamed_body", "no_protocol_config", "no_client_address"] {
        counted(&service, &format!("glacis_alarms_total{{kind=\"{kind}\"}} 0")).await;
    }
}

fn observed(
    text: &str,
    end: bool,
) -> envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest {
    let mut message = Sent::body(text, end).message();
    message.observability_mode = true;
    message
}

/// What there is no room for is not evaluated, is counted, and is answered as fast as ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_left_out() {
    let slow = format!("slow={}cb", "a".repeat(60));
    let config = "evaluation: out_of_band\nout_of_band_queue_max: 1\n\
                  limits: {backtrack_steps_max: 30000000}\n";
    let service = Service::start(config, RULES).await;
    for _ in 0..5 {
        send(&service, &[Sent::post("/", &[FORM]), Sent::body(&slow, true)]).await;
    }
    // One is evaluated, and one waits at the most: the thread may have taken none yet, or one.
    let mut dropped = 0.0;
    eventually(async || {
        dropped = value(&service, "glacis_out_of_band_dropped_total{reason=\"queue\"}").await;
        dropped >= 3.0
    })
    .await;
    let uninspected = "glacis_uninspected_total{reason=\"not_evaluated\"}";
    assert!((value(&service, uninspected).await - dropped).abs() < 0.5);
    counted(&service, "glacis_out_of_band_waiting 0").await;
    counted(
        &service,
        &format!(
            "glacis_requests_total{{profile=\"default\",verdict=\"observed\"}} {}",
            5.0 - dropped
        ),
    )
    .await;
    counted(
        &service,
        &format!("glacis_requests_total{{profile=\"default\",verdict=\"none\"}} {dropped}"),
    )
    .await;

    let config = "evaluation: out_of_band\nout_of_band_bytes_max: 4000\n";
    let service = Service::start(config, RULES).await;
    let long = format!("q={}", "a".repeat(5_000));
    send(&service, &[Sent::post("/", &[FORM]), Sent::body(&long, true)]).await;
    counted(&service, "glacis_out_of_band_dropped_total{reason=\"room\"} 1").await;
    send(&service, &[Sent::post("/", &[FORM]), Sent::body("q=attack", true)]).await;
    counted(&service, "glacis_rule_matches_total{rule_id=\"2\"} 1").await;
    counted(&service, "glacis_out_of_band_dropped_total{reason=\"room\"} 1").await;
    counted(&service, "glacis_out_of_band_bytes_held 0").await;

    // A shadow misses what there is no room for, and says so.
    let config = "out_of_band_bytes_max: 100\nshadow: {profile: next, percent: 100}\n\
                  profiles: {next: {directives: SecRuleEngine On}}\n";
    let service = Service::start(config, RULES).await;
    send(&service, &[Sent::get("/?q=fine", &[])]).await;
    counted(&service, "glacis_shadow_dropped_total{profile=\"default\"} 1").await;
    counted(&service, "glacis_out_of_band_dropped_total{reason=\"room\"} 1").await;
}

/// What is written down is held until it has been evaluated.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_said() {
    let service = Service::start("evaluation: out_of_band\n", RULES).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    for sent in [Sent::post("/", &[FORM]), Sent::body(&"a".repeat(5_000), false)] {
        stream.send(&sent).await;
        stream.answer().await;
    }
    eventually(async || value(&service, "glacis_out_of_band_bytes_held").await > 5_000.0).await;
    drop(stream);
    counted(&service, "glacis_out_of_band_bytes_held 0").await;
}

async fn value(service: &Service, name: &str) -> f64 {
    let text = get(service.admin, "/metrics").await.1;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or("0").parse().unwrap()
}

/// A body beyond what is inspected is evaluated as far as it goes, and that is said.
#[tokio::test(flavor = "multi_thread")]
async fn long_bodies_are_cut() {
    let config = "evaluation: out_of_band\nrequest_body_bytes_max: 10\noversized_body: partial\n";
    let service = Service::start(config, RULES).await;
    send(&service, &[Sent::post("/", &[FORM]), Sent::body("q=attack&r=", false), Sent::End]).await;
    counted(&service, "glacis_rule_matches_total{rule_id=\"2\"} 1").await;
    counted(&service, "glacis_uninspected_total{reason=\"body_truncated\"} 1").await;
}

/// A few rules in band, others out of band, on the same request.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_ruleset_out_of_band() {
    let config = "out_of_band_profile: wide\nprofiles:\n  wide:\n    out_of_band_profile: null\n    \
                  directives: |\n      SecRequestBodyAccess On\n      \
                  SecRule ARGS \"@contains union\" \"id:20,phase:2,deny,log\"\n";
    let rules = r#"
        SecRequestBodyAccess Off
        SecRule REQUEST_HEADERS:x-patch "@streq 1" "id:10,phase:1,deny,status:403,log"
    "#;
    let service = Service::start(config, rules).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    // In band no body is wanted: nothing waits for it, and it is seen all the same.
    stream.send(&Sent::post("/", &[FORM])).await;
    let asked = "request_headers allow/headers uninspected=body_not_wanted \
                 override=STREAMED,SKIP,NONE,request_trailers";
    assert_eq!(stream.answer().await, asked);
    stream.send(&Sent::body("q=union", true)).await;
    assert!(stream.answer().await.starts_with("request_body allow/headers"));
    counted(&service, "glacis_rule_matches_total{rule_id=\"20\"} 1").await;
    counted(&service, "glacis_requests_total{profile=\"wide\",verdict=\"observed\"} 1").await;
    // What is refused in band is looked at too.
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/?q=union", &["x-patch: 1"])).await;
    assert!(stream.answer().await.starts_with("immediate 403"));
    counted(&service, "glacis_rule_matches_total{rule_id=\"20\"} 2").await;
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 1").await;
}

const SHADOW: &str = "shadow: {profile: next, percent: 100}
profiles:
  next:
    directives: |
      SecRuleUpdateTargetById 2 \"!ARGS:r\"
      SecRuleRemoveById 1
      SecRule ARGS:q \"@contains new\" \"id:5,phase:2,deny,status:403,log\"
";

/// Both rulesets evaluate what has been answered, and where they differ it is counted by rule.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_is_compared() {
    let rules = r#"
        SecRequestBodyAccess On
        SecRule ARGS_GET:p "@contains old" "id:1,phase:1,deny,status:403,log"
        SecRule ARGS "@contains attack" "id:2,phase:2,deny,status:403,log"
        SecRule ARGS:note "@contains x" "id:3,phase:2,pass,log"
    "#;
    // The same directives for both, as `directives` of a profile takes the place of those above.
    let config = SHADOW.replace("directives: |\n", &format!("directives: |\n{}", indented(rules)));
    let service = Service::start(&config, rules).await;
    let post = || Sent::post("/", &[FORM]);
    send(&service, &[Sent::get("/", &[])]).await;
    send(&service, &[post(), Sent::body("q=attack", true)]).await;
    send(&service, &[post(), Sent::body("q=new", true)]).await;
    send(&service, &[post(), Sent::body("r=attack", true)]).await;
    send(&service, &[Sent::get("/?p=old", &[])]).await;
    // Refused before its body has come: the shadow cannot say.
    send(&service, &[Sent::post("/?p=old", &[FORM])]).await;
    let result = |result: &str, count: u32| {
        format!(
            "glacis_shadow_requests_total{{profile=\"default\",shadow=\"next\",result=\"{result}\"}} {count}"
        )
    };
    let rule = |only: &str, id: &str, count: u32| {
        format!(
            "glacis_shadow_rule_differences_total{{profile=\"default\",only=\"{only}\",rule_id=\"{id}\"}} {count}"
        )
    };
    for line in [
        result("agreed", 2),
        result("would_block", 1),
        result("would_pass", 2),
        result("incomplete", 1),
        rule("shadow", "5", 1),
        rule("current", "2", 1),
        rule("current", "1", 1),
        "glacis_shadow_dropped_total{profile=\"default\"} 0".to_owned(),
        // What the shadow finds is not found.
        "glacis_requests_total{profile=\"default\",verdict=\"observed\"} 0".to_owned(),
        "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 2".to_owned(),
        "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 4".to_owned(),
    ] {
        counted(&service, &line).await;
    }
}

fn indented(rules: &str) -> String {
    rules.lines().map(|line| format!("      {}\n", line.trim())).collect()
}
