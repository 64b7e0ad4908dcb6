//! The OWASP Core Rule Set: the user's own folder, or the pinned release: its archive, or its Go module.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Folder, State, download, go, is_stamped};
use crate::cargo::{self, find_on_path};
use crate::digest::{self, Sums};
use crate::failure::{self, Failure, Outcome};
use crate::pins::{CRS_MODULE, CRS_VERSION};

pub(super) fn label() -> String {
    format!("OWASP CRS {CRS_VERSION} (5 MB)")
}

/// `GLACIS_CRS_DIR` wins and must look like CRS.
pub(super) fn state() -> Outcome<State> {
    if let Some(named) = std::env::var_os("GLACIS_CRS_DIR").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        if !named.join("rules").is_dir() {
            let named = named.display();
            return Err(Failure::new(format!("GLACIS_CRS_DIR={named} has no folder `rules`")));
        }
        let whence = format!("OWASP CRS: GLACIS_CRS_DIR={} is used", named.display());
        return Ok(State::Ready(named, whence));
    }
    let (_, pin) = pinned()?;
    let folder = super::path().join(format!("crs-{CRS_VERSION}"));
    Ok(if is_stamped(&folder, &pin) && folder.join("rules").is_dir() {
        State::Ready(folder, format!("OWASP CRS {CRS_VERSION}: already there"))
    } else {
        State::Missing(folder)
    })
}

/// Downloads, compares each file with its pin, installs.
pub(super) fn bring(folder: &Folder, place: &Path) -> Outcome<()> {
    let (pinned, pin) = pinned()?;
    let verified = |(made, actual): (PathBuf, Sums)| {
        let differences = digest::differences(&pinned, &actual);
        if differences.is_empty() {
            return Ok(made);
        }
        Err(Failure::new(format!("it is not what is pinned:\n{}", differences.join("\n"))))
    };
    let made = download::or_else(
        || verified(lay_out_release(folder)?),
        find_on_path("go").is_some(),
        || verified(lay_out(folder)?),
    )?;
    folder.install(&made, place, &pin)
}

/// Takes the release named in `pins.rs` as it comes and pins its files.
pub(super) fn write_pins(folder: &Folder) -> Outcome<()> {
    let (_, actual) = lay_out(folder)?;
    let path = pins_path();
    fs::write(&path, digest::render_sums(&actual)).map_err(failure::io("write", &path))?;
    println!("{} files of {CRS_MODULE} are pinned in {}", actual.len(), path.display());
    Ok(())
}

fn pins_path() -> PathBuf {
    cargo::root().join(format!("rules/crs-{CRS_VERSION}.sha256"))
}

/// The pinned files, and the digest of the list itself: the stamp of what was verified with it.
fn pinned() -> Outcome<(Sums, String)> {
    let path = pins_path();
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let sums = digest::parse_sums(&text)
        .map_err(|failure| Failure::new(format!("{}: {failure}", path.display())))?;
    Ok((sums, digest::of_bytes(text.as_bytes())))
}

/// Downloads the archive of the release and lays its files out as the module has them.
fn lay_out_release(folder: &Folder) -> Outcome<(PathBuf, Sums)> {
    let scratch = folder.scratch()?;
    let release = scratch.join("release");
    let archive = format!("coreruleset/coreruleset/archive/refs/tags/v{CRS_VERSION}.tar.gz");
    download::unpack(&archive, &release)?;
    let mut wanted = vec![
        (release.join("LICENSE"), "LICENSE".to_owned()),
        (release.join("crs-setup.conf.example"), "crs-setup.conf.example".to_owned()),
    ];
    collect(&release.join("rules"), "rules", &["conf", "data"], &mut wanted)?;
    collect(&release.join("tests/regression/tests"), "tests", &["yaml"], &mut wanted)?;
    copy(&scratch, wanted, |name, bytes| {
        if name.starts_with("rules/") { without_comments(&bytes) } else { bytes }
    })
}

/// Lines at the beginning of a file of rules that stay as they are: its licence.
const HEADING_LINES: usize = 9;

/// A file of rules as the module has it: without comments and empty lines below its heading.
fn without_comments(file: &[u8]) -> Vec<u8> {
    let text = file.strip_suffix(b"\n").unwrap_or(file);
    let mut kept = Vec::with_capacity(file.len());
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let content = line.trim_ascii();
        if number < HEADING_LINES || !(content.is_empty() || content.starts_with(b"#")) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
    }
    kept
}

/// Downloads the module and copies what we use of it into the layout of a CRS release.
fn lay_out(folder: &Folder) -> Outcome<(PathBuf, Sums)> {
    let scratch = folder.scratch()?;
    let module = go::module(CRS_MODULE, &scratch)?;
    copy(&scratch, wanted(&module)?, |_, bytes| bytes)
}

/// Copies files, each under its name and as `change` returns it, and takes their digests.
fn copy(
    scratch: &Path,
    files: Vec<(PathBuf, String)>,
    change: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) -> Outcome<(PathBuf, Sums)> {
    let made = scratch.join("made");
    let mut sums = Sums::new();
    for (source, name) in files {
        let bytes = fs::read(&source).map_err(failure::io("read", &source))?;
        let bytes = change(&name, bytes);
        let target = made.join(&name);
        let parent = target.parent().unwrap_or(&made);
        fs::create_dir_all(parent).map_err(failure::io("create", parent))?;
        // Written anew rather than copied: the module cache is read-only, and a copy would be too.
        fs::write(&target, &bytes).map_err(failure::io("write", &target))?;
        sums.insert(name, digest::of_bytes(&bytes));
    }
    Ok((made, sums))
}

/// Which files of the module we take, and under which name.
fn wanted(module: &Path) -> Outcome<Vec<(PathBuf, String)>> {
    let mut wanted = vec![
        (module.join("rules/LICENSE"), "LICENSE".to_owned()),
        (module.join("rules/@crs-setup.conf.example"), "crs-setup.conf.example".to_owned()),
    ];
    collect(&module.join("rules/@owasp_crs"), "rules", &["conf", "data"], &mut wanted)?;
    collect(&module.join("tests"), "tests", &["yaml"], &mut wanted)?;
    Ok(wanted)
}

/// Adds the files below `folder` that have one of the extensions, named below `prefix`.
fn collect(
    folder: &Path,
    prefix: &str,
    extensions: &[&str],
    wanted: &mut Vec<(PathBuf, String)>,
) -> Outcome<()> {
    for entry in fs::read_dir(folder).map_err(failure::io("list", folder))? {
        let path = entry.map_err(failure::io("list", folder))?.path();
        let name = format!("{prefix}/{}", path.file_name().unwrap_or_default().display());
        let extension = path.extension().unwrap_or_default();
        if path.is_dir() {
            collect(&path, &name, extensions, wanted)?;
        } else if extensions.iter().any(|known| extension == *known) {
            wanted.push((path, name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_below_the_heading_go() {
        let heading = "# 1\n#\n\n# 4\n5\n6\n7\n8\n9\n";
        for (file, expected) in [
            ("\n# a\nSecRule A\n  # b\n\n  \nSecRule B", "SecRule A\nSecRule B\n"),
            ("SecRule A \\\n    \"# c\"\n", "SecRule A \\\n    \"# c\"\n"),
            ("", ""),
        ] {
            let made = without_comments(format!("{heading}{file}").as_bytes());
            assert_eq!(String::from_utf8(made).unwrap(), format!("{heading}{expected}"));
        }
        assert_eq!(without_comments(b"1\n"), b"1\n");
    }
}
