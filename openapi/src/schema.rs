//! Schemas of a document as one JSON Schema of draft 2020-12.
//!
//! Each schema that a parameter or a body names becomes a member of one root schema, and each target of `$ref` one
//! definition, so that what operations share is compiled once. Keywords that are not of the dialect are left out.
//!
//! Sources: OpenAPI 3.0.4 and 3.1.1, "Schema Object"; JSON Schema 2020-12.

mod chain;
mod discriminator;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    error::{DocumentError, Place, escaped},
    limits::Limits,
    reference,
};

/// The keyword that counts steps: see `validate.rs`.
pub(crate) const STEPS: &str = "x-glacis-steps";

/// The dialects of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// That of OpenAPI 3.0: a subset of an early draft, with `nullable`.
    OpenApi30,
    /// That of OpenAPI 3.1: JSON Schema 2020-12.
    OpenApi31,
}

/// The schemas of a document while they are gathered.
pub(crate) struct Schemas<'d> {
    root: &'d Value,
    dialect: Dialect,
    limits: &'d Limits,
    left: usize,
    /// The pointers of definitions, by pointer and by number.
    numbers: HashMap<String, usize>,
    pointers: Vec<String>,
    definitions: Vec<Value>,
    entries: Map<String, Value>,
}

/// Keywords whose value is taken over as it is.
const PLAIN: &[&str] = &[
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "format",
];

/// Those that OpenAPI 3.1 has besides.
const PLAIN_31: &[&str] =
    &["exclusiveMaximum", "exclusiveMinimum", "maxContains", "minContains", "dependentRequired"];

