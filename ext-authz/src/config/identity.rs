//! The sections `api_keys`, `jwt`, `networks`, `countries` and `asn`: who asks.

use std::path::{Path, PathBuf};

use glacis_limits::day;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::Rate;

/// Clients with API keys.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ApiKeys {
    pub from: Vec<KeyPlace>,
    pub remove: bool,
    pub pepper_file: Option<PathBuf>,
    pub clients: Vec<ClientConfig>,
}

impl Default for ApiKeys {
    fn default() -> Self {
        let header = Some("x-api-key".to_owned());
        let from = vec![KeyPlace { header, ..KeyPlace::default() }];
        Self { from, remove: true, pepper_file: None, clients: Vec::new() }
    }
}

/// Where a key is looked for: one of `header`, `query` and `cookie`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct KeyPlace {
    pub header: Option<String>,
    pub scheme: Option<String>,
    pub query: Option<String>,
    pub cookie: Option<String>,
}

/// A client.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ClientConfig {
    pub name: String,
    pub keys: Vec<KeyConfig>,
    #[serde(default)]
    pub scopes: Vec<String>,
    #[serde(default)]
    pub rate: Option<Rate>,
}

/// A key of a client.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct KeyConfig {
    pub hash: String,
    #[serde(default)]
    pub not_before: Option<Day>,
    #[serde(default)]
    pub expires: Option<Day>,
}

/// A day in UTC, as days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day(pub u64);

impl Day {
    /// Its first second.
    pub(crate) const fn first_second(self) -> u64 {
        self.0.saturating_mul(86_400)
    }

    /// Its last second.
    pub(crate) const fn last_second(self) -> u64 {
        self.first_second().saturating_add(86_399)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refuse = || D::Error::custom(format!("\"{text}\" is no day: write it as 2027-01-31"));
        day::since_1970(&text).map(Self).ok_or_else(refuse)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Day {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Day".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" })
    }
}

/// Tokens that Envoy's `jwt_authn` has checked.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Jwt {
    pub payload: String,
}

impl Default for Jwt {
    fn default() -> Self {
        Self { payload: "jwt_payload".to_owned() }
    }
}

/// Lists of networks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Networks {
    pub files: Vec<PathBuf>,
    pub entries: Vec<String>,
}

/// Countries of addresses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Countries {
    pub table: Option<PathBuf>,
    pub deny: Vec<String>,
}

/// Autonomous systems of addresses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Systems {
    pub table: Option<PathBuf>,
    pub deny: Vec<u32>,
}

impl ApiKeys {
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(file) = &mut self.pepper_file {
            *file = folder.join(&*file);
        }
    }
}

impl Networks {
    pub(super) fn resolve(&mut self, folder: &Path) {
        self.files.iter_mut().for_each(|file| *file = folder.join(&*file));
    }
}

impl Countries {
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(table) = &mut self.table {
            *table = folder.join(&*table);
        }
    }
}

impl Systems {
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(table) = &mut self.table {
            *table = folder.join(&*table);
        }
    }
}
