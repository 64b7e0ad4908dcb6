//! The end of a body: rules run over it, on the thread of the stream where it is small, elsewhere where it is not.

use std::time::Instant;

use glacis_inspector::{Decision, End, Header, Inspector, Rejection};
use glacis_service::Client;

use super::{Exchange, Progress, phase};
use crate::{
    filter::Shared,
    metrics::Error,
    stream::{Half, Next, Stream, Wake},
    waiting::{Promise, waiting},
};

/// What is evaluated.
#[derive(Debug)]
pub(super) enum Evaluation {
    /// A body that was handed over, with what is known of its end.
    Body { half: Half, end: End },
    /// The trailers that are its end.
    Trailers { half: Half, trailers: Vec<(Vec<u8>, Vec<u8>)> },
}

/// What comes of it.
#[derive(Debug)]
pub(super) struct Done {
    inspector: Box<Inspector>,
    half: Half,
    decision: Decision,
}

/// What goes to another thread.
struct Job<W: Wake> {
    inspector: Box<Inspector>,
    evaluation: Evaluation,
    promise: Promise<W, Done>,
}

impl Evaluation {
    const fn half(&self) -> Half {
        match self {
            Self::Body { half, .. } | Self::Trailers { half, .. } => *half,
        }
    }

    const fn phase(&self) -> &'static str {
        match self {
            Self::Body { half, .. } => phase(*half, "body"),
            Self::Trailers { half, .. } => phase(*half, "trailers"),
        }
    }

    fn run(&self, inspector: &mut Inspector) -> Decision {
        match self {
            Self::Body { half: Half::Request, end } => inspector.request_body(&[], *end),
            Self::Body { half: Half::Response, end } => inspector.response_body(&[], *end),
            Self::Trailers { half, trailers } => {
                let fields: Vec<Header<'_>> =
                    trailers.iter().map(|(name, value)| Header { name, value }).collect();
                match half {
                    Half::Request => inspector.request_trailers(&fields).0,
                    Half::Response => inspector.response_trailers(&fields),
                }
            }
        }
    }
}

/// Runs on a thread of the library. A panic drops the promise, which wakes the stream without a result.
fn work<W: Wake>(job: Job<W>) {
    let Job { mut inspector, evaluation, promise } = job;
    // The client has gone: nobody waits for a verdict.
    if !promise.is_awaited() {
        return;
    }
    let (half, decision) = (evaluation.half(), evaluation.run(&mut inspector));
    promise.keep(Done { inspector, half, decision });
}

impl<W: Wake> Exchange<W> {
    /// Evaluates the end of a body. With more than `inline_body_bytes` the stream waits for another thread.
    pub(super) fn evaluate<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        mut inspector: Box<Inspector>,
        evaluation: Evaluation,
    ) -> Next {
        let began = Instant::now();
        let half = evaluation.half();
        inspector.set_deadline(self.filter.engine.shared.deadline(began));
        if inspector.body_bytes() > self.filter.engine.shared.inline_body_bytes
            && let Some(waker) = stream.waker()
        {
            match self.submit(waker, inspector, evaluation) {
                Ok(()) => {
                    *self.progress_mut(half) = Progress::Evaluation;
                    return Next::HoldAndSlowDown;
                }
                Err(mut crowded) => {
                    let decision = turn_away(&mut crowded, half);
                    self.inspector = Some(crowded);
                    return self.decided(stream, half, &decision);
                }
            }
        }
        let decision = evaluation.run(&mut inspector);
        self.inspector = Some(inspector);
        self.measure(stream, evaluation.phase(), began);
        self.decided(stream, half, &decision)
    }

    /// Queues an evaluation. Gives the inspector back when the queue is full.
    fn submit(
        &mut self,
        waker: W,
        inspector: Box<Inspector>,
        evaluation: Evaluation,
    ) -> Result<(), Box<Inspector>> {
        let (waiting, promise) = waiting(waker);
        let client = inspector.client().map(Client::from);
        let job = Job { inspector, evaluation, promise };
        let submitted = match self.filter.engine.evaluators() {
            Some(evaluators) => evaluators.submit_for(client, job, work).map(drop),
            None => Err(job),
        };
        match submitted {
            Ok(()) => {
                self.waiting = Some(waiting);
                Ok(())
            }
            Err(job) => {
                // Before the promise, which would wake the stream.
                drop(waiting);
                Err(job.inspector)
            }
        }
    }

    /// Another thread has evaluated the body, or has failed to.
    pub(crate) fn woken<S: Stream<Waker = W>>(&mut self, stream: &mut S) -> Next {
        let Some(waiting) = self.waiting.take() else { return Next::Continue };
        let Some(Done { inspector, half, decision }) = waiting.take() else {
            return self.fail(stream, Error::Fault);
        };
        drop(waiting);
        self.inspector = Some(inspector);
        match self.decided(stream, half, &decision) {
            Next::Continue => Next::Resume(half),
            next => next,
        }
    }
}

/// The decision on a body for whose evaluation there is no place.
fn turn_away(inspector: &mut Inspector, half: Half) -> Decision {
    match half {
        Half::Request => inspector.body_not_awaited(Rejection::QueueFull),
        Half::Response => {
            let rejected = inspector.reject(Rejection::QueueFull);
            rejected.unwrap_or_else(|| inspector.response_body_overflow())
        }
    }
}

impl Shared {
    /// The engine's deadline for an evaluation that begins at this time; `None` for none.
    pub(super) fn deadline(&self, began: Instant) -> Option<glacis_engine::Deadline> {
        use glacis_service::clock;
        let due = (!self.deadline.is_zero()).then(|| began + self.deadline)?;
        Some(glacis_engine::Deadline::new(clock::nanoseconds, clock::at(due)))
    }
}
