//! What is allowed.

use glacis_limits::gcra::Gcra;
use glacis_limits::token_bucket::BucketError;
use glacis_limits::window::{FixedWindow, SlidingWindow, WindowError};
use std::fmt;
use std::time::Duration;

/// The longest time in which a burst may be gained: 50 days. Twice that in nanoseconds fits the
/// doubles in which a script in Redis computes.
const BURST_NS_MAX: u64 = 50 * 86_400 * 1_000_000_000;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Evenly, with a burst: [`glacis_limits::gcra`]. The one to take where nothing else is asked.
    Gcra,
    /// So many in about any period: [`glacis_limits::window::SlidingWindow`].
    SlidingWindow,
    /// So many from one boundary of the clock to the next, as envoyproxy/ratelimit counts:
    /// [`glacis_limits::window::FixedWindow`].
    FixedWindow,
}

/// A limit: an amount in a period, and how that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(crate) arithmetic: Arithmetic,
    amount: u32,
    period: Duration,
    /// How much of the amount is not divided by [`Limit::share`].
    undivided: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Gcra(Gcra),
    Sliding(SlidingWindow),
    Fixed(FixedWindow),
}

/// Why a limit cannot be made. The operator who wrote the numbers is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitError(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bucket(BucketError),
    Window(WindowError),
    /// A burst takes more than [`BURST_NS_MAX`] to gain.
    TooSlow,
    /// A window is not a whole number of milliseconds.
    PartOfMillisecond,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Bucket(error) => error.fmt(f),
            Kind::Window(error) => error.fmt(f),
            Kind::TooSlow => f.write_str(
                "the burst takes more than 50 days to gain; write a smaller burst, a higher rate, \
                 or take a window",
            ),
            Kind::PartOfMillisecond => {
                f.write_str("a window's period is a whole number of milliseconds")
            }
        }
    }
}

impl std::error::Error for LimitError {}

impl Limit {
    /// `amount` in a `period`, evenly, and up to `burst` at once.
    ///
    /// # Errors
    ///
    /// If one of the three is zero, or the burst takes more than 50 days to gain.
    pub fn gcra(amount: u32, period: Duration, burst: u32) -> Result<Self, LimitError> {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let gcra = match Gcra::new(burst, amount, period_ns) {
            Err(BucketError::BurstTooLarge { .. }) => return Err(LimitError(Kind::TooSlow)),
            result => result.map_err(|error| LimitError(Kind::Bucket(error)))?,
        };
        if gcra.interval_ns().saturating_mul(u64::from(burst)) > BURST_NS_MAX {
            return Err(LimitError(Kind::TooSlow));
        }
        Ok(Self { arithmetic: Arithmetic::Gcra(gcra), amount, period, undivided: 0 })
    }

    /// `amount` in about any `period`, of whole milliseconds.
    ///
    /// # Errors
    ///
    /// If one of the two is zero, or amount times milliseconds is above 2^50.
    pub fn sliding_window(amount: u32, period: Duration) -> Result<Self, LimitError> {
        let window = SlidingWindow::new(amount, whole_ms(period)?)
            .map_err(|error| LimitError(Kind::Window(error)))?;
        Ok(Self { arithmetic: Arithmetic::Sliding(window), amount, period, undivided: 0 })
    }

    /// `amount` from one boundary of the clock to the next; boundaries are whole `period`s since
    /// 1970.
    ///
    /// # Errors
    ///
    /// If one of the two is zero.
    pub fn fixed_window(amount: u32, period: Duration) -> Result<Self, LimitError> {
        let window = FixedWindow::new(amount, whole_ms(period)?)
            .map_err(|error| LimitError(Kind::Window(error)))?;
        Ok(Self { arithmetic: Arithmetic::Fixed(window), amount, period, undivided: 0 })
    }

    /// The same limit, of whose amount so much is whole in each [`Limit::share`]: who asks for one
    /// more than is allowed, to be told of it, asks so of a share as well.
    #[must_use]
    pub const fn with_undivided(self, undivided: u32) -> Self {
        Self { undivided, ..self }
    }

    /// A limit of the same kind whose amount, and burst, are divided by `count`, rounded up: what
    /// one of `count` may use up alone.
    #[must_use]
    pub fn share(&self, count: u32) -> Self {
        let part = |whole: u32| {
            let divided = whole.saturating_sub(self.undivided).div_ceil(count.max(1));
            divided.saturating_add(self.undivided).min(whole)
        };
        let amount = part(self.amount);
        let smaller = match &self.arithmetic {
            // The burst may be gained so slowly then that it is too slow for a script in Redis;
            // a share is kept in memory.
            Arithmetic::Gcra(gcra) => {
                let period_ns = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
                Gcra::new(part(gcra.burst()), amount, period_ns).ok().map(Arithmetic::Gcra)
            }
            Arithmetic::Sliding(_) => {
                SlidingWindow::new(amount, self.period_ms()).ok().map(Arithmetic::Sliding)
            }
            Arithmetic::Fixed(_) => {
                FixedWindow::new(amount, self.period_ms()).ok().map(Arithmetic::Fixed)
            }
        };
        // Smaller numbers fit where the larger ones did.
        smaller.map_or(*self, |arithmetic| Self { arithmetic, amount, ..*self })
    }

