//! Time as text.

use core::time::Duration;

use glacis_engine::{CivilDate, civil_date};

/// `time` since 1970 (UTC) as in RFC 3339, with milliseconds: `2026-01-02T03:04:05.678Z`.
///
/// Years beyond 9999 are written with more digits, which RFC 3339 does not know.
pub(crate) fn rfc3339(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let CivilDate { year, month, day } = civil_date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let milliseconds = time.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// `time` since 1970 (UTC) as `asctime` of C writes it: `Tue Nov 14 22:13:20 2023`.
pub(crate) fn asctime(time: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = time.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let CivilDate { year, month, day } = civil_date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let name = |names: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
    };
    let week_day = name(&DAYS, days % 7);
    let month = name(&MONTHS, u64::from(month).saturating_sub(1));
    format!("{week_day} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_in_words() {
        for (seconds, expected) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_868_799, "Tue Feb 29 23:59:59 2000"),
            (1_700_000_000, "Tue Nov 14 22:13:20 2023"),
        ] {
            assert_eq!(asctime(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn known_times() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_millis(milliseconds)), expected);
        }
    }
}
