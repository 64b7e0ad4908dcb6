//! Who is banned, as far as this process knows.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use glacis_limits::cidr::Cidr;

use super::BANS_MAX;

/// Ends of bans, in seconds since 1970.
pub(super) type Ends = HashMap<Cidr, u64>;

/// Bans that are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) until: Ends,
    /// Lengths of the prefixes among them, of IPv4 and of IPv6: a look-up for each. Some may be of bans that are over.
    ipv4_prefixes: BTreeSet<u8>,
    ipv6_prefixes: BTreeSet<u8>,
}

impl Known {
    pub(super) fn new(until: Ends) -> Self {
        let mut known = Self::default();
        until.keys().for_each(|network| known.note(*network));
        Self { until, ..known }
    }

    pub(super) fn note(&mut self, network: Cidr) {
        let prefixes = match network.bounds().0 {
            IpAddr::V4(_) => &mut self.ipv4_prefixes,
            IpAddr::V6(_) => &mut self.ipv6_prefixes,
        };
        prefixes.insert(network.prefix());
    }

    /// The end of the ban that lasts longest for this address, over or not.
    pub(super) fn of(&self, address: IpAddr) -> Option<u64> {
        let address = address.to_canonical();
        let end = |prefix: &u8| self.until.get(&Cidr::around(address, *prefix)).copied();
        let prefixes = match address {
            IpAddr::V4(_) => &self.ipv4_prefixes,
            IpAddr::V6(_) => &self.ipv6_prefixes,
        };
        prefixes.iter().filter_map(end).max()
    }
}

/// Adds a ban, and forgets the one that ends first where there are too many.
pub(super) fn insert(until: &mut Ends, network: Cidr, end: u64, now_seconds: u64) {
    let kept = until.entry(network).or_insert(end);
    *kept = end.max(*kept);
    if until.len() > BANS_MAX {
        until.retain(|_, until| *until > now_seconds);
    }
    if until.len() > BANS_MAX {
        let first = until.iter().min_by_key(|(_, until)| **until).map(|(network, _)| *network);
        first.and_then(|network| until.remove(&network));
    }
}

/// How a network is called in Redis and in lists: an address by itself has no prefix there.
pub(super) fn text(network: Cidr) -> String {
    match network.is_one_address() {
        true => network.bounds().0.to_string(),
        false => network.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let mut bans = HashMap::new();
        for number in 0..=u32::try_from(BANS_MAX).unwrap() {
            let network = Cidr::around(IpAddr::from(number.to_be_bytes()), 32);
            insert(&mut bans, network, NOW + 10 + u64::from(number), NOW);
        }
        assert_eq!(bans.len(), BANS_MAX);
        let first = Cidr::parse("0.0.0.0").unwrap();
        assert!(!bans.contains_key(&first), "the one that ended first");
    }

    #[test]
    fn those_that_are_over_go_first() {
        let network = |number: u32| Cidr::around(IpAddr::from(number.to_be_bytes()), 32);
        let max = u32::try_from(BANS_MAX).unwrap();
        let end = |number: u32| (network(number), NOW + u64::from(number));
        let mut bans: Ends = (0..max).map(end).collect();
        insert(&mut bans, network(max), NOW + 5, NOW + 2);
        assert_eq!(bans.len(), BANS_MAX + 1 - 3);
        // Who is banned for longer stays so.
        for (end, expected) in [(NOW + 4, NOW + 9), (NOW + 99, NOW + 99)] {
            insert(&mut bans, network(9), end, NOW + 2);
            assert_eq!(bans.get(&network(9)), Some(&expected));
        }
    }

    #[test]
    fn the_longest_ban_of_those_around_an_address_counts() {
        let network = |text: &str| Cidr::parse(text).unwrap();
        let known = Known::new(HashMap::from([
            (network("2001:db8::/64"), NOW + 10),
            (network("2001:db8::/48"), NOW + 20),
            (network("2001:db8::1"), NOW + 5),
            (network("192.0.2.0/24"), NOW + 7),
            (network("192.0.2.1"), NOW + 6),
        ]));
        for (address, end) in [
            ("2001:db8::1", Some(NOW + 20)),
            ("2001:db8:0:1::", Some(NOW + 20)),
            ("2001:db8:1::", None),
            ("192.0.2.1", Some(NOW + 7)),
            ("192.0.2.255", Some(NOW + 7)),
            ("192.0.3.0", None),
        ] {
            assert_eq!(known.of(address.parse().unwrap()), end, "{address}");
        }
    }
}
