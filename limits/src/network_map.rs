//! A compact map from addresses to small values: "what is known of this address?"
//!
//! The space of addresses is cut where the value changes, and the cuts are kept sorted, so a look-up
//! is one binary search of at most two tables. How networks were nested when the map was made
//! plays no part any more.
//!
//! # Memory
//!
//! With values of two bytes a cut takes 6 bytes for IPv4 and 10 for IPv6 down to /64; a network
//! takes two cuts at most. A /64 that is cut further costs 18 bytes for each cut inside of it.
//!
//! An IPv4 address and the IPv6 address that maps it are the same address here, as in
//! [`cidr`](crate::cidr).
//!
//! ```
//! use glacis_limits::network_map::NetworkMap;
//!
//! // From 10.0.0.0 on it is 7, from 11.0.0.0 on nothing.
//! let map = NetworkMap::new(vec![(0x0a00_0000, 7), (0x0b00_0000, 0)], vec![]);
//! assert_eq!(map.get("10.1.2.3".parse()?), Some(7));
//! assert_eq!(map.get("11.0.0.0".parse()?), None);
//! assert_eq!(NetworkMap::from_bytes(&map.to_bytes()), Ok(map));
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

use std::fmt;
use std::net::IpAddr;

/// No value.
const NONE: u16 = 0;
/// In the table of IPv6: this /64 is cut further.
const DEEP: u16 = u16::MAX;

/// The largest value that a map can hold; values begin at 1.
pub const VALUE_MAX: u16 = DEEP - 1;

/// What a map in bytes begins with: what it is, and the version of its form.
const MAGIC: &[u8; 8] = b"glacnm\0\x01";

/// The most cuts of one table that are read from bytes.
pub const CUTS_MAX: usize = 4_000_000;

/// A map from addresses to numbers from 1 to [`VALUE_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    v4: Cuts<u32>,
    /// By the first half of an address.
    v6: Cuts<u64>,
    /// Of each /64 that is cut further: all cuts, from its first address on.
    deep: Cuts<u128>,
}

/// Where the value changes.
///
/// Invariant: `starts` are strictly ascending, and as many as `values`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cuts<K> {
    starts: Vec<K>,
    values: Vec<u16>,
    /// Each [`STRIDE`]th of the starts, once they are complete: small enough to stay in a cache,
    /// which halves the time of a look-up in a large table.
    index: Vec<K>,
}

/// How many starts lie between two of the index.
const STRIDE: usize = 64;

impl<K> Default for Cuts<K> {
    fn default() -> Self {
        Self { starts: Vec::new(), values: Vec::new(), index: Vec::new() }
    }
}

/// Why bytes are no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkMapError {
    /// They do not begin as a map does, or as one of another version.
    Magic,
    /// They end too early or too late.
    Length,
    /// The cuts are not in order.
    Order,
    /// There are more than [`CUTS_MAX`] cuts in one table.
    TooLarge,
}

impl fmt::Display for NetworkMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it is not a map of networks of this version"),
            Self::Length => f.write_str("it is cut off, or something follows it"),
            Self::Order => f.write_str("its networks are not in order"),
            Self::TooLarge => write!(f, "it has more than {CUTS_MAX} cuts"),
        }
    }
}

impl std::error::Error for NetworkMapError {}

impl NetworkMap {
    /// A map from places where the value changes, in ascending order; of two at the same place the
    /// later one counts. A value of 0, or above [`VALUE_MAX`], is none.
    #[must_use]
    pub fn new(v4: Vec<(u32, u16)>, v6: Vec<(u128, u16)>) -> Self {
        let mut map = Self::default();
        for (start, value) in v4 {
            map.v4.cut(start, if value > VALUE_MAX { NONE } else { value });
        }
        let mut all = Cuts::default();
        for (start, value) in v6 {
            all.cut(start, if value > VALUE_MAX { NONE } else { value });
        }
        map.split(&all);
        map.v4.complete();
        map.v6.complete();
        map.deep.complete();
        map
    }

