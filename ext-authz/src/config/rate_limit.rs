//! The sections `rate_limits` and `store`: how much.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use glacis_limit_store::RedisConfig;
use serde::Deserialize;

use super::Matches;

/// How many, in how long.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Rate {
    pub requests: u32,
    #[serde(default = "one")]
    pub per_seconds: u32,
    #[serde(default)]
    pub burst: Option<u32>,
}

const fn one() -> u32 {
    1
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Algorithm {
    #[default]
    Gcra,
    SlidingWindow,
    FixedWindow,
}

/// What tells clients apart.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum KeyPart {
    ClientAddress,
    Host,
    Method,
    Country,
    Asn,
    ApiKey,
    Path(Vec<String>),
    Header(String),
    Cookie(String),
    JwtClaim(String),
}

/// What becomes of a request that has no such thing.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Absent {
    #[default]
    Address,
    Shared,
    Skip,
}

/// What becomes of a request when the store is away.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum StoreFailure {
    Allow,
    Deny,
    #[default]
    Local,
}

/// A limit.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct RateLimitConfig {
    pub name: String,
    pub requests: u32,
    #[serde(default = "one")]
    pub per_seconds: u32,
    #[serde(default)]
    pub burst: Option<u32>,
    #[serde(default = "one")]
    pub cost: u32,
    #[serde(default)]
    pub algorithm: Algorithm,
    #[serde(default = "by_address")]
    pub key: Vec<KeyPart>,
    #[serde(default)]
    pub absent: Absent,
    #[serde(default, rename = "match")]
    pub matches: Matches,
    #[serde(default = "ipv4_prefix")]
    pub ipv4_prefix: u8,
    #[serde(default = "ipv6_prefix")]
    pub ipv6_prefix: u8,
    #[serde(default)]
    pub shadow: bool,
    #[serde(default)]
    pub headers_on_allowed: bool,
    #[serde(default)]
    pub on_store_failure: StoreFailure,
}

fn by_address() -> Vec<KeyPart> {
    vec![KeyPart::ClientAddress]
}

const fn ipv4_prefix() -> u8 {
    32
}

const fn ipv6_prefix() -> u8 {
    64
}

/// Where counters are kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct StoreConfig {
    pub counters_max: usize,
    pub redis: Option<RedisConfig>,
    pub replicas: u32,
    pub over_limit_cache: OverLimitCacheConfig,
}

/// Refusals of limits that are cached before Redis.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct OverLimitCacheConfig {
    pub entries_max: usize,
    pub max_ms: u32,
}

impl Default for OverLimitCacheConfig {
    fn default() -> Self {
        Self { entries_max: 32_768, max_ms: 10_000 }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            counters_max: 100_000,
            redis: None,
            replicas: 1,
            over_limit_cache: OverLimitCacheConfig::default(),
        }
    }
}

/// When an address is banned.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ScenarioConfig {
    pub name: String,
    pub reasons: Vec<String>,
    pub capacity: u32,
    pub leak_seconds: u32,
    pub ban_seconds: u32,
    #[serde(default = "ipv6_prefix")]
    pub ipv6_prefix: u8,
}

/// Lists, tables and patches for wasm-filters.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ListsConfig {
    pub listen: Option<SocketAddr>,
    pub files: BTreeMap<String, PathBuf>,
    pub countries: Option<PathBuf>,
    pub asn: Option<PathBuf>,
    pub patches: Option<PathBuf>,
}

impl ListsConfig {
    pub(super) fn resolve(&mut self, folder: &Path) {
        let others = [&mut self.countries, &mut self.asn, &mut self.patches];
        let files = self.files.values_mut().chain(others.into_iter().flatten());
        files.for_each(|file| *file = folder.join(&*file));
    }
}
