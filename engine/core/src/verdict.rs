//! What becomes of a transaction.

use crate::id::{Phase, RuleId};

/// The decision over a transaction.
///
/// ```
/// use glacis_engine::{Phase, Refusal, RuleId, Verdict};
///
/// /// What a host does.
/// fn answer(verdict: &Verdict) -> String {
///     match verdict {
///         Verdict::Allow => "goes on".to_owned(),
///         Verdict::Deny(refusal) => format!("answers {}", refusal.status),
///         Verdict::Redirect { refusal, location } => {
///             format!("answers {} with location: {location}", refusal.status)
///         }
///         Verdict::Drop(_) => "closes the connection".to_owned(),
///     }
/// }
///
/// let refusal = Refusal { status: 302, rule: Some(RuleId(1)), phase: Phase::RequestHeaders };
/// let verdict = Verdict::Redirect { refusal, location: "/sorry".to_owned() };
/// assert_eq!(answer(&verdict), "answers 302 with location: /sorry");
/// // Where it does not matter how it is refused, such as in logs:
/// assert_eq!(verdict.refusal().and_then(|refusal| refusal.rule), Some(RuleId(1)));
/// ```
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