/// Keywords whose value is one schema.
const ONE: &[&str] = &["items", "additionalProperties", "not"];
const ONE_31: &[&str] = &[
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
const LIST_31: &[&str] = &["prefixItems"];

/// Keywords whose value is schemas by name.
const NAMED: &[&str] = &["properties"];
const NAMED_31: &[&str] = &["patternProperties", "dependentSchemas"];

/// Keywords that change what references mean, and are not supported.
const REFUSED: &[&str] = &["$id", "$dynamicRef", "$recursiveRef", "$schema"];

impl<'d> Schemas<'d> {
    pub(crate) fn new(root: &'d Value, dialect: Dialect, limits: &'d Limits) -> Self {
        Self {
            root,
            dialect,
            limits,
            left: limits.schemas_max,
            numbers: HashMap::new(),
            pointers: Vec::new(),
            definitions: Vec::new(),
            entries: Map::new(),
        }
    }

    /// Adds the schema of a parameter or a body; returns the name of the member of the root that it is.
    pub(crate) fn add(
        &mut self,
        schema: &Value,
        place: &Place<'_>,
    ) -> Result<String, DocumentError> {
        let converted = self.converted(schema, place, 0)?;
        let name = format!("e{}", self.entries.len());
        self.entries.insert(name.clone(), converted);
        self.add_definitions()?;
        Ok(name)
    }

    /// The definitions that references have named and that are not there yet.
    fn add_definitions(&mut self) -> Result<(), DocumentError> {
        while let Some(pointer) = self.pointers.get(self.definitions.len()).cloned() {
            let place = Place::At(&pointer);
            let schema = reference::at(self.root, &pointer, &place)?;
            let converted = self.converted(schema, &place, 0)?;
            self.definitions.push(converted);
        }
        Ok(())
    }

    /// The root schema.
    ///
    /// # Errors
    /// When a schema applies to a value through too many others, or through itself.
    pub(crate) fn finish(self) -> Result<Converted, DocumentError> {
        let Self { definitions, entries, pointers, limits, .. } = self;
        let definitions: Map<String, Value> = definitions
            .into_iter()
            .enumerate()
            .map(|(at, schema)| (format!("d{at}"), schema))
            .collect();
        let root = json!({ "properties": entries, "$defs": definitions });
        chain::check(&root, &pointers, limits.schema_chain_max)?;
        Ok(Converted { plain: without_choices(&root), root, pointers })
    }

    fn definition(&mut self, pointer: String) -> String {
        let next = self.pointers.len();
        let number = *self.numbers.entry(pointer.clone()).or_insert(next);
        if number == next {
            self.pointers.push(pointer);
        }
        format!("#/$defs/d{number}")
    }

    fn reference(&mut self, target: &str, place: &Place<'_>) -> Result<Value, DocumentError> {
        let pointer = reference::pointer(target, place)?;
        reference::at(self.root, &pointer, place)?;
        Ok(Value::String(self.definition(pointer)))
    }

    fn converted(
        &mut self,
        schema: &Value,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<Value, DocumentError> {
        let refuse = |message: String| DocumentError::new(place, message);
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            refuse(format!("the document has more than {} schemas", self.limits.schemas_max))
        })?;
        if depth > self.limits.schema_depth_max {
            let max = self.limits.schema_depth_max;
            return Err(refuse(format!("schemas are nested more than {max} deep")));
        }
        let schema = match schema {
            Value::Bool(_) if self.dialect == Dialect::OpenApi31 => return Ok(schema.clone()),
            Value::Object(schema) => schema,
            _ => return Err(refuse("a schema has to be an object".to_owned())),
        };
        let mut out = Map::new();
        if let Some(target) = schema.get("$ref") {
            let target =
                target.as_str().ok_or_else(|| refuse("a reference has to be a text".to_owned()))?;
            out.insert("$ref".to_owned(), self.reference(target, place)?);
            if self.dialect == Dialect::OpenApi30 {
                // Members beside a reference are ignored (OpenAPI 3.0.4, "Reference Object").
                return Ok(Value::Object(out));
            }
        }
        if let Some(keyword) = REFUSED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(refuse(format!(
                "`{keyword}` is not supported: use `$ref` with a JSON pointer"
            )));
        }
        self.keywords(schema, &mut out, place, depth)?;
        self.without_read_only(schema, &mut out);
        discriminator::apply(self, schema, &mut out, place)?;
        Ok(counted(match self.dialect {
            Dialect::OpenApi30 => of_30(schema, out),
            Dialect::OpenApi31 => out,
        }))
    }

    fn keywords(
        &mut self,
        schema: &Map<String, Value>,
        out: &mut Map<String, Value>,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<(), DocumentError> {
        let is_31 = self.dialect == Dialect::OpenApi31;
        let has = |keywords: &[&str], more: &[&str], keyword: &str| {
            keywords.contains(&keyword) || (is_31 && more.contains(&keyword))
        };
        for (keyword, value) in schema {
            let inner = Place::In(place, keyword);
            let converted = if has(PLAIN, PLAIN_31, keyword) {
                value.clone()
            } else if has(ONE, ONE_31, keyword) {
                match value {
                    Value::Bool(_) => value.clone(),
                    _ => self.converted(value, &inner, depth + 1)?,
                }
            } else if has(LIST, LIST_31, keyword) {
                let Value::Array(list) = value else {
                    return Err(DocumentError::new(&inner, "expected a list of schemas"));
                };
                let each = list.iter().enumerate();
                let each =
                    each.map(|(at, one)| self.converted(one, &Place::Item(&inner, at), depth + 1));
                Value::Array(each.collect::<Result<_, _>>()?)
            } else if has(NAMED, NAMED_31, keyword) {
                let Value::Object(named) = value else {
                    return Err(DocumentError::new(&inner, "expected schemas by name"));
                };
                let mut converted = Map::new();
                for (name, one) in named {
                    let one = self.converted(one, &Place::In(&inner, name), depth + 1)?;
                    converted.insert(name.clone(), one);
                }
                Value::Object(converted)
            } else {
                continue;
            };
            out.insert(keyword.clone(), converted);
        }
        Ok(())
    }

    /// Members that are read only are not required of requests (OpenAPI 3.0.4, "Schema Object", `readOnly`).
    fn without_read_only(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) {
        let Some(Value::Array(required)) = out.get_mut("required") else { return };
        let is_read_only = |name: &str| {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            let Some(property) = property else { return false };
            let target = property.get("$ref").and_then(Value::as_str);
            let target = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?));
            [Some(property), target]
                .into_iter()
                .flatten()
                .any(|it| it.get("readOnly") == Some(&json!(true)))
        };
        required.retain(|name| !name.as_str().is_some_and(is_read_only));
    }
}

