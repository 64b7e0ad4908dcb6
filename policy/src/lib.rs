//! The checks of a request that need its headers and state in memory, and no rules: address lists, countries and
//! autonomous systems, signs of bots, virtual patches, limits, leases of them, and the guard behind ext-proc.
//!
//! [`Checks`] is what a host runs: the wasm-filter in a virtual machine for each worker, the native module once for all
//! workers. Both have the same configuration, order, verdicts, answers and words in filter state, since all of these are
//! here. A host brings the head of a request ([`Request`]), a store that its workers share ([`SharedData`]), calls to
//! other servers ([`Host`]), and counters.
//!
//! # Laws
//!
//! 1. No request can cause a panic: in a virtual machine it would end the worker's filter.
//! 2. Memory does not grow with the number of clients.
//! 3. No I/O and no clock: time is a parameter.

// The first law; `unwrap`, `expect` and `panic!` are denied in the whole workspace.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod address;
mod answer;
mod bots;
mod checks;
mod config;
mod facts;
mod feed;
mod guard;
mod json;
mod lease;
mod pending;
mod policy;
mod rate_limit;
mod seed;
mod shared;
mod table;

pub use answer::{Answer, Field};
pub use checks::{Arrival, Checks, Event, Grown, Host, HttpCall, Judged, LeaseCall, Note};
pub use config::{CONFIG_BYTES_MAX, Config, ConfigError, FirstVerdict, RuleText};
pub use facts::{Facts, Request};
pub use feed::{BODY_BYTES_MAX, Response};
pub use guard::Found;
pub use lease::RESPONSE_BYTES_MAX as LEASE_RESPONSE_BYTES_MAX;
pub use pending::PendingBody;
pub use policy::{Class, NO_CONFIGURATION, PASSED};
pub use rate_limit::Applies;
pub use shared::{ATTEMPTS_MAX, HostError, Mark, SharedData, Stored, WriteError};
