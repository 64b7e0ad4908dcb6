//! Bodies of megabytes: how long the evaluation of one may take, and how many are evaluated at once.

use std::{io, time::Duration};

use glacis_service::{Evaluators, Priority};

/// Bytes of a body from which on its evaluation needs one of the threads for large bodies.
const LARGE_BODY_BYTES: usize = 1 << 20;

/// Large bodies that are evaluated at once. The evaluation of one of 13 MB can take 250 MiB (`docs/operating.md`), and
/// machines have any number of cores.
const LARGE_EVALUATIONS_MAX: usize = 2;

/// Bytes of a body for which twice the time is allowed. Larger ones have no more.
const BYTES_FOR_TWICE: usize = 8 << 20;

/// Threads for evaluations that take long: some for large bodies, which bounds the memory of all evaluations, and the
/// others for everything else, which does not wait behind large bodies.
#[derive(Debug)]
pub struct EvaluationThreads {
    all: Evaluators,
    large: Evaluators,
}

impl EvaluationThreads {
    /// Starts `threads` of them, and up to two more for large bodies. So many evaluations may wait for the threads of
    /// either kind.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(threads: usize, queue_max: usize) -> io::Result<Self> {
        let start = |threads| Evaluators::start(threads, queue_max, Priority::Awaited);
        Ok(Self { all: start(threads)?, large: start(threads.min(LARGE_EVALUATIONS_MAX))? })
    }

    /// The threads for an evaluation that looks at so many bytes of a body.
    #[must_use]
    pub const fn for_body(&self, bytes: usize) -> &Evaluators {
        if bytes >= LARGE_BODY_BYTES { &self.large } else { &self.all }
    }
}

/// The time for a message with which so many bytes of a body are evaluated, where `base` is the time for one without:
/// an eighth of it more for each MiB, and at most twice of it. Zero, which means no end, stays zero.
///
/// ```
/// # use std::time::Duration;
/// use glacis_host::time_for_body;
///
/// let base = Duration::from_millis(400);
/// let times = [0, 1 << 20, 4 << 20, 8 << 20, 12 << 20].map(|bytes| time_for_body(base, bytes));
/// assert_eq!(times.map(|time| time.as_millis()), [400, 450, 600, 800, 800]);
/// ```
#[must_use]
pub fn time_for_body(base: Duration, bytes: usize) -> Duration {
    let counted = u32::try_from(bytes.min(BYTES_FOR_TWICE) >> 10).unwrap_or(u32::MAX);
    let whole = u32::try_from(BYTES_FOR_TWICE >> 10).unwrap_or(u32::MAX);
    base.saturating_add(base.saturating_mul(counted) / whole)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// Two large bodies at a time, however many threads there are, and others beside them.
    #[test]
    fn so_many_large_bodies_at_once() {
        let threads = EvaluationThreads::start(8, 64).unwrap();
        let running = Arc::new(AtomicUsize::new(0));
        let work = |(running, ends): (Arc<AtomicUsize>, bool)| {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::sleep(Duration::from_millis(20));
            if ends {
                running.fetch_sub(1, Ordering::SeqCst);
            }
            now
        };
        let submit = |bytes, ends| {
            let state = (Arc::clone(&running), ends);
            threads.for_body(bytes).submit(state, work).map_err(drop).unwrap()
        };
        let large: Vec<_> = (0..6).map(|_| submit(LARGE_BODY_BYTES, true)).collect();
        let most = large.into_iter().map(|done| done.blocking_recv().unwrap()).max();
        assert!(most <= Some(LARGE_EVALUATIONS_MAX), "{most:?}");
        let small: Vec<_> = (0..4).map(|_| submit(LARGE_BODY_BYTES - 1, false)).collect();
        let most = small.into_iter().map(|done| done.blocking_recv().unwrap()).max();
        assert_eq!(most, Some(4));
    }
}
