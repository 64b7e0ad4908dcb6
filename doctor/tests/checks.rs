//! Each check finds what it is for in an installation that is healthy otherwise, and nothing in the healthy one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]
#![allow(clippy::disallowed_methods, reason = "the test compares a document")]

use std::{collections::BTreeSet, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_doctor::{
    CHECKS, Engine, Envoy, Evidence, FINDINGS_MAX, Finding, LoadedRules, Metrics, Refused, Service,
    Settings, examine, reference,
};
use glacis_engine::{Input, Limits, NoFiles, Program};
use serde_json::{Value, json};

/// 2026-11-23, noon.
const NOW: u64 = 20_780 * 86_400 + 43_200;
const DAY: u64 = 86_400;

/// The native module as a filter.
fn native() -> Value {
    json!({"name": "glacis", "typed_config": {
        "@type": "type.googleapis.com/envoy.DynamicModuleFilter", "dynamic_module_config": {"name": "glacis"},
    }})
}

/// What is examined, all of it.
struct Installation {
    now: u64,
    changed: u64,
    settings: Value,
    certificate_ends: u64,
    rules: Vec<LoadedRules>,
    refused: Option<Refused>,
    envoy: Value,
    status: Value,
    metrics: String,
    rules_differ: bool,
    other: Option<Value>,
}

fn healthy() -> Installation {
    let rules = r#"SecRule ARGS "@rx union" "id:942100,phase:2,deny,tag:OWASP_CRS,tag:attack-sqli,ver:OWASP_CRS/4.25.0""#;
    Installation {
        now: NOW,
        changed: NOW - 365 * DAY,
        settings: json!({
            "mode": "on", "crs": "crs", "envoy_buffer_bytes": 13_107_200,
            "listen": {"tls": {"certificate": "tls.crt"}},
            "admin": {"address": "127.0.0.1:9101"},
            "exclusions": [{
                "rules": [942_100, "942200-942299"], "targets": ["ARGS:comment"], "path": "/wiki/",
                "owner": "o", "reason": "r", "expires": "2027-06-30",
            }],
            "profiles": {"api": {"paranoia": 3}},
        }),
        certificate_ends: NOW + 60 * DAY,
        rules: ["default", "api"].map(|name| loaded(name, rules)).to_vec(),
        refused: None,
        envoy: json!({
            "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 9901}}},
            "static_resources": {
                "listeners": [{"filter_chains": [{"filters": [{"typed_config": {
                    "@type": "type.googleapis.com/envoy.HttpConnectionManager",
                    "stat_prefix": "web",
                    "http_filters": [ext_proc(), guard(), {"name": "router"}],
                    "route_config": {"virtual_hosts": [{"domains": ["*"], "routes": [
                        {"name": "all", "route": {"cluster": "app"}, "request_body_buffer_limit": 13_107_200},
                        {"name": "gone", "direct_response": {"status": 410}},
                    ]}]},
                }}]}]}],
                "clusters": [{
                    "name": "glacis", "connect_timeout": "1s", "health_checks": [{"grpc_health_check": {}}],
                    "outlier_detection": {}, "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
                    "typed_extension_protocol_options": {"o": {"explicit_http_config": {"http2_protocol_options": {}}}},
                    "circuit_breakers": {"thresholds": [{"max_requests": 8192}]},
                }],
            },
        }),
        status: json!({
            "version": "1", "ready": true, "causes": {}, "last_reload": {"at": 1, "error": null}, "restart_needed": [],
            "started": NOW - 2 * 3_600, "profiles": [{"name": "default", "ruleset": "a"}],
        }),
        metrics: "glacis_requests_total{profile=\"default\",verdict=\"allow\"} 1000\n\
                  glacis_store_connected{store=\"bans\"} 1\nprocess_open_fds 80\nprocess_max_fds 100\n\
                  glacis_uninspected_total{reason=\"body_truncated\"} 10\n\
                  glacis_uninspected_total{reason=\"body_not_wanted\"} 900\n\
                  glacis_limits_hit_total{limit=\"arguments_max\"} 10\n\
                  glacis_truncated_bodies_total{message=\"request\"} 10\n\
                  glacis_truncated_bodies_total{message=\"response\"} 900\n\
                  glacis_rejected_total{reason=\"late\"} 10\n\
                  glacis_rule_matches_total{rule_id=\"1\"} 100\n\
                  glacis_rule_evidence_total{rule_id=\"1\",of=\"served\"} 89\n\
                  glacis_rule_matches_total{rule_id=\"2\"} 49\n\
                  glacis_rule_evidence_total{rule_id=\"2\",of=\"served\"} 49\n\
                  glacis_rule_evidence_total{rule_id=\"1\",of=\"banned\"} 100\n\
                  glacis_alarms_total{kind=\"observability_mode\"} 0\n# EOF\n"
            .to_owned(),
        rules_differ: false,
        other: None,
    }
}

fn ext_proc() -> Value {
    json!({"name": "p", "typed_config": {
        "@type": "type.googleapis.com/envoy.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "glacis"}},
        "processing_mode": {"request_header_mode": "SEND", "request_body_mode": "NONE"},
        "allow_mode_override": true, "message_timeout": "1s",
        "request_attributes": ["source.address"],
        "metadata_options": {"receiving_namespaces": {"untyped": ["glacis"]}},
    }})
}

fn guard() -> Value {
    json!({"name": "g", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": {"policies": {"p": {"principals": [{"sourced_metadata": {"metadata_matcher": {
            "filter": "glacis", "path": [{"key": "verdict"}], "value": {"string_match": {"exact": "allow"}},
        }}}]}}},
    }})
}

