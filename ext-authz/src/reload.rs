//! Reading the configuration anew while requests are served.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use glacis_rules::{Record, RecordingSource};
use glacis_service::{
    command::Failure,
    config::ConfigError,
    reload::{Reload, attempt},
};

use crate::{config::Config, policy::Policy, shared::Shared};

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

impl Reading {
    /// Reads the file `path` and everything it names, for a process that starts.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn first(path: &Path) -> Result<Self, Failure> {
        let source = RecordingSource::new();
        let (config, policy) = read(path, &source)?;
        Ok(Self { config, policy, record: source.into_record() })
    }
}

fn read(path: &Path, source: &RecordingSource) -> Result<(Config, Policy), Failure> {
    source.note(path);
    let config = Config::load(path)?;
    let policy = Policy::build(&config, source);
    let policy = policy.map_err(|(key, message)| ConfigError::at(path, &key, &message))?;
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
        let source = RecordingSource::new();
        let read = read(&self.path, &source);
        self.record = source.into_record();
        let (config, policy) = read?;
        let restart_needed = self.started.differs_beyond_reload(&config);
        policy.log();
        self.shared.replace(policy);
        self.shared.reloads.wait_for_restart(restart_needed);
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
        let last = attempt("configuration", || self.try_reload());
        self.shared.metrics.service.reloads.count(last.error.is_none());
        self.shared.reloads.attempted(last);
    }
}
