//! The configuration file of `glacis-ext-proc`. The file `glacis-ext-proc.yaml` beside this crate
//! documents every key with its default.

mod bans;
mod canary;
mod check;
mod collections;
#[cfg(test)]
mod tests;

use core::{net::SocketAddr, time::Duration};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use glacis_engine::{AuditPart, AuditParts, Limits};
use glacis_host::declare_configuration;
use glacis_service::{
    config::{Admin, ConfigError, Drain, Listen, LogLevel, Overload, Seconds, load},
    differing,
    otlp::Collector,
};
use serde::Deserialize;

pub use bans::{BansConfig, ScenarioConfig};
pub use canary::EnvoyCanary;
pub use collections::Collections;
pub use glacis_host::{
    Audit, Block, BodyOverflow, Evaluation, ExclusionConfig, ExpiredExclusions, Expiry, Format,
    Given, Grpc, Late, LimitsChange, LimitsConfig, Mode, OversizedBody, ProfileConfig, Response,
    ShadowConfig, UnknownProfile,
};

declare_configuration! {
    /// The configuration. Each field is described in `glacis-ext-proc.yaml`.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Config {
        listen: Listen = Listen::default(),
        admin: Admin = Admin::default(),
        metrics: MetricsConfig = MetricsConfig::default(),
        log_level: LogLevel = LogLevel::Info,
        reload_seconds: Seconds = Seconds(5),
        canary_seconds: Seconds = Seconds(10),
        canary_envoy: Option<EnvoyCanary> = None,
        recent: RecentConfig = RecentConfig::default(),
        proposals: ProposalsConfig = ProposalsConfig::default(),
        cost_sample: u32 = 1_000,
        audit: Audit = Audit::default(),
        otlp: Collector = Collector::default(),
        traces: Traces = Traces::default(),
        collections_max: usize = 10_000,
        collections: Collections = Collections::default(),
        bans: BansConfig = BansConfig::default(),
        max_streams: usize = 4_096,
        client_share_percent: u8 = 50,
        envoy_buffer_bytes: usize = 16_384,
        max_message_bytes: usize = 33_554_432,
        inline_body_bytes: usize = 16_384,
        evaluation_threads: usize = 0,
        evaluation_queue_max: usize = 64,
        deadline_ms: u64 = 400,
        body_bytes_max: usize = 268_435_456,
        out_of_band_threads: usize = 1,
        out_of_band_queue_max: usize = 256,
        out_of_band_bytes_max: usize = 33_554_432,
        overload: Overload = Overload::default(),
        drain_notice_seconds: u64 = 2,
        drain_seconds: u64 = 20,
        wasm: Option<WasmModule> = None,
    }
}

/// The labels of metrics that are the same for all.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// The requests that the admin port shows: blocked, or that would be in detection mode.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct RecentConfig {
    pub requests_max: usize,
    pub whole: bool,
}

impl Default for RecentConfig {
    fn default() -> Self {
        Self { requests_max: 1_000, whole: true }
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

/// What is collected for proposals.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ProposalsConfig {
    pub requests_max: usize,
}

impl Default for ProposalsConfig {
    fn default() -> Self {
        Self { requests_max: 2_000 }
    }
}

/// The module of the wasm-filter, served for Envoys.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct WasmModule {
    pub listen: SocketAddr,
    pub file: PathBuf,
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        config.set_keys(self.keys_of(name));
        config
    }

    fn resolve(&mut self, folder: &Path) {
        let mut keys = self.keys();
        keys.resolve(folder);
        self.set_keys(keys);
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
            ("proposals", self.proposals != other.proposals),
        ];
        let keys = keys.into_iter().chain(in_part);
        keys.filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
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
