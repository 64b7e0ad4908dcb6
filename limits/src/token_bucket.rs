//! A token bucket whose arithmetic is exact.
//!
//! A bucket holds up to `burst` tokens and gains `tokens` every `period_ns`, evenly. The rate is a
//! fraction, and no fraction is ever rounded: what is kept is the *debt* (what is missing from a
//! full bucket), counted in units of which a token has `units_per_token` and a nanosecond repays
//! `units_per_ns`, both whole numbers because they are the period and the token count with their
//! common divisor taken out. So three tokens a second stay three tokens a second for ever.
//!
//! # Laws
//!
//! 1. In any window of `t` nanoseconds at most `burst + tokens * t / period_ns` tokens are handed
//!    out, rounded down.
//! 2. A caller that was refused and waits `retry_after_ns` is served, if nobody else takes the
//!    tokens first; one that waits a nanosecond less is not.
//! 3. A clock that goes backwards hands out nothing. If it goes back by at most
//!    [`BACKWARDS_TOLERANCE_NS`] the bucket waits until the clock has caught up; if by more, the
//!    clock was set, and the bucket goes on from the new time with the debt it had.
//!
//! This is not the place for a sliding-window or a concurrency limit: a bucket knows no single
//! request, only how much is owed.

use crate::meter::Meter;
use std::fmt;

pub use crate::meter::Decision;

/// How far the clock may go back before the bucket believes that it was set: 10 s.
///
/// Threads of one process read the same clock within microseconds of each other, so small steps
/// back are ordinary and must not count the same nanoseconds twice. Larger ones are corrections of
/// the clock, and waiting for it to catch up would lock clients out for as long.
pub const BACKWARDS_TOLERANCE_NS: u64 = 10_000_000_000;

/// A bucket's size and rate. A small plain value; the state is [`BucketState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    burst: u32,
    /// Units in a token: the period in nanoseconds, divided by the common divisor.
    units_per_token: u64,
    /// Units repaid in a nanosecond: tokens a period, divided by the common divisor.
    units_per_ns: u64,
    /// `burst * units_per_token`, which [`TokenBucket::new`] has checked to fit.
    units_max: u64,
}

/// Where a bucket stands: what is owed, and since when.
///
/// Its byte form ([`BucketState::to_bytes`]) is small and fixed, so that it can live in a store
/// with compare-and-swap. Any sixteen bytes are a valid state: a debt above the capacity of the
/// bucket that reads it is taken as that capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BucketState {
    /// What is missing from a full bucket, in the units of the bucket.
    debt_units: u64,
    /// When the debt was last worked out.
    updated_ns: u64,
}

/// Why a bucket cannot be made. The operator who wrote the numbers is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketError {
    /// The burst is zero: nothing would ever be allowed.
    BurstZero,
    /// The period is zero nanoseconds.
    PeriodZero,
    /// No tokens are gained: after the burst nothing would ever be allowed.
    TokensZero,
    /// The burst does not fit the exact arithmetic at this rate.
    BurstTooLarge {
        /// The largest burst that does.
        burst_max: u32,
    },
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstZero => {
                f.write_str("the burst is 0, which allows nothing; write at least 1")
            }
            Self::PeriodZero => f.write_str("the period is 0; write a period above 0"),
            Self::TokensZero => {
                f.write_str("the rate is 0, which allows nothing after the burst; write at least 1")
            }
            Self::BurstTooLarge { burst_max } => write!(
                f,
                "the burst is too large for this rate; write at most {burst_max}, or a rate and a \
                 period that have a common divisor"
            ),
        }
    }
}

impl std::error::Error for BucketError {}

