//! The OWASP Core Rule Set: the user's own folder, or the pinned release from its Go module.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Folder, State, go, is_stamped};
use crate::cargo;
use crate::digest::{self, Sums};
use crate::failure::{self, Failure, Outcome};
use crate::pins::{CRS_MODULE, CRS_VERSION};

pub(super) fn label() -> String {
    format!("OWASP CRS {CRS_VERSION} (Go module, 5 MB)")
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
    let (made, actual) = lay_out(folder)?;
    let differences = digest::differences(&pinned, &actual);
    if !differences.is_empty() {
        return Err(Failure::new(format!("it is not what is pinned:\n{}", differences.join("\n"))));
    }
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

/// Downloads the module and copies what we use of it into the layout of a CRS release.
fn lay_out(folder: &Folder) -> Outcome<(PathBuf, Sums)> {
    let scratch = folder.scratch()?;
    let module = go::module(CRS_MODULE, &scratch)?;
    let made = scratch.join("made");
    let mut sums = Sums::new();
    for (source, name) in wanted(&module)? {
        let bytes = fs::read(&source).map_err(failure::io("read", &source))?;
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
