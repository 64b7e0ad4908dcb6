//! A compact map from addresses to small values: "what is known of this address?"
//!
//! The space of addresses is cut where the value changes, and the cuts are kept sorted, so a look-up
//! is one binary search of at most two tables. How networks were nested when the map was made
//! plays no part any more.
//!
//! # Memory
//!
//! Cuts are packed as differences, most of which take four to six bytes with their value, and an
//! index of each 8th one says where to begin. Keys of IPv6 are the first halves of addresses; a /64
//! that is cut further is kept apart. A full table of countries takes about 2 MB.
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

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

/// No value.
const NONE: u16 = 0;
/// In the table of IPv6: this /64 is cut further.
const DEEP: u16 = u16::MAX;

/// The largest value that a map can hold; values begin at 1.
pub const VALUE_MAX: u16 = DEEP - 1;

/// What a map in bytes begins with: what it is, and the version of its form.
const MAGIC: &[u8; 8] = b"glacnm\0\x02";

/// The most cuts of one table that are read from bytes.
pub const CUTS_MAX: usize = 4_000_000;

/// How many cuts lie between two of the index.
const STRIDE: usize = 8;

/// A map from addresses to numbers from 1 to [`VALUE_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    /// The values that occur; tables have their places.
    values: Vec<u16>,
    v4: Packed<u64>,
    /// By the first half of an address.
    v6: Packed<u64>,
    /// Of each /64 that is cut further: all cuts, from its first address on.
    deep: Packed<u128>,
}

/// Cuts in the making: strictly ascending, and no two neighbours alike unless they have to be.
#[derive(Default)]
struct Cuts(Vec<(u128, u16)>);

/// Cuts, packed.
///
/// Each is the difference to the one before, without the zeros at its end and with their number
/// in a byte before it, and the place of its value, both as variable-length integers of seven bits
/// a byte, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Packed<K> {
    bytes: Vec<u8>,
    /// The key of each [`STRIDE`]th cut.
    keys: Vec<K>,
    /// Where the value of each of those stands.
    places: Vec<u32>,
}

/// Whole numbers that keys are made of: half the width is twice as fast.
trait Key: Copy + Ord {
    const ZERO: Self;
    /// The lower bits.
    fn of(wide: u128) -> Self;
    fn shifted(self, bits: u32) -> Option<Self>;
    fn plus(self, other: Self) -> Option<Self>;
    fn or(self, byte: u8, shift: u32) -> Option<Self>;
}

macro_rules! key {
    ($($type:ty)*) => {$(
        impl Key for $type {
            const ZERO: Self = 0;

            #[inline]
            fn of(wide: u128) -> Self {
                Self::try_from(wide & u128::from(Self::MAX)).unwrap_or(Self::MAX)
            }

            #[inline]
            fn shifted(self, bits: u32) -> Option<Self> {
                self.checked_shl(bits)
            }

            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            #[inline]
            fn or(self, byte: u8, shift: u32) -> Option<Self> {
                Some(self | Self::from(byte).checked_shl(shift)?)
            }
        }
    )*};
}

key!(u64 u128);

