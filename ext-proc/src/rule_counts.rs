//! In how many requests each rule of a profile has matched, for `/rules`: all that log, since the profile was
//! loaded.

use core::sync::atomic::{AtomicU64, Ordering};

use glacis_engine::{Program, RuleId};

/// The counters, 12 bytes for each rule that logs.
#[derive(Debug)]
pub(crate) struct RuleCounts {
    /// Sorted.
    ids: Box<[u32]>,
    counts: Box<[AtomicU64]>,
}

impl RuleCounts {
    /// Zero for each rule that logs.
    pub(crate) fn new(program: &Program) -> Self {
        let mut ids: Vec<u32> =
            program.rules().filter(|rule| rule.log).map(|rule| rule.id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let counts = ids.iter().map(|_| AtomicU64::new(0)).collect();
        Self { ids: ids.into(), counts }
    }

    /// Counts a request in which the rule has matched.
    pub(crate) fn count(&self, rule: RuleId) {
        if let Some(count) = self.place(rule) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted; `None` for a rule that does not log.
    pub(crate) fn of(&self, rule: RuleId) -> Option<u64> {
        self.place(rule).map(|count| count.load(Ordering::Relaxed))
    }

    fn place(&self, rule: RuleId) -> Option<&AtomicU64> {
        let place = self.ids.binary_search(&rule.0).ok()?;
        self.counts.get(place)
    }
}
