//! The section `exclusions`.

use core::str::FromStr;

use glacis_rules::{Date, Exclusion};
use serde::{Deserialize, Deserializer, de::Error as _};

/// What some rules do not look at, who answers for it, why, and until when.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
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
    pub owner: String,
    pub reason: String,
    pub expires: Expiry,
}

/// An id of a rule, or a range of them as text.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
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
            owner: config.owner.clone(),
            reason: config.reason.clone(),
            expires: match config.expires {
                Expiry::Never => None,
                Expiry::After(date) => Some(date),
            },
        }
    }
}
