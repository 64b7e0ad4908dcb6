//! Leases: a limit that many proxies share, without a round trip for each request.
//!
//! A *lender* keeps the truth of a limit (in Redis, say). A *borrower*, one process of Envoy, asks
//! it for tokens of a key before it needs them, and spends them by itself. Neither side here does
//! any I/O: the borrower is [`borrower`] with its fixed table [`set`] and its list of what to ask
//! for [`desk`], the lender is [`lender`], and `wire` (feature `lease-wire`) what they say to each
//! other.
//!
//! # How
//!
//! 1. A key that is seen for the first time spends from a small allowance of its own, the
//!    *unleased* tokens: so many in a window, in each process. Most keys never need more, and cost
//!    the lender nothing.
//! 2. Once half of that is gone the key is hot. The borrower asks for what the key would use in one
//!    lifetime of a lease at its present rate, and says what was spent without a lease: the lender
//!    collects that from the limit afterwards.
//! 3. Tokens that are lent are taken from the limit at once. They are spent, given back, or they
//!    expire; what expires counts as spent.
//! 4. Long before a lease is empty, and before it expires, the borrower asks again.
//!
//! # The bound
//!
//! Tokens are spent at most one lifetime after they were taken from the limit, and all leases of a
//! key together never hold more than [`Terms::outstanding_max`] tokens: what the limit gains in one
//! lifetime, a tenth of the limit or less. So with `n` processes and `u` unleased tokens, in any
//! window of time the whole fleet lets through no more than
//!
//! ```text
//! what the limit allows in this time + outstanding_max + n * u
//! ```
//!
//! The last part is collected afterwards, so it does not add up from window to window for a key
//! that is hot. Several lenders on one store have each a sum of its own, since none knows what the
//! others have lent; one that was started again has forgotten what it had lent before, for one
//! lifetime.

pub mod borrower;
pub mod desk;
pub mod lender;
pub mod set;
#[cfg(test)]
mod simulation;
#[cfg(feature = "lease-wire")]
pub mod wire;

use std::fmt;

/// A lease lives at most so much of a window: a tenth.
pub const LIFETIMES_IN_A_WINDOW: u64 = 10;

/// The shortest lifetime, 10 ms: a shorter one would be over before the answer is there.
pub const LIFETIME_NS_MIN: u64 = 10_000_000;

/// What the clients of a limit are told apart by, as both sides know it: the first half of a
/// SHA-256, so that keys have one length and a stranger cannot make two that are the same.
pub type Key = [u8; 16];

/// What a borrower tells of one key when it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// How many tokens it would like to hold, for the next lifetime.
    pub want: u32,
    /// How many it still holds.
    pub left: u32,
    /// How many it gives back, which it does not hold any more.
    pub returned: u32,
    /// How many it has spent without a lease and not told yet.
    pub spent: u32,
}

/// What a lender says to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Tokens on top of those that are left.
    pub granted: u32,
    /// How long all of them may be spent, from when the borrower asked.
    pub lifetime_ns: u64,
    /// When to ask again, if nothing was granted.
    pub retry_after_ns: u64,
}

/// On what terms the tokens of a limit are lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    lifetime_ns: u64,
    outstanding_max: u32,
    tokens: u32,
    burst: u32,
    window_ns: u64,
}

/// Why tokens cannot be lent on such terms. The operator is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsError {
    /// A lease would live longer than a tenth of the window.
    LifetimeTooLong {
        /// The longest lifetime that does not.
        lifetime_ns_max: u64,
    },
    /// A tenth of the window, or the lifetime that is asked for, is below [`LIFETIME_NS_MIN`].
    LifetimeTooShort,
    /// A limit without tokens has nothing to lend.
    TokensZero,
}

impl fmt::Display for TermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LifetimeTooLong { lifetime_ns_max } => write!(
                f,
                "a lease may live a tenth of the window at most; write {} ms or less",
                lifetime_ns_max / 1_000_000
            ),
            Self::LifetimeTooShort => f.write_str(
                "a lease has to live 10 ms at least; write a longer lifetime, or a longer window",
            ),
            Self::TokensZero => f.write_str("the limit has no tokens to lend; write at least 1"),
        }
    }
}