    /// Puts the cuts between two /64 into one table and those inside of a /64 into the other.
    fn split(&mut self, all: &Cuts<u128>) {
        // The value before the cut, and the /64 that is being cut.
        let (mut before, mut open) = (NONE, None);
        for (start, value) in all.starts.iter().zip(&all.values) {
            let (block, is_first) = (high_half(*start), *start & u128::from(u64::MAX) == 0);
            if let Some(cut) = open.filter(|cut| *cut != block) {
                self.close(cut, before);
                open = None;
            }
            if is_first {
                self.v6.cut(block, *value);
            } else {
                if open.is_none() {
                    self.deep.cut_anyway(u128::from(block) << 64, before);
                    self.v6.cut(block, DEEP);
                    open = Some(block);
                }
                self.deep.cut_anyway(*start, *value);
            }
            before = *value;
        }
        if let Some(cut) = open {
            self.close(cut, before);
        }
    }

    /// Behind a /64 that was cut, the value of its end goes on.
    fn close(&mut self, block: u64, value: u16) {
        if let Some(next) = block.checked_add(1) {
            self.v6.cut(next, value);
        }
    }

    /// The value of an address.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<u16> {
        let value = match address.to_canonical() {
            IpAddr::V4(address) => self.v4.get(address.to_bits()),
            IpAddr::V6(address) => match self.v6.get(high_half(address.to_bits())) {
                DEEP => self.deep.get(address.to_bits()),
                value => value,
            },
        };
        (value != NONE).then_some(value)
    }

    /// How many bytes of memory the tables take.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        (self.v4.starts.capacity() + self.v4.index.capacity()) * 4
            + (self.v6.starts.capacity() + self.v6.index.capacity()) * 8
            + (self.deep.starts.capacity() + self.deep.index.capacity()) * 16
            + (self.v4.values.capacity() + self.v6.values.capacity() + self.deep.values.capacity())
                * 2
    }

    /// The byte form: a magic, three counts, and the tables, all little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for count in [self.v4.starts.len(), self.v6.starts.len(), self.deep.starts.len()] {
            out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.v4.starts.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
        self.v6.starts.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
        self.deep.starts.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
        for values in [&self.v4.values, &self.v6.values, &self.deep.values] {
            values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        out
    }

    /// Reads the byte form.
    ///
    /// # Errors
    ///
    /// If the bytes are no map. What is read is safe to use, whoever wrote it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NetworkMapError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NetworkMapError::Magic)?;
        let (counts, mut rest) = rest.split_at_checked(12).ok_or(NetworkMapError::Length)?;
        let (counts, _) = counts.as_chunks::<4>();
        let mut counts = counts.iter().map(|count| u32::from_le_bytes(*count) as usize);
        let mut next = || counts.next().filter(|count| *count <= CUTS_MAX);
        let too_large = NetworkMapError::TooLarge;
        let (v4, v6) = (next().ok_or(too_large)?, next().ok_or(too_large)?);
        let deep = next().ok_or(too_large)?;
        let starts_v4 = read(&mut rest, v4, u32::from_le_bytes)?;
        let starts_v6 = read(&mut rest, v6, u64::from_le_bytes)?;
        let starts_deep = read(&mut rest, deep, u128::from_le_bytes)?;
        let map = Self {
            v4: Cuts::checked(starts_v4, read(&mut rest, v4, u16::from_le_bytes)?)?,
            v6: Cuts::checked(starts_v6, read(&mut rest, v6, u16::from_le_bytes)?)?,
            deep: Cuts::checked(starts_deep, read(&mut rest, deep, u16::from_le_bytes)?)?,
        };
        if rest.is_empty() { Ok(map) } else { Err(NetworkMapError::Length) }
    }
}

