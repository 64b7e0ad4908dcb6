//! Checks of an installation: the configuration of ext-proc, its rules, Envoy's configuration, and a running service.
//!
//! [`CHECKS`] is the table of checks: permanent ids, what each finding means, and what to do. [`examine`] compares
//! [`Evidence`] with it. The command line (`glacis doctor`) and ext-proc (`/doctor`, `glacis_doctor_finding`) gather the
//! evidence; this crate reads no files, asks nobody and has no clock. `docs/reference/doctor.md` is made by [`reference()`].

mod certificate;
mod checks;
mod configuration;
mod envoy;
mod envoy_checks;
mod evidence;
mod examine;
mod finding;
mod metrics;
mod reference;
mod rule_checks;
mod rules;
mod service;
mod service_checks;
mod settings;

pub use checks::{CHECKS, Check, Severity, Source};
pub use envoy::Envoy;
pub use evidence::Evidence;
pub use examine::examine;
pub use finding::{FINDINGS_MAX, Finding};
pub use metrics::Metrics;
pub use reference::reference;
pub use rules::{Engine, LoadedRules, Refused};
pub use service::Service;
pub use settings::{Defaults, Settings};
