//! The limits of which tokens are lent, as the configuration names them.

use core::time::Duration;
use std::collections::BTreeSet;

use glacis_limit_store::Limit;
use glacis_limits::lease::{Terms, lender::Room};
use serde::Deserialize;

use crate::limit_name::why_taken;

const MS_NS: u64 = 1_000_000;
/// A day, as in the filter.
const PER_SECONDS_MAX: u64 = 86_400;
const NAME_BYTES_MAX: usize = 64;
const LIMITS_MAX: usize = 256;

/// What is lent. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct LeasesConfig {
    pub limits: Vec<LeasedLimit>,
    pub max_calls: usize,
    pub max_keys: usize,
    pub max_leases: usize,
    pub max_leases_per_borrower: usize,
}

/// A limit. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct LeasedLimit {
    pub name: String,
    pub requests: u32,
    #[serde(default = "one")]
    pub per_seconds: u64,
    #[serde(default)]
    pub burst: Option<u32>,
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
}

const fn one() -> u64 {
    1
}

impl Default for LeasesConfig {
    fn default() -> Self {
        let room = Room::default();
        Self {
            limits: Vec::new(),
            max_calls: 1_024,
            max_keys: room.keys_max,
            max_leases: room.leases_max,
            max_leases_per_borrower: room.leases_per_borrower_max,
        }
    }
}

impl LeasesConfig {
    /// What makes no sense, as key and message.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        for (i, limit) in self.limits.iter().enumerate() {
            if let Some(message) = why_taken(&limit.name) {
                return Err((format!("leases.limits[{i}].name"), message));
            }
        }
        self.check_lent()
    }

    /// The same for limits that others have named.
    pub(crate) fn check_lent(&self) -> Result<(), (String, String)> {
        let at_least_one = [
            ("max_calls", self.max_calls),
            ("max_keys", self.max_keys),
            ("max_leases", self.max_leases),
            ("max_leases_per_borrower", self.max_leases_per_borrower),
        ];
        for (key, number) in at_least_one {
            if number == 0 {
                let message = "nothing could be lent: write 1 or more";
                return Err((format!("leases.{key}"), message.to_owned()));
            }
        }
        if self.limits.len() > LIMITS_MAX {
            return Err(("leases.limits".to_owned(), format!("write at most {LIMITS_MAX} limits")));
        }
        let mut names = BTreeSet::new();
        for (i, limit) in self.limits.iter().enumerate() {
            let at = |key: &str| format!("leases.limits[{i}].{key}");
            limit.check().map_err(|(key, message)| (at(key), message))?;
            if !names.insert(limit.name.as_str()) {
                return Err((at("name"), "another limit has this name, too".to_owned()));
            }
        }
        Ok(())
    }

    pub(super) const fn room(&self) -> Room {
        Room {
            keys_max: self.max_keys,
            leases_max: self.max_leases,
            leases_per_borrower_max: self.max_leases_per_borrower,
        }
    }
}

impl LeasedLimit {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err(("name", format!("write 1 to {NAME_BYTES_MAX} bytes")));
        }
        if !(1..=PER_SECONDS_MAX).contains(&self.per_seconds) {
            return Err(("per_seconds", format!("write 1 to {PER_SECONDS_MAX} seconds")));
        }
        self.limit().map_err(|message| ("requests", message))?;
        self.terms().map_err(|message| ("lifetime_ms", message))?;
        Ok(())
    }

    /// The limit itself, in the store.
    pub(super) fn limit(&self) -> Result<Limit, String> {
        let burst = self.burst.unwrap_or(self.requests);
        let period = Duration::from_secs(self.per_seconds);
        Limit::gcra(self.requests, period, burst).map_err(|error| error.to_string())
    }

    /// On what terms its tokens are lent.
    pub(crate) fn terms(&self) -> Result<Terms, String> {
        let window_ns = self.per_seconds.saturating_mul(1_000 * MS_NS);
        let lifetime_ns = self.lifetime_ms.map(|ms| ms.saturating_mul(MS_NS));
        let terms = Terms::new(self.requests, window_ns, lifetime_ns);
        let burst = self.burst.unwrap_or(self.requests);
        terms.map(|terms| terms.with_burst(burst)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        let rows = [
            ("limits: [{name: a, requests: 1}]", "", ""),
            ("limits: [{name: a, requests: 60, per_seconds: 60, lifetime_ms: 6000}]", "", ""),
            ("max_calls: 0", "leases.max_calls", "1 or more"),
            ("max_keys: 0", "leases.max_keys", "1 or more"),
            ("limits: [{name: '', requests: 1}]", "leases.limits[0].name", "1 to 64"),
            ("limits: [{name: quota/a, requests: 1}]", "leases.limits[0].name", "another name"),
            ("limits: [{name: ban/a, requests: 1}]", "leases.limits[0].name", "another name"),
            (
                "limits: [{name: a, requests: 1}, {name: a, requests: 2}]",
                "leases.limits[1].name",
                "another",
            ),
            (
                "limits: [{name: a, requests: 0}]",
                "leases.limits[0].requests",
                "is 0, which allows nothing",
            ),
            (
                "limits: [{name: a, requests: 1, per_seconds: 0}]",
                "leases.limits[0].per_seconds",
                "write 1 to 86400",
            ),
            (
                "limits: [{name: a, requests: 1, lifetime_ms: 101}]",
                "leases.limits[0].lifetime_ms",
                "write 100 ms or less",
            ),
            (
                "limits: [{name: a, requests: 1, lifetime_ms: 9}]",
                "leases.limits[0].lifetime_ms",
                "10 ms at least",
            ),
        ];
        for (text, key, message) in rows {
            let config: LeasesConfig = parse(text).unwrap();
            let told = config.check().err().unwrap_or_default();
            assert_eq!(told.0, key, "{text}");
            assert!(told.1.contains(message), "{text}: {told:?}");
        }
        assert!(parse::<LeasesConfig>("limits: [{name: a}]").is_err());
    }
}
