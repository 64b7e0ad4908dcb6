//! What bans: so many refusals in so much time.

use std::net::IpAddr;
use std::time::Duration;

use glacis_limits::cidr::Cidr;

use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::store::Ask;

use super::known::text;

/// The bits of an IPv6 address that addresses have in common which are banned together, unless told otherwise:
/// a link has so long a prefix (RFC 4291, section 2.5.4), and whoever has one of its addresses can have all.
pub const IPV6_PREFIX: u8 = 64;

/// Prefixes that a scenario may have.
pub const IPV6_PREFIXES: core::ops::RangeInclusive<u8> = 16..=128;

/// When an address is banned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanScenario {
    name: String,
    limit: Limit,
    time: Duration,
    ipv6_prefix: u8,
}

impl BanScenario {
    /// A bucket that holds `capacity` refusals, one of which drops out every `leak`; one more bans for `time`.
    /// Processes that share a store share the bucket of a name, if their numbers are the same.
    ///
    /// # Errors
    ///
    /// If the bucket cannot be counted: as [`Limit::gcra`].
    pub fn new(
        name: &str,
        capacity: u32,
        leak: Duration,
        time: Duration,
    ) -> Result<Self, LimitError> {
        let limit = Limit::gcra(1, leak, capacity)?;
        Ok(Self { name: name.to_owned(), limit, time, ipv6_prefix: IPV6_PREFIX })
    }

    /// The same, for networks of IPv6 with a prefix of another length than [`IPV6_PREFIX`].
    #[must_use]
    pub fn with_ipv6_prefix(self, ipv6_prefix: u8) -> Self {
        Self { ipv6_prefix, ..self }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long it bans.
    pub(super) const fn time(&self) -> Duration {
        self.time
    }

    /// What asks whether a refusal is one too many for whoever has this address.
    pub(super) fn ask(&self, address: IpAddr) -> Ask {
        let name = format!("ban/{}", self.name);
        let network = text(self.network(address));
        Ask::new(Key::new(name.as_bytes(), network.as_bytes()), self.limit, 1)
    }

    /// Who is counted, and banned, for what comes from an address.
    pub(super) fn network(&self, address: IpAddr) -> Cidr {
        let address = address.to_canonical();
        match address {
            // Global unicast (RFC 4291, section 2.4). Outside of it a prefix does not tell one client from
            // another: all of IPv4 behind a translator shares 64:ff9b::/96, a link fe80::/64, pods a node's.
            IpAddr::V6(v6) if v6.segments()[0] >> 13 == 1 => {
                Cidr::around(v6.into(), self.ipv6_prefix)
            }
            _ => Cidr::around(address, u8::MAX),
        }
    }
}
