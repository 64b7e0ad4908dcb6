//! Reading configuration and rules anew while requests are served.

use core::hash::{Hash, Hasher as _};
use std::{
    hash::DefaultHasher,
    path::{Path, PathBuf},
    sync::Arc,
};

use glacis_rules::{Date, Exclusion, Record, RecordingSource};
use glacis_service::{
    command::Failure,
    now,
    reload::{Reload, attempt},
};

use crate::{
    config::Config,
    document::Document,
    ruleset::{Host, Rulesets},
    shared::Shared,
};

/// A configuration that was read, with all that it names.
#[derive(Debug)]
pub struct Reading {
    /// The configuration.
    pub config: Config,
    /// Its rules, compiled.
    pub rulesets: Rulesets,
    /// What outlives them.
    pub host: Host,
    /// What was read, to notice when it changes.
    pub record: Record,
    /// The configuration as it stands in the file.
    pub document: Document,
}

impl Reading {
    /// Reads the file `path` and everything it names, for a process that starts.
    ///
    /// # Errors
    /// What is wrong with the configuration or with the rules.
    pub fn first(path: &Path) -> Result<Self, Failure> {
        Self::read(path, |config| Ok(Host::new(config)?)).1
    }

    /// Reads them for a process that only looks at them: nobody is asked over the network.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub fn check(path: &Path) -> Result<Self, Failure> {
        Self::read(path, |config| Ok(Host::alone(config))).1
    }

    /// Reads it, for a host that is made when the configuration is found good. The record is of all that was read,
    /// also when it is not good.
    fn read(
        path: &Path,
        host: impl FnOnce(&Config) -> Result<Host, Failure>,
    ) -> (Record, Result<Self, Failure>) {
        let source = RecordingSource::new();
        let compiled = compile(path, host, &source);
        let record = source.into_record();
        let reading = compiled.map(|mut reading| {
            reading.record = record.clone();
            reading.rulesets.read_from(record.clone());
            reading
        });
        (record, reading)
    }
}

fn compile(
    path: &Path,
    host: impl FnOnce(&Config) -> Result<Host, Failure>,
    source: &RecordingSource,
) -> Result<Reading, Failure> {
    source.note(path);
    let config = Config::load(path)?;
    let document = Document::load(path)?;
    let host = host(&config)?;
    let rulesets = Rulesets::build(&config, &host, source, now())?;
    Ok(Reading { config, rulesets, host, record: Record::default(), document })
}

/// Reads the configuration of a running service anew.
///
/// Rules are compiled on the thread that calls, away from those that serve, and take the place of the old
/// ones at once. Exchanges that have begun keep the rules they began with. What is not good changes
/// nothing, and neither does a ruleset that lets its canary pass.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    shared: Arc<Shared>,
    host: Host,
    /// The configuration of the start: what cannot be changed while the process runs.
    started: Config,
    record: Record,
    /// When what is in the record was read: exclusions end with a day.
    read_on: Date,
}

impl Reloader {
    pub(crate) fn new(
        path: &Path,
        shared: Arc<Shared>,
        started: Config,
        host: Host,
        record: Record,
    ) -> Self {
        Self { path: path.to_owned(), shared, host, started, record, read_on: Date::at(now()) }
    }

    /// Which of the exclusions in use hold on this day, as a number: when it changes, rules have to be
    /// compiled anew although no file has changed.
    fn holding(&self, today: Date) -> u64 {
        let rulesets = self.shared.rulesets();
        let exclusions = rulesets.exclusions().iter().map(|loaded| &loaded.exclusion);
        let holding: Vec<bool> =
            exclusions.map(|exclusion: &Exclusion| exclusion.holds_on(today)).collect();
        let mut hasher = DefaultHasher::new();
        holding.hash(&mut hasher);
        hasher.finish()
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        self.read_on = Date::at(now());
        let (record, reading) = Reading::read(&self.path, |_| Ok(self.host.clone()));
        self.record = record;
        let Reading { config, rulesets, document, .. } = reading?;
        let silent = rulesets.silent();
        if !silent.is_empty() && !self.started.canary_seconds.is_zero() {
            let message = format!("a known attack passes the rules of: {}", silent.join(", "));
            return Err(message.into());
        }
        let restart_needed = self.started.differs_beyond_reload(&config);
        rulesets.log();
        self.shared.replace(rulesets);
        self.shared.in_use(document);
        self.shared.reloads.wait_for_restart(restart_needed);
        Ok(())
    }
}

impl Reload for Reloader {
    fn as_read(&self) -> u64 {
        self.record.as_read() ^ self.holding(self.read_on)
    }

    fn now(&self) -> u64 {
        self.record.now() ^ self.holding(Date::at(now()))
    }

    fn reload(&mut self) {
        let last = attempt("configuration", || self.try_reload());
        self.host.forget_unused_rules();
        self.shared.metrics().reloaded(last.error.is_none());
        self.shared.reloads.attempted(last);
    }
}
