//! JSON as the configuration needs it: fields in their order, and none of them twice.
//!
//! A deserialiser of structs would name a line and a column, but no path; and the usual value type
//! keeps the last of two fields with one name, so that half of a list could vanish unseen.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number that is whole and not negative, however it was written.
    Whole(u64),
    /// Any other number: negative, with a fraction, or too large.
    OtherNumber,
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Parses a text of one JSON value.
///
/// Nesting is bounded by the parser (128 levels).
pub(crate) fn parse(text: &[u8]) -> Result<Json, serde_json::Error> {
    serde_json::from_slice(text)
}

impl Json {
    /// The value as other readers take it. A number that is not whole becomes null.
    pub(crate) fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Null | Self::OtherNumber => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Whole(value) => (*value).into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(list) => list.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                let field = |(name, value): &(String, Self)| (name.clone(), value.to_value());
                serde_json::Value::Object(fields.iter().map(field).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        match u64::try_from(value) {
            Ok(value) => Ok(Json::Whole(value)),
            Err(_) => Ok(Json::OtherNumber),
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        // A host that keeps numbers as doubles may write 100 as 1e2.
        let whole = value.fract() == 0.0 && (0.0..=9e15).contains(&value);
        Ok(if whole { Json::Whole(value as u64) } else { Json::OtherNumber })
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = fields.next_entry::<String, Json>()? {
            if object.len() >= FIELDS_MAX {
                return Err(A::Error::custom("an object has too many fields"));
            }
            if object.iter().any(|(before, _)| *before == name) {
                return Err(A::Error::custom(format_args!(
                    "the field {name:?} stands twice in one object; write it once"
                )));
            }
            object.push((name, value));
        }
        Ok(Json::Object(object))
    }
}

/// More fields than any object of a configuration has; the search for repeated ones is quadratic.
const FIELDS_MAX: usize = 256;
