//! Times as RFC 3339 writes them.

use core::{str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};

const SECONDS_A_DAY: i64 = 86_400;

/// A time since 1970, in UTC; in JSON a text such as `2026-11-23T10:05:24.5+01:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub Duration);

/// A text that is no time of RFC 3339, or one before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampError;

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse(text.as_bytes()).map(Self).ok_or(TimestampError)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let error = |_| D::Error::custom(format!("{text:?} is no time as in RFC 3339"));
        text.parse().map_err(error)
    }
}

/// RFC 3339, section 5.6: `date-time`. A leap second counts as the second after it.
fn parse(text: &[u8]) -> Option<Duration> {
    let number = |at: usize, length: usize| -> Option<i64> {
        let digits = text.get(at..at + length)?;
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, wanted: &[u8]| text.get(at).is_some_and(|byte| wanted.contains(byte));
    let separated = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let good = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !separated || !good {
        return None;
    }
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix(b".").map(|rest| rest.iter().take_while(|b| b.is_ascii_digit()));
    let fraction = digits.map_or(Some(0), |digits| Some(digits.count()).filter(|&n| n > 0))?;
    let zone = rest.get(if fraction > 0 { fraction + 1 } else { 0 }..)?;
    let offset = offset(zone)?;
    let days = days_since_1970(year, month, day);
    let seconds = days * SECONDS_A_DAY + hour * 3_600 + minute * 60 + second - offset;
    Some(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// The seconds by which a zone is ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
            let hours = digit(h1)? * 10 + digit(h2)?;
            let minutes = digit(m1)? * 10 + digit(m2)?;
            let seconds = hours * 3_600 + minutes * 60;
            let good = hours < 24 && minutes < 60;
            good.then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

const fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, counted from the first of March of the year 0.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-23T10:05:24Z", 1_795_428_324),
            ("2026-11-23t10:05:24.999z", 1_795_428_324),
            ("2026-11-23T11:05:24.5+01:00", 1_795_428_324),
            ("2026-11-23 05:35:24-04:30", 1_795_428_324),
            ("2024-02-29T23:59:60Z", 1_709_251_200),
            ("2000-03-01T00:00:00Z", 951_868_800),
        ] {
            let time = text.parse().map(|Timestamp(time)| time.as_secs());
            assert_eq!(time, Ok(expected), "{text}");
        }
        for text in [
            "",
            "2026-11-23",
            "2026-11-23T10:05:24",
            "2026-11-23T10:05Z",
            "2026-13-23T10:05:24Z",
            "2026-02-29T10:05:24Z",
            "2026-11-23T24:05:24Z",
            "2026-11-23T10:05:24.Z",
            "2026-11-23T10:05:24+1:00",
            "2026-11-23T10:05:24Zx",
            "1969-12-31T23:59:59Z",
            "+026-11-23T10:05:24Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError), "{text}");
        }
    }
}
