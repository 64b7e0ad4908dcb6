//! What the rules of a profile cost, over a sample of the exchanges since it was loaded, for `/rules`.
//!
//! The engine counts where it is asked to, by a clock that it is given. That takes time of its own: a clock is read
//! twice for each rule, so that only one exchange of many is counted.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Instant,
};

use glacis_engine::{Program, RuleId};
use glacis_inspector::Inspector;
use glacis_service::chance::random;

/// What one rule has cost in the exchanges that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// How often it was its turn.
    pub(crate) visited: u64,
    /// How often it ran on at least one value.
    pub(crate) run: u64,
    /// Nanoseconds, with its chain, and with work for other rules that it was the first to ask for.
    pub(crate) time_ns: u64,
}

/// What was counted: about 32 bytes for each rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    /// Exchanges that were counted.
    pub(crate) exchanges: u64,
    /// Nanoseconds of all rules, and of what is done for them beforehand.
    pub(crate) time_ns: u64,
    /// By id.
    rules: Vec<(RuleId, Cost)>,
}

impl Costs {
    /// What a rule has cost; `None` as long as nothing was counted.
    pub(crate) fn of(&self, rule: RuleId) -> Option<Cost> {
        let counted = |&place: &usize| self.exchanges > 0 && place < self.rules.len();
        let place = self.rules.binary_search_by_key(&rule, |(id, _)| *id).ok().filter(counted)?;
        self.rules.get(place).map(|(_, cost)| *cost)
    }

    /// Its part of the time of all, in percent.
    #[expect(clippy::cast_precision_loss, reason = "a share of what was measured")]
    pub(crate) fn percent(&self, cost: Cost) -> f64 {
        (cost.time_ns as f64) * 100.0 / (self.time_ns.max(1) as f64)
    }
}

/// Counts one of so many exchanges.
#[derive(Debug)]
pub(crate) struct RuleCosts {
    one_of: u32,
    costs: Mutex<Costs>,
}

impl RuleCosts {
    /// One of `one_of` exchanges is counted; none with 0.
    pub(crate) fn new(program: &Program, one_of: u32) -> Self {
        let mut costs = Costs::default();
        if one_of > 0 {
            costs.rules = program.rules().map(|rule| (rule.id, Cost::default())).collect();
            costs.rules.sort_unstable_by_key(|(id, _)| *id);
        }
        Self { one_of, costs: Mutex::new(costs) }
    }

    /// Has an exchange that is about to begin counted, if it is drawn.
    pub(crate) fn draw(&self, inspector: Inspector) -> Inspector {
        if self.one_of > 0 && random().is_multiple_of(self.one_of.into()) {
            inspector.with_profile(nanoseconds)
        } else {
            inspector
        }
    }

    /// Takes over what an exchange has cost, if it was counted. The next one of this inspector is not.
    pub(crate) fn take(&self, inspector: &mut Inspector) {
        let Some(profile) = inspector.profile() else { return };
        let beforehand: u64 = profile.phases.iter().map(|phase| phase.naming_ns).sum();
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.exchanges = costs.exchanges.saturating_add(profile.transactions);
        costs.time_ns = costs.time_ns.saturating_add(beforehand);
        for seen in inspector.profiled_rules().filter(|seen| seen.rule.link == 0) {
            costs.time_ns = costs.time_ns.saturating_add(seen.cost.time_ns);
            let place = costs.rules.binary_search_by_key(&seen.rule.id, |(id, _)| *id);
            if let Some((_, cost)) = place.ok().and_then(|place| costs.rules.get_mut(place)) {
                cost.visited = cost.visited.saturating_add(seen.cost.visited);
                cost.run = cost.run.saturating_add(seen.cost.run);
                cost.time_ns = cost.time_ns.saturating_add(seen.cost.time_ns);
            }
        }
        drop(costs);
        inspector.without_profile();
    }

    /// What was counted so far, and one of how many exchanges is; `None` where none is.
    pub(crate) fn so_far(&self) -> Option<(u32, Costs)> {
        let costs = || self.costs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.one_of > 0).then(|| (self.one_of, costs()))
    }
}

/// A clock for the engine, from its first use on.
fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
