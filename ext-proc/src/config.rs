//! The configuration file of `glacis-ext-proc`. The file `glacis-ext-proc.yaml` beside this crate
//! documents every key with its default.

mod canary;
mod exclusion;
mod limits;
mod out_of_band;
mod profile;

use core::time::Duration;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use glacis_engine::{AuditPart, AuditParts};
use glacis_inspector::{
    AuditFormat, Redaction, ResponseInspection, SECRET_NAMES, TruncatedBody, UnknownProfilePolicy,
};
use glacis_service::{
    config::{Admin, ConfigError, Drain, Listen, LogLevel, Overload, Seconds, ensure, load, octal},
    differing,
    otlp::Collector,
    sink::Rotation,
    tls::Tls,
};
use serde::Deserialize;

pub use canary::EnvoyCanary;
pub use exclusion::{ExclusionConfig, Expiry};
pub use limits::{LimitsChange, LimitsConfig};
pub use out_of_band::{Evaluation, ShadowConfig};
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
    pub audit: Audit,
    pub otlp: Collector,
    pub traces: Traces,
    pub collections_max: usize,
    pub max_streams: usize,
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
            audit: Audit::default(),
            otlp: Collector::default(),
            traces: Traces::default(),
            collections_max: 10_000,
            max_streams: 4_096,
            max_message_bytes: 33_554_432,
            inline_body_bytes: 65_536,
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

/// What becomes of exclusions whose last day is over.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum ExpiredExclusions {
    Drop,
    Apply,
}

/// What becomes of requests that name a profile which is not there.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum UnknownProfile {
    Default,
    Refuse,
}

impl From<UnknownProfile> for UnknownProfilePolicy {
    fn from(policy: UnknownProfile) -> Self {
        match policy {
            UnknownProfile::Default => Self::Default,
            UnknownProfile::Refuse => Self::Refuse,
        }
    }
}

/// What becomes of requests whose body is larger than what is inspected.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum OversizedBody {
    Reject,
    Partial,
    Pass,
}

impl From<OversizedBody> for TruncatedBody {
    fn from(body: OversizedBody) -> Self {
        match body {
            OversizedBody::Reject => Self::Reject,
            OversizedBody::Partial => Self::Inspect,
            OversizedBody::Pass => Self::Pass,
        }
    }
}

/// What becomes of requests for whose body there is no room.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum BodyOverflow {
    Reject,
    Pass,
}

impl From<BodyOverflow> for glacis_inspector::BodyOverflow {
    fn from(overflow: BodyOverflow) -> Self {
        match overflow {
            BodyOverflow::Reject => Self::Reject,
            BodyOverflow::Pass => Self::Pass,
        }
    }
}

/// How much of responses is inspected.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Response {
    Off,
    Headers,
    Full,
}

impl From<Response> for ResponseInspection {
    fn from(response: Response) -> Self {
        match response {
            Response::Off => Self::Off,
            Response::Headers => Self::Headers,
            Response::Full => Self::Full,
        }
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

/// The shape of audit records.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Format {
    Native,
    ModSecurity,
    Ocsf,
}

impl From<Format> for AuditFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Native => Self::Native,
            Format::ModSecurity => Self::ModSecurity,
            Format::Ocsf => Self::Ocsf,
        }
    }
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
        }
    }
}

impl Audit {
    /// How its file is kept.
    pub(crate) const fn rotation(&self) -> Rotation {
        Rotation { bytes_max: self.file_bytes_max, files_max: self.files_max, mode: self.file_mode }
    }
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

