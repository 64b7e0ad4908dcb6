//! The one place that writes: results to standard output, remarks to standard error, and what
//! becomes of a fault.

use std::{
    fmt::Display,
    io::{self, BufWriter, IsTerminal as _, StdoutLock, Write},
    process::ExitCode,
};

use crate::progress;

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to complain about.
    Clean,
    /// Something was found and has been said.
    Findings,
    /// A verdict is not the expected one.
    Unexpected,
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was called wrongly.
    Usage(String),
    /// What it was given is not in order, or could not be read.
    Input(String),
    /// A service could not be reached.
    Unreachable(String),
    /// Results could not be written.
    Output(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Bytes of results that are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, buffered; to be flushed by its user, who learns of errors in this way.
pub(crate) fn results() -> BufWriter<StdoutLock<'static>> {
    if io::stdout().is_terminal() {
        progress::end();
    }
    BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())
}

/// Writes `text` as the whole result.
pub(crate) fn print(text: &str) -> Result<Outcome, Fault> {
    let mut out = results();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Clean)
}

/// A line to standard error. Nobody is left to be told when that does not work.
pub(crate) fn remark(text: impl Display) {
    progress::clear();
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says what went wrong, and with which status to exit.
pub(crate) fn exit(outcome: Result<Outcome, Fault>) -> ExitCode {
    match outcome {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Unexpected) => ExitCode::from(3),
        Err(Fault::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Fault::Output(error)) => {
            remark(format_args!("glacis: standard output: {error}"));
            ExitCode::from(1)
        }
        Err(Fault::Input(message)) => {
            remark(message);
            ExitCode::from(1)
        }
        Err(Fault::Usage(message)) => {
            remark(message.trim_end());
            ExitCode::from(2)
        }
        Err(Fault::Unreachable(message)) => {
            remark(message);
            ExitCode::from(4)
        }
    }
}
