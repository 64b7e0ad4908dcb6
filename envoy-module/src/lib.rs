//! The WAF inside Envoy: a native dynamic module, `libglacis.so`.
//!
//! Envoy loads the library and calls its hooks (`abi`) on the threads that serve. `exchange` mirrors the state of one
//! HTTP stream and asks the inspector for decisions; `filter` is a configuration, `shared` what all of its streams share. Long
//! evaluations run on threads of the library (`waiting`), and Envoy's scheduler resumes the stream.
//!
//! Invariants: `abi` is the only module with `unsafe` code. Envoy's memory is borrowed within a hook only. A panic ends
//! in a 503 for its request, and leaves Envoy alive. A request ends in a verdict, whatever it is made of.

#![deny(unsafe_code)]

mod abi;
mod checks;
pub mod config;
mod exchange;
mod filter;
mod in_use;
mod log;
mod metadata;
mod metrics;
mod programs;
mod reload;
mod role;
mod route;
mod rulesets;
mod shared;
mod startup;
mod stream;
mod timer;
mod waiting;
mod watch;
