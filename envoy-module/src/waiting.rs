//! One evaluation on another thread, as the stream that waits for it and the thread see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::stream::Wake;

/// The stream's side. When it is dropped, nothing wakes the stream any more.
#[derive(Debug)]
pub(crate) struct Waiting<W: Wake, T>(Arc<Slot<W, T>>);

/// The thread's side. When it is dropped, the stream is woken, whether or not there is a result.
#[derive(Debug)]
pub(crate) struct Promise<W: Wake, T>(Arc<Slot<W, T>>);

#[derive(Debug)]
struct Slot<W, T> {
    state: Mutex<State<W, T>>,
}

#[derive(Debug)]
struct State<W, T> {
    /// `None` once the stream does not wait any more. Envoy's stream may be gone then, and its thread, too.
    waker: Option<W>,
    result: Option<T>,
}

impl<W, T> Slot<W, T> {
    fn lock(&self) -> MutexGuard<'_, State<W, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both sides of an evaluation.
pub(crate) fn waiting<W: Wake, T>(waker: W) -> (Waiting<W, T>, Promise<W, T>) {
    let slot = Arc::new(Slot { state: Mutex::new(State { waker: Some(waker), result: None }) });
    (Waiting(Arc::clone(&slot)), Promise(slot))
}

impl<W: Wake, T> Waiting<W, T> {
    /// The result; `None` before there is one, and if the evaluation has failed.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().result.take()
    }
}

impl<W: Wake, T> Drop for Waiting<W, T> {
    fn drop(&mut self) {
        // Within the lock: a thread that wakes the stream just now is done before the waker goes.
        self.0.lock().waker = None;
    }
}

impl<W: Wake, T> Promise<W, T> {
    /// The same once more: each of both wakes the stream when it is dropped.
    pub(crate) fn another(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Whether the stream still waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.lock().waker.is_some()
    }

    /// Hands the result over, and wakes the stream.
    pub(crate) fn keep(self, result: T) {
        self.0.lock().result = Some(result);
    }
}

impl<W: Wake, T> Drop for Promise<W, T> {
    fn drop(&mut self) {
        if let Some(waker) = &self.0.lock().waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counted(Arc<AtomicUsize>);

    impl Wake for Counted {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_is_woken_once_while_it_waits() {
        for (is_kept, is_awaited, expected) in
            [(true, true, (1, Some(7))), (false, true, (1, None)), (true, false, (0, None))]
        {
            let woken = Arc::new(AtomicUsize::new(0));
            let (waiting, promise) = waiting(Counted(Arc::clone(&woken)));
            let waiting = is_awaited.then_some(waiting);
            assert_eq!(promise.is_awaited(), is_awaited);
            if is_kept {
                promise.keep(7)
            } else {
                drop(promise)
            }
            let result = waiting.as_ref().and_then(Waiting::take);
            assert_eq!((woken.load(Ordering::Relaxed), result), expected);
        }
    }
}
