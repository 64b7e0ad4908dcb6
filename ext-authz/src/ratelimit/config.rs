//! The part `rate_limit_service` of the configuration of the service.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};

/// How Envoy's rate limit protocol is answered. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct RatelimitConfig {
    pub config: PathBuf,
    #[serde(default)]
    pub merge_domains: bool,
    #[serde(default)]
    pub shadow_mode: bool,
    #[serde(default)]
    pub quota_mode: bool,
    #[serde(default)]
    pub response_headers: Option<ResponseHeaders>,
    #[serde(default)]
    pub dynamic_metadata: bool,
    #[serde(default = "near_limit_percent")]
    pub near_limit_percent: u8,
    #[serde(default = "metric_paths_max")]
    pub metric_paths_max: usize,
    #[serde(default)]
    pub on_store_failure: StoreFailure,
    #[serde(default = "max_calls")]
    pub max_calls: usize,
}

/// The key `ratelimit`, which `rate_limit_service` was called before: too close to `rate_limits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormerName;

impl<'de> Deserialize<'de> for FormerName {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(
            "`ratelimit` is called `rate_limit_service` now (Envoy's rate limit protocol); the limits that \
             Checks count against are `rate_limits`",
        ))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for FormerName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FormerName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(false)
    }
}

/// What is answered while the store is away.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum StoreFailure {
    #[default]
    Error,
    Allow,
    Deny,
    Local,
}

/// The names of the header fields that tell clients how they stand.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ResponseHeaders {
    pub limit: String,
    pub remaining: String,
    pub reset: String,
}

impl Default for ResponseHeaders {
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".to_owned(),
            remaining: "RateLimit-Remaining".to_owned(),
            reset: "RateLimit-Reset".to_owned(),
        }
    }
}

const fn near_limit_percent() -> u8 {
    80
}

const fn metric_paths_max() -> usize {
    1_000
}

const fn max_calls() -> usize {
    4_096
}

impl RatelimitConfig {
    /// What makes no sense, as key and message.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.near_limit_percent > 100 {
            return Err(("rate_limit_service.near_limit_percent", "write a number from 0 to 100"));
        }
        if self.max_calls == 0 {
            return Err((
                "rate_limit_service.max_calls",
                "nothing could be answered: write 1 or more",
            ));
        }
        if let Some(ResponseHeaders { limit, remaining, reset }) = &self.response_headers {
            let is_name = |name: &String| http::HeaderName::try_from(name.as_str()).is_ok();
            if ![limit, remaining, reset].into_iter().all(is_name) {
                let message = "not all of them are names of header fields: write such as \
                               RateLimit-Limit";
                return Err(("rate_limit_service.response_headers", message));
            }
        }
        Ok(())
    }

    /// Makes the folder relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        self.config = folder.join(&self.config);
    }
}
