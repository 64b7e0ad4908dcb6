//! `cargo xtask modsecurity-suite`: ModSecurity's regression suite, out of Debian's source package, on our engine.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{self, Artifacts};
use crate::failure::{Failure, Outcome};
use crate::fetch::debian_source::Source;
use crate::pins::{MODSECURITY_SHA256, MODSECURITY_VERSION};

/// The program of `tests/` that plays it.
const PROGRAM: &str = "modsecurity-suite";

/// The page of results, below the top folder.
const PAGE: &str = "docs/results/modsecurity-suite.md";

/// The folder that the suite's own runner is started from, or why there is none.
fn suite() -> Outcome<Result<PathBuf, String>> {
    let source = Source {
        package: "modsecurity",
        version: MODSECURITY_VERSION,
        sha256: MODSECURITY_SHA256,
        folder: "*/test/test-cases",
    };
    Ok(source.ensure()?.map(|place| place.join("test")))
}

/// `cargo xtask modsecurity-suite [--write-report] [-- --show ID]`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, passed) = crate::flags(arguments, &["--write-report"])?;
    let folder = suite()?.map_err(Failure::new)?;
    let artifacts = cargo::build(&["--package", "glacis-tests", "--bin", PROGRAM])?;
    let mut program = Command::new(artifacts.program(PROGRAM)?);
    program.arg(folder).arg(MODSECURITY_VERSION).args(passed);
    if flags.contains(&"--write-report") {
        program.arg("--report").arg(cargo::root().join(PAGE));
    }
    cargo::run(program.env("GLACIS_ROOT", cargo::root()))
}

/// The whole suite, as a step of the tests; a remark where the package cannot be had.
pub(crate) fn check(artifacts: &Artifacts) -> Outcome<Option<String>> {
    let folder = match suite()? {
        Ok(folder) => folder,
        Err(why) => {
            return Ok(Some(format!(
                "SKIPPED: ModSecurity's regression suite was not run ({why})"
            )));
        }
    };
    let mut program = Command::new(artifacts.program(PROGRAM)?);
    program.arg(folder).arg(MODSECURITY_VERSION).arg("--compare").arg(cargo::root().join(PAGE));
    cargo::run(program.env("GLACIS_ROOT", cargo::root()))?;
    Ok(None)
}
