//! Where rules come from: files on disk, the base configuration that Glacis ships, and a folder of
//! the OWASP Core Rule Set.
//!
//! The engine does no I/O; this crate is the I/O it is given. It holds no rule of the Core Rule Set:
//! those are read from a folder of the user's.
//!
//! ```
//! use glacis_engine::{Input, Limits, Program};
//! use glacis_rules::{FileSource, base};
//!
//! let own = Input::Text {
//!     name: "own.conf".into(),
//!     text: r#"SecRule ARGS:debug "@streq 1" "id:1,phase:2,deny,status:403""#.into(),
//! };
//! let program = Program::build(&[base(), own], &FileSource::new(), Limits::default());
//! assert!(program.is_ok());
//! ```

mod assembly;
mod crs;
mod crs_settings;
mod date;
mod defaults;
mod exclusion;
mod files;
mod glob;
mod openapi;
mod record;

use glacis_engine::Input;

pub use assembly::{Assembled, Assembly};
pub use crs::crs;
pub use crs_settings::CrsSettings;
pub use date::{Date, DateError};
pub use defaults::{ATTACKS_NAME, DEFAULTS_NAME, Defaults, WEAK_NAME};
pub use exclusion::{
    EXCLUSION_ID_MIN, EXCLUSION_VALUES_ID_MIN, EXCLUSIONS_MAX, Exclusion, ExclusionConfig,
    ExclusionError, ExclusionEvidence, ExclusionList, ExclusionRules, Expiry, RuleRange, escaped,
    exclusion_rules, is_template_text, pattern_of, write_exclusions,
};
pub use files::FileSource;
pub use openapi::{OpenApiAction, OpenApiRules};
pub use record::{Record, RecordingSource};

/// The weights of the second opinion that Glacis ships, learned for CRS 4.25: see `docs/second-opinion.md`.
pub const WEIGHTS: &str = include_str!("../weights/crs-4.25.json");

/// The release of CRS that Glacis is tested with.
pub const CRS_VERSION: &str = "4.25.0";

/// The files of that release with their SHA-256, a line each in the format of `sha256sum`.
pub const CRS_FILES: &str = include_str!("../crs-4.25.0.sha256");

/// The name under which [`base`] appears in messages.
pub const BASE_NAME: &str = "glacis:base";

/// The base configuration: what a ruleset such as CRS expects to be set before it.
///
/// It turns the engine on, has request bodies parsed according to their content type, refuses those
/// that cannot be parsed, and sets limits. Its rules have the ids 100000 to 100099. Everything in it
/// can be overridden by directives that follow it (`SecRuleRemoveById` for its rules). Typed exclusions
/// take the ids from [`EXCLUSION_ID_MIN`] to 109099.
#[must_use]
pub fn base() -> Input {
    Input::Text { name: BASE_NAME.to_owned(), text: include_str!("../base/glacis.conf").to_owned() }
}
