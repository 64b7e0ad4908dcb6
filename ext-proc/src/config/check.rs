//! What a configuration must not say, though it can be read.

use glacis_host::check_profiles;
use glacis_service::config::{check_listeners, ensure};

use super::Config;

/// Refused requests that may be kept.
const RECENT_MAX: usize = 10_000;

/// What may wait for a thread: queues have their places from the start.
const QUEUE_MAX: usize = 1_048_576;

impl Config {
    /// What makes no sense, as key and message.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let own = |(key, message): (&str, &str)| (key.to_owned(), message.to_owned());
        self.check_service().map_err(own)?;
        self.collections.check(self.collections_max)?;
        self.bans.check()?;
        check_profiles(&self.keys(), &self.profiles, &self.routes)
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
            self.proposals.requests_max <= RECENT_MAX,
            "proposals.requests_max",
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
        self.check_outputs()
    }

    /// Where records and spans go.
    fn check_outputs(&self) -> Result<(), (&'static str, &'static str)> {
        self.audit.check()?;
        ensure(
            self.traces.sample_percent <= 100,
            "traces.sample_percent",
            "write a number from 0 to 100",
        )?;
        ensure(
            self.otlp.endpoint.is_some() || !(self.audit.otlp || self.traces.enabled),
            "otlp.endpoint",
            "there is no collector: write its URL, such as http://127.0.0.1:4317",
        )
    }
}
