//! Time as `TIME_YEAR` and its like tell it.

/// A moment in UTC, as `struct tm` has it.
pub(super) struct Clock {
    pub(super) second: u64,
    pub(super) minute: u64,
    pub(super) hour: u64,
    pub(super) day: u64,
    pub(super) month: u64,
    pub(super) year: u64,
    pub(super) weekday: u64,
}

impl Clock {
    /// Days are turned into a date by counting eras of 400 years from the first of March of year 0.
    pub(super) fn at(seconds: u64) -> Self {
        let days = seconds / 86_400;
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = (march_month + 2) % 12;
        Self {
            second: seconds % 60,
            minute: seconds / 60 % 60,
            hour: seconds / 3_600 % 24,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            month,
            year: year_of_era + era * 400 + u64::from(month <= 1),
            weekday: (days + 4) % 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, expected) in [
            (0, (1970, 0, 1, 4)),
            (951_782_400, (2000, 1, 29, 2)),
            (1_735_689_599, (2024, 11, 31, 2)),
            (1_735_689_600, (2025, 0, 1, 3)),
            (4_107_542_400, (2100, 2, 1, 1)),
        ] {
            let clock = Clock::at(seconds);
            assert_eq!((clock.year, clock.month, clock.day, clock.weekday), expected, "{seconds}");
        }
    }
}
