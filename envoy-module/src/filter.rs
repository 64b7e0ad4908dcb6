//! What the streams of a filter configuration share: rules, budgets, threads, sinks.

use core::time::Duration;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use glacis_engine::{CollectionStore, Limits, MemoryStore, Program, RuleEngine};
use glacis_host::{
    LoadedExclusion, Records, RulesetError, RulesetErrorKind, admission, load_exclusions, recipe,
    second_opinion, settings,
};
use glacis_inspector::{Pool, Profiles, Rejection, Settings, TruncatedBody};
use glacis_rules::{Date, Record, RecordingSource, exclusion_rules};
use glacis_service::{
    Evaluators, Losses, Priority, now,
    sink::{LineSink, RotatedFile},
};

use crate::{
    abi,
    config::Config,
    metrics::{Families, RuleNames},
    programs::program,
    stream::{Level, Metrics},
    watch::Watcher,
};

/// Inspectors that a profile keeps for reuse, each with some hundred kilobytes.
const POOLED_MAX: usize = 16;

/// How long the end of a configuration waits for each sink of records.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// A configuration of the filter, as one listener or route has it.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Families,
}

/// What all filters with the same configuration share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// `None` where Envoy only checks its configuration.
    evaluators: Option<Evaluators>,
    /// Dropped with the engine: no thread looks at a configuration that is gone.
    _watcher: Option<Watcher>,
}

/// What threads of the library share with the streams.
#[derive(Debug)]
pub(crate) struct Shared {
    rulesets: RwLock<Arc<Rulesets>>,
    collections: Option<Arc<dyn CollectionStore>>,
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
}

/// All profiles of a configuration, ready to be used.
#[derive(Debug)]
pub(crate) struct Rulesets {
    pub(crate) profiles: Profiles<Arc<Profile>>,
    /// Whether names of routes choose profiles.
    pub(crate) has_routes: bool,
    exclusions: Vec<LoadedExclusion>,
    /// What was read for them.
    records: Vec<Record>,
}

/// A profile that is loaded.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) pool: Pool,
    settings: Arc<Settings>,
}

impl Profile {
    fn new(program: Arc<Program>, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self { pool: Pool::new(program, Arc::clone(&settings), POOLED_MAX), settings }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.settings.profile
    }

    /// Whether rules may block, as an exchange begins.
    pub(crate) fn may_block(&self) -> bool {
        let engine = self.settings.rule_engine;
        engine.unwrap_or_else(|| self.pool.program().rule_engine()) == RuleEngine::On
    }

    /// Proxies before Envoy that append to `x-forwarded-for`.
    pub(crate) fn trusted_hops(&self) -> usize {
        self.settings.trusted_hops
    }

    /// Whether bodies that are too large pass without a look at them.
    pub(crate) fn passes_too_large(&self) -> bool {
        self.settings.truncated_body == TruncatedBody::Pass
    }
}

/// The engines of the process, each with the text of its configuration.
static ENGINES: Mutex<Vec<(Vec<u8>, Weak<Engine>)>> = Mutex::new(Vec::new());

impl Filter {
    /// Reads a configuration, builds its rules unless another filter has the same, and defines its metrics.
    ///
    /// # Errors
    /// What is wrong with the configuration or with the rules.
    pub(crate) fn new(text: &[u8], envoy: &mut impl Metrics) -> Result<Arc<Self>, String> {
        let engine = Engine::shared(text)?;
        Ok(Arc::new(Self { engine, metrics: Families::define(envoy) }))
    }
}

impl Engine {
    fn shared(text: &[u8]) -> Result<Arc<Self>, String> {
        let find = || {
            let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
            engines.retain(|(_, engine)| engine.strong_count() > 0);
            engines.iter().find(|(known, _)| known == text).and_then(|(_, engine)| engine.upgrade())
        };
        if let Some(engine) = find() {
            return Ok(engine);
        }
        let engine = Arc::new(Self::new(text)?);
        let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.push((text.to_vec(), Arc::downgrade(&engine)));
        Ok(engine)
    }

