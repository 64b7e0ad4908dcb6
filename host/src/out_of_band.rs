//! The keys about evaluations that nobody waits for.

use serde::Deserialize;

/// Whether requests wait for their verdict.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Evaluation {
    InBand,
    OutOfBand,
}

/// What evaluates a sample of a profile's exchanges in its shadow.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ShadowConfig {
    pub profile: String,
    pub percent: u8,
}