    /// How it counts.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self.arithmetic {
            Arithmetic::Gcra(_) => Algorithm::Gcra,
            Arithmetic::Sliding(_) => Algorithm::SlidingWindow,
            Arithmetic::Fixed(_) => Algorithm::FixedWindow,
        }
    }

    /// How much in a period.
    #[must_use]
    pub const fn amount(&self) -> u32 {
        self.amount
    }

    /// In which time.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The most at once: the burst, or the amount of a window.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        match &self.arithmetic {
            Arithmetic::Gcra(gcra) => gcra.burst(),
            Arithmetic::Sliding(_) | Arithmetic::Fixed(_) => self.amount,
        }
    }

    /// The time between two tokens of GCRA; of a window none.
    pub(crate) const fn interval_ns(&self) -> u64 {
        match &self.arithmetic {
            Arithmetic::Gcra(gcra) => gcra.interval_ns(),
            Arithmetic::Sliding(_) | Arithmetic::Fixed(_) => 0,
        }
    }

    /// The period of a window: whole milliseconds.
    pub(crate) fn period_ms(&self) -> u64 {
        u64::try_from(self.period.as_millis()).unwrap_or(u64::MAX)
    }

    /// What is put before a key, so that no limit reads what another kind has counted. Amount and
    /// burst are not in it: they may be changed while it is in use.
    pub(crate) fn push_kind(&self, text: &mut String) {
        use fmt::Write as _;
        let _ = match &self.arithmetic {
            Arithmetic::Gcra(_) => write!(text, "g{}:", self.period.as_micros()),
            Arithmetic::Sliding(_) => write!(text, "s{}:", self.period_ms()),
            Arithmetic::Fixed(_) => write!(text, "f{}:", self.period_ms()),
        };
    }
}

fn whole_ms(period: Duration) -> Result<u64, LimitError> {
    match period.subsec_nanos() % 1_000_000 {
        0 => Ok(u64::try_from(period.as_millis()).unwrap_or(u64::MAX)),
        _ => Err(LimitError(Kind::PartOfMillisecond)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_work_are_refused() {
        let ms = Duration::from_millis;
        let day = Duration::from_secs(86_400);
        let text = |result: Result<Limit, LimitError>| {
            result.map_or_else(|error| error.to_string(), |_| String::new())
        };
        for (limit, expected) in [
            (Limit::gcra(1, ms(1), 1), ""),
            (Limit::gcra(1, day, 50), ""),
            (Limit::gcra(u32::MAX, ms(1_000), u32::MAX), ""),
            (Limit::gcra(1, day, 51), "more than 50 days"),
            (Limit::gcra(0, day, 1), "the rate is 0"),
            (Limit::gcra(1, Duration::ZERO, 1), "the period is 0"),
            (Limit::gcra(1, day, 0), "the burst is 0"),
            (Limit::gcra(1, Duration::MAX, 1), "more than 50 days"),
            (Limit::sliding_window(35_000, day * 365), ""),
            (Limit::sliding_window(1, Duration::from_secs(u64::MAX)), "too large"),
            (Limit::sliding_window(0, ms(1)), "the amount is 0"),
            (Limit::sliding_window(1, Duration::from_micros(1_500)), "whole number"),
            (Limit::fixed_window(u32::MAX, ms(60_000)), ""),
            (Limit::sliding_window(u32::MAX, day * 365), "at most 35702"),
            (Limit::fixed_window(u32::MAX, day * 365), ""),
        ] {
            let said = text(limit);
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_the_amount_and_the_burst() {
        let minute = Duration::from_secs(60);
        let one_more = |allowed: u32| {
            Limit::fixed_window(allowed + 1, minute).map(|limit| limit.with_undivided(1))
        };
        for (limit, count, amount, burst) in [
            (Limit::gcra(100, minute, 20), 3, 34, 7),
            (Limit::gcra(100, minute, 20), 0, 100, 20),
            (Limit::sliding_window(10, minute), 100, 1, 1),
            (Limit::fixed_window(10, minute), 2, 5, 5),
            (one_more(10), 3, 5, 5),
            (one_more(1), 3, 2, 2),
            (one_more(0), 3, 1, 1),
        ] {
            let share = limit.unwrap().share(count);
            assert_eq!((share.amount(), share.burst()), (amount, burst));
            assert_eq!(share.algorithm(), limit.unwrap().algorithm());
        }
    }
}
