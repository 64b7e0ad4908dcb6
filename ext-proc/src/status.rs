//! What `/status` returns.

use glacis_inspector::Mode;
use glacis_service::{Readiness, status::Status};
use serde::Serialize;

use crate::{exclusion_counts::Unapplied, shared::Shared};

/// Characters of the name of this machine that are shown.
const INSTANCE_MAX: usize = 253;

/// The answer at `/status`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusAnswer<'a> {
    #[serde(flatten)]
    status: Status,
    /// The pod or machine that answers.
    pub(crate) instance: String,
    /// When it began to serve, in seconds since 1970.
    started: u64,
    profiles: Vec<ProfileStatus<'a>>,
}

#[derive(Debug, Serialize)]
struct ProfileStatus<'a> {
    name: &'a str,
    ruleset: &'a str,
    /// Whether it is the profile of requests that name none.
    default: bool,
    rules: usize,
    mode: &'static str,
    warnings: usize,
    exclusions_expired: usize,
    /// Exclusions that have never applied since they were loaded.
    exclusions_unapplied: Unapplied,
}

/// Calls `then` with the status of the service as it is now.
pub(crate) fn with_status<R>(
    shared: &Shared,
    readiness: &Readiness,
    then: impl FnOnce(&StatusAnswer<'_>) -> R,
) -> R {
    let rulesets = shared.rulesets();
    let expired = |name: &str| {
        let expired = rulesets.exclusions().iter().filter(|loaded| loaded.expired);
        expired.filter(|loaded| loaded.profile == name).count()
    };
    let default = &rulesets.profiles.default_profile().settings.profile;
    let profiles = rulesets.loaded().map(|loaded| ProfileStatus {
        name: loaded.profile,
        ruleset: loaded.program.hash(),
        default: *default == *loaded.profile,
        rules: loaded.program.rule_count(),
        mode: Mode::from(loaded.rule_engine).name(),
        warnings: loaded.program.warnings().len(),
        exclusions_expired: expired(loaded.profile),
        exclusions_unapplied: { rulesets.profiles.get(loaded.profile) }
            .map(|profile| profile.exclusions.unapplied())
            .unwrap_or_default(),
    });
    then(&StatusAnswer {
        status: Status::now(env!("CARGO_PKG_VERSION"), readiness, &shared.reloads),
        instance: instance(),
        started: shared.started.as_secs(),
        profiles: profiles.collect(),
    })
}

/// The name of the pod, or of the machine, that answers: which of several replicas is shown.
fn instance() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = set("POD_NAME").or_else(|| set("HOSTNAME")).or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned())
    });
    name.unwrap_or_default().chars().take(INSTANCE_MAX).collect()
}
