//! Checks of Envoy's configuration, by itself and beside that of ext-proc.

use serde_json::Value;

use crate::{
    checks::{
        BODY_MODE, BUFFER_BELOW_BODY, BUFFER_OVERSTATED, BULKHEAD_SMALL, ENVOY_ADMIN_OPEN,
        FAIL_OPEN_UNGUARDED, GUARD_ORDER, NATIVE_UNTESTED, NO_CLIENT_ADDRESS, NO_FILTER, NO_GUARD,
        NO_HEALTH_CHECK, NO_MODE_OVERRIDE, NO_OUTLIER_DETECTION, NOT_HTTP2, OBSERVABILITY_MODE,
        PANIC_THRESHOLD, RECEIPTS_DROPPED, ROUTE_DISABLED, RULES_TWICE, TIMEOUT_SHORT,
    },
    configuration::is_remote,
    envoy::{Envoy, Kind, Override, bytes, filters, milliseconds},
    finding::Finding,
    settings::{Defaults, Settings},
};

/// The minor versions of Envoy 1 that the native module is tested with.
const NATIVE_MINORS: core::ops::RangeInclusive<u64> = 38..=40;
/// Envoy's own timeout of a message, in milliseconds.
const MESSAGE_TIMEOUT: u64 = 200;
/// Envoy's own limit of requests to a cluster.
const REQUESTS_MAX: u64 = 1_024;
/// Envoy's own panic threshold.
const PANIC_PERCENT: f64 = 50.0;

pub(crate) fn check(envoy: &Envoy, settings: Option<&Settings>) -> Vec<Finding> {
    let mut found = Vec::new();
    let managers = envoy.managers();
    let all: Vec<_> = managers.iter().map(|manager| (*manager, filters(manager))).collect();
    let attached = |kinds: &[(Kind, &Value)]| {
        kinds.iter().any(|(kind, _)| matches!(kind, Kind::ExtProc | Kind::Native))
    };
    if !all.iter().any(|(_, kinds)| attached(kinds)) {
        let detail = format!("{} HTTP connection managers", managers.len());
        found.push(Finding::new(NO_FILTER, "Envoy", &detail));
    }
    found.extend(native(envoy, &all));
    let mut clusters = Vec::new();
    let mut uses_ext_proc = false;
    for (manager, kinds) in &all {
        let name = manager.get("stat_prefix").and_then(Value::as_str).unwrap_or("?");
        let subject = format!("listener {name}");
        let Some(at) = kinds.iter().position(|(kind, _)| *kind == Kind::ExtProc) else { continue };
        uses_ext_proc = true;
        let guard = kinds.iter().position(|(kind, _)| *kind == Kind::Guard);
        let Some((_, filter)) = kinds.get(at) else { continue };
        found.extend(guarded(filter, guard, at, &subject));
        found.extend(of_filter(filter, settings, &subject));
        let cluster = filter.pointer("/grpc_service/envoy_grpc/cluster_name");
        clusters.extend(cluster.and_then(Value::as_str));
    }
    clusters.sort_unstable();
    clusters.dedup();
    for name in clusters {
        if let Some(cluster) = envoy.cluster(name) {
            found.extend(of_cluster(name, cluster, settings));
        }
    }
    if uses_ext_proc {
        // Where both have the rules, the other one inspects such a route.
        let is_hybrid = all.iter().any(|(_, kinds)| has_both(kinds));
        for (route, change) in envoy.overrides() {
            if change == Override::Disabled && !is_hybrid {
                found.push(Finding::new(
                    ROUTE_DISABLED,
                    &format!("route {route}"),
                    "disabled: true",
                ));
            }
        }
        found.extend(buffers(envoy, settings));
    }
    if let Some(address) = envoy.admin().filter(|address| is_remote(address)) {
        found.push(Finding::new(ENVOY_ADMIN_OPEN, "Envoy", &format!("admin address: {address}")));
    }
    found
}

fn has_both(kinds: &[(Kind, &Value)]) -> bool {
    [Kind::ExtProc, Kind::Native].iter().all(|wanted| kinds.iter().any(|(kind, _)| kind == wanted))
}