/// Why bytes are no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkMapError {
    /// They do not begin as a map does, or as one of another version.
    Magic,
    /// They end too early or too late.
    Length,
    /// The cuts are not in order, or have values that there are not.
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
    /// A map from places where the value changes; of two at the same place the later one counts. A value of 0, or above [`VALUE_MAX`], is none.
    #[must_use]
    pub fn new(v4: Vec<(u32, u16)>, mut v6: Vec<(u128, u16)>) -> Self {
        let mut v4: Vec<_> = v4.into_iter().map(|(start, value)| (start.into(), value)).collect();
        // Stable, so that the order at one place is kept.
        v4.sort_by_key(|(start, _): &(u128, u16)| *start);
        v6.sort_by_key(|(start, _)| *start);
        let (mut cuts_v4, mut all) = (Cuts::default(), Cuts::default());
        for (start, value) in v4 {
            cuts_v4.cut(start, if value > VALUE_MAX { NONE } else { value });
        }
        for (start, value) in v6 {
            all.cut(start, if value > VALUE_MAX { NONE } else { value });
        }
        let (cuts_v6, deep) = split(&all);
        let mut places = Places::default();
        let (v4, v6) = (Packed::new(&cuts_v4, &mut places), Packed::new(&cuts_v6, &mut places));
        let deep = Packed::new(&deep, &mut places);
        places.values.shrink_to_fit();
        Self { values: places.values, v4, v6, deep }
    }

    /// A map of networks, each from its first to its last address, in any order. They should not overlap: where
    /// they do, the one that begins later counts up to its end, and what follows has no value. A network that
    /// begins as IPv4 and ends as IPv6 is none.
    #[must_use]
    pub fn of_networks(mut networks: Vec<(IpAddr, IpAddr, u16)>) -> Self {
        networks.sort_unstable_by_key(|(first, ..)| first.to_canonical());
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (first, last, value) in networks {
            match (first.to_canonical(), last.to_canonical()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.push((first.to_bits(), value));
                    v4.extend(last.to_bits().checked_add(1).map(|next| (next, NONE)));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    v6.push((first.to_bits(), value));
                    v6.extend(last.to_bits().checked_add(1).map(|next| (next, NONE)));
                }
                _ => {}
            }
        }
        Self::new(v4, v6)
    }

    /// The value of an address.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<u16> {
        let value = match address.to_canonical() {
            IpAddr::V4(address) => self.value(&self.v4, address.to_bits().into()),
            IpAddr::V6(address) => match self.value(&self.v6, u64::of(address.to_bits() >> 64)) {
                DEEP => self.value(&self.deep, address.to_bits()),
                value => value,
            },
        };
        (value != NONE).then_some(value)
    }

    fn value<K: Key>(&self, table: &Packed<K>, key: K) -> u16 {
        table.place(key).and_then(|place| self.values.get(place)).copied().unwrap_or(NONE)
    }

    /// How many bytes of memory the tables take.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.values.capacity() * 2
            + self.v4.memory_bytes()
            + self.v6.memory_bytes()
            + self.deep.memory_bytes()
    }

    /// The byte form: a magic, the number of values and of bytes of each table in four bytes each,
    /// little-endian, then the values in two bytes each, and the tables.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let tables = [&self.v4.bytes, &self.v6.bytes, &self.deep.bytes];
        let lengths = tables.iter().map(|table| table.len());
        for length in [self.values.len()].into_iter().chain(lengths) {
            out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        tables.iter().for_each(|table| out.extend_from_slice(table));
        out
    }

    /// Reads the byte form.
    ///
    /// # Errors
    ///
    /// If the bytes are no map. What is read is safe to use, whoever wrote it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NetworkMapError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NetworkMapError::Magic)?;
        let (head, mut rest) = rest.split_at_checked(16).ok_or(NetworkMapError::Length)?;
        let (lengths, _) = head.as_chunks::<4>();
        let mut lengths = lengths.iter().map(|length| u32::from_le_bytes(*length) as usize);
        let mut next = |unit: usize| {
            let length = lengths.next().unwrap_or(0).saturating_mul(unit);
            let (part, after) = rest.split_at_checked(length).ok_or(NetworkMapError::Length)?;
            rest = after;
            Ok(part)
        };
        let (values, _) = next(2)?.as_chunks::<2>();
        let values: Vec<_> = values.iter().map(|value| u16::from_le_bytes(*value)).collect();
        let v4 = Packed::read(next(1)?, u32::MAX.into(), values.len())?;
        let v6 = Packed::read(next(1)?, u64::MAX, values.len())?;
        let deep = Packed::read(next(1)?, u128::MAX, values.len())?;
        match rest.is_empty() {
            true => Ok(Self { values, v4, v6, deep }),
            false => Err(NetworkMapError::Length),
        }
    }
}

/// Puts the cuts between two /64 into one table and those inside of a /64 into another.
fn split(all: &Cuts) -> (Cuts, Cuts) {
    let (mut v6, mut deep) = (Cuts::default(), Cuts::default());
    // The value before the cut, and the /64 that is being cut.
    let (mut before, mut open) = (NONE, None);
    for (start, value) in &all.0 {
        let (block, is_first) = (*start >> 64, *start & u128::from(u64::MAX) == 0);
        if let Some(cut) = open.filter(|cut| *cut != block) {
            // Behind a /64 that was cut, the value of its end goes on.
            v6.cut(cut + 1, before);
            open = None;
        }
        if is_first {
            v6.cut(block, *value);
        } else {
            if open.is_none() {
                deep.0.push((block << 64, before));
                v6.cut(block, DEEP);
                open = Some(block);
            }
            deep.0.push((*start, *value));
        }
        before = *value;
    }
    if let Some(cut) = open.filter(|cut| *cut < u128::from(u64::MAX)) {
        v6.cut(cut + 1, before);
    }
    (v6, deep)
}

impl Cuts {
    /// From `start` on the value is this. A cut that changes nothing is left out.
    fn cut(&mut self, start: u128, value: u16) {
        self.0.pop_if(|(before, _)| *before == start);
        if self.0.last().map_or(NONE, |(_, before)| *before) != value {
            self.0.push((start, value));
        }
    }
}

