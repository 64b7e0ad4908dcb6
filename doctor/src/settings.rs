//! The configuration of ext-proc as a document: what checks need of it, with the defaults of the service.

use serde_json::{Map, Value};

use crate::certificate::not_after;

/// Defaults of the service that checks compare with. A test of ext-proc compares them with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `deadline_ms`.
    pub deadline_ms: u64,
    /// `envoy_buffer_bytes`.
    pub envoy_buffer_bytes: u64,
    /// `body_bytes_max`.
    pub body_bytes_max: u64,
    /// `max_streams`.
    pub max_streams: u64,
    /// `limits.request_body_bytes_max`, which is also the limit of the base configuration.
    pub request_body_bytes_max: u64,
    /// `canary_seconds`.
    pub canary_seconds: u64,
    /// `reload_seconds`.
    pub reload_seconds: u64,
}

impl Defaults {
    /// Those of this version.
    pub const SERVICE: Self = Self {
        deadline_ms: 400,
        envoy_buffer_bytes: 16_384,
        body_bytes_max: 268_435_456,
        max_streams: 4_096,
        request_body_bytes_max: 13_107_200,
        canary_seconds: 10,
        reload_seconds: 5,
    };

    /// `client_share_percent`.
    pub const CLIENT_SHARE_PERCENT: u8 = 50;
}

/// A configuration.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    document: Map<String, Value>,
    /// When the file was changed last, in seconds since 1970.
    pub(crate) changed: Option<u64>,
    certificates: Vec<(String, Option<u64>)>,
}

impl Settings {
    /// The configuration in this document: what is in the file, with or without defaults. `changed` is when the file was
    /// last changed, in seconds since 1970.
    #[must_use]
    pub fn new(document: Map<String, Value>, changed: Option<u64>) -> Self {
        Self { document, changed, certificates: Vec::new() }
    }

    /// The certificate files that it names, as they are written.
    #[must_use]
    pub fn certificate_files(&self) -> Vec<&str> {
        let of = |listener: &str| {
            self.get(&format!("/{listener}/tls/certificate")).and_then(Value::as_str)
        };
        ["listen", "admin"].into_iter().filter_map(of).collect()
    }

    /// Adds the content of one of these files.
    pub fn add_certificate(&mut self, file: &str, pem: &str) {
        self.certificates.push((file.to_owned(), not_after(pem)));
    }

    /// The certificates, each with the end of its validity.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (&str, u64)> {
        self.certificates.iter().filter_map(|(file, end)| Some((&**file, (*end)?)))
    }

    /// The value at a JSON pointer; `null` is none.
    pub(crate) fn get(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = match pointer.strip_prefix('/')?.split_once('/') {
            Some((first, rest)) => (first, format!("/{rest}")),
            None => (pointer.strip_prefix('/')?, String::new()),
        };
        self.document.get(first)?.pointer(&rest).filter(|value| !value.is_null())
    }

    pub(crate) fn number(&self, key: &str, default: u64) -> u64 {
        self.get(&format!("/{key}")).and_then(Value::as_u64).unwrap_or(default)
    }

    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.get(pointer).and_then(Value::as_str)
    }

    pub(crate) fn is_set(&self, pointer: &str) -> bool {
        self.get(pointer).is_some()
    }

    pub(crate) fn flag(&self, pointer: &str, default: bool) -> bool {
        self.get(pointer).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The names of all profiles, the default one first.
    #[must_use]
    pub fn profiles(&self) -> Vec<&str> {
        let default = self.default_profile();
        let further = self.document.get("profiles").and_then(Value::as_object);
        let further = further.into_iter().flat_map(Map::keys).map(String::as_str);
        [default].into_iter().chain(further.filter(|name| *name != default)).collect()
    }

    fn default_profile(&self) -> &str {
        self.text("/profile").unwrap_or("default")
    }

    /// The value of a key of one profile: its own, or that of the top of the file. `null` is none.
    #[must_use]
    pub fn of_profile(&self, profile: &str, key: &str) -> Option<&Value> {
        let own = self.document.get("profiles").and_then(|profiles| profiles.get(profile));
        let own = own.filter(|_| profile != self.default_profile());
        let value = own.and_then(|own| own.get(key)).or_else(|| self.document.get(key));
        value.filter(|value| !value.is_null())
    }

    /// The exclusions of one profile: those of the top of the file, and its own.
    #[must_use]
    pub fn exclusions(&self, profile: &str) -> Vec<&Value> {
        let own = (profile != self.default_profile()).then(|| self.own_exclusions(profile));
        let top = self.own_exclusions(self.default_profile()).into_iter();
        top.chain(own.into_iter().flatten()).collect()
    }

    /// The exclusions that are written in one profile; those of the default one are at the top of the file.
    pub(crate) fn own_exclusions(&self, profile: &str) -> Vec<&Value> {
        let own = match profile == self.default_profile() {
            true => self.get("/exclusions"),
            false => self
                .document
                .get("profiles")
                .and_then(|profiles| profiles.get(profile)?.get("exclusions")),
        };
        own.and_then(Value::as_array).into_iter().flatten().collect()
    }

    /// Whether the profile's key has this word. Readers of YAML 1.1 make truth values of `on` and `off`.
    pub(crate) fn is(&self, profile: &str, key: &str, word: &str) -> bool {
        match self.of_profile(profile, key) {
            Some(Value::String(text)) => text == word,
            Some(Value::Bool(on)) => word == if *on { "on" } else { "off" },
            _ => false,
        }
    }

    /// Bytes of a request body that the profile inspects.
    pub(crate) fn body_bytes_max(&self, profile: &str) -> u64 {
        let typed = self.of_profile(profile, "request_body_bytes_max");
        let limits = || self.of_profile(profile, "limits")?.get("request_body_bytes_max");
        let found = typed.or_else(limits).and_then(Value::as_u64);
        found.unwrap_or(Defaults::SERVICE.request_body_bytes_max)
    }

    /// Whether the profile answers before it evaluates.
    pub(crate) fn is_out_of_band(&self, profile: &str) -> bool {
        self.is(profile, "evaluation", "out_of_band")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profiles_inherit() {
        let document = json!({
            "profile": "site", "paranoia": 2, "mode": true, "crs": "crs",
            "exclusions": [{"rules": [1]}],
            "profiles": {"api": {"paranoia": 3, "crs": null, "exclusions": [{"rules": [2]}]}},
        });
        let settings = Settings::new(document.as_object().unwrap().clone(), None);
        assert_eq!(settings.profiles(), ["site", "api"]);
        let level = |profile| settings.of_profile(profile, "paranoia").and_then(Value::as_u64);
        assert_eq!((level("site"), level("api")), (Some(2), Some(3)));
        assert_eq!(settings.of_profile("api", "crs"), None);
        assert!(settings.is("api", "mode", "on"));
        let count = |profile| settings.exclusions(profile).len();
        assert_eq!((count("site"), count("api")), (1, 2));
    }
}
