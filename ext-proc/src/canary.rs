//! The canary: every few seconds a known attack goes through each ruleset that may block. One that lets
//! it pass is no protection, whatever the reason: the service is then not ready, and says why.

use core::{panic::AssertUnwindSafe, time::Duration};
use std::{panic::catch_unwind, sync::Arc};

use glacis_engine::RuleEngine;
use glacis_inspector::canary;
use glacis_service::{Readiness, now};

use crate::{profile::Profile, ruleset::Rulesets, shared::Shared};

/// What holds readiness back.
const CAUSE: &str = "canary";

/// The profiles that should refuse their canary and do not. Profiles that block nothing, and those for
/// which no canary is known, are left out.
pub(crate) fn silent(rulesets: &Rulesets) -> Vec<&str> {
    let silent = rulesets.profiles.iter().filter(|(_, profile)| !sings(profile).unwrap_or(true));
    silent.map(|(name, _)| name).collect()
}

/// Whether a profile refuses its canary; `None` when it has none.
fn sings(profile: &Profile) -> Option<bool> {
    let uri = profile.canary.as_deref()?;
    let blocks = profile.rule_engine() == RuleEngine::On && !profile.is_out_of_band();
    let refuses = || canary::refuses(&profile.program, &profile.settings, uri, now());
    // A panic is not the refusal that is looked for.
    blocks.then(|| catch_unwind(AssertUnwindSafe(refuses)).unwrap_or(false))
}

/// Sends the canary once, and then again and again for as long as the runtime runs.
pub(crate) fn start(shared: &Arc<Shared>, readiness: &Readiness, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    check(shared, readiness);
    let (shared, readiness) = (Arc::clone(shared), readiness.clone());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(interval).await;
            check(&shared, &readiness);
        }
    });
}

fn check(shared: &Shared, readiness: &Readiness) {
    let rulesets = shared.rulesets();
    let mut lost = Vec::new();
    for (name, profile) in rulesets.profiles.iter() {
        if let Some(refused) = sings(profile) {
            shared.metrics().canary(name, refused);
            lost.extend((!refused).then_some(name));
        }
    }
    if lost.is_empty() {
        if readiness.release(CAUSE) {
            tracing::info!("the canary is refused again: ready");
        }
        return;
    }
    let why = format!("a known attack passes the rules of: {}", lost.join(", "));
    if readiness.hold(CAUSE, &why) {
        tracing::error!(profiles = lost.join(", "), "not ready: a known attack passes the rules");
    }
}
