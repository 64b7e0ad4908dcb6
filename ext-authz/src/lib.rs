//! Envoy's external authorization service (`envoy.service.auth.v3.Authorization`).
//!
//! Envoy asks once for each request, with its head and perhaps the beginning of its body, and waits for the
//! answer: pass, perhaps with other headers, or refuse. What a request is asked for, an identity above all, is
//! decided in `policy` and what it names; `wire` is the only file that knows protobuf.
//!
//! What becomes of requests while this service is away is Envoy's affair (`failure_mode_allow`,
//! `status_on_error`). Whatever a client sends ends in a verdict; only faults of Envoy's configuration and of this service
//! end with an error of gRPC.

mod admin;
mod alarm;
mod answer;
mod api_key;
mod ban;
mod ban_desk;
mod check;
mod claim;
pub mod config;
mod hash_key;
pub mod leases;
mod limit_name;
mod lists;
mod metrics;
mod network_files;
mod policy;
mod profile;
pub mod quota;
mod rate_limit;
pub mod ratelimit;
pub mod reload;
mod service;
mod shared;
mod step;
mod store;
mod subject;
mod unreadable;
mod wire;

pub use admin::Admin;
pub use hash_key::{hash_key, new_key};
pub use metrics::{Metrics, metrics_reference};
pub use policy::Policy;
pub use service::Authorizer;
