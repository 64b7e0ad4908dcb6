//! Rules run over headers and bodies: on the thread of the stream where there is little, elsewhere where there is much.

use core::time::Duration;
use std::time::Instant;

use glacis_engine::Endpoint;
use glacis_inspector::{Decision, End, Header, Inspector, Mode, Rejection, RequestHead, client_of};
use glacis_service::Client;

use super::{Exchange, Progress, phase};
use crate::{
    metrics::Error,
    shared::Shared,
    stream::{Half, HeaderMap, Next, Stream, Wake, Wakeup},
    waiting::{Promise, waiting},
};

/// Names and values, in memory of their own.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Copies headers or trailers.
pub(super) fn own_fields(fields: &[Header<'_>]) -> Fields {
    fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

fn borrowed(fields: &Fields) -> Vec<Header<'_>> {
    fields.iter().map(|(name, value)| Header { name, value }).collect()
}

/// A request's headers and what is known beside them, in memory of their own.
#[derive(Debug)]
pub(super) struct OwnedHead {
    headers: Fields,
    protocol: Option<&'static str>,
    end_of_stream: bool,
    id: String,
    time: Duration,
    source: Option<Endpoint>,
    destination: Option<Endpoint>,
    user: Option<String>,
    lots: [u8; 2],
    client: Option<Client>,
}

impl OwnedHead {
    pub(super) fn new(
        head: &RequestHead<'_>,
        protocol: Option<&'static str>,
        trusted_hops: usize,
    ) -> Self {
        let client = client_of(head.source, head.headers, trusted_hops);
        Self {
            headers: own_fields(head.headers),
            protocol,
            end_of_stream: head.end_of_stream,
            id: head.id.to_owned(),
            time: head.time,
            source: head.source,
            destination: head.destination,
            user: head.user.map(str::to_owned),
            lots: [head.lot, head.audit_lot],
            client: client.map(|client| client.address.into()),
        }
    }

    /// What `judge` makes of it.
    fn judge<T>(&self, judge: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        let [lot, audit_lot] = self.lots;
        judge(&RequestHead {
            headers: &borrowed(&self.headers),
            protocol: self.protocol,
            end_of_stream: self.end_of_stream,
            id: &self.id,
            time: self.time,
            source: self.source,
            destination: self.destination,
            user: self.user.as_deref(),
            lot,
            audit_lot,
        })
    }
}

/// Begins an exchange; a call whose messages can be inspected one by one is judged by its headers first.
pub(super) fn begin(inspector: &mut Inspector, head: &RequestHead<'_>) -> Decision {
    let decision = inspector.request_headers(head);
    if decision == Decision::NeedBody && inspector.has_messages() {
        return inspector.begin_messages(head);
    }
    if decision == Decision::Continue {
        inspector.prepare_socket(head);
    }
    decision
}

/// What has come behind the headers of a request while they are evaluated elsewhere, or wait for rules. Envoy holds the
/// body.
#[derive(Debug)]
pub(super) struct Early {
    /// Whether the headers are the whole request.
    pub(super) is_headers_only: bool,
    /// Whether the whole body is there.
    pub(super) is_ended: bool,
    pub(super) trailers: Option<Fields>,
}

impl Early {
    /// Nothing yet.
    pub(super) const fn new(is_headers_only: bool) -> Self {
        Self { is_headers_only, is_ended: is_headers_only, trailers: None }
    }
}

/// What is evaluated.
#[derive(Debug)]
pub(super) enum Evaluation {
    /// The headers of a request.
    Headers(Box<OwnedHead>),
    /// A body that was handed over, with what is known of its end.
    Body { half: Half, end: End },
    /// The trailers that are its end.
    Trailers { half: Half, trailers: Fields },
    /// Messages of a call: see [`super::messages`].
    Messages { piece: Vec<u8>, end: End },
}

/// What comes of it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) inspector: Box<Inspector>,
    pub(super) half: Half,
    pub(super) decision: Decision,
}

/// What goes to another thread.
struct Job<W: Wake> {
    inspector: Box<Inspector>,
    evaluation: Evaluation,
    promise: Promise<W, Done>,
}