impl TokenBucket {
    /// A bucket of `burst` tokens that gains `tokens` every `period_ns` nanoseconds.
    ///
    /// # Errors
    ///
    /// If one of the three is zero, or if `burst * period_ns / gcd(tokens, period_ns)` is above
    /// [`u64::MAX`]. With a period of a day that is a burst above 213 503 in the worst case.
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
        let divisor = gcd(tokens as u64, period_ns);
        let units_per_token = period_ns / divisor;
        let Some(units_max) = units_per_token.checked_mul(burst as u64) else {
            let burst_max = (u64::MAX / units_per_token) as u32;
            return Err(BucketError::BurstTooLarge { burst_max });
        };
        Ok(Self { burst, units_per_token, units_per_ns: tokens as u64 / divisor, units_max })
    }

    /// The most tokens it holds.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// How many units a token has; see [`BucketState::rescaled`].
    #[must_use]
    pub const fn units_per_token(&self) -> u64 {
        self.units_per_token
    }

    /// Takes `cost` tokens if they are there at `now_ns`, and says how the bucket stands.
    ///
    /// The new state is worth storing whether or not the tokens were there. A refused attempt
    /// costs nothing. A cost of 0 only looks.
    #[must_use]
    pub fn take(&self, state: BucketState, now_ns: u64, cost: u32) -> (BucketState, Decision) {
        let mut state = self.settle(state, now_ns);
        let free_units = self.units_max - state.debt_units;
        let cost_units = u128::from(cost) * u128::from(self.units_per_token);
        let missing_units = cost_units.saturating_sub(u128::from(free_units));
        let allowed = missing_units == 0;
        if allowed {
            // The cost is at most the free units here, so neither step can wrap.
            state.debt_units += saturated(cost_units);
        }
        let remaining = (self.units_max - state.debt_units) / self.units_per_token;
        // Behind a clock that went back, nothing is gained until it has caught up.
        let lag_ns = state.updated_ns.saturating_sub(now_ns);
        let retry_after_ns = match cost > self.burst {
            true => u64::MAX,
            false => self.repaid_after_ns(missing_units, lag_ns),
        };
        let decision = Decision {
            allowed,
            remaining: u32::try_from(remaining).unwrap_or(self.burst),
            retry_after_ns,
            reset_ns: self.repaid_after_ns(u128::from(state.debt_units), lag_ns),
        };
        (state, decision)
    }

    /// The state as it stands at `now_ns`: what has been gained since is added.
    #[must_use]
    pub fn settle(&self, state: BucketState, now_ns: u64) -> BucketState {
        let debt_units = state.debt_units.min(self.units_max);
        if now_ns >= state.updated_ns {
            let repaid_units = (now_ns - state.updated_ns).saturating_mul(self.units_per_ns);
            let debt_units = debt_units.saturating_sub(repaid_units);
            return BucketState { debt_units, updated_ns: now_ns };
        }
        let was_set = state.updated_ns - now_ns > BACKWARDS_TOLERANCE_NS;
        let updated_ns = if was_set { now_ns } else { state.updated_ns };
        BucketState { debt_units, updated_ns }
    }

    fn repaid_after_ns(&self, units: u128, lag_ns: u64) -> u64 {
        match units {
            0 => 0,
            _ => saturated(units.div_ceil(u128::from(self.units_per_ns))).saturating_add(lag_ns),
        }
    }
}

impl BucketState {
    /// A full bucket, from which nothing has been taken yet.
    pub const FULL: Self = Self { debt_units: 0, updated_ns: 0 };

    /// The length of the byte form.
    pub const BYTES: usize = 16;

    /// The byte form: debt, then time, each little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let both = u128::from(self.debt_units) | u128::from(self.updated_ns) << 64;
        both.to_le_bytes()
    }

    /// Reads the byte form. `None` if there are not exactly [`BucketState::BYTES`] bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let both = u128::from_le_bytes(bytes.try_into().ok()?);
        Some(Self { debt_units: low_half(both), updated_ns: low_half(both >> 64) })
    }

    /// The same number of tokens owed, for a bucket whose token has another number of units.
    ///
    /// So the numbers of a limit can be changed while it is in use without forgetting who owes
    /// what. A fraction of a unit is rounded against the client. A `from` of zero, which no bucket
    /// has, gives [`BucketState::FULL`]'s debt.
    #[must_use]
    pub fn rescaled(self, from_units_per_token: u64, to_units_per_token: u64) -> Self {
        if from_units_per_token == to_units_per_token {
            return self;
        }
        let scaled = u128::from(self.debt_units) * u128::from(to_units_per_token);
        let debt_units = match from_units_per_token {
            0 => 0,
            from => saturated(scaled.div_ceil(u128::from(from))),
        };
        Self { debt_units, ..self }
    }
}

impl Meter for TokenBucket {
    type State = BucketState;

    const FULL: BucketState = BucketState::FULL;
    const STATE_BYTES: usize = BucketState::BYTES;

    fn settled(&self, state: BucketState, now_ns: u64) -> BucketState {
        self.settle(state, now_ns)
    }

    fn debt(&self, state: BucketState, _now_ns: u64) -> u64 {
        state.debt_units
    }

