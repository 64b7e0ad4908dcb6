//! The section `collections`.

use core::time::Duration;
use std::path::Path;

use glacis_limit_store::RedisConfig;
use serde::Deserialize;

/// Where persistent collections are shared, and what that may cost.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Collections {
    pub redis: Option<RedisConfig>,
    pub fresh_ms: u64,
    pub waits_max: usize,
    pub queue_max: usize,
}

impl Default for Collections {
    fn default() -> Self {
        Self { redis: None, fresh_ms: 1_000, waits_max: 64, queue_max: 4_096 }
    }
}

impl Collections {
    /// What makes no sense, as key and message.
    pub(super) fn check(&self, collections_max: usize) -> Result<(), (String, String)> {
        let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
        if let Some(redis) = &self.redis {
            redis.check().map_err(|error| error.at("collections.redis"))?;
            if collections_max == 0 {
                return wrong("collections_max", "collections.redis needs some in memory, too");
            }
        }
        if !(1..=1_048_576).contains(&self.queue_max) {
            return wrong("collections.queue_max", "write a number from 1 to 1048576");
        }
        if self.fresh_ms > 3_600_000 {
            return wrong("collections.fresh_ms", "write at most 3600000, an hour");
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(redis) = &mut self.redis {
            redis.resolve(folder);
        }
    }

    pub(crate) const fn fresh(&self) -> Duration {
        Duration::from_millis(self.fresh_ms)
    }
}
