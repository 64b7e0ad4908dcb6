//! A thread that does something when a time is over: Envoy's ABI has no timers for streams.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

/// Times that may run at once. One more is not started.
const TIMES_MAX: usize = 16_384;

/// The least time between two looks at what is due: one look serves all that have become due meanwhile.
const TICK: Duration = Duration::from_millis(5);

/// Done when its time is over.
type Work = Box<dyn FnOnce() + Send>;

/// The thread. It ends when this is dropped; what is not due by then is not done.
#[derive(Debug)]
pub(crate) struct Timer(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number tells apart what is due at the same time.
    due: BTreeMap<(Instant, u64), Work>,
    number: u64,
    is_over: bool,
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("State").field("due", &self.due.len()).finish_non_exhaustive()
    }
}

impl Timer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start() -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let shared = Arc::clone(&queue);
        thread::Builder::new().name("glacis-timer".to_owned()).spawn(move || shared.run())?;
        Ok(Self(queue))
    }

    /// Has `work` done after `delay`. Returns whether there was room for it: at most 16,384 times run at once.
    pub(crate) fn after(&self, delay: Duration, work: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.0.lock();
        if state.due.len() >= TIMES_MAX {
            return false;
        }
        let at = Instant::now() + delay;
        state.number += 1;
        let number = state.number;
        // The thread sleeps until the first is due: only an earlier one is news to it.
        let is_first = state.due.first_key_value().is_none_or(|((first, _), _)| at < *first);
        state.due.insert((at, number), Box::new(work));
        drop(state);
        if is_first {
            self.0.changed.notify_one();
        }
        true
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(work) = self.next() {
            for work in work {
                // A panic, which is a bug, must not end the thread.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
            thread::sleep(TICK);
        }
    }

    /// Waits until something is due. `None` at the end.
    fn next(&self) -> Option<Vec<Work>> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            let first = state.due.first_key_value().map(|((at, _), _)| *at);
            state = match first {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    let waited = self.changed.wait_timeout(state, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let later = state.due.split_off(&(now, u64::MAX));
                    return Some(core::mem::replace(&mut state.due, later).into_values().collect());
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn what_is_due_is_done_in_order() {
        let timer = Timer::start().unwrap();
        let (sender, receiver) = channel();
        for delay in [40, 10, 20] {
            let sender = sender.clone();
            let began = Instant::now();
            assert!(timer.after(Duration::from_millis(delay), move || {
                let _ = sender.send((delay, began.elapsed() >= Duration::from_millis(delay)));
                assert!(delay != 10, "the first panics");
            }));
        }
        let done: Vec<_> =
            (0..3).map(|_| receiver.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        assert_eq!(done, [(10, true), (20, true), (40, true)]);
    }

    #[test]
    fn what_is_not_due_at_the_end_is_dropped() {
        let timer = Timer::start().unwrap();
        let (sender, receiver) = channel();
        assert!(timer.after(LONG, move || sender.send(()).unwrap()));
        drop(timer);
        let ended = receiver.recv_timeout(Duration::from_secs(10));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let timer = Timer::start().unwrap();
        assert!((0..TIMES_MAX).all(|_| timer.after(LONG, || {})));
        assert!(!timer.after(LONG, || {}));
    }
}
