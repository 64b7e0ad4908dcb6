//! A folder with the OWASP Core Rule Set, as downloaded.

use std::path::{Path, PathBuf};

use glacis_engine::{Input, Source as _, SourceError};

use crate::{FileSource, base};

/// The ruleset made of [`base`] and the CRS in `dir`, in the order that CRS's documentation gives:
/// set-up, plugins' configuration, plugins that come before, rules, plugins that come after.
///
/// `dir` is an unpacked release (`crs-setup.conf` or `crs-setup.conf.example`, `rules/`, perhaps
/// `plugins/`), or a folder laid out as in the module `coraza-coreruleset` (`@crs-setup.conf.example`,
/// `@owasp_crs/`, also below `rules/`). A `crs-setup.conf` of the user's is preferred to the example.
///
/// # Errors
/// When the folder, the set-up file or the rules are not there or cannot be listed. The files
/// themselves are read when the program is built.
pub fn crs(dir: &Path) -> Result<Vec<Input>, SourceError> {
    if !dir.is_dir() {
        return Err(SourceError::new(format!("{}: there is no such folder", dir.display())));
    }
    let setup = first(dir, SETUP, Path::is_file, "crs-setup.conf or crs-setup.conf.example")?;
    let folder = first(dir, RULES, holds_rules, "rules/*.conf")?;
    let mut inputs = vec![base(), Input::File(text(&setup)?)];
    inputs.extend(files(&dir.join("plugins/*-config.conf"))?);
    inputs.extend(files(&dir.join("plugins/*-before.conf"))?);
    inputs.extend(files(&folder.join("*.conf"))?);
    inputs.extend(files(&dir.join("plugins/*-after.conf"))?);
    Ok(inputs)
}

/// Where the set-up file may be, the preferred place first.
const SETUP: &[&str] = &[
    "crs-setup.conf",
    "crs-setup.conf.example",
    "@crs-setup.conf.example",
    "rules/@crs-setup.conf.example",
];

/// Where the rules may be.
const RULES: &[&str] = &["rules", "@owasp_crs", "rules/@owasp_crs"];

fn first(
    dir: &Path,
    places: &[&str],
    fits: impl Fn(&Path) -> bool,
    what: &str,
) -> Result<PathBuf, SourceError> {
    let found = places.iter().map(|place| dir.join(place)).find(|path| fits(path));
    found.ok_or_else(|| {
        let place = dir.display();
        SourceError::new(format!("{place}: no {what} in it; is it a folder of the Core Rule Set?"))
    })
}

fn holds_rules(folder: &Path) -> bool {
    files(&folder.join("*.conf")).is_ok_and(|files| !files.is_empty())
}

/// The files that a pattern stands for. The folder is literal: only the last component is a pattern.
fn files(pattern: &Path) -> Result<Vec<Input>, SourceError> {
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let found = FileSource::new().list(name, &text(pattern)?)?;
    Ok(found.into_iter().map(Input::File).collect())
}

fn text(path: &Path) -> Result<String, SourceError> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(SourceError::new(format!("{}: the name is not UTF-8", path.display()))),
    }
}
