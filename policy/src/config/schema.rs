//! The schema beside this crate says what the parser does, and the reference is made of it.
//!
//! `UPDATE_EXPECT=1 cargo test -p glacis-policy` renews the reference. Nothing of this is in
//! the product.

use super::Config;
use serde_json::{Value, json};
use std::fmt::Write as _;

const SCHEMA: &str = include_str!("../../config.schema.json");

/// A place in the document: its path as problems name it, and how to build a document around a
/// value that stands there.
struct Place<'a> {
    path: String,
    around: &'a dyn Fn(Value) -> Value,
}

impl Place<'_> {
    fn told(&self, value: &Value) -> Result<(), String> {
        let table = glacis_limits::geo::CountryTable::new(Vec::new()).to_bytes();
        let table = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, table);
        let asns = glacis_limits::asn::AsnTable::default().to_bytes();
        let asns = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, asns);
        let text = (self.around)(value.clone()).to_string();
        let text = text.replace("BASE64-ASN", &asns).replace("BASE64", &table);
        Config::parse(text.as_bytes()).map(|_| ()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn accepts(&self, value: &Value) {
        if let Err(message) = self.told(value) {
            panic!("{} refuses {value}: {message}", self.path);
        }
    }

    #[track_caller]
    fn refuses(&self, value: &Value, because: &str) {
        let message = self.told(value).err().unwrap_or_else(|| {
            panic!("{} accepts {value}", self.path);
        });
        let expected = format!("{}: ", self.path);
        assert!(message.contains(&expected) && message.contains(because), "{because}: {message}");
    }
}

/// The least that may stand where this is asked for.
fn least(schema: &Value) -> Value {
    if let Some(example) = schema["examples"].get(0) {
        return example.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let names = required.iter().map(|name| name.as_str().unwrap());
            names.map(|name| (name.to_owned(), least(&schema["properties"][name]))).collect()
        }
        Some("array") => {
            let least_many = schema["minItems"].as_u64().unwrap_or(0);
            (0..least_many).map(|_| least(&schema["items"])).collect()
        }
        Some("integer") => schema["minimum"].clone(),
        Some("boolean") => json!(false),
        _ if schema["oneOf"].is_array() => least(&schema["oneOf"][0]),
        _ => schema["enum"][0].clone(),
    }
}

/// Holds the parser to all that the schema says of this place and those below.
fn check(schema: &Value, place: &Place<'_>, checks: &mut usize) {
    *checks += 1;
    place.accepts(&least(schema));
    if let Some(words) = schema["enum"].as_array() {
        words.iter().for_each(|word| place.accepts(word));
        place.refuses(&json!("no such word"), "write ");
    }
    for one in schema["oneOf"].as_array().into_iter().flatten() {
        match one["enum"].as_array() {
            // A key by country or system needs `geo` or `asn`, which the document around does not have.
            Some(words) => {
                words.iter().filter(|word| *word != "country" && *word != "asn").for_each(|word| {
                    place.accepts(word);
                })
            }
            None => {
                place.accepts(&least(one));
                check_fields(one, place, checks);
            }
        }
    }
    match schema["type"].as_str() {
        Some("object") if schema["properties"].is_object() => {
            check_names(schema, place);
            check_fields(schema, place, checks);
        }
        Some("array") => check_list(schema, place, checks),
        Some("integer") => check_range(schema, place),
        Some("boolean") => {
            place.accepts(&json!(true));
            place.refuses(&json!("true"), "write true or false");
        }
        Some("string") => place.refuses(&json!(7), "write "),
        _ => {}
    }
}

/// The parser names the fields that it knows: they are those of the schema.
fn check_names(schema: &Value, place: &Place<'_>) {
    let mut value = least(schema);
    value["no_such_field"] = json!(1);
    let message = place.told(&value).unwrap_err();
    let (_, told) = message.split_once("the fields here are ").unwrap();
    let told = told.split(" | ").next().unwrap();
    let mut told: Vec<_> = told.split(", ").collect();
    told.sort_unstable();
    let mut known: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    known.sort_unstable();
    assert_eq!(told, known, "{}", place.path);
}