impl Evaluation {
    /// Bytes of a body that the evaluation looks at.
    fn body_bytes(&self, inspector: &Inspector) -> usize {
        match self {
            Self::Headers(_) | Self::Messages { .. } => 0,
            Self::Body { .. } | Self::Trailers { .. } => inspector.body_bytes(),
        }
    }

    const fn half(&self) -> Half {
        match self {
            Self::Headers(_) | Self::Messages { .. } => Half::Request,
            Self::Body { half, .. } | Self::Trailers { half, .. } => *half,
        }
    }

    const fn phase(&self) -> &'static str {
        match self {
            Self::Headers(_) => "request_headers",
            Self::Body { half, .. } => phase(*half, "body"),
            Self::Messages { .. } => phase(Half::Request, "body"),
            Self::Trailers { half, .. } => phase(*half, "trailers"),
        }
    }

    fn run(&self, inspector: &mut Inspector) -> Decision {
        match self {
            Self::Headers(head) => head.judge(|head| begin(inspector, head)),
            Self::Body { half: Half::Request, end } => inspector.request_body(&[], *end),
            Self::Body { half: Half::Response, end } => inspector.response_body(&[], *end),
            Self::Messages { piece, end } => inspector.messages(piece, *end),
            Self::Trailers { half, trailers } => {
                let fields = borrowed(trailers);
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
        self.late_body = None;
        let half = evaluation.half();
        let bytes = evaluation.body_bytes(&inspector);
        inspector.set_deadline(self.filter.engine.shared.deadline_for_body(began, bytes));
        let is_long = match &evaluation {
            Evaluation::Headers(_) => true,
            Evaluation::Messages { piece, .. } => {
                let bytes = inspector.pending_bytes().saturating_add(piece.len());
                bytes > self.filter.engine.shared.inline_body_bytes
            }
            Evaluation::Body { .. } | Evaluation::Trailers { .. } => {
                inspector.body_bytes() > self.filter.engine.shared.inline_body_bytes
            }
        };
        if is_long && let Some(waker) = stream.waker(Wakeup::Evaluation) {
            match self.submit(waker, inspector, evaluation) {
                Ok(()) => {
                    *self.progress_mut(half) = Progress::Evaluation;
                    return Next::HoldAndSlowDown;
                }
                Err((mut crowded, evaluation)) => {
                    let decision = turn_away(&mut crowded, &evaluation);
                    return self.evaluated(stream, Done { inspector: crowded, half, decision });
                }
            }
        }
        let decision = evaluation.run(&mut inspector);
        self.measure(stream, evaluation.phase(), began);
        self.evaluated(stream, Done { inspector, half, decision })
    }

    /// Goes on after an evaluation, of headers, of a body or of trailers.
    pub(super) fn evaluated<S: Stream<Waker = W>>(&mut self, stream: &mut S, done: Done) -> Next {
        let Done { mut inspector, half, decision } = done;
        let Some(early) = self.early.take() else {
            self.inspector = Some(inspector);
            return self.judged(stream, half, &decision);
        };
        self.blocks = inspector.mode() == Mode::Blocking;
        if inspector.awaits_messages() {
            return self.begin_early_messages(stream, inspector, &early);
        }
        self.begin_socket(stream, &mut inspector);
        let decision = match decision {
            Decision::NeedBody => self.begin_wait(stream, &mut inspector),
            decision => decision,
        };
        self.inspector = Some(inspector);
        let is_early = !stream.held_body().concat().is_empty();
        if let Some(socket) = self.socket.take_if(|_| is_early) {
            return self.unasked(stream, socket);
        }
        let next = self.decided(stream, half, &decision);
        if decision == Decision::NeedBody {
            return self.take_early(stream, early);
        }
        if early.trailers.is_some() {
            self.late_trailers(stream, half, HeaderMap::RequestTrailers);
        }
        next
    }

    /// Hands over what has come of the body while the headers were evaluated.
    fn take_early<S: Stream<Waker = W>>(&mut self, stream: &mut S, early: Early) -> Next {
        let half = Half::Request;
        let Some(mut inspector) = self.inspector.take() else { return Next::Hold };
        let pieces = stream.held_body();
        let is_ended = early.is_ended && early.trailers.is_none();
        let taken = self.take_body(&mut inspector, half, &pieces, is_ended);
        drop(pieces);
        match (taken, early.trailers) {
            (Err(decision), _) => {
                self.inspector = Some(inspector);
                self.decided(stream, half, &decision)
            }
            (Ok(End::More), Some(trailers)) => {
                self.evaluate(stream, inspector, Evaluation::Trailers { half, trailers })
            }
            (Ok(End::More), None) => {
                self.inspector = Some(inspector);
                Next::HoldAndSlowDown
            }
            (Ok(end), _) => self.evaluate(stream, inspector, Evaluation::Body { half, end }),
        }
    }

    /// Queues an evaluation. Gives the inspector back when the queue is full.
    fn submit(
        &mut self,
        waker: W,
        inspector: Box<Inspector>,
        evaluation: Evaluation,
    ) -> Result<(), (Box<Inspector>, Evaluation)> {
        let (waiting, promise) = waiting(waker);
        let client = match &evaluation {
            Evaluation::Headers(head) => head.client,
            Evaluation::Body { .. } | Evaluation::Trailers { .. } | Evaluation::Messages { .. } => {
                inspector.client().map(Client::from)
            }
        };
        let bytes = evaluation.body_bytes(&inspector);
        let job = Job { inspector, evaluation, promise };
        let submitted = match self.filter.engine.evaluators() {
            Some(threads) => threads.for_body(bytes).submit_for(client, job, work).map(drop),
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
                let Job { inspector, evaluation, promise } = job;
                drop(promise);
                Err((inspector, evaluation))
            }
        }
    }

    /// Another thread wakes the stream. It may do so when the stream waits for something else by now, or for nothing.
    pub(crate) fn woken<S: Stream<Waker = W>>(&mut self, stream: &mut S, reason: Wakeup) -> Next {
        match reason {
            Wakeup::Evaluation => self.done_elsewhere(stream),
            Wakeup::Rules => self.rules_known(stream),
            Wakeup::LateBody => self.body_is_late(stream),
            Wakeup::Cut => self.cut_when_woken(),
        }
    }

    /// Another thread has evaluated something, or has failed to.
    fn done_elsewhere<S: Stream<Waker = W>>(&mut self, stream: &mut S) -> Next {
        let Some(waiting) = self.waiting.take() else { return Next::Continue };
        let done = waiting.take();
        drop(waiting);
        let Some(done) = done else { return self.fail(stream, Error::Fault) };
        let half = done.half;
        match self.evaluated(stream, done) {
            Next::Continue => Next::Resume(half),
            next => next,
        }
    }
}

