//! What went wrong, as a sentence for whoever runs the tests.

use std::fmt;
use std::path::Path;

/// A failure of the harness, not of what it tests.
#[derive(Debug)]
pub struct Failure(String);

/// The result of most functions here.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// For `map_err`: says what was to be done, and with which file.
pub fn io(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure(format!("cannot {what} {}: {error}", path.display()))
}

/// For `map_err`: says what was to be done.
pub fn doing<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure {
    move |error| Failure(format!("cannot {what}: {error}"))
}
