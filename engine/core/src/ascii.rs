//! What bytes are, where rules mean something else than Rust's standard library.

/// White space of the C locale: space, tab, LF, VT, FF, CR. (Rust's notion of ASCII white space
/// lacks the vertical tab, which shells and databases accept.)
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

/// The value of a hexadecimal digit.
pub(crate) const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The byte that two hexadecimal digits stand for.
pub(crate) fn hex_pair(high: u8, low: u8) -> Option<u8> {
    Some((nibble(high)? << 4) | nibble(low)?)
}

/// The number that hexadecimal digits stand for: of those of Rust the first byte may be a sign.
pub(crate) fn hex_number(digits: &[u8]) -> Option<u32> {
    let add =
        |number: u32, &digit: &u8| number.checked_mul(16)?.checked_add(u32::from(nibble(digit)?));
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_sign() {
        for (digits, number) in [
            ("0", Some(0)),
            ("fF", Some(255)),
            ("00000000041", Some(65)),
            ("ffffffff", Some(u32::MAX)),
            ("100000000", None),
            ("", None),
            ("+f", None),
            ("-0", None),
            ("0x1", None),
            ("g", None),
        ] {
            assert_eq!(hex_number(digits.as_bytes()), number, "{digits}");
        }
    }

    #[test]
    fn classes_of_bytes() {
        for byte in 0..=u8::MAX {
            let is_space = byte.is_ascii_whitespace() || byte == 0x0b;
            assert_eq!(super::is_space(byte), is_space, "{byte:#x}");
            let value = char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
            assert_eq!(nibble(byte), value, "{byte:#x}");
        }
        assert_eq!([hex_pair(b'4', b'A'), hex_pair(b'+', b'4')], [Some(0x4a), None]);
    }
}
