//! The wire format of protocol buffers: one field at a time.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

use std::ops::Range;

/// Bytes of a varint: seven bits of 64 each.
const VARINT_BYTES_MAX: usize = 10;

/// The largest number of a field.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// A field as it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) value: Value,
}

/// The value of a field, by its wire type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Text, bytes, a message or packed numbers: where its content is.
    Bytes(Range<usize>),
    GroupStart,
    GroupEnd,
}

/// Reads the field at `at`, and returns it with the place after it. `None` where `bytes` up to `end` hold no field.
pub(crate) fn field(bytes: &[u8], at: usize, end: usize) -> Option<(Field, usize)> {
    let bytes = bytes.get(..end)?;
    let (tag, at) = varint(bytes, at)?;
    let number = tag >> 3;
    if number == 0 || number > NUMBER_MAX {
        return None;
    }
    let (value, at) = match tag & 7 {
        0 => {
            let (number, at) = varint(bytes, at)?;
            (Value::Varint(number), at)
        }
        1 => (Value::Fixed64(u64::from_le_bytes(array(bytes, at)?)), at + 8),
        2 => {
            let (length, at) = varint(bytes, at)?;
            let end = at.checked_add(usize::try_from(length).ok()?)?;
            (end <= bytes.len()).then_some((Value::Bytes(at..end), end))?
        }
        3 => (Value::GroupStart, at),
        4 => (Value::GroupEnd, at),
        5 => (Value::Fixed32(u32::from_le_bytes(array(bytes, at)?)), at + 4),
        _ => return None,
    };
    Some((Field { number: u32::try_from(number).ok()?, value }, at))
}

/// Reads a varint at `at`, and returns it with the place after it. Bits beyond 64 are dropped, as most parsers do.
pub(crate) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut number = 0;
    for (position, &byte) in bytes.get(at..)?.iter().take(VARINT_BYTES_MAX).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some((number, at + position + 1));
        }
    }
    None
}

/// The bytes of a number of fixed size.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Whether `bytes` are the fields of a message, without groups: few texts are so by chance.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        match field(bytes, at, bytes.len()) {
            None | Some((Field { value: Value::GroupStart | Value::GroupEnd, .. }, _)) => {
                return false;
            }
            Some((_, next)) => at = next,
        }
    }
    !bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_wire_type() {
        for (bytes, expected) in [
            (&b"\x08\x96\x01"[..], Some((1, Value::Varint(150), 3))),
            (
                b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                Some((1, Value::Varint(u64::MAX), 11)),
            ),
            (b"\x09\x01\0\0\0\0\0\0\0", Some((1, Value::Fixed64(1), 9))),
            (b"\x0d\x01\0\0\0", Some((1, Value::Fixed32(1), 5))),
            (b"\x12\x02ab", Some((2, Value::Bytes(2..4), 4))),
            (b"\x12\x00", Some((2, Value::Bytes(2..2), 2))),
            (b"\x0b", Some((1, Value::GroupStart, 1))),
            (b"\x0c", Some((1, Value::GroupEnd, 1))),
            // The largest number of a field, and one more.
            (b"\xf8\xff\xff\xff\x0f\0", Some(((1 << 29) - 1, Value::Varint(0), 6))),
            (b"\x80\x80\x80\x80\x10\0", None),
            // Number 0, unknown wire types, and values that are cut off.
            (b"\x00\x01", None),
            (b"\x0e", None),
            (b"\x0f", None),
            (b"", None),
            (b"\x08", None),
            (b"\x08\x80", None),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
            (b"\x09\0\0\0\0\0\0\0", None),
            (b"\x0d\0\0\0", None),
            (b"\x12\x03ab", None),
            (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
        ] {
            let read = field(bytes, 0, bytes.len());
            let read = read.map(|(field, at)| (field.number, field.value, at));
            assert_eq!(read, expected, "{}", bytes.escape_ascii());
        }
    }
}
