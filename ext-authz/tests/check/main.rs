//! The service as a process, asked by gRPC as Envoy would.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail loudly"
)]

mod bans;
mod content;
mod fleet;
mod harness;
mod leases;
mod life;
mod metrics;
mod policies;
mod quota;
mod ratelimit;
