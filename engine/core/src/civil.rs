//! Days as dates.

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilDate {
    /// The year, from 1970 on; it may have more than four digits.
    pub year: u64,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 31.
    pub day: u8,
}

/// The date so many days after 1 January 1970.
///
/// The algorithm is Howard Hinnant's (`civil_from_days`): it counts eras of 400 years that begin on
/// 1 March of year 0, so that the day that is there or not is the last one of a year. There is a date
/// for every number of days, but for the last 719 468 of them, which are all the same day.
///
/// ```
/// use glacis_engine::{CivilDate, civil_date};
///
/// let seconds = 1_700_000_000;
/// assert_eq!(civil_date(seconds / 86_400), CivilDate { year: 2023, month: 11, day: 14 });
/// ```
#[must_use]
pub fn civil_date(days: u64) -> CivilDate {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days.saturating_add(DAYS_TO_1970);
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    CivilDate {
        year: era * 400 + year_of_era + u64::from(month <= 2),
        month: u8::try_from(month).unwrap_or(12),
        day: u8::try_from(day).unwrap_or(31),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (1, 1970, 1, 2),
            (11_016, 2000, 2, 29),
            (11_017, 2000, 3, 1),
            (19_782, 2024, 2, 29),
            (20_088, 2024, 12, 31),
            (20_089, 2025, 1, 1),
            (47_541, 2100, 3, 1),
            (2_932_896, 9999, 12, 31),
            (2_932_897, 10_000, 1, 1),
        ] {
            assert_eq!(civil_date(days), CivilDate { year, month, day }, "{days}");
        }
        assert_eq!(civil_date(u64::MAX), civil_date(u64::MAX - 1));
    }
}