fn loaded(profile: &str, rules: &str) -> LoadedRules {
    let input =
        Input::Text { name: "own.conf".to_owned(), text: format!("SecRuleEngine On\n{rules}\n") };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    LoadedRules { threshold: Some(19), ..LoadedRules::of(profile, &program, None) }
}

impl Installation {
    fn examine(&self) -> Vec<Finding> {
        let document = self.settings.as_object().unwrap().clone();
        let mut settings = Settings::new(document, Some(self.changed));
        let files: Vec<String> =
            settings.certificate_files().into_iter().map(str::to_owned).collect();
        for file in files {
            settings.add_certificate(&file, &certificate(self.certificate_ends));
        }
        let envoy = Envoy::new(vec![self.envoy.clone()]);
        let service = |name: &str, status: &Value| Service {
            name: name.to_owned(),
            status: status.clone(),
            metrics: Some(Metrics::read(&self.metrics)),
            rules_differ: self.rules_differ,
        };
        let mut services = vec![service("one", &self.status)];
        services.extend(self.other.as_ref().map(|other| service("other", other)));
        examine(&Evidence {
            now: self.now,
            settings: Some(&settings),
            rules: &self.rules,
            crs_tested: Some("4.25.0"),
            refused: self.refused.as_ref(),
            envoy: Some(&envoy),
            services: &services,
        })
    }

    fn set(&mut self, pointer: &str, value: Value) {
        set(&mut self.settings, pointer, value);
    }

    fn filters(&mut self) -> &mut Vec<Value> {
        let pointer =
            "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
        self.envoy.pointer_mut(pointer).unwrap().as_array_mut().unwrap()
    }

    /// A key of the ext_proc filter; `null` removes it.
    fn filter(&mut self, key: &str, value: Value) {
        put(&mut self.filters()[0]["typed_config"], key, value);
    }

    /// A key of the cluster; `null` removes it.
    fn cluster(&mut self, key: &str, value: Value) {
        put(&mut self.envoy["static_resources"]["clusters"][0], key, value);
    }

    fn route(&mut self) -> &mut Value {
        let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
        let route = format!("{manager}/route_config/virtual_hosts/0/routes/0");
        self.envoy.pointer_mut(&route).unwrap()
    }

    fn counted(&mut self, sample: &str) {
        self.metrics.push_str(sample);
        self.metrics.push('\n');
    }
}

fn put(object: &mut Value, key: &str, value: Value) {
    let object = object.as_object_mut().unwrap();
    if value.is_null() {
        object.remove(key)
    } else {
        object.insert(key.to_owned(), value)
    };
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let mut place = document;
    for name in pointer.split('/').skip(1) {
        place = match name.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => place.as_object_mut().unwrap().entry(name).or_insert(json!({})),
        };
    }
    *place = value;
}

