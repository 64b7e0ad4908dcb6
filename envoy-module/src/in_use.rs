//! The rules in use, and the requests that wait for the first ones.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::rulesets::Rulesets;

/// Wakes a request that waits for rules.
type Wake = Box<dyn FnOnce() + Send + Sync>;

/// The rules of a filter. A request keeps those with which it began.
#[derive(Debug)]
pub(crate) struct InUse(RwLock<State>);

/// What there is of rules.
#[derive(Clone, Debug)]
pub(crate) enum Rules {
    /// The rules.
    Ready(Arc<Rulesets>),
    /// They are being compiled.
    Awaited,
    /// They contain an error, and there were none before. A reload ends it.
    Failed,
}

enum State {
    Ready(Arc<Rulesets>),
    Awaited(Vec<Wake>),
    Failed,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready(_) => "Ready",
            Self::Awaited(_) => "Awaited",
            Self::Failed => "Failed",
        })
    }
}

impl InUse {
    /// No rules yet: somebody compiles them.
    pub(crate) const fn awaited() -> Self {
        Self(RwLock::new(State::Awaited(Vec::new())))
    }

    /// The rules, if there are any.
    pub(crate) fn rules(&self) -> Rules {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            State::Ready(rulesets) => Rules::Ready(Arc::clone(rulesets)),
            State::Awaited(_) => Rules::Awaited,
            State::Failed => Rules::Failed,
        }
    }

    /// Has `wake` called when the rules are ready or have failed; at once if that is so already. The caller bounds how
    /// many wait.
    pub(crate) fn when_known(&self, wake: impl FnOnce() + Send + Sync + 'static) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let State::Awaited(waiting) = &mut *state {
            waiting.push(Box::new(wake));
            return;
        }
        drop(state);
        wake();
    }

    /// Puts rules to use.
    pub(crate) fn replace(&self, rulesets: Rulesets) {
        self.change(State::Ready(Arc::new(rulesets)));
    }

    /// Ends the wait for the first rules: there are none. Rules in use stay.
    pub(crate) fn fail(&self) {
        if matches!(self.rules(), Rules::Awaited) {
            self.change(State::Failed);
        }
    }

    fn change(&self, new: State) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *state, new);
        drop(state);
        // Outside the lock: the last of the old rules to go takes a while, and so does waking many.
        if let State::Awaited(waiting) = old {
            waiting.into_iter().for_each(|wake| wake());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn who_waits_is_woken_once() {
        let in_use = InUse::awaited();
        let woken = Arc::new(AtomicUsize::new(0));
        let wake = || {
            let woken = Arc::clone(&woken);
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        };
        in_use.when_known(wake());
        in_use.when_known(wake());
        assert!(matches!(in_use.rules(), Rules::Awaited));
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        in_use.fail();
        in_use.fail();
        assert!(matches!(in_use.rules(), Rules::Failed));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        in_use.when_known(wake());
        assert_eq!(woken.load(Ordering::Relaxed), 3, "it is known already");
    }
}
