//! What is wrong with the way somebody else is set up: said in the log once in a while, however often it is
//! seen.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// How often the log says the same.
const QUIET: Duration = Duration::from_secs(60);

/// When each alarm was last in the log.
#[derive(Debug, Default)]
pub struct AlarmLog {
    last: Mutex<BTreeMap<&'static str, Instant>>,
}

impl AlarmLog {
    /// Says `words` of the alarm `name`, unless it was said a short while ago.
    pub fn say(&self, name: &'static str, words: &'static str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(name).is_none_or(|last| last.elapsed() >= QUIET) {
            last.insert(name, Instant::now());
            tracing::warn!(alarm = name, "{words}");
        }
    }
}
