//! Values of the labels `outcome` and `severity` of matches of rules.

use glacis_inspector::{Mode, OBSERVED, REJECT, Receipt};

/// The label `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pass,
    Block,
    /// Rules that log have matched, and rules may not block.
    Detect,
    Redirect,
    /// There is no verdict, or none of rules.
    Error,
}

impl Outcome {
    pub(crate) const ALL: [Self; 5] =
        [Self::Pass, Self::Block, Self::Detect, Self::Redirect, Self::Error];

    /// Those that a match of a rule can have.
    pub(crate) const RULE: [Self; 3] = [Self::Pass, Self::Block, Self::Detect];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Block => "block",
            Self::Detect => "detect",
            Self::Redirect => "redirect",
            Self::Error => "error",
        }
    }

    pub(crate) fn of(receipt: &Receipt<'_>) -> Self {
        match receipt.verdict {
            "allow" | OBSERVED
                if receipt.mode == Mode::DetectionOnly && !receipt.rules.is_empty() =>
            {
                Self::Detect
            }
            "allow" | OBSERVED => Self::Pass,
            "redirect" => Self::Redirect,
            "pending" | REJECT => Self::Error,
            _ => Self::Block,
        }
    }

    /// Its position in [`Self::RULE`]; a redirection is a refusal there, and an exchange without a verdict
    /// was not stopped by a rule.
    pub(crate) fn of_rule(self) -> Option<usize> {
        let outcome = match self {
            Self::Redirect => Self::Block,
            Self::Error => Self::Pass,
            outcome => outcome,
        };
        Self::RULE.iter().position(|known| *known == outcome)
    }
}

/// The label `severity`: the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Critical,
    Error,
    Warning,
    Notice,
    Info,
}

impl Severity {
    pub(crate) const ALL: [Self; 5] =
        [Self::Critical, Self::Error, Self::Warning, Self::Notice, Self::Info];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Critical => "CRITICAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Info => "INFO",
        }
    }

    /// That of a rule; INFO where it says none.
    pub(crate) const fn of(number: Option<u8>) -> Self {
        match number {
            Some(0..=2) => Self::Critical,
            Some(3) => Self::Error,
            Some(4) => Self::Warning,
            Some(5) => Self::Notice,
            Some(_) | None => Self::Info,
        }
    }
}
