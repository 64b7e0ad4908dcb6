//! A configuration at work: a client's address in, a verdict out.

use crate::config::{Config, FailureMode, RateLimit};
use crate::seed::Seed;
use crate::shared::SharedData;
use crate::table::{Table, Taken};
use glacis_limits::cidr::network_of;
use glacis_limits::keyed_hash::sip_hash_24;
use glacis_limits::token_bucket::Decision;
use std::net::IpAddr;

/// The configuration with the state that is made of it once.
#[derive(Debug)]
pub(crate) struct Policy {
    config: Config,
    seed: Seed,
    /// As present as the rate limit in the configuration is.
    table: Option<Table>,
}

/// What is to become of a request. Each one is counted under exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The address is on the allow list: neither the deny list nor the limit is asked.
    AllowedByList,
    /// The address is on the deny list.
    DeniedByList,
    /// Nothing speaks against it; how the client stands, if there is a limit.
    Passed(Option<Decision>),
    /// The client has used up its limit.
    Limited(Decision),
    /// It has, but the limit only watches.
    ShadowLimited(Decision),
    /// There is no decision, so the failure mode decides.
    Undecided(Reason, FailureMode),
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The request has no address: it came over a Unix socket, say, or from another listener.
    NoAddress,
    /// The host refused to read or write shared data.
    SharedData,
    /// The module has no configuration.
    NoConfiguration,
}

/// A verdict, and what an operator should know about how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// The limit was asked but what the request took could not be written down.
    pub(crate) unrecorded: bool,
    /// The table was too full to give the client a bucket of its own.
    pub(crate) crowded: bool,
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, unrecorded: false, crowded: false }
    }
}

impl Policy {
    pub(crate) fn new(config: Config, seed: Seed) -> Self {
        let table = config
            .rate_limit
            .as_ref()
            .map(|limit| Table::new(limit.name.as_str(), limit.table_entries, limit.bucket));
        Self { config, seed, table }
    }

    pub(crate) fn trusted_hops(&self) -> u8 {
        self.config.trusted_hops
    }

    pub(crate) fn rate_limit(&self) -> Option<&RateLimit> {
        self.config.rate_limit.as_ref()
    }

    /// Decides about a request of `client` at `now_ns`, and takes what it costs.
    pub(crate) fn judge(
        &self,
        client: Option<IpAddr>,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Judgement {
        let Some(client) = client else {
            return self.judge_unknown().into();
        };
        if self.config.allow.contains(client) {
            return Verdict::AllowedByList.into();
        }
        if self.config.deny.contains(client) {
            return Verdict::DeniedByList.into();
        }
        let (Some(limit), Some(table)) = (&self.config.rate_limit, &self.table) else {
            return Verdict::Passed(None).into();
        };
        match table.take(shared, self.fingerprint(client, limit), now_ns) {
            Ok(Taken { decision, recorded, crowded }) => {
                let verdict = verdict_of(decision, limit.shadow);
                Judgement { verdict, unrecorded: !recorded, crowded }
            }
            Err(_) => Verdict::Undecided(Reason::SharedData, self.config.failure_mode).into(),
        }
    }

    /// Without an address there is no decision, unless nothing depends on one.
    fn judge_unknown(&self) -> Verdict {
        match self.config.deny.is_empty() && self.config.rate_limit.is_none() {
            true => Verdict::Passed(None),
            false => Verdict::Undecided(Reason::NoAddress, self.config.failure_mode),
        }
    }

    /// A keyed hash of the network that shares a bucket.
    fn fingerprint(&self, client: IpAddr, limit: &RateLimit) -> u64 {
        let hash = |bytes: &[u8]| sip_hash_24(self.seed, bytes);
        // Four bytes and sixteen: the lengths keep the two kinds apart.
        match client {
            IpAddr::V4(_) => match network_of(client, limit.ipv4_prefix) {
                IpAddr::V4(network) => hash(&network.octets()),
                IpAddr::V6(network) => hash(&network.octets()),
            },
            IpAddr::V6(_) => match network_of(client, limit.ipv6_prefix) {
                IpAddr::V4(network) => hash(&network.octets()),
                IpAddr::V6(network) => hash(&network.octets()),
            },
        }
    }
}

fn verdict_of(decision: Decision, shadow: bool) -> Verdict {
    match (decision.allowed, shadow) {
        (true, _) => Verdict::Passed(Some(decision)),
        (false, false) => Verdict::Limited(decision),
        (false, true) => Verdict::ShadowLimited(decision),
    }
}

impl Verdict {
    /// The verdict as access logs and later filters see it, in filter state `wasm.glacis.wasm`.
    pub(crate) fn as_property(&self) -> &'static str {
        match self {
            Self::AllowedByList => "allowed:list",
            Self::DeniedByList => "denied:list",
            Self::Passed(_) => "passed",
            Self::Limited(_) => "limited",
            Self::ShadowLimited(_) => "shadow:limited",
            Self::Undecided(Reason::NoAddress, _) => "error:no-address",
            Self::Undecided(Reason::SharedData, _) => "error:shared-data",
            Self::Undecided(Reason::NoConfiguration, _) => "error:no-configuration",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::Memory;

    const T0: u64 = 1_700_000_000_000_000_000;

    fn policy(config: &str) -> Policy {
        Policy::new(Config::parse(config.as_bytes()).unwrap(), [7; 16])
    }

    /// Requests in a row, and the property that each one gets.
    #[track_caller]
    fn check(config: &str, rows: &[(Option<&str>, &str)]) {
        let (policy, shared) = (policy(config), Memory::default());
        for (i, (client, expected)) in rows.iter().enumerate() {
            let client = client.map(|client| client.parse().unwrap());
            let judgement = policy.judge(client, T0, &shared);
            assert_eq!(judgement.verdict.as_property(), *expected, "row {i} of {config}");
            assert!(!judgement.unrecorded);
        }
    }

    #[test]
    fn lists() {
        let config = r#"{"address_lists": {"allow": ["10.1.0.0/16"], "deny": ["10.0.0.0/8"]}}"#;
        check(
            config,
            &[
                (Some("10.2.0.1"), "denied:list"),
                (Some("::ffff:10.2.0.1"), "denied:list"),
                (Some("10.1.0.1"), "allowed:list"),
                (Some("192.0.2.1"), "passed"),
                (None, "error:no-address"),
            ],
        );
        check("{}", &[(None, "passed"), (Some("192.0.2.1"), "passed")]);
        check(r#"{"address_lists": {"allow": ["::1"]}}"#, &[(None, "passed")]);
    }

    #[test]
    fn limit() {
        let limit = r#"{
            "address_lists": {"allow": ["192.0.2.9"], "deny": ["192.0.2.8"]},
            "rate_limit": {"requests": 2}
        }"#;
        check(
            limit,
            &[
                (Some("192.0.2.1"), "passed"),
                // A denied request costs nothing, and an allowed one has no limit.
                (Some("192.0.2.8"), "denied:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.1"), "passed"),
                (Some("192.0.2.1"), "limited"),
                (Some("192.0.2.2"), "passed"),
                (None, "error:no-address"),
            ],
        );
        let shadow = r#"{"rate_limit": {"requests": 1, "shadow": true}}"#;
        check(shadow, &[(Some("192.0.2.1"), "passed"), (Some("192.0.2.1"), "shadow:limited")]);
    }