/// A certificate that ends then.
fn certificate(ends: u64) -> String {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let day = glacis_engine::civil_date(ends / DAY);
    params.not_after = rcgen::date_time_ymd(i32::try_from(day.year).unwrap(), day.month, day.day);
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let text = STANDARD.encode(certificate.der());
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

type Row = (&'static str, fn(&mut Installation));

const CONFIGURATION: &[Row] = &[
    ("GD101", |it| {
        it.rules[0].engine = Engine::Detection;
        it.changed = NOW - 14 * DAY;
        it.status["started"] = json!(NOW - 13 * DAY);
    }),
    ("GD102", |it| it.rules[0].engine = Engine::Off),
    ("GD103", |it| it.set("/sample_percent", json!(99))),
    ("GD104", |it| it.set("/exclusions/0/expires", json!("2026-11-22"))),
    ("GD105", |it| it.set("/exclusions/0/expires", json!("2026-12-07"))),
    ("GD106", |it| {
        let broad = json!({"rules": [942_100], "owner": "o", "reason": "r", "expires": "never"});
        it.settings["exclusions"].as_array_mut().unwrap().push(broad);
    }),
    ("GD107", |it| it.set("/exclusions", json!([]))),
    ("GD108", |it| it.set("/oversized_body", json!("partial"))),
    ("GD109", |it| it.set("/body_overflow", json!("pass"))),
    ("GD110", |it| it.set("/late", json!("fail"))),
    ("GD111", |it| it.set("/admin/address", json!("0.0.0.0:9101"))),
    ("GD112", |it| {
        it.set("/admin/address", json!("[::]:9101"));
        it.set("/admin/token_file", json!("token"));
    }),
    ("GD113", |it| it.set("/listen/tcp", json!("0.0.0.0:9001"))),
    ("GD114", |it| it.certificate_ends = NOW - DAY),
    ("GD115", |it| it.certificate_ends = NOW + 20 * DAY),
    ("GD116", |it| it.set("/audit/stdout", json!(false))),
    ("GD117", |it| it.set("/audit/redact", json!(false))),
    ("GD118", |it| it.set("/canary_seconds", json!(0))),
    ("GD119", |it| it.set("/reload_seconds", json!(0))),
    ("GD120", |it| it.set("/body_bytes_max", json!(26_214_300))),
    ("GD121", |it| it.set("/deadline_ms", json!(0))),
];

const RULES: &[Row] = &[
    ("GD201", |it| {
        let (profile, error) = ("default".to_owned(), "a.conf:1: no operator".to_owned());
        it.refused = Some(Refused { profile, error });
    }),
    ("GD202", |it| it.rules[0].rules = 0),
    ("GD203", |it| it.rules[0].tags.clear()),
    ("GD204", |it| it.rules[0].crs_versions = BTreeSet::from(["4.9.1".to_owned()])),
    ("GD205", |it| it.rules[0].crs_versions = BTreeSet::from(["4.25.1".to_owned()])),
    ("GD206", |it| it.rules[0].crs_versions = ["4.0.0", "4.25.0"].map(str::to_owned).into()),
    ("GD207", |it| {
        let late = r#"SecAction "id:901100,phase:1,pass,nolog,setvar:tx.a=1"
            SecRule ARGS "@rx union" "id:942100,phase:2,deny,tag:OWASP_CRS,ver:OWASP_CRS/4.25.0"
            SecAction "id:7,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=2""#;
        it.rules[0] = loaded("default", late);
    }),
    ("GD208", |it| it.rules[0].warnings = vec!["own.conf:1: no effect".to_owned()]),
    ("GD209", |it| it.rules[0].threshold = Some(20)),
    ("GD210", |it| it.rules[0].canary_passes = true),
    ("GD211", |it| {
        let warning = "exclusions:2: ctl:ruleRemoveTargetById=7;ARGS:a selects no rule";
        it.rules[0].warnings = vec![warning.to_owned()];
    }),
];

const ENVOY: &[Row] = &[
    ("GD301", |it| it.filters().clear()),
    ("GD302", |it| it.cluster("health_checks", Value::Null)),
    ("GD303", |it| it.cluster("outlier_detection", Value::Null)),
    ("GD304", |it| it.cluster("common_lb_config", Value::Null)),
    ("GD305", |it| it.cluster("typed_extension_protocol_options", Value::Null)),
    ("GD306", |it| it.filter("allow_mode_override", Value::Null)),
    ("GD306", |it| it.filter("allowed_override_modes", json!([{"request_body_mode": "NONE"}]))),
    ("GD307", |it| it.filter("processing_mode", json!({"request_body_mode": "STREAMED"}))),
    ("GD308", |it| it.filter("observability_mode", json!(true))),
    ("GD309", |it| it.filter("message_timeout", json!("0.4s"))),
    ("GD309", |it| it.filter("message_timeout", Value::Null)),
    ("GD310", |it| drop(it.filters().remove(1))),
    ("GD310", |it| put(&mut it.filters()[1]["typed_config"], "rules", Value::Null)),
    ("GD311", |it| {
        it.filters().remove(1);
        it.filter("failure_mode_allow", json!(true));
    }),
    ("GD312", |it| it.filter("metadata_options", Value::Null)),
    ("GD313", |it| it.filter("request_attributes", json!(["request.protocol"]))),
    ("GD314", |it| it.filters().swap(0, 1)),
    ("GD315", |it| it.set("/request_body_bytes_max", json!(13_107_201))),
    ("GD316", |it| it.set("/envoy_buffer_bytes", json!(13_107_201))),
    ("GD317", |it| it.cluster("circuit_breakers", Value::Null)),
    ("GD318", |it| {
        it.route()["typed_per_filter_config"] =
            json!({"p": {"@type": "type.googleapis.com/envoy.ExtProcPerRoute", "disabled": true}});
    }),
    ("GD319", |it| {
        set(&mut it.envoy, "/admin/address/socket_address/address", json!("0.0.0.0"));
    }),
    ("GD320", |it| {
        it.filters()[0] = native();
        it.envoy["node"] = json!({"user_agent_build_version": {"version": {"major_number": 1, "minor_number": 41}}});
    }),
    ("GD321", |it| it.filters().insert(0, native())),
];

const SERVICE: &[Row] = &[
    ("GD401", |it| it.status["causes"] = json!({"canary": "a known attack passes"})),
    ("GD402", |it| it.status["last_reload"]["error"] = json!("a.conf:1: no operator")),
    ("GD403", |it| it.rules_differ = true),
    ("GD404", |it| it.status["restart_needed"] = json!(["listen"])),
    ("GD405", |it| it.counted("glacis_alarms_total{kind=\"mode_override_ignored\"} 1")),
    ("GD406", |it| it.counted("glacis_uninspected_total{reason=\"late\"} 1")),
    ("GD407", |it| it.counted("glacis_limits_hit_total{limit=\"headers_max\"} 1")),
    ("GD408", |it| it.counted("glacis_truncated_bodies_total{message=\"request\"} 1")),
    ("GD409", |it| it.counted("glacis_records_lost_total{sink=\"file\",reason=\"full\"} 1")),
    ("GD410", |it| it.counted("glacis_store_connected{store=\"collections\"} 0")),
    ("GD411", |it| it.counted("glacis_collections_total{event=\"lost\"} 1")),
    ("GD411", |it| it.counted("glacis_ban_refusals_lost_total 1")),
    ("GD412", |it| it.counted("glacis_errors_total{kind=\"deadline\"} 1")),
    ("GD413", |it| it.counted("glacis_errors_total{kind=\"panic\"} 1")),
    ("GD414", |it| it.counted("glacis_unknown_profiles_total 1")),
    ("GD415", |it| it.counted("glacis_rule_evidence_total{rule_id=\"1\",of=\"served\"} 90")),
    ("GD415", |it| it.counted("glacis_rule_matches_total{rule_id=\"2\"} 1")),
    ("GD416", |it| it.counted("glacis_tls_reloads_total{listener=\"grpc\",result=\"failure\"} 1")),
    ("GD417", |it| {
        it.metrics = "glacis_requests_total{profile=\"a\",verdict=\"allow\"} 0\n".to_owned()
    }),
    ("GD418", |it| it.counted("glacis_canary_envoy_total{result=\"passed\"} 1")),
    ("GD419", |it| it.counted("process_open_fds 1")),
    ("GD420", |it| it.counted("glacis_unauthenticated_total{listener=\"admin\"} 1")),
    ("GD421", |it| it.status["profiles"][0]["exclusions_unapplied"] = unapplied(7 * DAY)),
    ("GD421", |it| {
        it.status["profiles"][0]["exclusions_unapplied"] = unapplied(30 * DAY);
        it.other = Some(it.status.clone());
    }),
    ("GD501", |it| {
        let mut other = it.status.clone();
        other["profiles"][0]["ruleset"] = json!("b");
        it.other = Some(other);
    }),
    ("GD502", |it| {
        let mut other = it.status.clone();
        other["version"] = json!("2");
        it.other = Some(other);
    }),
];

/// The part of `/status` for an exclusion that has not applied for so many seconds.
fn unapplied(seconds: u64) -> Value {
    json!({"count": 1, "listed": [{"about": "942100; path /wiki/", "since": NOW - seconds}]})
}

fn ids(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().map(|finding| finding.check.id).collect()
}

#[test]
fn a_healthy_installation_has_no_findings() {
    let found = healthy().examine();
    assert!(found.is_empty(), "{found:#?}");
    let nothing = examine(&Evidence::default());
    assert!(nothing.is_empty(), "{nothing:#?}");
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_else() {
    let rows = [CONFIGURATION, RULES, ENVOY, SERVICE].concat();
    for (id, change) in &rows {
        let mut installation = healthy();
        change(&mut installation);
        let found = installation.examine();
        assert_eq!(ids(&found), BTreeSet::from([*id]), "{id}: {found:#?}");
    }
    let tried: BTreeSet<&str> = rows.iter().map(|(id, _)| *id).collect();
    let known: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(tried, known, "every check has a row");
    assert_eq!(known.len(), CHECKS.len(), "ids are unique");
    assert!(known.len() >= 25);
}

/// What is at the edge of a check is not beyond it.
#[test]
fn edges() {
    let quiet: &[fn(&mut Installation)] = &[
        |it| {
            it.rules[0].engine = Engine::Detection;
            it.changed = NOW - 14 * DAY + 1;
        },
        // An image that is built reproducibly: its files say nothing of time.
        |it| {
            it.rules[0].engine = Engine::Detection;
            it.changed = 1;
        },
        |it| it.set("/exclusions/0/expires", json!("2026-12-08")),
        |it| it.set("/body_bytes_max", json!(26_214_400)),
        |it| it.certificate_ends = NOW + 22 * DAY,
        |it| it.filter("message_timeout", json!("0.401s")),
        |it| it.cluster("circuit_breakers", json!({"thresholds": [{"max_requests": 4_096}]})),
        |it| it.cluster("common_lb_config", json!({"healthy_panic_threshold": {}})),
        |it| {
            it.set("/evaluation", json!("out_of_band"));
            it.filter("observability_mode", json!(true));
        },
        // A sidecar in front of a profile that inspects less.
        |it| it.set("/request_body_bytes_max", json!(1_024)),
        |it| {
            it.metrics =
                "glacis_requests_total 99\nglacis_rejected_total{reason=\"late\"} 99\n".to_owned()
        },
        |it| it.status["started"] = json!(NOW - 3_599),
        |it| it.status["profiles"][0]["exclusions_unapplied"] = unapplied(7 * DAY - 1),
        // It applies in another replica.
        |it| {
            it.other = Some(it.status.clone());
            it.status["profiles"][0]["exclusions_unapplied"] = unapplied(30 * DAY);
        },
    ];
    for (index, change) in quiet.iter().enumerate() {
        let mut installation = healthy();
        change(&mut installation);
        let found = installation.examine();
        assert!(found.is_empty(), "{index}: {found:#?}");
    }
}

#[test]
fn findings_are_bounded_sorted_and_can_be_read_back() {
    let mut installation = healthy();
    let broad =
        json!({"rules": [1], "owner": "o".repeat(1_000), "reason": "r", "expires": "never"});
    installation.set("/exclusions", json!(vec![broad; FINDINGS_MAX + 1]));
    installation.set("/admin/address", json!("0.0.0.0:9101"));
    installation.counted("glacis_unauthenticated_total 1");
    let found = installation.examine();
    assert_eq!(found.len(), FINDINGS_MAX);
    assert_eq!(found[0].check.id, "GD111", "the most severe comes first");
    assert!(found.iter().all(|finding| finding.detail.chars().count() <= 401));
    let read: Vec<Finding> = found
        .iter()
        .map(|it| Finding::of_json(&serde_json::to_value(it).unwrap()).unwrap())
        .collect();
    assert_eq!(read, found);
    let twice = [read.clone(), read].concat();
    assert_eq!(Finding::joined(twice), found);
    assert_eq!(Finding::of_json(&json!({"id": "GD999", "subject": "", "detail": ""})), None);
}

#[test]
fn the_reference_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/doctor.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, reference()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == reference(), "docs/reference/doctor.md; UPDATE_EXPECT=1 renews it");
}
