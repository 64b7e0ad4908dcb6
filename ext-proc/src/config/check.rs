//! What a configuration must not say, though it can be read.

use glacis_service::config::{check_listeners, ensure};

use super::Config;

/// Refused requests that may be kept.
const RECENT_MAX: usize = 10_000;

/// What may wait for a thread: queues have their places from the start.
const QUEUE_MAX: usize = 1_048_576;

/// Profiles that one service may have: each keeps memory of its own.
const PROFILES_MAX: usize = 1_024;

impl Config {
    /// What makes no sense, as key and message.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let own = |(key, message): (&str, &str)| (key.to_owned(), message.to_owned());
        self.check_service().map_err(own)?;
        self.collections.check(self.collections_max)?;
        self.bans.check()?;
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
        check_listeners(&self.listen, &self.admin)?;
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
            (1..=100).contains(&self.client_share_percent),
            "client_share_percent",
            "write a number from 1 to 100: with 100 one client may hold everything",
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
        for (key, places) in [
            ("evaluation_queue_max", self.evaluation_queue_max),
            ("out_of_band_queue_max", self.out_of_band_queue_max),
        ] {
            ensure(
                places <= QUEUE_MAX,
                key,
                "there is no room for so many: write 1048576 or less",
            )?;
        }
        ensure(
            self.profiles.len() < PROFILES_MAX,
            "profiles",
            "there are too many: at most 1,024, the default one included",
        )?;
        self.check_outputs()
    }

    /// Where records and spans go.
    fn check_outputs(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(self.audit.files_max > 0, "audit.files_max", "write 1 or more: one is written to")?;
        for (key, percent) in [
            ("audit.sample_percent", self.audit.sample_percent),
            ("traces.sample_percent", self.traces.sample_percent),
        ] {
            ensure(percent <= 100, key, "write a number from 0 to 100")?;
        }
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
}
