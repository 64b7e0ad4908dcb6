//! What all Checks share: the policy in use, the store and what is counted.

use std::sync::{Arc, PoisonError, RwLock};

use glacis_limit_store::{Bans, Redis, Store};
use glacis_service::{Evaluators, alarm::AlarmLog, reload::Reloads};

use crate::{alarm::Alarm, metrics::Metrics, policy::Policy};

/// What all Checks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policy: RwLock<Arc<Policy>>,
    pub(crate) store: Arc<dyn Store>,
    /// The same without a cache.
    pub(crate) plain_store: Arc<dyn Store>,
    /// The line of the store, where it is one to Redis.
    pub(crate) redis: Option<Redis>,
    pub(crate) bans: Arc<Bans>,
    pub(crate) evaluators: Evaluators,
    pub(crate) metrics: Metrics,
    pub(crate) alarms: AlarmLog,
    /// Whether a Check was turned away since it was last asked.
    pub(crate) reloads: Reloads,
}

impl Shared {
    /// What is in use now.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy to use. Checks that have begun keep theirs.
    pub(crate) fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        self.metrics.alarm(alarm);
        self.alarms.say(alarm.name(), alarm.words());
    }
}
