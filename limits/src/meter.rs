//! What a table of limits needs of the arithmetic of one limit.
//!
//! [`TokenBucket`](crate::token_bucket::TokenBucket) and [`Gcra`](crate::gcra::Gcra) both have it,
//! so that a table is written once.

use std::fmt::Debug;

/// What [`Meter::take`] decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the tokens were there, and have been taken.
    pub allowed: bool,
    /// Whole tokens left after this decision.
    pub remaining: u32,
    /// Nanoseconds until the same cost would be allowed; 0 if it was allowed, [`u64::MAX`] if it
    /// is above the burst and so never will be.
    pub retry_after_ns: u64,
    /// Nanoseconds until the bucket is full again, if nothing else is taken.
    pub reset_ns: u64,
}

/// The arithmetic of a limit, whose state for one client is a small value of a fixed size.
pub trait Meter {
    /// Where one client stands.
    type State: Copy + Debug + PartialEq;

    /// The state of a client that was never seen.
    const FULL: Self::State;

    /// The length of the byte form of a state.
    const STATE_BYTES: usize;

    /// The state as it stands at `now_ns`: what has been gained since is added.
    fn settled(&self, state: Self::State, now_ns: u64) -> Self::State;

    /// What is missing at `now_ns`, in a unit of the meter's own; 0 says no more than no state.
    /// The state is one that [`Meter::settled`] gave for this very time.
    fn debt(&self, state: Self::State, now_ns: u64) -> u64;

    /// Takes `cost` tokens if they are there, and says how the client stands.
    fn take(&self, state: Self::State, now_ns: u64, cost: u32) -> (Self::State, Decision);

    /// How many units of debt a token has: what [`Meter::rescaled`] wants to know of the meter
    /// that wrote a state.
    fn units_per_token(&self) -> u64;

    /// The same number of tokens owed, of a state that a meter with another unit has written.
    fn rescaled(&self, state: Self::State, from_units_per_token: u64, now_ns: u64) -> Self::State;

    /// Appends the byte form, [`Meter::STATE_BYTES`] long.
    fn write(state: Self::State, out: &mut Vec<u8>);

    /// Reads the byte form; any bytes of the right length are a state.
    fn read(bytes: &[u8]) -> Option<Self::State>;
}
