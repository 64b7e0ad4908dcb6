//! The native module in a running Envoy, from its configuration and its statistics. Pure: text in, text out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Depth of the configuration in which filters are searched.
const DEPTH_MAX: usize = 64;

/// The last part of the type of filters that are dynamic modules.
const FILTER: &str = ".DynamicModuleFilter";

/// How Envoy's statistics of modules begin.
const PREFIX: &str = "dynamicmodulescustom.";

/// The state of the module in one Envoy; `None` if no filter there uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    filters: Vec<Filter>,
    version: Option<String>,
    rulesets: Vec<Ruleset>,
    /// Requests by verdict.
    requests: BTreeMap<String, u64>,
    /// Requests without a verdict, by what went wrong.
    errors: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Filter {
    listener: String,
    name: String,
    module: String,
    /// Routes turn it on.
    off_by_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ruleset {
    profile: String,
    hash: String,
    rules: String,
    mode: String,
}

impl Native {
    /// From the answers of `/config_dump` and `/stats`.
    pub(super) fn read(dump: &str, stats: &str) -> Self {
        let mut native = Self::default();
        let dump: Value = serde_json::from_str(dump).unwrap_or_default();
        search(&dump, "?", &mut native.filters, 0);
        // Static listeners are in the bootstrap configuration, and among the listeners.
        native.filters.sort();
        native.filters.dedup();
        for line in stats.lines() {
            let Some((name, value)) = line.rsplit_once(": ") else { continue };
            let value = value.parse().unwrap_or(0);
            if let Some(name) = name.strip_prefix(PREFIX).filter(|_| value > 0) {
                native.count(name, value);
            }
        }
        native.rulesets.sort();
        native
    }

    fn count(&mut self, name: &str, value: u64) {
        if let Some(version) = name.strip_prefix("glacis_build_info.version.") {
            self.version = Some(version.to_owned());
        } else if let Some(labels) = name.strip_prefix("glacis_ruleset_info.hash.") {
            self.rulesets.extend(ruleset(labels));
        } else if let Some(labels) = name.strip_prefix("glacis_requests.profile.") {
            if let Some((_, verdict)) = labels.rsplit_once(".verdict.") {
                *self.requests.entry(verdict.to_owned()).or_default() += value;
            }
        } else if let Some(kind) = name.strip_prefix("glacis_errors.kind.") {
            *self.errors.entry(kind.to_owned()).or_default() += value;
        }
    }

    /// Whether no filter has the module.
    pub(super) fn is_absent(&self) -> bool {
        self.filters.is_empty()
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        if self.is_absent() {
            return String::new();
        }
        let version =
            self.version.as_deref().unwrap_or("of a version that its first request shows");
        let mut text = format!("native module {version}:\n");
        for Filter { listener, name, module, off_by_default } in &self.filters {
            let off = if *off_by_default { ", where routes turn it on" } else { "" };
            text.push_str(&format!("  listener {listener}: filter {name} ({module}){off}\n"));
        }
        for Ruleset { profile, hash, rules, mode } in &self.rulesets {
            text.push_str(&format!("  profile {profile}: mode {mode}, {rules} rules, {hash}\n"));
        }
        for (words, counts) in [("requests", &self.requests), ("errors", &self.errors)] {
            let counts: Vec<_> = counts.iter().map(|(of, count)| format!("{of} {count}")).collect();
            if !counts.is_empty() {
                text.push_str(&format!("  {words} since Envoy started: {}\n", counts.join(", ")));
            }
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        if self.is_absent() {
            return Value::Null;
        }
        let filters = self.filters.iter().map(|it| {
            json!({
                "listener": it.listener, "filter": it.name, "module": it.module,
                "off_by_default": it.off_by_default,
            })
        });
        let rulesets = self.rulesets.iter().map(|it| {
            json!({"profile": it.profile, "hash": it.hash, "rules": it.rules, "mode": it.mode})
        });
        json!({
            "version": self.version,
            "filters": filters.collect::<Vec<_>>(),
            "rulesets": rulesets.collect::<Vec<_>>(),
            "requests": self.requests,
            "errors": self.errors,
        })
    }
}

/// Labels as Envoy writes them into a name: `HASH.rules.N.profile.NAME.mode.WORD`. The name of a profile may have dots.
fn ruleset(labels: &str) -> Option<Ruleset> {
    let (hash, rest) = labels.split_once(".rules.")?;
    let (rules, rest) = rest.split_once(".profile.")?;
    let (profile, mode) = rest.rsplit_once(".mode.")?;
    let [profile, hash, rules, mode] = [profile, hash, rules, mode].map(str::to_owned);
    Some(Ruleset { profile, hash, rules, mode })
}

/// Filters of the module below a value; `listener` is the name of the listener that the value is part of.
fn search(value: &Value, listener: &str, found: &mut Vec<Filter>, depth: usize) {
    if depth >= DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(object) => {
            let name = object.get("name").and_then(Value::as_str);
            let listener = match name {
                Some(name) if object.contains_key("filter_chains") => name,
                _ => listener,
            };
            found.extend(filter(object, listener));
            object.values().for_each(|value| search(value, listener, found, depth + 1));
        }
        Value::Array(list) => {
            list.iter().for_each(|value| search(value, listener, found, depth + 1));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn filter(object: &Map<String, Value>, listener: &str) -> Option<Filter> {
    let config = object.get("typed_config")?;
    config.get("@type")?.as_str().filter(|found| found.ends_with(FILTER))?;
    let module = config.get("dynamic_module_config")?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let file = text(module.pointer("/module/local/filename"));
    let module = file.or_else(|| text(module.get("name")))?;
    Some(Filter {
        listener: listener.to_owned(),
        name: text(object.get("name"))?,
        module: Some(module).filter(|module| module.contains("glacis"))?,
        off_by_default: object.get("disabled") == Some(&Value::Bool(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(filters: &Value) -> String {
        json!({"configs": [{"dynamic_listeners": [{"active_state": {"listener": {
            "name": "edge",
            "filter_chains": [{"filters": [{"typed_config": {"http_filters": filters}}]}],
        }}}]}]})
        .to_string()
    }

    fn module(config: &Value) -> Value {
        let kind = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";
        json!({"name": "waf", "typed_config": {"@type": kind, "dynamic_module_config": config}})
    }

    #[test]
    fn a_module_is_shown_with_its_rules() {
        let mut by_route = module(&json!({"module": {"local": {"filename": "/opt/libglacis.so"}}}));
        by_route["disabled"] = json!(true);
        let others = module(&json!({"name": "coraza"}));
        let filters =
            json!([module(&json!({"name": "glacis"})), by_route, others, {"name": "router"}]);
        let stats = "dynamicmodulescustom.glacis_build_info.version.0.1.0: 1\n\
            dynamicmodulescustom.glacis_ruleset_info.hash.ab.rules.3.profile.a.b.mode.on: 1\n\
            dynamicmodulescustom.glacis_ruleset_info.hash.cd.rules.3.profile.a.b.mode.on: 0\n\
            dynamicmodulescustom.glacis_requests.profile.a.verdict.deny: 2\n\
            dynamicmodulescustom.glacis_requests.profile.b.verdict.deny: 3\n\
            dynamicmodulescustom.glacis_errors.kind.not_ready: 1\nother: 1\n";
        let native = Native::read(&dump(&filters), stats);
        assert_eq!(
            native.table(),
            "native module 0.1.0:\n  listener edge: filter waf (/opt/libglacis.so), where routes turn it on\n  \
             listener edge: filter waf (glacis)\n  \
             profile a.b: mode on, 3 rules, ab\n  requests since Envoy started: deny 5\n  \
             errors since Envoy started: not_ready 1\n"
        );
        assert_eq!(native.json()["rulesets"][0]["profile"], "a.b");
    }

    #[test]
    fn without_the_module_there_is_nothing_to_show() {
        for dump in ["", "{", "{}", &dump(&json!([{"name": "router", "typed_config": {}}]))] {
            let native = Native::read(dump, "dynamicmodulescustom.other: 1\nx\n");
            assert!(native.is_absent() && native.table().is_empty(), "{dump}");
            assert_eq!(native.json(), Value::Null);
        }
    }

    #[test]
    fn a_search_ends() {
        let mut deep = module(&json!({"name": "glacis"}));
        for _ in 0..DEPTH_MAX {
            deep = json!([deep]);
        }
        assert!(Native::read(&deep.to_string(), "").is_absent());
    }
}
