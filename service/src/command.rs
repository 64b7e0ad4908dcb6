//! The command line that every service has.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Why a program ends with an error.
pub type Failure = Box<dyn core::error::Error>;

/// A service as a program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it can be asked for.
    pub usage: &'static str,
}

impl Program {
    /// Does what the arguments ask for: `--config FILE` runs the service, with `--check` it is only looked at.
    /// Says what went wrong on standard error.
    pub fn execute(
        &self,
        arguments: &[&str],
        run: impl FnOnce(&Path) -> Result<(), Failure>,
        check: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> ExitCode {
        let done = match *arguments {
            ["--version"] => {
                say(&mut std::io::stdout(), &format!("{} {}\n", self.name, self.version));
                Ok(())
            }
            ["--help"] => {
                say(&mut std::io::stdout(), self.usage);
                Ok(())
            }
            ["--config", file] => run(&PathBuf::from(file)),
            ["--config", file, "--check"] | ["--check", "--config", file] => {
                check(&PathBuf::from(file))
            }
            _ => {
                say(&mut std::io::stderr(), self.usage);
                return ExitCode::from(2);
            }
        };
        ended(done)
    }
}

/// How a program ends that has done its work, or not: then it says why.
#[must_use]
pub fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&mut std::io::stderr(), &format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes what a terminal is to show. That it is gone is no reason to fail.
fn say(place: &mut dyn Write, text: &str) {
    let _ = place.write_all(text.as_bytes()).and_then(|()| place.flush());
}
