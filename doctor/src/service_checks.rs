//! Checks of running services, by what they answer at `/status` and `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    checks::{
        CANARY_PASSED_ENVOY, Check, DEADLINES, ENVOY_ALARM, EXCLUSION_UNAPPLIED, FILES_SHARE,
        FILES_SHORT, IDLE_SECONDS, INSPECTION_PARTIAL, LIMITS_OFTEN, MATCHES_MIN, NO_TRAFFIC,
        NOT_READY, PANICS, PROFILE_UNKNOWN, RECORDS_LOST, RELOAD_FAILED, REPLICAS_DIFFER,
        REQUESTS_MIN, RESTART_NEEDED, RULE_SERVED, RULES_DIFFER, SECRETS_NOT_RELOADED,
        SERVED_SHARE, SHARE_MAX, STORE_DOWN, STORE_LOSES, UNAPPLIED_DAYS, UNAUTHENTICATED,
        UPLOADS_REJECTED, VERSIONS_DIFFER,
    },
    configuration::day,
    evidence::Evidence,
    finding::Finding,
    metrics::Metrics,
    service::Service,
};

/// Reasons for which a part of a request passes uninspected although nobody meant it.
const PARTIAL: [&str; 9] = [
    "body_overflow",
    "body_truncated",
    "body_not_sent",
    "response_truncated",
    "response_encoded",
    "late",
    "rules_cut_off",
    "not_evaluated",
    "overload",
];

/// Limits for which a request is rejected that took too long, or found no place.
const CROWDED: [&str; 3] = ["late", "queue_full", "max_streams"];

pub(crate) fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for service in evidence.services {
        let mut add = |check: &'static Check, detail: String| {
            found.push(Finding::new(check, &service.name, &detail));
        };
        of_status(service, &mut add);
        if let Some(metrics) = &service.metrics {
            of_traffic(metrics, &mut add);
            of_outputs(metrics, &mut add);
            let age = service.started().map(|started| evidence.now.saturating_sub(started));
            let requests = metrics.count("glacis_requests_total", &[]);
            if requests == 0.0 && age.is_some_and(|age| age >= IDLE_SECONDS) {
                add(NO_TRAFFIC, format!("running for {} minutes", age.unwrap_or_default() / 60));
            }
            found.extend(of_rules(metrics, &service.name));
        }
    }
    found.extend(unapplied(evidence));
    found.extend(replicas(evidence.services));
    found
}

