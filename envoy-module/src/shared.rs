//! What the streams of a filter configuration share with its threads: rules, budgets, sinks.

use core::time::Duration;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use glacis_engine::{CollectionStore, Limits, MemoryStore};
use glacis_host::admission;
use glacis_inspector::Rejection;
use glacis_service::{
    Losses,
    sink::{LineSink, RotatedFile},
};

use crate::{
    config::Config,
    in_use::InUse,
    metrics::{InUseNow, RuleNames, RulesetInfo},
    startup,
};

/// How long the end of a configuration waits for each sink of records.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// What threads of the library share with the streams.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: InUse,
    pub(crate) collections: Option<Arc<dyn CollectionStore>>,
    /// Bytes of bodies under inspection.
    pub(crate) body_memory: Arc<admission::Pool>,
    /// Requests that wait for their bodies.
    pub(crate) places: Arc<admission::Pool>,
    pub(crate) inline_body_bytes: usize,
    pub(crate) inline_header_bytes: usize,
    /// Zero for none.
    pub(crate) deadline: Duration,
    sinks: Vec<LineSink>,
    /// Rules that are counted by id.
    pub(crate) rule_names: RuleNames,
    /// Reloads that succeeded and that failed, not yet counted: only hooks of a stream can count.
    reloads: [AtomicU64; 2],
    /// Whether Envoy's statistics do not show the rules in use yet.
    unshown: AtomicBool,
    in_use_now: Mutex<InUseNow>,
}

impl Shared {
    /// What a configuration gives them.
    ///
    /// # Errors
    /// When a file for audit records cannot be opened.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let collections: Option<Arc<dyn CollectionStore>> = match config.collections_max {
            0 => None,
            max => {
                Some(Arc::new(MemoryStore::new(max, Limits::from(&config.limits).collections())))
            }
        };
        let pool =
            |max, full| Arc::new(admission::Pool::new(max, config.client_share_percent, full));
        Ok(Self {
            rules: InUse::awaited(),
            collections,
            body_memory: pool(config.body_bytes_max, Rejection::BodyOverflow),
            places: pool(config.max_streams, Rejection::MaxStreams),
            inline_body_bytes: config.inline_body_bytes,
            inline_header_bytes: config.inline_header_bytes,
            deadline: Duration::from_millis(config.deadline_ms),
            sinks: sinks(config)?,
            rule_names: RuleNames::default(),
            reloads: [AtomicU64::new(0), AtomicU64::new(0)],
            unshown: AtomicBool::new(false),
            in_use_now: Mutex::new(InUseNow::default()),
        })
    }

    /// Hands an audit record over. It never waits.
    pub(crate) fn write_record(&self, record: String) {
        let record: Arc<str> = record.into();
        for sink in &self.sinks {
            sink.write(Arc::clone(&record));
        }
    }

    /// Reloads since the last call, to be counted.
    pub(crate) fn take_reloads(&self) -> [u64; 2] {
        // Mostly there are none, and reading takes nothing from other threads.
        self.reloads.each_ref().map(|reloads| match reloads.load(Ordering::Relaxed) {
            0 => 0,
            _ => reloads.swap(0, Ordering::Relaxed),
        })
    }

    /// The rules of the profiles have been put to use.
    pub(crate) fn show(&self, new: Vec<RulesetInfo>) {
        let mut now = self.in_use_now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = core::mem::replace(&mut now.new, new);
        // Those before may never have been shown; others before them have, and still are.
        if !self.unshown.swap(true, Ordering::AcqRel) {
            now.old = before;
        }
    }

    /// The rules in use, if they have changed since the last call.
    pub(crate) fn take_unshown(&self) -> Option<InUseNow> {
        // Mostly nothing has changed, and reading takes nothing from other threads.
        if !self.unshown.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.in_use_now.lock().unwrap_or_else(PoisonError::into_inner);
        self.unshown.swap(false, Ordering::AcqRel).then(|| now.clone())
    }

    pub(crate) fn reloaded(&self, succeeded: bool) {
        let [successes, failures] = &self.reloads;
        let counter = if succeeded { successes } else { failures };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Shared {
    /// The configuration goes, or Envoy ends: what was handed over is written first.
    fn drop(&mut self) {
        for sink in &self.sinks {
            sink.flush(FLUSH_TIME_MAX);
        }
    }
}

/// Where audit records go; nowhere while Envoy only checks its configuration.
fn sinks(config: &Config) -> Result<Vec<LineSink>, String> {
    let audit = &config.audit;
    let refuse = |error: &dyn core::fmt::Display| format!("audit: {error}");
    let mut sinks = Vec::new();
    if startup::is_validation_mode() {
        return Ok(sinks);
    }
    let losses = Losses::default();
    if audit.stdout {
        sinks.push(LineSink::stdout(&losses).map_err(|error| refuse(&error))?);
    }
    if let Some(path) = &audit.file {
        let file = RotatedFile::open(path, audit.rotation()).map_err(|error| refuse(&error))?;
        sinks.push(LineSink::file(file, &losses).map_err(|error| refuse(&error))?);
    }
    Ok(sinks)
}
