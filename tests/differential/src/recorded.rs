//! Cases in which a parser returned the mark, as lines of JSON, so that tests need no parser.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::case::{Case, Place};

/// A case, and where a parser returned its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request.
    pub case: Case,
    /// The place.
    pub place: Place,
}

impl Recorded {
    /// A line of a file of recorded cases, without its end.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { case, place } = self;
        let mut fields = json!({ "mark": case.mark });
        for (name, bytes) in [
            ("content_type", &case.content_type),
            ("query", &case.query),
            ("cookie", &case.cookie),
            ("body", &case.body),
        ] {
            if bytes.is_empty() {
                continue;
            }
            match std::str::from_utf8(bytes) {
                Ok(text) => fields[name] = text.into(),
                Err(_) => fields[format!("{name}_base64")] = STANDARD.encode(bytes).into(),
            }
        }
        if *place == Place::File {
            fields["file"] = true.into();
        }
        fields.to_string()
    }

    /// The case of such a line.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(line).ok()?;
        let field = |name: &str| {
            let coded = fields[format!("{name}_base64")].as_str();
            let coded = coded.and_then(|coded| STANDARD.decode(coded).ok());
            coded.or_else(|| fields[name].as_str().map(|text| text.into())).unwrap_or_default()
        };
        let case = Case {
            content_type: field("content_type"),
            query: field("query"),
            cookie: field("cookie"),
            body: field("body"),
            mark: usize::try_from(fields["mark"].as_u64()?).ok()?,
        };
        let is_file = fields["file"] == true;
        Some(Self { case, place: if is_file { Place::File } else { Place::Value } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cases() {
        for place in [Place::Value, Place::File] {
            let case = Case {
                query: b"a=\xff".to_vec(),
                body: b"b\n".to_vec(),
                mark: 2,
                ..Case::default()
            };
            let recorded = Recorded { case, place };
            assert_eq!(Recorded::read(&recorded.line()), Some(recorded));
        }
        assert_eq!(Recorded::read("{}"), None);
    }
}
