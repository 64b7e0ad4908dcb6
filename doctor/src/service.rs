//! A running service, as it answers at `/status` and `/metrics`.

use serde_json::Value;

use crate::metrics::Metrics;

/// One running service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The pod, or the address that was asked.
    pub name: String,
    /// The answer at `/status`.
    pub status: Value,
    /// The answer at `/metrics`; `None` where it cannot be read.
    pub metrics: Option<Metrics>,
    /// Whether files of its rules are not as they were when they were loaded.
    pub rules_differ: bool,
}

impl Service {
    /// When it began to serve, in seconds since 1970.
    pub(crate) fn started(&self) -> Option<u64> {
        self.status.get("started").and_then(Value::as_u64)
    }
}
