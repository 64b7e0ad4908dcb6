//! The generic cell rate algorithm: a limit whose whole state is one point in time.
//!
//! ITU-T I.371 describes it. What is kept is the *theoretical arrival time*, the time at which a
//! client that keeps to the rate would come next; a request passes while that is no more than the
//! burst away. It lets through what a [`TokenBucket`](crate::token_bucket::TokenBucket) lets
//! through and takes half the memory, but the time between two tokens is rounded up to whole
//! nanoseconds: where that matters (more than a million requests a second), take the bucket.
//!
//! # Laws
//!
//! 1. In any window of `t` nanoseconds at most `burst + t / interval_ns` tokens are handed out.
//! 2. A caller that was refused and waits `retry_after_ns` is served, if nobody else is faster; one
//!    that waits a nanosecond less is not.
//! 3. A clock that goes back hands out nothing. If it went back by more than
//!    [`BACKWARDS_TOLERANCE_NS`], it was set: the client owes the whole burst from then on.
//!
//! ```
//! use glacis_limits::gcra::Gcra;
//!
//! // Two requests a second on average, at most three at once.
//! let gcra = Gcra::new(3, 2, 1_000_000_000)?;
//! let (arrival, decision) = gcra.take(0, 1_700_000_000_000_000_000, 1);
//! assert!(decision.allowed);
//! assert_eq!(decision.remaining, 2);
//! assert_eq!(arrival, 1_700_000_000_500_000_000);
//! # Ok::<(), glacis_limits::token_bucket::BucketError>(())
//! ```

use crate::meter::{Decision, Meter};
use crate::token_bucket::{BACKWARDS_TOLERANCE_NS, BucketError};

/// The longest burst in time: 73 years. Beyond it sums with the time of day could wrap.
const BURST_NS_MAX: u64 = 1 << 61;

/// A limit's size and rate. The state is the theoretical arrival time in nanoseconds, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    burst: u32,
    /// The time between two tokens, rounded up.
    interval_ns: u64,
    /// `burst * interval_ns`, which [`Gcra::new`] has checked.
    burst_ns: u64,
}

impl Gcra {
    /// A limit of `burst` tokens at once that gains `tokens` every `period_ns` nanoseconds.
    ///
    /// # Errors
    ///
    /// If one of the three is zero, or if it takes more than 73 years to gain the burst.
    pub const fn new(burst: u32, tokens: u32, period_ns: u64) -> Result<Self, BucketError> {
        if burst == 0 {
            return Err(BucketError::BurstZero);
        }
        if period_ns == 0 {
            return Err(BucketError::PeriodZero);
        }
        if tokens == 0 {
            return Err(BucketError::TokensZero);
        }
        let interval_ns = period_ns.div_ceil(tokens as u64);
        let burst_ns = interval_ns.saturating_mul(burst as u64);
        if burst_ns > BURST_NS_MAX {
            let burst_max = (BURST_NS_MAX / interval_ns) as u32;
            return Err(BucketError::BurstTooLarge { burst_max });
        }
        Ok(Self { burst, interval_ns, burst_ns })
    }

    /// The most tokens at once.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The time between two tokens, rounded up.
    #[must_use]
    pub const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Takes `cost` tokens if they are there at `now_ns`, and says how the client stands.
    #[must_use]
    pub fn take(&self, arrival_ns: u64, now_ns: u64, cost: u32) -> (u64, Decision) {
        let arrival_ns = self.settled(arrival_ns, now_ns);
        let owed_ns = u128::from(arrival_ns - now_ns);
        let wanted_ns = owed_ns + u128::from(cost) * u128::from(self.interval_ns);
        let missing_ns = wanted_ns.saturating_sub(u128::from(self.burst_ns));
        let allowed = cost == 0 || missing_ns == 0;
        let owed_ns = if allowed { wanted_ns } else { owed_ns };
        let left_ns = u128::from(self.burst_ns).saturating_sub(owed_ns);
        let retry_after_ns = match (allowed, cost > self.burst) {
            (true, _) => 0,
            (false, true) => u64::MAX,
            (false, false) => saturated(missing_ns),
        };
        let decision = Decision {
            allowed,
            remaining: u32::try_from(left_ns / u128::from(self.interval_ns)).unwrap_or(self.burst),
            retry_after_ns,
            reset_ns: saturated(owed_ns),
        };
        (now_ns.saturating_add(saturated(owed_ns)), decision)
    }

