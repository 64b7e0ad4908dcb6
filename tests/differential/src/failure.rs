//! The reason why a run ends early.

use std::fmt;

/// One sentence for the person at the command line.
#[derive(Debug)]
pub struct Failure(pub String);

/// What most functions return.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Turns an I/O error into a failure that names the action.
pub fn io(action: &str) -> impl FnOnce(std::io::Error) -> Failure + '_ {
    move |error| Failure(format!("cannot {action}: {error}"))
}
