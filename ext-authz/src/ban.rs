//! Which refusals of this service count for a ban; [`glacis_limit_store::Bans`] keeps who is banned.

use core::time::Duration;

use glacis_limit_store::{BanScenario, IPV6_PREFIXES, LimitError};

use crate::{answer::Reason, config::ScenarioConfig};

/// When an address is banned.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    reasons: Vec<Reason>,
    ban: BanScenario,
}

impl Scenario {
    /// That of a configuration. An error is the key and what to write there.
    pub(crate) fn new(config: &ScenarioConfig) -> Result<Self, (&'static str, String)> {
        // A refusal of who is banned already does not count, nor does one that is not the client's doing.
        let mut known = Reason::ALL.to_vec();
        known.retain(|reason| reason.counts_for_bans());
        let reason = |name: &String| {
            let found = known.iter().copied().find(|reason| reason.name() == name);
            found.ok_or_else(|| {
                let names: Vec<&str> = known.iter().copied().map(Reason::name).collect();
                ("reasons", format!("\"{name}\" is no reason: write one of {}", names.join(", ")))
            })
        };
        let reasons: Vec<Reason> = config.reasons.iter().map(reason).collect::<Result<_, _>>()?;
        if reasons.is_empty() || config.ban_seconds == 0 {
            let key = if reasons.is_empty() { "reasons" } else { "ban_seconds" };
            return Err((key, "nobody would be banned: write one or more".to_owned()));
        }
        if !IPV6_PREFIXES.contains(&config.ipv6_prefix) {
            return Err(("ipv6_prefix", "write a number from 16 to 128".to_owned()));
        }
        let leak = Duration::from_secs(config.leak_seconds.into());
        let time = Duration::from_secs(config.ban_seconds.into());
        let ban: Result<_, LimitError> =
            BanScenario::new(&config.name, config.capacity, leak, time);
        let ban = ban.map_err(|error| ("capacity", error.to_string()))?;
        Ok(Self { reasons, ban: ban.with_ipv6_prefix(config.ipv6_prefix) })
    }
}

/// Those for which a refusal counts.
pub(crate) fn of(scenarios: &[Scenario], reason: Reason) -> Vec<&BanScenario> {
    let of_reason = scenarios.iter().filter(|one| one.reasons.contains(&reason));
    of_reason.map(|scenario| &scenario.ban).collect()
}
