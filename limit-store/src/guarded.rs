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

#[cfg(test)]
mod tests {
    use crate::key::Key;
    use crate::limit::Limit;
    use crate::store::ASKS_MAX;

    use super::*;

    /// A store that has nothing but this error.
    #[derive(Debug)]
    struct Away(StoreError);

    impl Store for Away {
        fn take<'a>(&'a self, _: &'a [Ask], _: Taking) -> Pending<'a, Vec<Answer>> {
            Box::pin(async move { Err(self.0.clone()) })
        }

        fn give_back<'a>(&'a self, _: &'a [Return]) -> Pending<'a, ()> {
            Box::pin(async move { Err(self.0.clone()) })
        }
    }

    /// One of two processes.
    fn guarded(error: StoreError) -> Guarded<Away> {
        Guarded::new(Away(error), 2, MemoryStore::new(100))
    }

    fn ask(policy: OnStoreFailure) -> Ask {
        let limit = Limit::gcra(1, Duration::from_secs(60), 4).unwrap();
        let key = Key::new(b"a", format!("{policy:?}").as_bytes());
        Ask { on_store_failure: policy, ..Ask::new(key, limit, 1) }
    }

    /// Whatever is wrong with the store, each ask is answered: unless there are too many of them.
    #[tokio::test]
    async fn errors_of_the_store() {
        let asks = [OnStoreFailure::Allow, OnStoreFailure::Deny, OnStoreFailure::Local].map(ask);
        for error in [
            StoreError::Unavailable,
            StoreError::Late,
            StoreError::Crowded,
            StoreError::Refused("OOM".to_owned()),
            StoreError::Unreadable,
        ] {
            let store = guarded(error.clone());
            let answers = store.take(&asks, Taking::EachForItself).await.unwrap();
            let allowed: Vec<bool> = answers.iter().map(|answer| answer.allowed).collect();
            assert_eq!(allowed, [true, false, true], "{error}");
            let counted = [("allow", 1), ("deny", 1), ("local", 1)];
            assert_eq!(store.counters().by_policy(), counted, "{error}");
        }
        let many = vec![ask(OnStoreFailure::Allow); ASKS_MAX + 1];
        let store = guarded(StoreError::TooMany);
        assert_eq!(store.take(&many, Taking::EachForItself).await, Err(StoreError::TooMany));
        assert_eq!(store.counters().by_policy(), [("allow", 0), ("deny", 0), ("local", 0)]);
    }

    /// One after the other: the share of this process is two at once.
    #[tokio::test]
    async fn what_is_taken_alone() {
        const ALLOW_LOCAL: [OnStoreFailure; 2] = [OnStoreFailure::Allow, OnStoreFailure::Local];
        const ALLOW_DENY: [OnStoreFailure; 2] = [OnStoreFailure::Allow, OnStoreFailure::Deny];
        const DENY_LOCAL: [OnStoreFailure; 2] = [OnStoreFailure::Deny, OnStoreFailure::Local];
        const EACH: Taking = Taking::EachForItself;
        const ALL: Taking = Taking::AllOrNothing;
        let store = guarded(StoreError::Unavailable);
        for (policies, taking, allowed, taken) in [
            (DENY_LOCAL, ALL, [false, true], [0, 0]),
            (ALLOW_LOCAL, ALL, [true, true], [1, 1]),
            (DENY_LOCAL, EACH, [false, true], [0, 1]),
            (ALLOW_LOCAL, EACH, [true, false], [1, 0]),
            (ALLOW_LOCAL, ALL, [true, false], [0, 0]),
            (ALLOW_DENY, EACH, [true, false], [1, 0]),
            (ALLOW_DENY, ALL, [true, false], [0, 0]),
        ] {
            let answers = store.take(&policies.map(ask), taking).await.unwrap();
            let found: Vec<_> =
                answers.iter().map(|answer| (answer.allowed, answer.taken)).collect();
            let expected: Vec<_> = allowed.into_iter().zip(taken).collect();
            assert_eq!(found, expected, "{policies:?} {taking:?}");
        }
    }

    #[tokio::test]
    async fn returns_that_are_lost_are_counted() {
        let store = guarded(StoreError::Late);
        let Ask { key, limit, .. } = ask(OnStoreFailure::Local);
        let given = Return { key, limit, tokens: 5, age: Duration::ZERO };
        assert_eq!(store.give_back(&[given.clone(), given]).await, Err(StoreError::Late));
        assert_eq!(store.counters().returns_lost.load(Ordering::Relaxed), 2);
    }
}
