//! What must hold for every input: each law is a function that takes any bytes and panics when it is
//! broken.
//!
//! The fuzzer calls them (`cargo xtask fuzz`), and so does a test that every `cargo test` runs, with the
//! inputs that once broke one (`fuzz/regressions`) and changes of them. Inputs are read as text where that
//! is possible, so that a regression can be read and written by hand; each module says how.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken law is a panic: that is how the fuzzer and a test learn of it"
)]

mod before_body;
mod body;
mod encoded;
mod event_stream;
mod generated;
mod graphql;
mod message;
mod openapi;
mod pattern;
mod rules;
mod sample;
mod syntax;
mod transactions;
mod transformation;
mod websocket;

pub use before_body::before_body;
pub use body::body_processors;
pub use event_stream::event_stream;
pub use graphql::graphql;
pub use openapi::openapi;
pub use pattern::pattern;
pub use rules::compile;
pub use syntax::{seclang_parse, seclang_roundtrip};
pub use transactions::{Judges, chunking, fast_path, transaction_calls};
pub use transformation::transform_total;
pub use websocket::websocket;

/// A law: it returns if it holds for the input, and panics if it does not.
pub type Law = fn(&[u8]);

/// Every law by its name, which is that of its fuzzing target too.
pub const LAWS: &[(&str, Law)] = &[
    ("seclang_parse", seclang_parse),
    ("seclang_roundtrip", seclang_roundtrip),
    ("compile", compile),
    ("transform_total", transform_total),
    ("body_processors", body_processors),
    ("graphql", graphql),
    ("openapi", openapi),
    ("pattern", pattern),
    ("chunking", chunking),
    ("before_body", before_body),
    ("fast_path", fast_path),
    ("transaction_calls", transaction_calls),
    ("websocket", websocket),
    ("event_stream", event_stream),
];