impl<K: Ord + Copy> Cuts<K> {
    /// From `start` on the value is this. A cut that changes nothing is left out.
    fn cut(&mut self, start: K, value: u16) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
        }
        if self.values.last().copied().unwrap_or(NONE) != value {
            self.cut_anyway(start, value);
        }
    }

    fn cut_anyway(&mut self, start: K, value: u16) {
        self.starts.push(start);
        self.values.push(value);
    }

    /// To be called when the last cut has been made.
    fn complete(&mut self) {
        self.starts.shrink_to_fit();
        self.values.shrink_to_fit();
        self.index = self.starts.iter().step_by(STRIDE).copied().collect();
    }

    fn get(&self, key: K) -> u16 {
        let part = self.index.partition_point(|start| *start <= key);
        let Some(first) = part.checked_sub(1).map(|part| part * STRIDE) else { return NONE };
        let end = self.starts.len().min(first + STRIDE);
        let starts = self.starts.get(first..end).unwrap_or_default();
        let after = first + starts.partition_point(|start| *start <= key);
        after.checked_sub(1).and_then(|i| self.values.get(i)).copied().unwrap_or(NONE)
    }

    fn checked(starts: Vec<K>, values: Vec<u16>) -> Result<Self, NetworkMapError> {
        match starts.is_sorted_by(|one, next| one < next) {
            true => {
                let mut cuts = Self { starts, values, index: Vec::new() };
                cuts.complete();
                Ok(cuts)
            }
            false => Err(NetworkMapError::Order),
        }
    }
}

fn read<const N: usize, T>(
    rest: &mut &[u8],
    count: usize,
    from: fn([u8; N]) -> T,
) -> Result<Vec<T>, NetworkMapError> {
    let (bytes, after) = rest.split_at_checked(count * N).ok_or(NetworkMapError::Length)?;
    *rest = after;
    let (chunks, _) = bytes.as_chunks::<N>();
    Ok(chunks.iter().map(|chunk| from(*chunk)).collect())
}

fn high_half(bits: u128) -> u64 {
    // The shift makes the conversion exact, so the fallback is never taken.
    u64::try_from(bits >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    /// Random cuts, most of them close to each other, against a search through all of them.
    #[test]
    fn agrees_with_the_cuts() {
        for seed in 1..=200 {
            let mut random = Xorshift::new(seed);
            let mut v6: Vec<(u128, u16)> = (0..random.below(60))
                .map(|_| {
                    let block = u128::from(random.below(4)) << 64;
                    let low = [0, 0, 1, u128::from(random.below(5)), u128::from(u64::MAX)]
                        [usize::try_from(random.below(5)).unwrap()];
                    let value = [0, 1, 2, DEEP][usize::try_from(random.below(4)).unwrap()];
                    ((0x2001 << 112) + block + low, value)
                })
                .collect();
            v6.sort_by_key(|(start, _)| *start);
            let v4: Vec<(u32, u16)> =
                (0..10).map(|i| (i * 7, u16::try_from(i % 3).unwrap())).collect();
            let map = NetworkMap::new(v4.clone(), v6.clone());
            assert_eq!(NetworkMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
            let real = |value: u16| (value != NONE && value <= VALUE_MAX).then_some(value);
            for _ in 0..300 {
                let block = u128::from(random.below(6)) << 64;
                let low = [0, 1, u128::from(random.below(6)), u128::from(u64::MAX)]
                    [usize::try_from(random.below(4)).unwrap()];
                let key = (0x2001 << 112) + block + low;
                let expected = v6.iter().rfind(|(start, _)| *start <= key);
                let expected = expected.and_then(|(_, value)| real(*value));
                let address = std::net::Ipv6Addr::from_bits(key);
                assert_eq!(map.get(address.into()), expected, "seed {seed}: {address} {v6:?}");
            }
            for key in 0..80u32 {
                let expected = v4.iter().rfind(|(start, _)| *start <= key);
                let address = std::net::Ipv4Addr::from_bits(key);
                let expected = expected.and_then(|(_, value)| real(*value));
                assert_eq!(map.get(address.into()), expected);
                assert_eq!(map.get(address.to_ipv6_mapped().into()), expected);
            }
        }
    }

    #[test]
    fn bytes_of_strangers() {
        let map = NetworkMap::new(vec![(1, 1), (2, 2)], vec![(5, 1), (1 << 64, 2)]);
        let good = map.to_bytes();
        for length in 0..good.len() {
            assert!(NetworkMap::from_bytes(&good[..length]).is_err(), "{length}");
        }
        let longer = [&good[..], b"x"].concat();
        assert_eq!(NetworkMap::from_bytes(&longer), Err(NetworkMapError::Length));
        let mut large = good.clone();
        large[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(NetworkMap::from_bytes(&large), Err(NetworkMapError::TooLarge));
        let mut disorder = good;
        disorder[20] = 9;
        assert_eq!(NetworkMap::from_bytes(&disorder), Err(NetworkMapError::Order));
    }
}