/// The places of values.
#[derive(Default)]
struct Places {
    values: Vec<u16>,
    of: HashMap<u16, usize>,
}

impl<K: Key> Packed<K> {
    fn new(cuts: &Cuts, places: &mut Places) -> Self {
        let mut table = Self { bytes: Vec::new(), keys: Vec::new(), places: Vec::new() };
        let mut before = 0;
        for (i, (start, value)) in cuts.0.iter().enumerate() {
            let difference = *start - before;
            let zeros = if difference == 0 { 0 } else { difference.trailing_zeros() };
            table.bytes.push(u8::try_from(zeros).unwrap_or(0));
            push_varint(&mut table.bytes, difference >> zeros);
            if i.is_multiple_of(STRIDE) {
                let at = u32::try_from(table.bytes.len()).unwrap_or(u32::MAX);
                table.keys.push(K::of(*start));
                table.places.push(at);
            }
            let place = *places.of.entry(*value).or_insert_with(|| {
                places.values.push(*value);
                places.values.len() - 1
            });
            push_varint(&mut table.bytes, place as u128);
            before = *start;
        }
        table.bytes.shrink_to_fit();
        table.keys.shrink_to_fit();
        table.places.shrink_to_fit();
        table
    }

    /// Checks bytes and makes their index.
    fn read(bytes: &[u8], key_max: K, values: usize) -> Result<Self, NetworkMapError> {
        let mut table = Self { bytes: bytes.to_vec(), keys: Vec::new(), places: Vec::new() };
        let (mut rest, mut key, mut count) = (bytes, K::ZERO, 0usize);
        while !rest.is_empty() {
            let difference: K = take_difference(&mut rest).ok_or(NetworkMapError::Length)?;
            key = key.plus(difference).ok_or(NetworkMapError::Order)?;
            if key > key_max || difference == K::ZERO && count > 0 {
                return Err(NetworkMapError::Order);
            }
            if count >= CUTS_MAX {
                return Err(NetworkMapError::TooLarge);
            }
            if count.is_multiple_of(STRIDE) {
                let at = bytes.len() - rest.len();
                table.keys.push(key);
                table.places.push(u32::try_from(at).map_err(|_| NetworkMapError::TooLarge)?);
            }
            let place: u64 = take_varint(&mut rest).ok_or(NetworkMapError::Length)?;
            if place >= values as u64 {
                return Err(NetworkMapError::Order);
            }
            count += 1;
        }
        table.keys.shrink_to_fit();
        table.places.shrink_to_fit();
        Ok(table)
    }

    /// The place of the value of the last cut that is not behind `key`.
    fn place(&self, key: K) -> Option<usize> {
        let part = self.keys.partition_point(|start| *start <= key).checked_sub(1)?;
        let (mut start, at) = (*self.keys.get(part)?, *self.places.get(part)?);
        let mut rest = self.bytes.get(usize::try_from(at).ok()?..)?;
        let mut place: u64 = take_varint(&mut rest)?;
        for _ in 1..STRIDE {
            let Some(difference) = take_difference(&mut rest) else { break };
            start = start.plus(difference)?;
            if start > key {
                break;
            }
            place = take_varint(&mut rest)?;
        }
        usize::try_from(place).ok()
    }

    const fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<K>() + self.places.capacity() * 4
    }
}

