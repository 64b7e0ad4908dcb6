//! Where Redis is, and how long it may take.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The most addresses of nodes.
const NODES_MAX: usize = 64;

/// The longest prefix of keys.
const PREFIX_BYTES_MAX: usize = 64;

/// Redis, or Valkey: where it is, who we are to it, and how long it may take.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RedisConfig {
    /// Addresses, each `HOST:PORT` or `unix:/PATH`: of the server, or of some nodes of a cluster, or
    /// of sentinels.
    pub nodes: Vec<String>,
    /// What the addresses are of.
    pub kind: Topology,
    /// The name under which sentinels know the master; with `kind: sentinel` only.
    pub master: Option<String>,
    /// The number of the database; 0 in a cluster.
    pub database: u16,
    /// The ACL user; without it Redis takes `default`.
    pub username: Option<String>,
    /// A file with the password. It is read at each connecting.
    pub password_file: Option<PathBuf>,
    /// The ACL user of sentinels, where they ask for one.
    pub sentinel_username: Option<String>,
    /// A file with the password of sentinels.
    pub sentinel_password_file: Option<PathBuf>,
    /// TLS, for servers and sentinels; nothing for plain text.
    pub tls: Option<RedisTls>,
    /// What every key begins with: services that share counters have the same.
    pub prefix: String,
    /// How long an answer may take, in milliseconds. Nobody ever waits longer for Redis.
    pub deadline_ms: u64,
    /// How long connecting to one node may take, in milliseconds. No request waits for it.
    pub connect_timeout_ms: u64,
    /// So many failures one after the other, and Redis is left alone until it is well again.
    pub failures_max: u32,
    /// The longest pause between two looks whether it is, in milliseconds. The first is a tenth of a
    /// second; each pause is cut short at random, so that a fleet does not come back all at once.
    pub retry_max_ms: u64,
    /// Requests to Redis at once; more are failures at once.
    pub in_flight_max: usize,
}

/// What the addresses of [`RedisConfig`] are of.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One server.
    #[default]
    Standalone,
    /// Sentinels that know the server.
    Sentinel,
    /// Nodes of a cluster.
    Cluster,
}

/// How we know Redis, and how it knows us.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RedisTls {
    /// The authorities of servers, in PEM; without it those of the system.
    pub ca: Option<PathBuf>,
    /// Our certificate, in PEM; needs `key`.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            kind: Topology::Standalone,
            master: None,
            database: 0,
            username: None,
            password_file: None,
            sentinel_username: None,
            sentinel_password_file: None,
            tls: None,
            prefix: "glacis:".to_owned(),
            deadline_ms: 20,
            connect_timeout_ms: 1_000,
            failures_max: 5,
            retry_max_ms: 5_000,
            in_flight_max: 1_024,
        }
    }
}

/// What makes no sense: the key, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfigError {
    key: &'static str,
    message: String,
}

impl RedisConfigError {
    /// The key with where the settings stand, and what to write there, as services tell what is wrong.
    #[must_use]
    pub fn at(&self, section: &str) -> (String, String) {
        (format!("{section}.{}", self.key), self.message.clone())
    }
}

impl fmt::Display for RedisConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for RedisConfigError {}

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Node {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(format!("`{text}` is not `unix:` and an absolute path")),
            };
        }
        let split = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let port = split.and_then(|(_, port)| port.parse().ok()).filter(|&port| port > 0);
        let (Some((host, _)), Some(port)) = (split, port) else {
            return Err(format!("`{text}` is neither HOST:PORT nor unix:/PATH"));
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        match host.bytes().all(is_name) {
            true => Ok(Self::Tcp(host.to_owned(), port)),
            false => Err(format!("`{text}` is neither HOST:PORT nor unix:/PATH")),
        }
    }
}

