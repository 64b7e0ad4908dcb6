//! Reading configuration and rules anew while requests are served.

use core::hash::{Hash, Hasher as _};
use std::{
    hash::DefaultHasher,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use glacis_rules::{Date, Exclusion, Record, RecordingSource};
use glacis_service::{
    command::Failure,
    now,
    reload::{self, LastReload, Reload, attempt},
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
        Self::read(path, None).1
    }

    /// Reads it. The record is of all that was read, also when it is not good.
    fn read(path: &Path, host: Option<&Host>) -> (Record, Result<Self, Failure>) {
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

fn compile(path: &Path, host: Option<&Host>, source: &RecordingSource) -> Result<Reading, Failure> {
    source.note(path);
    let config = Config::load(path)?;
    let document = Document::load(path)?;
    let host = host.map_or_else(|| Host::new(&config), |host| Ok(host.clone()))?;
    let rulesets = Rulesets::build(&config, &host, source, now())?;
    Ok(Reading { config, rulesets, host, record: Record::default(), document })
}

/// What became of readings while the service runs, for the admin port.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) last: Option<LastReload>,
    /// The configuration in use, as it stood in its file.
    pub(crate) document: Document,
    /// The keys that differ from the start and are read only then.
    pub(crate) restart_needed: Vec<&'static str>,
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
        let (record, reading) = Reading::read(&self.path, Some(&self.host));
        self.record = record;
        let Reading { config, rulesets, document, .. } = reading?;
        let silent = rulesets.silent();
        if !silent.is_empty() && !self.started.canary_seconds.is_zero() {
            let message = format!("a known attack passes the rules of: {}", silent.join(", "));
            return Err(message.into());
        }
        let restart_needed = self.started.differs_beyond_reload(&config);
        reload::restart_needed(&restart_needed);
        rulesets.log();
        self.shared.replace(rulesets);
        let mut reloads = self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        reloads.document = document;
        reloads.restart_needed = restart_needed;
        drop(reloads);
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
        let last = attempt(|| self.try_reload());
        self.host.forget_unused_rules();
        self.shared.metrics().reloaded(last.error.is_none());
        self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner).last = Some(last);
    }
}
