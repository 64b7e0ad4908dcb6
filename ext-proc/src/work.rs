//! One long evaluation, as the stream that waits for it sees it.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::time::Instant;

use glacis_service::{GivenUp, Waiting};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

use crate::{
    metrics::Metrics,
    reply::Answer,
    service::{Answered, answer},
    session::Session,
    wire::Incoming,
};

/// A message that is evaluated on a thread for long work, or waits for one. When it is dropped nobody
/// waits for the answer any more: work that has not begun is not done.
#[derive(Debug)]
pub(crate) struct Work {
    done: oneshot::Receiver<Done>,
    deadline: Option<Pin<Box<Sleep>>>,
    _waiting: Waiting,
    pass: Option<Box<Pass>>,
}

/// The answer if there will be no verdict.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) answer: Answer,
    /// The verdict of the receipt in it.
    pub(crate) verdict: &'static str,
}

impl Pass {
    /// The answer, which is counted as it is given: mostly the verdict comes in time, with a receipt of its own.
    pub(crate) fn given(self, metrics: &Metrics) -> Answer {
        metrics.receipt(self.verdict);
        self.answer
    }
}

/// The session, with the answer.
pub(crate) type Done = (Box<Session>, Answered);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The deadline has passed.
    Late,
    /// The thread is gone: the process ends.
    Ended,
}

/// There is no place in the queue.
#[derive(Debug)]
pub(crate) struct Crowded {
    pub(crate) session: Box<Session>,
    pub(crate) pass: Option<Box<Pass>>,
}

/// What goes to the thread.
#[derive(Debug)]
pub(crate) struct Job {
    session: Box<Session>,
    message: Incoming,
    given_up: GivenUp,
    queued: Instant,
}

impl Work {
    /// Queues the evaluation. Gives the session back when there is no place.
    pub(crate) fn begin(
        session: Box<Session>,
        message: Incoming,
        deadline: Duration,
    ) -> Result<Self, Crowded> {
        let waiting = Waiting::default();
        let shared = session.shared_by();
        let pass = session.pass_without_verdict(&message.message).map(Box::new);
        let job = Job { session, message, given_up: waiting.given_up(), queued: Instant::now() };
        shared.metrics().evaluations_waiting.inc();
        match shared.evaluators().submit(job, evaluate) {
            Ok(done) => {
                let deadline = (!deadline.is_zero()).then(|| Box::pin(sleep(deadline)));
                Ok(Self { done, deadline, _waiting: waiting, pass })
            }
            Err(job) => {
                shared.metrics().evaluations_waiting.dec();
                Err(Crowded { session: job.session, pass })
            }
        }
    }
}

/// Runs on the thread.
fn evaluate(job: Job) -> Done {
    let Job { mut session, message, given_up, queued } = job;
    session.shared().metrics().evaluations_waiting.dec();
    session.shared().metrics().waited(queued.elapsed());
    if given_up.is_so() {
        session.give_up();
        return (session, Ok(Vec::new()));
    }
    // If it comes too late it is recorded all the same: who sent it, and what was found.
    let answered = answer(&mut session, message);
    (session, answered)
}

impl Work {
    /// The answer if there will be no verdict: none where rules may block.
    pub(crate) const fn take_pass(&mut self) -> Option<Box<Pass>> {
        self.pass.take()
    }
}

impl Future for Work {
    type Output = Result<Done, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.done).poll(context) {
            Poll::Ready(Ok(done)) => return Poll::Ready(Ok(done)),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Lost::Ended)),
            Poll::Pending => {}
        }
        match self.deadline.as_mut().map(|deadline| deadline.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(Lost::Late)),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}
