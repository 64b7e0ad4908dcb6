//! The gRPC service: a stream of messages in, a stream of answers out.

use core::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};
use std::{collections::VecDeque, fmt, io, path::Path, sync::Arc};

use glacis_host::admission::{OpenStream, Streams};
use glacis_inspector::{CLOSE_GRACE, Rejection};
use glacis_rules::Record;
use glacis_service::{Readiness, overload};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap};

use crate::{
    admin::Admin,
    alarm::Alarm,
    audit::AuditLog,
    canary,
    config::Config,
    document::Document,
    envoy_canary,
    metrics::{ErrorKind, Metrics},
    reload::Reloader,
    reply::{Answer, Answered},
    ruleset::{Host, Rulesets},
    session::{HEAD_PATIENCE, INLINE_HEAD_BYTES_MAX, Session},
    shared::Shared,
    trace::Tracer,
    wire::{Incoming, Message, ProcessingRequest, WireError},
    work::{Crowded, Lost, Work, answer, guarded, internal},
};

/// The key of gRPC metadata that names a profile.
const PROFILE_HEADER: &str = "glacis-profile";

/// The external processor.
#[derive(Clone, Debug)]
pub struct Processor {
    shared: Arc<Shared>,
    pub(crate) message_bytes_max: usize,
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
        Ok(Self {
            shared: Arc::new(Shared::new(config, rulesets, metrics, audit, tracer)?),
            message_bytes_max: config.max_message_bytes,
        })
    }

    /// Looks after the service while it runs, and holds readiness back when something is wrong. To be
    /// called within a runtime.
    pub fn look_after(&self, config: &Config, readiness: &Readiness) {
        let interval = config.canary_seconds.duration();
        canary::start(&self.shared, readiness, interval);
        envoy_canary::start(&self.shared, readiness, config.canary_envoy.as_ref(), interval);
        let shared = Arc::clone(&self.shared);
        overload::watch(config.overload.into(), readiness, move |lag| {
            shared.metrics().load(shared.body_memory.taken(), lag);
            shared.metrics().out_of_band.load(shared.out_of_band().bytes_held());
        });
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
}

