//! Where rule texts and data files come from: the host's, through [`Source`].

use core::fmt;
use std::sync::Arc;

use crate::api::ApiDescription;

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
///
/// ```
/// use glacis_engine::{Input, Limits, Program, Source, SourceError, SourceFile};
///
/// /// Files that are in the binary.
/// struct Bundled;
///
/// impl Source for Bundled {
///     fn read(&self, path: &str, _from: &str) -> Result<SourceFile, SourceError> {
///         let text = match path {
///             "main.conf" => "Include rules.conf\nSecRuleEngine On\n",
///             "rules.conf" => "SecRule ARGS \"@pmFromFile words.data\" \"id:1,phase:1,deny\"\n",
///             "words.data" => "union\nselect\n",
///             _ => return Err(SourceError::new(format!("{path}: it is not in the binary"))),
///         };
///         Ok(SourceFile { name: path.to_owned(), bytes: text.as_bytes().to_vec() })
///     }
///
///     fn list(&self, pattern: &str, _from: &str) -> Result<Vec<String>, SourceError> {
///         Ok(vec![pattern.to_owned()])
///     }
/// }
///
/// let build = |path: &str| {
///     Program::build(&[Input::File(path.to_owned())], &Bundled, Limits::default())
/// };
/// assert_eq!(build("main.conf").map(|program| program.rule_count()), Ok(1));
/// // A file that cannot be read is an error like any other; it has no line.
/// let refused = build("other.conf").expect_err("there is no such file");
/// assert_eq!((refused.errors()[0].line(), refused.errors()[0].file()), (0, "other.conf"));
/// ```
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

    /// Compiles a file that was read to a description of an API (`SecOpenApiDocument`). Its paths begin with
    /// `base_path`; with those that the file itself names where that is `None`.
    ///
    /// # Errors
    /// When the file is no such description, or when the host reads none, as by default.
    fn api_description(
        &self,
        file: &SourceFile,
        base_path: Option<&str>,
    ) -> Result<Arc<dyn ApiDescription>, SourceError> {
        let _ = base_path;
        Err(SourceError::new(format!("{}: OpenAPI documents cannot be read here", file.name)))
    }
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
        /// The name to show in messages. One that begins with `glacis:` is of directives that a program writes for any
        /// ruleset: that they have no effect on this one is no warning.
        name: String,
        /// The directives.
        text: String,
    },
}
