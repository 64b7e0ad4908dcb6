//! Envoy's configuration, as a bootstrap file or as the answer of `/config_dump`: both are searched for the same messages.

use serde_json::{Map, Value};

/// Depth of values in which messages are searched.
const DEPTH_MAX: usize = 64;

/// Bytes that a listener buffers of a body where nothing else is configured.
const BUFFER_BYTES: u64 = 1 << 20;

/// The last parts of the types that are searched.
const MANAGER: &str = ".HttpConnectionManager";
const EXT_PROC: &str = ".ExternalProcessor";
const EXT_PROC_ROUTE: &str = ".ExtProcPerRoute";
const NATIVE: &str = ".DynamicModuleFilter";

/// A configuration.
#[derive(Clone, Debug, Default)]
pub struct Envoy {
    documents: Vec<Value>,
}

/// A filter, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ExtProc,
    Guard,
    Native,
}

impl Envoy {
    /// A configuration in several documents, such as a bootstrap file, or a dump.
    #[must_use]
    pub fn new(documents: Vec<Value>) -> Self {
        Self { documents }
    }

    /// All messages for which `is_wanted` holds.
    fn messages(&self, is_wanted: impl Fn(&Map<String, Value>) -> bool) -> Vec<&Value> {
        let mut found = Vec::new();
        for document in &self.documents {
            search(document, &is_wanted, &mut found, 0);
        }
        found
    }

    /// The HTTP connection managers.
    pub(crate) fn managers(&self) -> Vec<&Value> {
        self.messages(|object| is_type(object, MANAGER))
    }

    /// The cluster of this name; a cluster has a connect timeout or a type, which others with names do not.
    pub(crate) fn cluster(&self, name: &str) -> Option<&Value> {
        let has = |object: &Map<String, Value>, key: &str| object.contains_key(key);
        let found = self.messages(|object| {
            object.get("name").is_some_and(|found| found == name)
                && ["connect_timeout", "load_assignment", "eds_cluster_config", "lb_policy"]
                    .iter()
                    .any(|key| has(object, key))
        });
        found.first().copied()
    }

    /// Routes that turn ext_proc off, and those that fail open: the name or the match of each.
    pub(crate) fn overrides(&self) -> Vec<(String, Override)> {
        let routes = self.messages(|object| object.contains_key("typed_per_filter_config"));
        let mut found = Vec::new();
        for route in routes {
            let configs = route.get("typed_per_filter_config").and_then(Value::as_object);
            for config in configs.into_iter().flat_map(Map::values) {
                if !config.as_object().is_some_and(|object| is_type(object, EXT_PROC_ROUTE)) {
                    continue;
                }
                let is_true = |pointer| config.pointer(pointer) == Some(&Value::Bool(true));
                if is_true("/disabled") {
                    found.push((route_name(route), Override::Disabled));
                } else if is_true("/overrides/failure_mode_allow") {
                    found.push((route_name(route), Override::Open));
                }
            }
        }
        found
    }

    /// Major and minor version of the Envoy whose dump this is.
    pub(crate) fn version(&self) -> Option<(u64, u64)> {
        let built = self.messages(|object| object.contains_key("user_agent_build_version"));
        let version = built.first()?.pointer("/user_agent_build_version/version")?;
        Some((bytes(version, "major_number")?, bytes(version, "minor_number")?))
    }

    /// Whether a route disables one of Glacis's filters.
    pub(crate) fn divides(&self) -> bool {
        let routes = self.messages(|object| object.contains_key("typed_per_filter_config"));
        let mut configs = routes.iter().filter_map(|route| route.get("typed_per_filter_config"));
        configs.any(|config| config.to_string().contains("disabled"))
    }

    /// The smallest buffer of all routes that go somewhere, and the route it belongs to.
    pub(crate) fn smallest_buffer(&self) -> Option<(String, u64)> {
        let listeners = self.messages(|object| object.contains_key("filter_chains"));
        let of_listener =
            |it: &&Value| bytes(it, "per_connection_buffer_limit_bytes").unwrap_or(BUFFER_BYTES);
        let of_listener = listeners.iter().map(of_listener).min().unwrap_or(BUFFER_BYTES);
        let hosts = self.messages(|object| {
            object.contains_key("domains") && object.get("routes").is_some_and(Value::is_array)
        });
        let mut smallest: Option<(String, u64)> = None;
        for host in hosts {
            let of_host = limit(host).unwrap_or(of_listener);
            let routes = host.get("routes").and_then(Value::as_array).into_iter().flatten();
            for route in routes.filter(|route| route.get("route").is_some()) {
                let buffer = limit(route).unwrap_or(of_host);
                if smallest.as_ref().is_none_or(|(_, known)| buffer < *known) {
                    smallest = Some((route_name(route), buffer));
                }
            }
        }
        smallest
    }

