//! Threads for evaluations that take long, so that small requests need not wait for them.
//!
//! There are as many as there are cores, and a queue before them that is bounded: what does not fit is
//! refused at once, instead of waiting longer than Envoy does.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use glacis_service::give_way;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Whether somebody waits for what is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Envoy does.
    Awaited,
    /// Nobody does: the threads give way to those for which somebody waits.
    GivesWay,
}

impl Priority {
    /// What threads are called.
    const fn name(self) -> &'static str {
        match self {
            Self::Awaited => "evaluate",
            Self::GivesWay => "out-of-band",
        }
    }
}

/// The threads. They end when this is dropped, after what is queued.
#[derive(Clone)]
pub(crate) struct Evaluators {
    queue: SyncSender<Job>,
}

impl fmt::Debug for Evaluators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluators").finish_non_exhaustive()
    }
}

impl Evaluators {
    /// Starts so many threads; `queue_max` evaluations may wait for one.
    pub(crate) fn start(threads: usize, queue_max: usize, priority: Priority) -> io::Result<Self> {
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

    /// Has `work` done on one of the threads; what comes of it is received from the channel. Gives the
    /// work back when the queue is full.
    pub(crate) fn submit<W, T>(&self, state: W, work: fn(W) -> T) -> Result<oneshot::Receiver<T>, W>
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
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}
