//! Countries of addresses, as a table small enough for every worker to have: about 2 MB for all.
//!
//! A country is two letters of ISO 3166-1; `ZZ`, which that leaves to its users, is an address that
//! the table knows nothing of. Made from a database of addresses by `glacis geo build`.
//!
//! ```
//! use glacis_limits::geo::{Country, CountryTable};
//!
//! let de = Country::parse("DE").unwrap();
//! let network = ("192.0.2.0".parse()?, "192.0.2.255".parse()?, de);
//! let table = CountryTable::new(vec![network]);
//! assert_eq!(table.country("192.0.2.7".parse()?), de);
//! assert_eq!(table.country("192.0.3.0".parse()?), Country::UNKNOWN);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

use crate::network_map::{NetworkMap, NetworkMapError};
use std::fmt;
use std::net::IpAddr;

/// A country: two letters in upper case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// `ZZ`: not known.
    pub const UNKNOWN: Self = Self(*b"ZZ");

    /// Reads two letters, in either case. `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        letters
            .iter()
            .all(u8::is_ascii_alphabetic)
            .then(|| Self(letters.map(|b| b.to_ascii_uppercase())))
    }

    /// The two letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Two letters of ASCII are always text.
        str::from_utf8(&self.0).unwrap_or("ZZ")
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The countries of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountryTable(NetworkMap);

impl CountryTable {
    /// A table of networks, as [`NetworkMap::of_networks`] takes them.
    #[must_use]
    pub fn new(networks: Vec<(IpAddr, IpAddr, Country)>) -> Self {
        // Unknown is what every address is that no network holds.
        let value = |country: Country| match country {
            Country::UNKNOWN => 0,
            Country(letters) => u16::from_be_bytes(letters),
        };
        let networks = networks.into_iter();
        let networks = networks.map(|(first, last, country)| (first, last, value(country)));
        Self(NetworkMap::of_networks(networks.collect()))
    }

    /// The country of an address, [`Country::UNKNOWN`] if the table does not have it.
    #[must_use]
    pub fn country(&self, address: IpAddr) -> Country {
        let letters = self.0.get(address).map(u16::to_be_bytes);
        letters
            .filter(|letters| letters.iter().all(u8::is_ascii_uppercase))
            .map_or(Country::UNKNOWN, Country)
    }

    /// How many bytes of memory it takes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// The byte form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// Reads the byte form.
    ///
    /// # Errors
    ///
    /// If the bytes are no table.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NetworkMapError> {
        NetworkMap::from_bytes(bytes).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries() {
        for (text, expected) in [
            ("DE", Some("DE")),
            ("de", Some("DE")),
            ("D", None),
            ("DEU", None),
            ("D1", None),
            ("Ä", None),
        ] {
            let country = Country::parse(text);
            assert_eq!(country.as_ref().map(Country::as_str), expected, "{text}");
            assert_eq!(country.map(|country| format!("{country}")).as_deref(), expected);
        }
    }

    /// More networks than one step of the index.
    #[test]
    fn large_tables() {
        let country = |text| Country::parse(text).unwrap();
        let v4 = |bits: u32| IpAddr::V4(bits.into());
        let mut networks = vec![(v4(0x7f01_0001), v4(0x7f01_0001), country("AA"))];
        networks.extend((0..1_000u32).map(|i| {
            let first = 0x8000_0000 + i * 512;
            (v4(first), v4(first + 255), country(["CC", "DD"][(i % 2) as usize]))
        }));
        let table = CountryTable::new(networks);
        let read = CountryTable::from_bytes(&table.to_bytes()).unwrap();
        assert_eq!(table.memory_bytes(), table.0.memory_bytes());
        for table in [table, read] {
            assert_eq!(table.country(v4(0x7f01_0001)).as_str(), "AA");
            assert_eq!(table.country(v4(0x7f01_0002)).as_str(), "ZZ");
            for i in 0..1_000u32 {
                let first = 0x8000_0000 + i * 512;
                let expected = ["CC", "DD"][(i % 2) as usize];
                assert_eq!(table.country(v4(first)).as_str(), expected, "{i}");
                assert_eq!(table.country(v4(first + 255)).as_str(), expected, "{i}");
                assert_eq!(table.country(v4(first + 256)).as_str(), "ZZ", "{i}");
            }
        }
    }

    #[test]
    fn tables() {
        let rows = [
            ("10.0.0.0", "10.255.255.255", "AA"),
            ("11.0.0.0", "11.0.0.255", "BB"),
            ("12.0.0.0", "12.0.0.255", "ZZ"),
            ("255.255.255.0", "255.255.255.255", "CC"),
            ("::ffff:13.0.0.0", "::ffff:13.0.0.255", "DD"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "EE"),
            ("2001:db9::", "2001:db9::7", "FF"),
        ];
        let network = |(first, last, country): &(&str, &str, &str)| {
            (first.parse().unwrap(), last.parse().unwrap(), Country::parse(country).unwrap())
        };
        let table = CountryTable::new(rows.iter().rev().map(network).collect());
        let read = CountryTable::from_bytes(&table.to_bytes()).unwrap();
        assert_eq!(read, table);
        for (address, expected) in [
            ("9.255.255.255", "ZZ"),
            ("10.0.0.0", "AA"),
            ("10.255.255.255", "AA"),
            ("11.0.0.0", "BB"),
            ("11.0.1.0", "ZZ"),
            ("12.0.0.1", "ZZ"),
            ("255.255.255.255", "CC"),
            ("13.0.0.9", "DD"),
            ("::ffff:10.0.0.1", "AA"),
            ("2001:db8::1", "EE"),
            ("2001:db9::7", "FF"),
            ("2001:db9::8", "ZZ"),
        ] {
            assert_eq!(read.country(address.parse().unwrap()).as_str(), expected, "{address}");
        }
    }
}
