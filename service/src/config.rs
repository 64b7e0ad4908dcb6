//! Configuration files in YAML: reading them, and the sections that the services share.
//!
//! Unknown keys are errors, everywhere: a key that is misspelt and ignored is a setting that the
//! operator believes to be in force.

use core::{fmt, net::SocketAddr, time::Duration};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::tls::Tls;

/// Bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration that was refused: says which file, where in it, and what is wrong.
#[derive(Debug)]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// An error in the file `path` that reading cannot find, at the key `key` (such as
    /// `listen.tcp`). `message` says what to write instead.
    #[must_use]
    pub fn at(path: &Path, key: &str, message: &str) -> Self {
        Self { message: format!("{}: {key}: {message}", path.display()) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ConfigError {}

/// Reads the configuration file `path`.
///
/// # Errors
/// When the file cannot be read, is larger than 1 MiB, is not YAML, or has a key or value that `T`
/// does not accept.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    load_with(path, parse)
}

/// Reads a configuration file as it is written, for people: words that only a key's type makes a truth
/// value (`on`) stay words.
///
/// # Errors
/// As [`load`].
pub fn load_document(path: &Path) -> Result<Value, ConfigError> {
    load_with(path, document)
}

fn load_with<T>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let refuse =
        |message: String| ConfigError { message: format!("{}: {message}", path.display()) };
    let length = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(refuse(format!("{length} bytes are too many: at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    // The parser knows no file name.
    parse(&text).map_err(|error| {
        let place = format!("--> {}:", path.display());
        refuse(error.message.replacen("--> <input>:", &place, 1))
    })
}

/// Reads a configuration from text.
///
/// # Errors
/// As [`load`]; the message names no file.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    parse_with(text, serde_saphyr::Options::default())
}

/// As [`load_document`], from text.
///
/// # Errors
/// As [`parse`].
pub fn document(text: &str) -> Result<Value, ConfigError> {
    parse_with(text, serde_saphyr::options! { strict_booleans: true })
}

fn parse_with<T: DeserializeOwned>(
    text: &str,
    options: serde_saphyr::Options,
) -> Result<T, ConfigError> {
    // A file of comments alone is a configuration in which everything is as by default.
    let blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let text = if text.lines().all(blank) { "{}" } else { text };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        ConfigError { message: said_once(message.strip_prefix("error: ").unwrap_or(&message)) }
    })
}

/// A message of the parser, without what it says once more behind the caret: the list of all keys is long.
fn said_once(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let said = first.split_once(": ").map_or(first, |(_, said)| said);
    let again = format!("^ {said}");
    let once = |line: &str| match line.strip_suffix(&again) {
        Some(before) => format!("{before}^"),
        None => line.to_owned(),
    };
    message.lines().map(once).collect::<Vec<_>>().join("\n")
}

/// Where gRPC is served.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Listen<const PORT: u16 = 9001> {
    /// Address and port, or nothing for no TCP. By default `PORT` of this machine alone.
    #[serde(default = "local::<PORT>", deserialize_with = "address")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SocketAddr>"))]
    pub tcp: Option<SocketAddr>,
    /// TLS on that address, or nothing for plain text. Unix sockets have permissions instead.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// A Unix socket, or nothing for none.
    #[serde(default)]
    pub unix: Option<UnixSocket>,
    /// A file with a token that every call has to bring, on the address and on the socket; health is exempt.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

impl<const PORT: u16> Listen<PORT> {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.tls {
            tls.resolve(folder);
        }
        if let Some(socket) = &mut self.unix {
            socket.path = folder.join(&socket.path);
        }
        if let Some(file) = &mut self.token_file {
            *file = folder.join(&*file);
        }
    }
}

impl<const PORT: u16> Default for Listen<PORT> {
    fn default() -> Self {
        Self { tcp: local::<PORT>(), tls: None, unix: None, token_file: None }
    }
}

/// A Unix socket.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnixSocket {
    /// Its path. A socket that nobody listens on any more is replaced.
    pub path: PathBuf,
    /// Its permissions, in octal, as text: `"0660"`.
    #[serde(default = "socket_mode", deserialize_with = "octal")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mode: u32,
    /// The ids of the user and of the group it is given to, or nothing for those of the process. To give it
    /// to another user takes privileges, to a group of the process's own it does not.
    #[serde(default)]
    pub user: Option<u32>,
    #[serde(default)]
    #[expect(missing_docs, reason = "said above")]
    pub group: Option<u32>,
}

/// A port of this machine alone.
fn local<const PORT: u16>() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], PORT)))
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is no address to listen on: write an IP address and a port, such as \
             127.0.0.1:9001 or [::]:9001, or null for none"
        ))
    })
}

