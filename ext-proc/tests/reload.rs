//! Configuration that changes while requests are served, and the canary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use harness::{Sent, Service, Stream, counted, eventually, get};

const PASSED: &str = "request_headers allow/headers";
const SUCCESS: &str = "glacis_reloads_total{result=\"success\"}";
const FAILURE: &str = "glacis_reloads_total{result=\"failure\"}";

fn rule(word: &str, id: u32) -> String {
    format!("SecRule ARGS \"@contains {word}\" \"id:{id},phase:2,deny,status:403,log\"\n")
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Replaces a file at once.
fn write(folder: &Path, name: &str, text: &str) {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.join(name)).unwrap();
}

async fn answer(service: &Service, path: &str) -> String {
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get(path, &[])).await;
    stream.answer().await
}

fn denied(id: u32) -> String {
    format!("immediate 403 glacis_deny_rule_{id} deny/headers rules={id}")
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_are_read_anew() {
    let folder = folder("reload-files");
    write(&folder, "ext-proc.yaml", "rules: [main.conf]\ncanary_seconds: 0\n");
    write(&folder, "main.conf", "Include rules/*.conf\n");
    fs::create_dir(folder.join("rules")).unwrap();
    write(&folder, "rules/a.conf", &rule("one", 1));
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    assert_eq!(answer(&service, "/?q=one").await, denied(1));
    assert_eq!(answer(&service, "/?q=two").await, PASSED);

    // An exchange that has begun keeps its rules.
    let form = "content-type: application/x-www-form-urlencoded";
    let mut begun = Stream::open(service.channel().await).await.unwrap();
    begun.send(&Sent::post("/", &[form])).await;
    assert!(begun.answer().await.starts_with("request_headers pending"));

    // A file, a file more, and the configuration itself.
    write(&folder, "rules/a.conf", &rule("two", 2));
    eventually(async || answer(&service, "/?q=two").await == denied(2)).await;
    assert_eq!(answer(&service, "/?q=one").await, PASSED);
    write(&folder, "rules/b.conf", &rule("three", 3));
    eventually(async || answer(&service, "/?q=three").await == denied(3)).await;
    write(&folder, "ext-proc.yaml", "rules: [main.conf]\nmode: detection\ncanary_seconds: 0\n");
    let detected = "request_headers allow/headers rules=3 mode=detection_only";
    eventually(async || answer(&service, "/?q=three").await == detected).await;
    counted(&service, &format!("{SUCCESS} 3")).await;
    counted(&service, &format!("{FAILURE} 0")).await;

    begun.send(&Sent::body("q=one&r=two&s=three", true)).await;
    let verdict = begun.answer().await;
    assert!(verdict.starts_with("immediate 403 glacis_deny_rule_1 "), "{verdict}");
}

/// As Kubernetes does it: the files are links through a link to a folder, which is exchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_read_anew() {
    let folder = folder("reload-config-map");
    let version = |name: &str, word: &str, id| {
        let version = folder.join(name);
        fs::create_dir(&version).unwrap();
        fs::write(version.join("ext-proc.yaml"), "rules: [a.conf]\ncanary_seconds: 0\n").unwrap();
        fs::write(version.join("a.conf"), rule(word, id)).unwrap();
    };
    version("..2026_1", "one", 1);
    symlink("..2026_1", folder.join("..data")).unwrap();
    for file in ["ext-proc.yaml", "a.conf"] {
        symlink(format!("..data/{file}"), folder.join(file)).unwrap();
    }
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    assert_eq!(answer(&service, "/?q=one").await, denied(1));
    version("..2026_2", "two", 2);
    symlink("..2026_2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    fs::remove_dir_all(folder.join("..2026_1")).unwrap();
    eventually(async || answer(&service, "/?q=two").await == denied(2)).await;
    assert_eq!(answer(&service, "/?q=one").await, PASSED);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_good_changes_nothing() {
    let folder = folder("reload-bad");
    let good = "rules: [a.conf]\ncanary_seconds: 0\n";
    write(&folder, "ext-proc.yaml", good);
    write(&folder, "a.conf", &rule("one", 1));
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    let mut failures = 0;
    for (file, text) in [
        ("a.conf", "SecRule ARGS \"@rxx a\" \"id:1,deny\"\n"),
        ("a.conf", "SecRule"),
        ("ext-proc.yaml", "rules: [b.conf]\n"),
        ("ext-proc.yaml", "ruless: [a.conf]\n"),
        ("ext-proc.yaml", "rules: [\n"),
    ] {
        write(&folder, file, text);
        failures += 1;
        counted(&service, &format!("{FAILURE} {failures}")).await;
        assert_eq!(answer(&service, "/?q=one").await, denied(1), "{file}: {text}");
        assert_eq!(get(service.admin, "/readyz").await.0, 200);
    }
    // It is not tried again and again.
    tokio::time::sleep(core::time::Duration::from_millis(400)).await;
    counted(&service, &format!("{FAILURE} {failures}")).await;
    write(&folder, "a.conf", &rule("two", 2));
    write(&folder, "ext-proc.yaml", good);
    eventually(async || answer(&service, "/?q=two").await == denied(2)).await;
    // A file that was missing when it was wanted is noticed when it is there.
    write(&folder, "ext-proc.yaml", "rules: [c.conf]\ncanary_seconds: 0\n");
    counted(&service, &format!("{FAILURE} {}", failures + 1)).await;
    write(&folder, "c.conf", &rule("three", 3));
    eventually(async || answer(&service, "/?q=three").await == denied(3)).await;
}

/// The series of a profile end with it, those of its shadow too.
#[tokio::test(flavor = "multi_thread")]
async fn series_end_with_their_profile() {
    let folder = folder("reload-series");
    let top = "rules: [a.conf]\ncanary_seconds: 0\n";
    let more = "profiles: {b: {shadow: {profile: default, percent: 100}}}\n";
    write(&folder, "a.conf", &rule("one", 1));
    write(&folder, "ext-proc.yaml", &format!("{top}{more}"));
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    counted(&service, "glacis_shadow_dropped_total{profile=\"b\"} 0").await;
    write(&folder, "ext-proc.yaml", top);
    counted(&service, &format!("{SUCCESS} 1")).await;
    let (_, metrics) = get(service.admin, "/metrics").await;
    assert!(!metrics.contains("profile=\"b\""), "{metrics}");
}

/// Rules that are gone leave their places in a shadow, and a shadow that has another name its series.
#[tokio::test(flavor = "multi_thread")]
async fn series_end_with_their_rules_and_shadow() {
    let folder = folder("reload-shadow");
    let shadow = |name: &str| {
        let top = "rules: [a.conf]\ncanary_seconds: 0\n";
        let text = format!(
            "{top}shadow: {{profile: {name}, percent: 100}}\nprofiles: {{{name}: {{rules: [b.conf]}}}}\n"
        );
        write(&folder, "ext-proc.yaml", &text);
    };
    write(&folder, "a.conf", &rule("one", 1));
    write(&folder, "b.conf", &rule("two", 2));
    shadow("b");
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    let of_rule =
        "glacis_shadow_rule_differences_total{profile=\"default\",only=\"shadow\",rule_id=\"2\"}";
    assert_eq!(answer(&service, "/?q=two").await, PASSED);
    counted(&service, &format!("{of_rule} 1")).await;
    write(&folder, "b.conf", &rule("three", 3));
    counted(&service, &format!("{SUCCESS} 1")).await;
    let (_, metrics) = get(service.admin, "/metrics").await;
    assert!(!metrics.contains(of_rule) && metrics.contains("shadow=\"b\""), "{metrics}");
    shadow("c");
    counted(&service, &format!("{SUCCESS} 2")).await;
    let (_, metrics) = get(service.admin, "/metrics").await;
    assert!(!metrics.contains("shadow=\"b\"") && metrics.contains("shadow=\"c\""), "{metrics}");
}

/// What holds for all profiles: each that blocks has to refuse its canary.
#[tokio::test(flavor = "multi_thread")]
async fn the_canary_decides_readiness() {
    let folder = folder("canary");
    write(&folder, "a.conf", &rule("attack", 1));
    let config = |keys: &str| {
        write(&folder, "ext-proc.yaml", &format!("rules: [a.conf]\ncanary_seconds: 1\n{keys}"));
    };
    // It passes from the start: served, but not ready.
    config("canary: /?q=fine\n");
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    let (status, why) = get(service.admin, "/readyz").await;
    assert_eq!((status, &*why), (503, "canary: a known attack passes the rules of: default\n"));
    assert_eq!(service.health().await, 2);
    counted(&service, "glacis_canary_refused{profile=\"default\"} 0").await;
    assert_eq!(answer(&service, "/?q=attack").await, denied(1));

    config("canary: /?q=attack\n");
    eventually(async || service.health().await == 1).await;
    assert_eq!(get(service.admin, "/readyz").await.0, 200);
    counted(&service, "glacis_canary_refused{profile=\"default\"} 1").await;

    // A ruleset that lets it pass is not taken into use.
    let mut failures = 0;
    for keys in [
        "canary: /?q=fine\n",
        "canary: /?q=attack\nprofiles: {b: {canary: /?q=fine}}\n",
        "canary: /?q=attack\nexclusions: [{rules: [1], owner: o, reason: r, expires: never}]\n",
    ] {
        config(keys);
        failures += 1;
        counted(&service, &format!("{FAILURE} {failures}")).await;
        assert_eq!(answer(&service, "/?q=attack").await, denied(1), "{keys}");
    }
    // Profiles that block nothing need not refuse it.
    config(
        "canary: /?q=attack\nprofiles: {b: {canary: /?q=fine, mode: detection}, c: {mode: off}}\n",
    );
    counted(&service, &format!("{SUCCESS} 2")).await;
    tokio::time::sleep(core::time::Duration::from_millis(1_500)).await;
    assert_eq!(service.health().await, 1);
    // It leaves no trace among requests.
    let (_, metrics) = get(service.admin, "/metrics").await;
    assert!(
        metrics.contains("glacis_requests_total{profile=\"default\",verdict=\"deny\"} 4\n"),
        "{metrics}"
    );
}

/// A document that cannot be used leaves the one before in use, as rules do.
#[tokio::test(flavor = "multi_thread")]
async fn an_openapi_document_that_is_not_good_changes_nothing() {
    let folder = folder("reload-openapi");
    let document = |path: &str| {
        format!(
            "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  {path}:\n    get:\n      \
             responses: {{'200': {{description: ok}}}}\n"
        )
    };
    write(&folder, "api.yaml", &document("/one"));
    let config = "directives: SecRuleEngine On\nopenapi: {document: api.yaml}\ncanary_seconds: 0\n";
    write(&folder, "ext-proc.yaml", config);
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    let passes = async |path: &str| answer(&service, path).await == PASSED;
    assert!(passes("/one").await && !passes("/two").await);
    for (failures, broken) in [
        "openapi: 3.1.0\npaths: [",
        "openapi: 2.0.0\ninfo: {title: t, version: '1'}\npaths: {}\n",
        &document("/one")
            .replace("responses:", "requestBody: {$ref: '#/nowhere'}\n      responses:"),
    ]
    .into_iter()
    .enumerate()
    {
        write(&folder, "api.yaml", broken);
        counted(&service, &format!("{FAILURE} {}", failures + 1)).await;
        assert!(passes("/one").await && !passes("/two").await, "{broken}");
        assert_eq!(get(service.admin, "/readyz").await.0, 200);
    }
    write(&folder, "api.yaml", &document("/two"));
    eventually(async || passes("/two").await && !passes("/one").await).await;
}

/// Exclusions that have applied to no request are in `/status`, also after a reload.
#[tokio::test(flavor = "multi_thread")]
async fn exclusions_that_never_apply_are_known() {
    let folder = folder("reload-exclusions");
    let exclusion = |path: &str| {
        format!("- {{rules: [1], path: {path}, owner: o, reason: r, expires: never}}\n")
    };
    let config = |more: &str| {
        let (wiki, pay) = (exclusion("/wiki/"), exclusion("/pay"));
        format!("rules: [a.conf]\ncanary_seconds: 0\nexclusions:\n{wiki}{pay}{more}")
    };
    write(&folder, "ext-proc.yaml", &config(""));
    write(&folder, "a.conf", &rule("one", 1));
    let service = Service::start_file(&folder.join("ext-proc.yaml")).await;
    let never = async || {
        let (_, status) = get(service.admin, "/status").await;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let listed = status["profiles"][0]["exclusions_unapplied"]["listed"].clone();
        let about = listed.as_array().unwrap().iter().map(|it| it["about"].to_string());
        about.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(never().await, r#""1; path /wiki/" "1; path /pay""#);
    assert_eq!(answer(&service, "/?q=one").await, denied(1));
    assert_eq!(answer(&service, "/wiki/a?q=one").await, PASSED);
    eventually(async || never().await == r#""1; path /pay""#).await;
    write(&folder, "ext-proc.yaml", &config(&exclusion("/new")));
    counted(&service, &format!("{SUCCESS} 1")).await;
    assert_eq!(never().await, r#""1; path /pay" "1; path /new""#);
}
