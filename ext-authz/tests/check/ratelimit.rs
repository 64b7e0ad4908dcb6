//! Envoy's rate limit protocol, by a process.

use std::{fs, process::Command};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use crate::harness::{Service, eventually};

fn limits(requests: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n- key: k\n  rate_limit: {{unit: day, requests_per_unit: {requests}}}\n"
    )
}

const CONFIG: &str = "rate_limit_service: {config: limits, response_headers: {}}\n";

#[tokio::test]
async fn it_is_answered_and_its_folder_is_read_anew() {
    let service = Service::start(CONFIG, &[("limits/a.yml", &limits("1"))]);
    let answer = service.limit("d", "k", "v").await;
    assert_eq!(answer.overall_code(), Code::Ok);
    assert_eq!(answer.response_headers_to_add[0].key, "RateLimit-Limit");
    assert_eq!(service.limit("d", "k", "v").await.overall_code(), Code::OverLimit);
    let write = |text: &str| fs::write(service.folder.join("limits/a.yml"), text).unwrap();
    let status = || service.get("/status").1;
    assert!(status().contains("\"rate_limit_service\":{\"last_reload\":null}"), "{}", status());
    write(&limits("many"));
    let failures = "glacis_ratelimit_reloads_total{result=\"failure\"} 1";
    eventually("the failure is counted", || service.get("/metrics").1.contains(failures));
    eventually("the failure is told", || status().contains("limits/a.yml"));
    assert_eq!(service.limit("d", "k", "v").await.overall_code(), Code::OverLimit);
    write(&limits("5"));
    let successes = "glacis_ratelimit_reloads_total{result=\"success\"} 1";
    eventually("the success is counted", || service.get("/metrics").1.contains(successes));
    assert_eq!(service.limit("d", "k", "v").await.overall_code(), Code::Ok);
}

/// What `--check` says, and whether it is content.
fn check(folder: &str, files: &[(&str, &str)]) -> (bool, String) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("limits")).unwrap();
    fs::write(folder.join("config.yaml"), "rate_limit_service: {config: limits}\n").unwrap();
    for (name, text) in files {
        fs::write(folder.join("limits").join(name), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_glacis-ext-authz"))
        .args(["--check", "--config"])
        .arg(folder.join("config.yaml"))
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(told).unwrap())
}

#[test]
fn wrong_limits_are_refused_before_it_serves() {
    let misplaced = "domain: d\nname: d\ndescriptors: []\n";
    for (name, files, is_good, words) in [
        ("rls-good", &[("a.yaml", limits("1").as_str())][..], true, &["good"][..]),
        ("rls-warned", &[("a.yaml", misplaced)], true, &["warning", "a.yaml: line 2, name"]),
        ("rls-empty", &[], false, &["rate_limit_service.config", "no .yaml file"]),
        (
            "rls-typo",
            &[("a.yaml", "domain: d\ndescriptor: []\n")],
            false,
            &["a.yaml:2", "descriptor"],
        ),
        (
            "rls-unit",
            &[("a.yaml", limits("1").replace("day", "aeon").as_str())],
            false,
            &["a.yaml: line 4, descriptors[0].rate_limit.unit", "`aeon`", "second, minute"],
        ),
    ] {
        let (good, told) = check(name, files);
        assert_eq!(good, is_good, "{name}: {told}");
        for word in words {
            assert!(told.contains(word), "{name}: no {word} in {told}");
        }
    }
}
