//! Days of UTC, as lists, patches and keys say until when they hold: `2027-01-31`, and in no other way.

use std::ops::Range;

const SECONDS: u64 = 86_400;

/// The number of a day of the Gregorian calendar, from 1970-01-01 on, which is 0; `None` if there is no such day,
/// or if it is written in another way.
///
/// ```
/// use glacis_limits::day;
///
/// assert_eq!(day::since_1970("1970-02-01"), Some(31));
/// assert_eq!(day::since_1970("1970-2-1"), None);
/// ```
#[must_use]
pub fn since_1970(text: &str) -> Option<u64> {
    let fits = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    if text.len() != 10 || !text.bytes().enumerate().all(fits) {
        return None;
    }
    let number = |range: Range<usize>| text.get(range)?.parse().ok();
    in_calendar(number(0..4)?, number(5..7)?, number(8..10)?)
}

/// The last second of a day, since 1970.
#[must_use]
pub const fn last_second(day: u64) -> u64 {
    day.saturating_mul(SECONDS).saturating_add(SECONDS - 1)
}

fn in_calendar(year: u64, month: u64, day: u64) -> Option<u64> {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let place = usize::try_from(month.checked_sub(1)?).ok()?;
    let in_month = DAYS.get(place)? + u64::from(month == 2 && is_leap(year));
    if year < 1970 || !(1..=in_month).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = DAYS.iter().take(place).sum::<u64>() + u64::from(month > 2 && is_leap(year));
    Some(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        let rows = [
            ("1970-01-01", Some(0)),
            ("1972-12-31", Some(1_095)),
            ("2000-02-29", Some(11_016)),
            ("2023-03-01", Some(19_417)),
            ("2024-02-29", Some(19_782)),
            ("2024-03-01", Some(19_783)),
            ("2024-12-31", Some(20_088)),
            ("2026-01-31", Some(20_484)),
            ("2026-04-30", Some(20_573)),
            ("2100-03-01", Some(47_541)),
            ("9999-12-31", Some(2_932_896)),
            ("2023-02-29", None),
            ("2100-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-04-31", None),
            ("2026-04-00", None),
            ("1969-12-31", None),
            ("0000-01-01", None),
            ("2027-1-31", None),
            ("2027-01-1", None),
            ("2027-1-031", None),
            ("+027-01-31", None),
            ("2027-+1-31", None),
            ("2027-01-+1", None),
            ("2027/01/31", None),
            ("2027-01/31", None),
            ("2027-01-31 ", None),
            ("12027-01-31", None),
            ("2027-01-é", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(since_1970(text), expected, "{text}");
        }
        assert_eq!((last_second(0), last_second(1)), (86_399, 172_799));
        assert_eq!(last_second(u64::MAX), u64::MAX);
    }
}
