//! The configuration file of `glacis-ext-proc`. The file `glacis-ext-proc.yaml` beside this crate
//! documents every key with its default.

mod bans;
mod canary;
mod check;
mod collections;
mod exclusion;
mod limits;
mod out_of_band;
mod policies;
mod profile;
#[cfg(test)]
mod tests;

use core::{net::SocketAddr, time::Duration};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use glacis_engine::{AuditPart, AuditParts, Limits};
use glacis_inspector::{Redaction, SECRET_NAMES, SECRET_WORDS};
use glacis_service::{
    config::{Admin, ConfigError, Drain, Listen, LogLevel, Overload, Seconds, load, octal},
    differing,
    otlp::Collector,
    sink::Rotation,
};
use serde::Deserialize;

pub use bans::{BansConfig, ScenarioConfig};
pub use canary::EnvoyCanary;
pub use collections::Collections;
pub use exclusion::{ExclusionConfig, Expiry};
pub use limits::{LimitsChange, LimitsConfig};
pub use out_of_band::{Evaluation, ShadowConfig};
pub use policies::{
    BodyOverflow, ExpiredExclusions, Format, Grpc, Late, OversizedBody, Response, UnknownProfile,
};
pub use profile::{Given, Mode, ProfileConfig};

/// The configuration. Each field is described in `glacis-ext-proc.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Config {
    pub listen: Listen,
    pub admin: Admin,
    pub metrics: MetricsConfig,
    pub log_level: LogLevel,
    pub profile: String,
    pub mode: Option<Mode>,
    pub sample_percent: u8,
    pub evaluation: Evaluation,
    pub out_of_band_profile: Option<String>,
    pub shadow: Option<ShadowConfig>,
    pub base: bool,
    pub setup: String,
    pub crs: Option<PathBuf>,
    pub rules: Vec<String>,
    pub directives: String,
    pub paranoia: Option<u8>,
    pub detection_paranoia: Option<u8>,
    pub inbound_threshold: Option<u32>,
    pub outbound_threshold: Option<u32>,
    pub exclusions: Vec<ExclusionConfig>,
    pub expired_exclusions: ExpiredExclusions,
    pub canary: Option<String>,
    pub limits: LimitsConfig,
    pub request_body_bytes_max: Option<usize>,
    pub oversized_body: OversizedBody,
    pub body_overflow: BodyOverflow,
    pub late: Late,
    pub grpc: Grpc,
    pub response: Response,
    pub trusted_hops: usize,
    pub block: Block,
    pub profiles: BTreeMap<String, ProfileConfig>,
    pub routes: BTreeMap<String, String>,
    pub unknown_profile: UnknownProfile,
    pub reload_seconds: Seconds,
    pub canary_seconds: Seconds,
    pub canary_envoy: Option<EnvoyCanary>,
    pub recent: RecentConfig,
    pub cost_sample: u32,
    pub audit: Audit,
    pub otlp: Collector,
    pub traces: Traces,
    pub collections_max: usize,
    pub collections: Collections,
    pub bans: BansConfig,
    pub max_streams: usize,
    pub client_share_percent: u8,
    pub envoy_buffer_bytes: usize,
    pub max_message_bytes: usize,
    pub inline_body_bytes: usize,
    pub evaluation_threads: usize,
    pub evaluation_queue_max: usize,
    pub deadline_ms: u64,
    pub body_bytes_max: usize,
    pub out_of_band_threads: usize,
    pub out_of_band_queue_max: usize,
    pub out_of_band_bytes_max: usize,
    pub overload: Overload,
    pub drain_notice_seconds: u64,
    pub drain_seconds: u64,
    pub wasm: Option<WasmModule>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            admin: Admin::default(),
            metrics: MetricsConfig::default(),
            log_level: LogLevel::Info,
            profile: "default".to_owned(),
            mode: None,
            sample_percent: 100,
            evaluation: Evaluation::InBand,
            out_of_band_profile: None,
            shadow: None,
            base: true,
            setup: String::new(),
            crs: None,
            rules: Vec::new(),
            directives: String::new(),
            paranoia: None,
            detection_paranoia: None,
            inbound_threshold: None,
            outbound_threshold: None,
            exclusions: Vec::new(),
            expired_exclusions: ExpiredExclusions::Drop,
            canary: None,
            limits: LimitsConfig::default(),
            request_body_bytes_max: None,
            oversized_body: OversizedBody::Reject,
            body_overflow: BodyOverflow::Reject,
            late: Late::Reject,
            grpc: Grpc::Inspect,
            response: Response::Off,
            trusted_hops: 0,
            block: Block::default(),
            profiles: BTreeMap::new(),
            routes: BTreeMap::new(),
            unknown_profile: UnknownProfile::Default,
            reload_seconds: Seconds(5),
            canary_seconds: Seconds(10),
            canary_envoy: None,
            recent: RecentConfig::default(),
            cost_sample: 1_000,
            audit: Audit::default(),
            otlp: Collector::default(),
            traces: Traces::default(),
            collections_max: 10_000,
            collections: Collections::default(),
            bans: BansConfig::default(),
            max_streams: 4_096,
            client_share_percent: 50,
            envoy_buffer_bytes: 16_384,
            max_message_bytes: 33_554_432,
            inline_body_bytes: 16_384,
            evaluation_threads: 0,
            evaluation_queue_max: 64,
            deadline_ms: 400,
            body_bytes_max: 268_435_456,
            out_of_band_threads: 1,
            out_of_band_queue_max: 256,
            out_of_band_bytes_max: 33_554_432,
            overload: Overload::default(),
            drain_notice_seconds: 2,
            drain_seconds: 20,
            wasm: None,
        }
    }
}

