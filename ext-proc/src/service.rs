//! The gRPC service: a stream of messages in, a stream of answers out.

use core::{
    future::Future as _,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    collections::VecDeque, fmt, io, panic::catch_unwind, path::Path, sync::Arc, time::Instant,
};

use glacis_rules::Record;
use glacis_service::{Readiness, overload};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap, service::Routes};

use crate::{
    admin::Admin,
    alarm::Alarm,
    audit::AuditLog,
    canary,
    config::Config,
    document::Document,
    envoy_canary, grpc,
    metrics::{ErrorKind, Metrics},
    reload::Reloader,
    reply::Answer,
    ruleset::{Host, Rulesets},
    session::Session,
    shared::Shared,
    trace::Tracer,
    wire::{Incoming, Message, ProcessingRequest, WireError},
    work::{Crowded, Lost, Work},
};

/// The key of gRPC metadata that names a profile.
const PROFILE_HEADER: &str = "glacis-profile";

/// The external processor.
#[derive(Clone, Debug)]
pub struct Processor {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    message_bytes_max: usize,
}

impl Processor {
    /// The name under which gRPC knows the service, for its health.
    pub const NAME: &str = "envoy.service.ext_proc.v3.ExternalProcessor";

    /// A processor that applies `rulesets`, which are those of `config`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(
        config: &Config,
        rulesets: Rulesets,
        metrics: Metrics,
        audit: AuditLog,
        tracer: Tracer,
    ) -> io::Result<Self> {
        let streams_max = config.max_streams.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            shared: Arc::new(Shared::new(config, rulesets, metrics, audit, tracer)?),
            room: Arc::new(Semaphore::new(streams_max)),
            message_bytes_max: config.max_message_bytes,
        })
    }

    /// Looks after the service while it runs, and holds readiness back when something is wrong. To be
    /// called within a runtime.
    pub fn look_after(&self, config: &Config, readiness: &Readiness) {
        let interval = config.canary_seconds.duration();
        canary::start(&self.shared, readiness, interval);
        envoy_canary::start(&self.shared, readiness, config.canary_envoy.as_ref(), interval);
        let (strained, told) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        overload::watch(
            config.overload.into(),
            readiness,
            move || strained.turned_away.take(),
            move |lag| {
                told.metrics().load(told.body_room().taken(), lag);
                told.metrics().out_of_band.load(told.out_of_band().bytes_held());
            },
        );
    }

    /// What reads the configuration anew; the service has to be that of this reading.
    #[must_use]
    pub fn reloader(&self, path: &Path, config: Config, host: Host, record: Record) -> Reloader {
        Reloader::new(path, Arc::clone(&self.shared), config, host, record)
    }

    /// What answers on the admin port; `document` is the configuration as it was read.
    #[must_use]
    pub fn admin(&self, document: Document, readiness: &Readiness) -> Admin {
        Admin::new(Arc::clone(&self.shared), document, readiness.clone())
    }

    /// The service, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let message_bytes_max = self.message_bytes_max;
        Routes::new(grpc::Server::new(self, message_bytes_max))
    }
}

impl Processor {
    /// Opens a stream.
    pub(crate) fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.shared.metrics().error(ErrorKind::Overload);
            self.shared.turned_away.stream();
            return Err(Status::resource_exhausted("max_streams exchanges are under inspection"));
        };
        let named = profile_of(request.metadata());
        let context = self.shared.tracer().of_stream(request.metadata());
        let session = Session::new(Arc::clone(&self.shared), named, context);
        Ok(Response::new(Answers {
            messages: request.into_inner(),
            state: State::Waiting(Box::new(session)),
            answers: VecDeque::new(),
            shared: Arc::clone(&self.shared),
            _permit: permit,
        }))
    }
}

/// The profile that a route names in `grpc_initial_metadata`. What is not text is no name of a profile,
/// and not the same as none: the empty name belongs to nobody.
fn profile_of(metadata: &MetadataMap) -> Option<String> {
    let value = metadata.get(PROFILE_HEADER)?;
    Some(value.to_str().unwrap_or_default().to_owned())
}

/// The answers on one stream.
pub(crate) struct Answers {
    messages: Streaming<ProcessingRequest>,
    state: State,
    /// Answers that are still to be given.
    answers: VecDeque<Answer>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

/// What a message is answered.
pub(crate) type Answered = Result<Vec<Answer>, Status>;

enum State {
    /// For the next message.
    Waiting(Box<Session>),
    /// A message is evaluated on a thread for long work.
    Working(Work),
    /// Everything is said.
    Over,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

impl Stream for Answers {
    type Item = Result<Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let this = &mut *self;
            if let Some(answer) = this.answers.pop_front() {
                return Poll::Ready(Some(Ok(answer)));
            }
            let (session, answered) = match core::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Working(mut work) => match Pin::new(&mut work).poll(context) {
                    Poll::Pending => {
                        this.state = State::Working(work);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(done)) => done,
                    Poll::Ready(Err(lost)) => {
                        let status = this.lost(lost);
                        let pass = work.take_pass();
                        let pass = pass.map(|pass| pass.given(this.shared.metrics()));
                        return Poll::Ready(Some(pass.ok_or(status)));
                    }
                },
                State::Waiting(session) => {
                    match Pin::new(&mut this.messages).poll_next(context) {
                        Poll::Pending => {
                            this.state = State::Waiting(session);
                            return Poll::Pending;
                        }
                        // Envoy has closed the stream. If it did so while a verdict was due, OK would
                        // be a verdict.
                        Poll::Ready(None) => {
                            let cut = !session.may_end();
                            let end = cut.then(|| Err(Status::aborted("ended before a verdict")));
                            return Poll::Ready(end);
                        }
                        // Envoy has reset the stream, or sent what cannot be read: a message beyond
                        // `max_message_bytes` above all, which must not pass for want of an answer.
                        Poll::Ready(Some(Err(status))) => {
                            return Poll::Ready(Some(Err(broken(&session, status))));
                        }
                        Poll::Ready(Some(Ok(message))) => match this.take(session, message) {
                            Ok(done) => done,
                            Err(state) => {
                                this.state = state;
                                continue;
                            }
                        },
                    }
                }
            };
            match answered {
                // Panics and overload have been counted already.
                Err(status)
                    if matches!(status.code(), Code::Internal | Code::ResourceExhausted) =>
                {
                    return Poll::Ready(Some(Err(status)));
                }
                Err(status) => return Poll::Ready(Some(Err(refuse(&session, status)))),
                Ok(answers) => {
                    if !session.is_over() {
                        this.state = State::Waiting(session);
                    }
                    this.answers.extend(answers);
                }
            }
        }
    }
}

