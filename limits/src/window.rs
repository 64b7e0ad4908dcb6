//! Limits by the clock: so many in a window of time.
//!
//! A [`FixedWindow`] counts from one boundary of the clock to the next (the full minute), as
//! envoyproxy/ratelimit does; over a boundary a client may get twice the amount. A
//! [`SlidingWindow`] adds what the window before had, weighted by how much of it the last period
//! still covers; it assumes that this window's requests came evenly.
//!
//! Time is in milliseconds since 1970, since a script in Redis computes the same with doubles,
//! which hold whole numbers up to 2^53.
//!
//! # Laws
//!
//! 1. A fixed window hands out at most `amount` between two boundaries; so does a sliding one.
//! 2. A caller that was refused and waits `retry_after_ns` is served, if nobody else is faster;
//!    one that waits a millisecond less is not.
//! 3. A clock that goes back hands out nothing. Within [`BACKWARDS_TOLERANCE_NS`] the latest
//!    window stays open until the clock has caught up; beyond it the clock was set, and what was
//!    counted counts in the window it shows now.
//!
//! ```
//! use glacis_limits::window::{SlidingWindow, WindowState};
//!
//! let minute = SlidingWindow::new(10, 60_000)?;
//! let (state, decision) = minute.take(WindowState::EMPTY, 30_000, 8);
//! assert_eq!((decision.allowed, decision.remaining), (true, 2));
//! // A quarter into the next minute, three quarters of the eight still count.
//! assert_eq!(minute.take(state, 75_000, 0).1.remaining, 4);
//! # Ok::<(), glacis_limits::window::WindowError>(())
//! ```

use crate::meter::Decision;
use crate::token_bucket::BACKWARDS_TOLERANCE_NS;
use std::fmt;

const NS_PER_MS: u64 = 1_000_000;
const BACKWARDS_TOLERANCE_MS: u64 = BACKWARDS_TOLERANCE_NS / NS_PER_MS;

/// The most that an amount times its period in milliseconds may be: sums of four stay exact in a
/// double.
const AMOUNT_MS_MAX: u64 = 1 << 50;

/// What was counted, of one client: 0 of everything for one that was never seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// The number of the window since 1970.
    pub index: u64,
    /// Counted in it.
    pub current: u32,
    /// Counted in the one before; a fixed window does not look at it.
    pub previous: u32,
}

impl WindowState {
    /// Nothing was counted.
    pub const EMPTY: Self = Self { index: 0, current: 0, previous: 0 };
}

/// Why a window cannot be made. The operator who wrote the numbers is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// The amount is zero: nothing would ever be allowed.
    AmountZero,
    /// The period is less than a millisecond.
    PeriodZero,
    /// Amount times period does not fit the arithmetic.
    TooLarge {
        /// The largest amount for this period.
        amount_max: u32,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AmountZero => f.write_str("the amount is 0, which allows nothing"),
            Self::PeriodZero => f.write_str("the period is below a millisecond"),
            Self::TooLarge { amount_max } => {
                write!(f, "the amount is too large for this period; write at most {amount_max}")
            }
        }
    }
}

impl std::error::Error for WindowError {}

/// So many from one boundary of the clock to the next.
///
/// An ask that is refused uses up what is left of the window: envoyproxy/ratelimit counts what it
/// refuses, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow(Window);

/// So many in about any period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow(Window);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    amount: u32,
    period_ms: u64,
}

/// A state as it stands now.
struct Settled {
    state: WindowState,
    /// Milliseconds since its window began.
    elapsed_ms: u64,
    /// Milliseconds that a clock which went back needs to catch up.
    lag_ms: u64,
}

impl Window {
    const fn new(amount: u32, period_ms: u64) -> Result<Self, WindowError> {
        if amount == 0 {
            return Err(WindowError::AmountZero);
        }
        if period_ms == 0 {
            return Err(WindowError::PeriodZero);
        }
        Ok(Self { amount, period_ms })
    }

    /// For a window whose arithmetic multiplies the two.
    const fn new_multiplied(amount: u32, period_ms: u64) -> Result<Self, WindowError> {
        match Self::new(amount, period_ms) {
            Ok(_) if (amount as u64).saturating_mul(period_ms) > AMOUNT_MS_MAX => {
                let amount_max = (AMOUNT_MS_MAX / period_ms) as u32;
                Err(WindowError::TooLarge { amount_max })
            }
            result => result,
        }
    }

