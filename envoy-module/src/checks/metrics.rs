//! What the checks count, as Envoy's own statistics.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use glacis_policy::{Event, Found, Judged};

use crate::stream::{FilterState, MetricId, Setup, Stream};

/// The families. One that Envoy refuses to define is not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Families {
    verdicts: Option<MetricId>,
    guard: Option<MetricId>,
    events: Option<MetricId>,
    list_entries: Option<MetricId>,
    lists_stale: Option<MetricId>,
    pending_bodies: Option<MetricId>,
}

/// Events that are counted, in the order of [`Untold::events`].
const EVENTS: [&str; 4] = ["list_changed", "list_failed", "lease_called", "lease_failed"];

/// A gauge, and what Envoy knows of it.
#[derive(Debug, Default)]
struct Gauge {
    value: AtomicI64,
    told: AtomicI64,
}

impl Gauge {
    /// The value, if Envoy does not know it.
    fn news(&self) -> Option<u64> {
        let value = self.value.load(Ordering::Relaxed);
        // Mostly there is no news, and reading takes nothing from other threads.
        let is_news = self.told.load(Ordering::Relaxed) != value
            && self.told.swap(value, Ordering::Relaxed) != value;
        is_news.then(|| u64::try_from(value).unwrap_or(0))
    }
}

/// What happened and is not yet counted: only hooks of a stream can count.
#[derive(Debug, Default)]
pub(super) struct Untold {
    events: [AtomicU64; EVENTS.len()],
    list_entries: Gauge,
    lists_stale: Gauge,
    pending_bodies: Gauge,
}

impl Untold {
    /// Something happened between requests.
    pub(super) fn happened(&self, event: Event) {
        let [list_changed, list_failed, lease_called, lease_failed] = &self.events;
        let set = |gauge: &Gauge, value: u64| {
            gauge.value.store(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
        };
        let counter = match event {
            Event::ListChanged => list_changed,
            Event::ListFailed => list_failed,
            Event::LeaseCalled => lease_called,
            Event::LeaseFailed => lease_failed,
            Event::ListEntries(entries) => return set(&self.list_entries, entries),
            Event::ListsStale(lists) => return set(&self.lists_stale, lists),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more requests wait for their bodies, or fewer.
    pub(super) fn pending(&self, more: i64) {
        self.pending_bodies.value.fetch_add(more, Ordering::Relaxed);
    }
}

impl Families {
    /// Defines all families.
    pub(super) fn define(envoy: &mut impl Setup) -> Self {
        Self {
            verdicts: envoy.counter("glacis_check_verdicts", &["check", "verdict", "detail"]),
            guard: envoy.counter("glacis_check_guard", &["found"]),
            events: envoy.counter("glacis_check_events", &["event"]),
            list_entries: envoy.gauge("glacis_check_list_entries", &[]),
            lists_stale: envoy.gauge("glacis_check_lists_stale", &[]),
            pending_bodies: envoy.gauge("glacis_check_pending_bodies", &[]),
        }
    }

    /// Counts a request.
    pub(super) fn judged(&self, stream: &mut impl Stream, judged: &Counted) {
        count(stream, self.verdicts, &[judged.check, judged.verdict, judged.detail.as_str()]);
        for event in judged.events.into_iter().flatten() {
            self.event(stream, event);
        }
    }

    /// Counts something about a request.
    pub(super) fn event(&self, stream: &mut impl Stream, event: &str) {
        count(stream, self.events, &[event]);
    }

    /// Counts what a guard has found.
    pub(super) fn found(&self, stream: &mut impl Stream, found: Found) {
        count(stream, self.guard, &[&found.name().replace(':', "_")]);
    }

    /// Counts what happened since the last request.
    pub(super) fn catch_up(&self, stream: &mut impl FilterState, untold: &Untold) {
        for (event, times) in EVENTS.into_iter().zip(&untold.events) {
            if times.load(Ordering::Relaxed) > 0
                && let Some(id) = self.events
            {
                stream.count(id, &[event], times.swap(0, Ordering::Relaxed));
            }
        }
        for (id, gauge) in [
            (self.list_entries, &untold.list_entries),
            (self.lists_stale, &untold.lists_stale),
            (self.pending_bodies, &untold.pending_bodies),
        ] {
            if let (Some(id), Some(value)) = (id, gauge.news()) {
                stream.set(id, &[], value);
            }
        }
    }
}

/// What is counted of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    check: &'static str,
    verdict: &'static str,
    /// The limit, the patch, the sign of a bot or the reason; `-` for none. Colons would end a name in statsd.
    detail: String,
    events: [Option<&'static str>; 3],
}

impl Counted {
    pub(super) fn of(judged: &Judged<'_>) -> Self {
        let words = judged.verdict.strip_prefix("shadow:").unwrap_or(&judged.verdict);
        let detail = words.split_once(':').map_or("-", |(_, detail)| detail);
        let detail = detail.strip_prefix("patch:").unwrap_or(detail).replace(':', "_");
        Self {
            check: judged.check,
            verdict: judged.class.name(),
            detail,
            events: [
                judged.unrecorded.then_some("unrecorded"),
                judged.crowded.then_some("table_crowded"),
                judged.away.then_some("lease_away"),
            ],
        }
    }
}

fn count(stream: &mut impl Stream, family: Option<MetricId>, labels: &[&str]) {
    if let Some(id) = family {
        stream.count(id, labels, 1);
    }
}
