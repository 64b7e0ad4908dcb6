//! A blocked request, and whether it is evidence.

use glacis_explain::Request;

use crate::observe::Refused;

/// A blocked request.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) request: Request,
    pub(crate) host: String,
    /// As rules see it.
    pub(crate) path: String,
    pub(crate) client: Option<u64>,
    pub(crate) day: Option<u64>,
    /// Why it is blocked; more where it still is with what was found so far.
    pub(crate) rounds: Vec<Refused>,
    pub(crate) sign: Option<Sign>,
    /// Why nothing lets it pass.
    pub(crate) hopeless: Option<&'static str>,
}

/// Why a request is no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    KnownAttack,
    Scanner,
    ManyFamilies,
    HighScore,
    Attacker,
    ManyKinds,
    Outlier,
}

impl Sign {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::KnownAttack => "the request carries a known attack",
            Self::Scanner => "a rule for scanners matched",
            Self::ManyFamilies => "the request looks like several kinds of attacks",
            Self::HighScore => "the score is far above the threshold",
            Self::Attacker => "the client has sent attacks",
            Self::ManyKinds => {
                "the client is blocked for several kinds of attacks where no other client is"
            }
            Self::Outlier => "the parameter holds identifiers only in other requests",
        }
    }
}

impl Observation {
    /// Whether it is evidence.
    pub(crate) const fn counts(&self) -> bool {
        self.sign.is_none() && self.hopeless.is_none()
    }
}
