//! Rows of configurations, and what is said of them.

use glacis_service::config::parse;

use super::*;

#[test]
fn the_documented_file_says_the_defaults() {
    let documented = include_str!("../../glacis-ext-proc.yaml");
    assert_eq!(parse::<Config>(documented).unwrap(), Config::default());
}

#[test]
fn errors_say_where_and_what() {
    for (text, words) in [
        ("profil: a\n", &["line 1", "profil"][..]),
        ("rules: 5\n", &["line 1"]),
        ("response: all\n", &["all", "off", "headers", "full"]),
        ("limits: {arguments_max: many}\n", &["many"]),
        ("audit: {format: json}\n", &["json", "native", "modsecurity", "ocsf"]),
        ("audit: {file_mode: \"rw\"}\n", &["rw", "octal"]),
        ("listen: {tls: {certificate: a}}\n", &["key"]),
        ("admin: {tls: {certificate: a, key: b, ca: c}}\n", &["ca", "client_ca"]),
        ("scoring: {second_opinion: {action: log}}\n", &["log", "shadow", "block"]),
        ("scoring: {opinion: {}}\n", &["opinion", "second_opinion"]),
        ("mode: enforce\n", &["enforce", "on", "detection", "off"]),
        ("profiles: {api: {listen: {}}}\n", &["listen"]),
        ("profiles: {api: {limits: {arguments: 5}}}\n", &["arguments", "arguments_max"]),
        ("exclusions: [{rules: [1], owner: a, reason: b}]\n", &["expires"]),
        ("exclusions: [{rules: [1], owner: a, expires: never}]\n", &["reason"]),
        (
            "exclusions: [{rules: [1], owner: a, reason: b, expires: soon}]\n",
            &["soon", "2027-01-31", "never"],
        ),
    ] {
        let error = parse::<Config>(text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{text}: no {word} in {error}");
        }
    }
    for (text, key) in [
        ("{}", "rules"),
        ("crs: a\nbase: false\n", "base"),
        ("directives: SecRuleEngine On\nlisten: {tcp: null}\n", "listen"),
        ("directives: SecRuleEngine On\nblock: {status: 200}\n", "block.status"),
        ("directives: SecRuleEngine On\nblock: {content_type: a/b}\n", "block.content_type"),
        ("directives: a\nadmin: {address: 0.0.0.0:9101}\n", "admin.address"),
        ("directives: a\nadmin: {address: \"[::]:9101\"}\n", "admin.address"),
        (
            "directives: a\nadmin: {address: 0.0.0.0:1, tls: {certificate: a, key: b}}\n",
            "admin.address",
        ),
        ("directives: a\nrecent: {requests_max: 10001}\n", "recent.requests_max"),
        ("directives: SecRuleEngine On\nmax_streams: 0\n", "max_streams"),
        ("directives: SecRuleEngine On\nmax_message_bytes: 1\n", "max_message_bytes"),
        ("directives: a\nsample_percent: 101\n", "sample_percent"),
        ("directives: a\nparanoia: 5\n", "paranoia"),
        (
            "directives: a\nscoring: {second_opinion: {threshold: 0}}\n",
            "scoring.second_opinion.threshold",
        ),
        ("directives: a\nparanoia: 2\ndetection_paranoia: 1\n", "detection_paranoia"),
        ("directives: a\ninbound_threshold: 0\n", "inbound_threshold"),
        ("directives: a\naudit: {files_max: 0}\n", "audit.files_max"),
        ("directives: a\naudit: {sample_percent: 101}\n", "audit.sample_percent"),
        ("directives: a\ntraces: {sample_percent: 101}\n", "traces.sample_percent"),
        ("directives: a\nevaluation_queue_max: 1048577\n", "evaluation_queue_max"),
        ("directives: a\nout_of_band_queue_max: 1048577\n", "out_of_band_queue_max"),
        ("directives: a\naudit: {otlp: true}\n", "otlp.endpoint"),
        ("directives: a\ntraces: {enabled: true}\n", "otlp.endpoint"),
        ("directives: a\ncollections: {redis: {nodes: []}}\n", "collections.redis.nodes"),
        (
            "directives: a\nlisten: {tls: {certificate: a, key: b, client_names: [c]}}\n",
            "listen.tls",
        ),
        ("directives: a\nadmin: {tls: {certificate: a, key: b, client_names: [c]}}\n", "admin.tls"),
        ("directives: a\nprofiles: {default: {}}\n", "profiles.default"),
        ("directives: a\nprofiles: {api: {paranoia: 0}}\n", "profiles.api.paranoia"),
        ("crs: a\nprofiles: {api: {crs: null}}\n", "profiles.api.rules"),
        ("directives: a\nroutes: {shop: api}\n", "routes.shop"),
        ("directives: a\nout_of_band_profile: api\n", "out_of_band_profile"),
        ("directives: a\nout_of_band_profile: default\n", "out_of_band_profile"),
        ("directives: a\nshadow: {profile: next, percent: 10}\n", "shadow.profile"),
        ("directives: a\nshadow: {profile: next, percent: 0}\n", "shadow.percent"),
        (
            "directives: a\nprofiles: {api: {shadow: {profile: api, percent: 5}}}\n",
            "profiles.api.shadow.profile",
        ),
        ("directives: a\nout_of_band_threads: 0\n", "out_of_band_threads"),
        ("directives: a\ncanary_envoy: {address: 192.0.2.1:80}\n", "canary_envoy.address"),
        ("directives: a\ncanary_envoy: {address: 127.0.0.1:80, host: \"a b\"}\n", "canary_envoy"),
        ("directives: a\ncanary_envoy: {address: 127.0.0.1:80, uri: \"/a b\"}\n", "canary_envoy"),
    ] {
        let found = parse::<Config>(text).unwrap().check();
        assert_eq!(found.unwrap_err().0, key, "{text}");
    }
    for address in [
        "0.0.0.0:1, allow_remote: true",
        "0.0.0.0:1, tls: {certificate: a, key: b, client_ca: c}",
        "127.0.0.2:1",
        "\"[::1]:1\"",
        "null",
    ] {
        let text = format!("directives: a\nadmin: {{address: {address}}}\n");
        assert_eq!(parse::<Config>(&text).unwrap().check(), Ok(()), "{text}");
    }
}

