//! Until when a certificate is valid (RFC 5280, section 4.1.2.5): the one field of it that a check needs.

use base64::{Engine as _, engine::general_purpose::STANDARD};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of validity of the first certificate of a PEM file, in seconds since 1970; `None` where there is none.
pub(crate) fn not_after(pem: &str) -> Option<u64> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let base64: String = body.chars().filter(|letter| !letter.is_whitespace()).collect();
    let der = STANDARD.decode(base64).ok()?;
    let (certificate, _) = field(&der, SEQUENCE)?;
    let (mut fields, _) = field(certificate, SEQUENCE)?;
    if let Some((_, rest)) = field(fields, VERSION) {
        fields = rest;
    }
    let (_, fields) = field(fields, INTEGER)?;
    let (_, fields) = field(fields, SEQUENCE)?;
    let (_, fields) = field(fields, SEQUENCE)?;
    let (validity, _) = field(fields, SEQUENCE)?;
    let (_, end) = time(validity)?;
    let (end, _) = time(end)?;
    end
}

/// The content of a DER value with this tag, and what follows it.
fn field(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        length @ 0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length))?
}

/// A time, and what follows it.
fn time(der: &[u8]) -> Option<(Option<u64>, &[u8])> {
    if let Some((text, rest)) = field(der, UTC_TIME) {
        let year: u64 = digits(text.get(..2)?)?;
        let century = if year < 50 { 2000 } else { 1900 };
        return Some((seconds(century + year, text.get(2..)?), rest));
    }
    let (text, rest) = field(der, GENERALIZED_TIME)?;
    Some((seconds(digits(text.get(..4)?)?, text.get(4..)?), rest))
}

fn digits(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// `MMDDHHMMSSZ` of a year, in seconds since 1970.
fn seconds(year: u64, rest: &[u8]) -> Option<u64> {
    let part = |at: usize| digits(rest.get(at..at + 2)?);
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    Some(days(year, month, day)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days since 1970 of a day of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years that begin in March end with the leap day.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let of_year = (153 * month + 2) / 5 + day.checked_sub(1)?;
    (year * 365 + year / 4 + year / 400 + of_year).checked_sub(year / 100 + 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        for (day, expected) in [
            ((1970, 1, 1), Some(0)),
            ((2000, 2, 29), Some(11_016)),
            ((2000, 3, 1), Some(11_017)),
            ((2026, 11, 23), Some(20_780)),
            ((1960, 1, 1), None),
        ] {
            assert_eq!(days(day.0, day.1, day.2), expected, "{day:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        for pem in ["", BEGIN, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            assert_eq!(not_after(pem), None, "{pem}");
        }
        let cut = STANDARD.encode([SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(not_after(&format!("{BEGIN}{cut}{END}")), None);
    }
}
