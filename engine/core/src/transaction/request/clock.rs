//! Time as `TIME_YEAR` and its like tell it.

use crate::civil::{CivilDate, civil_date};

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
    pub(super) fn at(seconds: u64) -> Self {
        let days = seconds / 86_400;
        let CivilDate { year, month, day } = civil_date(days);
        Self {
            second: seconds % 60,
            minute: seconds / 60 % 60,
            hour: seconds / 3_600 % 24,
            day: day.into(),
            // January is 0.
            month: u64::from(month) - 1,
            year,
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
