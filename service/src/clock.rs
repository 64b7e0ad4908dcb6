//! The time of day, and a clock for deadlines.

use core::time::Duration;
use std::{
    sync::OnceLock,
    time::{Instant, SystemTime},
};

/// The time since 1970; none of it where the machine's clock is set before that.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// When the clock for deadlines began: the first time that it was read.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}

/// Nanoseconds on a clock that never goes back, for those who are handed a function and no `Instant`.
#[must_use]
pub fn nanoseconds() -> u64 {
    at(Instant::now())
}

/// What [`nanoseconds`] returns at that time; 0 before the clock began.
#[must_use]
pub fn at(time: Instant) -> u64 {
    u64::try_from(time.saturating_duration_since(beginning()).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_and_the_clock_agree() {
        let before = nanoseconds();
        let later = Instant::now() + Duration::from_secs(1);
        assert!(at(later) >= before + 1_000_000_000 && at(later) > nanoseconds());
        assert_eq!(at(beginning()), 0);
    }
}
