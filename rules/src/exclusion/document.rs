//! Exclusions as they are written in configurations and files.

use core::{fmt::Write as _, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};

use super::Exclusion;
use crate::date::Date;

/// A file of exclusions: what `glacis learn` writes, and `--exclusions` reads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExclusionList {
    /// In their order.
    #[serde(default)]
    pub exclusions: Vec<ExclusionConfig>,
}

/// What some rules do not look at, who answers for it, why, and until when.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ExclusionConfig {
    #[serde(default)]
    pub rules: Vec<RuleRange>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub targets: Vec<String>,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub hosts: Vec<String>,
    #[serde(default)]
    pub values: Option<String>,
    pub owner: String,
    pub reason: String,
    pub expires: Expiry,
    #[serde(default)]
    pub evidence: Option<ExclusionEvidence>,
}

/// What a learned exclusion rests on. It changes nothing; it is for whoever answers for the exclusion.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExclusionEvidence {
    /// Requests that were blocked for what is excluded.
    pub requests: u64,
    /// Clients that sent them; 0 where the input names none.
    #[serde(default)]
    pub clients: u64,
    /// Days on which they came; 0 where the input has no times.
    #[serde(default)]
    pub days: u64,
}

/// An id of a rule, or a range of them as text.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RuleRange {
    /// An id.
    Id(u32),
    /// `942200-942299`.
    Range(String),
}

/// The last day of an exclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// There is none, and somebody has said so.
    Never,
    /// It holds up to the end of this day, in UTC.
    After(Date),
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self::Never);
        }
        let refuse = |_| {
            D::Error::custom(format!("\"{text}\" is no day: write it as 2027-01-31, or `never`"))
        };
        Date::from_str(&text).map(Self::After).map_err(refuse)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Expiry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Expiry".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(never|[0-9]{4}-[0-9]{2}-[0-9]{2})$" })
    }
}

impl From<&ExclusionConfig> for Exclusion {
    fn from(config: &ExclusionConfig) -> Self {
        let range = |range: &RuleRange| match range {
            RuleRange::Id(id) => id.to_string(),
            RuleRange::Range(text) => text.clone(),
        };
        Self {
            rules: config.rules.iter().map(range).collect(),
            tags: config.tags.clone(),
            targets: config.targets.clone(),
            path: config.path.clone(),
            hosts: config.hosts.clone(),
            values: config.values.clone(),
            owner: config.owner.clone(),
            reason: config.reason.clone(),
            expires: match config.expires {
                Expiry::Never => None,
                Expiry::After(date) => Some(date),
            },
        }
    }
}

/// Writes exclusions with their evidence as YAML, for the key `exclusions`.
#[must_use]
pub fn write_exclusions<'e>(
    exclusions: impl IntoIterator<Item = (&'e Exclusion, Option<ExclusionEvidence>)>,
) -> String {
    let mut out = String::new();
    for (exclusion, evidence) in exclusions {
        write_one(&mut out, exclusion, evidence);
    }
    if out.is_empty() { "exclusions: []\n".to_owned() } else { format!("exclusions:\n{out}") }
}

fn write_one(out: &mut String, exclusion: &Exclusion, evidence: Option<ExclusionEvidence>) {
    let list = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        quoted.join(", ")
    };
    let mut lines = Vec::new();
    if !exclusion.rules.is_empty() {
        let rule = |rule: &String| if rule.contains('-') { quoted(rule) } else { rule.clone() };
        let rules: Vec<String> = exclusion.rules.iter().map(rule).collect();
        lines.push(format!("rules: [{}]", rules.join(", ")));
    }
    for (key, texts) in
        [("tags", &exclusion.tags), ("targets", &exclusion.targets), ("hosts", &exclusion.hosts)]
    {
        if !texts.is_empty() {
            lines.push(format!("{key}: [{}]", list(texts)));
        }
    }
    for (key, text) in [("path", &exclusion.path), ("values", &exclusion.values)] {
        lines.extend(text.as_ref().map(|text| format!("{key}: {}", quoted(text))));
    }
    lines.push(format!("owner: {}", quoted(&exclusion.owner)));
    lines.push(format!("reason: {}", quoted(&exclusion.reason)));
    let expires = exclusion.expires.map_or_else(|| "never".to_owned(), |day| day.to_string());
    lines.push(format!("expires: {expires}"));
    if let Some(ExclusionEvidence { requests, clients, days }) = evidence {
        lines.push(format!("evidence: {{requests: {requests}, clients: {clients}, days: {days}}}"));
    }
    for (at, line) in lines.iter().enumerate() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{} {line}", if at == 0 { "-" } else { " " });
    }
}

/// A text in double quotes, as YAML and JSON have them.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            character if character.is_control() || !character.is_ascii() => {
                let _ = write!(out, "\\U{:08X}", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out.push('"');
    out
}