#[test]
fn what_waits_for_a_restart() {
    for (text, keys) in [
        ("", &[][..]),
        ("cost_sample: 5\nrecent: {whole: false}\n", &[]),
        ("audit: {format: ocsf, sample_percent: 5}\nlimits: {arguments_max: 5}\n", &[]),
        ("max_streams: 5\ncanary_seconds: 0\n", &["canary_seconds", "max_streams"]),
        ("audit: {stdout: false}\n", &["audit"]),
        ("limits: {collection_bytes_max: 5}\n", &["limits"]),
        ("recent: {requests_max: 5}\n", &["recent"]),
    ] {
        let other: Config = parse(text).unwrap();
        assert_eq!(Config::default().differs_beyond_reload(&other), keys, "{text}");
    }
}

#[test]
fn a_profile_is_the_top_of_the_file_with_changes() {
    let config: Config = parse(
        "crs: a\nsetup: b\nmode: detection\nlimits: {arguments_max: 7, cookies_max: 8}\n\
         exclusions: [{rules: [1], owner: o, reason: r, expires: never}]\n\
         profiles:\n  api:\n    crs: null\n    directives: c\n    mode: null\n    \
         limits: {cookies_max: 9}\n    exclusions: [{tags: [t], owner: o, reason: r, \
         expires: 2027-01-31}]\n",
    )
    .unwrap();
    let api = config.of_profile("api");
    assert_eq!((api.profile.as_str(), api.crs, api.mode), ("api", None, None));
    assert_eq!((api.setup.as_str(), api.directives.as_str()), ("b", "c"));
    assert_eq!((api.limits.arguments_max, api.limits.cookies_max), (7, 9));
    assert_eq!(api.exclusions.len(), 2, "those of the top hold for each profile");
    let top = Config { profiles: BTreeMap::new(), ..config.clone() };
    assert_eq!(config.of_profile("default"), top);
    assert_eq!(config.profile_names().collect::<Vec<_>>(), ["default", "api"]);
}

/// Weights are the shipped ones or those of a file, with the threshold that the configuration sets; rules of their level
/// run.
#[test]
fn second_opinions_are_read() {
    use glacis_engine::Input;
    use glacis_host::{recipe, second_opinion};
    use glacis_rules::{ExclusionRules, RecordingSource};

    let levels = |text: &str| {
        let keys = parse::<Config>(text).unwrap().keys();
        let source = RecordingSource::new();
        let opinion = second_opinion(&keys, &source).map_err(|error| error.to_string())?;
        let recipe = recipe(&keys, &ExclusionRules::default(), opinion.as_ref(), &source).unwrap();
        let settings = recipe.inputs.iter().find_map(|input| match input {
            Input::Text { name, text } if name == "glacis:settings" => Some(text.clone()),
            _ => None,
        });
        let threshold = opinion.map(|opinion| opinion.weights.threshold);
        Ok::<_, String>((threshold, settings.unwrap_or_default()))
    };
    let with = |keys: &str| format!("directives: a\nscoring: {{second_opinion: {{{keys}}}}}\n");
    assert_eq!(levels("directives: a\n").unwrap(), (None, String::new()));
    let (threshold, settings) = levels(&with("")).unwrap();
    assert!(threshold.is_some_and(|threshold| threshold > 1_000), "{threshold:?}");
    assert!(settings.contains("detection_paranoia_level=4"), "{settings}");
    assert_eq!(levels(&with("threshold: 2.5")).unwrap().0, Some(2_500));
    let (_, settings) = levels(&(with("") + "detection_paranoia: 2\n")).unwrap();
    assert!(settings.contains("detection_paranoia_level=2"), "{settings}");
    let error = levels(&with("weights: /no/such/file")).unwrap_err();
    assert!(error.contains("weights") && error.contains("/no/such/file"), "{error}");
}
