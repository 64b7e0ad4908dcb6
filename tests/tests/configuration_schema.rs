//! The schema of the chart and the services agree about the keys of configurations: what Helm rejects no service would
//! read, and what Helm accepts every service knows.
//!
//! The walk visits each object, word and number of the schema, puts a key or word there that nobody has, and compares
//! what serde says it expected.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;

use glacis_tests::settings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A key and a word that no configuration has.
const UNKNOWN: &str = "__unknown";

/// Schemas within schemas; redis, TLS and keys of limits are the deepest.
const DEPTH_MAX: usize = 16;

struct Walk<'s> {
    definitions: &'s Map<String, Value>,
    read: fn(Value) -> Result<(), String>,
    keys: usize,
    wrong: Vec<String>,
}

/// A place in a document: how a value gets there.
#[derive(Clone)]
struct Place(Vec<Step>);

#[derive(Clone)]
enum Step {
    Key(String),
    Item,
}

impl Place {
    fn at(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    fn with(&self, value: Value) -> Value {
        self.0.iter().rev().fold(value, |value, step| match step {
            Step::Key(key) => json!({ key: value }),
            Step::Item => json!([value]),
        })
    }

    fn name(&self) -> String {
        let steps = self.0.iter().map(|step| match step {
            Step::Key(key) => key.as_str(),
            Step::Item => "[]",
        });
        steps.collect::<Vec<_>>().join(".")
    }
}

/// The names in backticks behind the word `expected`.
fn expected(error: &str) -> BTreeSet<&str> {
    let rest = error.split_once("expected").map_or("", |(_, rest)| rest);
    rest.split('`').skip(1).step_by(2).collect()
}

impl Walk<'_> {
    fn probe(&self, place: &Place, value: Value) -> String {
        (self.read)(place.with(value)).err().unwrap_or_default()
    }

    fn note(&mut self, place: &Place, what: &str) {
        self.wrong.push(format!("{}: {what}", place.name()));
    }

    fn compare(&mut self, place: &Place, error: &str, schema: &BTreeSet<&str>) {
        let service = expected(error);
        for key in service.difference(schema) {
            self.note(place, &format!("the schema does not have `{key}`"));
        }
        for key in schema.difference(&service) {
            self.note(place, &format!("the service does not know `{key}`"));
        }
    }

    fn visit(&mut self, schema: &Value, place: &Place) {
        assert!(place.0.len() < DEPTH_MAX, "{}", place.name());
        let Some(keywords) = schema.as_object() else { return };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let name = reference.strip_prefix("#/definitions/").unwrap();
            return self.visit(&self.definitions[name], place);
        }
        for combined in ["anyOf", "oneOf"] {
            if let Some(branches) = keywords.get(combined).and_then(Value::as_array) {
                return self.branches(branches, place);
            }
        }
        if keywords.contains_key("enum") || keywords.contains_key("const") {
            return self.words(std::slice::from_ref(schema), place);
        }
        if let Some(properties) = keywords.get("properties").and_then(Value::as_object) {
            self.object(keywords, properties, place);
        }
        let kinds = match &keywords.get("type") {
            Some(Value::String(kind)) => vec![kind.as_str()],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let sample = |kind| match kind {
            "boolean" => Some(json!(true)),
            "integer" | "number" => Some(json!(1)),
            "null" => Some(Value::Null),
            _ => None,
        };
        for value in kinds.iter().filter_map(|kind| sample(*kind)) {
            let error = self.probe(place, value.clone());
            if error.contains("invalid type") {
                self.note(place, &format!("the service does not read {value}: {error}"));
            }
        }
        if let Some(items) = keywords.get("items") {
            self.visit(items, &place.at(Step::Item));
        }
        if let Some(values @ Value::Object(_)) = keywords.get("additionalProperties") {
            self.visit(values, &place.at(Step::Key("name".to_owned())));
        }
    }