    /// Tokens that were taken and not used are there again; never more than the burst.
    #[must_use]
    pub fn give_back(&self, arrival_ns: u64, now_ns: u64, tokens: u32) -> u64 {
        let given_ns = u64::from(tokens).saturating_mul(self.interval_ns);
        self.settled(arrival_ns, now_ns).saturating_sub(given_ns).max(now_ns)
    }
}

impl Meter for Gcra {
    type State = u64;

    const FULL: u64 = 0;
    const STATE_BYTES: usize = 8;

    fn settled(&self, arrival_ns: u64, now_ns: u64) -> u64 {
        // No clock that only jitters leaves more than the burst and the jitter to wait for.
        let most_ns = self.burst_ns + BACKWARDS_TOLERANCE_NS;
        match arrival_ns.saturating_sub(now_ns) > most_ns {
            true => now_ns.saturating_add(self.burst_ns),
            false => arrival_ns.max(now_ns),
        }
    }

    fn debt(&self, arrival_ns: u64, now_ns: u64) -> u64 {
        arrival_ns.saturating_sub(now_ns)
    }

    fn take(&self, arrival_ns: u64, now_ns: u64, cost: u32) -> (u64, Decision) {
        Self::take(self, arrival_ns, now_ns, cost)
    }

    fn units_per_token(&self) -> u64 {
        self.interval_ns
    }

    fn rescaled(&self, arrival_ns: u64, from_units_per_token: u64, now_ns: u64) -> u64 {
        if from_units_per_token == self.interval_ns || from_units_per_token == 0 {
            return arrival_ns;
        }
        let owed_ns = u128::from(arrival_ns.saturating_sub(now_ns)) * u128::from(self.interval_ns);
        // More than the burst is no debt of this limit.
        let owed_ns = saturated(owed_ns.div_ceil(u128::from(from_units_per_token)));
        now_ns.saturating_add(owed_ns.min(self.burst_ns))
    }

