//! Configuration files in YAML: reading them, and the sections that the services share.
//!
//! Unknown keys are errors, everywhere: a key that is misspelt and ignored is a setting that the
//! operator believes to be in force.

use core::{fmt, net::SocketAddr};
use std::path::{Path, PathBuf};

use crate::tls::Tls;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

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
        ConfigError { message: message.strip_prefix("error: ").unwrap_or(&message).to_owned() }
    })
}

/// Where gRPC is served.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Address and port, or nothing for no TCP.
    #[serde(deserialize_with = "address")]
    pub tcp: Option<SocketAddr>,
    /// TLS on that address, or nothing for plain text. Unix sockets have permissions instead.
    pub tls: Option<Tls>,
    /// A Unix socket, or nothing for none.
    pub unix: Option<UnixSocket>,
}

impl Listen {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.tls {
            tls.resolve(folder);
        }
        if let Some(socket) = &mut self.unix {
            socket.path = folder.join(&socket.path);
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self { tcp: Some(SocketAddr::from(([127, 0, 0, 1], 9001))), tls: None, unix: None }
    }
}

/// A Unix socket.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct UnixSocket {
    /// Its path. A socket that nobody listens on any more is replaced.
    pub path: PathBuf,
    /// Its permissions, in octal, as text: `"0660"`.
    #[serde(default = "socket_mode", deserialize_with = "octal")]
    pub mode: u32,
    /// The ids of the user and of the group it is given to, or nothing for those of the process. To give it
    /// to another user takes privileges, to a group of the process's own it does not.
    #[serde(default)]
    pub user: Option<u32>,
    #[serde(default)]
    #[expect(missing_docs, reason = "said above")]
    pub group: Option<u32>,
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

/// Reads a file mode: three octal digits, as text.
///
/// # Errors
/// When it is something else.
pub fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(serde::de::Error::custom(format!(
            "\"{text}\" is no file mode: write three octal digits in quotes, such as \"0660\""
        ))),
    }
}

/// Where metrics and health are served over HTTP.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Address and port, or nothing for no admin listener.
    #[serde(deserialize_with = "address")]
    pub address: Option<SocketAddr>,
    /// Whether the address may be one that other machines reach. Nobody is asked who he is there.
    pub allow_remote: bool,
    /// Names under which the port is reached, besides addresses and `localhost`: requests for other names
    /// are refused.
    pub hosts: Vec<String>,
    /// TLS on it, or nothing for plain text.
    pub tls: Option<Tls>,
}

impl Default for Admin {
    fn default() -> Self {
        let address = Some(SocketAddr::from(([127, 0, 0, 1], 9101)));
        Self { address, allow_remote: false, hosts: Vec::new(), tls: None }
    }
}

impl Admin {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.tls {
            tls.resolve(folder);
        }
    }

    /// Whether the address is one of this machine alone, or the operator wants it otherwise.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allow_remote || self.address.is_none_or(|address| address.ip().is_loopback())
    }
}

/// How the process ends when it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long the health check says `NOT_SERVING` before connections are refused: long enough for
    /// Envoy's health check to notice, so that no request meets a closed door.
    pub notice: core::time::Duration,
    /// How long open streams may take to finish after that.
    pub limit: core::time::Duration,
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
            ("listen:\n  tpc: 127.0.0.1:1\n", Err(&["line 2", "tpc", "tcp"][..])),
            ("listen: {tcp: nowhere}\n", Err(&["line 1", "nowhere", "127.0.0.1:9001", "null"])),
            ("listen: {unix: {path: a, mode: \"0999\"}}\n", Err(&["0999", "octal"])),
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
}