    fn settle(&self, state: WindowState, now_ms: u64) -> Settled {
        let current = state.current.min(self.amount);
        let previous = state.previous.min(self.amount);
        let index = now_ms / self.period_ms;
        let elapsed_ms = now_ms % self.period_ms;
        let at = |index, current, previous| WindowState { index, current, previous };
        if state.index > index {
            let lag_ms = state.index.saturating_mul(self.period_ms).saturating_sub(now_ms);
            if lag_ms <= BACKWARDS_TOLERANCE_MS {
                return Settled {
                    state: at(state.index, current, previous),
                    elapsed_ms: 0,
                    lag_ms,
                };
            }
            return Settled { state: at(index, current, previous), elapsed_ms, lag_ms: 0 };
        }
        let state = match index - state.index {
            0 => at(index, current, previous),
            1 => at(index, 0, current),
            _ => at(index, 0, 0),
        };
        Settled { state, elapsed_ms, lag_ms: 0 }
    }

    /// Tokens taken `age_ms` ago are there again, if their window still counts.
    fn give_back(&self, state: WindowState, now_ms: u64, tokens: u32, age_ms: u64) -> WindowState {
        let Settled { mut state, elapsed_ms, .. } = self.settle(state, now_ms);
        match age_ms.saturating_sub(elapsed_ms).div_ceil(self.period_ms) {
            0 => state.current = state.current.saturating_sub(tokens),
            1 => state.previous = state.previous.saturating_sub(tokens),
            _ => {}
        }
        state
    }
}

impl FixedWindow {
    /// `amount` in each window of `period_ms` milliseconds.
    ///
    /// # Errors
    ///
    /// If one of the two is zero.
    pub const fn new(amount: u32, period_ms: u64) -> Result<Self, WindowError> {
        match Window::new(amount, period_ms) {
            Ok(window) => Ok(Self(window)),
            Err(error) => Err(error),
        }
    }

    /// Takes `cost` if it is there at `now_ms`, and says how the client stands. A cost of 0 looks.
    #[must_use]
    pub fn take(&self, state: WindowState, now_ms: u64, cost: u32) -> (WindowState, Decision) {
        let Window { amount, period_ms } = self.0;
        let Settled { mut state, elapsed_ms, lag_ms } = self.0.settle(state, now_ms);
        let allowed = cost <= amount - state.current;
        state.current = if allowed { state.current + cost } else { amount };
        let rest_ns = (period_ms - elapsed_ms + lag_ms).saturating_mul(NS_PER_MS);
        let decision = Decision {
            allowed,
            remaining: amount - state.current,
            retry_after_ns: match (allowed, cost > amount) {
                (true, _) => 0,
                (false, true) => u64::MAX,
                (false, false) => rest_ns,
            },
            reset_ns: if state.current > 0 { rest_ns } else { 0 },
        };
        (state, decision)
    }

    /// Tokens taken `age_ms` ago are there again, if that was in this window.
    #[must_use]
    pub fn give_back(
        &self,
        state: WindowState,
        now_ms: u64,
        tokens: u32,
        age_ms: u64,
    ) -> WindowState {
        self.0.give_back(state, now_ms, tokens, age_ms)
    }
}

impl SlidingWindow {
    /// `amount` in a period of `period_ms` milliseconds.
    ///
    /// # Errors
    ///
    /// If one of the two is zero, or if their product is above 2^50.
    pub const fn new(amount: u32, period_ms: u64) -> Result<Self, WindowError> {
        match Window::new_multiplied(amount, period_ms) {
            Ok(window) => Ok(Self(window)),
            Err(error) => Err(error),
        }
    }

    /// Takes `cost` if it is there at `now_ms`, and says how the client stands. A cost of 0 looks,
    /// and a refused ask costs nothing.
    #[must_use]
    pub fn take(&self, state: WindowState, now_ms: u64, cost: u32) -> (WindowState, Decision) {
        let Window { amount, period_ms } = self.0;
        let Settled { mut state, elapsed_ms, lag_ms } = self.0.settle(state, now_ms);
        // Counted in thousandths of the period, so to speak: a token has `period_ms` of them.
        let rest_ms = period_ms - elapsed_ms;
        let used = u64::from(state.current) * period_ms + u64::from(state.previous) * rest_ms;
        let free = (u64::from(amount) * period_ms).saturating_sub(used);
        let allowed = cost == 0 || (cost <= amount && u64::from(cost) * period_ms <= free);
        let mut remaining = free / period_ms;
        let mut retry_after_ns = 0;
        if allowed {
            state.current += cost;
            remaining -= u64::from(cost);
        } else if cost > amount {
            retry_after_ns = u64::MAX;
        } else {
            let wait_ms = self.wait_ms(state, elapsed_ms, cost) + lag_ms;
            retry_after_ns = wait_ms.saturating_mul(NS_PER_MS);
        }
        let reset_ms = match (state.current, state.previous) {
            (0, 0) => 0,
            (0, _) => rest_ms + lag_ms,
            _ => rest_ms + period_ms + lag_ms,
        };
        let decision = Decision {
            allowed,
            remaining: u32::try_from(remaining).unwrap_or(amount),
            retry_after_ns,
            reset_ns: reset_ms.saturating_mul(NS_PER_MS),
        };
        (state, decision)
    }