impl Answers {
    /// Answers a message here and now; or, if that takes long, has it answered elsewhere.
    fn take(
        &self,
        mut session: Box<Session>,
        message: ProcessingRequest,
    ) -> Result<(Box<Session>, Answered), State> {
        let message = match Incoming::try_from(message) {
            Ok(message) => message,
            Err(error) => return Ok((session, Err(self.unreadable(error)))),
        };
        if !is_long(&session, &message) {
            let answered = answer_inline(&mut session, message);
            return Ok((session, answered));
        }
        // Envoy has no timeout in full duplex.
        let deadline = if session.is_duplex() { Duration::ZERO } else { self.shared.deadline };
        match Work::begin(session, message, deadline) {
            Ok(work) => Err(State::Working(work)),
            Err(Crowded { mut session, pass }) => {
                session.give_up();
                let status = self.crowded();
                let pass = pass.map(|pass| vec![pass.given(self.shared.metrics())]);
                Ok((session, pass.ok_or(status)))
            }
        }
    }

    /// What a stream ends with whose evaluation was lost.
    fn lost(&self, lost: Lost) -> Status {
        match lost {
            Lost::Ended => internal(),
            Lost::Late => {
                self.shared.metrics().error(ErrorKind::Deadline);
                self.shared.turned_away.evaluation();
                tracing::warn!(
                    "an evaluation took longer than deadline_ms: the stream ends with an error"
                );
                Status::deadline_exceeded("the evaluation took longer than deadline_ms")
            }
        }
    }

    /// What a stream ends with when a message cannot be read.
    fn unreadable(&self, error: WireError) -> Status {
        if error == WireError::Mode {
            self.shared.alarm(Alarm::UnsupportedBodyMode);
        }
        error.into()
    }

    /// What a stream ends with whose evaluation found no place in the queue.
    fn crowded(&self) -> Status {
        self.shared.metrics().error(ErrorKind::Overload);
        self.shared.turned_away.evaluation();
        Status::resource_exhausted("evaluation_queue_max evaluations wait")
    }
}

/// Whether evaluating the message would hold up a thread that serves other streams as well.
fn is_long(session: &Session, message: &Incoming) -> bool {
    let more = match &message.message {
        Message::RequestBody(body) | Message::ResponseBody(body) => body.bytes.len(),
        // They are the end of a body that has come in pieces.
        Message::RequestTrailers | Message::ResponseTrailers => 0,
        Message::RequestHeaders(_) | Message::ResponseHeaders(_) => return false,
    };
    let bytes = session.body_bytes().map(|bytes| bytes.saturating_add(more));
    bytes.is_some_and(|bytes| bytes > session.shared().inline_body_bytes)
}

/// Answers a message on the thread that serves others as well, and counts what took too long all the same.
fn answer_inline(session: &mut Session, message: Incoming) -> Answered {
    let began = Instant::now();
    let answered = answer(session, message);
    let deadline = session.shared().deadline;
    if !deadline.is_zero() && began.elapsed() > deadline {
        session.shared().metrics().error(ErrorKind::Deadline);
    }
    answered
}

/// Answers a message, and makes an error of a panic: a bug must not be a way past the rules.
pub(crate) fn answer(session: &mut Session, message: Incoming) -> Answered {
    catch_unwind(AssertUnwindSafe(|| session.answer(message))).unwrap_or_else(|_| {
        session.give_up();
        session.shared().metrics().error(ErrorKind::Panic);
        tracing::error!("inspection panicked: a bug; the stream ends with an error");
        Err(internal())
    })
}

fn internal() -> Status {
    Status::internal("inspection failed")
}

/// The end of a stream whose next message could not be had. A reset is Envoy's right and no error: the
/// client went away.
fn broken(session: &Session, status: Status) -> Status {
    match status.code() {
        Code::Cancelled | Code::Unknown | Code::Unavailable => status,
        _ => refuse(session, status),
    }
}

/// Counts an error and logs it.
fn refuse(session: &Session, status: Status) -> Status {
    session.shared().metrics().error(ErrorKind::Protocol);
    tracing::warn!(reason = status.message(), "stream ended with an error");
    status
}