    /// The address of the admin port.
    pub(crate) fn admin(&self) -> Option<&str> {
        let documents = self.documents.iter();
        let bootstraps = documents.flat_map(|document| {
            let dumped = document.get("configs").and_then(Value::as_array).into_iter().flatten();
            [document].into_iter().chain(dumped.filter_map(|config| config.get("bootstrap")))
        });
        let mut addresses = bootstraps
            .filter_map(|it| it.pointer("/admin/address/socket_address/address"))
            .filter_map(Value::as_str);
        addresses.next()
    }
}

/// What a route says of ext_proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Disabled,
    Open,
}

fn search<'a>(
    value: &'a Value,
    is_wanted: &impl Fn(&Map<String, Value>) -> bool,
    found: &mut Vec<&'a Value>,
    depth: usize,
) {
    if depth >= DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(object) => {
            if is_wanted(object) {
                found.push(value);
            }
            for value in object.values() {
                search(value, is_wanted, found, depth + 1);
            }
        }
        Value::Array(list) => {
            for value in list {
                search(value, is_wanted, found, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether `@type` names this message.
fn is_type(object: &Map<String, Value>, name: &str) -> bool {
    object.get("@type").and_then(Value::as_str).is_some_and(|found| found.ends_with(name))
}

fn route_name(route: &Value) -> String {
    let name = route.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let matched =
        || route.get("match").map_or_else(|| "a virtual host".to_owned(), Value::to_string);
    name.map_or_else(matched, str::to_owned)
}

/// What a route or a virtual host buffers of a body, by the present or the older name of the field.
fn limit(route: &Value) -> Option<u64> {
    bytes(route, "request_body_buffer_limit")
        .or_else(|| bytes(route, "per_request_buffer_limit_bytes"))
}

/// A number; those of 64 bits are texts in a dump.
pub(crate) fn bytes(value: &Value, key: &str) -> Option<u64> {
    match value.get(key)? {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

/// A duration such as `0.25s`, in milliseconds.
pub(crate) fn milliseconds(value: &Value) -> Option<u64> {
    let seconds: f64 = value.as_str()?.strip_suffix('s')?.trim().parse().ok()?;
    let milliseconds = (seconds * 1_000.0).round();
    // A cast of what is out of range gives the nearest number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    (milliseconds >= 0.0).then_some(milliseconds as u64)
}

/// The HTTP filters of a manager that matter here, in their order, each with its configuration.
pub(crate) fn filters(manager: &Value) -> Vec<(Kind, &Value)> {
    let filters = manager.get("http_filters").and_then(Value::as_array).into_iter().flatten();
    filters
        .filter_map(|filter| Some((kind(filter)?, within(filter, EXT_PROC).unwrap_or(filter))))
        .collect()
}

/// The first message of this type in a value.
fn within<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let mut found = Vec::new();
    search(value, &|object| is_type(object, name), &mut found, 0);
    found.first().copied()
}

fn kind(filter: &Value) -> Option<Kind> {
    if within(filter, EXT_PROC).is_some() {
        return Some(Kind::ExtProc);
    }
    let text = filter.to_string();
    if within(filter, NATIVE).is_some() {
        return text.contains("glacis").then_some(Kind::Native);
    }
    // RBAC that looks into the receipt; or the wasm-filter as a guard, whose configuration is a text or a message.
    let is_rbac = text.contains(".rbac.") && has_rules(filter);
    let guards = (is_rbac && text.contains("\"verdict\"")
        || text.contains(".wasm.") && text.contains("guard"))
        && text.contains("glacis");
    guards.then_some(Kind::Guard)
}

/// Whether RBAC blocks: rules for the shadow only count.
fn has_rules(filter: &Value) -> bool {
    filter.pointer("/typed_config/rules").is_some()
        || filter.pointer("/typed_config/value/rules").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in
            [("1s", Some(1_000)), ("0.25s", Some(250)), ("-1s", None), ("1", None), ("xs", None)]
        {
            assert_eq!(milliseconds(&json!(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_search_ends() {
        let mut deep = json!({"@type": "a.HttpConnectionManager"});
        for _ in 0..DEPTH_MAX - 1 {
            deep = json!([deep]);
        }
        let count = |value| Envoy::new(vec![value]).managers().len();
        assert_eq!(count(deep.clone()), 1);
        assert_eq!(count(json!([deep])), 0);
    }
}
