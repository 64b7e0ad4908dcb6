//! What the streams of a filter configuration share: rules, budgets, threads, sinks.

use core::time::Duration;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use glacis_engine::{CollectionStore, Limits, MemoryStore};
use glacis_host::{EvaluationThreads, admission};
use glacis_inspector::Rejection;
use glacis_service::{
    Losses,
    sink::{LineSink, RotatedFile},
};

use crate::{
    abi,
    config::Config,
    in_use::InUse,
    metrics::{Families, RuleNames},
    reload::Loader,
    rulesets::Rulesets,
    startup,
    stream::Metrics,
    timer::Timer,
    watch::Watcher,
};

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
    evaluators: Option<EvaluationThreads>,
    /// `None` where Envoy only checks its configuration.
    timer: Option<Timer>,
    /// Dropped with the engine: no thread looks at a configuration that is gone.
    _watcher: Option<Watcher>,
}

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
}

/// The engines of the process, each with the text of its configuration.
static ENGINES: Mutex<Vec<(Vec<u8>, Weak<Engine>)>> = Mutex::new(Vec::new());

impl Filter {
    /// Reads a configuration, builds its rules unless another filter has the same, and defines its metrics.
    ///
    /// # Errors
    /// What is wrong with the configuration or with the rules.
    pub(crate) fn new(text: &[u8], envoy: &mut impl Metrics) -> Result<Arc<Self>, String> {
        let engine = Engine::shared(text, startup::is_serving())?;
        Ok(Arc::new(Self { engine, metrics: Families::define(envoy) }))
    }
}

impl Engine {
    fn shared(text: &[u8], is_serving: bool) -> Result<Arc<Self>, String> {
        let find = || {
            let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
            engines.retain(|(_, engine)| engine.strong_count() > 0);
            engines.iter().find(|(known, _)| known == text).and_then(|(_, engine)| engine.upgrade())
        };
        if let Some(engine) = find() {
            return Ok(engine);
        }
        let engine = Arc::new(Self::new(text, is_serving)?);
        let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.push((text.to_vec(), Arc::downgrade(&engine)));
        Ok(engine)
    }

    /// While Envoy serves, the rules are compiled on a thread of the library: on this one, Envoy's own, nothing may take
    /// long. Before that, nobody waits, and an error in the rules ends the start of Envoy.
    fn new(text: &[u8], is_serving: bool) -> Result<Self, String> {
        let config = Config::read(text)?;
        let shared = Arc::new(Shared::new(&config)?);
        let mut loader = Loader::new(Arc::clone(&shared), text.to_vec());
        if is_serving {
            Rulesets::check(&config).map_err(|error| error.to_string())?;
        } else {
            loader.load_first(&config).map_err(|error| error.to_string())?;
        }
        if abi::is_validation_mode() {
            return Ok(Self { shared, evaluators: None, timer: None, _watcher: None });
        }
        let start = |error: io::Error| format!("no thread can be started: {error}");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match config.evaluation_threads {
            // With one alone nobody is served while it works for somebody else.
            0 => cores.max(2),
            threads => threads,
        };
        let places = config.evaluation_queue_max;
        let evaluators = EvaluationThreads::start(threads, places).map_err(start)?;
        let timer = Timer::start().map_err(start)?;
        let interval = (!config.reload_seconds.is_zero()).then(|| config.reload_seconds.duration());
        let watcher = (is_serving || interval.is_some())
            .then(|| Watcher::start(interval, move |stop| loader.look(stop)))
            .transpose()
            .map_err(start)?;
        Ok(Self { shared, evaluators: Some(evaluators), timer: Some(timer), _watcher: watcher })
    }

    pub(crate) const fn timer(&self) -> Option<&Timer> {
        self.timer.as_ref()
    }

    pub(crate) const fn evaluators(&self) -> Option<&EvaluationThreads> {
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

#[cfg(test)]
mod tests {
    use glacis_engine::Program;

    use super::*;
    use crate::in_use::Rules;

    fn rulesets(engine: &Engine) -> Arc<Rulesets> {
        match engine.shared.rules.rules() {
            Rules::Ready(rulesets) => rulesets,
            other => panic!("{other:?}"),
        }
    }

    const RULE: &str = "SecAction \\\"id:9001,phase:1,pass\\\"";

    fn text(more: &str) -> Vec<u8> {
        let audit = r#""audit": {"stdout": false}, "base": false"#;
        format!("{{\"directives\": \"{RULE}\", {audit}{more}}}").into_bytes()
    }

    fn program_of(engine: &Engine) -> Arc<Program> {
        Arc::clone(rulesets(engine).profiles.default_profile().pool.program())
    }

    #[test]
    fn the_same_is_there_once() {
        let one = Engine::shared(&text(""), false).unwrap();
        let same = Engine::shared(&text(""), false).unwrap();
        assert!(Arc::ptr_eq(&one, &same), "the same configuration");
        let other = Engine::shared(&text(r#", "deadline_ms": 5"#), false).unwrap();
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&program_of(&one), &program_of(&other)), "the same rules");
        let profiles = text(r#", "profiles": {"look": {"mode": "detection"}}"#);
        let profiles = Engine::shared(&profiles, false).unwrap();
        let rulesets = rulesets(&profiles);
        for (name, profile) in rulesets.profiles.iter() {
            assert!(Arc::ptr_eq(profile.pool.program(), &program_of(&one)), "{name}");
        }
        // What nobody uses any more is built again.
        let old = Arc::downgrade(&one);
        drop((one, same));
        assert!(old.upgrade().is_none());
    }
}