impl std::error::Error for TermsError {}

impl Terms {
    /// The terms of a limit that gains `tokens` in each `window_ns`, with leases that live
    /// `lifetime_ns`: the longest that is allowed, if nothing is said.
    ///
    /// # Errors
    ///
    /// If there are no tokens, or if the lifetime is above a tenth of the window or below
    /// [`LIFETIME_NS_MIN`].
    pub fn new(tokens: u32, window_ns: u64, lifetime_ns: Option<u64>) -> Result<Self, TermsError> {
        let lifetime_ns_max = longest_lifetime_ns(window_ns);
        let lifetime_ns = lifetime_ns.unwrap_or(lifetime_ns_max);
        if tokens == 0 {
            return Err(TermsError::TokensZero);
        }
        if lifetime_ns < LIFETIME_NS_MIN {
            return Err(TermsError::LifetimeTooShort);
        }
        if lifetime_ns > lifetime_ns_max {
            return Err(TermsError::LifetimeTooLong { lifetime_ns_max });
        }
        let gained = u128::from(tokens) * u128::from(lifetime_ns) / u128::from(window_ns);
        let outstanding_max = u32::try_from(gained).unwrap_or(u32::MAX).max(1);
        Ok(Self { lifetime_ns, outstanding_max, tokens, burst: tokens, window_ns })
    }

    /// The same terms, of a limit that has no more than `burst` tokens at a time: those who borrow
    /// get an equal part of that at once, so that whoever asks first leaves something to the others.
    /// Without this a burst is all tokens of a window.
    #[must_use]
    pub const fn with_burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// How long a lease lives.
    #[must_use]
    pub const fn lifetime_ns(&self) -> u64 {
        self.lifetime_ns
    }

    /// The most tokens that all leases of a key together hold: what the limit gains in one
    /// lifetime, but at least one.
    #[must_use]
    pub const fn outstanding_max(&self) -> u32 {
        self.outstanding_max
    }
}

/// How long a lease of a limit may live at most.
#[must_use]
pub const fn longest_lifetime_ns(window_ns: u64) -> u64 {
    window_ns / LIFETIMES_IN_A_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn terms() {
        let rows = [
            ((600, 60 * SECOND_NS, None), Ok((6 * SECOND_NS, 60))),
            ((600, 60 * SECOND_NS, Some(SECOND_NS)), Ok((SECOND_NS, 10))),
            ((5, 60 * SECOND_NS, None), Ok((6 * SECOND_NS, 1))),
            ((u32::MAX, SECOND_NS, None), Ok((SECOND_NS / 10, u32::MAX / 10))),
            ((0, SECOND_NS, None), Err(TermsError::TokensZero)),
            ((1, SECOND_NS / 11, None), Err(TermsError::LifetimeTooShort)),
            ((1, SECOND_NS, Some(LIFETIME_NS_MIN - 1)), Err(TermsError::LifetimeTooShort)),
            ((1, SECOND_NS, Some(LIFETIME_NS_MIN)), Ok((LIFETIME_NS_MIN, 1))),
            ((100, SECOND_NS, Some(SECOND_NS / 10)), Ok((SECOND_NS / 10, 10))),
            (
                (1, SECOND_NS, Some(SECOND_NS / 10 + 1)),
                Err(TermsError::LifetimeTooLong { lifetime_ns_max: SECOND_NS / 10 }),
            ),
        ];
        for ((tokens, window_ns, lifetime_ns), expected) in rows {
            let terms = Terms::new(tokens, window_ns, lifetime_ns);
            let shown = terms.map(|terms| (terms.lifetime_ns(), terms.outstanding_max()));
            assert_eq!(shown, expected, "{tokens} in {window_ns}");
        }
        for (error, expected) in [
            (TermsError::TokensZero, "write at least 1"),
            (TermsError::LifetimeTooShort, "10 ms at least"),
            (TermsError::LifetimeTooLong { lifetime_ns_max: SECOND_NS / 10 }, "write 100 ms or"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
