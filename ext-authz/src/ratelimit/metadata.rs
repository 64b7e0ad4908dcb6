//! Dynamic metadata: what a limit says about requests, as protobuf has it.

use envoy_types::pb::google::protobuf::{ListValue, Struct, Value, value::Kind};
use serde_json::{Map, Value as Json};

/// A mapping of a configuration file.
pub(super) fn from_json(json: &Map<String, Json>) -> Struct {
    let fields = json.iter().map(|(key, json)| (key.clone(), value(json)));
    Struct { fields: fields.collect() }
}

fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        // Protobuf has no other numbers here.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(elements) => {
            Kind::ListValue(ListValue { values: elements.iter().map(value).collect() })
        }
        Json::Object(json) => Kind::StructValue(from_json(json)),
    };
    Value { kind: Some(kind) }
}

/// Adds what is new in `more`; where both have a mapping, also within it. What is there already stays.
pub(super) fn merge(into: &mut Struct, more: &Struct) {
    // PERF: sorting is not needed, each key is looked at for itself.
    #[expect(clippy::iter_over_hash_type, reason = "each key goes to its own place")]
    for (key, new) in &more.fields {
        match into.fields.get_mut(key) {
            None => {
                into.fields.insert(key.clone(), new.clone());
            }
            Some(Value { kind: Some(Kind::StructValue(old)) }) => {
                if let Some(Kind::StructValue(new)) = &new.kind {
                    merge(old, new);
                }
            }
            Some(_) => {}
        }
    }
}

/// A text.
pub(super) fn string(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// A number.
pub(super) const fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

/// A list.
pub(super) fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

/// A mapping.
pub(super) fn mapping<const N: usize>(fields: [(&str, Option<Value>); N]) -> Struct {
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Struct { fields: fields.collect() }
}
