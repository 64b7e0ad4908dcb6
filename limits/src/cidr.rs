//! Sets of IP networks: "is this address in one of them?"
//!
//! A [`CidrSet`] keeps sorted ranges that neither overlap nor touch, so a lookup is one binary
//! search and does not depend on how the list was written. An IPv4 address and the IPv6 address
//! that maps it (`::ffff:a.b.c.d`, RFC 4291, section 2.5.5.2) are the same address here: a client
//! must not get past a list by the kind of socket that it came through. It follows that a network
//! of IPv6 shorter than /96, such as `::/0`, speaks of IPv6 only.
//!
//! # Memory
//!
//! A set takes 8 bytes for each range of IPv4 and 32 for each range of IPv6, and no more than one
//! range for an entry. How many entries there may be is for the caller to say.
//!
//! ```
//! use std::net::IpAddr;
//! use glacis_limits::cidr::CidrSet;
//!
//! let set = CidrSet::parse(["10.0.0.0/8", "2001:db8::/32"], 1_000)?;
//! let address: IpAddr = "::ffff:10.1.2.3".parse()?;
//! assert!(set.contains(address));
//! let error = CidrSet::parse(["10.0.0.1/8"], 1_000).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "entry 0, \"10.0.0.1/8\": it has bits set outside of its prefix; write 10.0.0.0/8 for the \
//!      network or 10.0.0.1/32 for the one address"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How much of a wrong entry an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// One network, or one address, as a list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// Invariant: canonical (no mapped address), and no bit set outside of the prefix.
    network: IpAddr,
    /// Invariant: at most 32 or 128, as the network is.
    prefix: u8,
}

/// Why an entry is no network. `Display` says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// There is nothing in it.
    Empty,
    /// There is white space around it or in it.
    WhiteSpace,
    /// What stands before the `/` is no address.
    NotAnAddress,
    /// There is a port after the address.
    Port {
        /// The address without the port.
        address: IpAddr,
    },
    /// What stands after the `/` is no number.
    PrefixNotANumber,
    /// The prefix is longer than the address.
    PrefixTooLong {
        /// The longest prefix of this kind of address.
        prefix_max: u8,
    },
    /// The address is not the first one of the network.
    HostBits {
        /// The address as written.
        address: IpAddr,
        /// The first address of the network.
        network: IpAddr,
        /// The length of the prefix as written.
        prefix: u8,
    },
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("it is empty; write an address or a network such as 192.0.2.0/24")
            }
            Self::WhiteSpace => f.write_str("it has white space in it; write it without"),
            Self::NotAnAddress => f.write_str(
                "it is not an IP address; write one such as 192.0.2.7 or 2001:db8::7, or a network \
                 such as 192.0.2.0/24 (a name is not looked up)",
            ),
            Self::Port { address } => {
                write!(f, "a port does not belong to a network; write {address}")
            }
            Self::PrefixNotANumber => f.write_str(
                "what follows the '/' is not a number; write the length of the prefix, such as /24",
            ),
            Self::PrefixTooLong { prefix_max } => {
                write!(f, "the prefix is too long; write at most /{prefix_max}")
            }
            Self::HostBits { address, network, prefix } => {
                let bits = bits_of(*address);
                write!(
                    f,
                    "it has bits set outside of its prefix; write {network}/{prefix} for the \
                     network or {address}/{bits} for the one address"
                )
            }
        }
    }
}

impl std::error::Error for CidrError {}

