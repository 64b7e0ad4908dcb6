//! Envoy's rate limit quota protocol (`envoy.service.rate_limit_quota.v3`, RLQS): Envoy tells every few seconds
//! how many requests each bucket has had, and is told how many it may have until it is heard of again.
//!
//! That is what leases are, in other words, so this is another way to ask the lender of [`crate::leases`]:
//! `bucket` makes a question of what Envoy has reported, and an assignment of what was lent; `stream` keeps what
//! the buckets of one Envoy hold; `service` is the gRPC around it. docs/quota.md says what Envoy's filter makes
//! of it.

use std::sync::Arc;

use glacis_limit_store::{Clock, Store};
use glacis_service::Readiness;
use prometheus_client::registry::Registry;
use tonic::service::Routes;

use crate::leases::{LeaseMetrics, lender::Lender};

mod bucket;
mod config;
pub(crate) mod metrics;
mod service;
mod stream;

pub use config::{QuotaConfig, QuotaLimit};

/// Adds the protocol to `routes`, and counts its metrics in `registry`; what is lent is counted in `lent`.
/// `config` has been checked. Streams end when `readiness` says that the process does.
#[must_use]
pub fn add(
    routes: Routes,
    config: &QuotaConfig,
    store: Arc<dyn Store>,
    lent: LeaseMetrics,
    registry: &mut Registry,
    readiness: &Readiness,
) -> Routes {
    let metrics = metrics::QuotaMetrics::register(registry);
    let lender = Lender::new(&config.leases(), store, Clock::Real, lent);
    let service = service::Quotas::new(config, lender, metrics, readiness.clone());
    routes.add_service(service.service())
}
