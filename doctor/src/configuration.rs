//! Checks of the configuration of ext-proc.

use core::net::{IpAddr, SocketAddr};

use glacis_engine::civil_date;
use serde_json::Value;

use crate::{
    checks::{
        ADMIN_OPEN, ADMIN_PLAIN, AUDIT_NONE, AUDIT_SECRETS, BODY_BUDGET, CANARY_OFF,
        CERTIFICATE_DAYS, CERTIFICATE_EXPIRED, CERTIFICATE_EXPIRES, Check, DEADLINE_NONE,
        DETECTION_DAYS, DETECTION_FORGOTTEN, EXCLUSION_BROAD, EXCLUSION_DAYS, EXCLUSION_EXPIRED,
        EXCLUSION_EXPIRES, GRPC_OPEN, HIGH_PARANOIA, LATE_FAIL, OVERFLOW_PASS, OVERSIZED_PASS,
        PARANOIA_HIGH, RELOAD_OFF, RULES_OFF, SAMPLED,
    },
    evidence::Evidence,
    finding::Finding,
    rules::Engine,
    settings::{Defaults, Settings},
};

const DAY: u64 = 86_400;

/// Times of change before this one are those of images that are built reproducibly.
const PLAUSIBLE: u64 = 1_000_000_000;

pub(crate) fn check(settings: &Settings, evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for profile in settings.profiles() {
        found.extend(of_profile(settings, profile, evidence));
        found.extend(exclusions(settings, profile, evidence.now));
    }
    found.extend(listeners(settings));
    found.extend(certificates(settings, evidence.now));
    found.extend(of_service(settings));
    found
}

/// The mode of a profile: as its rules are loaded, or as its key says.
fn engine(settings: &Settings, profile: &str, evidence: &Evidence<'_>) -> Engine {
    let loaded = evidence.rules.iter().find(|loaded| loaded.profile == profile);
    match loaded {
        Some(loaded) => loaded.engine,
        None if settings.is(profile, "mode", "detection") => Engine::Detection,
        None if settings.is(profile, "mode", "off") => Engine::Off,
        None => Engine::Blocking,
    }
}

fn of_profile(settings: &Settings, profile: &str, evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |check: &'static Check, detail: String| {
        found.push(Finding::new(check, &format!("profile {profile}"), &detail));
    };
    match engine(settings, profile, evidence) {
        Engine::Detection => {
            if let Some(days) = days_unchanged(settings, evidence) {
                add(DETECTION_FORGOTTEN, format!("unchanged for {days} days"));
            }
            return found;
        }
        Engine::Off => {
            add(RULES_OFF, "mode: off".to_owned());
            return found;
        }
        Engine::Blocking => {}
    }
    let number = |key| settings.of_profile(profile, key).and_then(Value::as_u64);
    if let Some(percent) = number("sample_percent").filter(|percent| *percent < 100) {
        add(SAMPLED, format!("sample_percent: {percent}"));
    }
    let level = number("paranoia").filter(|level| *level >= HIGH_PARANOIA);
    if let Some(level) = level.filter(|_| settings.exclusions(profile).is_empty()) {
        add(PARANOIA_HIGH, format!("paranoia: {level}"));
    }
    for (check, key, words) in [
        (OVERSIZED_PASS, "oversized_body", &["pass", "partial"][..]),
        (OVERFLOW_PASS, "body_overflow", &["pass"]),
        (LATE_FAIL, "late", &["fail"]),
    ] {
        if let Some(word) = words.iter().find(|word| settings.is(profile, key, word)) {
            add(check, format!("{key}: {word}"));
        }
    }
    let share =
        settings.number("client_share_percent", Defaults::CLIENT_SHARE_PERCENT.into()).min(100);
    let memory = settings.number("body_bytes_max", Defaults::SERVICE.body_bytes_max);
    let bytes = settings.body_bytes_max(profile);
    if memory / 100 * share < bytes {
        add(
            BODY_BUDGET,
            format!("{share} % of body_bytes_max {memory} are less than the body limit {bytes}"),
        );
    }
    found
}

/// For how long nobody has changed the configuration, where that is long.
fn days_unchanged(settings: &Settings, evidence: &Evidence<'_>) -> Option<u64> {
    let changed = settings.changed.filter(|changed| *changed > PLAUSIBLE);
    let started = evidence.services.iter().filter_map(|service| service.started());
    let since = changed.into_iter().chain(started).min()?;
    let days = evidence.now.saturating_sub(since) / DAY;
    (days >= DETECTION_DAYS).then_some(days)
}

