//! Whether the process takes requests, and if not, why.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The cause that stays: the process was told to end.
pub(crate) const DRAINING: &str = "draining";

/// What keeps the process from being ready, by cause.
pub(crate) type Causes = BTreeMap<&'static str, String>;

/// Whether the process takes requests: it does while nothing holds it back. The gRPC health service and
/// `/readyz` say it. Clones are the same.
#[derive(Clone, Debug)]
pub struct Readiness {
    causes: watch::Sender<Causes>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { causes: watch::Sender::new(Causes::new()) }
    }
}

impl Readiness {
    /// Nothing holds it back.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds readiness back for `cause`, a word, until it is [released](Self::release); `why` is for
    /// people. Says whether that is news.
    pub fn hold(&self, cause: &'static str, why: &str) -> bool {
        self.causes
            .send_if_modified(|causes| causes.insert(cause, why.to_owned()).as_deref() != Some(why))
    }

    /// Ends what [`Self::hold`] began. Says whether that is news.
    pub fn release(&self, cause: &'static str) -> bool {
        self.causes.send_if_modified(|causes| causes.remove(cause).is_some())
    }

    /// What holds it back now, and why, by cause.
    #[must_use]
    pub fn causes(&self) -> BTreeMap<&'static str, String> {
        self.causes.borrow().clone()
    }

    /// Waits until the process is told to end: what serves streams without an end ends them then.
    pub async fn ended(&self) {
        // An error means that the sender is gone: then it is time to end as well.
        let _ = self.subscribe().wait_for(|causes| causes.contains_key(DRAINING)).await;
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Causes> {
        self.causes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_released_by_itself() {
        let readiness = Readiness::new();
        let causes = || readiness.subscribe().borrow().clone();
        assert!(causes().is_empty());
        assert!(readiness.hold("a", "one") && !readiness.hold("a", "one"));
        assert!(readiness.hold("a", "two") && readiness.hold("b", "three"));
        assert!(readiness.release("a") && !readiness.release("a"));
        assert_eq!(causes(), Causes::from([("b", "three".to_owned())]));
        assert!(readiness.clone().release("b"));
        assert!(causes().is_empty());
    }
}
