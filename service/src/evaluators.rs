//! Threads for work that takes long, and a bounded queue that is fair to clients.
//!
//! All threads are started at the beginning: a process that has no memory left for one would end, or wait for it for
//! ever, while it serves. Work that does not fit into the queue is rejected at once.
//!
//! Clients take turns: a client with many pieces of work waits behind a client with one. While there are two threads or
//! more, the last free one is left to other clients.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use tokio::sync::oneshot;

use crate::{client::Client, priority};

type Job = Box<dyn FnOnce() + Send>;

/// Whether somebody waits for what is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Envoy does. The threads give way a little to those that read and answer messages.
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

/// The threads. They end when the last clone of this is dropped, after what is queued.
pub struct Evaluators {
    queue: Arc<Queue>,
    handles: Arc<AtomicUsize>,
}

impl fmt::Debug for Evaluators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluators").finish_non_exhaustive()
    }
}

impl Clone for Evaluators {
    fn clone(&self) -> Self {
        self.handles.fetch_add(1, Ordering::Relaxed);
        Self { queue: Arc::clone(&self.queue), handles: Arc::clone(&self.handles) }
    }
}

impl Drop for Evaluators {
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.lock().is_closed = true;
            self.queue.changed.notify_all();
        }
    }
}

/// Work that waits, and how much of it is done for whom.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

/// Work of nobody in particular has a turn of its own.
type Turn = Option<Client>;

struct State {
    /// Clients whose work waits, in the order of their turns.
    turns: VecDeque<Turn>,
    /// As many as there are `turns`, none empty.
    waiting: BTreeMap<Turn, VecDeque<Job>>,
    /// How many threads work for whom; no entry for none.
    running: BTreeMap<Turn, usize>,
    queued: usize,
    queue_max: usize,
    /// Threads that may work for one client at once.
    share: usize,
    idle: usize,
    is_closed: bool,
}

impl Evaluators {
    /// Starts so many threads, at least one; `queue_max` pieces of work may wait for one.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(threads: usize, queue_max: usize, priority: Priority) -> io::Result<Self> {
        let threads = threads.max(1);
        let state = State {
            turns: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            queued: 0,
            queue_max,
            share: threads.saturating_sub(1).max(1),
            idle: 0,
            is_closed: false,
        };
        let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() });
        for number in 0..threads {
            let jobs = Arc::clone(&queue);
            let thread = thread::Builder::new().name(format!("{}-{number}", priority.name()));
            thread.spawn(move || {
                match priority {
                    Priority::GivesWay => priority::give_way(),
                    Priority::Awaited => priority::give_way_a_little(),
                    Priority::Admin => {}
                }
                jobs.work();
            })?;
        }
        Ok(Self { queue, handles: Arc::new(AtomicUsize::new(1)) })
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
        self.submit_for(None, state, work)
    }

    /// As [`submit`](Self::submit), in the turn of a client.
    ///
    /// # Errors
    /// When the queue is full: gives the state back.
    pub fn submit_for<W, T>(
        &self,
        client: Option<Client>,
        state: W,
        work: fn(W) -> T,
    ) -> Result<oneshot::Receiver<T>, W>
    where
        W: Send + 'static,
        T: Send + 'static,
    {
        let mut queue = self.queue.lock();
        // A free thread takes it at once.
        if queue.queued >= queue.queue_max.saturating_add(queue.idle) {
            return Err(state);
        }
        let (sender, receiver) = oneshot::channel();
        // The receiver may have gone.
        queue.add(client, Box::new(move || drop(sender.send(work(state)))));
        drop(queue);
        self.queue.changed.notify_one();
        Ok(receiver)
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((turn, job)) = state.next() {
                drop(state);
                // The thread is for others, too; who waits sees that the channel is closed.
                drop(catch_unwind(AssertUnwindSafe(job)));
                state = self.lock();
                state.done(turn);
                // Work of the same client may have waited for that.
                self.changed.notify_one();
                continue;
            }
            if state.is_closed && state.queued == 0 {
                // The others look, too.
                self.changed.notify_all();
                return;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl State {
    fn add(&mut self, turn: Turn, job: Job) {
        let jobs = self.waiting.entry(turn).or_insert_with(|| {
            self.turns.push_back(turn);
            VecDeque::new()
        });
        jobs.push_back(job);
        self.queued += 1;
    }

    /// The next piece of work of the client whose turn it is. Clients that hold their share of the threads wait; work
    /// of nobody in particular has no share.
    fn next(&mut self) -> Option<(Turn, Job)> {
        let may = |turn: &Turn| {
            turn.is_none() || self.running.get(turn).is_none_or(|&running| running < self.share)
        };
        let at = self.turns.iter().position(may)?;
        let turn = self.turns.remove(at)?;
        let jobs = self.waiting.get_mut(&turn)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&turn);
        } else {
            self.turns.push_back(turn);
        }
        self.queued -= 1;
        *self.running.entry(turn).or_default() += 1;
        Some((turn, job))
    }

    fn done(&mut self, turn: Turn) {
        if let Some(running) = self.running.get_mut(&turn) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&turn);
            }
        }
    }
}
#[cfg(test)]
mod tests {
    use core::net::IpAddr;
    use std::{
        sync::mpsc::{Receiver, channel},
        time::Duration,
    };

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

