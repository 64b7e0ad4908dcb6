//! Threads for what takes long, so that small requests need not wait for it.
//!
//! There are so many as were started, and a queue before them that is bounded: what does not fit is
//! refused at once, instead of waiting longer than Envoy does. No thread is made while requests are served:
//! a process that has no memory left for one would end there, or wait for it for ever.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use tokio::sync::oneshot;

use crate::priority::give_way;

type Job = Box<dyn FnOnce() + Send>;

/// Whether somebody waits for what is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Envoy does.
    Awaited,
    /// Nobody does: the threads give way to those for which somebody waits.
    GivesWay,
    /// An operator does.
    Admin,
}

impl Priority {
    /// What threads are called.
    const fn name(self) -> &'static str {
        match self {
            Self::Awaited => "evaluate",
            Self::GivesWay => "out-of-band",
            Self::Admin => "admin",
        }
    }
}

/// Somebody waits for work, as long as this is there: what has not begun when it is dropped need not be done.
#[derive(Debug, Default)]
pub struct Waiting(Arc<AtomicBool>);

/// Whether nobody [waits](Waiting) any more. Clones are the same.
#[derive(Clone, Debug)]
pub struct GivenUp(Arc<AtomicBool>);

impl Waiting {
    /// For the work, to ask before it begins.
    #[must_use]
    pub fn given_up(&self) -> GivenUp {
        GivenUp(Arc::clone(&self.0))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl GivenUp {
    /// Whether it is so.
    #[must_use]
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The threads. They end when this is dropped, after what is queued.
#[derive(Clone)]
pub struct Evaluators {
    queue: SyncSender<Job>,
}

impl fmt::Debug for Evaluators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluators").finish_non_exhaustive()
    }
}

impl Evaluators {
    /// Starts so many threads; `queue_max` pieces of work may wait for one.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(threads: usize, queue_max: usize, priority: Priority) -> io::Result<Self> {
        let (queue, jobs) = sync_channel::<Job>(queue_max);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..threads {
            let jobs = Arc::clone(&jobs);
            let thread = thread::Builder::new().name(format!("{}-{number}", priority.name()));
            thread.spawn(move || {
                if priority == Priority::GivesWay {
                    give_way();
                }
                work(&jobs);
            })?;
        }
        Ok(Self { queue })
    }

    /// Has `work` done on one of the threads; what comes of it is received from the channel, or nothing if it
    /// panics, which is a bug.
    ///
    /// # Errors
    /// When the queue is full: gives the state back.
    pub fn submit<W, T>(&self, state: W, work: fn(W) -> T) -> Result<oneshot::Receiver<T>, W>
    where
        W: Send + 'static,
        T: Send + 'static,
    {
        // The state is handed over through a slot, as a job that is refused would take it along.
        let slot = Arc::new(Mutex::new(Some(state)));
        let (sender, receiver) = oneshot::channel();
        let taken = Arc::clone(&slot);
        let job = Box::new(move || {
            let state = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Who waited for it may have gone.
            drop(state.map(|state| sender.send(work(state))));
        });
        if self.queue.try_send(job).is_ok() {
            return Ok(receiver);
        }
        let state = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        state.map_or(Ok(receiver), Err)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            // The thread is for others, too; who waits sees that the channel is closed.
            Ok(job) => drop(catch_unwind(AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use super::*;

    /// What has come of it, within ten seconds.
    fn received<T>(receiver: &mut oneshot::Receiver<T>) -> Result<T, oneshot::error::TryRecvError> {
        for _ in 0..1_000 {
            match receiver.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {
                    thread::sleep(Duration::from_millis(10));
                }
                told => return told,
            }
        }
        receiver.try_recv()
    }

    #[test]
    fn a_panic_ends_the_work_and_not_the_thread() {
        let evaluators = Evaluators::start(1, 4, Priority::Awaited).unwrap();
        let mut bug = evaluators.submit((), |()| assert!(thread::panicking(), "a bug")).unwrap();
        assert_eq!(received(&mut bug), Err(oneshot::error::TryRecvError::Closed));
        let mut good = evaluators.submit(20, |number| number + 1).unwrap();
        assert_eq!(received(&mut good), Ok(21));
    }

    /// What is queued is done, though nobody can queue more.
    #[test]
    fn what_is_queued_is_done_at_the_end() {
        let evaluators = Evaluators::start(1, 4, Priority::Awaited).unwrap();
        let mut last: Vec<_> =
            (0..3).map(|number| evaluators.submit(number, |number| number).unwrap()).collect();
        drop(evaluators);
        for (number, receiver) in last.iter_mut().enumerate() {
            assert_eq!(received(receiver), Ok(number));
        }
    }

    #[test]
    fn nobody_waits_once_it_is_dropped() {
        let waiting = Waiting::default();
        let given_up = waiting.given_up();
        assert!(!given_up.is_so());
        drop(waiting);
        assert!(given_up.is_so());
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_given_back() {
        let evaluators = Evaluators::start(1, 1, Priority::Admin).unwrap();
        let (started, has_started) = channel();
        let (end, may_end) = channel();
        let hold = |(started, may_end): (std::sync::mpsc::Sender<()>, Receiver<()>)| {
            started.send(()).unwrap();
            may_end.recv().unwrap();
        };
        let mut first = evaluators.submit((started, may_end), hold).unwrap();
        has_started.recv().unwrap();
        let mut second = evaluators.submit(2, |number| number).unwrap();
        assert_eq!(evaluators.submit(3, |number| number).unwrap_err(), 3);
        end.send(()).unwrap();
        assert_eq!((received(&mut first), received(&mut second)), (Ok(()), Ok(2)));
    }
}