    /// What makes no sense, as key and message.
    fn check(&self) -> Result<(), (String, String)> {
        let own = |(key, message): (&str, &str)| (key.to_owned(), message.to_owned());
        self.check_service().map_err(own)?;
        self.check_profile().map_err(own)?;
        for name in self.profiles.keys() {
            if *name == self.profile {
                let message = "the top of the file is the profile of this name: choose another";
                return Err((format!("profiles.{name}"), message.to_owned()));
            }
            let in_profile = |(key, message): (&str, &str)| {
                (format!("profiles.{name}.{key}"), message.to_owned())
            };
            self.of_profile(name).check_profile().map_err(in_profile)?;
        }
        let known = |name: &String| *name == self.profile || self.profiles.contains_key(name);
        for name in self.profile_names() {
            let config = self.of_profile(name);
            for (key, other) in [
                ("out_of_band_profile", config.out_of_band_profile.as_ref()),
                ("shadow.profile", config.shadow.as_ref().map(|shadow| &shadow.profile)),
            ] {
                let message = match other {
                    Some(other) if other == name => "it is the profile itself: name another",
                    Some(other) if !known(other) => "there is no profile of this name",
                    _ => continue,
                };
                let place = if name == self.profile { "" } else { &format!("profiles.{name}.") };
                return Err((format!("{place}{key}"), message.to_owned()));
            }
        }
        match self.routes.iter().find(|(_, name)| !known(name)) {
            Some((route, name)) => {
                Err((format!("routes.{route}"), format!("there is no profile `{name}`")))
            }
            None => Ok(()),
        }
    }

    /// What there is once for the whole service.
    fn check_service(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(
            self.listen.tcp.is_some() || self.listen.unix.is_some(),
            "listen",
            "nothing to listen on: write an address in listen.tcp or a path in listen.unix.path",
        )?;
        if let Some(canary) = &self.canary_envoy {
            ensure(
                canary.is_allowed(),
                "canary_envoy.address",
                "it is not of this machine: name it in allowed_addresses too if it is meant",
            )?;
            ensure(
                canary.is_well_formed(),
                "canary_envoy",
                "write a host name in `host`, and a path with a query in `uri`, without blanks",
            )?;
        }
        ensure(
            self.admin.is_allowed(),
            "admin.address",
            "other machines could reach it, and nobody is asked who he is: write an address of this machine \
             (127.0.0.1), or admin.allow_remote: true",
        )?;
        ensure(
            self.recent.requests_max <= RECENT_MAX,
            "recent.requests_max",
            "there is no room for so many: write 10000 or less",
        )?;
        ensure(
            self.max_streams > 0,
            "max_streams",
            "no request could be inspected: write 1 or more",
        )?;
        ensure(
            self.max_message_bytes >= 1 << 20,
            "max_message_bytes",
            "headers alone can be that large: write 1048576 or more",
        )?;
        ensure(
            self.out_of_band_threads > 0,
            "out_of_band_threads",
            "nothing would be evaluated out of band: write 1 or more",
        )?;
        ensure(
            self.profiles.len() < PROFILES_MAX,
            "profiles",
            "there are too many: at most 256, the default one included",
        )?;
        self.check_outputs()
    }

    /// Where records and spans go, and who may connect.
    fn check_outputs(&self) -> Result<(), (&'static str, &'static str)> {
        for (key, tls) in [("listen.tls", &self.listen.tls), ("admin.tls", &self.admin.tls)] {
            tls.as_ref().map_or(Ok(()), Tls::check).map_err(|message| (key, message))?;
        }
        ensure(self.audit.files_max > 0, "audit.files_max", "write 1 or more: one is written to")?;
        let percents = [self.audit.sample_percent, self.traces.sample_percent];
        ensure(
            percents.iter().all(|percent| *percent <= 100),
            "sample_percent",
            "of audit and traces: write a number from 0 to 100",
        )?;
        ensure(
            self.otlp.endpoint.is_some() || !(self.audit.otlp || self.traces.enabled),
            "otlp.endpoint",
            "there is no collector: write its URL, such as http://127.0.0.1:4317",
        )
    }