fn of_status(service: &Service, add: &mut impl FnMut(&'static Check, String)) {
    let status = &service.status;
    if let Some(causes) = status.get("causes").and_then(Value::as_object)
        && !causes.is_empty()
    {
        let texts = causes.iter().map(|(cause, why)| format!("{cause}: {}", plain(why)));
        add(NOT_READY, texts.collect::<Vec<_>>().join("; "));
    }
    if let Some(error) = status.pointer("/last_reload/error").filter(|error| !error.is_null()) {
        add(RELOAD_FAILED, plain(error));
    }
    if service.rules_differ {
        add(RULES_DIFFER, "files have changed since they were loaded".to_owned());
    }
    let keys = status.get("restart_needed").and_then(Value::as_array);
    if let Some(keys) = keys.filter(|keys| !keys.is_empty()) {
        add(RESTART_NEEDED, keys.iter().map(plain).collect::<Vec<_>>().join(", "));
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Names with counts.
fn listed(counts: &BTreeMap<&str, f64>) -> String {
    let texts = counts.iter().map(|(name, count)| format!("{name}: {count}"));
    texts.collect::<Vec<_>>().join(", ")
}

fn of_traffic(metrics: &Metrics, add: &mut impl FnMut(&'static Check, String)) {
    let requests = metrics.count("glacis_requests_total", &[]);
    let often = |count: f64| requests >= REQUESTS_MIN && count > requests * SHARE_MAX;
    let mut share = |check, counts: BTreeMap<&str, f64>| {
        if often(counts.values().sum()) {
            add(check, format!("{} (of {requests} requests)", listed(&counts)));
        }
    };
    let mut partial = metrics.by("glacis_uninspected_total", "reason");
    partial.retain(|reason, _| PARTIAL.contains(reason));
    share(INSPECTION_PARTIAL, partial);
    share(LIMITS_OFTEN, metrics.by("glacis_limits_hit_total", "limit"));
    let rejected = metrics.by("glacis_rejected_total", "reason");
    let only = |names: &[&str]| {
        let wanted = rejected.iter().filter(|(reason, _)| names.contains(reason));
        wanted.map(|(reason, count)| (*reason, *count)).collect()
    };
    share(UPLOADS_REJECTED, uploads(metrics));
    let mut crowded: BTreeMap<&str, f64> = only(&CROWDED);
    let errors = metrics.by("glacis_errors_total", "kind");
    crowded.extend(errors.iter().filter(|(kind, _)| ["deadline", "overload"].contains(kind)));
    share(DEADLINES, crowded);
    let alarms = metrics.by("glacis_alarms_total", "kind");
    if !alarms.is_empty() {
        add(ENVOY_ALARM, listed(&alarms));
    }
    for (check, name, labels) in [
        (PANICS, "glacis_errors_total", &[("kind", "panic")][..]),
        (PROFILE_UNKNOWN, "glacis_unknown_profiles_total", &[]),
        (CANARY_PASSED_ENVOY, "glacis_canary_envoy_total", &[("result", "passed")]),
        (UNAUTHENTICATED, "glacis_unauthenticated_total", &[]),
    ] {
        let count = metrics.count(name, labels);
        if count > 0.0 {
            add(check, format!("{name}: {count}"));
        }
    }
}

/// Bodies of requests that were inspected in part, or not at all, for their size: also those that were rejected.
fn uploads(metrics: &Metrics) -> BTreeMap<&str, f64> {
    let name = "glacis_truncated_bodies_total";
    let count = metrics.count(name, &[("message", "request")]);
    if count > 0.0 { BTreeMap::from([(name, count)]) } else { BTreeMap::new() }
}

/// Where records and changes go.
fn of_outputs(metrics: &Metrics, add: &mut impl FnMut(&'static Check, String)) {
    let lost = metrics.by("glacis_records_lost_total", "sink");
    if !lost.is_empty() {
        add(RECORDS_LOST, listed(&lost));
    }
    let down = metrics.all("glacis_store_connected").filter(|(_, value)| *value == 0.0);
    let down: Vec<&str> =
        down.filter_map(|(labels, _)| labels.get("store").map(String::as_str)).collect();
    if !down.is_empty() {
        add(STORE_DOWN, down.join(", "));
    }
    let lost = metrics.count("glacis_collections_total", &[("event", "lost")])
        + metrics.count("glacis_ban_refusals_lost_total", &[]);
    if lost > 0.0 {
        add(STORE_LOSES, format!("{lost} changes"));
    }
    let mut failed = Vec::new();
    for name in ["glacis_tls_reloads_total", "glacis_token_reloads_total"] {
        if metrics.count(name, &[("result", "failure")]) > 0.0 {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        add(SECRETS_NOT_RELOADED, format!("{} with result failure", failed.join(", ")));
    }
    let open = metrics.count("process_open_fds", &[]);
    if let Some(max) = metrics.sum("process_max_fds", &[]).filter(|max| open > max * FILES_SHARE) {
        add(FILES_SHORT, format!("{open} of {max}"));
    }
}

/// Rules that match mostly requests that the application answers.
fn of_rules(metrics: &Metrics, name: &str) -> Vec<Finding> {
    let matches = metrics.by("glacis_rule_matches_total", "rule_id");
    let mut found = Vec::new();
    for (labels, served) in metrics.all("glacis_rule_evidence_total") {
        let of = |label: &str| labels.get(label).map(String::as_str);
        let (Some(rule), Some("served")) = (of("rule_id"), of("of")) else { continue };
        let matched = matches.get(rule).copied().unwrap_or(0.0);
        if matched >= MATCHES_MIN && served >= matched * SERVED_SHARE {
            let detail = format!("{served} of {matched} requests were answered with 2xx");
            found.push(Finding::new(RULE_SERVED, &format!("{name}, rule {rule}"), &detail));
        }
    }
    found
}

/// Exclusions that apply to no request in any replica, by profile.
fn unapplied(evidence: &Evidence<'_>) -> Vec<Finding> {
    let latest = evidence.now.saturating_sub(UNAPPLIED_DAYS * 86_400);
    let mut found: BTreeMap<(&str, &str), (usize, u64)> = BTreeMap::new();
    let mut replicas: BTreeMap<&str, usize> = BTreeMap::new();
    for Service { status, .. } in evidence.services {
        let profiles = status.get("profiles").and_then(Value::as_array).into_iter().flatten();
        for profile in profiles {
            let Some(name) = profile.get("name").and_then(Value::as_str) else { continue };
            *replicas.entry(name).or_default() += 1;
            let listed = profile.pointer("/exclusions_unapplied/listed").and_then(Value::as_array);
            for exclusion in listed.into_iter().flatten() {
                let about = exclusion.get("about").and_then(Value::as_str);
                let since = exclusion.get("since").and_then(Value::as_u64);
                if let (Some(about), Some(since)) = (about, since.filter(|it| *it <= latest)) {
                    let (count, last) = found.entry((name, about)).or_default();
                    (*count, *last) = (*count + 1, since.max(*last));
                }
            }
        }
    }
    let mut findings = Vec::new();
    for ((profile, about), (count, since)) in found {
        if replicas.get(profile) == Some(&count) {
            let detail = format!("{about}; no request since {}", day(since));
            let subject = format!("profile {profile}");
            findings.push(Finding::new(EXCLUSION_UNAPPLIED, &subject, &detail));
        }
    }
    findings
}

/// What differs between replicas.
fn replicas(services: &[Service]) -> Vec<Finding> {
    let mut hashes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut versions: BTreeSet<String> = BTreeSet::new();
    for Service { status, .. } in services {
        versions.extend(status.get("version").and_then(Value::as_str).map(str::to_owned));
        let profiles = status.get("profiles").and_then(Value::as_array).into_iter().flatten();
        for profile in profiles {
            let of = |key| profile.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(name), Some(hash)) = (of("name"), of("ruleset")) {
                hashes.entry(name).or_default().insert(hash);
            }
        }
    }
    let mut found = Vec::new();
    let joined = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
    for (profile, hashes) in hashes.iter().filter(|(_, hashes)| hashes.len() > 1) {
        found.push(Finding::new(REPLICAS_DIFFER, &format!("profile {profile}"), &joined(hashes)));
    }
    if versions.len() > 1 {
        found.push(Finding::new(VERSIONS_DIFFER, "replicas", &joined(&versions)));
    }
    found
}
