//! What becomes of a transaction.

use crate::id::{Phase, RuleId};

/// The decision over a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing objects, or nothing has the right to.
    #[default]
    Allow,
    /// Answer with `status`.
    Deny(Refusal),
    /// Answer with a redirection to `location`.
    Redirect {
        /// Status, rule and phase.
        refusal: Refusal,
        /// The value for the `location` header.
        location: String,
    },
    /// Close the connection; where that is not possible, answer with `status`.
    Drop(Refusal),
}

/// Who refused a transaction, and how it should be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status to answer with.
    pub status: u16,
    /// The rule that refused; `None` when a limit did (`SecRequestBodyLimitAction Reject`).
    pub rule: Option<RuleId>,
    /// The phase in which it did.
    pub phase: Phase,
}

impl Verdict {
    /// The refusal, if the transaction is refused in any way.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Allow => None,
            Self::Deny(refusal) | Self::Drop(refusal) | Self::Redirect { refusal, .. } => {
                Some(refusal)
            }
        }
    }

    /// `allow`, `deny`, `redirect` or `drop`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny(_) => "deny",
            Self::Redirect { .. } => "redirect",
            Self::Drop(_) => "drop",
        }
    }
}