/// Whether this Envoy and its other filters suit the native module.
fn native(envoy: &Envoy, all: &[(&Value, Vec<(Kind, &Value)>)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let has_native = |kinds: &[(Kind, &Value)]| kinds.iter().any(|(kind, _)| *kind == Kind::Native);
    if all.iter().any(|(_, kinds)| has_native(kinds))
        && let Some((major, minor)) = envoy.version()
        && !(major == 1 && NATIVE_MINORS.contains(&minor))
    {
        let detail = format!("Envoy {major}.{minor}");
        found.push(Finding::new(NATIVE_UNTESTED, "Envoy", &detail));
    }
    if !envoy.divides() {
        for (manager, _) in all.iter().filter(|(_, kinds)| has_both(kinds)) {
            let name = manager.get("stat_prefix").and_then(Value::as_str).unwrap_or("?");
            let detail = "the native module and ext_proc, for every route";
            found.push(Finding::new(RULES_TWICE, &format!("listener {name}"), detail));
        }
    }
    found
}

/// What becomes of requests that ext_proc lets pass without an answer.
fn guarded(filter: &Value, guard: Option<usize>, at: usize, subject: &str) -> Option<Finding> {
    let open = filter.get("failure_mode_allow") == Some(&Value::Bool(true));
    let (check, detail) = match guard {
        Some(guard) if guard < at => (GUARD_ORDER, "the guard is before ext_proc"),
        Some(_) => return None,
        None if open => (FAIL_OPEN_UNGUARDED, "failure_mode_allow: true, no guard"),
        None => (NO_GUARD, "no filter after ext_proc looks for a receipt"),
    };
    Some(Finding::new(check, subject, detail))
}

fn of_filter(filter: &Value, settings: Option<&Settings>, subject: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |check, detail: &str| found.push(Finding::new(check, subject, detail));
    let is_true = |key| filter.get(key) == Some(&Value::Bool(true));
    let list = |pointer| filter.pointer(pointer).and_then(Value::as_array);
    let has =
        |pointer, wanted: &str| list(pointer).is_some_and(|it| it.iter().any(|it| it == wanted));
    let allowed = list("/allowed_override_modes").is_some_and(|modes| !modes.is_empty());
    if !is_true("allow_mode_override") {
        add(NO_MODE_OVERRIDE, "allow_mode_override is not true");
    } else if allowed {
        add(NO_MODE_OVERRIDE, "allowed_override_modes restricts it");
    }
    let observes = is_true("observability_mode");
    let in_band = |settings: &Settings| {
        settings.profiles().iter().any(|profile| !settings.is_out_of_band(profile))
    };
    if observes && settings.is_none_or(in_band) {
        add(OBSERVABILITY_MODE, "observability_mode: true");
    }
    for key in ["request_body_mode", "response_body_mode"] {
        let mode = filter.pointer(&format!("/processing_mode/{key}")).and_then(Value::as_str);
        if let Some(mode) = mode.filter(|mode| !observes && *mode != "NONE") {
            add(BODY_MODE, &format!("{key}: {mode}"));
        }
    }
    let timeout = filter.get("message_timeout").and_then(milliseconds).unwrap_or(MESSAGE_TIMEOUT);
    let default = Defaults::SERVICE.deadline_ms;
    let deadline = settings.map_or(default, |settings| settings.number("deadline_ms", default));
    if timeout <= deadline && deadline > 0 {
        add(TIMEOUT_SHORT, &format!("message_timeout: {timeout} ms, deadline_ms: {deadline}"));
    }
    if !has("/metadata_options/receiving_namespaces/untyped", "glacis") {
        add(RECEIPTS_DROPPED, "metadata_options.receiving_namespaces.untyped lacks glacis");
    }
    if !has("/request_attributes", "source.address") {
        add(NO_CLIENT_ADDRESS, "request_attributes lacks source.address");
    }
    found
}

fn of_cluster(name: &str, cluster: &Value, settings: Option<&Settings>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |check, detail: &str| {
        found.push(Finding::new(check, &format!("cluster {name}"), detail));
    };
    let is_list = |key| cluster.get(key).and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    if !is_list("health_checks") {
        add(NO_HEALTH_CHECK, "no health_checks");
    }
    if cluster.get("outlier_detection").is_none() {
        add(NO_OUTLIER_DETECTION, "no outlier_detection");
    }
    let panic = cluster.pointer("/common_lb_config/healthy_panic_threshold");
    // A threshold of 0 is an empty message in a dump.
    let percent = panic
        .map_or(PANIC_PERCENT, |panic| panic.get("value").and_then(Value::as_f64).unwrap_or(0.0));
    if percent > 0.0 {
        add(PANIC_THRESHOLD, &format!("healthy_panic_threshold: {percent}"));
    }
    if !speaks_http2(cluster) {
        add(NOT_HTTP2, "no http2_protocol_options");
    }
    let thresholds = cluster.pointer("/circuit_breakers/thresholds").and_then(Value::as_array);
    let of = |it: &Value| bytes(it, "max_requests").unwrap_or(REQUESTS_MAX);
    let requests = thresholds.into_iter().flatten().map(of).min().unwrap_or(REQUESTS_MAX);
    let default = Defaults::SERVICE.max_streams;
    let streams = settings.map_or(default, |settings| settings.number("max_streams", default));
    if requests < streams {
        add(BULKHEAD_SMALL, &format!("max_requests: {requests}, max_streams: {streams}"));
    }
    found
}

fn speaks_http2(cluster: &Value) -> bool {
    let options = cluster.get("typed_extension_protocol_options").and_then(Value::as_object);
    let mut options = options.into_iter().flat_map(serde_json::Map::values);
    cluster.get("http2_protocol_options").is_some()
        || options.any(|options| {
            [
                "/explicit_http_config/http2_protocol_options",
                "/auto_config",
                "/use_downstream_protocol_config",
            ]
            .iter()
            .any(|pointer| options.pointer(pointer).is_some())
        })
}

fn buffers(envoy: &Envoy, settings: Option<&Settings>) -> Vec<Finding> {
    let mut found = Vec::new();
    let (Some(settings), Some((route, buffer))) = (settings, envoy.smallest_buffer()) else {
        return found;
    };
    let subject = format!("route {route}");
    let largest = settings.profiles().into_iter().map(|profile| settings.body_bytes_max(profile));
    if let Some(bytes) = largest.max().filter(|bytes| *bytes > buffer) {
        let detail = format!("Envoy buffers {buffer} bytes, the body limit is {bytes}");
        found.push(Finding::new(BUFFER_BELOW_BODY, &subject, &detail));
    }
    let expected = settings.number("envoy_buffer_bytes", Defaults::SERVICE.envoy_buffer_bytes);
    if expected > buffer {
        let detail = format!("Envoy buffers {buffer} bytes, envoy_buffer_bytes: {expected}");
        found.push(Finding::new(BUFFER_OVERSTATED, &subject, &detail));
    }
    found
}