impl Cidr {
    /// Reads `address` or `address/prefix`; an address alone is the network of that address.
    ///
    /// # Errors
    ///
    /// If it is anything else, or if the address has bits set outside of the prefix.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        if text.is_empty() {
            return Err(CidrError::Empty);
        }
        if text.contains(char::is_whitespace) {
            return Err(CidrError::WhiteSpace);
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let written = parse_address(address)?;
        let prefix = match prefix {
            Some(digits) => parse_prefix(digits, bits_of(written))?,
            None => bits_of(written),
        };
        let network = network_of(written, prefix);
        if network != written {
            return Err(CidrError::HostBits { address: written, network, prefix });
        }
        Ok(Self::canonical(network, prefix))
    }

    /// The network of this length in which an address lies; that of the address alone where the prefix is as
    /// long as it is, or longer.
    #[must_use]
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        let address = address.to_canonical();
        Self { network: network_of(address, prefix), prefix: prefix.min(bits_of(address)) }
    }

    /// The length of its prefix.
    #[must_use]
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it is one address.
    #[must_use]
    pub fn is_one_address(&self) -> bool {
        self.prefix == bits_of(self.network)
    }

    /// The first and the last address.
    #[must_use]
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        let last = match self.network {
            IpAddr::V4(first) => {
                Ipv4Addr::from_bits(first.to_bits() | !mask_v4(self.prefix)).into()
            }
            IpAddr::V6(first) => {
                Ipv6Addr::from_bits(first.to_bits() | !mask_v6(self.prefix)).into()
            }
        };
        (self.network, last)
    }

    /// A mapped network that lies within `::ffff:0:0/96` is the network of IPv4 that it maps.
    fn canonical(network: IpAddr, prefix: u8) -> Self {
        // No network of IPv4 has a prefix as long as this.
        match (network.to_canonical(), prefix.checked_sub(96)) {
            (mapped @ IpAddr::V4(_), Some(prefix)) => Self { network: mapped, prefix },
            _ => Self { network, prefix },
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// A set of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CidrSet {
    /// Invariant: sorted, and between two ranges there is at least one address.
    v4: Vec<(u32, u32)>,
    /// The same.
    v6: Vec<(u128, u128)>,
}

/// Why a list is no set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrSetError {
    /// An entry is wrong.
    Entry {
        /// Which one, counted from 0.
        index: usize,
        /// What it says; only the beginning, if it is long.
        entry: String,
        /// What is wrong with it.
        error: CidrError,
    },
    /// There are too many entries.
    TooMany {
        /// How many there may be.
        entries_max: usize,
    },
}

impl fmt::Display for CidrSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { index, entry, error } => write!(f, "entry {index}, {entry:?}: {error}"),
            Self::TooMany { entries_max } => write!(
                f,
                "there are more than {entries_max} entries; write fewer and larger networks"
            ),
        }
    }
}

impl std::error::Error for CidrSetError {}

impl CidrSet {
    /// Reads a list of networks, of which there may be `entries_max`.
    ///
    /// # Errors
    ///
    /// At the first entry that [`Cidr::parse`] refuses, or at the first one too many.
    pub fn parse<'a, I>(entries: I, entries_max: usize) -> Result<Self, CidrSetError>
    where
        I: IntoIterator<Item = &'a str>,
    {
        let mut cidrs = Vec::new();
        for (index, text) in entries.into_iter().enumerate() {
            if index >= entries_max {
                return Err(CidrSetError::TooMany { entries_max });
            }
            let cidr = Cidr::parse(text).map_err(|error| {
                let entry = text.chars().take(SHOWN_CHARS_MAX).collect();
                CidrSetError::Entry { index, entry, error }
            })?;
            cidrs.push(cidr);
        }
        Ok(cidrs.into_iter().collect())
    }

    /// Whether the address is in one of the networks. One binary search.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => holds(&self.v4, address.to_bits()),
            IpAddr::V6(address) => holds(&self.v6, address.to_bits()),
        }
    }

    /// Whether there is no network in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many ranges are left after merging, of both kinds of address.
    #[must_use]
    pub const fn ranges(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

impl FromIterator<Cidr> for CidrSet {
    fn from_iter<I: IntoIterator<Item = Cidr>>(cidrs: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for Cidr { network, prefix } in cidrs {
            match network {
                IpAddr::V4(first) => {
                    let first = first.to_bits();
                    v4.push((first, first | !mask_v4(prefix)));
                }
                IpAddr::V6(first) => {
                    let first = first.to_bits();
                    v6.push((first, first | !mask_v6(prefix)));
                }
            }
        }
        let next_v4 = |last: u32| last.checked_add(1);
        let next_v6 = |last: u128| last.checked_add(1);
        Self { v4: merged(v4, next_v4), v6: merged(v6, next_v6) }
    }
}

/// The address with every bit after the first `prefix` cleared: the network that it is in.
///
/// A mapped address is not unmapped here. A prefix longer than the address changes nothing.
#[must_use]
pub fn network_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & mask_v4(prefix)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & mask_v6(prefix)).into(),
    }
}

fn parse_address(text: &str) -> Result<IpAddr, CidrError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match text.parse::<std::net::SocketAddr>() {
        Ok(socket) => Err(CidrError::Port { address: socket.ip() }),
        Err(_) => Err(CidrError::NotAnAddress),
    }
}

