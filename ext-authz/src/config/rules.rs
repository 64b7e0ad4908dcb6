//! The section `profiles`: rules of the engine, for the heads of requests and for bodies that Envoy sends.

use std::path::{Path, PathBuf};

use glacis_engine::RuleEngine;
use glacis_inspector::TruncatedBody;
use glacis_rules::Defaults;
use serde::Deserialize;

/// Whether rules run, and may block.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Mode {
    On,
    Detection,
    Off,
}

impl From<Mode> for RuleEngine {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::On => Self::On,
            Mode::Detection => Self::DetectionOnly,
            Mode::Off => Self::Off,
        }
    }
}

/// What becomes of requests of whose body Envoy sends only the beginning.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum PartialBody {
    Reject,
    Partial,
    Pass,
}

impl From<PartialBody> for TruncatedBody {
    fn from(body: PartialBody) -> Self {
        match body {
            PartialBody::Reject => Self::Reject,
            PartialBody::Partial => Self::Inspect,
            PartialBody::Pass => Self::Pass,
        }
    }
}

/// Whose defaults the settings of CRS have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CrsDefaults {
    Glacis,
    Crs,
}

impl From<CrsDefaults> for Defaults {
    fn from(defaults: CrsDefaults) -> Self {
        match defaults {
            CrsDefaults::Glacis => Self::Glacis,
            CrsDefaults::Crs => Self::Crs,
        }
    }
}

/// A profile. The keys mean what they mean in ext-proc.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ProfileConfig {
    pub mode: Option<Mode>,
    pub base: bool,
    pub setup: String,
    pub crs: Option<PathBuf>,
    pub defaults: CrsDefaults,
    pub rules: Vec<String>,
    pub directives: String,
    pub paranoia: Option<u8>,
    pub inbound_threshold: Option<u32>,
    pub partial_body: PartialBody,
}

impl Default for ProfileConfig {
    fn default() -> Self {
        Self {
            mode: None,
            base: true,
            setup: String::new(),
            crs: None,
            defaults: CrsDefaults::Glacis,
            rules: Vec::new(),
            directives: String::new(),
            paranoia: None,
            inbound_threshold: None,
            partial_body: PartialBody::Reject,
        }
    }
}

impl ProfileConfig {
    pub(super) fn resolve(&mut self, folder: &Path) {
        for rule in &mut self.rules {
            *rule = folder.join(&*rule).to_string_lossy().into_owned();
        }
        if let Some(crs) = &mut self.crs {
            *crs = folder.join(&*crs);
        }
    }

    /// What makes no sense, as key and message.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        use glacis_service::config::ensure;
        ensure(
            self.crs.is_some() || !self.rules.is_empty() || !self.directives.trim().is_empty(),
            "rules",
            "there are no rules: name a folder in `crs` or files in `rules`, or write SecLang in `directives`",
        )?;
        ensure(
            self.base || self.crs.is_none(),
            "base",
            "the Core Rule Set needs the base configuration: remove `base: false`",
        )?;
        ensure(
            self.paranoia.is_none_or(|level| (1..=4).contains(&level)),
            "paranoia",
            "write a level from 1 to 4, or null",
        )?;
        ensure(
            self.inbound_threshold != Some(0),
            "inbound_threshold",
            "everything would be refused: write 1 or more",
        )
    }
}
