//! Dynamic metadata as Envoy's newer callback takes it: a `google.protobuf.Struct`, encoded.

use crate::stream::Value;

// Fields of `google.protobuf.Value`.
const NUMBER: u8 = 2;
const STRING: u8 = 3;
const LIST: u8 = 6;

// Wire types of protobuf.
const EIGHT_BYTES: u8 = 1;
const DELIMITED: u8 = 2;

/// Most receipts are shorter.
const USUAL_BYTES: usize = 320;

/// The message.
pub(crate) fn encode(entries: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut message = Vec::with_capacity(USUAL_BYTES);
    let mut value = Vec::new();
    for (name, entry) in entries {
        value.clear();
        match entry {
            Value::Text(text) => delimited(&mut value, STRING, text.as_bytes()),
            Value::Number(number) => {
                value.push(NUMBER << 3 | EIGHT_BYTES);
                value.extend_from_slice(&number.to_le_bytes());
            }
            Value::Texts(texts) => {
                let mut list = Vec::new();
                for text in *texts {
                    length(&mut list, 1, delimited_bytes(text.len()));
                    delimited(&mut list, STRING, text.as_bytes());
                }
                delimited(&mut value, LIST, &list);
            }
        }
        // An entry of a map: name and value.
        length(&mut message, 1, delimited_bytes(name.len()) + delimited_bytes(value.len()));
        delimited(&mut message, 1, name.as_bytes());
        delimited(&mut message, 2, &value);
    }
    message
}

/// The number of a field, below 16, and the length of what follows.
fn length(bytes: &mut Vec<u8>, field: u8, length: usize) {
    bytes.push(field << 3 | DELIMITED);
    let mut rest = length;
    while rest >= 0x80 {
        bytes.push(low_bits(rest) | 0x80);
        rest >>= 7;
    }
    bytes.push(low_bits(rest));
}

fn low_bits(number: usize) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or_default()
}

fn delimited(bytes: &mut Vec<u8>, field: u8, content: &[u8]) {
    length(bytes, field, content.len());
    bytes.extend_from_slice(content);
}

/// The bytes that [`delimited`] writes.
const fn delimited_bytes(content: usize) -> usize {
    let bits = usize::BITS - (content | 1).leading_zeros();
    1 + bits.div_ceil(7) as usize + content
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against bytes that another implementation (`protoc --encode`) makes of the same message.
    #[test]
    fn entries_become_a_struct() {
        let rules = ["942100".to_owned(), "1".to_owned()];
        for (entries, expected) in [
            (&[][..], &b""[..]),
            (&[("a", Value::Text("bc"))], b"\x0a\x09\x0a\x01a\x12\x04\x1a\x02bc"),
            (
                &[("n", Value::Number(1.0))],
                b"\x0a\x0e\x0a\x01n\x12\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f",
            ),
            (&[("l", Value::Texts(&[]))], b"\x0a\x07\x0a\x01l\x12\x02\x32\x00"),
            (
                &[("l", Value::Texts(&rules))],
                b"\x0a\x16\x0a\x01l\x12\x11\x32\x0f\x0a\x08\x1a\x06942100\x0a\x03\x1a\x011",
            ),
        ] {
            assert_eq!(encode(entries), expected, "{entries:?}");
        }
    }

    #[test]
    fn lengths_of_more_than_one_byte() {
        for bytes in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut written = Vec::new();
            delimited(&mut written, 1, &vec![0; bytes]);
            assert_eq!(written.len(), delimited_bytes(bytes), "{bytes}");
        }
    }
}