    fn take(&self, state: BucketState, now_ns: u64, cost: u32) -> (BucketState, Decision) {
        Self::take(self, state, now_ns, cost)
    }

    fn units_per_token(&self) -> u64 {
        self.units_per_token
    }

    fn rescaled(&self, state: BucketState, from: u64, _now_ns: u64) -> BucketState {
        state.rescaled(from, self.units_per_token)
    }

    fn write(state: BucketState, out: &mut Vec<u8>) {
        out.extend_from_slice(&state.to_bytes());
    }

    fn read(bytes: &[u8]) -> Option<BucketState> {
        BucketState::from_bytes(bytes)
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn low_half(value: u128) -> u64 {
    // The mask makes the conversion exact, so the fallback is never taken.
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;

    #[test]
    fn new_refuses_what_cannot_work() {
        let rows = [
            ((0, 1, 1), Err(BucketError::BurstZero)),
            ((1, 0, 1), Err(BucketError::TokensZero)),
            ((1, 1, 0), Err(BucketError::PeriodZero)),
            ((1, 1, u64::MAX), Ok(())),
            ((2, 1, u64::MAX), Err(BucketError::BurstTooLarge { burst_max: 1 })),
            // The worst case that the documentation names: a day, and a rate coprime to it.
            ((213_503, 1_000_003, 86_400 * SECOND_NS), Ok(())),
            (
                (213_504, 1_000_003, 86_400 * SECOND_NS),
                Err(BucketError::BurstTooLarge { burst_max: 213_503 }),
            ),
            // A common divisor makes room.
            ((213_504, 1_000_000, 86_400 * SECOND_NS), Ok(())),
            ((u32::MAX, 1_000, SECOND_NS), Ok(())),
        ];
        for ((burst, tokens, period_ns), expected) in rows {
            let result = TokenBucket::new(burst, tokens, period_ns).map(|_| ());
            assert_eq!(result, expected, "{burst} {tokens}/{period_ns}");
        }
        for (error, expected) in [
            (BucketError::BurstZero, "the burst is 0"),
            (BucketError::PeriodZero, "the period is 0"),
            (BucketError::TokensZero, "the rate is 0"),
            (BucketError::BurstTooLarge { burst_max: 7 }, "write at most 7, or"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    /// One step of a story: when, at what cost, and what the bucket says.
    struct Step {
        at_ns: u64,
        cost: u32,
        allowed: bool,
        remaining: u32,
        retry_after_ns: u64,
        reset_ns: u64,
    }

    #[track_caller]
    fn check(bucket: (u32, u32, u64), steps: &[Step]) {
        let bucket = TokenBucket::new(bucket.0, bucket.1, bucket.2).unwrap();
        let mut state = BucketState::FULL;
        for (i, step) in steps.iter().enumerate() {
            let (next, decision) = bucket.take(state, step.at_ns, step.cost);
            let expected = Decision {
                allowed: step.allowed,
                remaining: step.remaining,
                retry_after_ns: step.retry_after_ns,
                reset_ns: step.reset_ns,
            };
            assert_eq!(decision, expected, "step {i}");
            // A state must survive the store it lives in.
            state = BucketState::from_bytes(&next.to_bytes()).unwrap();
            assert_eq!(state, next);
        }
    }

    fn step(at_ns: u64, cost: u32, verdict: (bool, u32, u64, u64)) -> Step {
        let (allowed, remaining, retry_after_ns, reset_ns) = verdict;
        Step { at_ns, cost, allowed, remaining, retry_after_ns, reset_ns }
    }

    #[test]
    fn burst_then_rate() {
        let third = 333_333_334;
        check(
            (2, 3, SECOND_NS),
            &[
                step(T0, 1, (true, 1, 0, third)),
                step(T0, 1, (true, 0, 0, 666_666_667)),
                step(T0, 1, (false, 0, third, 666_666_667)),
                // A refusal costs nothing: the wait has not grown.
                step(T0 + third - 1, 1, (false, 0, 1, third)),
                step(T0 + third, 1, (true, 0, 0, 666_666_666)),
                step(T0 + 3 * SECOND_NS, 0, (true, 2, 0, 0)),
                step(u64::MAX, 2, (true, 0, 0, 666_666_667)),
            ],
        );
    }

    #[test]
    fn costs() {
        check(
            (10, 1, SECOND_NS),
            &[
                step(T0, 11, (false, 10, u64::MAX, 0)),
                step(T0, u32::MAX, (false, 10, u64::MAX, 0)),
                step(T0, 10, (true, 0, 0, 10 * SECOND_NS)),
                step(T0, 0, (true, 0, 0, 10 * SECOND_NS)),
                step(T0, 4, (false, 0, 4 * SECOND_NS, 10 * SECOND_NS)),
                step(T0, 10, (false, 0, 10 * SECOND_NS, 10 * SECOND_NS)),
                step(T0 + 4 * SECOND_NS, 4, (true, 0, 0, 10 * SECOND_NS)),
            ],
        );
    }

    #[test]
    fn clock_going_backwards() {
        let edge = T0 + 5 - BACKWARDS_TOLERANCE_NS;
        let far = edge - 1;
        let caught_up = BACKWARDS_TOLERANCE_NS + SECOND_NS - 5;
        check(
            (1, 1, SECOND_NS),
            &[
                step(T0, 1, (true, 0, 0, SECOND_NS)),
                // A small step back waits for the clock to catch up, and counts nothing twice.
                step(T0 - 5, 1, (false, 0, SECOND_NS + 5, SECOND_NS + 5)),
                step(T0 + 5, 1, (false, 0, SECOND_NS - 5, SECOND_NS - 5)),
                step(edge, 1, (false, 0, caught_up, caught_up)),
                // A large one is the clock being set: the debt stays, time goes on from there.
                step(far, 1, (false, 0, SECOND_NS - 5, SECOND_NS - 5)),
                step(far + SECOND_NS - 5, 1, (true, 0, 0, SECOND_NS)),
                // The ends of time do not overflow.
                step(u64::MAX, 1, (true, 0, 0, SECOND_NS)),
                step(0, 1, (false, 0, SECOND_NS, SECOND_NS)),
            ],
        );
    }

    #[test]
    fn any_bytes_are_a_state() {
        let bucket = TokenBucket::new(7, 5, SECOND_NS).unwrap();
        let (state, decision) =
            bucket.take(BucketState::from_bytes(&[0xFF; 16]).unwrap(), u64::MAX, 1);
        assert!(!decision.allowed);
        assert_eq!(decision.remaining, 0);
        assert!(state.debt_units <= bucket.units_max);
        for length in [0, 15, 17] {
            assert_eq!(BucketState::from_bytes(&vec![0; length]), None);
        }
    }

    #[test]
    fn rescaled_keeps_the_tokens_owed() {
        let old = TokenBucket::new(10, 3, SECOND_NS).unwrap();
        let rows = [
            (TokenBucket::new(10, 7, SECOND_NS).unwrap(), 6),
            // A token has an eighth of the units.
            (TokenBucket::new(10, 8, SECOND_NS).unwrap(), 6),
            (TokenBucket::new(20, 1, SECOND_NS).unwrap(), 16),
            // Smaller than what is owed: empty, not below.
            (TokenBucket::new(3, 3, SECOND_NS).unwrap(), 0),
        ];
        let (state, _) = old.take(BucketState::FULL, T0, 4);
        for (new, remaining) in rows {
            let moved = state.rescaled(old.units_per_token(), new.units_per_token());
            assert_eq!(new.take(moved, T0, 0).1.remaining, remaining, "{new:?}");
            // A table sees the same.
            let units = Meter::units_per_token(&old);
            assert_eq!(Meter::rescaled(&new, state, units, T0), moved);
            assert_eq!(new.debt(moved, T0), moved.debt_units);
        }
        assert_eq!(state.rescaled(0, 5).debt_units, 0);
        let third = BucketState { debt_units: 1, updated_ns: 0 };
        assert_eq!(third.rescaled(3, 2).debt_units, 1, "rounded against the client");
    }

    fn arbitrary_bucket(random: &mut Xorshift) -> (TokenBucket, u32, u64) {
        let burst = 1 + u32::try_from(random.below(50)).unwrap();
        let tokens = 1 + u32::try_from(random.below(1_000)).unwrap();
        let period_ns = 1 + random.below(60 * SECOND_NS);
        (TokenBucket::new(burst, tokens, period_ns).unwrap(), tokens, period_ns)
    }

    /// Law 1, over every window that begins and ends with a grant, with a clock that also jitters
    /// backwards within the tolerance.
    #[test]
    fn never_more_than_burst_and_rate() {
        for seed in 1..=200 {
            let mut random = Xorshift::new(seed);
            let (bucket, tokens, period_ns) = arbitrary_bucket(&mut random);
            let step_ns = 1 + 2 * period_ns / u64::from(tokens);
            let (mut state, mut now_ns) = (BucketState::FULL, T0);
            let mut granted: Vec<(u64, u64)> = Vec::new();
            for _ in 0..300 {
                now_ns += random.below(step_ns);
                let jitter_ns = random.below(1_000).min(now_ns - T0);
                let cost = u32::try_from(random.below(3)).unwrap();
                let (next, decision) = bucket.take(state, now_ns - jitter_ns, cost);
                state = next;
                if decision.allowed {
                    granted.push((now_ns, u64::from(cost)));
                }
            }
            assert!(granted.len() > 30, "seed {seed}: the test has to grant something");
            for start in 0..granted.len() {
                let mut sum = 0u64;
                for (at_ns, cost) in &granted[start..] {
                    sum += cost;
                    // The bucket may have been settled up to the jitter earlier than `start`.
                    let window_ns = u128::from(at_ns - granted[start].0) + 1_000;
                    let gained = window_ns * u128::from(tokens) / u128::from(period_ns);
                    let most = u128::from(bucket.burst()) + gained;
                    assert!(u128::from(sum) <= most, "seed {seed}: {sum} > {most}");
                }
            }
        }
    }

    /// Law 2: the promised wait is enough, and is not longer than needed.
    #[test]
    fn retry_after_is_exact() {
        let mut refused = 0;
        for seed in 1..=2_000 {
            let mut random = Xorshift::new(seed);
            let (bucket, _, _) = arbitrary_bucket(&mut random);
            let (state, _) = bucket.take(BucketState::FULL, T0, bucket.burst());
            let now_ns = T0 + random.below(SECOND_NS);
            let cost = 1 + u32::try_from(random.below(u64::from(bucket.burst()))).unwrap();
            let (state, decision) = bucket.take(state, now_ns, cost);
            if decision.allowed {
                continue;
            }
            refused += 1;
            let at_ns = now_ns + decision.retry_after_ns;
            assert!(bucket.take(state, at_ns, cost).1.allowed, "seed {seed}");
            assert!(!bucket.take(state, at_ns - 1, cost).1.allowed, "seed {seed}");
        }
        assert!(refused > 500, "{refused}");
    }

    /// No drift: a client that asks all the time gets the rate exactly, over a long time.
    #[test]
    fn the_rate_is_exact_in_the_long_run() {
        for (tokens, period_ns, step_ns) in
            [(3u32, SECOND_NS, 7), (7, 3 * SECOND_NS, 1_009), (999_983, 60 * SECOND_NS, 13)]
        {
            let bucket = TokenBucket::new(1, tokens, period_ns).unwrap();
            let (mut state, _) = bucket.take(BucketState::FULL, T0, 1);
            let mut now_ns = T0;
            let mut granted = 0u64;
            while granted < 10_000 {
                let wait_ns = bucket.take(state, now_ns, 1).1.retry_after_ns;
                // Looking often in between must change nothing.
                let look_ns = step_ns.min(wait_ns / 2);
                state = bucket.settle(state, now_ns + look_ns);
                now_ns += wait_ns;
                let (next, decision) = bucket.take(state, now_ns, 1);
                assert!(decision.allowed, "{tokens}/{period_ns}");
                state = next;
                granted += 1;
            }
            // A burst of one cannot save up, so each grant loses less than a nanosecond.
            let ideal_ns = u128::from(granted) * u128::from(period_ns) / u128::from(tokens);
            let actual_ns = u128::from(now_ns - T0);
            assert!(actual_ns >= ideal_ns, "faster than the rate");
            assert!(actual_ns - ideal_ns <= u128::from(granted), "{}", actual_ns - ideal_ns);
        }
    }

    /// Never starved: whatever others take, a client that retries is served at the rate.
    #[test]
    fn never_starved() {
        for seed in 1..=200 {
            let mut random = Xorshift::new(seed);
            let (bucket, tokens, period_ns) = arbitrary_bucket(&mut random);
            let token_ns = period_ns / u64::from(tokens) + 1;
            let (mut state, mut granted) = (BucketState::FULL, 0u64);
            for i in 0..100 {
                let (next, decision) = bucket.take(state, T0 + i * token_ns, 1);
                state = next;
                granted += u64::from(decision.allowed);
            }
            assert_eq!(granted, 100, "seed {seed}: at the rate, nothing is refused");
        }
    }
}