    #[test]
    fn a_network_shares_a_bucket() {
        let config = r#"{"rate_limit": {"requests": 1, "ipv4_prefix": 24, "ipv6_prefix": 48}}"#;
        check(
            config,
            &[
                (Some("192.0.2.1"), "passed"),
                (Some("192.0.2.200"), "limited"),
                (Some("192.0.3.1"), "passed"),
                (Some("2001:db8:0:1::1"), "passed"),
                (Some("2001:db8:0:2::1"), "limited"),
                (Some("2001:db8:1::1"), "passed"),
            ],
        );
    }

    #[test]
    fn failure_modes() {
        for (word, mode) in [("open", FailureMode::Open), ("closed", FailureMode::Closed)] {
            let policy = policy(&format!(
                r#"{{"failure_mode": "{word}", "rate_limit": {{"requests": 1}}}}"#
            ));
            let shared = Memory::default();
            let verdict = policy.judge(None, T0, &shared).verdict;
            assert_eq!(verdict, Verdict::Undecided(Reason::NoAddress, mode));
            shared.broken.set(true);
            let client = Some("192.0.2.1".parse().unwrap());
            let verdict = policy.judge(client, T0, &shared).verdict;
            assert_eq!(verdict, Verdict::Undecided(Reason::SharedData, mode));
        }
    }

    #[test]
    fn a_request_that_lost_every_race_is_told() {
        let (policy, shared) = (policy(r#"{"rate_limit": {"requests": 1}}"#), Memory::default());
        shared.lost_writes.set(u32::MAX);
        let judgement = policy.judge(Some("192.0.2.1".parse().unwrap()), T0, &shared);
        assert_eq!(judgement.verdict.as_property(), "passed");
        assert!(judgement.unrecorded);
    }

    /// The seed decides where a client falls, so that nobody can work it out beforehand.
    #[test]
    fn the_seed_matters() {
        let config = || Config::parse(br#"{"rate_limit": {"requests": 1}}"#).unwrap();
        let fingerprint = |seed| {
            let policy = Policy::new(config(), seed);
            let limit = policy.rate_limit().unwrap();
            policy.fingerprint("192.0.2.1".parse().unwrap(), limit)
        };
        assert_eq!(fingerprint([1; 16]), fingerprint([1; 16]));
        assert_ne!(fingerprint([1; 16]), fingerprint([2; 16]));
    }
}
