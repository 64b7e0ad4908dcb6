//! Reading the configuration anew while requests are served.

use core::hash::{Hash as _, Hasher as _};
use std::{
    collections::BTreeMap,
    fs,
    hash::DefaultHasher,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use glacis_service::{
    command::Failure,
    reload::{self, Reload, attempt},
};

use crate::{config::Config, policy::Policy, service::Shared};

/// A configuration that was read, with all that it names.
#[derive(Debug)]
pub struct Reading {
    /// The configuration.
    pub config: Config,
    /// What it says of requests.
    pub policy: Policy,
    /// What was read, to notice when it changes.
    pub record: Record,
}

/// The files that were read, each with a digest of what was found.
#[derive(Clone, Debug, Default)]
pub struct Record {
    seen: BTreeMap<PathBuf, u64>,
}

impl Record {
    /// Remembers a file as it is now: to be called before it is read, so that a change in between is noticed.
    pub(crate) fn note(&mut self, path: &Path) {
        self.seen.insert(path.to_owned(), digest(path));
    }

    fn as_read(&self) -> u64 {
        combined(self.seen.values().copied())
    }

    fn now(&self) -> u64 {
        combined(self.seen.keys().map(|path| digest(path)))
    }
}

/// Changes are to be told from none, by people who may change the files: no need for cryptography.
fn digest(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read(path).map_err(|error| error.to_string()).hash(&mut hasher);
    hasher.finish()
}

fn combined(digests: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for digest in digests {
        digest.hash(&mut hasher);
    }
    hasher.finish()
}

impl Reading {
    /// Reads the file `path` and everything it names, for a process that starts.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn first(path: &Path) -> Result<Self, Failure> {
        let mut record = Record::default();
        let (config, policy) = read(path, &mut record)?;
        Ok(Self { config, policy, record })
    }
}

fn read(path: &Path, record: &mut Record) -> Result<(Config, Policy), Failure> {
    record.note(path);
    let config = Config::load(path)?;
    let policy = Policy::new(&config);
    Ok((config, policy))
}

/// Reads the configuration of a running service anew. What is not good changes nothing.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    shared: Arc<Shared>,
    /// The configuration of the start: what cannot be changed while the process runs.
    started: Config,
    record: Record,
}

impl Reloader {
    pub(crate) fn new(path: &Path, shared: Arc<Shared>, started: Config, record: Record) -> Self {
        Self { path: path.to_owned(), shared, started, record }
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut record = Record::default();
        let read = read(&self.path, &mut record);
        self.record = record;
        let (config, policy) = read?;
        let restart_needed = self.started.differs_beyond_reload(&config);
        reload::restart_needed(&restart_needed);
        self.shared.replace(policy);
        let mut reloads = self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        reloads.restart_needed = restart_needed;
        drop(reloads);
        Ok(())
    }
}

impl Reload for Reloader {
    fn as_read(&self) -> u64 {
        self.record.as_read()
    }

    fn now(&self) -> u64 {
        self.record.now()
    }

    fn reload(&mut self) {
        let last = attempt(|| self.try_reload());
        self.shared.metrics.reloaded(last.error.is_none());
        self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner).last = Some(last);
    }
}
