//! The configuration file of `glacis-ext-authz`. The file `glacis-ext-authz.yaml` beside this crate
//! documents every key with its default.

mod identity;
mod policy;
mod rate_limit;
mod rules;

use core::time::Duration;
use std::{collections::BTreeMap, path::Path};

use glacis_service::{
    config::{
        Admin, ConfigError, Drain, Listen, LogLevel, Overload, Seconds, check_listeners, ensure,
        load,
    },
    differing,
};
use serde::Deserialize;

use crate::leases::LeasesConfig;
use crate::quota::QuotaConfig;
use crate::ratelimit::{FormerName, RatelimitConfig};
pub use identity::{
    ApiKeys, ClientConfig, Countries, Day, Jwt, KeyConfig, KeyPlace, Networks, Systems,
};
pub use policy::{
    Action, AmbiguousPaths, LimitOrder, Matches, PolicyConfig, Require, Scopes, Token,
};
pub use rate_limit::{
    Absent, Algorithm, KeyPart, ListsConfig, OverLimitCacheConfig, Rate, RateLimitConfig,
    ScenarioConfig, StoreConfig, StoreFailure,
};
pub use rules::{Mode, PartialBody, ProfileConfig};

/// What is wrong in the configuration: a key, and what to write there.
pub(crate) type Wrong = (String, String);

/// Refusals of limits that may be cached: each takes some 300 bytes.
const OVER_LIMIT_ENTRIES_MAX: usize = 1_048_576;

/// The configuration. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Config {
    pub listen: Listen<9002>,
    pub admin: Admin<9102>,
    pub log_level: LogLevel,
    pub trusted_hops: usize,
    pub networks: Networks,
    pub countries: Countries,
    pub asn: Systems,
    pub api_keys: ApiKeys,
    pub jwt: Jwt,
    pub ambiguous_paths: AmbiguousPaths,
    pub policies: Vec<PolicyConfig>,
    pub otherwise: Action,
    pub limit: LimitOrder,
    pub store: StoreConfig,
    pub rate_limits: Vec<RateLimitConfig>,
    pub bans: Vec<ScenarioConfig>,
    pub lists: ListsConfig,
    pub profiles: BTreeMap<String, ProfileConfig>,
    pub profile: Option<String>,
    pub reload_seconds: Seconds,
    pub max_checks: usize,
    pub max_message_bytes: usize,
    pub overload: Overload,
    pub rate_limit_service: Option<RatelimitConfig>,
    pub ratelimit: FormerName,
    pub leases: LeasesConfig,
    pub quota: QuotaConfig,
    pub drain_notice_seconds: u64,
    pub drain_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            admin: Admin::default(),
            log_level: LogLevel::Info,
            trusted_hops: 0,
            networks: Networks::default(),
            countries: Countries::default(),
            asn: Systems::default(),
            api_keys: ApiKeys::default(),
            jwt: Jwt::default(),
            ambiguous_paths: AmbiguousPaths::Deny,
            policies: Vec::new(),
            otherwise: Action::Deny,
            limit: LimitOrder::AfterPolicies,
            store: StoreConfig::default(),
            rate_limits: Vec::new(),
            bans: Vec::new(),
            lists: ListsConfig::default(),
            profiles: BTreeMap::new(),
            profile: None,
            reload_seconds: Seconds(5),
            max_checks: 4_096,
            max_message_bytes: 16_777_216,
            overload: Overload::default(),
            rate_limit_service: None,
            ratelimit: FormerName,
            leases: LeasesConfig::default(),
            quota: QuotaConfig::default(),
            drain_notice_seconds: 2,
            drain_seconds: 20,
        }
    }
}

impl Config {
    /// Reads and checks the file `path`. Relative paths in it are made relative to its folder.
    ///
    /// # Errors
    /// When the file is not readable, not well-formed, or asks for what makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = load(path)?;
        config.check().map_err(|(key, message)| ConfigError::at(path, key, message))?;
        if let Some(redis) = &config.store.redis {
            redis.check().map_err(|error| {
                let (key, message) = error.at("store.redis");
                ConfigError::at(path, &key, &message)
            })?;
        }
        for (name, profile) in &config.profiles {
            profile.check().map_err(|(key, message)| {
                ConfigError::at(path, &format!("profiles.{name}.{key}"), message)
            })?;
        }
        let checked = config.leases.check().and_then(|()| config.quota.check());
        checked.map_err(|(key, message)| ConfigError::at(path, &key, &message))?;
        config.resolve(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(config)
    }

