//! The whole product around a real Envoy.
//!
//! One binary with modules, because each test binary is linked for itself. Most tests share one
//! stack; those that break something have their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests fail loudly"
)]

mod admin;
mod attach;
mod attacks;
mod audit_file;
mod authz;
mod bans;
mod body_modes;
mod bypasses;
mod canary;
mod chain;
mod charts;
mod components;
mod configs;
mod console;
mod content_limits;
mod decisions;
mod doctor;
mod documents;
mod event_stream;
mod failure;
mod feeds;
mod filter;
mod filter_bench;
mod first_verdict;
mod framing;
mod full_duplex;
mod graphql;
mod grpc;
mod headers;
mod http3;
mod http_bench;
mod hybrid;
mod large_bodies;
mod leases;
mod limits;
mod memory;
mod module;
mod native;
mod native_updates;
mod observability;
mod openapi;
mod out_of_band;
mod pass_through;
mod privileges;
mod profiles;
mod protocol;
mod quota;
mod ratelimit;
mod reload;
mod rulesets;
mod support;
mod threats;
mod tls;
mod tokens;
mod traces;
mod trust;
mod up;
mod websocket;
