//! What the gRPC services share: the command line, configuration files and reading them anew, listeners and their
//! TLS, readiness, the admin port, metrics of the process, logs, threads for long work, sinks for lines, OTLP, what
//! is left to chance, and the way a process ends.
//!
//! A service loads its own configuration type with [`config::load`], binds with [`Server::bind`] and
//! hands its gRPC routes to [`Server::serve`], which returns when the process has been told to end
//! and every open stream is finished or the time for it is over.
//!
//! This crate knows nothing of rules.

mod accept;
pub mod admin;
pub mod alarm;
pub mod chance;
mod client;
pub mod clock;
pub mod command;
pub mod config;
mod drain;
mod evaluators;
pub mod files;
mod listener;
mod loss;
mod metric_family;
pub mod metrics;
pub mod otlp;
pub mod overload;
mod priority;
pub mod process;
mod readiness;
pub mod reload;
#[cfg(feature = "schema")]
pub mod schema;
mod server;
pub mod sink;
pub mod status;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod token;

pub use client::Client;
pub use clock::now;
pub use drain::ended_by_signal;
pub use evaluators::{Evaluators, GivenUp, Priority, Waiting};
pub use listener::BindError;
pub use loss::{LossLabel, Losses};
pub use priority::give_way;
pub use readiness::Readiness;
pub use server::{ServeError, Server};
