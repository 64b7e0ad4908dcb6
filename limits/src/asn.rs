//! Numbers of autonomous systems of addresses, as a table that a worker can have: "whose network is this?"
//!
//! Made from a database of addresses by `glacis geo build --asn`. A table holds up to [`SYSTEMS_MAX`] different
//! systems, which is fewer than there are: one that is made for some of them alone is smaller, too.
//!
//! ```
//! use glacis_limits::asn::AsnTable;
//!
//! let table = AsnTable::new(&[("192.0.2.0".parse()?, "192.0.2.255".parse()?, 64_496)]);
//! assert_eq!(table.number("192.0.2.7".parse()?), 64_496);
//! assert_eq!(table.number("192.0.3.0".parse()?), 0);
//! assert_eq!(AsnTable::from_bytes(&table.to_bytes()), Ok(table));
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

use crate::network_map::{NetworkMap, NetworkMapError, VALUE_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Different systems in one table.
pub const SYSTEMS_MAX: usize = VALUE_MAX as usize;

/// What a table in bytes begins with: what it is, and the version of its form.
const MAGIC: &[u8; 8] = b"glacas\0\x01";

/// The autonomous systems of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsnTable {
    /// Ascending; the map has their places, from 1.
    numbers: Vec<u32>,
    map: NetworkMap,
}

impl AsnTable {
    /// A table of networks, as [`NetworkMap::of_networks`] takes them. Of more than [`SYSTEMS_MAX`] systems
    /// those are left out that have the fewest networks.
    #[must_use]
    pub fn new(networks: &[(IpAddr, IpAddr, u32)]) -> Self {
        let mut counts = BTreeMap::<u32, usize>::new();
        for (_, _, number) in networks.iter().filter(|(_, _, number)| *number != 0) {
            *counts.entry(*number).or_default() += 1;
        }
        let mut numbers: Vec<(u32, usize)> = counts.into_iter().collect();
        numbers.sort_by_key(|(number, count)| (usize::MAX - count, *number));
        numbers.truncate(SYSTEMS_MAX);
        let mut numbers: Vec<u32> = numbers.into_iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        let place = |number: u32| {
            let place = numbers.binary_search(&number).ok();
            place.and_then(|place| u16::try_from(place + 1).ok()).unwrap_or(0)
        };
        let places = networks.iter().map(|(first, last, number)| (*first, *last, place(*number)));
        Self { map: NetworkMap::of_networks(places.collect()), numbers }
    }

    /// The number of the system that an address belongs to; 0 if the table does not have it. As long as a
    /// look-up of [`NetworkMap`].
    #[must_use]
    pub fn number(&self, address: IpAddr) -> u32 {
        let place = self.map.get(address).and_then(|place| usize::from(place).checked_sub(1));
        place.and_then(|place| self.numbers.get(place)).copied().unwrap_or(0)
    }

    /// How many systems it has.
    #[must_use]
    pub const fn systems(&self) -> usize {
        self.numbers.len()
    }

    /// How many bytes of memory it takes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.numbers.len() * size_of::<u32>()
    }

    /// The byte form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let count = u32::try_from(self.numbers.len()).unwrap_or(0);
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend(self.numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend_from_slice(&self.map.to_bytes());
        bytes
    }

    /// Reads the byte form.
    ///
    /// # Errors
    ///
    /// If the bytes are no table.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NetworkMapError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NetworkMapError::Magic)?;
        let (count, rest) = rest.split_first_chunk::<4>().ok_or(NetworkMapError::Length)?;
        let count = usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX);
        if count > SYSTEMS_MAX {
            return Err(NetworkMapError::TooLarge);
        }
        let (numbers, map) = rest.split_at_checked(count * 4).ok_or(NetworkMapError::Length)?;
        let numbers: Vec<u32> =
            numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
        if !numbers.is_sorted_by(|one, next| one < next) {
            return Err(NetworkMapError::Order);
        }
        Ok(Self { numbers, map: NetworkMap::from_bytes(map)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let rows = [
            ("10.0.0.0", "10.255.255.255", 4_200_000_000),
            ("11.0.0.0", "11.0.0.255", 7),
            ("12.0.0.0", "12.0.0.255", 0),
            ("255.255.255.0", "255.255.255.255", 64_496),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", 7),
        ];
        let network = |(first, last, number): &(&str, &str, u32)| {
            (first.parse().unwrap(), last.parse().unwrap(), *number)
        };
        let table = AsnTable::new(&rows.iter().rev().map(network).collect::<Vec<_>>());
        assert_eq!(table.systems(), 3);
        let bytes = table.to_bytes();
        let read = AsnTable::from_bytes(&bytes).unwrap();
        assert_eq!(read, table);
        for (address, expected) in [
            ("9.255.255.255", 0),
            ("10.1.2.3", 4_200_000_000),
            ("::ffff:11.0.0.9", 7),
            ("11.0.1.0", 0),
            ("12.0.0.1", 0),
            ("255.255.255.255", 64_496),
            ("2001:db8::1", 7),
        ] {
            assert_eq!(read.number(address.parse().unwrap()), expected, "{address}");
        }
        assert_eq!(table.memory_bytes(), table.map.memory_bytes() + 3 * 4);
        // More systems than there may be, and one of them twice.
        let (mut many, mut twice) = (bytes.clone(), bytes.clone());
        many[8..12].copy_from_slice(&u32::try_from(SYSTEMS_MAX + 1).unwrap().to_le_bytes());
        assert_eq!(AsnTable::from_bytes(&many), Err(NetworkMapError::TooLarge));
        twice.copy_within(16..20, 12);
        assert_eq!(AsnTable::from_bytes(&twice), Err(NetworkMapError::Order));
        for end in 0..bytes.len() {
            assert!(AsnTable::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    /// More systems than a table holds: those with the fewest networks go.
    #[test]
    fn too_many() {
        let v4 = |bits: u32| IpAddr::V4(bits.into());
        let networks = (0..70_000u32).map(|i| (v4(i * 512), v4(i * 512 + 255), i + 1));
        let mut networks: Vec<_> = networks.collect();
        networks.push((v4(0xf000_0000), v4(0xf000_00ff), 70_000));
        let table = AsnTable::new(&networks);
        assert_eq!(table.systems(), SYSTEMS_MAX);
        assert_eq!(table.number(v4(0xf000_0001)), 70_000);
        assert_eq!((table.number(v4(1)), table.number(v4(69_000 * 512))), (1, 0));
        assert_eq!(AsnTable::from_bytes(&table.to_bytes()), Ok(table));
    }
}
