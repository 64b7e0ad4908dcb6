//! `@validateByteRange`: which bytes a value may hold.

use crate::scan::ByteSet;

/// A set of byte values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// Bit `b % 64` of word `b / 64` stands for byte `b`.
    words: [u64; 4],
}

impl ByteRange {
    /// Parses a list of numbers and ranges such as `10,13,32-126`; spaces around them are allowed.
    ///
    /// # Errors
    ///
    /// Says which part is no number from 0 to 255, or which range runs backwards. ModSecurity
    /// drops such parts without a word; then far more values match than the author meant.
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let mut set = Self { words: [0; 4] };
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (byte(first)?, byte(last)?);
            if first > last {
                return Err(format!("the range {first}-{last} runs backwards"));
            }
            for value in first..=last {
                set.insert(value);
            }
        }
        Ok(set)
    }

    fn insert(&mut self, byte: u8) {
        if let Some(word) = self.words.get_mut(usize::from(byte / 64)) {
            *word |= 1 << (byte % 64);
        }
    }

    fn contains(&self, byte: u8) -> bool {
        self.words.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// The bytes that are not in the set.
    pub(crate) fn outside(&self) -> ByteSet {
        (0..=u8::MAX).filter(|&byte| !self.contains(byte)).collect()
    }

    /// The index of the first byte of `value` that is not in the set.
    pub(crate) fn first_outside(&self, value: &[u8]) -> Option<usize> {
        value.iter().position(|&byte| !self.contains(byte))
    }
}

fn byte(text: &str) -> Result<u8, String> {
    let text = text.trim();
    text.parse().map_err(|_| format!("\"{text}\" is no byte value; write a number from 0 to 255"))
}

#[cfg(test)]
mod tests {
    use super::ByteRange;

    #[track_caller]
    fn check(list: &str, value: &[u8], outside: Option<usize>) {
        let range = ByteRange::parse(list).expect("a valid list");
        assert_eq!(range.first_outside(value), outside, "{list} on {value:?}");
    }

    #[test]
    fn finds_the_first_byte_outside() {
        check("0-255", &[0, 1, 127, 128, 255], None);
        check("1-255", b"", None);
        check("1-255", b"ab\0c\0", Some(2));
        check("10,13,32-126", b"line\r\n", None);
        check("10,13,32-126", b"tab\there", Some(3));
        check(" 9 , 10 , 13 , 32 - 126 , 128-255 ", b"tab\there\xff", None);
        check("32-36,38-126", b"50%", Some(2));
        check("63,64,127,128,191,192", &[63, 64, 127, 128, 191, 192, 62], Some(6));
        check("5", &[5, 4], Some(1));
        check("5", &[5, 6], Some(1));
    }

    #[test]
    fn every_byte_is_in_exactly_its_own_range() {
        for inside in 0..=255_u8 {
            let range = ByteRange::parse(&inside.to_string()).expect("a byte");
            for byte in 0..=255 {
                assert_eq!(range.first_outside(&[byte]).is_none(), byte == inside);
            }
        }
    }

    #[track_caller]
    fn check_error(list: &str, message: &str) {
        assert_eq!(ByteRange::parse(list), Err(message.to_owned()), "{list}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error("", "\"\" is no byte value; write a number from 0 to 255");
        check_error("1-256", "\"256\" is no byte value; write a number from 0 to 255");
        check_error("-5", "\"\" is no byte value; write a number from 0 to 255");
        check_error("32-126,", "\"\" is no byte value; write a number from 0 to 255");
        check_error("1-2-3", "\"2-3\" is no byte value; write a number from 0 to 255");
        check_error("0x20", "\"0x20\" is no byte value; write a number from 0 to 255");
        check_error("20-10", "the range 20-10 runs backwards");
    }
}
