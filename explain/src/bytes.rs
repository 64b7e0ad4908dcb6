//! Bytes in JSON: a string, or `{"base64": "…"}` for what is not UTF-8.

use std::fmt;

use ::base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

/// A text of a request, which may be any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a string or {"base64": "…"}"#)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
        let Some((key, text)) = map.next_entry::<String, Base64>()? else {
            return Err(A::Error::custom(r#"the object has no member "base64""#));
        };
        if key != "base64" {
            return Err(A::Error::unknown_field(&key, &["base64"]));
        }
        if let Some(key) = map.next_key::<String>()? {
            return Err(A::Error::unknown_field(&key, &[]));
        }
        Ok(Bytes(text.0))
    }
}

/// Bytes that are always in base64: bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        base64(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Decodes standard base64 (RFC 4648 section 4), padded.
///
/// # Errors
/// When it is not, with the place.
pub fn base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}
