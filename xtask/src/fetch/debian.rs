//! Programs out of Debian's packages. Most are not installed: apt verifies what it downloads, and the package is
//! unpacked into `.fetched/`. No service is started, and no privilege is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Folder;
use crate::cargo::{find_on_path, output};
use crate::failure::{self, Failure, Outcome};
use crate::machine;

/// The program on the path, or that of the package; or why there is neither.
pub(crate) fn program(name: &str, package: &str) -> Outcome<Result<PathBuf, String>> {
    if let Some(found) = find_on_path(name) {
        println!("{name}: {} is used", found.display());
        return Ok(Ok(found));
    }
    file(name, package, |place| Some(place.join("usr/bin").join(name)))
}

/// The library of the package, wherever it stands in it; or why there is none.
pub(crate) fn library(name: &str, package: &str) -> Outcome<Result<PathBuf, String>> {
    file(name, package, |place| below(&place.join("usr/lib"), name, FOLDERS_DEEP))
}

/// `usr/lib/x86_64-linux-gnu/faketime` is so deep.
const FOLDERS_DEEP: u32 = 3;

/// The first file of this name in a folder or those below it.
fn below(folder: &Path, name: &str, deep: u32) -> Option<PathBuf> {
    let here = folder.join(name);
    if here.is_file() {
        return Some(here);
    }
    let deeper = deep.checked_sub(1)?;
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::path);
    entries.iter().find_map(|entry| below(&entry.path(), name, deeper))
}

/// A file of a package that is brought where it is not there yet; `find` looks for it where the package is.
fn file(
    name: &str,
    package: &str,
    find: impl Fn(&Path) -> Option<PathBuf>,
) -> Outcome<Result<PathBuf, String>> {
    let place = super::path().join(format!("debian-{package}"));
    let found = || find(&place).filter(|file| file.is_file());
    if let Some(file) = found() {
        println!("{name}: already there");
        return Ok(Ok(file));
    }
    if find_on_path("apt-get").is_none() || find_on_path("dpkg-deb").is_none() {
        return Ok(Err(format!("no {name} here, and no apt-get that would bring {package}")));
    }
    println!("fetching {name} (Debian package {package})");
    if let Err(failure) = bring(package, &place) {
        return Ok(Err(failure.to_string()));
    }
    Ok(found().ok_or_else(|| format!("Debian's package {package} has no {name}")))
}

/// A folder with the files of these packages and of all that they need and this machine lacks, as apt would install it; or why
/// there is none.
pub(crate) fn tree(name: &str, packages: &[&str]) -> Outcome<Result<PathBuf, String>> {
    let place = super::path().join(format!("debian-{name}"));
    let pin = packages.join(" ");
    if super::is_stamped(&place, &pin) {
        println!("{name}: already there");
        return Ok(Ok(place));
    }
    if find_on_path("apt-get").is_none() || find_on_path("dpkg-deb").is_none() {
        return Ok(Err(format!("no apt-get that would bring {pin}")));
    }
    println!("fetching {name} (Debian packages {pin})");
    Ok(bring_tree(packages, &place, &pin).map(|()| place).map_err(|failure| failure.to_string()))
}

fn bring_tree(packages: &[&str], place: &Path, pin: &str) -> Outcome<()> {
    let folder = Folder::open()?;
    let scratch = folder.scratch()?;
    let told = with_lists(|| {
        let install = ["install", "--simulate", "--no-install-recommends"];
        output(Command::new("apt-get").args(install).args(packages))
    })?;
    let mut wanted = to_install(&told);
    // What is installed already is where its owner wants it, and not in the folder: it is needed there all the same.
    wanted
        .extend(packages.iter().copied().filter(|name| !wanted.contains(name)).collect::<Vec<_>>());
    output(Command::new("apt-get").arg("download").args(&wanted).current_dir(&scratch))?;
    let made = scratch.join("made");
    for entry in fs::read_dir(&scratch).map_err(failure::io("list", &scratch))?.flatten() {
        if entry.path().extension().is_some_and(|kind| kind == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(&made))?;
        }
    }
    folder.install(&made, place, pin)
}

/// The packages that are new, by what `apt-get install --simulate` tells: `Inst NAME (VERSION …)`. One that is only renewed has
/// its old version in brackets behind its name.
fn to_install(told: &str) -> Vec<&str> {
    let names = told.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_once(' '));
    names.filter(|(_, rest)| !rest.starts_with('[')).map(|(name, _)| name).collect()
}

/// The program on the path, which is installed where it is missing and we may do so: some do not work from a folder.
/// Or why there is none.
pub(crate) fn installed(name: &str, package: &str) -> Outcome<Result<PathBuf, String>> {
    if let Some(found) = find_on_path(name) {
        return Ok(Ok(found));
    }
    if find_on_path("apt-get").is_none() || !machine::is_root()? {
        return Ok(Err(format!("no {name} on the path; install {package}")));
    }
    println!("installing {package} (Debian)");
    let outcome = with_lists(|| {
        let install = ["install", "-y", "--no-install-recommends", package];
        output(Command::new("apt-get").args(install).env("DEBIAN_FRONTEND", "noninteractive"))
    });
    Ok(match (outcome, find_on_path(name)) {
        (Ok(_), Some(found)) => Ok(found),
        (Ok(_), None) => Err(format!("Debian's package {package} has no {name}")),
        (Err(failure), _) => Err(failure.to_string()),
    })
}

/// Asks apt. The lists of packages that are there may do; if not they are renewed, and it is asked once more.
fn with_lists(ask: impl Fn() -> Outcome<String>) -> Outcome<String> {
    ask().or_else(|_| {
        output(Command::new("apt-get").arg("update"))?;
        ask()
    })
}

fn bring(package: &str, place: &Path) -> Outcome<()> {
    let folder = Folder::open()?;
    let scratch = folder.scratch()?;
    with_lists(|| {
        output(Command::new("apt-get").args(["download", package]).current_dir(&scratch))
    })?;
    let mut entries = fs::read_dir(&scratch).map_err(failure::io("list", &scratch))?;
    let archive = entries
        .find_map(|entry| entry.ok().map(|entry| entry.path()))
        .ok_or_else(|| Failure::new(format!("apt-get left no package {package}")))?;
    let made = scratch.join("made");
    output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&made))?;
    folder.install(&made, place, package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_packages_are_told_from_those_that_are_renewed() {
        let told = "Reading package lists...\nInst libone1 (1.6 Debian:12 [amd64])\n\
                    Inst libtwo [2:3.8] (2:3.9 Debian-Security:12 [amd64]) []\n\
                    Inst nginx (1.22 Debian:12 [amd64])\nConf nginx (1.22 Debian:12 [amd64])\n";
        assert_eq!(to_install(told), ["libone1", "nginx"]);
        assert_eq!(to_install(""), [""; 0]);
    }
}