fn exclusions(settings: &Settings, profile: &str, now: u64) -> Vec<Finding> {
    let (today, soon) = (day(now), day(now + EXCLUSION_DAYS * DAY));
    let mut found = Vec::new();
    for (index, exclusion) in settings.own_exclusions(profile).into_iter().enumerate() {
        let subject = format!("profile {profile}, exclusion {}", index + 1);
        let expires = exclusion.get("expires").and_then(Value::as_str).unwrap_or("never");
        let text = |key| exclusion.get(key).and_then(Value::as_str).unwrap_or("?");
        let detail = format!("{}; expires: {expires}, owner: {}", named(exclusion), text("owner"));
        let mut add = |check| found.push(Finding::new(check, &subject, &detail));
        // Days in ISO 8601 are in the order of their letters.
        match expires {
            "never" => {
                let is_set = |key| exclusion.get(key).is_some_and(|value| !is_empty(value));
                if !["targets", "path", "hosts", "values"].into_iter().any(is_set) {
                    add(EXCLUSION_BROAD);
                }
            }
            last if last < today.as_str() => add(EXCLUSION_EXPIRED),
            last if last <= soon.as_str() => add(EXCLUSION_EXPIRES),
            _ => {}
        }
    }
    found
}

/// What an exclusion is about.
fn named(exclusion: &Value) -> String {
    let list = |key: &str| match exclusion.get(key).filter(|value| !is_empty(value)) {
        Some(value) => format!("{key} {value}"),
        None => String::new(),
    };
    format!("{} {}", list("rules"), list("tags")).trim().to_owned()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// The day, in UTC, at this time.
pub(crate) fn day(time: u64) -> String {
    let date = civil_date(time / DAY);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// Whether other machines reach an address.
pub(crate) fn is_remote(address: &str) -> bool {
    let ip = address.parse::<SocketAddr>().map(|address| address.ip());
    ip.or_else(|_| address.parse::<IpAddr>()).is_ok_and(|ip| !ip.is_loopback())
}

fn listeners(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let remote = |pointer| settings.text(pointer).filter(|address| is_remote(address));
    if let Some(address) = remote("/admin/address") {
        let detail = format!("admin.address: {address}");
        let mut add = |check| found.push(Finding::new(check, "admin", &detail));
        let has_token = settings.is_set("/admin/token_file");
        if !has_token && !settings.is_set("/admin/tls/client_ca") {
            add(ADMIN_OPEN);
        } else if has_token && !settings.is_set("/admin/tls") {
            add(ADMIN_PLAIN);
        }
    }
    if let Some(address) = remote("/listen/tcp")
        && !settings.is_set("/listen/token_file")
        && !settings.is_set("/listen/tls/client_ca")
    {
        found.push(Finding::new(GRPC_OPEN, "listen", &format!("listen.tcp: {address}")));
    }
    found
}

fn certificates(settings: &Settings, now: u64) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, end) in settings.certificates() {
        let detail = format!("valid until {}", day(end));
        if end < now {
            found.push(Finding::new(CERTIFICATE_EXPIRED, file, &detail));
        } else if end < now + CERTIFICATE_DAYS * DAY {
            found.push(Finding::new(CERTIFICATE_EXPIRES, file, &detail));
        }
    }
    found
}

fn of_service(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |check, subject: &str, detail: &str| {
        found.push(Finding::new(check, subject, detail));
    };
    let file = settings.is_set("/audit/file");
    if !settings.flag("/audit/stdout", true) && !file && !settings.flag("/audit/otlp", false) {
        add(AUDIT_NONE, "audit", "stdout: false, no file, otlp: false");
    }
    if !settings.flag("/audit/redact", true) {
        add(AUDIT_SECRETS, "audit", "redact: false");
    }
    for (check, key, default) in [
        (CANARY_OFF, "canary_seconds", Defaults::SERVICE.canary_seconds),
        (RELOAD_OFF, "reload_seconds", Defaults::SERVICE.reload_seconds),
        (DEADLINE_NONE, "deadline_ms", Defaults::SERVICE.deadline_ms),
    ] {
        if settings.number(key, default) == 0 {
            add(check, key, &format!("{key}: 0"));
        }
    }
    found
}
