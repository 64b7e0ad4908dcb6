//! The WAF as an Envoy external processor (`envoy.service.ext_proc.v3.ExternalProcessor`).
//!
//! Envoy opens one gRPC stream per HTTP exchange and sends its parts; `session` mirrors Envoy's own
//! state machine, answers each message exactly once and of its type, and never ends a stream with OK
//! before the verdict, since Envoy would let the request pass then, whatever its failure mode.
//!
//! The ruleset decides whether a body is needed. Envoy is to be configured with body mode `NONE` and
//! `allow_mode_override: true`; bodies are asked for by `mode_override`, as `BUFFERED_PARTIAL`, so that
//! what becomes of bodies beyond Envoy's buffer is decided here.
//!
//! Protobuf stays in `wire`, `reply` and `grpc`; the rest deals in the inspector's types.

mod admin;
mod alarm;
mod audit;
mod bans;
pub mod bundle;
mod canary;
mod category;
mod collections;
pub mod config;
mod doctor;
mod document;
mod duplex;
mod envoy_canary;
mod event;
mod exclusion_counts;
mod grpc;
mod history;
mod metrics;
mod missed_bodies;
mod out_of_band;
mod profile;
mod proposal;
mod proposals;
mod recent;
mod recipe;
mod recording;
pub mod reload;
mod reply;
mod rule_costs;
mod rule_counts;
mod rule_evidence;
pub mod ruleset;
mod service;
mod session;
mod shadow;
mod shared;
mod status;
mod trace;
pub mod wasm_module;
mod wire;
mod work;

/// The name of the program.
pub const PROGRAM: &str = "glacis-ext-proc";

pub use admin::Admin;
pub use audit::{AuditError, AuditLog};
pub use document::Document;
pub use metrics::{Metrics, metrics_reference};
pub use service::Processor;
pub use trace::Tracer;
