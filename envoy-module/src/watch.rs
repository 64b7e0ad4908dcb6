//! A thread that does something again and again until its owner goes.

use core::time::Duration;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use glacis_service::give_way;

/// The thread. When this is dropped the thread has ended.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    is_due: Mutex<bool>,
    changed: Condvar,
}

impl Watcher {
    /// Starts a thread that calls `look` each time `interval` is over.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        interval: Duration,
        mut look: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let watch = move || {
            // What it does must not take from those that serve.
            give_way();
            while !stopped.within(interval) {
                // A panic, which is a bug, must not end the thread.
                let _ = catch_unwind(AssertUnwindSafe(&mut look));
            }
        };
        let thread = thread::Builder::new().name("glacis-reload".to_owned()).spawn(watch)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *self.stop.is_due.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has caught its panics.
            let _ = thread.join();
        }
    }
}

impl Stop {
    /// Waits for so long at most; whether the end is due.
    fn within(&self, limit: Duration) -> bool {
        let is_due = self.is_due.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_due, limit, |is_due| !*is_due);
        let (is_due, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_due
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
    fn it_has_ended_when_it_is_dropped() {
        let (sender, receiver) = channel();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let watcher = Watcher::start(Duration::from_millis(1), move || {
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
        assert_eq!((looks.load(Ordering::Relaxed), receiver.try_recv().is_err()), (after, true));
    }
}
