//! The part `quota` of the configuration: which bucket has which limit.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::leases::{LeasedLimit, LeasesConfig};

/// What stands before the names of these limits in counters and metrics, apart from those of leases.
const PREFIX: &str = "quota/";

/// Bytes of a name, which a lender gets with the prefix: there, it has 64.
const NAME_BYTES_MAX: usize = 64 - PREFIX.len();

/// Lifetimes of an assignment. Envoy reports every five seconds, whatever its configuration says, and knows
/// whole seconds only.
const LIFETIME_SECONDS: core::ops::RangeInclusive<u32> = 6..=60;

/// A lease may live a tenth of the window, so the window is so many lifetimes at least.
const LIFETIMES_IN_A_WINDOW: u64 = 10;

/// Limits for Envoy's rate limit quota filter. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct QuotaConfig {
    pub limits: Vec<QuotaLimit>,
    pub idle_seconds: u32,
    pub max_streams: usize,
    pub max_buckets: usize,
    pub max_buckets_per_stream: usize,
}

/// A limit. Each field is described in `glacis-ext-authz.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct QuotaLimit {
    pub name: String,
    pub domain: String,
    #[serde(default, rename = "match")]
    pub matches: BTreeMap<String, String>,
    pub requests: u32,
    #[serde(default = "one")]
    pub per_seconds: u32,
    #[serde(default)]
    pub burst: Option<u32>,
    #[serde(default = "lifetime_seconds")]
    pub lifetime_seconds: u32,
}

const fn one() -> u32 {
    1
}

const fn lifetime_seconds() -> u32 {
    10
}

impl Default for QuotaConfig {
    fn default() -> Self {
        Self {
            limits: Vec::new(),
            idle_seconds: 60,
            max_streams: 1_024,
            max_buckets: 65_536,
            max_buckets_per_stream: 10_000,
        }
    }
}

impl QuotaConfig {
    /// What makes no sense, as key and message.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let at_least_one = [
            ("max_streams", self.max_streams),
            ("max_buckets", self.max_buckets),
            ("max_buckets_per_stream", self.max_buckets_per_stream),
        ];
        for (key, number) in at_least_one {
            if number == 0 {
                let message = "nothing could be assigned: write 1 or more";
                return Err((format!("quota.{key}"), message.to_owned()));
            }
        }
        for (i, limit) in self.limits.iter().enumerate() {
            limit
                .check()
                .map_err(|(key, message)| (format!("quota.limits[{i}].{key}"), message))?;
        }
        // Names, numbers and how many there are.
        self.leases()
            .check_lent()
            .map_err(|(key, message)| (key.replacen("leases", "quota", 1), message))
    }

    /// The same limits, as the lender knows them.
    pub(super) fn leases(&self) -> LeasesConfig {
        LeasesConfig {
            limits: self.limits.iter().map(QuotaLimit::leased).collect(),
            max_calls: self.max_streams,
            max_keys: self.max_buckets,
            max_leases: self.max_buckets.saturating_mul(16),
            max_leases_per_borrower: self.max_buckets_per_stream,
        }
    }
}

impl QuotaLimit {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err(("name", format!("write 1 to {NAME_BYTES_MAX} bytes")));
        }
        if self.domain.is_empty() {
            return Err(("domain", "write the domain of Envoy's filter".to_owned()));
        }
        if !LIFETIME_SECONDS.contains(&self.lifetime_seconds) {
            let (least, most) = (LIFETIME_SECONDS.start(), LIFETIME_SECONDS.end());
            return Err(("lifetime_seconds", format!("write {least} to {most} seconds")));
        }
        if self.per_seconds > 0 && self.requests.checked_mul(self.windows()).is_none() {
            return Err(("requests", "it is too large: write fewer in less time".to_owned()));
        }
        Ok(())
    }

    /// How the lender and the store call it.
    pub(super) fn counter(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// In so many windows of the limit an assignment lives at most a tenth.
    fn windows(&self) -> u32 {
        let least = LIFETIMES_IN_A_WINDOW * u64::from(self.lifetime_seconds);
        let windows = least.div_ceil(u64::from(self.per_seconds.max(1)));
        u32::try_from(windows).unwrap_or(u32::MAX).max(1)
    }

    /// The same rate and burst over a longer window.
    pub(super) fn leased(&self) -> LeasedLimit {
        let windows = self.windows();
        LeasedLimit {
            name: self.counter(),
            requests: self.requests.saturating_mul(windows),
            per_seconds: u64::from(self.per_seconds).saturating_mul(windows.into()),
            burst: Some(self.burst.unwrap_or(self.requests)),
            lifetime_ms: Some(u64::from(self.lifetime_seconds) * 1_000),
        }
    }

    /// Whether it is for this bucket.
    pub(super) fn is_for<'a>(
        &self,
        domain: &str,
        mut value: impl FnMut(&str) -> Option<&'a str>,
    ) -> bool {
        self.domain == domain && self.matches.iter().all(|(name, text)| value(name) == Some(text))
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        for (text, key, message) in [
            ("limits: [{name: a, domain: d, requests: 1}]", "", ""),
            ("limits: [{name: a, domain: d, requests: 42949672}]", "", ""),
            ("max_streams: 0", "quota.max_streams", "1 or more"),
            ("limits: [{name: a, domain: '', requests: 1}]", "quota.limits[0].domain", "domain"),
            ("limits: [{name: '', domain: d, requests: 1}]", "quota.limits[0].name", "1 to 58"),
            (
                "limits: [{name: a, domain: d, requests: 1, lifetime_seconds: 5}]",
                "quota.limits[0].lifetime_seconds",
                "6 to 60",
            ),
            (
                "limits: [{name: a, domain: d, requests: 42949673}]",
                "quota.limits[0].requests",
                "too large",
            ),
            (
                "limits: [{name: a, domain: d, requests: 0}]",
                "quota.limits[0].requests",
                "allows nothing",
            ),
            (
                "limits: [{name: a, domain: d, requests: 1, per_seconds: 0}]",
                "quota.limits[0].per_seconds",
                "write 1 to",
            ),
            (
                "limits: [{name: a, domain: d, requests: 1}, {name: a, domain: e, requests: 1}]",
                "quota.limits[1].name",
                "another",
            ),
        ] {
            let config: QuotaConfig = parse(text).unwrap();
            let told = config.check().err().unwrap_or_default();
            assert_eq!(told.0, key, "{text}");
            assert!(told.1.contains(message), "{text}: {told:?}");
        }
    }

    #[test]
    fn which_limit_is_for_a_bucket() {
        let limit: QuotaLimit =
            parse("{name: a, domain: shop, match: {kind: tenant, plan: ''}, requests: 1}").unwrap();
        for (domain, bucket, expected) in [
            ("shop", &[("kind", "tenant"), ("plan", ""), ("tenant", "x")][..], true),
            ("shop", &[("kind", "tenant")], false),
            ("shop", &[("kind", "tenants"), ("plan", "")], false),
            ("other", &[("kind", "tenant"), ("plan", "")], false),
        ] {
            let value =
                |name: &str| bucket.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
            assert_eq!(limit.is_for(domain, value), expected, "{domain} {bucket:?}");
        }
    }
}