/// The decision where there is no place for an evaluation.
fn turn_away(inspector: &mut Inspector, evaluation: &Evaluation) -> Decision {
    const FULL: Rejection = Rejection::QueueFull;
    match (evaluation, evaluation.half()) {
        (Evaluation::Headers(head), _) => head.judge(|head| inspector.turn_down(head, FULL)),
        (Evaluation::Messages { .. }, _) => inspector.messages_overflow(FULL),
        (_, Half::Request) => inspector.body_not_awaited(FULL),
        (_, Half::Response) => {
            inspector.reject(FULL).unwrap_or_else(|| inspector.response_body_overflow())
        }
    }
}

impl Shared {
    /// The engine's deadline for an evaluation that begins at this time; `None` for none.
    pub(super) fn deadline(&self, began: Instant) -> Option<glacis_engine::Deadline> {
        self.deadline_for_body(began, 0)
    }

    /// The same for one of so many bytes of a body.
    fn deadline_for_body(&self, began: Instant, bytes: usize) -> Option<glacis_engine::Deadline> {
        use glacis_service::clock;
        let time = glacis_host::time_for_body(self.deadline, bytes);
        let due = (!time.is_zero()).then(|| began + time)?;
        Some(glacis_engine::Deadline::new(clock::nanoseconds, clock::at(due)))
    }
}
