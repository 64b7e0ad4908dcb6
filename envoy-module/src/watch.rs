//! A thread that does something again and again until its owner goes.

use core::time::Duration;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use glacis_service::give_way;

/// The thread. When this is dropped it has ended, or ends with what it does just now: nobody waits for that.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// The end of the thread, as both sides see it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_due: bool,
    /// The thread does something that may take long.
    is_busy: bool,
}

impl Watcher {
    /// Starts a thread that calls `look` at once, and then each time `interval` is over; `None` for never again.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        interval: Option<Duration>,
        mut look: impl FnMut(&Stop) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let mut look = move |stop: &Stop| {
            if stop.begin() {
                // A panic, which is a bug, must not end the thread.
                let _ = catch_unwind(AssertUnwindSafe(|| look(stop)));
                stop.end();
            }
        };
        let watch = move || {
            // Somebody may wait for the first time.
            look(&stopped);
            // What it does later must not take from those that serve.
            give_way();
            while interval.is_some_and(|interval| !stopped.within(interval)) {
                look(&stopped);
            }
        };
        let thread = thread::Builder::new().name("glacis-reload".to_owned()).spawn(watch)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.stop.lock();
        state.is_due = true;
        let is_busy = state.is_busy;
        drop(state);
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| !is_busy) {
            // It has caught its panics.
            let _ = thread.join();
        }
    }
}

impl Stop {
    /// Whether the owner has gone.
    pub(crate) fn is_due(&self) -> bool {
        self.lock().is_due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins something that may take long, unless the end is due.
    fn begin(&self) -> bool {
        let mut state = self.lock();
        state.is_busy = !state.is_due;
        state.is_busy
    }

    fn end(&self) {
        self.lock().is_busy = false;
    }

    /// Waits for so long at most; whether the end is due.
    fn within(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |state| !state.is_due);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    };

    use super::*;

    #[test]
    fn it_ends_when_it_is_dropped() {
        let (sender, receiver) = channel();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let watcher = Watcher::start(Some(Duration::from_millis(1)), move |_| {
            let _ = sender.send(());
            assert!(counted.fetch_add(1, Ordering::Relaxed) > 0, "the first look panics");
        });
        let watcher = watcher.unwrap();
        for _ in 0..3 {
            receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        drop(watcher);
        let after = looks.load(Ordering::Relaxed);
        while receiver.try_recv().is_ok() {}
        thread::sleep(Duration::from_millis(20));
        // One look more, if it was about to begin or not yet over.
        assert!(looks.load(Ordering::Relaxed) <= after + 1);
    }

    #[test]
    fn nobody_waits_for_what_takes_long() {
        let ((began, has_begun), (over, is_over)) = (channel(), channel::<()>());
        let watcher = Watcher::start(None, move |stop| {
            began.send(stop.is_due()).unwrap();
            let _ = is_over.recv();
            began.send(stop.is_due()).unwrap();
        });
        let watcher = watcher.unwrap();
        assert!(!has_begun.recv_timeout(Duration::from_secs(10)).unwrap());
        drop(watcher);
        drop(over);
        assert!(has_begun.recv_timeout(Duration::from_secs(10)).unwrap(), "it sees the end");
    }
}
