//! Where rule texts and data files come from: the host's, through [`Source`].

use core::fmt;

/// A file that a ruleset names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The name to show in messages, and the base against which names inside the file are resolved.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A file that could not be had, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    message: String,
}

impl SourceError {
    /// An error with a message that says which file and why.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for SourceError {}

/// How the engine reads what a ruleset names, without doing I/O itself.
pub trait Source {
    /// Reads `path` as written in the file `from` (empty for the ruleset's own list of inputs).
    ///
    /// # Errors
    /// When the file does not exist, is not readable or is larger than the host allows.
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError>;

    /// The paths that the glob `pattern`, written in the file `from`, stands for, sorted by name. A
    /// pattern without wildcards stands for itself when the file exists.
    ///
    /// # Errors
    /// When a folder cannot be read.
    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError>;
}

/// A [`Source`] that has no files: for rulesets given as text alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Source for NoFiles {
    fn read(&self, path: &str, _from: &str) -> Result<SourceFile, SourceError> {
        Err(SourceError::new(format!("{path}: no files can be read here")))
    }

    fn list(&self, _pattern: &str, _from: &str) -> Result<Vec<String>, SourceError> {
        Ok(Vec::new())
    }
}

/// What a ruleset is built from, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, read through the [`Source`].
    File(String),
    /// Directives given as text.
    Text {
        /// The name to show in messages.
        name: String,
        /// The directives.
        text: String,
    },
}
