//! Requests that are no evidence: whoever wants a rule switched off at a place can send requests, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::observation::{Observation, Sign};

/// Kinds of attacks that one request may look like, together with [`MANY_FAMILIES_FACTOR`].
const FAMILIES_MAX: usize = 2;

/// A request of many kinds is an attack from this many times the threshold on.
const MANY_FAMILIES_FACTOR: i64 = 4;

/// A request of several kinds is an attack from this many times the threshold on.
const SCORE_FACTOR: i64 = 10;

/// Kinds of attacks that a client may be blocked for where nobody else is.
const CLIENT_FAMILIES_MAX: usize = 2;

/// Ordinary values of a parameter from which on it is known to hold identifiers only.
pub(crate) const ORDINARY_MIN: u64 = 20;

/// Whether a request alone looks like an attack; `signed` when it carries a known one.
pub(crate) fn sign_of(observation: &Observation, signed: bool) -> Option<Sign> {
    let refused = observation.rounds.first()?;
    let times = |factor: i64| refused.threshold.saturating_mul(factor);
    let families = refused.families();
    if signed {
        Some(Sign::KnownAttack)
    } else if refused.is_scanner() {
        Some(Sign::Scanner)
    } else if families > FAMILIES_MAX && refused.score >= times(MANY_FAMILIES_FACTOR) {
        Some(Sign::ManyFamilies)
    } else if families > 1 && refused.score >= times(SCORE_FACTOR) {
        Some(Sign::HighScore)
    } else {
        None
    }
}

/// Marks what clients do besides. Where a site has one client, nothing can be compared.
pub(crate) fn mark_clients(
    observations: &mut [Observation],
    clients: &BTreeMap<String, BTreeSet<u64>>,
) {
    let many = |host: &String| clients.get(host).is_some_and(|clients| clients.len() > 1);
    let is_attack = |sign: &Option<Sign>| matches!(sign, Some(Sign::KnownAttack | Sign::Scanner));
    let attacks = observations.iter().filter(|observation| is_attack(&observation.sign));
    let attackers: BTreeSet<(String, u64)> = attacks
        .filter_map(|observation| Some((observation.host.clone(), observation.client?)))
        .collect();
    let lonely = lonely_clients(observations);
    for observation in observations {
        let Some(client) = observation.client.filter(|_| many(&observation.host)) else { continue };
        let key = (observation.host.clone(), client);
        if observation.sign.is_none() && attackers.contains(&key) {
            observation.sign = Some(Sign::Attacker);
        } else if observation.sign.is_none() && lonely.contains(&key) {
            observation.sign = Some(Sign::ManyKinds);
        }
    }
}

/// Clients that are blocked for several kinds of attacks, at places where no other client is.
fn lonely_clients(observations: &[Observation]) -> BTreeSet<(String, u64)> {
    let mut places: BTreeMap<(&String, u32, &String), BTreeSet<Option<u64>>> = BTreeMap::new();
    let each = || {
        observations.iter().flat_map(|observation| {
            let units = observation.rounds.iter().flat_map(|round| &round.units);
            units.flat_map(move |unit| {
                unit.places.iter().map(move |(target, _)| {
                    (observation, unit, (&observation.host, unit.rule, &target.collection))
                })
            })
        })
    };
    for (observation, _, place) in each() {
        places.entry(place).or_default().insert(observation.client);
    }
    let mut kinds: BTreeMap<(String, u64), BTreeSet<&String>> = BTreeMap::new();
    for (observation, unit, place) in each() {
        let alone = places.get(&place).is_some_and(|clients| clients.len() == 1);
        if let Some(client) = observation.client.filter(|_| alone) {
            let kinds = kinds.entry((observation.host.clone(), client)).or_default();
            kinds.extend(&unit.families);
        }
    }
    let lonely = kinds.into_iter().filter(|(_, kinds)| kinds.len() > CLIENT_FAMILIES_MAX);
    lonely.map(|(key, _)| key).collect()
}
