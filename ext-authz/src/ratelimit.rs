//! Envoy's rate limit protocol (`envoy.service.ratelimit.v3`): a drop-in for envoyproxy/ratelimit, whose
//! configuration files it reads as they are.
//!
//! A request names a domain and descriptors. `folder` and `compile` make a tree of the files, `rules` finds
//! the limit of a descriptor in it, `plan` says what is to be counted, and `answer` what the counts mean to
//! Envoy: all of that is pure. `service` asks the store in between.

use core::time::Duration;
use std::{io, sync::Arc};

use glacis_limit_store::{Clock, Store};
use glacis_service::{
    config::ConfigError,
    reload::{self, Reloads},
};
use prometheus_client::registry::Registry;
use tonic::service::Routes;

mod answer;
mod compile;
mod config;
mod folder;
mod form;
mod metadata;
pub(crate) mod metrics;
mod pattern;
mod plan;
mod rules;
mod service;
mod unit;

pub use config::{FormerName, RatelimitConfig, ResponseHeaders, StoreFailure};
pub use metrics::RatelimitMetrics;
pub use service::{Limits, RateLimiter, Reloader};

/// Reads what the configuration names, if it asks for the protocol at all.
///
/// # Errors
/// What is wrong with it: file, line, key and what to write instead.
pub fn read(config: Option<&RatelimitConfig>) -> Result<Option<Limits>, ConfigError> {
    config.map(Limits::read).transpose()
}

/// Adds the protocol to `routes`, counts its metrics in `registry`, and looks after its folder: `reloads` tells
/// what came of reading it anew. To be called within a runtime.
///
/// # Errors
/// When no thread can be started for that.
pub fn add(
    routes: Routes,
    limits: Limits,
    store: Arc<dyn Store>,
    registry: &mut Registry,
    reloads: Reloads,
    reload_interval: Option<Duration>,
) -> io::Result<Routes> {
    let metrics = RatelimitMetrics::register(registry);
    let (limiter, reloader) = RateLimiter::new(limits, store, Clock::Real, metrics, reloads);
    reload::watch("rate limits", reloader, reload_interval)?;
    Ok(routes.add_service(limiter.service()))
}

#[cfg(test)]
mod tests;
