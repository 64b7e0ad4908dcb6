//! OpenAPI 3.0 and 3.1 documents: compiled, compared with requests, and learned from them.
//!
//! A [`Document`] is compiled once and shared. It compares a request with its paths, operations, parameters and media
//! types, and bodies with their schemas; each difference is a [`Finding`]. The engine asks it through
//! [`ApiDescription`](glacis_engine::ApiDescription), and rules see the findings as `OPENAPI`.
//!
//! Invariants: no I/O, no clock, no panic on bytes of requests; whatever servers could read differently is a finding;
//! all work is bounded by [`Limits`], and what is not compared for a limit is a finding.
//!
//! ```
//! use glacis_engine::{ApiBody, ApiRequest};
//! use glacis_openapi::{Document, Kind};
//!
//! let text = r#"{"openapi": "3.1.1", "paths": {"/pets/{id}": {"get": {"parameters":
//!     [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]}}}}"#;
//! let document = Document::compile(text.as_bytes(), None)?;
//! let kinds = |method: &[u8], target: &[u8]| {
//!     let body = ApiBody::Whole(b"");
//!     let request = ApiRequest { method, target, headers: &[], body, parts: None };
//!     document.findings(&request).iter().map(|finding| finding.kind).collect::<Vec<_>>()
//! };
//! assert_eq!(kinds(b"GET", b"/pets/7"), []);
//! assert_eq!(kinds(b"GET", b"/pets/x"), [Kind::Parameter]);
//! assert_eq!(kinds(b"GET", b"/pets/7?debug=1"), [Kind::UnknownParameter]);
//! assert_eq!(kinds(b"PUT", b"/pets/7"), [Kind::Method]);
//! assert_eq!(kinds(b"GET", b"/dogs/7"), [Kind::UnknownPath]);
//! # Ok::<(), glacis_openapi::DocumentError>(())
//! ```

mod compare;
mod compile;
mod document;
mod error;
mod json;
mod learn;
mod limits;
mod media_type;
mod parameter;
mod path;
mod reference;
mod schema;
mod shape;
mod text;
mod validate;

pub use compare::{Finding, Kind};
pub use document::Document;
pub use error::DocumentError;
pub use learn::{ApiLearner, LearnOptions, LearnedApi, Recorded};
pub use limits::Limits;