    /// How long until a cost that is not there, but could be, is.
    fn wait_ms(&self, state: WindowState, elapsed_ms: u64, cost: u32) -> u64 {
        let Window { amount, period_ms } = self.0;
        let room = amount - cost;
        // The share of a window's count that may still weigh is `room * period / count`, rounded
        // down: later it weighs less.
        let weighs_ms = |room: u32, count: u32| {
            let share_ms = (u64::from(room) * period_ms).checked_div(u64::from(count));
            share_ms.unwrap_or(period_ms).min(period_ms)
        };
        match room.checked_sub(state.current) {
            Some(room) => period_ms - elapsed_ms - weighs_ms(room, state.previous),
            None => period_ms - elapsed_ms + period_ms - weighs_ms(room, state.current),
        }
    }

    /// Tokens taken `age_ms` ago are there again, if their window still counts.
    #[must_use]
    pub fn give_back(
        &self,
        state: WindowState,
        now_ms: u64,
        tokens: u32,
        age_ms: u64,
    ) -> WindowState {
        self.0.give_back(state, now_ms, tokens, age_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    const T0: u64 = 1_700_000_000_000;

    #[test]
    fn new_refuses_what_cannot_work() {
        let rows = [
            ((0, 1), Err(WindowError::AmountZero)),
            ((1, 0), Err(WindowError::PeriodZero)),
            ((u32::MAX, 60_000), Ok(())),
            ((1, 1 << 50), Ok(())),
        ];
        for ((amount, period_ms), expected) in rows {
            assert_eq!(FixedWindow::new(amount, period_ms).map(|_| ()), expected);
            assert_eq!(SlidingWindow::new(amount, period_ms).map(|_| ()), expected);
        }
        // Only a sliding window multiplies the two.
        let too_large = Err(WindowError::TooLarge { amount_max: 1 });
        assert_eq!(SlidingWindow::new(2, 1 << 50).map(|_| ()), too_large);
        assert_eq!(FixedWindow::new(u32::MAX, 1 << 50).map(|_| ()), Ok(()));
        for (error, expected) in [
            (WindowError::AmountZero, "the amount is 0"),
            (WindowError::PeriodZero, "the period is below a millisecond"),
            (WindowError::TooLarge { amount_max: 7 }, "write at most 7"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    /// Each row: milliseconds, cost, allowed, remaining, milliseconds to wait, to be whole again.
    type Row = (u64, u32, bool, u32, u64, u64);

    fn check(rows: &[Row], take: impl Fn(WindowState, u64, u32) -> (WindowState, Decision)) {
        let mut state = WindowState::EMPTY;
        for &(at_ms, cost, allowed, remaining, retry_ms, reset_ms) in rows {
            let (next, decision) = take(state, at_ms, cost);
            let expected = Decision {
                allowed,
                remaining,
                retry_after_ns: retry_ms.saturating_mul(NS_PER_MS),
                reset_ns: reset_ms * NS_PER_MS,
            };
            assert_eq!(decision, expected, "at {at_ms}, cost {cost}");
            state = next;
        }
    }

    #[test]
    fn a_fixed_window_ends_at_the_boundary() {
        let window = FixedWindow::new(5, 1_000).unwrap();
        let rows = [
            (10_300, 0, true, 5, 0, 0),
            (10_300, 3, true, 2, 0, 700),
            (10_999, 2, true, 0, 0, 1),
            (10_999, 1, false, 0, 1, 1),
            (11_000, 1, true, 4, 0, 1_000),
            // What is refused uses up the rest.
            (11_500, 5, false, 0, 500, 500),
            (11_600, 1, false, 0, 400, 400),
            (14_000, 6, false, 0, u64::MAX, 1_000),
            // Ten seconds back: it waits; more: the clock was set, and the count goes on.
            (13_900, 1, false, 0, 1_100, 1_100),
            (2_000, 1, false, 0, 1_000, 1_000),
            (3_000, 1, true, 4, 0, 1_000),
        ];
        check(&rows, |state, now_ms, cost| window.take(state, now_ms, cost));
        // The tolerance to the millisecond.
        let rows = [
            (14_000, 5, true, 0, 0, 1_000),
            (4_000, 1, false, 0, 11_000, 11_000),
            (3_999, 1, false, 0, 1, 1),
        ];
        check(&rows, |state, now_ms, cost| window.take(state, now_ms, cost));
    }

    #[test]
    fn a_sliding_window_remembers_the_one_before() {
        let window = SlidingWindow::new(10, 1_000).unwrap();
        let rows = [
            (10_500, 8, true, 2, 0, 1_500),
            (10_500, 3, false, 2, 625, 1_500),
            (11_000, 0, true, 2, 0, 1_000),
            (10_900, 0, true, 2, 0, 1_100),
            (11_124, 3, false, 2, 1, 876),
            (11_125, 3, true, 0, 0, 1_875),
            (11_500, 11, false, 3, u64::MAX, 1_500),
            (12_000, 0, true, 7, 0, 1_000),
            (14_000, 10, true, 0, 0, 2_000),
            (14_500, 1, false, 0, 600, 1_500),
            // Back within the tolerance: the window of 14 s stays until the clock is there again.
            (13_400, 1, false, 0, 1_700, 2_600),
            (3_400, 1, false, 0, 700, 1_600),
            // Of the window before the last one nothing is left.
            (5_000, 0, true, 10, 0, 0),
            (5_000, 10, true, 0, 0, 2_000),
            (7_000, 10, true, 0, 0, 2_000),
        ];
        check(&rows, |state, now_ms, cost| window.take(state, now_ms, cost));
    }

    /// Law 2 and law 1, for both, with seeded times and costs.
    #[test]
    fn who_waits_is_served_and_no_window_hands_out_more() {
        for seed in 1..=300 {
            let mut random = Xorshift::new(seed);
            let amount = 1 + u32::try_from(random.below(20)).unwrap();
            let period_ms = 1 + random.below(3_000);
            let sliding = SlidingWindow::new(amount, period_ms).unwrap();
            let fixed = FixedWindow::new(amount, period_ms).unwrap();
            let (mut state, mut now_ms) = (WindowState::EMPTY, T0);
            let (mut index, mut handed_out) = (0, 0);
            for step in 0..300 {
                now_ms += random.below(period_ms / 4 + 2);
                let cost = u32::try_from(random.below(4)).unwrap();
                let (next, decision) = sliding.take(state, now_ms, cost);
                let (wait_ms, never) = (decision.retry_after_ns / NS_PER_MS, cost > amount);
                if !decision.allowed && !never {
                    assert!(sliding.take(next, now_ms + wait_ms, cost).1.allowed, "{seed} {step}");
                    assert!(!sliding.take(next, now_ms + wait_ms - 1, cost).1.allowed);
                }
                if index != now_ms / period_ms {
                    (index, handed_out) = (now_ms / period_ms, 0);
                }
                handed_out += if decision.allowed { cost } else { 0 };
                assert!(handed_out <= amount, "{seed} {step}");
                let whole_ms = now_ms + decision.reset_ns / NS_PER_MS;
                assert_eq!(sliding.take(next, whole_ms, 0).1.remaining, amount, "{seed} {step}");
                let (_, decision) = fixed.take(state, now_ms, cost);
                if !decision.allowed && !never {
                    let wait_ms = decision.retry_after_ns / NS_PER_MS;
                    assert!(fixed.take(state, now_ms + wait_ms, cost).1.allowed);
                    assert!(!fixed.take(state, now_ms + wait_ms - 1, cost).1.allowed);
                }
                state = next;
            }
        }
    }

    #[test]
    fn what_is_given_back_goes_to_the_window_it_came_from() {
        let window = SlidingWindow::new(10, 1_000).unwrap();
        let state = WindowState { index: 10, current: 5, previous: 7 };
        // At 10.4 s: how long ago it was taken, how much, and what is then counted.
        for (age_ms, tokens, current, previous) in [
            (0, 2, 3, 7),
            (400, 9, 0, 7),
            (401, 2, 5, 5),
            (1_400, 2, 5, 5),
            (1_401, 2, 5, 7),
            (u64::MAX, 2, 5, 7),
        ] {
            let expected = WindowState { index: 10, current, previous };
            assert_eq!(window.give_back(state, 10_400, tokens, age_ms), expected, "{age_ms}");
        }
    }

    #[test]
    fn any_state_and_any_time_do() {
        for amount in [1, 1_000] {
            let window = SlidingWindow::new(amount, 1_000).unwrap();
            let fixed = FixedWindow::new(amount, 1_000).unwrap();
            for index in [0, 1, u64::MAX] {
                for now_ms in [0, T0, u64::MAX] {
                    let state = WindowState { index, current: u32::MAX, previous: u32::MAX };
                    assert!(!window.take(state, now_ms, u32::MAX).1.allowed);
                    assert!(!fixed.take(state, now_ms, u32::MAX).1.allowed);
                    let _ = window.give_back(state, now_ms, u32::MAX, u64::MAX);
                }
            }
        }
    }
}