fn check_fields(schema: &Value, place: &Place<'_>, checks: &mut usize) {
    for (name, field) in schema["properties"].as_object().unwrap() {
        let around = |value: Value| {
            let mut object = least(schema);
            // Fields of which only one may be there; a country needs one of the first three.
            for (one, other) in
                [("table", "from_header"), ("feed", "from_header"), ("rules", "seclang")]
            {
                if name == one {
                    object.as_object_mut().unwrap().remove(other);
                }
            }
            // Only a plain list has an action, and none is older than the time between two fetches.
            match name.as_str() {
                "action" if schema["properties"].get("format").is_some() => {
                    object["format"] = json!("plain");
                }
                "max_age_seconds" => object["refresh_seconds"] = json!(1),
                _ => {}
            }
            object[name] = value;
            (place.around)(object)
        };
        let path = match place.path.as_str() {
            "$" => name.clone(),
            path => format!("{path}.{name}"),
        };
        check(field, &Place { path, around: &around }, checks);
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let mut object = least(schema);
        object.as_object_mut().unwrap().remove(name.as_str().unwrap());
        assert!(place.told(&object).is_err(), "{} does without {name}", place.path);
    }
}

fn check_list(schema: &Value, place: &Place<'_>, checks: &mut usize) {
    let max = usize::try_from(schema["maxItems"].as_u64().unwrap()).unwrap();
    let around = |value: Value| {
        let others = schema["minItems"].as_u64().unwrap_or(1).saturating_sub(1);
        let others = (0..others).map(|_| least(&schema["items"]));
        (place.around)(std::iter::once(value).chain(others).collect())
    };
    let path = format!("{}[0]", place.path);
    check(&schema["items"], &Place { path, around: &around }, checks);
    let many = vec![least(&schema["items"]); max + 1];
    place.refuses(&many.into(), &format!("write at most {max}"));
    place.refuses(&json!("no list"), "write a list of ");
}

fn check_range(schema: &Value, place: &Place<'_>) {
    let (min, max) = (schema["minimum"].as_u64().unwrap(), schema["maximum"].as_u64().unwrap());
    place.accepts(&json!(min));
    // What costs more than a burst is refused, and the burst is the requests by default.
    if !place.path.ends_with("cost") && !place.path.ends_with("burst") {
        place.accepts(&json!(max));
        place.refuses(&json!(max + 1), &format!("write a whole number from {min} to {max}"));
    }
    if let Some(below) = min.checked_sub(1) {
        place.refuses(&json!(below), "write a whole number from ");
    }
    if let Some(default) = schema["default"].as_u64() {
        assert!((min..=max).contains(&default), "{}", place.path);
    }
}

#[test]
fn the_parser_does_what_the_schema_says() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let around = |mut value: Value| {
        // So that a limit may ask for countries.
        let asks = value.to_string().contains("countries");
        if asks && value.get("geo").is_none() {
            value["geo"] = json!({"from_header": "x"});
        }
        let asks = value.to_string().contains("asns");
        if asks && value.get("asn").is_none() {
            value["asn"] = json!({"from_header": "x"});
        }
        value
    };
    let mut checks = 0;
    check(&schema, &Place { path: "$".to_owned(), around: &around }, &mut checks);
    assert!(checks > 90, "{checks}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads the page")]
fn the_reference_is_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../docs/reference/wasm-filter.md");
    let expected = reference();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let seen = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(seen == expected, "docs/reference/wasm-filter.md is stale: run with UPDATE_EXPECT=1");
}

fn reference() -> String {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut page = "# Configuration of the wasm-filter\n\n\
        This page is made of `policy/config.schema.json`; do not edit it. A test holds the \
        parser to that file.\n\
        `wasm-filter/README.md` says what the fields are good for. Anything else, and a field that \
        stands twice, is refused.\n\n\
        | field | type | range | default | meaning |\n|---|---|---|---|---|\n"
        .to_owned();
    describe(&schema, "", &mut page);
    page
}

fn describe(schema: &Value, path: &str, page: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        row(field, &path, required, page);
        let (inner, path) = match field["items"].is_object() {
            true => (&field["items"], format!("{path}[]")),
            false => (field, path),
        };
        describe(inner, &path, page);
        for one in inner["oneOf"].as_array().into_iter().flatten() {
            describe(one, &path, page);
        }
    }
}

fn row(field: &Value, path: &str, required: bool, page: &mut String) {
    let words = field["enum"]
        .as_array()
        .map(|words| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "));
    let kind = field["type"].as_str().unwrap_or("string");
    let range = match (&field["minimum"], &field["maximum"], &field["maxItems"]) {
        (Value::Number(min), Value::Number(max), _) => format!("{min} to {max}"),
        (_, _, Value::Number(max)) => format!("at most {max}"),
        _ => words.unwrap_or_default(),
    };
    let default = match &field["default"] {
        Value::Null if required => "required".to_owned(),
        Value::Null => String::new(),
        default => format!("`{default}`"),
    };
    let meaning = field["description"].as_str().unwrap();
    writeln!(page, "| `{path}` | {kind} | {range} | {default} | {meaning} |").unwrap();
}