    fn write(arrival_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&arrival_ns.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_bucket::{BucketState, TokenBucket};
    use crate::xorshift::Xorshift;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;

    #[test]
    fn new_refuses_what_cannot_work() {
        let rows = [
            ((0, 1, 1), Err(BucketError::BurstZero)),
            ((1, 0, 1), Err(BucketError::TokensZero)),
            ((1, 1, 0), Err(BucketError::PeriodZero)),
            ((u32::MAX, 1_000, SECOND_NS), Ok(())),
            ((1, 1, BURST_NS_MAX), Ok(())),
            ((2, 1, BURST_NS_MAX), Err(BucketError::BurstTooLarge { burst_max: 1 })),
        ];
        for ((burst, tokens, period_ns), expected) in rows {
            let result = Gcra::new(burst, tokens, period_ns).map(|_| ());
            assert_eq!(result, expected, "{burst} {tokens}/{period_ns}");
        }
    }

    /// Where no rounding is needed, it is the token bucket in another form.
    #[test]
    fn agrees_with_the_bucket() {
        for seed in 1..=300 {
            let mut random = Xorshift::new(seed);
            let burst = 1 + u32::try_from(random.below(20)).unwrap();
            let (tokens, period_ns) =
                [(1, 7), (2, 1_000), (5, SECOND_NS)][usize::try_from(random.below(3)).unwrap()];
            let gcra = Gcra::new(burst, tokens, period_ns).unwrap();
            assert_eq!(gcra.burst(), burst);
            let bucket = TokenBucket::new(burst, tokens, period_ns).unwrap();
            let (mut arrival_ns, mut state, mut now_ns) = (0, BucketState::FULL, T0);
            for i in 0..300 {
                now_ns += random.below(2 * period_ns / u64::from(tokens));
                let cost = u32::try_from(random.below(4)).unwrap();
                let ours = gcra.take(arrival_ns, now_ns, cost);
                let theirs = bucket.take(state, now_ns, cost);
                assert_eq!(ours.1, theirs.1, "seed {seed}, step {i}, cost {cost}");
                (arrival_ns, state) = (ours.0, theirs.0);
                let mut written = Vec::new();
                Gcra::write(arrival_ns, &mut written);
                assert_eq!(written.len(), Gcra::STATE_BYTES);
                assert_eq!(Gcra::read(&written), Some(arrival_ns));
            }
        }
    }

    #[test]
    fn rates_are_rounded_against_the_client() {
        let gcra = Gcra::new(1, 3, SECOND_NS).unwrap();
        assert_eq!((gcra.burst(), gcra.interval_ns()), (1, 333_333_334));
        let (arrival_ns, _) = gcra.take(0, T0, 1);
        assert_eq!(gcra.take(arrival_ns, T0, 1).1.retry_after_ns, 333_333_334);
        assert!(!gcra.take(arrival_ns, T0 + 333_333_333, 1).1.allowed);
        assert!(gcra.take(arrival_ns, T0 + 333_333_334, 1).1.allowed);
    }

    #[test]
    fn clock_going_backwards() {
        let gcra = Gcra::new(2, 1, SECOND_NS).unwrap();
        let (arrival_ns, _) = gcra.take(0, T0, 2);
        // Back within the tolerance: nothing is gained, and the wait is that much longer.
        let (same_ns, decision) = gcra.take(arrival_ns, T0 - SECOND_NS, 1);
        assert_eq!((same_ns, decision.allowed), (arrival_ns, false));
        assert_eq!(decision.retry_after_ns, 2 * SECOND_NS);
        let (_, look) = gcra.take(arrival_ns, T0 - SECOND_NS, 0);
        assert_eq!((look.allowed, look.retry_after_ns, look.reset_ns), (true, 0, 3 * SECOND_NS));
        // The tolerance to the nanosecond.
        let most_ns = T0 + 2 * SECOND_NS + BACKWARDS_TOLERANCE_NS;
        assert_eq!(gcra.settled(most_ns, T0), most_ns);
        assert_eq!(gcra.settled(most_ns + 1, T0), T0 + 2 * SECOND_NS);
        // Set back by a day: the burst is owed, and no more.
        let day_before_ns = T0 - 86_400 * SECOND_NS;
        let (arrival_ns, decision) = gcra.take(arrival_ns, day_before_ns, 1);
        assert_eq!((decision.allowed, decision.retry_after_ns), (false, SECOND_NS));
        assert!(gcra.take(arrival_ns, day_before_ns + SECOND_NS, 1).1.allowed);
        // The ends of time do not overflow, and any number is a state.
        for (state, now_ns) in [(u64::MAX, 0), (u64::MAX, u64::MAX), (0, u64::MAX), (0, 0)] {
            let (next, decision) = gcra.take(state, now_ns, u32::MAX);
            assert!(next >= now_ns && !decision.allowed);
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let gcra = Gcra::new(5, 1, SECOND_NS).unwrap();
        let (arrival_ns, _) = gcra.take(0, T0, 5);
        for (tokens, remaining) in [(0, 0), (2, 2), (5, 5), (9, 5), (u32::MAX, 5)] {
            let given_ns = gcra.give_back(arrival_ns, T0, tokens);
            assert!(given_ns >= T0, "nothing is saved up");
            assert_eq!(gcra.take(given_ns, T0, 0).1.remaining, remaining, "{tokens}");
        }
    }

    #[test]
    fn rescaled_keeps_the_tokens_owed() {
        let old = Gcra::new(10, 2, SECOND_NS).unwrap();
        let (arrival_ns, _) = old.take(0, T0, 4);
        for (new, remaining) in [
            (Gcra::new(10, 8, SECOND_NS).unwrap(), 6),
            (Gcra::new(20, 1, SECOND_NS).unwrap(), 16),
            (Gcra::new(3, 2, SECOND_NS).unwrap(), 0),
        ] {
            let moved = new.rescaled(arrival_ns, old.units_per_token(), T0);
            assert_eq!(new.take(moved, T0, 0).1.remaining, remaining, "{new:?}");
        }
        assert_eq!(old.rescaled(7, 0, T0), 7);
        assert_eq!(old.rescaled(7, old.units_per_token(), T0), 7);
        // More than the burst is not owed, and a part of a nanosecond is.
        let small = Gcra::new(3, 1, SECOND_NS).unwrap();
        let moved = small.rescaled(arrival_ns, old.units_per_token(), T0);
        assert_eq!(small.take(moved, T0, 1).1.retry_after_ns, SECOND_NS);
        let fast = Gcra::new(10, 1, 2).unwrap();
        assert_eq!(fast.debt(fast.rescaled(T0 + 1, 3, T0), T0), 1);
        assert_eq!(fast.debt(T0 - 1, T0), 0);
    }
}
