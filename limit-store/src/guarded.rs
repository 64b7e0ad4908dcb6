//! What is answered when the store is not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::memory::MemoryStore;
use crate::store::{
    Answer, Ask, DecidedBy, OnStoreFailure, Pending, Return, Store, StoreError, Taking,
};

/// What a client that is refused for want of a store is told to wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often asks were answered without the store, counted since the start.
#[derive(Debug, Default)]
pub struct GuardedCounters {
    /// Asks that were allowed for want of a store.
    pub allowed: AtomicU64,
    /// Asks that were refused for want of a store.
    pub denied: AtomicU64,
    /// Asks that this process has decided alone.
    pub local: AtomicU64,
    /// Returns that were lost.
    pub returns_lost: AtomicU64,
}

impl GuardedCounters {
    /// Asks that were answered without the store, by what [`OnStoreFailure`] says, under the names
    /// that metrics give it.
    #[must_use]
    pub fn by_policy(&self) -> [(&'static str, u64); 3] {
        let counters = [("allow", &self.allowed), ("deny", &self.denied), ("local", &self.local)];
        counters.map(|(policy, counter)| (policy, counter.load(Ordering::Relaxed)))
    }

    /// What can decide, as in [`Self::by_policy`].
    #[must_use]
    pub fn policies() -> [&'static str; 3] {
        Self::default().by_policy().map(|(policy, _)| policy)
    }
}

/// A store that always answers: when the one behind it does not, each ask's
/// [`OnStoreFailure`] decides.
///
/// What this process decides alone it counts in memory, with its share of the limit: a `share`th
/// of the amount and the burst, rounded up. Each process begins with all of its share, and nothing
/// of it is told to the store later: when the store goes away and comes back, up to twice the
/// limit may pass in one period.
#[derive(Debug)]
pub struct Guarded<S> {
    store: S,
    local: MemoryStore,
    share: u32,
    counters: Arc<GuardedCounters>,
}

impl<S: Store> Guarded<S> {
    /// `store`, guarded. `share` is among how many processes a limit is shared when it is away,
    /// `local` where this one counts then.
    #[must_use]
    pub fn new(store: S, share: u32, local: MemoryStore) -> Self {
        Self { store, local, share, counters: Arc::default() }
    }

    /// What was answered without the store.
    #[must_use]
    pub fn counters(&self) -> Arc<GuardedCounters> {
        Arc::clone(&self.counters)
    }

    /// The store behind it.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Decides without the store.
    fn decide(&self, asks: &[Ask], taking: Taking) -> Result<Vec<Answer>, StoreError> {
        let is_local = |ask: &&Ask| ask.on_store_failure == OnStoreFailure::Local;
        let denies = asks.iter().any(|ask| ask.on_store_failure == OnStoreFailure::Deny);
        let takes_nothing = taking == Taking::AllOrNothing && denies;
        let shares = asks.iter().filter(is_local).map(|ask| Ask {
            limit: ask.limit.share(self.share),
            cost: if takes_nothing { 0 } else { ask.cost },
            ..ask.clone()
        });
        let shares: Vec<Ask> = shares.collect();
        let mut locals = self.local.take_now(&shares, taking)?.into_iter();
        let refused = takes_nothing
            || (taking == Taking::AllOrNothing && locals.clone().any(|answer| !answer.allowed));
        let answers = asks.iter().filter_map(|ask| {
            let answer = match ask.on_store_failure {
                OnStoreFailure::Local => locals.next()?,
                OnStoreFailure::Allow => {
                    Answer { taken: if refused { 0 } else { ask.cost }, ..unasked(ask, true) }
                }
                OnStoreFailure::Deny => unasked(ask, false),
            };
            let decided_by = DecidedBy::StoreFailure(ask.on_store_failure);
            Some(Answer { decided_by, limit: ask.limit.burst(), ..answer })
        });
        Ok(answers.collect())
    }

    fn count(&self, answers: &[Answer]) {
        for answer in answers {
            let DecidedBy::StoreFailure(policy) = answer.decided_by else { continue };
            let counter = match policy {
                OnStoreFailure::Allow => &self.counters.allowed,
                OnStoreFailure::Deny => &self.counters.denied,
                OnStoreFailure::Local => &self.counters.local,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An answer that looks at no counter.
const fn unasked(ask: &Ask, allowed: bool) -> Answer {
    let burst = ask.limit.burst();
    Answer {
        allowed,
        taken: 0,
        remaining: if allowed { burst } else { 0 },
        retry_after: if allowed { Duration::ZERO } else { RETRY_AFTER },
        reset_after: if allowed { Duration::ZERO } else { RETRY_AFTER },
        limit: burst,
        decided_by: DecidedBy::StoreFailure(ask.on_store_failure),
    }
}

impl<S: Store> Store for Guarded<S> {
    /// Answers always, unless there are more than [`ASKS_MAX`](crate::ASKS_MAX).
    fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>> {
        Box::pin(async move {
            match self.store.take(asks, taking).await {
                Err(StoreError::TooMany) => Err(StoreError::TooMany),
                Err(_) => {
                    let answers = self.decide(asks, taking)?;
                    self.count(&answers);
                    Ok(answers)
                }
                answers => answers,
            }
        })
    }

    /// What cannot be given back is lost, and counted: the limit is stricter by it.
    fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()> {
        Box::pin(async move {
            let result = self.store.give_back(returns).await;
            if result.is_err() {
                let lost = u64::try_from(returns.len()).unwrap_or(u64::MAX);
                self.counters.returns_lost.fetch_add(lost, Ordering::Relaxed);
            }
            result
        })
    }
}
