//! The steps of a Check, in their order: the table of `docs/ext-authz.md`.

#[cfg(test)]
use crate::answer::Reason;

/// A step, which refuses the request or leaves it to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Addresses that are banned.
    Bans,
    /// Lists of networks, countries and autonomous systems.
    Networks,
    /// Authorities that are not plain `host[:port]`.
    AmbiguousHost,
    /// Paths that could mean another one.
    AmbiguousPath,
    /// Names of API keys' parameters in another spelling.
    AmbiguousKey,
    /// Limits, where the policy of the request says `limit: before_policies`.
    LimitsBeforePolicies,
    /// The first policy that fits.
    Policies,
    /// Limits, where they have not been asked yet.
    Limits,
    /// Rules of the engine.
    Rules,
}

impl Step {
    /// All of them; the first that refuses answers.
    pub(crate) const ORDER: [Self; 9] = [
        Self::Bans,
        Self::Networks,
        Self::AmbiguousHost,
        Self::AmbiguousPath,
        Self::AmbiguousKey,
        Self::LimitsBeforePolicies,
        Self::Policies,
        Self::Limits,
        Self::Rules,
    ];

    /// The reasons for which it refuses.
    #[cfg(test)]
    const fn reasons(self) -> &'static [Reason] {
        match self {
            Self::Bans => &[Reason::Banned],
            Self::Networks => &[Reason::Network, Reason::Country, Reason::Asn],
            Self::AmbiguousHost => &[Reason::AmbiguousHost],
            Self::AmbiguousPath => &[Reason::AmbiguousPath],
            Self::AmbiguousKey => &[Reason::AmbiguousKey],
            Self::LimitsBeforePolicies | Self::Limits => &[Reason::RateLimit],
            Self::Policies => &[
                Reason::Policy,
                Reason::WrongNetwork,
                Reason::NoKey,
                Reason::WrongKey,
                Reason::KeyScope,
                Reason::NoToken,
                Reason::WrongClaim,
                Reason::NoPolicy,
            ],
            Self::Rules => &[Reason::Rule, Reason::Crowded, Reason::Late],
        }
    }

    /// The step as the documentation calls it.
    #[cfg(test)]
    const fn documented(self) -> &'static str {
        match self {
            Self::Bans => "bans",
            Self::Networks => "lists of networks, countries, autonomous systems",
            Self::AmbiguousHost => "an authority that is not plain `host[:port]`",
            Self::AmbiguousPath => "a path that could mean another one",
            Self::AmbiguousKey => "the name of an API key's parameter in another spelling",
            Self::LimitsBeforePolicies => "limits, where the policy says `limit: before_policies`",
            Self::Policies => {
                "the first policy that fits: networks, API key and its scopes, claims of a token"
            }
            Self::Limits => "limits, all in one call of the store",
            Self::Rules => "rules of the engine",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented table, row for row: step, statuses, reasons.
    #[test]
    fn the_documented_table_is_the_order() {
        let documented = include_str!("../../docs/ext-authz.md");
        let table = documented.split("| step | answer | reason in metadata and metrics |").nth(1);
        let rows = table.unwrap().lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows: Vec<&str> = rows.collect();
        let made = Step::ORDER.map(|step| {
            let mut statuses: Vec<u16> =
                step.reasons().iter().copied().map(Reason::status).collect();
            statuses.sort_unstable();
            statuses.dedup();
            let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
            let statuses = match step {
                Step::Rules => "what the rule says, or 503".to_owned(),
                _ => statuses.join(" or "),
            };
            let reasons: Vec<String> =
                step.reasons().iter().map(|reason| format!("`{}`", reason.name())).collect();
            format!("| {} | {statuses} | {} |", step.documented(), reasons.join(", "))
        });
        assert_eq!(rows, made);
        let mut reasons: Vec<Reason> =
            Step::ORDER.iter().flat_map(|step| step.reasons()).copied().collect();
        reasons.dedup();
        // A message that cannot be read, and a fault, come to no step.
        let in_steps = |reason: &Reason| !matches!(reason, Reason::Unreadable | Reason::Fault);
        for reason in Reason::ALL.into_iter().filter(in_steps) {
            assert!(reasons.contains(&reason), "no step refuses for {reason:?}");
        }
    }
}