impl Processor {
    /// Opens a stream.
    pub(crate) fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let Some(stream) = Streams::open(&self.shared.streams) else {
            self.shared.metrics().error(ErrorKind::Overload);
            return Err(Status::resource_exhausted("twice max_streams streams are open"));
        };
        let named = profile_of(request.metadata());
        let context = self.shared.tracer().of_stream(request.metadata());
        let surplus = stream.is_surplus.then_some(Rejection::MaxStreams);
        let session = Session::new(Arc::clone(&self.shared), named, context, surplus);
        Ok(Response::new(Answers {
            messages: request.into_inner(),
            state: State::Waiting(Box::new(session)),
            answers: VecDeque::new(),
            patience: None,
            shared: Arc::clone(&self.shared),
            _stream: stream,
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
    /// Runs while a body keeps Envoy waiting, or the end of a socket.
    patience: Option<Pin<Box<Sleep>>>,
    shared: Arc<Shared>,
    _stream: OpenStream,
}

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
                        let fallback = work.take_fallback().filter(|_| lost == Lost::Late);
                        let answer = fallback.map(|answer| answer.given(this.shared.metrics()));
                        return Poll::Ready(Some(answer.ok_or_else(|| this.lost(lost))));
                    }
                },
                State::Waiting(mut session) => {
                    match Pin::new(&mut this.messages).poll_next(context) {
                        Poll::Pending => match this.without_body(&mut session, context) {
                            Some(answered) => (session, answered),
                            None => {
                                this.state = State::Waiting(session);
                                return Poll::Pending;
                            }
                        },
                        Poll::Ready(None) => return Poll::Ready(closed(&session).map(Err)),
                        // Envoy has reset the stream, or sent what cannot be read: a message beyond
                        // `max_message_bytes` above all, which must not pass for want of an answer.
                        Poll::Ready(Some(Err(status))) => {
                            return Poll::Ready(Some(broken(session, status)));
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
                    if matches!(
                        status.code(),
                        Code::Internal | Code::ResourceExhausted | Code::DeadlineExceeded
                    ) =>
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
        let bytes = body_bytes(&session, &message).unwrap_or_default();
        let due = self.shared.due(bytes);
        session.answer_by(due);
        if !is_long(&session, &message) {
            let answered = answer(&mut session, message);
            return Ok((session, answered));
        }
        match Work::begin(session, message, bytes, due) {
            Ok(work) => Err(State::Working(work)),
            Err(crowded) => {
                let Crowded { mut session, message, rejection } = *crowded;
                let answered = session.turn_away(message, rejection);
                Ok((session, answered))
            }
        }
    }

    /// What a request is answered whose body does not come, if its headers suffice for a refusal, and a socket whose
    /// peers do not end it after a Close frame.
    fn without_body(
        &mut self,
        session: &mut Session,
        context: &mut Context<'_>,
    ) -> Option<Answered> {
        if session.awaits_close() {
            let timer = self.patience.get_or_insert_with(|| Box::pin(sleep(CLOSE_GRACE)));
            if timer.as_mut().poll(context).is_pending() {
                return None;
            }
            self.patience = None;
            return Some(Ok(vec![session.close()]));
        }
        if !session.can_refuse_before_body() {
            self.patience = None;
            return None;
        }
        let timer = self.patience.get_or_insert_with(|| Box::pin(sleep(HEAD_PATIENCE)));
        if timer.as_mut().poll(context).is_pending() {
            return None;
        }
        self.patience = None;
        session.answer_by(self.shared.due(0));
        let refuse = |session: &mut Session| Ok(Vec::from_iter(session.refuse_before_body()));
        let answered = guarded(session, refuse);
        (!matches!(&answered, Ok(answers) if answers.is_empty())).then_some(answered)
    }

    /// What a stream ends with whose evaluation was lost.
    fn lost(&self, lost: Lost) -> Status {
        match lost {
            Lost::Ended => internal(),
            Lost::Late => {
                self.shared.metrics().error(ErrorKind::Deadline);
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
}

/// Whether evaluating the message would hold up a thread that serves other streams as well.
fn is_long(session: &Session, message: &Incoming) -> bool {
    if let Message::RequestHeaders(head) = &message.message {
        return head.bytes() > INLINE_HEAD_BYTES_MAX;
    }
    let bytes = body_bytes(session, message);
    bytes.is_some_and(|bytes| bytes > session.inline_bytes())
}

/// Bytes of the body that is evaluated when it ends with this message; `None` for headers, and where none is evaluated.
fn body_bytes(session: &Session, message: &Incoming) -> Option<usize> {
    let more = match &message.message {
        Message::RequestBody(body) | Message::ResponseBody(body) => body.bytes.len(),
        // They are the end of a body that has come in pieces.
        Message::RequestTrailers(_) | Message::ResponseTrailers(_) => 0,
        Message::RequestHeaders(_) | Message::ResponseHeaders(_) => return None,
    };
    Some(session.body_bytes()?.saturating_add(more))
}

/// The end of a stream that Envoy has closed. If it did so while a verdict was due, OK would be a verdict.
fn closed(session: &Session) -> Option<Status> {
    (!session.may_end()).then(|| Status::aborted("ended before a verdict"))
}

/// The end of a stream whose next message could not be had. A reset is Envoy's right and no error: the
/// client went away. A message beyond `max_message_bytes` is a body that is too large.
fn broken(mut session: Box<Session>, status: Status) -> Result<Answer, Status> {
    match status.code() {
        Code::Cancelled | Code::Unknown | Code::Unavailable => Err(status),
        Code::OutOfRange => match session.body_too_large() {
            Some(answer) => Ok(answer),
            None => Err(refuse(&session, status)),
        },
        _ => Err(refuse(&session, status)),
    }
}

/// Counts an error and logs it.
fn refuse(session: &Session, status: Status) -> Status {
    session.shared().metrics().error(ErrorKind::Protocol);
    tracing::warn!(reason = status.message(), "stream ended with an error");
    status
}