/// The labels of metrics that are the same for all.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct MetricsConfig {
    pub engine: String,
    pub namespace: String,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { engine: "glacis".to_owned(), namespace: "default".to_owned() }
    }
}

/// The refused requests that the admin port shows.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct RecentConfig {
    pub requests_max: usize,
    pub whole: bool,
}

impl Default for RecentConfig {
    fn default() -> Self {
        Self { requests_max: 100, whole: true }
    }
}

impl RecentConfig {
    /// The parts of the records that are kept; `None` to keep none.
    #[must_use]
    pub fn parts(self) -> Option<AuditParts> {
        let parts = AuditParts::default();
        let whole = || parts.with(AuditPart::RequestHeaders).with(AuditPart::RequestBody);
        (self.requests_max > 0).then(|| if self.whole { whole() } else { parts })
    }
}

/// The answer to refused requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Block {
    pub status: Option<u16>,
    pub html: Option<String>,
    pub content_type: Option<String>,
    pub body: Option<String>,
}

/// Where audit records go, and what is masked in them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Audit {
    pub stdout: bool,
    pub file: Option<PathBuf>,
    #[serde(deserialize_with = "octal")]
    pub file_mode: u32,
    pub file_bytes_max: u64,
    pub files_max: u16,
    pub otlp: bool,
    pub format: Format,
    pub sample_percent: u8,
    pub redact: bool,
    pub redact_names: Vec<String>,
    pub redact_words: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            stdout: true,
            file: None,
            file_mode: 0o640,
            file_bytes_max: 104_857_600,
            files_max: 10,
            otlp: false,
            format: Format::Native,
            sample_percent: 100,
            redact: true,
            redact_names: SECRET_NAMES.map(str::to_owned).to_vec(),
            redact_words: SECRET_WORDS.map(str::to_owned).to_vec(),
        }
    }
}

impl Audit {
    /// How its file is kept.
    pub(crate) const fn rotation(&self) -> Rotation {
        Rotation { bytes_max: self.file_bytes_max, files_max: self.files_max, mode: self.file_mode }
    }
}

/// The module of the wasm-filter, served for Envoys.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct WasmModule {
    pub listen: SocketAddr,
    pub file: PathBuf,
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Traces {
    pub enabled: bool,
    pub sample_percent: u8,
}

