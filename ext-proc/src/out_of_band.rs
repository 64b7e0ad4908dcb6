//! Evaluations that nobody waits for: of profiles that only look on, of a second ruleset for the same
//! exchange, and of a ruleset in the shadow of another. They have threads, a queue and memory of their own, and
//! where those are full they are left out, and counted.

use core::panic::AssertUnwindSafe;
use std::{io, panic::catch_unwind, sync::Arc};

use glacis_host::admission::{Pool, Share};
use glacis_inspector::Rejection;
use glacis_service::{Evaluators, Priority};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{
    config::Config,
    metrics::{ErrorKind, table},
    profile::Profile,
    recording::{Recording, Wanted},
    shadow::Shadow,
    shared::Shared,
};

/// What is evaluated of the exchanges of a profile without being waited for.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Profiles of which each exchange is evaluated.
    pub(crate) profiles: Vec<Arc<Profile>>,
    /// What is compared, of a sample.
    pub(crate) shadow: Option<Shadow>,
}

impl Watch {
    /// What has to be recorded of an exchange; `None` for nothing.
    pub(crate) fn wanted(&self, lot: u8, shadowed: bool) -> Option<Wanted> {
        let own = self.profiles.iter().map(|profile| profile.wanted(lot));
        let shadow = self.shadow.iter().filter(|_| shadowed).flat_map(Shadow::wanted);
        own.chain(shadow).reduce(Wanted::or)
    }
}

/// An exchange that is to be evaluated.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) shared: Arc<Shared>,
    pub(crate) watch: Arc<Watch>,
    /// Whether it is in the sample of the shadow.
    pub(crate) shadowed: bool,
    pub(crate) recording: Recording,
}

/// Why an exchange was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dropped {
    /// The queue is full.
    Queue,
    /// There is no room for a recording.
    Room,
}

impl Dropped {
    pub(crate) const ALL: [Self; 2] = [Self::Queue, Self::Room];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Room => "room",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DroppedLabel {
    reason: &'static str,
}

/// The metrics of evaluations that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct OutOfBandMetrics {
    waiting: Gauge,
    bytes: Gauge,
    dropped: Family<DroppedLabel, Counter>,
}

impl OutOfBandMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        for reason in Dropped::ALL {
            drop(self.dropped.get_or_create(&DroppedLabel { reason: reason.name() }));
        }
        table::OUT_OF_BAND_WAITING.register(registry, self.waiting.clone());
        table::OUT_OF_BAND_BYTES.register(registry, self.bytes.clone());
        table::OUT_OF_BAND_DROPPED.register(registry, self.dropped.clone());
    }

    /// Says how many bytes are held.
    pub(crate) fn load(&self, bytes: usize) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Where such evaluations are done.
#[derive(Debug)]
pub(crate) struct OutOfBand {
    evaluators: Evaluators,
    memory: Arc<Pool>,
}

impl OutOfBand {
    /// Starts its threads, which give way to those that answer.
    pub(crate) fn start(config: &Config) -> io::Result<Self> {
        let (threads, queue_max) = (config.out_of_band_threads, config.out_of_band_queue_max);
        Ok(Self {
            evaluators: Evaluators::start(threads, queue_max, Priority::GivesWay)?,
            memory: Arc::new(Pool::new(config.out_of_band_bytes_max, 100, Rejection::BodyOverflow)),
        })
    }

    /// A part of the room for recordings.
    pub(crate) fn share(&self) -> Share {
        Share::none(Arc::clone(&self.memory), None)
    }

    /// Bytes of recordings that are held now.
    pub(crate) fn bytes_held(&self) -> usize {
        self.memory.taken()
    }

    /// Has a task done, or leaves it out.
    pub(crate) fn submit(task: Task) {
        let shared = Arc::clone(&task.shared);
        shared.metrics().out_of_band.waiting.inc();
        if let Err(task) = shared.out_of_band().evaluators.submit(task, evaluate) {
            shared.metrics().out_of_band.waiting.dec();
            left_out(&task.shared, &task.watch, task.shadowed, Dropped::Queue);
        }
    }
}

/// Counts an exchange that is not evaluated.
pub(crate) fn left_out(shared: &Shared, watch: &Watch, shadowed: bool, reason: Dropped) {
    let metrics = shared.metrics();
    metrics.out_of_band.dropped.get_or_create(&DroppedLabel { reason: reason.name() }).inc();
    for profile in &watch.profiles {
        metrics.not_evaluated(profile.metrics());
    }
    if shadowed && let Some(shadow) = &watch.shadow {
        shadow.left_out(metrics);
    }
}

/// Runs on the thread.
fn evaluate(task: Task) {
    let Task { shared, watch, shadowed, recording } = task;
    shared.metrics().out_of_band.waiting.dec();
    let evaluated = catch_unwind(AssertUnwindSafe(|| {
        for profile in &watch.profiles {
            let mut inspector = profile.inspector();
            recording.show(&mut inspector);
            shared.conclude(profile, &mut inspector, None);
            profile.keep(inspector);
        }
        if shadowed && let Some(shadow) = &watch.shadow {
            shadow.compare(&recording, &shared);
        }
    }));
    if evaluated.is_err() {
        shared.metrics().error(ErrorKind::Panic);
        tracing::error!("an evaluation out of band panicked: a bug; it is left out");
    }
}
