//! Leases of tokens: the wasm filters of a fleet spend by themselves what they are lent here, so that a
//! limit for all of them costs no round trip for each request.
//!
//! `config` names the limits, `lender` puts what the filters ask to the arithmetic of
//! [`glacis_limits::lease`] and to the store, and `service` is the gRPC around it. docs/leases.md says what
//! holds.

use std::sync::Arc;

use glacis_limit_store::{Clock, Store};
use tonic::service::Routes;

mod config;
pub(crate) mod lender;
pub(crate) mod metrics;
mod service;

pub use config::{LeasedLimit, LeasesConfig};
pub use metrics::LeaseMetrics;

/// Adds the lender to `routes`, and counts in `metrics`. `config` has been checked.
#[must_use]
pub fn add(
    routes: Routes,
    config: &LeasesConfig,
    store: Arc<dyn Store>,
    metrics: LeaseMetrics,
) -> Routes {
    let lender = lender::Lender::new(config, store, Clock::Real, metrics);
    routes.add_service(service::LenderServer::new(lender, config.max_calls))
}