impl RedisConfig {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        let files = [&mut self.password_file, &mut self.sentinel_password_file];
        let tls = self.tls.iter_mut();
        let tls = tls.flat_map(|tls| [&mut tls.ca, &mut tls.certificate, &mut tls.key]);
        for path in files.into_iter().chain(tls).flatten() {
            *path = folder.join(&*path);
        }
    }

    /// The addresses, if everything makes sense.
    pub(crate) fn checked_nodes(&self) -> Result<Vec<Node>, RedisConfigError> {
        let wrong = |key, message: &str| Err(RedisConfigError { key, message: message.to_owned() });
        let nodes: Result<Vec<Node>, String> =
            self.nodes.iter().map(|text| Node::parse(text)).collect();
        let nodes = nodes.map_err(|message| RedisConfigError { key: "nodes", message })?;
        let is_unix = nodes.iter().any(|node| matches!(node, Node::Unix(_)));
        match (self.kind, nodes.len()) {
            (_, 0) => return wrong("nodes", "name at least one address"),
            (Topology::Standalone, 2..) => {
                return wrong("nodes", "one server has one address; or write `kind: cluster`");
            }
            (_, count) if count > NODES_MAX => return wrong("nodes", "name at most 64 addresses"),
            _ => {}
        }
        if is_unix && self.kind != Topology::Standalone {
            return wrong("nodes", "a Unix socket is that of one server");
        }
        if is_unix && self.tls.is_some() {
            return wrong("tls", "there is no TLS on a Unix socket");
        }
        if (self.kind == Topology::Sentinel) != self.master.is_some() {
            return wrong("master", "`kind: sentinel` and `master` need each other");
        }
        if self.kind == Topology::Cluster && self.database != 0 {
            return wrong("database", "a cluster has the database 0 only");
        }
        let (username, password) = (&self.username, &self.password_file);
        if username.is_some() && password.is_none() {
            return wrong("username", "it needs a password_file");
        }
        let sentinel = (&self.sentinel_username, &self.sentinel_password_file);
        if self.kind != Topology::Sentinel && sentinel != (&None, &None) {
            return wrong("sentinel_username", "there are no sentinels without `kind: sentinel`");
        }
        if let Some(tls) = &self.tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            return wrong("tls", "`certificate` and `key` need each other");
        }
        self.check_numbers()?;
        Ok(nodes)
    }

    fn check_numbers(&self) -> Result<(), RedisConfigError> {
        let wrong = |key, message: &str| Err(RedisConfigError { key, message: message.to_owned() });
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/".contains(&byte);
        if self.prefix.len() > PREFIX_BYTES_MAX || !self.prefix.bytes().all(is_plain) {
            return wrong("prefix", "up to 64 letters, digits and -._:/");
        }
        let within = |value: u64, max: u64| (1..=max).contains(&value);
        for (key, value, max) in [
            ("deadline_ms", self.deadline_ms, 10_000),
            ("connect_timeout_ms", self.connect_timeout_ms, 60_000),
            ("failures_max", u64::from(self.failures_max), 1_000_000),
            ("retry_max_ms", self.retry_max_ms, 600_000),
            ("in_flight_max", u64::try_from(self.in_flight_max).unwrap_or(u64::MAX), 65_536),
        ] {
            if !within(value, max) {
                return wrong(key, &format!("write a number from 1 to {max}"));
            }
        }
        Ok(())
    }

    /// What makes no sense.
    ///
    /// # Errors
    ///
    /// The first key that is wrong, with a sentence.
    pub fn check(&self) -> Result<(), RedisConfigError> {
        self.checked_nodes().map(|_| ())
    }

    pub(crate) const fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }

    pub(crate) const fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, expected) in [
            ("nodes: ['127.0.0.1:6379']", ""),
            ("nodes: ['[::1]:6379']", ""),
            ("nodes: ['unix:/run/redis.sock']\ndatabase: 3", ""),
            ("nodes: [a:1, b:2]\nkind: sentinel\nmaster: m", ""),
            ("nodes: [a:1, b:2]\nkind: cluster\ntls: {}", ""),
            ("nodes: [a:1]\nusername: u\npassword_file: p", ""),
            ("nodes: []", "nodes: name at least one"),
            ("nodes: [a:1, b:2]", "nodes: one server"),
            ("nodes: [a]", "nodes: `a` is neither"),
            ("nodes: ['a:0']", "nodes: `a:0` is neither"),
            ("nodes: ['redis://a:1']", "nodes: `redis://a:1` is neither"),
            ("nodes: ['unix:a']", "nodes: `unix:a` is not"),
            ("nodes: ['unix:/a']\nkind: cluster", "nodes: a Unix socket"),
            ("nodes: ['unix:/a']\ntls: {}", "tls: there is no TLS"),
            ("nodes: [a:1]\nkind: sentinel", "master: "),
            ("nodes: [a:1]\nmaster: m", "master: "),
            ("nodes: [a:1]\nkind: cluster\ndatabase: 1", "database: "),
            ("nodes: [a:1]\nusername: u", "username: "),
            ("nodes: [a:1]\nsentinel_username: u", "sentinel_username: "),
            ("nodes: [a:1]\ntls: {key: k}", "tls: `certificate` and `key`"),
            ("nodes: [a:1]\nprefix: '{a}'", "prefix: "),
            ("nodes: [a:1]\ndeadline_ms: 0", "deadline_ms: write a number from 1 to 10000"),
            ("nodes: [a:1]\nfailures_max: 0", "failures_max: "),
            ("nodes: [a:1]\nin_flight_max: 100000", "in_flight_max: "),
        ] {
            let config: RedisConfig = serde_saphyr::from_str(text).unwrap();
            let said = config.check().map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(said.is_empty(), expected.is_empty(), "{text}: {said}");
            assert!(said.starts_with(expected), "{text}: {said}");
        }
        for text in ["node: a", "kind: master", "tls: {cert: a}", "deadline_ms: -1"] {
            assert!(serde_saphyr::from_str::<RedisConfig>(text).is_err(), "{text}");
        }
    }
}
