//! The configuration file of `glacis-ext-proc`. The file `glacis-ext-proc.yaml` beside this crate
//! documents every key with its default.

use core::time::Duration;
use std::path::{Path, PathBuf};

use glacis_engine::Limits;
use glacis_inspector::{AuditFormat, Redaction, ResponseInspection, SECRET_NAMES, TruncatedBody};
use glacis_service::config::{Admin, ConfigError, Drain, Listen, load};
use serde::Deserialize;

/// The configuration. Each field is described in `glacis-ext-proc.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Config {
    pub listen: Listen,
    pub admin: Admin,
    pub log_level: LogLevel,
    pub profile: String,
    pub base: bool,
    pub setup: String,
    pub crs: Option<PathBuf>,
    pub rules: Vec<String>,
    pub directives: String,
    pub limits: LimitsConfig,
    pub collections_max: usize,
    pub oversized_body: OversizedBody,
    pub response: Response,
    pub trusted_hops: usize,
    pub block: Block,
    pub audit: Audit,
    pub max_streams: usize,
    pub max_message_bytes: usize,
    pub inline_body_bytes: usize,
    pub deadline_ms: u64,
    pub drain_notice_seconds: u64,
    pub drain_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            admin: Admin::default(),
            log_level: LogLevel::Info,
            profile: "default".to_owned(),
            base: true,
            setup: String::new(),
            crs: None,
            rules: Vec::new(),
            directives: String::new(),
            limits: LimitsConfig::default(),
            collections_max: 10_000,
            oversized_body: OversizedBody::Reject,
            response: Response::Off,
            trusted_hops: 0,
            block: Block::default(),
            audit: Audit::default(),
            max_streams: 4_096,
            max_message_bytes: 33_554_432,
            inline_body_bytes: 65_536,
            deadline_ms: 150,
            drain_notice_seconds: 2,
            drain_seconds: 20,
        }
    }
}

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

/// What becomes of requests whose body is larger than Envoy's buffer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum OversizedBody {
    Reject,
    Partial,
}

impl From<OversizedBody> for TruncatedBody {
    fn from(body: OversizedBody) -> Self {
        match body {
            OversizedBody::Reject => Self::Reject,
            OversizedBody::Partial => Self::Inspect,
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
}

impl From<Format> for AuditFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Native => Self::Native,
            Format::ModSecurity => Self::ModSecurity,
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
    pub format: Format,
    pub redact: bool,
    pub redact_names: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            stdout: true,
            file: None,
            format: Format::Native,
            redact: true,
            redact_names: SECRET_NAMES.map(str::to_owned).to_vec(),
        }
    }
}

/// Declares the section `limits` with the engine's names and defaults, so that neither can differ; a
/// limit that the engine has and this list has not is an error of the compiler.
macro_rules! limits {
    ($($field:ident),* $(,)?) => {
        /// Limits where the rules set none: those of [`Limits`].
        #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "described at the fields of `Limits`")]
        pub struct LimitsConfig {
            $(pub $field: usize,)*
        }

        impl Default for LimitsConfig {
            fn default() -> Self {
                let Limits { $($field,)* } = Limits::default();
                Self { $($field,)* }
            }
        }

        impl From<&LimitsConfig> for Limits {
            fn from(config: &LimitsConfig) -> Self {
                Self { $($field: config.$field,)* }
            }
        }
    };
}

limits!(
    request_body_bytes_max,
    request_body_no_files_bytes_max,
    decoded_ratio_max,
    content_codings_max,
    response_body_bytes_max,
    arguments_max,
    json_depth_max,
    xml_depth_max,
    xml_nodes_max,
    headers_max,
    cookies_max,
    multipart_parts_max,
    upload_files_max,
    multipart_part_headers_max,
    transform_bytes_max,
    expansion_bytes_max,
    tx_members_max,
    collection_members_max,
    collection_bytes_max,
    matches_per_rule_max,
    match_value_bytes_max,
    matched_rules_max,
    trace_steps_max,
    trace_bytes_max,
    expanded_patterns_max,
    expanded_pattern_bytes_max,
    lookups_max,
    backtrack_steps_max,
    rule_steps_max,
);

impl Config {
    /// Reads and checks the file `path`. Relative paths in it are made relative to its folder.
    ///
    /// # Errors
    /// When the file is not readable, not well-formed, or asks for what makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = load(path)?;
        config.check().map_err(|(key, message)| ConfigError::at(path, key, message))?;
        config.resolve(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(config)
    }

    /// What makes no sense, as key and message.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let ensure = |good: bool, key, message| if good { Ok(()) } else { Err((key, message)) };
        ensure(
            self.listen.tcp.is_some() || self.listen.unix.is_some(),
            "listen",
            "nothing to listen on: write an address in listen.tcp or a path in listen.unix.path",
        )?;
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
        ensure(
            self.block.status.is_none_or(|status| (400..=599).contains(&status)),
            "block.status",
            "not a status for a refusal: write one from 400 to 599, or null for that of the rule",
        )?;
        ensure(
            self.block.body.is_some() || self.block.content_type.is_none(),
            "block.content_type",
            "there is no body of that type: write one in block.body",
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
        )
    }

    fn resolve(&mut self, folder: &Path) {
        for rule in &mut self.rules {
            *rule = folder.join(&*rule).to_string_lossy().into_owned();
        }
        if let Some(crs) = &mut self.crs {
            *crs = folder.join(&*crs);
        }
        if let Some(file) = &mut self.audit.file {
            *file = folder.join(&*file);
        }
        if let Some(socket) = &mut self.listen.unix {
            socket.path = folder.join(&socket.path);
        }
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
            ("audit: {format: json}\n", &["json", "native", "modsecurity"]),
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
            ("directives: SecRuleEngine On\nmax_streams: 0\n", "max_streams"),
            ("directives: SecRuleEngine On\nmax_message_bytes: 1\n", "max_message_bytes"),
        ] {
            let found = parse::<Config>(text).unwrap().check();
            assert_eq!(found.unwrap_err().0, key, "{text}");
        }
    }
}
