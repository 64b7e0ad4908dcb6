//! Rule and data files on disk.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use glacis_engine::{ApiDescription, Source, SourceError, SourceFile};
use glacis_openapi::Document;

use crate::glob;

/// Bytes of a rule or data file: 64 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Files that one pattern or folder may stand for.
const LISTED_MAX: usize = 10_000;

/// How deep an included folder may be nested; more is taken for a loop of links.
const FOLDER_DEPTH_MAX: usize = 16;

/// A [`Source`] that reads the file system.
///
/// Paths written in a file are relative to that file's folder, those of the ruleset's own list to the
/// current folder. Files are at most 64 MiB. A pattern may have `*`, `?` and `[…]` in any component;
/// a folder stands for all files below it, as for Apache's `Include`. Hidden files and folders are
/// left out unless named. Names that are not UTF-8 are an error.
#[derive(Clone, Copy, Debug)]
pub struct FileSource {
    bytes_max: u64,
}

impl Default for FileSource {
    fn default() -> Self {
        Self { bytes_max: FILE_BYTES_MAX }
    }
}

impl FileSource {
    /// A source with the usual limit of 64 MiB a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another limit, in bytes, for one file.
    #[must_use]
    pub const fn with_bytes_max(bytes_max: u64) -> Self {
        Self { bytes_max }
    }
}

impl Source for FileSource {
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError> {
        let path = resolve(path, from);
        let name = name_of(&path)?;
        let fault = |error: io::Error| fault(&path, &error);
        let mut bytes = Vec::new();
        // One byte more than allowed is enough to know, whatever size the file says it has.
        File::open(&path)
            .map_err(fault)?
            .take(self.bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(fault)?;
        if bytes.len() as u64 > self.bytes_max {
            let max = self.bytes_max;
            return Err(SourceError::new(format!("{name}: larger than {max} bytes")));
        }
        Ok(SourceFile { name, bytes })
    }

    fn api_description(
        &self,
        file: &SourceFile,
        base_path: Option<&str>,
    ) -> Result<Arc<dyn ApiDescription>, SourceError> {
        match Document::compile(&file.bytes, base_path) {
            Ok(document) => Ok(Arc::new(document)),
            Err(error) => Err(SourceError::new(format!("{}: {error}", file.name))),
        }
    }

    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError> {
        let mut files = Vec::new();
        if glob::has_wildcard(pattern) {
            let mut found = Vec::new();
            expand(&folder_of(from), &components(pattern), &mut found)?;
            for path in found {
                collect(&path, 0, &mut files)?;
            }
        } else {
            let path = resolve(pattern, from);
            // A link to nothing exists as far as its author can see: reading it will say so.
            if path.exists() || path.is_symlink() {
                collect(&path, 0, &mut files)?;
            }
        }
        files.iter().map(|path| name_of(path)).collect()
    }
}

/// The folder in which the file `from` lies; empty for the current one.
fn folder_of(from: &str) -> PathBuf {
    Path::new(from).parent().map(Path::to_owned).unwrap_or_default()
}

/// `path` as written in `from`. Leading `./` is dropped, so that messages are short.
fn resolve(path: &str, from: &str) -> PathBuf {
    let path = folder_of(from).join(path);
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn name_of(path: &Path) -> Result<String, SourceError> {
    match path.to_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err(SourceError::new(format!("{}: the name is not UTF-8", path.display()))),
    }
}

fn fault(path: &Path, error: &io::Error) -> SourceError {
    SourceError::new(format!("{}: {error}", path.display()))
}

/// The components of a pattern; the first is `/` for an absolute one.
fn components(pattern: &str) -> Vec<&str> {
    let root = pattern.starts_with('/').then_some("/");
    let rest = pattern.split('/').filter(|part| !part.is_empty() && *part != ".");
    root.into_iter().chain(rest).collect()
}

/// Adds the paths below `base` that `pattern`, given by components, stands for, sorted.
fn expand(base: &Path, pattern: &[&str], found: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let Some((&first, rest)) = pattern.split_first() else {
        return push(found, base.to_owned());
    };
    if !glob::has_wildcard(first) {
        let path = base.join(first);
        return if path.exists() { expand(&path, rest, found) } else { Ok(()) };
    }
    for name in entries(base)? {
        if glob::matches(first, &name) {
            let path = base.join(&name);
            if rest.is_empty() || path.is_dir() {
                expand(&path, rest, found)?;
            }
        }
    }
    Ok(())
}

/// Adds `path`, or all files below it if it is a folder.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    if !path.is_dir() {
        return push(files, path.to_owned());
    }
    if depth >= FOLDER_DEPTH_MAX {
        let message = format!("{}: more than {FOLDER_DEPTH_MAX} folders deep", path.display());
        return Err(SourceError::new(message));
    }
    for name in entries(path)? {
        if !name.starts_with('.') {
            collect(&path.join(name), depth + 1, files)?;
        }
    }
    Ok(())
}

/// The names in a folder, sorted. `folder` is empty for the current one.
fn entries(folder: &Path) -> Result<Vec<String>, SourceError> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !here.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(here).map_err(|error| fault(here, &error))? {
        let entry = entry.map_err(|error| fault(here, &error))?;
        names.push(name_of(Path::new(&entry.file_name()))?);
        limit(names.len(), here)?;
    }
    names.sort_unstable();
    Ok(names)
}

fn push(paths: &mut Vec<PathBuf>, path: PathBuf) -> Result<(), SourceError> {
    limit(paths.len() + 1, &path)?;
    paths.push(path);
    Ok(())
}

fn limit(count: usize, path: &Path) -> Result<(), SourceError> {
    if count > LISTED_MAX {
        return Err(SourceError::new(format!("{}: more than {LISTED_MAX} files", path.display())));
    }
    Ok(())
}