    fn client(last: u8) -> Option<Client> {
        Some(IpAddr::from([192, 0, 2, last]).into())
    }

    /// The order in which a state gives out what was added, when each piece is done before the next begins.
    fn order(clients: &[u8], share: usize) -> Vec<u8> {
        let mut state = state(share);
        for &last in clients {
            state.add(client(last), Box::new(|| {}));
        }
        let mut order = Vec::new();
        while let Some((turn, _)) = state.next() {
            order.extend((0..=255).find(|&last| client(last) == turn));
            state.done(turn);
        }
        order
    }

    fn state(share: usize) -> State {
        State {
            turns: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            queued: 0,
            queue_max: 100,
            share,
            idle: 0,
            is_closed: false,
        }
    }

    #[test]
    fn clients_take_turns() {
        assert_eq!(order(&[1, 1, 1, 1, 2, 3, 2], 1), [1, 2, 3, 1, 2, 1, 1]);
        assert_eq!(order(&[1, 1], 1), [1, 1]);
    }

    #[test]
    fn a_client_holds_no_more_than_its_share_of_the_threads() {
        let mut state = state(2);
        for last in [1, 1, 1, 1, 2] {
            state.add(client(last), Box::new(|| {}));
        }
        let taken: Vec<_> = (0..4).map(|_| state.next().map(|(turn, _)| turn)).collect();
        assert_eq!(taken, [Some(client(1)), Some(client(2)), Some(client(1)), None]);
        state.done(client(1));
        assert_eq!(state.next().map(|(turn, _)| turn), Some(client(1)));
        assert_eq!(state.queued, 1);
        for _ in 0..3 {
            state.add(None, Box::new(|| {}));
        }
        let taken: Vec<_> = (0..4).map(|_| state.next().map(|(turn, _)| turn)).collect();
        assert_eq!(taken, [Some(None), Some(None), Some(None), None]);
    }

    /// Both threads are free, and one client has work for both: the second is left for the other client.
    #[test]
    fn the_last_free_thread_is_for_other_clients() {
        let evaluators = Evaluators::start(2, 8, Priority::Awaited).unwrap();
        let (end, may_end) = channel::<()>();
        let may_end = Arc::new(Mutex::new(may_end));
        let hold = |may_end: Arc<Mutex<Receiver<()>>>| {
            may_end.lock().unwrap().recv().unwrap();
        };
        let held: Vec<_> = (0..3)
            .map(|_| evaluators.submit_for(client(1), Arc::clone(&may_end), hold).unwrap())
            .collect();
        let mut other = evaluators.submit_for(client(2), 7, |number| number).unwrap();
        assert_eq!(received(&mut other), Ok(7));
        for mut held in held {
            end.send(()).unwrap();
            assert_eq!(received(&mut held), Ok(()));
        }
    }
}
