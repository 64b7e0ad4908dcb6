//! What a ruleset was read from, so that a change can be noticed.

use core::hash::{Hash, Hasher as _};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    hash::DefaultHasher,
    path::{Path, PathBuf},
    sync::Arc,
};

use glacis_engine::{ApiDescription, Input, Source, SourceError, SourceFile};

use crate::{FileSource, crs};

/// A [`FileSource`] that remembers what was read through it.
#[derive(Debug, Default)]
pub struct RecordingSource {
    source: FileSource,
    record: RefCell<Record>,
}

/// Everything that was read, each with a digest of what was found; that there was nothing, or that it
/// could not be read, is a finding as well.
///
/// Contents are compared, not times of change: a folder whose links are exchanged at once (as Kubernetes
/// does with a ConfigMap) is noticed, and a file that is touched is not.
#[derive(Clone, Debug, Default)]
pub struct Record {
    seen: BTreeMap<Seen, u64>,
}

/// One question to the file system. What is relative is so to the file in which it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    File { path: String, from: String },
    List { pattern: String, from: String },
    Crs(PathBuf),
}

impl RecordingSource {
    /// A source that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers a file that is read in some other way, as it is now: to be called before it is read,
    /// so that a change in between is noticed.
    pub fn note(&self, path: &Path) {
        let file = Seen::File { path: path.to_string_lossy().into_owned(), from: String::new() };
        let digest = file.look(self.source);
        self.record.borrow_mut().seen.insert(file, digest);
    }

    /// As [`crs`](crate::crs).
    ///
    /// # Errors
    /// As there.
    pub fn crs(&self, dir: &Path) -> Result<Vec<Input>, SourceError> {
        let inputs = crs(dir);
        self.record.borrow_mut().seen.insert(Seen::Crs(dir.to_owned()), digest_of_crs(&inputs));
        inputs
    }

    /// What was read.
    #[must_use]
    pub fn into_record(self) -> Record {
        self.record.into_inner()
    }
}

impl Source for RecordingSource {
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError> {
        let file = self.source.read(path, from);
        let seen = Seen::File { path: path.to_owned(), from: from.to_owned() };
        self.record.borrow_mut().seen.insert(seen, digest_of_file(&file));
        file
    }

    fn api_description(
        &self,
        file: &SourceFile,
        base_path: Option<&str>,
    ) -> Result<Arc<dyn ApiDescription>, SourceError> {
        self.source.api_description(file, base_path)
    }

    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError> {
        let files = self.source.list(pattern, from);
        let seen = Seen::List { pattern: pattern.to_owned(), from: from.to_owned() };
        self.record.borrow_mut().seen.insert(seen, digest_of_list(&files));
        files
    }
}

impl Record {
    /// A number that stands for what was found.
    #[must_use]
    pub fn as_read(&self) -> u64 {
        digest(&self.seen.values().collect::<Vec<_>>())
    }

    /// The same number for what would be found now; it takes reading every file once.
    #[must_use]
    pub fn now(&self) -> u64 {
        let source = FileSource::new();
        digest(&self.seen.keys().map(|seen| seen.look(source)).collect::<Vec<_>>())
    }
}

impl Seen {
    fn look(&self, source: FileSource) -> u64 {
        match self {
            Self::File { path, from } => digest_of_file(&source.read(path, from)),
            Self::List { pattern, from } => digest_of_list(&source.list(pattern, from)),
            Self::Crs(dir) => digest_of_crs(&crs(dir)),
        }
    }
}

fn digest_of_file(file: &Result<SourceFile, SourceError>) -> u64 {
    digest(&file.as_ref().map(|file| &file.bytes).map_err(ToString::to_string))
}

fn digest_of_list(files: &Result<Vec<String>, SourceError>) -> u64 {
    digest(&files.as_ref().map_err(ToString::to_string))
}

/// The inputs of CRS are names of files, and the base configuration, which is always the same.
fn digest_of_crs(inputs: &Result<Vec<Input>, SourceError>) -> u64 {
    digest(&format!("{inputs:?}"))
}

/// Changes are to be told from none, by people who may change the files: no need for cryptography.
fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
