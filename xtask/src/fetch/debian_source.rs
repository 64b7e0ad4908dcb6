//! Sources of Debian's packages: apt downloads and verifies them from where the machine has its packages from. Nothing on
//! the machine is changed: apt's lists and its cache for it are in a folder of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Folder, is_stamped};
use crate::cargo::{find_on_path, output};
use crate::digest;
use crate::failure::{self, Failure, Outcome};

/// What is taken of a source package.
pub(crate) struct Source {
    /// The package.
    pub(crate) package: &'static str,
    /// The version of its authors, without Debian's revision.
    pub(crate) version: &'static str,
    /// Digest of its authors' archive.
    pub(crate) sha256: &'static str,
    /// The folder of it that is unpacked, as a pattern of tar's.
    pub(crate) folder: &'static str,
}

/// Where apt is told of the machine's packages.
const SOURCES: &str = "/etc/apt";

impl Source {
    /// The folder with the unpacked one, or why there is none.
    pub(crate) fn ensure(&self) -> Outcome<Result<PathBuf, String>> {
        let Self { package, version, sha256, .. } = self;
        let place = super::path().join(format!("{package}-{version}"));
        if is_stamped(&place, sha256) {
            println!("sources of {package} {version}: already there");
            return Ok(Ok(place));
        }
        if let Some(program) = ["apt-get", "tar"].iter().find(|name| find_on_path(name).is_none()) {
            return Ok(Err(format!("no {program} that would bring sources of {package}")));
        }
        println!("fetching sources of {package} {version} (Debian)");
        self.bring(&place).map(|brought| brought.map(|()| place))
    }

    fn bring(&self, place: &Path) -> Outcome<Result<(), String>> {
        let Self { package, version, sha256, folder: wanted } = self;
        let folder = Folder::open()?;
        let scratch = folder.scratch()?;
        let apt = Apt::new(&scratch)?;
        // Some of the machine's repositories may have no sources; that matters only if the package is not found.
        let updated = output(apt.command().arg("update"));
        let source = ["source", "--download-only", "--only-source", package];
        if let Err(failure) = output(apt.command().args(source)) {
            return Ok(Err(updated.err().unwrap_or(failure).to_string()));
        }
        let archive = scratch.join(format!("{package}_{version}.orig.tar.gz"));
        if !archive.is_file() {
            return Ok(Err(format!("apt has another version of {package} than {version}")));
        }
        digest::verify(&archive, sha256)?;
        let made = scratch.join("made");
        fs::create_dir(&made).map_err(failure::io("create", &made))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(&made);
        output(tar.args(["--strip-components=1", "--wildcards", wanted]))?;
        folder.install(&made, place, sha256)?;
        Ok(Ok(()))
    }
}

/// apt with lists of sources instead of programs.
struct Apt {
    scratch: PathBuf,
}

impl Apt {
    fn new(scratch: &Path) -> Outcome<Self> {
        for folder in ["sources", "lists/partial", "cache/archives/partial"] {
            let folder = scratch.join(folder);
            fs::create_dir_all(&folder).map_err(failure::io("create", &folder))?;
        }
        let mut written = 0;
        for file in source_lists() {
            let name = file.file_name().unwrap_or_default();
            let text = fs::read_to_string(&file).map_err(failure::io("read", &file))?;
            let copy = scratch.join("sources").join(name);
            fs::write(&copy, of_sources(&text)).map_err(failure::io("write", &copy))?;
            written += 1;
        }
        if written == 0 {
            return Err(Failure::new(format!("no lists of packages in {SOURCES}")));
        }
        Ok(Self { scratch: scratch.to_path_buf() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        let place = |option: &str, folder: &str| {
            format!("Dir::{option}={}", self.scratch.join(folder).display())
        };
        for option in [
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            place("Etc::SourceParts", "sources"),
            place("State::Lists", "lists"),
            place("Cache", "cache"),
        ] {
            command.args(["-o", &option]);
        }
        command.current_dir(&self.scratch);
        command
    }
}

/// The files in which apt is told of packages.
fn source_lists() -> Vec<PathBuf> {
    let top = Path::new(SOURCES);
    let parts = fs::read_dir(top.join("sources.list.d")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    files.push(top.join("sources.list"));
    files.retain(|file| {
        let kind = file.extension().and_then(|kind| kind.to_str());
        file.is_file() && matches!(kind, Some("list" | "sources"))
    });
    files.sort();
    files
}

/// The text of such a file, with sources in place of programs, in either of its two forms.
fn of_sources(text: &str) -> String {
    let of_line = |line: &str| {
        if line.starts_with("Types:") {
            return "Types: deb-src\n".to_owned();
        }
        let rest = line.strip_prefix("deb ").or_else(|| line.strip_prefix("deb\t"));
        rest.map_or_else(|| format!("{line}\n"), |rest| format!("deb-src {rest}\n"))
    };
    text.lines().map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_programs_become_lists_of_sources() {
        let one =
            "# deb\ndeb [signed-by=/k] http://a.example b main\ndeb-src http://a.example b main\n";
        let other = "# deb\ndeb-src [signed-by=/k] http://a.example b main\ndeb-src http://a.example b main\n";
        assert_eq!(of_sources(one), other);
        assert_eq!(of_sources("Types: deb\nURIs: u\n"), "Types: deb-src\nURIs: u\n");
        assert_eq!(of_sources("Types: deb deb-src\nURIs: u"), "Types: deb-src\nURIs: u\n");
    }
}