impl Config {
    /// Reads and checks the file `path`. Relative paths in it are made relative to its folder.
    ///
    /// # Errors
    /// When the file is not readable, not well-formed, or asks for what makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = load(path)?;
        config.check().map_err(|(key, message)| ConfigError::at(path, &key, &message))?;
        config.resolve(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(config)
    }

    /// The configuration of one profile: everything at the top of the file, with what the profile says
    /// instead. The name of the default profile, or one that is not there, gives the top of the file.
    #[must_use]
    pub fn of_profile(&self, name: &str) -> Self {
        let mut config = Self { profiles: BTreeMap::new(), ..self.clone() };
        if let Some(profile) = self.profiles.get(name) {
            name.clone_into(&mut config.profile);
            profile.apply(&mut config);
            profile.leave_out_itself(&mut config);
        }
        config
    }

    /// The names of all profiles, the default one first.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        [self.profile.as_str()].into_iter().chain(self.profiles.keys().map(String::as_str))
    }

    fn resolve(&mut self, folder: &Path) {
        resolve_rules(folder, &mut self.rules);
        if let Some(crs) = &mut self.crs {
            *crs = folder.join(&*crs);
        }
        for profile in self.profiles.values_mut() {
            profile.resolve(folder);
        }
        if let Some(file) = &mut self.audit.file {
            *file = folder.join(&*file);
        }
        self.listen.resolve(folder);
        self.admin.resolve(folder);
        self.otlp.resolve(folder);
        self.collections.resolve(folder);
        self.bans.resolve(folder);
        if let Some(wasm) = &mut self.wasm {
            wasm.file = folder.join(&wasm.file);
        }
    }

    /// How often files are looked at for changes.
    #[must_use]
    pub fn reload_interval(&self) -> Option<Duration> {
        (!self.reload_seconds.is_zero()).then(|| self.reload_seconds.duration())
    }

    /// The keys in which `other` differs although they are read at the start only.
    #[must_use]
    pub fn differs_beyond_reload(&self, other: &Self) -> Vec<&'static str> {
        let keys = differing!(self, other;
            listen,
            admin,
            metrics,
            log_level,
            otlp,
            traces,
            reload_seconds,
            canary_seconds,
            canary_envoy,
            collections_max,
            collections,
            bans,
            max_streams,
            client_share_percent,
            envoy_buffer_bytes,
            max_message_bytes,
            inline_body_bytes,
            evaluation_threads,
            evaluation_queue_max,
            deadline_ms,
            body_bytes_max,
            out_of_band_threads,
            out_of_band_queue_max,
            out_of_band_bytes_max,
            overload,
            drain_notice_seconds,
            drain_seconds,
            wasm,
        );
        let outputs =
            |audit: &Audit| (audit.stdout, audit.file.clone(), audit.rotation(), audit.otlp);
        let kept = |limits: &LimitsConfig| Limits::from(limits).collections();
        let in_part = [
            ("audit", outputs(&self.audit) != outputs(&other.audit)),
            ("limits", kept(&self.limits) != kept(&other.limits)),
            ("recent", self.recent.requests_max != other.recent.requests_max),
        ];
        let keys = keys.into_iter().chain(in_part);
        keys.filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// What audit records mask.
    #[must_use]
    pub fn redaction(&self) -> Redaction {
        let (names, words) = (&self.audit.redact_names, &self.audit.redact_words);
        Redaction::new(
            self.audit.redact,
            names.iter().map(String::as_str),
            words.iter().map(String::as_str),
        )
    }

    /// How the process ends.
    #[must_use]
    pub const fn drain(&self) -> Drain {
        Drain {
            notice: Duration::from_secs(self.drain_notice_seconds),
            limit: Duration::from_secs(self.drain_seconds),
        }
    }
}

/// Makes paths relative to `folder`.
fn resolve_rules(folder: &Path, rules: &mut [String]) {
    for rule in rules {
        *rule = folder.join(&*rule).to_string_lossy().into_owned();
    }
}
