//! What is lost on its way out of the process: audit records and spans for which there is no room, or that
//! nobody takes. Losing them is right, as requests must not wait for a disk or a collector; losing them
//! unseen is not.

use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Instant,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// How often the log says that a sink loses something.
const SAY_INTERVAL: Duration = Duration::from_secs(60);

/// How often it is looked whether there is something to say.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What all sinks lose: counted at once, and said in the log once a minute, by a thread of its own, as the log
/// may stand still as well. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    counters: Family<LossLabel, Counter>,
    sinks: Arc<Mutex<Vec<Arc<Loss>>>>,
}

/// The labels of a counter.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct LossLabel {
    sink: &'static str,
    reason: &'static str,
}

impl Losses {
    /// The sinks there can be.
    pub const SINKS: [&str; 4] = ["stdout", "file", "otlp_logs", "otlp_traces"];
    /// Why they can lose something.
    pub const REASONS: [&str; 3] = ["queue", "write", "export"];

    /// The counters, by sink and reason, to be registered. They begin at 0.
    #[must_use]
    pub fn counters(&self) -> Family<LossLabel, Counter> {
        for sink in Self::SINKS {
            for reason in Self::REASONS {
                let collector = sink.starts_with("otlp");
                if reason == "queue" || collector == (reason == "export") {
                    drop(self.counters.get_or_create(&LossLabel { sink, reason }));
                }
            }
        }
        self.counters.clone()
    }

    /// A sink that may lose something.
    pub(crate) fn sink(&self, sink: &'static str) -> io::Result<Arc<Loss>> {
        let loss = Arc::new(Loss {
            sink,
            counters: self.counters.clone(),
            why: Mutex::default(),
            unsaid: AtomicUsize::new(0),
        });
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if sinks.is_empty() {
            let sinks = Arc::downgrade(&self.sinks);
            thread::Builder::new().name("losses".to_owned()).spawn(move || say(&sinks))?;
        }
        sinks.push(Arc::clone(&loss));
        Ok(loss)
    }
}

/// Says what is lost, as long as somebody counts it.
fn say(sinks: &Weak<Mutex<Vec<Arc<Loss>>>>) {
    let mut said: Vec<(&str, Instant)> = Vec::new();
    while let Some(sinks) = sinks.upgrade() {
        let losses = sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        drop(sinks);
        said.retain(|(_, when)| when.elapsed() < SAY_INTERVAL);
        for loss in losses {
            if said.iter().any(|(sink, _)| *sink == loss.sink) {
                continue;
            }
            if let Some((lost, why)) = loss.unsaid() {
                tracing::error!(sink = loss.sink, lost, why, "records are lost");
                said.push((loss.sink, Instant::now()));
            }
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Why something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too many, or too many bytes, waited already.
    Queue,
    /// The file or the pipe did not take it: the disk is full, nobody reads.
    Write,
    /// The collector did not take it, or was not there.
    Export,
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Write => "write",
            Self::Export => "export",
        }
    }
}

/// What one sink loses.
#[derive(Debug)]
pub(crate) struct Loss {
    sink: &'static str,
    counters: Family<LossLabel, Counter>,
    /// Why the first of those that are not said was.
    why: Mutex<String>,
    /// How many since it was said.
    unsaid: AtomicUsize,
}

impl Loss {
    const fn label(&self, reason: Reason) -> LossLabel {
        LossLabel { sink: self.sink, reason: reason.name() }
    }

    /// Counts so many. Never waits.
    pub(crate) fn add(&self, reason: Reason, count: usize, why: &dyn core::fmt::Display) {
        let counter = self.counters.get_or_create(&self.label(reason));
        counter.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        let before = self.unsaid.fetch_add(count, Ordering::Relaxed);
        // Once for all that is said at once: thousands may be lost in a second.
        if before == 0
            && let Ok(mut first) = self.why.try_lock()
        {
            *first = why.to_string();
        }
    }

    /// How many were lost since this was asked last, and why the first of them.
    fn unsaid(&self) -> Option<(usize, String)> {
        let lost = self.unsaid.swap(0, Ordering::Relaxed);
        let why = || self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (lost > 0).then(|| (lost, why()))
    }
}

/// Room for what waits, in bytes: records are of very different sizes.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    bytes_max: usize,
}

impl Room {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { taken: AtomicUsize::new(0), bytes_max }
    }

    /// Takes so many bytes, if they are there.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let grown = |taken: usize| {
            let taken = taken.checked_add(bytes)?;
            (taken <= self.bytes_max).then_some(taken)
        };
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How much was lost.
#[cfg(test)]
pub(crate) fn lost(losses: &Losses, sink: &'static str, reason: &'static str) -> u64 {
    losses.counters.get_or_create(&LossLabel { sink, reason }).get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded() {
        let room = Room::new(10);
        assert!(room.take(6) && !room.take(5) && room.take(4) && !room.take(1));
        room.give_back(6);
        assert!(room.take(6) && !room.take(usize::MAX));
    }

    #[test]
    fn losses_are_counted_and_said_together() {
        let losses = Losses::default();
        let loss = Loss {
            sink: "file",
            counters: losses.counters(),
            why: Mutex::default(),
            unsaid: AtomicUsize::new(0),
        };
        assert_eq!(loss.unsaid(), None);
        loss.add(Reason::Write, 3, &"the disk is full");
        loss.add(Reason::Write, 2, &"the disk is still full");
        assert_eq!(loss.unsaid(), Some((5, "the disk is full".to_owned())));
        assert_eq!(loss.unsaid(), None);
        loss.add(Reason::Queue, 1, &"too many");
        assert_eq!(loss.unsaid(), Some((1, "too many".to_owned())));
        assert_eq!((lost(&losses, "file", "write"), lost(&losses, "file", "queue")), (5, 1));
    }
}
