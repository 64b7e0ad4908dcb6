//! The gRPC service: a stream of messages in, a stream of answers out.

use core::{
    future::Future as _,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};
use std::{fmt, panic::catch_unwind, path::Path, sync::Arc};

use envoy_types::pb::envoy::service::ext_proc::v3::{
    ProcessingRequest, ProcessingResponse,
    external_processor_server::{ExternalProcessor, ExternalProcessorServer},
};
use glacis_rules::Record;
use glacis_service::Readiness;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap, service::Routes};

use crate::{
    audit::AuditWriter,
    canary,
    config::Config,
    metrics::{ErrorKind, Metrics},
    reload::Reloader,
    ruleset::{Host, Rulesets},
    session::{Session, Shared},
    wire::{Incoming, Message, WireError},
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
    #[must_use]
    pub fn new(config: &Config, rulesets: Rulesets, metrics: Metrics, audit: AuditWriter) -> Self {
        let streams_max = config.max_streams.min(Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(Shared::new(config, rulesets, metrics, audit)),
            room: Arc::new(Semaphore::new(streams_max)),
            message_bytes_max: config.max_message_bytes,
        }
    }

    /// Looks after the service while it runs, and holds readiness back when something is wrong. To be
    /// called within a runtime.
    pub fn look_after(&self, config: &Config, readiness: &Readiness) {
        canary::start(&self.shared, readiness, config.canary_seconds.duration());
    }

    /// What reads the configuration anew; the service has to be that of this reading.
    #[must_use]
    pub fn reloader(&self, path: &Path, config: Config, host: Host, record: Record) -> Reloader {
        Reloader::new(path, Arc::clone(&self.shared), config, host, record)
    }

    /// The service, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let message_bytes_max = self.message_bytes_max;
        Routes::new(ExternalProcessorServer::new(self).max_decoding_message_size(message_bytes_max))
    }
}

#[tonic::async_trait]
impl ExternalProcessor for Processor {
    type ProcessStream = Answers;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.shared.metrics().error(ErrorKind::Overload);
            return Err(Status::resource_exhausted("max_streams exchanges are under inspection"));
        };
        let named = profile_of(request.metadata());
        let session = Session::new(Arc::clone(&self.shared), named);
        Ok(Response::new(Answers {
            messages: request.into_inner(),
            state: State::Waiting(Box::new(session)),
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
pub struct Answers {
    messages: Streaming<ProcessingRequest>,
    state: State,
    _permit: OwnedSemaphorePermit,
}

type Answered = Result<Option<ProcessingResponse>, Status>;

enum State {
    /// For the next message.
    Waiting(Box<Session>),
    /// A message is evaluated on a thread for long work.
    Working(JoinHandle<(Box<Session>, Answered)>),
    /// Everything is said.
    Over,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

impl Stream for Answers {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let this = &mut *self;
            let (session, answered) = match core::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Working(mut work) => match Pin::new(&mut work).poll(context) {
                    Poll::Pending => {
                        this.state = State::Working(work);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(done)) => done,
                    // The runtime is being shut down.
                    Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(internal()))),
                },
                State::Waiting(mut session) => {
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
                        Poll::Ready(Some(Ok(message))) => match Incoming::try_from(message) {
                            Err(error) => (session, Err(unreadable(error))),
                            Ok(message) if is_long(&session, &message) => {
                                this.state = State::Working(tokio::task::spawn_blocking(|| {
                                    let answered = answer(&mut session, message);
                                    (session, answered)
                                }));
                                continue;
                            }
                            Ok(message) => {
                                let answered = answer(&mut session, message);
                                (session, answered)
                            }
                        },
                    }
                }
            };
            match answered {
                // A panic has been counted and logged already.
                Err(status) if status.code() == Code::Internal => {
                    return Poll::Ready(Some(Err(status)));
                }
                Err(status) => return Poll::Ready(Some(Err(refuse(&session, status)))),
                Ok(answer) => {
                    if !session.is_over() {
                        this.state = State::Waiting(session);
                    }
                    match answer {
                        Some(answer) => return Poll::Ready(Some(Ok(answer))),
                        None => continue,
                    }
                }
            }
        }
    }
}

/// Whether evaluating the message would hold up a thread that serves other streams as well.
fn is_long(session: &Session, message: &Incoming) -> bool {
    match &message.message {
        Message::RequestBody(body) | Message::ResponseBody(body) => {
            let bytes = session.body_bytes().saturating_add(body.bytes.len());
            bytes > session.shared().inline_body_bytes
        }
        _ => false,
    }
}

/// Answers a message, and makes an error of a panic: a bug must not be a way past the rules.
fn answer(session: &mut Session, message: Incoming) -> Answered {
    catch_unwind(AssertUnwindSafe(|| session.answer(message))).unwrap_or_else(|_| {
        session.abandon();
        session.shared().metrics().error(ErrorKind::Panic);
        tracing::error!("inspection panicked: a bug; the stream ends with an error");
        Err(internal())
    })
}

fn internal() -> Status {
    Status::internal("inspection failed")
}

fn unreadable(error: WireError) -> Status {
    error.into()
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
