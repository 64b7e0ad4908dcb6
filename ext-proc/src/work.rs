//! Evaluations: one on the thread of its stream, or a long one as the stream that waits for it sees it.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};
use std::{panic::catch_unwind, sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::Rejection;
use glacis_service::{GivenUp, Waiting};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep_until},
};
use tonic::Status;

use crate::{
    metrics::ErrorKind,
    reply::Answered,
    session::{Fallback, Session},
    wire::Incoming,
};

/// A message that is evaluated on a thread for long work, or waits for one. When it is dropped nobody
/// waits for the answer any more: work that has not begun is not done.
#[derive(Debug)]
pub(crate) struct Work {
    done: oneshot::Receiver<Done>,
    timer: Option<Pin<Box<Sleep>>>,
    _waiting: Waiting,
    fallback: Option<Box<Fallback>>,
}

/// The session, with the answer.
pub(crate) type Done = (Box<Session>, Answered);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There was no verdict in time.
    Late,
    /// The thread is gone: the process ends.
    Ended,
}

/// There is no place in the queue.
#[derive(Debug)]
pub(crate) struct Crowded {
    pub(crate) session: Box<Session>,
    pub(crate) message: Incoming,
    /// Whether it is the queue that is full, or the client's share of it.
    pub(crate) rejection: Rejection,
}

/// What goes to the thread.
#[derive(Debug)]
pub(crate) struct Job {
    session: Box<Session>,
    message: Incoming,
    given_up: GivenUp,
    queued: Instant,
    due: Option<Instant>,
    /// In the queue.
    place: Share,
}

impl Work {
    /// Queues the evaluation, which looks at so many bytes of a body and has to end by `due`. Gives the session and the message back when there is no place.
    pub(crate) fn begin(
        session: Box<Session>,
        message: Incoming,
        body_bytes: usize,
        due: Option<Instant>,
    ) -> Result<Self, Box<Crowded>> {
        let waiting = Waiting::default();
        let shared = session.shared_by();
        let client = session.client(&message.message);
        let mut place = Share::none(Arc::clone(&shared.queue), client);
        if let Err(rejection) = place.add(1) {
            return Err(Box::new(Crowded { session, message, rejection }));
        }
        let fallback = session.without_verdict(&message.message).map(Box::new);
        // Envoy has no timeout in full duplex, and waits for what it has given away.
        let patience = due.filter(|_| !session.is_duplex()).map(|due| due + shared.grace());
        let queued = Instant::now();
        let job = Job { session, message, given_up: waiting.given_up(), queued, due, place };
        shared.metrics().evaluations_waiting.inc();
        match shared.evaluators(body_bytes).submit_for(client, job, evaluate) {
            Ok(done) => {
                let timer = patience.map(|patience| Box::pin(sleep_until(patience.into())));
                Ok(Self { done, timer, _waiting: waiting, fallback })
            }
            Err(Job { session, message, .. }) => {
                shared.metrics().evaluations_waiting.dec();
                let rejection = Rejection::QueueFull;
                Err(Box::new(Crowded { session, message, rejection }))
            }
        }
    }
}

/// Runs on the thread.
fn evaluate(job: Job) -> Done {
    let Job { mut session, message, given_up, queued, due, place } = job;
    drop(place);
    session.shared().metrics().evaluations_waiting.dec();
    session.shared().metrics().waited(queued.elapsed());
    let is_late = due.is_some_and(|due| due <= Instant::now());
    if given_up.is_so() && !is_late {
        session.give_up();
        return (session, Ok(Vec::new()));
    }
    // What is late ends before its first rule, and is recorded: who sent it, and what it was rejected for.
    let answered = answer(&mut session, message);
    (session, answered)
}

impl Work {
    /// The answer if there will be no verdict in time; none where Envoy's failure mode is to decide.
    pub(crate) const fn take_fallback(&mut self) -> Option<Box<Fallback>> {
        self.fallback.take()
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
        match self.timer.as_mut().map(|timer| timer.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(Lost::Late)),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}

/// Answers a message, and makes an error of a panic: a bug must not be a way past the rules.
pub(crate) fn answer(session: &mut Session, message: Incoming) -> Answered {
    guarded(session, |session| session.answer(message))
}

/// The same for anything else that a session is asked.
pub(crate) fn guarded(
    session: &mut Session,
    answer: impl FnOnce(&mut Session) -> Answered,
) -> Answered {
    catch_unwind(AssertUnwindSafe(|| answer(session))).unwrap_or_else(|_| {
        session.give_up();
        session.shared().metrics().error(ErrorKind::Panic);
        tracing::error!("inspection panicked: a bug; the stream ends with an error");
        Err(internal())
    })
}

/// The end of a stream whose evaluation was lost.
pub(crate) fn internal() -> Status {
    Status::internal("inspection failed")
}
