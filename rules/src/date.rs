//! Days.

use core::{fmt, str::FromStr, time::Duration};

use glacis_engine::{CivilDate, civil_date};

const SECONDS_A_DAY: u64 = 86_400;

/// A day of the Gregorian calendar, from 1970 on; written as in ISO 8601: `2027-01-31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day, in UTC, at this time since 1970.
    #[must_use]
    pub fn at(time: Duration) -> Self {
        let CivilDate { year, month, day } = civil_date(time.as_secs() / SECONDS_A_DAY);
        Self { year: u16::try_from(year).unwrap_or(u16::MAX), month, day }
    }
}

/// A text that is no day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateError;

impl fmt::Display for DateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no day: write it as 2027-01-31")
    }
}

impl core::error::Error for DateError {}

impl FromStr for Date {
    type Err = DateError;

    fn from_str(text: &str) -> Result<Self, DateError> {
        let is_number = |part: &&str, count: usize| {
            part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let mut parts = text.split('-');
        let mut next = |count| parts.next().filter(|part| is_number(part, count)).ok_or(DateError);
        let (year, month, day) = (next(4)?, next(2)?, next(2)?);
        let date = Self {
            year: year.parse().map_err(|_| DateError)?,
            month: month.parse().map_err(|_| DateError)?,
            day: day.parse().map_err(|_| DateError)?,
        };
        let good =
            parts.next().is_none() && date.year >= 1970 && (1..=date.days()).contains(&date.day);
        if good { Ok(date) } else { Err(DateError) }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day } = self;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl Date {
    /// Days of its month; 0 where there is no such month.
    const fn days(self) -> u8 {
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_times() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (86_400, "1970-01-02"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(Date::at(Duration::from_secs(seconds)).to_string(), expected);
        }
    }

    #[test]
    fn texts() {
        for text in ["1970-01-01", "2024-02-29", "2027-12-31"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "2027",
            "2027-1-1",
            "2027-02-29",
            "2027-13-01",
            "2027-00-01",
            "2027-01-00",
            "2027-01-01-",
            "+027-01-01",
            "1969-12-31",
            "never",
        ] {
            assert_eq!(text.parse::<Date>(), Err(DateError), "{text}");
        }
        assert!("2026-12-31".parse::<Date>().unwrap() < "2027-01-01".parse().unwrap());
    }
}
