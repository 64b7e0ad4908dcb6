//! Logs: one line of JSON per event, on standard error.

use tracing::{Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Registry, layer::SubscriberExt as _, reload};

use crate::config;

/// The level from which on events are logged: it can be changed while the process runs. Clones are the
/// same.
#[derive(Clone, Debug)]
pub struct LogLevel {
    filter: reload::Handle<LevelFilter, Registry>,
}

/// Begins logging of events of at least `level`. Does nothing when logging has begun already: then the level
/// that is given back has no effect.
pub fn init(level: Level) -> LogLevel {
    let (subscriber, level) = logs(level);
    // Fails only when a subscriber is set already, as in tests that run in one process.
    let _ = tracing::subscriber::set_global_default(subscriber);
    level
}

fn logs(level: Level) -> (impl Subscriber + Send + Sync, LogLevel) {
    let (filter, handle) = reload::Layer::new(LevelFilter::from_level(level));
    let format = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(std::io::stderr);
    (tracing_subscriber::registry().with(filter).with(format), LogLevel { filter: handle })
}

impl LogLevel {
    /// Its name; `None` when logs are not ours.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        let filter = self.filter.clone_current()?;
        let level = config::LogLevel::ALL.into_iter().find(|level| filter == Level::from(*level));
        level.map(config::LogLevel::name)
    }

    /// Sets it by its name: `error`, `warn`, `info` or `debug`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn set(&self, name: &str) -> Result<(), &'static str> {
        let level = config::LogLevel::named(name)?;
        let set = self.filter.reload(LevelFilter::from_level(level.into()));
        set.map_err(|_| "logs are not kept by this process")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_changes_while_the_process_runs() {
        let (subscriber, level) = logs(Level::INFO);
        let _guard = tracing::subscriber::set_default(subscriber);
        assert_eq!(level.name(), Some("info"));
        assert!(!tracing::enabled!(Level::DEBUG));
        for (name, debug) in [("debug", true), ("error", false), ("warn", false)] {
            level.set(name).unwrap();
            assert_eq!((level.name(), tracing::enabled!(Level::DEBUG)), (Some(name), debug));
        }
        assert!(level.set("everything").unwrap_err().contains("debug"));
        assert_eq!(level.name(), Some("warn"));
    }
}
