//! The service checks itself: once a minute, and when somebody asks. `glacis-doctor` has the checks; what they look at is
//! gathered here.

use core::time::Duration;
use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::UNIX_EPOCH,
};

use glacis_doctor::{Evidence, Finding, LoadedRules, Metrics, Service, Settings, examine};
use glacis_rules::CRS_VERSION;
use glacis_service::{
    Readiness,
    admin::{AdminAnswer, good},
    now,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde::Serialize;

use crate::{
    document::Document,
    ruleset::{Loaded, Rulesets},
    shared::Shared,
    status::with_status,
};

/// Between two examinations.
const INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of a file with certificates.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// What examines the service.
#[derive(Debug)]
pub(crate) struct Doctor {
    shared: Arc<Shared>,
    readiness: Readiness,
    registry: OnceLock<Arc<Registry>>,
    /// The answer of the last examination.
    last: Mutex<Option<AdminAnswer>>,
}

#[derive(Serialize)]
struct DoctorAnswer<'a> {
    /// The pod or machine that answers.
    instance: &'a str,
    /// When the checks ran, in seconds since 1970.
    at: u64,
    findings: &'a [Finding],
}

impl Doctor {
    pub(crate) const fn new(shared: Arc<Shared>, readiness: Readiness) -> Self {
        Self { shared, readiness, registry: OnceLock::new(), last: Mutex::new(None) }
    }

    /// Examines now, and then again and again for as long as the runtime runs.
    pub(crate) fn start(self: &Arc<Self>, registry: &Arc<Registry>) {
        let _ = self.registry.set(Arc::clone(registry));
        let doctor = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let doctor = Arc::clone(&doctor);
                // Files are read, and metrics written: not on a thread that serves.
                let examined = tokio::task::spawn_blocking(move || doctor.examine());
                if let Err(error) = examined.await {
                    tracing::error!(%error, "a defect: the checks of this service failed");
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
    }

    /// The findings of the last examination; `None` before the first one has ended.
    pub(crate) fn last(&self) -> Option<AdminAnswer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the checks, counts their findings, and returns them.
    pub(crate) fn examine(&self) -> AdminAnswer {
        let rulesets = self.shared.rulesets();
        let settings = settings(&self.shared.document());
        let (name, status) = with_status(&self.shared, &self.readiness, |status| {
            (status.instance.clone(), serde_json::to_value(status).unwrap_or_default())
        });
        let service = Service {
            name: name.clone(),
            status,
            metrics: self.registry.get().and_then(|registry| metrics(registry)),
            rules_differ: rulesets.have_changed_on_disk(),
        };
        let findings = examine(&Evidence {
            now: now().as_secs(),
            settings: Some(&settings),
            rules: &loaded(&rulesets),
            crs_tested: Some(CRS_VERSION),
            services: &[service],
            ..Evidence::default()
        });
        self.shared.metrics().examined(&findings);
        let at = now().as_secs();
        let answer = good(&DoctorAnswer { instance: &name, at, findings: &findings });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
        answer
    }
}

/// The metrics, as a scrape would see them.
fn metrics(registry: &Registry) -> Option<Metrics> {
    let mut text = String::new();
    encode(&mut text, registry).ok()?;
    Some(Metrics::read(&text))
}

fn loaded(rulesets: &Rulesets) -> Vec<LoadedRules> {
    let silent = rulesets.silent();
    let of = |Loaded { profile, program, rule_engine }: Loaded<'_>| LoadedRules {
        threshold: rulesets.profiles.get(profile).and_then(|it| it.blocking().threshold),
        canary_passes: silent.contains(&profile),
        ..LoadedRules::of(profile, program, Some(rule_engine))
    };
    rulesets.loaded().map(of).collect()
}

/// The configuration in use, with the certificates that it names.
fn settings(document: &Document) -> Settings {
    let path = document.path();
    let changed = path.metadata().and_then(|file| file.modified()).ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let changed = changed.map(|time| time.as_secs());
    let mut settings = Settings::new(document.given().clone(), changed);
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let files: Vec<String> = settings.certificate_files().into_iter().map(str::to_owned).collect();
    for file in files {
        if let Some(pem) = certificate(&folder.join(&file)) {
            settings.add_certificate(&file, &pem);
        }
    }
    settings
}

fn certificate(path: &Path) -> Option<String> {
    let mut pem = String::new();
    let file = File::open(path).ok()?;
    file.take(CERTIFICATE_BYTES_MAX).read_to_string(&mut pem).ok()?;
    Some(pem)
}

#[cfg(test)]
mod tests {
    use glacis_doctor::Defaults;

    use crate::config::Config;

    /// The checks compare with defaults of their own, which are those of the configuration.
    #[test]
    fn defaults_are_those_of_the_configuration() {
        let config = Config::default();
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap();
        let limits = glacis_engine::Limits::from(&config.limits);
        let expected = Defaults {
            deadline_ms: config.deadline_ms,
            envoy_buffer_bytes: bytes(config.envoy_buffer_bytes),
            body_bytes_max: bytes(config.body_bytes_max),
            max_streams: bytes(config.max_streams),
            request_body_bytes_max: bytes(limits.request_body_bytes_max),
            canary_seconds: config.canary_seconds.duration().as_secs(),
            reload_seconds: config.reload_seconds.duration().as_secs(),
        };
        assert_eq!(Defaults::SERVICE, expected);
        assert_eq!(config.client_share_percent, Defaults::CLIENT_SHARE_PERCENT);
    }
}
