//! `@ipMatch`: whether an address is in a set of addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of IPv4 and IPv6 addresses.
///
/// An IPv4 address and its IPv4-mapped IPv6 form (RFC 4291 section 2.5.5.2) are the same address.
/// An IPv6 network that merely covers the block of mapped addresses, such as `::/0`, holds none of
/// them: who writes one means IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpSet {
    /// Inclusive ranges in the IPv6 space, IPv4 in its mapped block: sorted, and neither
    /// overlapping nor touching.
    ranges: Vec<(u128, u128)>,
}

impl IpSet {
    /// Parses a list such as `1.2.3.4,10.0.0.0/8,::1/64`; spaces around entries and empty entries
    /// are allowed, so a list may end in a comma. Host bits behind a prefix are ignored.
    ///
    /// # Errors
    ///
    /// Says which entry has no address or which prefix is too long.
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let mut ranges = Vec::new();
        for entry in entries {
            ranges.extend(without_mapped(range(entry)?));
        }
        ranges.sort_unstable();
        Ok(Self { ranges: merge(ranges) })
    }

    /// Whether the address written in `address` is in the set; `false` if it is no address.
    pub(crate) fn contains(&self, address: &[u8]) -> bool {
        let Some(address) = address_number(address) else { return false };
        let after = self.ranges.partition_point(|&(first, _)| first <= address);
        let candidate = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        candidate.is_some_and(|&(_, last)| address <= last)
    }
}