    /// What every profile may have of its own.
    fn check_profile(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(
            self.crs.is_some() || !self.rules.is_empty() || !self.directives.trim().is_empty(),
            "rules",
            "there are no rules: name a folder in `crs` or files in `rules`, or write SecLang in \
             `directives`",
        )?;
        ensure(
            self.base || self.crs.is_none(),
            "base",
            "the Core Rule Set needs the base configuration: remove `base: false`",
        )?;
        ensure(self.sample_percent <= 100, "sample_percent", "write a number from 0 to 100")?;
        ensure(
            self.shadow.as_ref().is_none_or(|shadow| (1..=100).contains(&shadow.percent)),
            "shadow.percent",
            "write a number from 1 to 100",
        )?;
        let is_level = |level: Option<u8>| level.is_none_or(|level| (1..=4).contains(&level));
        ensure(is_level(self.paranoia), "paranoia", "write a level from 1 to 4, or null")?;
        ensure(
            is_level(self.detection_paranoia)
                && (self.detection_paranoia.is_none() || self.detection_paranoia >= self.paranoia),
            "detection_paranoia",
            "write a level from 1 to 4 that is not below `paranoia`, or null",
        )?;
        ensure(
            self.canary.as_ref().is_none_or(|uri| uri.starts_with('/')),
            "canary",
            "write a path with a query, such as /?q=attack, or null",
        )?;
        for (key, threshold) in [
            ("inbound_threshold", self.inbound_threshold),
            ("outbound_threshold", self.outbound_threshold),
        ] {
            ensure(threshold != Some(0), key, "everything would be refused: write 1 or more")?;
        }
        ensure(
            self.block.status.is_none_or(|status| (400..=599).contains(&status)),
            "block.status",
            "not a status for a refusal: write one from 400 to 599, or null for that of the rule",
        )?;
        ensure(
            self.block.body.is_some() || self.block.content_type.is_none(),
            "block.content_type",
            "there is no body of that type: write one in block.body",
        )
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
            recent,
            collections_max,
            max_streams,
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
        );
        let outputs =
            |audit: &Audit| (audit.stdout, audit.file.clone(), audit.rotation(), audit.otlp);
        let audit = outputs(&self.audit) != outputs(&other.audit);
        let keys = keys.into_iter().chain([("audit", audit)]);
        keys.filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// What audit records mask.
    #[must_use]
    pub fn redaction(&self) -> Redaction {
        Redaction::new(self.audit.redact, self.audit.redact_names.iter().map(String::as_str))
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

/// Refused requests that may be kept.
const RECENT_MAX: usize = 10_000;

/// Profiles that one service may have: each keeps memory of its own.
const PROFILES_MAX: usize = 256;

/// Makes paths relative to `folder`.
fn resolve_rules(folder: &Path, rules: &mut [String]) {
    for rule in rules {
        *rule = folder.join(&*rule).to_string_lossy().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use glacis_service::config::parse;

    use super::*;

    #[test]
    fn the_documented_file_says_the_defaults() {
        let documented = include_str!("../glacis-ext-proc.yaml");
        assert_eq!(parse::<Config>(documented).unwrap(), Config::default());
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, words) in [
            ("profil: a\n", &["line 1", "profil"][..]),
            ("rules: 5\n", &["line 1"]),
            ("response: all\n", &["all", "off", "headers", "full"]),
            ("limits: {arguments_max: many}\n", &["many"]),
            ("audit: {format: json}\n", &["json", "native", "modsecurity", "ocsf"]),
            ("audit: {file_mode: \"rw\"}\n", &["rw", "octal"]),
            ("listen: {tls: {certificate: a}}\n", &["key"]),
            ("admin: {tls: {certificate: a, key: b, ca: c}}\n", &["ca", "client_ca"]),
            ("mode: enforce\n", &["enforce", "on", "detection", "off"]),
            ("profiles: {api: {listen: {}}}\n", &["listen"]),
            ("profiles: {api: {limits: {arguments: 5}}}\n", &["arguments", "arguments_max"]),
            ("exclusions: [{rules: [1], owner: a, reason: b}]\n", &["expires"]),
            ("exclusions: [{rules: [1], owner: a, expires: never}]\n", &["reason"]),
            (
                "exclusions: [{rules: [1], owner: a, reason: b, expires: soon}]\n",
                &["soon", "2027-01-31", "never"],
            ),
        ] {
            let error = parse::<Config>(text).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{text}: no {word} in {error}");
            }
        }
        for (text, key) in [
            ("{}", "rules"),
            ("crs: a\nbase: false\n", "base"),
            ("directives: SecRuleEngine On\nlisten: {tcp: null}\n", "listen"),
            ("directives: SecRuleEngine On\nblock: {status: 200}\n", "block.status"),
            ("directives: SecRuleEngine On\nblock: {content_type: a/b}\n", "block.content_type"),
            ("directives: a\nadmin: {address: 0.0.0.0:9101}\n", "admin.address"),
            ("directives: a\nadmin: {address: \"[::]:9101\"}\n", "admin.address"),
            ("directives: a\nrecent: {requests_max: 10001}\n", "recent.requests_max"),
            ("directives: SecRuleEngine On\nmax_streams: 0\n", "max_streams"),
            ("directives: SecRuleEngine On\nmax_message_bytes: 1\n", "max_message_bytes"),
            ("directives: a\nsample_percent: 101\n", "sample_percent"),
            ("directives: a\nparanoia: 5\n", "paranoia"),
            ("directives: a\nparanoia: 2\ndetection_paranoia: 1\n", "detection_paranoia"),
            ("directives: a\ninbound_threshold: 0\n", "inbound_threshold"),
            ("directives: a\naudit: {files_max: 0}\n", "audit.files_max"),
            ("directives: a\naudit: {sample_percent: 101}\n", "sample_percent"),
            ("directives: a\ntraces: {sample_percent: 101}\n", "sample_percent"),
            ("directives: a\naudit: {otlp: true}\n", "otlp.endpoint"),
            ("directives: a\ntraces: {enabled: true}\n", "otlp.endpoint"),
            (
                "directives: a\nlisten: {tls: {certificate: a, key: b, client_names: [c]}}\n",
                "listen.tls",
            ),
            (
                "directives: a\nadmin: {tls: {certificate: a, key: b, client_names: [c]}}\n",
                "admin.tls",
            ),
            ("directives: a\nprofiles: {default: {}}\n", "profiles.default"),
            ("directives: a\nprofiles: {api: {paranoia: 0}}\n", "profiles.api.paranoia"),
            ("crs: a\nprofiles: {api: {crs: null}}\n", "profiles.api.rules"),
            ("directives: a\nroutes: {shop: api}\n", "routes.shop"),
            ("directives: a\nout_of_band_profile: api\n", "out_of_band_profile"),
            ("directives: a\nout_of_band_profile: default\n", "out_of_band_profile"),
            ("directives: a\nshadow: {profile: next, percent: 10}\n", "shadow.profile"),
            ("directives: a\nshadow: {profile: next, percent: 0}\n", "shadow.percent"),
            (
                "directives: a\nprofiles: {api: {shadow: {profile: api, percent: 5}}}\n",
                "profiles.api.shadow.profile",
            ),
            ("directives: a\nout_of_band_threads: 0\n", "out_of_band_threads"),
            ("directives: a\ncanary_envoy: {address: 192.0.2.1:80}\n", "canary_envoy.address"),
            (
                "directives: a\ncanary_envoy: {address: 127.0.0.1:80, host: \"a b\"}\n",
                "canary_envoy",
            ),
            (
                "directives: a\ncanary_envoy: {address: 127.0.0.1:80, uri: \"/a b\"}\n",
                "canary_envoy",
            ),
        ] {
            let found = parse::<Config>(text).unwrap().check();
            assert_eq!(found.unwrap_err().0, key, "{text}");
        }
        for address in ["0.0.0.0:1, allow_remote: true", "127.0.0.2:1", "\"[::1]:1\"", "null"] {
            let text = format!("directives: a\nadmin: {{address: {address}}}\n");
            assert_eq!(parse::<Config>(&text).unwrap().check(), Ok(()), "{text}");
        }
    }
    #[test]
    fn a_profile_is_the_top_of_the_file_with_changes() {
        let config: Config = parse(
            "crs: a\nsetup: b\nmode: detection\nlimits: {arguments_max: 7, cookies_max: 8}\n\
             exclusions: [{rules: [1], owner: o, reason: r, expires: never}]\n\
             profiles:\n  api:\n    crs: null\n    directives: c\n    mode: null\n    \
             limits: {cookies_max: 9}\n    exclusions: [{tags: [t], owner: o, reason: r, \
             expires: 2027-01-31}]\n",
        )
        .unwrap();
        let api = config.of_profile("api");
        assert_eq!((api.profile.as_str(), api.crs, api.mode), ("api", None, None));
        assert_eq!((api.setup.as_str(), api.directives.as_str()), ("b", "c"));
        assert_eq!((api.limits.arguments_max, api.limits.cookies_max), (7, 9));
        assert_eq!(api.exclusions.len(), 2, "those of the top hold for each profile");
        let top = Config { profiles: BTreeMap::new(), ..config.clone() };
        assert_eq!(config.of_profile("default"), top);
        assert_eq!(config.profile_names().collect::<Vec<_>>(), ["default", "api"]);
    }
}
