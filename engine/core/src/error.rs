//! Why a ruleset was refused.

use core::fmt;

/// One thing wrong in a ruleset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// File and offset, to list errors in the order of the text.
    order: (usize, u32),
    rendered: String,
    file: String,
    line: u32,
    message: String,
}

impl BuildError {
    pub(crate) fn new(
        order: (usize, u32),
        rendered: String,
        file: &str,
        line: u32,
        message: &str,
    ) -> Self {
        Self { order, rendered, file: file.to_owned(), line, message: message.to_owned() }
    }

    /// The file as named to the engine.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, counted from 1; 0 when the error is not in a line (a file that cannot be read).
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// What is wrong and what to write instead, without place and excerpt.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// Everything found wrong in a ruleset. Never empty.
///
/// Displayed as one `file:line:col: message` with excerpt and caret after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    pub(crate) fn new(mut errors: Vec<BuildError>) -> Self {
        errors.sort_by_key(|error| error.order);
        Self(errors)
    }

    /// The errors in the order of the inputs.
    #[must_use]
    pub fn errors(&self) -> &[BuildError] {
        &self.0
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl core::error::Error for BuildErrors {}