/// Joins sorted ranges that overlap or touch.
fn merge(sorted: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
    for (first, last) in sorted {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The parts of a range beside the block of mapped addresses, if it covers more than that block;
/// otherwise the range.
fn without_mapped((first, last): (u128, u128)) -> impl Iterator<Item = (u128, u128)> {
    let (start, end) = (mapped(Ipv4Addr::UNSPECIFIED), mapped(Ipv4Addr::BROADCAST));
    let covers_more = first <= start && end <= last && (first, last) != (start, end);
    let parts = if covers_more {
        let before = (first < start).then(|| (first, start - 1));
        let after = (end < last).then(|| (end + 1, last));
        [before, after]
    } else {
        [Some((first, last)), None]
    };
    parts.into_iter().flatten()
}

/// The place of an address in the IPv6 space.
fn address_number(text: &[u8]) -> Option<u128> {
    let address: IpAddr = str::from_utf8(text).ok()?.parse().ok()?;
    Some(match address {
        IpAddr::V4(v4) => mapped(v4),
        IpAddr::V6(v6) => v6.to_bits(),
    })
}

fn mapped(address: Ipv4Addr) -> u128 {
    address.to_ipv6_mapped().to_bits()
}

/// The first and last address of an entry.
fn range(entry: &str) -> Result<(u128, u128), String> {
    let (address, prefix) = match entry.split_once('/') {
        Some((address, prefix)) => (address.trim_end(), Some(prefix.trim_start())),
        None => (entry, None),
    };
    let bad =
        || format!("\"{entry}\" is no IP address; write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32");
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let (number, bits) = match address {
        IpAddr::V4(v4) => (mapped(v4), Ipv4Addr::BITS),
        IpAddr::V6(v6) => (v6.to_bits(), Ipv6Addr::BITS),
    };
    let host_bits = match prefix {
        Some(prefix) => bits - prefix_length(entry, prefix, bits)?,
        None => 0,
    };
    // A shift by all 128 bits has no value in Rust; here it means "no host bit is fixed".
    let host = u128::MAX.checked_shr(Ipv6Addr::BITS - host_bits).unwrap_or(0);
    Ok((number & !host, number | host))
}

fn prefix_length(entry: &str, prefix: &str, bits: u32) -> Result<u32, String> {
    let length = prefix.parse().ok().filter(|&length| length <= bits);
    length.ok_or_else(|| {
        format!("the prefix of \"{entry}\" is no number of bits; write a number from 0 to {bits}")
    })
}

#[cfg(test)]
mod tests {
    use super::IpSet;

    #[track_caller]
    fn check(list: &str, address: &str, inside: bool) {
        let set = IpSet::parse(list).expect("a valid list");
        assert_eq!(set.contains(address.as_bytes()), inside, "{address} in {list}");
    }

    #[test]
    fn contains() {
        check("1.2.3.4", "1.2.3.4", true);
        check("1.2.3.4", "1.2.3.5", false);
        check("1.2.3.4", "1.2.3.3", false);
        check("10.0.0.0/8", "10.255.255.255", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("10.0.0.0/8", "9.255.255.255", false);
        check("10.10.10.0/21", "10.10.15.255", true);
        check("10.10.10.0/21", "10.10.16.0", false);
        check("192.0.2.77/24", "192.0.2.1", true);
        check("192.0.2.1/32", "192.0.2.2", false);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true);
        check("::/0", "1.2.3.4", false);
        check("::/0", "::ffff:1.2.3.4", false);
        check("::/0", "::fffe:ffff:ffff", true);
        check("::/0", "::1:0:0:0", true);
        check("::/80", "::ffff:ffff:ffff", false);
        check("::ffff:0:0/96", "1.2.3.4", true);
        check("::1", "::1", true);
        check("::1/64", "::ffff", true);
        check("::1/64", "0:0:0:1::", false);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("2001:db8::/32", "2001:db9::", false);
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true);
        check(" 1.2.3.4 , 10.0.0.0/8 , ::1/64 ", "10.1.1.1", true);
        check(" 1.2.3.4 , 10.0.0.0/8 , ::1/64 ", "::2", true);
        check("1.2.3.4,", "1.2.3.4", true);
        check("", "1.2.3.4", false);
        check("1.2.3.4", "", false);
        check("1.2.3.4", " 1.2.3.4", false);
        check("1.2.3.4", "1.2.3.4.5", false);
        check("0.0.0.0/0", "1.2.3", false);
    }

    #[test]
    fn neighbours_and_overlaps_merge() {
        let set =
            IpSet::parse("10.0.0.128/25,10.0.0.0/25,10.0.0.5,10.0.1.0,10.0.3.0").expect("valid");
        assert_eq!(set.ranges.len(), 2);
        let all = IpSet::parse("::/0,0.0.0.0/0,ffff::").expect("valid");
        assert_eq!(all.ranges, [(0, u128::MAX)]);
    }

    #[test]
    fn agrees_with_a_scan_of_the_entries() {
        let entries = ["10.0.0.0/30", "10.0.0.8/29", "10.0.0.3", "10.0.0.64/26", "10.0.0.20"];
        let set = IpSet::parse(&entries.join(",")).expect("valid");
        for last in 0..=255_u8 {
            let address = format!("10.0.0.{last}");
            let expected = entries
                .iter()
                .any(|entry| IpSet::parse(entry).expect("valid").contains(address.as_bytes()));
            assert_eq!(set.contains(address.as_bytes()), expected, "{address}");
        }
    }

    #[track_caller]
    fn check_error(list: &str, part: &str) {
        let error = IpSet::parse(list).expect_err(list);
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn errors_name_the_entry() {
        check_error("1.2.3.4,1.2.3.256", "\"1.2.3.256\" is no IP address");
        check_error(
            "10.0.0.0/33",
            "\"10.0.0.0/33\" is no number of bits; write a number from 0 to 32",
        );
        check_error("::/129", "from 0 to 128");
        check_error("10.0.0.0/255.0.0.0", "from 0 to 32");
        check_error("10.0.0.0/", "from 0 to 32");
        check_error("localhost", "\"localhost\" is no IP address");
        check_error("1.2.3.4 5.6.7.8", "\"1.2.3.4 5.6.7.8\" is no IP address");
    }
}
