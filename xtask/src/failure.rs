//! The one error of this tool: a sentence for the person who typed the command.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What a command returns.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a command stopped. The text is complete: nothing is added when it is printed.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    usage: bool,
}

impl Failure {
    /// The work failed: exit status 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), usage: false }
    }

    /// The command line was not understood: exit status 2.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), usage: true }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Puts what was attempted, and on which file, before the operating system's words.
pub(crate) fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let what = format!("cannot {doing} {}", path.display());
    move |error| Failure::new(format!("{what}: {error}"))
}
