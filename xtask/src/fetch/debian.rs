//! Programs out of Debian's packages, without installing them: apt verifies what it downloads, and the package is
//! unpacked into `.fetched/`. No service is started, and no privilege is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Folder;
use crate::cargo::{find_on_path, output};
use crate::failure::{self, Failure, Outcome};

/// The program on the path, or that of the package; or why there is neither.
pub(crate) fn program(name: &str, package: &str) -> Outcome<Result<PathBuf, String>> {
    if let Some(found) = find_on_path(name) {
        println!("{name}: {} is used", found.display());
        return Ok(Ok(found));
    }
    let place = super::path().join(format!("debian-{package}"));
    let program = place.join("usr/bin").join(name);
    if program.is_file() {
        println!("{name}: already there");
        return Ok(Ok(program));
    }
    if find_on_path("apt-get").is_none() || find_on_path("dpkg-deb").is_none() {
        return Ok(Err(format!(
            "no {name} on the path, and no apt-get that would bring {package}"
        )));
    }
    println!("fetching {name} (Debian package {package})");
    match bring(package, &place) {
        Ok(()) if program.is_file() => Ok(Ok(program)),
        Ok(()) => Ok(Err(format!("Debian's package {package} has no {name}"))),
        Err(failure) => Ok(Err(failure.to_string())),
    }
}

fn bring(package: &str, place: &Path) -> Outcome<()> {
    let folder = Folder::open()?;
    let scratch = folder.scratch()?;
    let download =
        || output(Command::new("apt-get").args(["download", package]).current_dir(&scratch));
    // Lists of packages that are there may do; without them they are brought first.
    download().or_else(|_| {
        output(Command::new("apt-get").arg("update"))?;
        download()
    })?;
    let mut entries = fs::read_dir(&scratch).map_err(failure::io("list", &scratch))?;
    let archive = entries
        .find_map(|entry| entry.ok().map(|entry| entry.path()))
        .ok_or_else(|| Failure::new(format!("apt-get left no package {package}")))?;
    let made = scratch.join("made");
    output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&made))?;
    folder.install(&made, place, package)
}
