//! All checks, one after the other.

use crate::{
    configuration, envoy_checks, evidence::Evidence, finding::Finding, rule_checks, service_checks,
};

/// Runs all checks for which there is evidence. Returns what they find, the most severe first, and each finding once.
#[must_use]
pub fn examine(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(settings) = evidence.settings {
        found.extend(configuration::check(settings, evidence));
    }
    found.extend(rule_checks::check(evidence));
    if let Some(envoy) = evidence.envoy {
        found.extend(envoy_checks::check(envoy, evidence.settings));
    }
    found.extend(service_checks::check(evidence));
    Finding::joined(found)
}
