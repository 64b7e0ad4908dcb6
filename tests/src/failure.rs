//! What went wrong, as a sentence for whoever runs the tests.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A failure of the harness, not of what it tests.
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

/// The same, since tests unwrap it, and the ends of logs are read line by line.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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

/// How the program `name` ends: well if all was good, and otherwise with a failure on standard error, if there is one.
#[allow(clippy::print_stderr, reason = "the last words of a command line tool")]
pub fn exit(name: &str, outcome: Outcome<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}
