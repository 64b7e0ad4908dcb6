//! Keys whose words are truth values to some readers of YAML.

use core::fmt;

use serde::{
    Deserializer,
    de::{Error, Unexpected, Visitor},
};

/// Reads one of these words. `on` and `off` may come as truth values: Envoy makes them of the words when it reads YAML, and
/// hands a `google.protobuf.Struct` over as JSON.
pub(crate) fn word<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    words: &[(&'static str, T)],
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Words(words))
}

struct Words<'w, T>(&'w [(&'static str, T)]);

impl<T: Copy> Words<'_, T> {
    fn find(&self, name: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == name).map(|(_, value)| *value)
    }
}

impl<T: Copy> Visitor<'_> for Words<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|(word, _)| *word).collect();
        write!(f, "one of {}", words.join(", "))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.find(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_bool<E: Error>(self, is_on: bool) -> Result<T, E> {
        let word = if is_on { "on" } else { "off" };
        self.find(word).ok_or_else(|| E::invalid_value(Unexpected::Bool(is_on), &self))
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use crate::{Mode, Response};

    #[test]
    fn words_and_truth_values() {
        for (text, mode, response) in [
            ("on", Some(Mode::On), None),
            ("true", Some(Mode::On), None),
            ("off", Some(Mode::Off), Some(Response::Off)),
            ("false", Some(Mode::Off), Some(Response::Off)),
            ("\"off\"", Some(Mode::Off), Some(Response::Off)),
            ("detection", Some(Mode::Detection), None),
            ("full", None, Some(Response::Full)),
            ("5", None, None),
        ] {
            assert_eq!(parse::<Mode>(text).ok(), mode, "{text}");
            assert_eq!(parse::<Response>(text).ok(), response, "{text}");
        }
        let refused = parse::<Response>("all").unwrap_err().to_string();
        assert!(refused.contains("all") && refused.contains("off, headers, full"), "{refused}");
    }
}