/// A schema of OpenAPI 3.0 as one of 2020-12.
fn of_30(schema: &Map<String, Value>, mut out: Map<String, Value>) -> Map<String, Value> {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                if let Some(number) = out.remove(bound) {
                    out.insert(exclusive.to_owned(), number);
                }
            }
            // Written as in 3.1.
            Some(number @ Value::Number(_)) => {
                out.insert(exclusive.to_owned(), number.clone());
            }
            _ => {}
        }
    }
    if is_binary(schema) {
        // The length of a file is not that of a text.
        for keyword in ["minLength", "maxLength", "pattern"] {
            out.remove(keyword);
        }
    }
    if schema.get("nullable") != Some(&Value::Bool(true)) {
        return out;
    }
    // By the letter, `null` has to be in `enum` as well, and `nullable` beside `allOf` has no effect. Nobody writes it
    // to mean that.
    let null = Value::Null;
    if let Some(name @ Value::String(_)) = out.get("type") {
        out.insert("type".to_owned(), json!([name, "null"]));
        match out.get_mut("enum") {
            Some(Value::Array(values)) if !values.contains(&null) => values.push(null),
            _ => {}
        }
        return out;
    }
    let mut nullable = Map::new();
    nullable.insert("anyOf".to_owned(), json!([{ "type": "null" }, counted(out)]));
    nullable
}

fn is_binary(schema: &Map<String, Value>) -> bool {
    schema.get("format").and_then(Value::as_str) == Some("binary")
}

/// A schema before which a step is counted.
///
/// The keyword has to be asked first, so that nothing more is compared once all steps are taken; keywords beside others
/// are asked in an order of their own.
fn counted(schema: Map<String, Value>) -> Value {
    const CHEAP: &[&str] = &[
        "type",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ];
    if schema.keys().all(|keyword| CHEAP.contains(&keyword.as_str())) {
        return Value::Object(schema);
    }
    let is_deep =
        ["uniqueItems", "enum", "const"].iter().any(|keyword| schema.contains_key(*keyword));
    json!({ "allOf": [{ STEPS: is_deep }, schema] })
}

/// A schema without choices, which fails where the schema fails for another reason than a choice.
///
/// The message of a choice is made of those of all of its schemas, and so on at each level: a client could make it as
/// large as memory is.
fn without_choices(schema: &Value) -> Value {
    const CHOICES: &[&str] =
        &["anyOf", "oneOf", "not", "unevaluatedProperties", "unevaluatedItems"];
    let Value::Object(schema) = schema else { return schema.clone() };
    let keyword = |(keyword, value): (&String, &Value)| {
        let name = keyword.as_str();
        let value = match value {
            _ if CHOICES.contains(&name) => return None,
            Value::Object(named)
                if NAMED.contains(&name) || NAMED_31.contains(&name) || name == "$defs" =>
            {
                named.iter().map(|(name, schema)| (name.clone(), without_choices(schema))).collect()
            }
            Value::Array(list) if LIST.contains(&name) || LIST_31.contains(&name) => {
                list.iter().map(without_choices).collect()
            }
            // A condition has to stay what it is, and is no place of messages.
            Value::Object(_) if name == "then" || name == "else" || ONE.contains(&name) => {
                without_choices(value)
            }
            value => value.clone(),
        };
        Some((keyword.clone(), value))
    };
    Value::Object(schema.iter().filter_map(keyword).collect())
}

/// All schemas of a document.
pub(crate) struct Converted {
    pub(crate) root: Value,
    /// The root for messages, without choices.
    pub(crate) plain: Value,
    /// Where definitions come from, by number.
    pub(crate) pointers: Vec<String>,
}

impl Converted {
    /// The place in the document of a place in the root schema.
    pub(crate) fn origin(&self, location: &str) -> String {
        place_of(location, &self.pointers)
    }
}

fn place_of(location: &str, pointers: &[String]) -> String {
    let rest = location.strip_prefix("/$defs/d");
    let (number, inner) =
        rest.map_or(("", location), |rest| rest.split_once('/').unwrap_or((rest, "")));
    let pointer = number.parse().ok().and_then(|number: usize| pointers.get(number));
    let inner = inner.replace("allOf/1/", "");
    match pointer {
        Some(pointer) if inner.is_empty() => pointer.clone(),
        Some(pointer) => format!("{pointer}/{inner}"),
        None => format!("a parameter or a body ({})", escaped(&inner)),
    }
}
