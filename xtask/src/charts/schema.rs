//! The schema of the services' configuration within `values.schema.json`, made of the Rust types.
//!
//! `--write` builds one example of each service with the feature `schema` and splices what it prints into the chart.
//! Without `--write` nothing is built: `tests/tests/configuration_schema.rs` compares the file with what the services
//! read.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::compare as compare_file;
use crate::cargo::{cargo, output, root};
use crate::failure::{self, Failure, Outcome};

/// The last key of `values.schema.json`; the text above it is written by hand.
const BEGIN: &str = "\n  \"definitions\": ";

/// The package of a service, its example, and how the names of its definitions begin.
const SERVICES: [(&str, &str, &str); 2] = [
    ("glacis-ext-proc", "ext-proc-schema", "extProc"),
    ("glacis-ext-authz", "ext-authz-schema", "extAuthz"),
];

/// The schema of the native module's configuration, which no chart carries: for editors, and for CI of Envoy's.
const NATIVE: (&str, &str, &str) =
    ("glacis-envoy-module", "native-schema", "envoy-configs/native/schema.json");

/// Ranges that the services check after they have read a file: the key, the least, the greatest.
const RANGES: &[(&str, u64, u64)] = &[
    ("paranoia", 1, 4),
    ("detection_paranoia", 1, 4),
    ("sample_percent", 0, 100),
    ("percent", 1, 100),
    ("inbound_threshold", 1, 4_294_967_295),
    ("outbound_threshold", 1, 4_294_967_295),
    ("status", 400, 599),
];

/// Writes the definitions into `values.schema.json`.
pub(super) fn renew(chart: &Path) -> Outcome<()> {
    let mut definitions = Map::new();
    for (package, example, prefix) in SERVICES {
        definitions.append(&mut prefixed(printed(package, example)?, prefix));
    }
    renew_native()?;
    let path = chart.join("values.schema.json");
    let there = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let Some((by_hand, _)) = there.split_once(BEGIN) else {
        return Err(Failure::new(format!("{}: there are no definitions", path.display())));
    };
    let made = indented(&Value::Object(definitions))?;
    compare_file(&path, &format!("{by_hand}{BEGIN}{made}\n}}\n"), true).map(|_| ())
}

/// What an example with the feature `schema` prints.
fn printed(package: &str, example: &str) -> Outcome<Value> {
    let mut run = cargo(["run", "--quiet", "--locked", "--features", "schema"]);
    let printed = output(run.args(["-p", package, "--example", example]))?;
    serde_json::from_str(&printed).map_err(|error| Failure::new(format!("{example}: {error}")))
}

fn renew_native() -> Outcome<()> {
    let (package, example, file) = NATIVE;
    let mut schema = printed(package, example)?;
    adapt(&mut schema, "");
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::new(format!("the schema is no JSON: {error}")))?;
    compare_file(&root().join(file), &format!("{text}\n"), true).map(|_| ())
}

/// The definitions of a schema and its root, named `PREFIXConfig`, with `prefix` before every name.
fn prefixed(mut schema: Value, prefix: &str) -> Map<String, Value> {
    let inner = schema.as_object_mut().and_then(|root| root.remove("definitions"));
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
    }
    let mut definitions = Map::from_iter([(format!("{prefix}Config"), schema)]);
    if let Some(Value::Object(inner)) = inner {
        definitions.extend(inner.into_iter().map(|(name, of)| (format!("{prefix}{name}"), of)));
    }
    definitions.values_mut().for_each(|definition| adapt(definition, prefix));
    definitions
}

/// Points references to the names with the prefix, and adds the ranges.
fn adapt(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
                *reference =
                    reference.replace("#/definitions/", &format!("#/definitions/{prefix}"));
            }
            if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
                for (key, least, greatest) in RANGES {
                    if let Some(Value::Object(property)) = properties.get_mut(*key) {
                        property.insert("minimum".to_owned(), json!(least));
                        property.insert("maximum".to_owned(), json!(greatest));
                    }
                }
            }
            keywords.values_mut().for_each(|value| adapt(value, prefix));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| adapt(item, prefix)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// JSON as it stands below a key of the top.
fn indented(value: &Value) -> Outcome<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("the schema is no JSON: {error}")))?;
    Ok(text.replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_prefix_and_numbers_a_range() {
        let schema = json!({
            "$schema": "x",
            "properties": {"mode": {"$ref": "#/definitions/Mode"}, "paranoia": {"type": "integer"}},
            "definitions": {"Mode": {"enum": ["on"]}},
        });
        let definitions = Value::Object(prefixed(schema, "a"));
        let expected = json!({
            "aConfig": {"properties": {
                "mode": {"$ref": "#/definitions/aMode"},
                "paranoia": {"type": "integer", "minimum": 1, "maximum": 4},
            }},
            "aMode": {"enum": ["on"]},
        });
        assert_eq!(definitions, expected);
    }
}