const fn socket_mode() -> u32 {
    0o660
}

/// Reads a file mode: three octal digits, as text, with or without a 0 before them.
///
/// # Errors
/// When it is something else.
pub fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(&text);
    let is_mode = digits.len() == 3 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    // Whatever passes can be read.
    let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_mode);
    mode.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "\"{text}\" is no file mode: write three octal digits and a 0 before them in quotes, such as \"0660\""
        ))
    })
}

/// Where metrics and health are served over HTTP.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Admin<const PORT: u16 = 9101> {
    /// Address and port, or nothing for no admin listener. By default `PORT` of this machine alone.
    #[serde(default = "local::<PORT>", deserialize_with = "address")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SocketAddr>"))]
    pub address: Option<SocketAddr>,
    /// A file with a token that every request has to bring, but for probes; or nothing for none.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Whether `/metrics` needs no token.
    #[serde(default)]
    pub open_metrics: bool,
    /// Address and port of a listener for probes alone, in plain text and without authentication, or nothing for
    /// none.
    #[serde(default, deserialize_with = "address")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SocketAddr>"))]
    pub probe_address: Option<SocketAddr>,
    /// Whether the address may be one that other machines reach although nobody authenticates there.
    #[serde(default)]
    pub allow_remote: bool,
    /// Names under which the port is reached, besides addresses and `localhost`: requests for other names
    /// are refused.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// TLS on it, or nothing for plain text.
    #[serde(default)]
    pub tls: Option<Tls>,
}

impl<const PORT: u16> Default for Admin<PORT> {
    fn default() -> Self {
        Self {
            address: local::<PORT>(),
            token_file: None,
            open_metrics: false,
            probe_address: None,
            allow_remote: false,
            hosts: Vec::new(),
            tls: None,
        }
    }
}

impl<const PORT: u16> Admin<PORT> {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.tls {
            tls.resolve(folder);
        }
        if let Some(file) = &mut self.token_file {
            *file = folder.join(&*file);
        }
    }

    /// Whether the address is one of this machine alone, clients authenticate by token or certificate, or the operator
    /// wants it otherwise.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        let certificate = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        let is_local = self.address.is_none_or(|address| address.ip().is_loopback());
        is_local || certificate || self.token_file.is_some() || self.allow_remote
    }
}

/// What makes no sense of where a service listens, and of whom it lets in there: the key that is wrong, and what to
/// write there.
///
/// # Errors
/// The first such thing.
pub fn check_listeners<const GRPC: u16, const ADMIN: u16>(
    listen: &Listen<GRPC>,
    admin: &Admin<ADMIN>,
) -> Result<(), (&'static str, &'static str)> {
    ensure(
        listen.tcp.is_some() || listen.unix.is_some(),
        "listen",
        "nothing to listen on: write an address in listen.tcp or a path in listen.unix.path",
    )?;
    ensure(
        admin.is_allowed(),
        "admin.address",
        "other machines could reach it without authentication: write an address of this machine (127.0.0.1), \
         admin.token_file, a client_ca in admin.tls, or admin.allow_remote: true",
    )?;
    for (key, tls) in [("listen.tls", &listen.tls), ("admin.tls", &admin.tls)] {
        tls.as_ref().map_or(Ok(()), Tls::check).map_err(|message| (key, message))?;
    }
    Ok(())
}

/// A time, with 0 for never.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seconds(pub u32);

impl Seconds {
    /// Whether it is never.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogLevel {
    /// All of them, the most severe first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// What to write instead.
    pub fn named(name: &str) -> Result<Self, &'static str> {
        let found = Self::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or("write error, warn, info or debug")
    }
}

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::named(&text).map_err(|instead| {
            serde::de::Error::custom(format!("\"{text}\" is no log level: {instead}"))
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for LogLevel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LogLevel".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": Self::ALL.map(Self::name) })
    }
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

/// When the service counts as overloaded: the section `overload`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "described at the fields of `overload::Overload`")]
pub struct Overload {
    pub lag_ms: u32,
    pub after_ms: u32,
    pub clear_ms: u32,
}

impl Default for Overload {
    fn default() -> Self {
        Self { lag_ms: 100, after_ms: 500, clear_ms: 3_000 }
    }
}

impl From<Overload> for crate::overload::Overload {
    fn from(config: Overload) -> Self {
        let time = |milliseconds: u32| Duration::from_millis(milliseconds.into());
        Self {
            lag_max: time(config.lag_ms),
            after: time(config.after_ms),
            clear: time(config.clear_ms),
        }
    }
}

