//! The section `policies`: who may do what.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    #[default]
    Allow,
    Deny,
}

/// What becomes of a request whose path could mean another one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum AmbiguousPaths {
    Deny,
    Normalize,
}

/// When a request is counted against its limits.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum LimitOrder {
    #[default]
    AfterPolicies,
    BeforePolicies,
}

/// A policy.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct PolicyConfig {
    pub name: String,
    #[serde(default, rename = "match")]
    pub matches: Matches,
    #[serde(default)]
    pub action: Action,
    #[serde(default)]
    pub require: Require,
    #[serde(default)]
    pub limit: Option<LimitOrder>,
}

/// Which requests: those that fit one of each list that is not empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Matches {
    pub paths: Vec<String>,
    pub methods: Vec<String>,
    pub hosts: Vec<String>,
    pub tags: Vec<String>,
    pub countries: Vec<String>,
    pub asns: Vec<u32>,
}

/// What a request has to bring.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Require {
    pub tags: Vec<String>,
    pub countries: Vec<String>,
    pub asns: Vec<u32>,
    pub api_key: Option<Scopes>,
    pub jwt: Option<Token>,
}

impl Require {
    /// Whether it asks for nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// An API key whose client has all of these.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Scopes {
    pub scopes: Vec<String>,
}

/// A token that says all of these.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Token {
    pub scopes: Vec<String>,
    pub claims: BTreeMap<String, Vec<String>>,
}
