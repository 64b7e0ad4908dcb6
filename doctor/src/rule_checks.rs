//! Checks of the rules that are loaded.

use core::cmp::Ordering;

use crate::{
    checks::{
        CANARY_PASSES, CRS_MISSING, CRS_MIXED, CRS_NEW, CRS_OLD, Check, EXCLUSION_UNMATCHED,
        HIGH_THRESHOLD, NO_RULES, RULE_WARNINGS, RULES_REFUSED, SETTING_LATE, THRESHOLD_HIGH,
    },
    evidence::Evidence,
    finding::Finding,
    rules::{Engine, LoadedRules},
};

/// What the compiler says of a setting of CRS that comes too late.
const LATE: &str = "is a setting of CRS, which has read it before";

/// How warnings about typed exclusions begin: they are SecLang of this name.
const EXCLUSIONS: &str = "exclusions:";

pub(crate) fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(refused) = evidence.refused {
        let subject = format!("profile {}", refused.profile);
        found.push(Finding::new(RULES_REFUSED, &subject, &refused.error));
    }
    for loaded in evidence.rules {
        found.extend(of_profile(loaded, evidence));
    }
    found
}

fn of_profile(loaded: &LoadedRules, evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |check: &'static Check, detail: String| {
        found.push(Finding::new(check, &format!("profile {}", loaded.profile), &detail));
    };
    if loaded.engine == Engine::Off {
        return found;
    }
    if loaded.rules == 0 {
        add(NO_RULES, "no rules besides the base configuration".to_owned());
    } else if !loaded.has_crs() {
        add(CRS_MISSING, format!("rules: {}, of CRS: none", loaded.rules));
    }
    let versions: Vec<&str> = loaded.crs_versions.iter().map(String::as_str).collect();
    match (versions.as_slice(), evidence.crs_tested) {
        ([version], Some(tested)) => match order(version, tested) {
            Ordering::Less => add(CRS_OLD, format!("CRS {version}; tested: {tested}")),
            Ordering::Greater => add(CRS_NEW, format!("CRS {version}; tested: {tested}")),
            Ordering::Equal => {}
        },
        ([] | [_], _) => {}
        (several, _) => add(CRS_MIXED, several.join(", ")),
    }
    let (late, other): (Vec<&String>, Vec<_>) =
        loaded.warnings.iter().partition(|warning| warning.contains(LATE));
    let (unmatched, other): (Vec<&String>, Vec<_>) =
        other.into_iter().partition(|warning| warning.starts_with(EXCLUSIONS));
    for (check, warnings) in
        [(SETTING_LATE, late), (EXCLUSION_UNMATCHED, unmatched), (RULE_WARNINGS, other)]
    {
        if let Some(first) = warnings.first() {
            add(check, format!("{} of them, such as: {first}", warnings.len()));
        }
    }
    if let Some(threshold) = loaded.threshold.filter(|threshold| *threshold >= HIGH_THRESHOLD) {
        add(THRESHOLD_HIGH, format!("inbound threshold {threshold}"));
    }
    if loaded.canary_passes && loaded.engine == Engine::Blocking {
        add(CANARY_PASSES, "the canary is not blocked".to_owned());
    }
    found
}

/// The order of two versions: `4.9.0` is before `4.25.0-dev`.
fn order(one: &str, other: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u64> {
        let digits = version.split(|letter: char| !letter.is_ascii_digit());
        digits.filter_map(|part| part.parse().ok()).take(3).collect()
    };
    numbers(one).cmp(&numbers(other))
}
