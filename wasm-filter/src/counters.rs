//! What is counted in Envoy's statistics.

use crate::host::{Counter, Tally};
use glacis_policy::{Class, Event, Found, Judged, NO_CONFIGURATION, PASSED};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How many requests got which verdict.
#[derive(Debug)]
pub(crate) struct Counters {
    /// One for each verdict in words: no request makes one up, they come from the configuration and fetched patches.
    verdicts: RefCell<BTreeMap<String, Counter>>,
    denied: Counter,
    shadow_denied: Counter,
    limited: Counter,
    shadow_limited: Counter,
    passed: Tally,
    /// Of the verdicts in words, the one that most requests get.
    passed_in_words: Tally,
    errors: Counter,
    crowded: Counter,
    list_changes: Counter,
    list_failures: Counter,
    list_entries: Counter,
    lists_stale: Counter,
    lease_calls: Counter,
    lease_failures: Counter,
    lease_away: Counter,
    pending_bodies: Tally,
    bodies_cut: Counter,
    first_verdicts: [(&'static str, Tally); 3],
    guard: [(Found, Counter); 4],
}

/// What counts requests that Envoy sends to a plugin that has refused its configuration. They are one pair for all
/// of them: Envoy keeps another entry for each time that a metric is defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unconfigured {
    errors: Counter,
    in_words: Counter,
}

const ERRORS: &str = "glacis_wasm_errors_total";

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            verdicts: RefCell::default(),
            denied: Counter::new("glacis_wasm_denied_total"),
            shadow_denied: Counter::new("glacis_wasm_shadow_denied_total"),
            limited: Counter::new("glacis_wasm_limited_total"),
            shadow_limited: Counter::new("glacis_wasm_shadow_limited_total"),
            passed: Tally::new("glacis_wasm_passed_total"),
            passed_in_words: Tally::new(&verdict_counter(PASSED)),
            errors: Counter::new(ERRORS),
            crowded: Counter::new("glacis_wasm_table_crowded_total"),
            list_changes: Counter::new("glacis_wasm_list_changes_total"),
            list_failures: Counter::new("glacis_wasm_list_failures_total"),
            list_entries: Counter::gauge("glacis_wasm_list_entries"),
            lists_stale: Counter::gauge("glacis_wasm_lists_stale"),
            lease_calls: Counter::new("glacis_wasm_lease_calls_total"),
            lease_failures: Counter::new("glacis_wasm_lease_failures_total"),
            lease_away: Counter::new("glacis_wasm_lease_away_total"),
            pending_bodies: Tally::gauge("glacis_wasm_pending_bodies"),
            bodies_cut: Counter::new("glacis_wasm_bodies_cut_total"),
            first_verdicts: ["clean", "body", "suspect"]
                .map(|name| (name, Tally::new(&format!("glacis_wasm_first_verdict_total.{name}")))),
            guard: [Found::Receipt, Found::Clean, Found::MissingAllowed, Found::MissingDenied].map(
                |found| {
                    let name = found.name().replace(':', "_");
                    (found, Counter::new(&format!("glacis_wasm_guard_total.{name}")))
                },
            ),
        }
    }

    /// Counts a request by its verdict in words, as filter state has it.
    fn count_verdict(&self, property: &str) {
        if property == PASSED {
            return self.passed_in_words.increment();
        }
        let Ok(mut verdicts) = self.verdicts.try_borrow_mut() else { return };
        if let Some(counter) = verdicts.get(property) {
            return counter.increment();
        }
        let counter = Counter::new(&verdict_counter(property));
        counter.increment();
        verdicts.insert(property.to_owned(), counter);
    }

    /// Tells Envoy what was counted since the last tick.
    pub(crate) fn tell(&self) {
        self.passed.tell();
        self.passed_in_words.tell();
        self.pending_bodies.tell();
        self.first_verdicts.iter().for_each(|(_, tally)| tally.tell());
    }

    /// So many more requests are pending, or fewer.
    pub(crate) fn pending(&self, more: i64) {
        self.pending_bodies.add(more);
    }

    /// Counts a request that was counted by its headers, and whose client holds too much of bodies now.
    pub(crate) fn body_cut(&self) {
        self.bodies_cut.increment();
    }

    /// Counts what happened between requests.
    pub(crate) fn happened(&self, event: Event) {
        match event {
            Event::ListChanged => self.list_changes.increment(),
            Event::ListFailed => self.list_failures.increment(),
            Event::ListEntries(entries) => self.list_entries.record(entries),
            Event::ListsStale(lists) => self.lists_stale.record(lists),
            Event::LeaseCalled => self.lease_calls.increment(),
            Event::LeaseFailed => self.lease_failures.increment(),
        }
    }

    /// Counts a first verdict.
    pub(crate) fn count_first_verdict(&self, name: &str) {
        for (_, counter) in self.first_verdicts.iter().filter(|(known, _)| *known == name) {
            counter.increment();
        }
    }

    /// Counts what the guard has found.
    pub(crate) fn count_guard(&self, found: Found) {
        for (_, counter) in self.guard.iter().filter(|(known, _)| *known == found) {
            counter.increment();
        }
    }

    /// Counts a request.
    pub(crate) fn count(&self, judged: &Judged<'_>) {
        self.count_verdict(&judged.verdict);
        match judged.class {
            Class::Denied => self.denied.increment(),
            Class::ShadowDenied => self.shadow_denied.increment(),
            Class::Limited => self.limited.increment(),
            Class::ShadowLimited => self.shadow_limited.increment(),
            Class::Passed => self.passed.increment(),
            Class::Error => self.errors.increment(),
        }
        if judged.unrecorded {
            self.errors.increment();
        }
        if judged.crowded {
            self.crowded.increment();
        }
        if judged.away {
            self.lease_away.increment();
        }
    }
}

impl Unconfigured {
    pub(crate) fn new() -> Self {
        let in_words = verdict_counter(NO_CONFIGURATION);
        Self { errors: Counter::new(ERRORS), in_words: Counter::new(&in_words) }
    }

    /// Counts a request.
    pub(crate) fn count(self) {
        self.errors.increment();
        self.in_words.increment();
    }
}

/// The name of a verdict's counter: `denied:list` is `glacis_wasm_verdicts_total.denied.list`, of
/// which Envoy makes labels by regular expressions for tags (README.md). Colons would end a name in
/// statsd.
fn verdict_counter(property: &str) -> String {
    let name = match property.strip_prefix("shadow:") {
        Some(watched) => format!("shadow_{watched}"),
        None => property.to_owned(),
    };
    format!("glacis_wasm_verdicts_total.{}", name.replace(':', "."))
}