    /// What makes no sense, as key and message.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        check_listeners(&self.listen, &self.admin)?;
        ensure(self.max_checks > 0, "max_checks", "no request could be answered: write 1 or more")?;
        ensure(
            self.max_message_bytes >= 1 << 20,
            "max_message_bytes",
            "headers alone can be that large: write 1048576 or more",
        )?;
        self.rate_limit_service.as_ref().map_or(Ok(()), RatelimitConfig::check)?;
        ensure(self.store.replicas > 0, "store.replicas", "write 1 or more: this is one")?;
        ensure(
            self.store.over_limit_cache.entries_max <= OVER_LIMIT_ENTRIES_MAX,
            "store.over_limit_cache.entries_max",
            "write at most 1048576, or 0 for no cache",
        )?;
        ensure(
            (100..=60_000).contains(&self.store.over_limit_cache.max_ms),
            "store.over_limit_cache.max_ms",
            "write 100 to 60000",
        )?;
        ensure(
            self.profile.as_ref().is_none_or(|name| self.profiles.contains_key(name)),
            "profile",
            "there is no profile of this name",
        )
    }

    fn resolve(&mut self, folder: &Path) {
        self.listen.resolve(folder);
        self.admin.resolve(folder);
        self.networks.resolve(folder);
        self.countries.resolve(folder);
        self.asn.resolve(folder);
        self.api_keys.resolve(folder);
        self.lists.resolve(folder);
        if let Some(redis) = &mut self.store.redis {
            redis.resolve(folder);
        }
        self.profiles.values_mut().for_each(|profile| profile.resolve(folder));
        if let Some(ratelimit) = &mut self.rate_limit_service {
            ratelimit.resolve(folder);
        }
    }

    /// How often files are looked at for changes.
    #[must_use]
    pub fn reload_interval(&self) -> Option<Duration> {
        (!self.reload_seconds.is_zero()).then(|| self.reload_seconds.duration())
    }

    /// The keys in which `other` differs although they are read at the start only.
    #[must_use]
    pub fn differs_beyond_reload(&self, other: &Self) -> Vec<&'static str> {
        let keys = differing!(self, other;
            listen,
            admin,
            log_level,
            store,
            reload_seconds,
            max_checks,
            max_message_bytes,
            overload,
            rate_limit_service,
            leases,
            quota,
            drain_notice_seconds,
            drain_seconds,
        );
        let lists = ("lists.listen", self.lists.listen != other.lists.listen);
        keys.into_iter()
            .chain([lists])
            .filter(|(_, differs)| *differs)
            .map(|(key, _)| key)
            .collect()
    }

    /// How the process ends.
    #[must_use]
    pub const fn drain(&self) -> Drain {
        Drain {
            notice: Duration::from_secs(self.drain_notice_seconds),
            limit: Duration::from_secs(self.drain_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use super::*;

    #[test]
    fn the_documented_file_says_the_defaults() {
        let documented = include_str!("../glacis-ext-authz.yaml");
        assert_eq!(parse::<Config>(documented).unwrap(), Config::default());
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, words) in [
            ("max_check: 1\n", &["line 1", "max_check"][..]),
            ("log_level: all\n", &["all", "debug"]),
            ("ratelimit: {config: a}\n", &["line 1", "rate_limit_service", "rate_limits"]),
            ("ratelimit: null\n", &["line 1", "rate_limit_service"]),
        ] {
            let error = parse::<Config>(text).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{text}: no {word} in {error}");
            }
        }
        for (text, key) in [
            ("listen: {tcp: null}\n", "listen"),
            ("admin: {address: 0.0.0.0:9102}\n", "admin.address"),
            ("max_checks: 0\n", "max_checks"),
            ("max_message_bytes: 1\n", "max_message_bytes"),
            (
                "store: {over_limit_cache: {entries_max: 1048577}}\n",
                "store.over_limit_cache.entries_max",
            ),
            ("store: {over_limit_cache: {max_ms: 99}}\n", "store.over_limit_cache.max_ms"),
            ("store: {over_limit_cache: {max_ms: 60001}}\n", "store.over_limit_cache.max_ms"),
            ("rate_limit_service: {config: a, max_calls: 0}\n", "rate_limit_service.max_calls"),
            ("listen: {tls: {certificate: a, key: b, client_names: [c]}}\n", "listen.tls"),
            ("admin: {tls: {certificate: a, key: b, client_names: [c]}}\n", "admin.tls"),
        ] {
            let found = parse::<Config>(text).unwrap().check();
            assert_eq!(found.unwrap_err().0, key, "{text}");
        }
        let asked = "admin: {address: 0.0.0.0:9102, tls: {certificate: a, key: b, client_ca: c}}\n";
        let token = "admin: {address: 0.0.0.0:9102, token_file: a}\n";
        for text in ["", "listen: {unix: {path: a.sock}}\n", asked, token] {
            let config = parse::<Config>(text).unwrap();
            assert_eq!(config.check(), Ok(()), "{text}");
            assert_eq!(config.listen.tcp.unwrap().port(), 9002, "{text}");
        }
    }
}