fn parse_prefix(digits: &str, prefix_max: u8) -> Result<u8, CidrError> {
    // `u8::from_str` would also take a sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CidrError::PrefixNotANumber);
    }
    match digits.parse() {
        Ok(prefix) if prefix <= prefix_max => Ok(prefix),
        _ => Err(CidrError::PrefixTooLong { prefix_max }),
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn mask_v4(prefix: u8) -> u32 {
    // Shifting by the whole width is an overflow to Rust, and means "no bit" to us.
    let free = 32u32.saturating_sub(u32::from(prefix));
    u32::MAX.checked_shl(free).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    let free = 128u32.saturating_sub(u32::from(prefix));
    u128::MAX.checked_shl(free).unwrap_or(0)
}

fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut kept: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match kept.last_mut() {
            // Nothing comes after the highest address, so what follows it overlaps it.
            Some(before) if next(before.1).is_none_or(|next| first <= next) => {
                before.1 = before.1.max(last);
            }
            _ => kept.push((first, last)),
        }
    }
    kept.shrink_to_fit();
    kept
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    let Some((_, last)) = after.checked_sub(1).and_then(|i| ranges.get(i)) else {
        return false;
    };
    address <= *last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    #[test]
    fn entries() {
        let rows: &[(&str, Result<&str, &str>)] = &[
            ("10.0.0.0/8", Ok("10.0.0.0/8")),
            ("192.0.2.7", Ok("192.0.2.7/32")),
            ("192.0.2.7/32", Ok("192.0.2.7/32")),
            ("2001:db8::7/128", Ok("2001:db8::7/128")),
            ("0.0.0.0/0", Ok("0.0.0.0/0")),
            ("::/0", Ok("::/0")),
            ("2001:DB8::/32", Ok("2001:db8::/32")),
            ("2001:db8::7", Ok("2001:db8::7/128")),
            ("::ffff:10.0.0.0/104", Ok("10.0.0.0/8")),
            ("::ffff:0:0/96", Ok("0.0.0.0/0")),
            ("::ffff:192.0.2.7", Ok("192.0.2.7/32")),
            // Shorter than the mapping: this is a network of IPv6.
            ("::/80", Ok("::/80")),
            ("10.0.0.0/08", Ok("10.0.0.0/8")),
            ("", Err("it is empty")),
            (" 10.0.0.0/8", Err("white space")),
            ("10.0.0.0 /8", Err("white space")),
            ("example.org", Err("a name is not looked up")),
            ("010.0.0.1", Err("not an IP address")),
            ("10.0.0", Err("not an IP address")),
            ("fe80::1%eth0", Err("not an IP address")),
            ("/8", Err("not an IP address")),
            ("10.0.0.1:80", Err("a port does not belong to a network; write 10.0.0.1")),
            ("[2001:db8::7]:80", Err("write 2001:db8::7")),
            ("10.0.0.0/", Err("not a number")),
            ("10.0.0.0/+8", Err("not a number")),
            ("10.0.0.0/255.0.0.0", Err("not a number")),
            ("10.0.0.0/8/8", Err("not a number")),
            ("10.0.0.0/33", Err("write at most /32")),
            ("10.0.0.0/999", Err("write at most /32")),
            ("::/129", Err("write at most /128")),
            ("10.0.0.1/8", Err("write 10.0.0.0/8 for the network or 10.0.0.1/32 for")),
            ("2001:db8::1/32", Err("write 2001:db8::/32 for the network or 2001:db8::1/128")),
            ("::ffff:10.0.0.1/104", Err("write ::ffff:10.0.0.0/104 for the network")),
        ];
        for (text, expected) in rows {
            match (Cidr::parse(text), expected) {
                (Ok(cidr), Ok(expected)) => assert_eq!(cidr.to_string(), *expected, "{text:?}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{text:?}: {error}");
                }
                (result, _) => panic!("{text:?}: {result:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn sets_name_the_wrong_entry() {
        let long = "x".repeat(1_000);
        let rows: &[(&[&str], usize, &str)] = &[
            (&["10.0.0.0/8", "10.0.0.1/8"], 9, "entry 1, \"10.0.0.1/8\": it has bits set"),
            (&["10.0.0.0/8", "::/0", "0.0.0.0/0"], 2, "more than 2 entries"),
            (&[&long], 9, "entry 0, \"xxxx"),
        ];
        for (entries, entries_max, expected) in rows {
            let error = CidrSet::parse(entries.iter().copied(), *entries_max).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.len() < 300, "an error must not repeat a long entry");
        }
        assert!(CidrSet::parse(["10.0.0.0/8", "::/0"], 2).is_ok());
    }

    #[track_caller]
    fn check(entries: &[&str], ranges: usize, inside: &[&str], outside: &[&str]) {
        let set = CidrSet::parse(entries.iter().copied(), 100).unwrap();
        assert_eq!(set.ranges(), ranges, "{set:?}");
        assert_eq!(set.is_empty(), ranges == 0);
        for address in inside {
            assert!(set.contains(address.parse().unwrap()), "{address} in {entries:?}");
        }
        for address in outside {
            assert!(!set.contains(address.parse().unwrap()), "{address} in {entries:?}");
        }
    }

    #[test]
    fn membership() {
        check(&[], 0, &[], &["0.0.0.0", "::", "::ffff:0.0.0.0"]);
        check(
            &["10.0.0.0/8"],
            1,
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["9.255.255.255", "11.0.0.0", "::a00:0", "::ffff:11.0.0.0"],
        );
        // Adjacent, contained and repeated networks become one range.
        check(
            &["10.0.1.0/24", "10.0.0.0/24", "10.0.0.128/25", "10.0.1.0/24"],
            1,
            &["10.0.0.0", "10.0.1.255"],
            &["9.255.255.255", "10.0.2.0"],
        );
        check(&["10.0.0.0/24", "10.0.2.0/24"], 2, &["10.0.2.9"], &["10.0.1.0", "10.0.3.0"]);
        check(
            &["0.0.0.0/0", "255.255.255.255", "128.0.0.0/1"],
            1,
            &["0.0.0.0", "255.255.255.255", "::ffff:1.2.3.4"],
            &["::", "ffff::"],
        );
        check(&["::/0"], 1, &["::", "2001:db8::1"], &["1.2.3.4", "::ffff:1.2.3.4"]);
        check(
            &["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::/32"],
            2,
            &["2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["2001:db9::", "2001:db7:ffff::"],
        );
    }

    #[test]
    fn networks() {
        let rows = [
            ("192.0.2.7", 24, "192.0.2.0"),
            ("192.0.2.7", 32, "192.0.2.7"),
            ("192.0.2.7", 200, "192.0.2.7"),
            ("192.0.2.7", 0, "0.0.0.0"),
            ("2001:db8:1:2:3::4", 64, "2001:db8:1:2::"),
            ("2001:db8::4", 128, "2001:db8::4"),
            ("2001:db8::4", 0, "::"),
        ];
        for (address, prefix, expected) in rows {
            let network = network_of(address.parse().unwrap(), prefix);
            assert_eq!(network.to_string(), expected, "{address}/{prefix}");
        }
    }

    /// The network around an address, whether that is one address, and its last one.
    #[test]
    fn around_an_address() {
        let rows = [
            ("192.0.2.7", 24, "192.0.2.0/24", false, "192.0.2.255"),
            ("192.0.2.7", 31, "192.0.2.6/31", false, "192.0.2.7"),
            ("192.0.2.7", 32, "192.0.2.7/32", true, "192.0.2.7"),
            ("192.0.2.7", 64, "192.0.2.7/32", true, "192.0.2.7"),
            ("192.0.2.7", 0, "0.0.0.0/0", false, "255.255.255.255"),
            ("::ffff:192.0.2.7", 24, "192.0.2.0/24", false, "192.0.2.255"),
            ("2001:db8::7", 64, "2001:db8::/64", false, "2001:db8::ffff:ffff:ffff:ffff"),
            ("2001:db8::7", 128, "2001:db8::7/128", true, "2001:db8::7"),
            ("2001:db8::7", 200, "2001:db8::7/128", true, "2001:db8::7"),
        ];
        for (address, prefix, expected, is_one, last) in rows {
            let cidr = Cidr::around(address.parse().unwrap(), prefix);
            assert_eq!(cidr.to_string(), expected, "{address}/{prefix}");
            assert_eq!(format!("{}/{}", cidr.bounds().0, cidr.prefix()), expected);
            assert_eq!(cidr.is_one_address(), is_one, "{address}/{prefix}");
            assert_eq!(cidr.bounds().1.to_string(), last, "{address}/{prefix}");
        }
    }

    /// The set agrees with asking each network in turn, on small numbers so that networks meet.
    #[test]
    fn agrees_with_the_list() {
        let (mut inside, mut outside) = (0, 0);
        for seed in 1..=300 {
            let mut random = Xorshift::new(seed);
            let list: Vec<Cidr> = (0..random.below(12))
                .map(|_| {
                    let prefix = 26 + u8::try_from(random.below(7)).unwrap();
                    let low = u32::try_from(random.below(256)).unwrap();
                    let address = Ipv4Addr::from_bits(0x0A00_0000 | low).into();
                    Cidr { network: network_of(address, prefix), prefix }
                })
                .collect();
            let set: CidrSet = list.iter().copied().collect();
            for low in 0..=257 {
                let address: IpAddr = Ipv4Addr::from_bits(0x0A00_0000 + low - 1).into();
                let expected = list.iter().any(|c| network_of(address, c.prefix) == c.network);
                assert_eq!(set.contains(address), expected, "seed {seed}: {address} {list:?}");
                if expected { inside += 1 } else { outside += 1 }
            }
            assert!(set.v4.windows(2).all(|w| w[0].1 + 1 < w[1].0), "seed {seed}: {set:?}");
        }
        assert!(inside > 1_000 && outside > 1_000, "{inside} {outside}");
    }
}
