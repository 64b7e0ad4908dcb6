//! JSON as strictly as the strictest server reads it: what servers read differently is an error.
//!
//! Duplicate names, integers beyond 64 bits, text after the value and invalid UTF-8 are errors, so that no two readers
//! of a body can differ on what was compared (RFC 8259, sections 4, 6 and 8.1).

use core::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::Limits;

/// Why a text is no JSON value, or none that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// The text is malformed or ambiguous.
    Malformed(String),
    /// A limit is reached.
    Limit(&'static str),
}

/// Reads one value.
pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    if text.len() > limits.body_bytes_max {
        return Err(JsonError::Limit("it is longer than what is compared"));
    }
    let room = Room { values_left: Cell::new(limits.body_values_max), reached: Cell::new(None) };
    let seed = Strict { room: &room, depth_left: limits.body_depth_max };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| match room.reached.get() {
        Some(limit) => JsonError::Limit(limit),
        // The text of the error may quote names that the client chose.
        None if error.is_data() => JsonError::Malformed(ambiguity(&error).to_owned()),
        None => JsonError::Malformed(format!(
            "malformed JSON at line {} column {}",
            error.line(),
            error.column()
        )),
    })
}

const DUPLICATE: &str = "a JSON object has a name twice";
const HUGE: &str = "a JSON number is beyond 64 bits";

fn ambiguity(error: &serde_json::Error) -> &'static str {
    let text = error.to_string();
    [DUPLICATE, HUGE].into_iter().find(|known| text.starts_with(known)).unwrap_or("malformed JSON")
}

struct Room {
    values_left: Cell<usize>,
    reached: Cell<Option<&'static str>>,
}

#[derive(Clone, Copy)]
struct Strict<'r> {
    room: &'r Room,
    depth_left: usize,
}

impl Strict<'_> {
    fn take<E: serde::de::Error>(&self) -> Result<(), E> {
        let Some(left) = self.room.values_left.get().checked_sub(1) else {
            self.room.reached.set(Some("it has more values than are compared"));
            return Err(E::custom("limit"));
        };
        self.room.values_left.set(left);
        Ok(())
    }

    fn within<E: serde::de::Error>(self) -> Result<Self, E> {
        let Some(depth_left) = self.depth_left.checked_sub(1) else {
            self.room.reached.set(Some("it is nested deeper than what is compared"));
            return Err(E::custom("limit"));
        };
        Ok(Self { depth_left, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.take()?;
        deserializer.deserialize_any(self)
    }
}

/// Integers from here on have neighbours that no 64-bit integer is, and doubles that differ from them.
const INTEGER_MAX: f64 = 9_223_372_036_854_775_808.0;

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= INTEGER_MAX {
            return Err(E::custom(HUGE));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom(HUGE))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let within = self.within()?;
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(within)? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let within = self.within()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(DUPLICATE));
            }
            object.insert(name, members.next_value_seed(within)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_servers_read_differently_are_errors() {
        let limits = Limits {
            body_bytes_max: 40,
            body_values_max: 4,
            body_depth_max: 3,
            ..Limits::default()
        };
        for (text, expected) in [
            (&b"{\"a\": 1}"[..], "ok"),
            (b"{\"a\": 1, \"a\": 2}", DUPLICATE),
            (b"{\"a\": 1, \"\\u0061\": 2}", DUPLICATE),
            (b"18446744073709551615", "ok"),
            (b"18446744073709551616", HUGE),
            (b"-9223372036854775809", HUGE),
            (b"1e400", "malformed JSON at line 1 column 5"),
            (b"1e19", HUGE),
            (b"\"\xff\"", "malformed JSON at line 1 column 2"),
            (b"\"\\ud800\"", "malformed JSON at line 1 column 8"),
            (b"\xef\xbb\xbf1", "malformed JSON at line 1 column 1"),
            (b"1 2", "malformed JSON at line 1 column 3"),
            (b"", "malformed JSON at line 1 column 0"),
            (b"[1,]", "malformed JSON at line 1 column 4"),
            (b"NaN", "malformed JSON at line 1 column 1"),
            (b"01", "malformed JSON at line 1 column 2"),
            (b"[1,2,3]", "ok"),
            (b"[1,2,3,4]", "limit: it has more values than are compared"),
            (b"[[[1]]]", "ok"),
            (b"[[[[]]]]", "limit: it is nested deeper than what is compared"),
            (b"\"34567890123456789012345678901234567890\"", "ok"),
            (
                b"\"345678901234567890123456789012345678901\"",
                "limit: it is longer than what is compared",
            ),
        ] {
            let found = match parse(text, &limits) {
                Ok(_) => "ok".to_owned(),
                Err(JsonError::Malformed(message)) => message,
                Err(JsonError::Limit(limit)) => format!("limit: {limit}"),
            };
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        }
    }
}