    fn new(text: &[u8]) -> Result<Self, String> {
        let config = Config::read(text)?;
        let shared = Arc::new(Shared::new(&config)?);
        if abi::is_validation_mode() {
            return Ok(Self { shared, evaluators: None, _watcher: None });
        }
        let start = |error: io::Error| format!("no thread can be started: {error}");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match config.evaluation_threads {
            // With one alone nobody is served while it works for somebody else.
            0 => cores.max(2),
            threads => threads,
        };
        let places = config.evaluation_queue_max;
        let evaluators = Evaluators::start(threads, places, Priority::Awaited).map_err(start)?;
        let interval = config.reload_seconds.duration();
        let watcher = (!config.reload_seconds.is_zero()).then(|| {
            let mut reloader = Reloader::new(Arc::clone(&shared), text.to_vec());
            Watcher::start(interval, move || reloader.look())
        });
        let watcher = watcher.transpose().map_err(start)?;
        Ok(Self { shared, evaluators: Some(evaluators), _watcher: watcher })
    }

    pub(crate) const fn evaluators(&self) -> Option<&Evaluators> {
        self.evaluators.as_ref()
    }
}

impl Shared {
    fn new(config: &Config) -> Result<Self, String> {
        let collections: Option<Arc<dyn CollectionStore>> = match config.collections_max {
            0 => None,
            max => {
                Some(Arc::new(MemoryStore::new(max, Limits::from(&config.limits).collections())))
            }
        };
        let rulesets = Rulesets::build(config, collections.as_ref());
        let rulesets = rulesets.map_err(|error| error.to_string())?;
        rulesets.log();
        let pool =
            |max, full| Arc::new(admission::Pool::new(max, config.client_share_percent, full));
        Ok(Self {
            rulesets: RwLock::new(Arc::new(rulesets)),
            collections,
            body_memory: pool(config.body_bytes_max, Rejection::BodyOverflow),
            places: pool(config.max_streams, Rejection::MaxStreams),
            inline_body_bytes: config.inline_body_bytes,
            inline_header_bytes: config.inline_header_bytes,
            deadline: Duration::from_millis(config.deadline_ms),
            sinks: sinks(config)?,
            rule_names: RuleNames::default(),
            reloads: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    /// The rules in use. A stream keeps those with which it began.
    pub(crate) fn rulesets(&self) -> Arc<Rulesets> {
        Arc::clone(&self.rulesets.read().unwrap_or_else(PoisonError::into_inner))
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

    fn reloaded(&self, succeeded: bool) {
        let [successes, failures] = &self.reloads;
        let counter = if succeeded { successes } else { failures };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn replace(&self, rulesets: Rulesets) {
        let rulesets = Arc::new(rulesets);
        let mut place = self.rulesets.write().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *place, rulesets);
        drop(place);
        // Outside the lock: the last of the old ones to go takes a while.
        drop(old);
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
    if abi::is_validation_mode() {
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

impl Rulesets {
    /// Reads and compiles the rules of all profiles.
    fn build(
        config: &Config,
        collections: Option<&Arc<dyn CollectionStore>>,
    ) -> Result<Self, RulesetError> {
        let source = RecordingSource::new();
        if let Some(file) = &config.file {
            source.note(file);
        }
        let (mut exclusions, mut records) = (Vec::new(), Vec::new());
        let mut named = Vec::new();
        for name in config.profile_names() {
            let keys = config.keys_of(name);
            let refuse = |kind| RulesetError { profile: keys.profile.clone(), kind };
            let loaded = load_exclusions(&keys, Date::at(now()));
            let applied = loaded.iter().filter(|loaded| loaded.applied);
            let applied: Vec<_> = applied.map(|loaded| loaded.exclusion.clone()).collect();
            let rules = exclusion_rules(&applied)
                .map_err(|error| refuse(RulesetErrorKind::Exclusions(error)))?;
            let opinion = second_opinion(&keys, &source)?;
            let recipe = recipe(&keys, &rules, opinion.as_ref(), &source)
                .map_err(|error| refuse(RulesetErrorKind::Crs(error)))?;
            let (program, record) =
                program(&recipe).map_err(|errors| refuse(RulesetErrorKind::Rules(errors)))?;
            let recorded = Records { refused_parts: None, ..config.audit.records() };
            let settings = settings(&keys, &recorded, opinion, collections.cloned());
            named.push((name.to_owned(), Arc::new(Profile::new(program, settings))));
            exclusions.extend(loaded);
            records.push(record);
        }
        records.push(source.into_record());
        let Some((name, default)) = named.first() else {
            return Err(RulesetError::no_profile(&config.profile));
        };
        let mut profiles = Profiles::new(name, Arc::clone(default), config.unknown_profile.into());
        for (name, profile) in &named {
            profiles.insert(name, Arc::clone(profile));
        }
        for (route, name) in &config.routes {
            // The configuration has been checked: an unknown name is not among them.
            let _ = profiles.insert_route(route, name);
        }
        Ok(Self { profiles, has_routes: !config.routes.is_empty(), exclusions, records })
    }

    /// Logs what is loaded.
    fn log(&self) {
        for (name, profile) in self.profiles.iter() {
            let program = profile.pool.program();
            for warning in program.warnings() {
                abi::log(Level::Warn, &format!("glacis: profile {name}: {warning}"));
            }
            let (rules, hash) = (program.rule_count(), program.hash());
            let text = format!("glacis: profile {name}: {rules} rules are loaded, ruleset {hash}");
            abi::log(Level::Info, &text);
        }
        for expired in self.exclusions.iter().filter(|loaded| loaded.expired) {
            abi::log(Level::Warn, &format!("glacis: {expired}"));
        }
    }

    fn as_read(&self) -> Vec<u64> {
        self.records.iter().map(Record::as_read).collect()
    }

    fn as_now(&self) -> Vec<u64> {
        self.records.iter().map(Record::now).collect()
    }
}

/// Reads the configuration of running filters again when its files change.
///
/// What is not good changes nothing: the rules in use stay.
struct Reloader {
    shared: Arc<Shared>,
    text: Vec<u8>,
    /// What the last two looks have found. A file that is being written is not the same twice.
    last: Vec<u64>,
    /// What was tried last, good or not.
    tried: Vec<u64>,
    /// When that was: exclusions end with a day.
    tried_on: Date,
}

impl Reloader {
    fn new(shared: Arc<Shared>, text: Vec<u8>) -> Self {
        let tried = shared.rulesets().as_read();
        Self { shared, text, last: tried.clone(), tried, tried_on: Date::at(now()) }
    }

    fn look(&mut self) {
        let rulesets = self.shared.rulesets();
        let (found, today) = (rulesets.as_now(), Date::at(now()));
        let holds = |day| -> Vec<bool> {
            rulesets.exclusions.iter().map(|loaded| loaded.exclusion.holds_on(day)).collect()
        };
        let is_another_day = holds(today) != holds(self.tried_on);
        let is_settled = core::mem::replace(&mut self.last, found.clone()) == found;
        if is_another_day || (is_settled && found != self.tried) {
            (self.tried, self.tried_on) = (found, today);
            self.reload();
        }
    }

    fn reload(&mut self) {
        let read = || -> Result<Rulesets, String> {
            let config = Config::read(&self.text)?;
            let rulesets = Rulesets::build(&config, self.shared.collections.as_ref());
            rulesets.map_err(|error| error.to_string())
        };
        match read() {
            Ok(rulesets) => {
                rulesets.log();
                self.tried = rulesets.as_read();
                self.last.clone_from(&self.tried);
                self.shared.replace(rulesets);
                self.shared.reloaded(true);
            }
            Err(message) => {
                let text =
                    format!("glacis: the rules in use stay, the new ones are refused: {message}");
                self.shared.reloaded(false);
                abi::log(Level::Error, &text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "SecAction \\\"id:9001,phase:1,pass\\\"";

    fn text(more: &str) -> Vec<u8> {
        let audit = r#""audit": {"stdout": false}, "base": false"#;
        format!("{{\"directives\": \"{RULE}\", {audit}{more}}}").into_bytes()
    }

    fn program_of(engine: &Engine) -> Arc<Program> {
        Arc::clone(engine.shared.rulesets().profiles.default_profile().pool.program())
    }

    #[test]
    fn the_same_is_there_once() {
        let one = Engine::shared(&text("")).unwrap();
        let same = Engine::shared(&text("")).unwrap();
        assert!(Arc::ptr_eq(&one, &same), "the same configuration");
        let other = Engine::shared(&text(r#", "deadline_ms": 5"#)).unwrap();
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&program_of(&one), &program_of(&other)), "the same rules");
        let profiles = text(r#", "profiles": {"look": {"mode": "detection"}}"#);
        let profiles = Engine::shared(&profiles).unwrap();
        let rulesets = profiles.shared.rulesets();
        for (name, profile) in rulesets.profiles.iter() {
            assert!(Arc::ptr_eq(profile.pool.program(), &program_of(&one)), "{name}");
        }
        // What nobody uses any more is built again.
        let old = Arc::downgrade(&one);
        drop((one, same));
        assert!(old.upgrade().is_none());
    }
}
