//! The section `audit`.

use std::path::PathBuf;

use glacis_inspector::{Redaction, SECRET_NAMES, SECRET_WORDS, Sample};
use glacis_service::{
    config::{ensure, octal},
    sink::Rotation,
};
use serde::Deserialize;

use crate::{Format, Records};

/// Where audit records go, and what is masked in them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Audit {
    pub stdout: bool,
    pub file: Option<PathBuf>,
    #[serde(deserialize_with = "octal")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub file_mode: u32,
    pub file_bytes_max: u64,
    pub files_max: u16,
    pub otlp: bool,
    pub format: Format,
    pub sample_percent: u8,
    pub redact: bool,
    pub redact_names: Vec<String>,
    pub redact_words: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            stdout: true,
            file: None,
            file_mode: 0o640,
            file_bytes_max: 104_857_600,
            files_max: 10,
            otlp: false,
            format: Format::Native,
            sample_percent: 100,
            redact: true,
            redact_names: SECRET_NAMES.map(str::to_owned).to_vec(),
            redact_words: SECRET_WORDS.map(str::to_owned).to_vec(),
        }
    }
}

impl Audit {
    /// How its file is kept.
    #[must_use]
    pub const fn rotation(&self) -> Rotation {
        Rotation { bytes_max: self.file_bytes_max, files_max: self.files_max, mode: self.file_mode }
    }

    /// What is recorded of exchanges.
    #[must_use]
    pub fn records(&self) -> Records {
        let (names, words) = (&self.redact_names, &self.redact_words);
        Records {
            redaction: Redaction::new(
                self.redact,
                names.iter().map(String::as_str),
                words.iter().map(String::as_str),
            ),
            format: self.format.into(),
            sample: Sample::percent(self.sample_percent).unwrap_or_default(),
            refused_parts: None,
        }
    }

    /// What makes no sense, as key and message.
    ///
    /// # Errors
    /// The first such key.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(self.files_max > 0, "audit.files_max", "write 1 or more: one is written to")?;
        ensure(self.sample_percent <= 100, "audit.sample_percent", "write a number from 0 to 100")
    }
}