/// That something holds of the configuration; otherwise the key that is wrong, and what to write there.
///
/// # Errors
/// When it does not hold.
pub fn ensure<'a>(good: bool, key: &'a str, message: &'a str) -> Result<(), (&'a str, &'a str)> {
    if good { Ok(()) } else { Err((key, message)) }
}

/// How the process ends when it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long the health check says `NOT_SERVING` before connections are refused: long enough for
    /// Envoy's health check to notice, so that no request meets a closed door.
    pub notice: Duration,
    /// How long open streams may take to finish after that.
    pub limit: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        listen: Listen,
        admin: Admin,
    }

    #[test]
    fn files() {
        for (text, expected) in [
            ("", Ok(Example::default())),
            ("# nothing\n", Ok(Example::default())),
            (
                "listen: {tcp: null}\n",
                Ok(Example {
                    listen: Listen { tcp: None, ..Listen::default() },
                    ..Example::default()
                }),
            ),
            (
                "listen: {unix: {path: a.sock, mode: \"0600\"}}\n",
                Ok(Example {
                    listen: Listen {
                        unix: Some(UnixSocket {
                            path: "a.sock".into(),
                            mode: 0o600,
                            user: None,
                            group: None,
                        }),
                        ..Listen::default()
                    },
                    ..Example::default()
                }),
            ),
            (
                "listen: {unix: {path: a.sock, mode: \"640\"}}\n",
                Ok(Example {
                    listen: Listen {
                        unix: Some(UnixSocket {
                            path: "a.sock".into(),
                            mode: 0o640,
                            user: None,
                            group: None,
                        }),
                        ..Listen::default()
                    },
                    ..Example::default()
                }),
            ),
            ("listen:\n  tpc: 127.0.0.1:1\n", Err(&["line 2", "tpc", "tcp"][..])),
            ("listen: {tcp: nowhere}\n", Err(&["line 1", "nowhere", "127.0.0.1:9001", "null"])),
            ("listen: {unix: {path: a, mode: \"0999\"}}\n", Err(&["0999", "octal"])),
            ("listen: {unix: {path: a, mode: \"+660\"}}\n", Err(&["+660", "octal"])),
            ("listen: {unix: {path: a, mode: \"00660\"}}\n", Err(&["00660", "octal"])),
            ("listen: {unix: {path: a, mode: \"7\"}}\n", Err(&["\"7\"", "octal"])),
            ("listen: {unix: {path: a, mode: \"\"}}\n", Err(&["octal"])),
            ("listen: [\n", Err(&["line"])),
        ] {
            match (parse::<Example>(text), expected) {
                (Ok(config), Ok(expected)) => assert_eq!(config, expected),
                (Err(error), Err(words)) => {
                    let error = error.to_string();
                    for word in words {
                        assert!(error.contains(word), "{text}: no {word} in {error}");
                    }
                }
                (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn keys_are_listed_once() {
        let error = parse::<Example>("listen:\n  tpc: 127.0.0.1:1\n").unwrap_err().to_string();
        assert_eq!(error.matches("unknown field").count(), 1, "{error}");
        assert!(error.ends_with("^"), "the caret stays: {error}");
    }

    #[test]
    fn log_levels() {
        for level in LogLevel::ALL {
            assert_eq!(parse::<LogLevel>(level.name()).unwrap(), level);
        }
        let error = parse::<LogLevel>("trace").unwrap_err().to_string();
        assert!(error.contains("trace") && error.contains("debug"), "{error}");
    }

    #[test]
    fn listeners() {
        const ALONE: &str = "certificate: a, key: b";
        for (listen, admin, key) in [
            ("{}", "{}", ""),
            ("{tcp: null}", "{}", "listen"),
            ("{tcp: null, unix: {path: a.sock}}", "{address: null}", ""),
            ("{}", "{address: \"0.0.0.0:1\"}", "admin.address"),
            ("{}", "{address: \"0.0.0.0:1\", allow_remote: true}", ""),
            ("{}", &format!("{{address: \"0.0.0.0:1\", tls: {{{ALONE}}}}}"), "admin.address"),
            ("{}", &format!("{{address: \"0.0.0.0:1\", tls: {{{ALONE}, client_ca: c}}}}"), ""),
            (&format!("{{tls: {{{ALONE}, client_names: [c]}}}}"), "{}", "listen.tls"),
            ("{}", &format!("{{tls: {{{ALONE}, client_names: [c]}}}}"), "admin.tls"),
        ] {
            let Example { listen, admin } =
                parse(&format!("listen: {listen}\nadmin: {admin}\n")).unwrap();
            let found = check_listeners(&listen, &admin).err().unwrap_or_default().0;
            assert_eq!(found, key, "{listen:?} {admin:?}");
        }
    }
}
