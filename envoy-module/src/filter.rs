//! A configuration of the filter, and the threads that work for it.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use glacis_host::EvaluationThreads;

use crate::{
    config::Config, metrics::Families, reload::Loader, rulesets::Rulesets, shared::Shared, startup,
    stream::Metrics, timer::Timer, watch::Watcher,
};

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
        if startup::is_validation_mode() {
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