    fn object(
        &mut self,
        keywords: &Map<String, Value>,
        properties: &Map<String, Value>,
        place: &Place,
    ) {
        if keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
            self.note(place, "the schema accepts any key");
        }
        let error = self.probe(place, json!({ UNKNOWN: 0 }));
        assert!(error.contains("unknown field"), "{}: {error}", place.name());
        self.compare(place, &error, &properties.keys().map(String::as_str).collect());
        let required = keywords.get("required").and_then(Value::as_array);
        if let Some(required) = required.filter(|required| !required.is_empty()) {
            let error = self.probe(place, json!({}));
            if !required
                .iter()
                .any(|key| error.contains(&format!("missing field {key}").replace('"', "`")))
            {
                self.note(
                    place,
                    &format!("the schema requires {required:?}; the service: {error}"),
                );
            }
        }
        for (key, property) in properties {
            self.keys += 1;
            self.visit(property, &place.at(Step::Key(key.clone())));
        }
    }

    fn branches(&mut self, branches: &[Value], place: &Place) {
        let is_word =
            |branch: &Value| ["enum", "const"].iter().any(|keyword| branch.get(*keyword).is_some());
        if !branches.iter().any(is_word) {
            return branches.iter().for_each(|branch| self.visit(branch, place));
        }
        self.words(branches, place);
        for branch in branches.iter().filter_map(|branch| branch["properties"].as_object()) {
            for (key, property) in branch {
                self.visit(property, &place.at(Step::Key(key.clone())));
            }
        }
    }

    /// Words, among them those that take a value as a key.
    fn words(&mut self, branches: &[Value], place: &Place) {
        let mut words = BTreeSet::new();
        for branch in branches {
            let listed = branch["enum"].as_array().into_iter().flatten().chain(branch.get("const"));
            for value in listed {
                self.keys += 1;
                let error = self.probe(place, value.clone());
                if !error.is_empty() && !error.starts_with("missing field") {
                    self.note(place, &format!("the service does not read {value}: {error}"));
                }
                words.extend(value.as_str());
            }
            words.extend(
                branch["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()),
            );
        }
        let error = self.probe(place, json!(UNKNOWN));
        if error.contains("unknown variant") {
            self.compare(place, &error, &words);
        } else if error.is_empty() || error.starts_with("missing field") {
            self.note(place, "the service reads any word");
        }
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<(), String> {
    serde_json::from_value::<T>(value).map(|_| ()).map_err(|error| error.to_string())
}

#[track_caller]
fn check(definition: &str, read: fn(Value) -> Result<(), String>, keys_min: usize) {
    let path = settings::root().join("charts/glacis/values.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let definitions = schema["definitions"].as_object().unwrap();
    let mut walk = Walk { definitions, read, keys: 0, wrong: Vec::new() };
    walk.visit(&definitions[definition], &Place(Vec::new()));
    let wrong = walk.wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "`cargo xtask charts --write` makes the schema again; it differs:\n{wrong}"
    );
    assert!(walk.keys >= keys_min, "only {} keys were compared", walk.keys);
}

#[test]
fn ext_proc() {
    check("extProcConfig", read::<glacis_ext_proc::config::Config>, 300);
}

#[test]
fn ext_authz() {
    check("extAuthzConfig", read::<glacis_ext_authz::config::Config>, 150);
}

/// A walk that finds nothing wrong in a wrong schema proves nothing.
#[test]
fn a_schema_that_differs() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde only")]
    struct Example {
        #[serde(default)]
        known: bool,
        #[serde(default)]
        more: u8,
    }
    let schema = json!({"properties": {"known": {"type": "integer"}, "other": {}}});
    let definitions = Map::new();
    let mut walk =
        Walk { definitions: &definitions, read: read::<Example>, keys: 0, wrong: Vec::new() };
    walk.visit(&schema, &Place(Vec::new()));
    let found = walk.wrong.join("\n");
    for part in [
        "accepts any key",
        "does not have `more`",
        "does not know `other`",
        "known: the service does not read 1",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
}
