//! The section `bans`.

use core::time::Duration;
use std::path::Path;

use glacis_limit_store::{
    ASKS_MAX, BanScenario, IPV6_PREFIX, IPV6_PREFIXES, LimitError, RedisConfig,
};
use serde::Deserialize;

/// When addresses are banned whose requests are refused, and where that is kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct BansConfig {
    pub redis: Option<RedisConfig>,
    pub scenarios: Vec<ScenarioConfig>,
    pub queue_max: usize,
}

/// A leaky bucket of refusals for each address.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ScenarioConfig {
    pub name: String,
    pub capacity: u32,
    pub leak_seconds: u32,
    pub ban_seconds: u32,
    #[serde(default = "ipv6_prefix")]
    pub ipv6_prefix: u8,
}

const fn ipv6_prefix() -> u8 {
    IPV6_PREFIX
}

impl Default for BansConfig {
    fn default() -> Self {
        Self { redis: None, scenarios: Vec::new(), queue_max: 4_096 }
    }
}

impl ScenarioConfig {
    /// The same, to be counted.
    pub(crate) fn scenario(&self) -> Result<BanScenario, LimitError> {
        let leak = Duration::from_secs(self.leak_seconds.into());
        let time = Duration::from_secs(self.ban_seconds.into());
        let scenario = BanScenario::new(&self.name, self.capacity, leak, time)?;
        Ok(scenario.with_ipv6_prefix(self.ipv6_prefix))
    }
}

impl BansConfig {
    /// What makes no sense, as key and message.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: String, message: &str| Err((key, message.to_owned()));
        if let Some(redis) = &self.redis {
            redis.check().map_err(|error| error.at("bans.redis"))?;
        }
        if self.redis.is_none() && !self.scenarios.is_empty() {
            let message = "nobody would learn of a ban: write where the Redis of ext-authz is";
            return wrong("bans.redis".to_owned(), message);
        }
        if self.scenarios.len() > ASKS_MAX {
            return wrong("bans.scenarios".to_owned(), "write at most 64");
        }
        if !(1..=1_048_576).contains(&self.queue_max) {
            return wrong("bans.queue_max".to_owned(), "write a number from 1 to 1048576");
        }
        for (i, scenario) in self.scenarios.iter().enumerate() {
            let at = |key: &str| format!("bans.scenarios[{i}].{key}");
            if scenario.ban_seconds == 0 {
                return wrong(at("ban_seconds"), "nobody would be banned: write one or more");
            }
            if !IPV6_PREFIXES.contains(&scenario.ipv6_prefix) {
                return wrong(at("ipv6_prefix"), "write a number from 16 to 128");
            }
            scenario.scenario().map_err(|error| (at("capacity"), error.to_string()))?;
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(redis) = &mut self.redis {
            redis.resolve(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        const REDIS: &str = "redis: {nodes: ['127.0.0.1:1']}";
        let one = |capacity: u32, leak: u32, ban: u32| {
            format!(
                "{{{REDIS}, scenarios: [{{name: a, capacity: {capacity}, leak_seconds: {leak}, \
                 ban_seconds: {ban}}}]}}"
            )
        };
        for (text, key) in [
            ("{}", ""),
            (&*one(1, 1, 1), ""),
            (&one(0, 1, 1), "bans.scenarios[0].capacity"),
            (&one(1, 0, 1), "bans.scenarios[0].capacity"),
            (&one(1, 1, 0), "bans.scenarios[0].ban_seconds"),
            (
                &one(1, 1, 1).replace("name: a", "name: a, ipv6_prefix: 8"),
                "bans.scenarios[0].ipv6_prefix",
            ),
            (&one(1, 1, 1).replace(REDIS, "redis: null"), "bans.redis"),
            ("redis: {nodes: []}", "bans.redis.nodes"),
            ("queue_max: 0", "bans.queue_max"),
        ] {
            let config: BansConfig = parse(text).unwrap();
            assert_eq!(config.check().err().unwrap_or_default().0, key, "{text}");
        }
    }
}