fn push_varint(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        // The mask leaves seven bits, so the fallback is never taken.
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

#[inline]
fn take_varint<K: Key>(rest: &mut &[u8]) -> Option<K> {
    let (mut value, mut shift) = (K::ZERO, 0u32);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value = value.or(byte & 0x7f, shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

#[inline]
fn take_difference<K: Key>(rest: &mut &[u8]) -> Option<K> {
    let (zeros, after) = rest.split_first()?;
    *rest = after;
    take_varint::<K>(rest)?.shifted(u32::from(*zeros))
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
                    let value = [0, 1, VALUE_MAX, DEEP][usize::try_from(random.below(4)).unwrap()];
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

    /// Bytes of the table of IPv4, with one value: what is read of them, or why they are none.
    #[test]
    fn bytes_of_a_table() {
        use NetworkMapError::{Length, Magic, Order};
        type Values = &'static [(u32, Option<u16>)];
        let rows: [(&[u8], Result<Values, NetworkMapError>); 13] = [
            (&[], Ok(&[(0, None)])),
            // Difference 1, the first value.
            (&[0, 1, 0], Ok(&[(0, None), (1, Some(7)), (u32::MAX, Some(7))])),
            (&[0, 0, 0], Ok(&[(0, Some(7))])),
            (&[31, 1, 0], Ok(&[(0x7fff_ffff, None), (0x8000_0000, Some(7))])),
            (&[0, 0x81, 1, 0], Ok(&[(128, None), (129, Some(7))])),
            (&[0, 0xff, 0xff, 0xff, 0xff, 15, 0], Ok(&[(0xffff_fffe, None), (u32::MAX, Some(7))])),
            (&[32, 1, 0], Err(Order)),
            (&[64, 1, 0], Err(Length)),
            (&[0, 1, 1], Err(Order)),
            (&[0, 1, 0, 0, 0, 0], Err(Order)),
            (&[0], Err(Length)),
            (&[0, 0x80], Err(Length)),
            (&[0, 1], Err(Length)),
        ];
        for (table, expected) in rows {
            let length = u8::try_from(table.len()).unwrap();
            let head = [1, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0];
            let bytes = [&MAGIC[..], &head, table].concat();
            match (NetworkMap::from_bytes(&bytes), expected) {
                (Ok(map), Ok(expected)) => {
                    for (bits, value) in expected {
                        let address = std::net::Ipv4Addr::from_bits(*bits);
                        assert_eq!(map.get(address.into()), *value, "{table:?} {address}");
                    }
                }
                (read, expected) => assert_eq!(read.err(), expected.err(), "{table:?}"),
            }
            let older = bytes.iter().map(|byte| if *byte == 2 { 1 } else { *byte });
            assert_eq!(NetworkMap::from_bytes(&older.collect::<Vec<_>>()), Err(Magic));
        }
    }

    /// The last address of each kind, whose /64 has none after it.
    #[test]
    fn the_ends_of_the_space() {
        let map = NetworkMap::new(vec![(u32::MAX, 1)], vec![(u128::MAX - 5, VALUE_MAX)]);
        let read = NetworkMap::from_bytes(&map.to_bytes());
        assert_eq!(read.as_ref(), Ok(&map));
        let v4 = |bits: u32| map.get(std::net::Ipv4Addr::from_bits(bits).into());
        let v6 = |bits: u128| map.get(std::net::Ipv6Addr::from_bits(bits).into());
        assert_eq!((v4(u32::MAX - 1), v4(u32::MAX)), (None, Some(1)));
        assert_eq!((v6(u128::MAX - 6), v6(u128::MAX)), (None, Some(VALUE_MAX)));
    }

    #[test]
    fn memory() {
        let v4 = (1..=16u16).map(|i| (u32::from(i) * 256, 1 + i % 2)).collect();
        let map = NetworkMap::new(v4, vec![(1 << 64, 1), (2 << 64, 2), ((3 << 64) + 1, 1)]);
        // A cut takes three bytes here. IPv4: 16, of which two are in the index, with 12 bytes each.
        // IPv6: four, one in the index. The /64 that is cut: two, one in the index, with 20 bytes.
        let bytes = (16 * 3 + 2 * 12) + (4 * 3 + 12) + (2 * 3 + 20);
        let values = 3 * 2;
        let read = NetworkMap::from_bytes(&map.to_bytes()).unwrap();
        assert_eq!((map.memory_bytes(), read.memory_bytes()), (bytes + values, bytes + values));
    }

    #[test]
    fn so_many_cuts_and_no_more() {
        let read = |cuts: usize| {
            let length = u32::try_from(3 * cuts).unwrap().to_le_bytes();
            let mut bytes = [&MAGIC[..], &[1, 0, 0, 0], &length, &[0; 8], &[7, 0]].concat();
            bytes.extend_from_slice(&[0u8, 1, 0].repeat(cuts));
            NetworkMap::from_bytes(&bytes).map(|_| ())
        };
        assert_eq!(read(CUTS_MAX), Ok(()));
        assert_eq!(read(CUTS_MAX + 1), Err(NetworkMapError::TooLarge));
        for (error, expected) in [
            (NetworkMapError::Magic, "of this version"),
            (NetworkMapError::Length, "cut off"),
            (NetworkMapError::Order, "not in order"),
            (NetworkMapError::TooLarge, "more than 4000000 cuts"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
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
        assert_eq!(NetworkMap::from_bytes(&large), Err(NetworkMapError::Length));
        // Whatever the bytes are, they are refused or a map that answers.
        let mut random = Xorshift::new(1);
        let mut kept = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=random.below(2) {
                let place = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                bytes[place] = random.next().to_le_bytes()[0];
            }
            if let Ok(map) = NetworkMap::from_bytes(&bytes) {
                kept += 1;
                for bits in [0, 1, 5, 1 << 64, u128::MAX] {
                    let _ = map.get(std::net::Ipv6Addr::from_bits(bits).into());
                }
                let _ = map.get(std::net::Ipv4Addr::LOCALHOST.into());
            }
        }
        assert!(kept > 100, "{kept}");
    }
}
