//! The shape of parameters and forms: which types their texts stand for.
//!
//! A parameter is a text, and its schema says whether `1` is a number, a text or an array of one element. The schema
//! alone decides on validity; a shape only says how a text is read before it is compared.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use crate::schema::Dialect;

/// Types, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn of_name(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self(0),
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// How texts of a parameter are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) types: Types,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) properties: BTreeMap<String, Self>,
    /// Members of other names, where `additionalProperties` declares them.
    pub(crate) additional: Option<Box<Self>>,
}

/// Levels of arrays and objects of a parameter that are read as such.
const DEPTH_MAX: usize = 3;

/// Schemas that are looked at for one shape.
const SCHEMAS_MAX: usize = 256;

impl Shape {
    /// The shape that a schema of the document describes.
    pub(crate) fn of(root: &Value, schema: &Value, dialect: Dialect) -> Self {
        let mut left = SCHEMAS_MAX;
        Self::within(root, &[schema], dialect, DEPTH_MAX, &mut left)
    }

    fn within(
        root: &Value,
        schemas: &[&Value],
        dialect: Dialect,
        depth: usize,
        left: &mut usize,
    ) -> Self {
        let mut shape = Self::default();
        let (mut items, mut additional) = (Vec::new(), Vec::new());
        let mut properties: BTreeMap<&String, Vec<&Value>> = BTreeMap::new();
        let mut waiting: Vec<&Value> = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            let Some(rest) = left.checked_sub(1) else { break };
            *left = rest;
            shape.add_types(schema, dialect);
            let target = schema.get("$ref").and_then(Value::as_str);
            waiting.extend(target.and_then(|target| root.pointer(target.strip_prefix('#')?)));
            for keyword in ["allOf", "anyOf", "oneOf"] {
                waiting.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
            }
            items.extend(schema.get("items"));
            let named = schema.get("properties").and_then(Value::as_object);
            for (name, property) in named.into_iter().flatten() {
                properties.entry(name).or_default().push(property);
            }
            let declared = schema.get("additionalProperties");
            additional.extend(declared.filter(|schema| **schema != Value::Bool(false)));
        }
        if shape.types == Types::default() && !properties.is_empty() {
            shape.types = Types::OBJECT;
        }
        if let Some(depth) = depth.checked_sub(1) {
            if !items.is_empty() {
                shape.items = Some(Box::new(Self::within(root, &items, dialect, depth, left)));
            }
            if !additional.is_empty() {
                let other = Self::within(root, &additional, dialect, depth, left);
                shape.additional = Some(Box::new(other));
            }
            for (name, schemas) in properties {
                let property = Self::within(root, &schemas, dialect, depth, left);
                shape.properties.insert(name.clone(), property);
            }
        }
        shape
    }

    fn add_types(&mut self, schema: &Value, dialect: Dialect) {
        match schema.get("type") {
            Some(Value::String(name)) => self.types.add(Types::of_name(name)),
            Some(Value::Array(names)) => {
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .for_each(|name| self.types.add(Types::of_name(name)));
            }
            _ => {
                let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
                values
                    .chain(schema.get("const"))
                    .for_each(|value| self.types.add(Types::of_value(value)));
            }
        }
        if dialect == Dialect::OpenApi30 && schema.get("nullable") == Some(&Value::Bool(true)) {
            self.types.add(Types::NULL);
        }
    }

    /// The shape of elements.
    pub(crate) fn element(&self) -> Self {
        self.items.as_deref().cloned().unwrap_or_default()
    }

    /// Whether values are objects, or arrays of objects, which a text can only hold as JSON.
    pub(crate) fn is_structured(&self) -> bool {
        let is_object =
            |shape: &Self| shape.types.has(Types::OBJECT) && !shape.types.has(Types::STRING);
        is_object(self) || self.items.as_deref().is_some_and(is_object)
    }

    /// Reads a text; as a text, if it may be one and `as_text` is set.
    pub(crate) fn read(&self, text: &str, as_text: bool) -> Value {
        let types = self.types;
        let is_text = types.has(Types::STRING) || types == Types::default();
        if as_text && is_text {
            return Value::String(text.to_owned());
        }
        let is_number = types.has(Types::NUMBER) || (types.has(Types::INTEGER) && is_integer(text));
        let number = is_number.then(|| number(text)).flatten();
        match text {
            "true" if types.has(Types::BOOLEAN) => Value::Bool(true),
            "false" if types.has(Types::BOOLEAN) => Value::Bool(false),
            "" | "null" if types.has(Types::NULL) && !is_text => Value::Null,
            _ => number.map_or_else(|| Value::String(text.to_owned()), Value::Number),
        }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number as JSON writes it: no plus sign, no leading zeros, no white space.
fn number(text: &str) -> Option<Number> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let limits = crate::limits::Limits::default();
    match is_plain.then(|| crate::json::parse(text.as_bytes(), &limits)) {
        Some(Ok(Value::Number(number))) => Some(number),
        _ => None,
    }
}

/// Reads texts by name as an object.
pub(crate) fn object<'t>(
    shape: &Shape,
    members: impl Iterator<Item = &'t (String, String)>,
    as_text: bool,
) -> Value {
    let other = shape.additional.as_deref().cloned().unwrap_or_default();
    let read = |(name, text): &(String, String)| {
        let shape = shape.properties.get(name).unwrap_or(&other);
        (name.clone(), shape.read(text, as_text))
    };
    Value::Object(members.map(read).collect::<Map<_, _>>())
}
