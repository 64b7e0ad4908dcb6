//! One gRPC stream: Envoy's state machine, seen from the other side (`CallbackState` in Envoy's
//! `processor_state.h`).
//!
//! Laws: each message is answered once, with an answer of its own type or an immediate response (in full
//! duplex once the verdict is there, see `duplex`); a message out of order is an error of the stream,
//! which Envoy treats by its failure mode, and never an answer that lets something pass.

mod before_body;
mod end;
mod event_stream;
mod framing;
mod messages;
mod modes;
mod rejected;
mod socket;
mod watched;

use std::{sync::Arc, time::Instant};

use before_body::Awaited;
pub(crate) use before_body::{HEAD_PATIENCE, INLINE_HEAD_BYTES_MAX};
use bytes::Bytes;
use framing::{after_body, end_of};
use glacis_engine::Deadline;
use glacis_host::admission::Share;
use glacis_inspector::{
    Decision, EXTENSIONS_HEADER, EventStream, HeaderChange, Hints, Inspector, Mode, Receipt,
    Rejection, RequestHead, ResponseHead, Socket, request_id,
};
use glacis_service::{
    Client,
    chance::{lot, random_id},
    clock, now,
};
pub(crate) use rejected::Fallback;
use socket::INLINE_PIECE_BYTES_MAX;
use tonic::Status;

use crate::{
    alarm::Alarm,
    duplex::{Held, Seen},
    metrics::{ProfileMetrics, phase_name},
    profile::Profile,
    recording::Recorder,
    reply::{self, Answer, Part},
    shared::Shared,
    trace::{Context, Exchange},
    wire::{Body, BodyMode, Head, Incoming, Message, Modes, Trailers},
};

/// How far one half of the exchange, request or response, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Its headers have not come.
    Headers,
    /// Its body is awaited, in the mode that Envoy was asked for or is configured to.
    Body(BodyMode),
    /// Messages of gRPC are inspected as they come, in this mode: see `messages`.
    Messages(BodyMode),
    /// Messages of a WebSocket are inspected as they come, in this mode: see `socket`.
    Socket(BodyMode),
    /// Events are inspected as they come, in this mode: see `event_stream`.
    Events(BodyMode),
    /// The verdict is reached without a body; pieces of it may come all the same, and pass.
    Done,
    /// The verdict is reached on the whole body: no more of it can come.
    BodyDone,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Why it is not evaluated, if that is known before its headers come.
    turned_down: Option<Rejection>,
    /// Its part of the memory for bodies.
    body_memory: Share,
    /// Its place among the requests that wait for their bodies.
    waits: Share,
    /// The profile that came with the stream.
    named: Option<String>,
    /// The trace that came with the stream.
    context: Option<Context>,
    /// `None` until the request's headers have come, and where nothing is traced.
    traced: Option<Box<Exchange>>,
    /// `None` until the request's headers have come.
    profile: Option<Arc<Profile>>,
    /// `None` until the request's headers have come, once the exchange is over, and where it is evaluated out of
    /// band only.
    inspector: Option<Box<Inspector>>,
    /// The WebSocket that the request has opened, where its messages are inspected.
    socket: Option<Box<Socket>>,
    /// The response whose events are inspected.
    events: Option<Box<EventStream>>,
    /// What ends the response, after the events that go on.
    cut: Option<Answer>,
    /// What goes on in the place of the piece of a socket or of a stream of events that is answered.
    replaced: Option<Vec<u8>>,
    /// What goes to the peer that has sent it, as a piece of the other half.
    answered: Option<(Part, Vec<u8>)>,
    /// The request's headers, while its body has not begun to come and may not be needed for a refusal.
    awaited: Option<Box<Awaited>>,
    /// The name of a request that is evaluated out of band only.
    watched: Option<String>,
    /// Writes down what is to be evaluated when it has been answered; and whether a shadow looks at it too.
    recorder: Option<Box<(Recorder, bool)>>,
    modes: Modes,
    /// Envoy does not wait for answers.
    observed: bool,
    request: Half,
    response: Half,
    held_request: Held,
    held_response: Held,
    /// An immediate response was given: Envoy sends nothing more.
    refused: bool,
    /// There will be no verdict.
    given_up: bool,
    /// The verdict was final and the exchange is counted: its inspector is at work elsewhere.
    concluded: bool,
    /// Trailers that come after that are taken out of the request, as rules do not see them.
    takes_trailers_out: bool,
    /// When the answer to the message under evaluation is due.
    due: Option<Instant>,
}

/// A message that Envoy must not send where the exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misordered {
    RequestHeadersTwice,
    BeforeRequestHeaders,
    ResponseHeadersTwice,
    ResponseBodyBeforeHeaders,
    BodyAfterItsEnd,
}

impl From<Misordered> for Status {
    fn from(error: Misordered) -> Self {
        Self::failed_precondition(match error {
            Misordered::RequestHeadersTwice => "request headers came twice",
            Misordered::BeforeRequestHeaders => {
                "the request's headers did not come first: set request_header_mode: SEND"
            }
            Misordered::ResponseHeadersTwice => "response headers came twice",
            Misordered::ResponseBodyBeforeHeaders => {
                "a response body came before its headers: set response_header_mode: SEND"
            }
            Misordered::BodyAfterItsEnd => {
                "more of a body came after its end: is allow_mode_override: true missing?"
            }
        })
    }
}

impl Session {
    /// A stream that was opened with the name of a profile, and as part of a trace, perhaps.
    pub(crate) fn new(
        shared: Arc<Shared>,
        named: Option<String>,
        context: Option<Context>,
        turned_down: Option<Rejection>,
    ) -> Self {
        shared.metrics.streams_open.inc();
        Self {
            turned_down,
            body_memory: Share::none(Arc::clone(&shared.body_memory), None),
            waits: Share::none(Arc::clone(&shared.waits), None),
            shared,
            named,
            context,
            traced: None,
            profile: None,
            inspector: None,
            socket: None,
            events: None,
            cut: None,
            replaced: None,
            answered: None,
            awaited: None,
            watched: None,
            recorder: None,
            modes: Modes::default(),
            observed: false,
            request: Half::Headers,
            response: Half::Headers,
            held_request: Held::default(),
            held_response: Held::default(),
            refused: false,
            given_up: false,
            concluded: false,
            takes_trailers_out: false,
            due: None,
        }
    }

    /// Has the evaluation of the next message end at a time.
    pub(crate) const fn answer_by(&mut self, due: Option<Instant>) {
        self.due = due;
    }

    /// Whether the stream may end with OK.
    pub(crate) const fn may_end(&self) -> bool {
        self.refused || !self.awaits_body()
    }

    /// Whether a verdict is due that needs a body.
    const fn awaits_body(&self) -> bool {
        matches!(self.request, Half::Body(_)) || matches!(self.response, Half::Body(_))
    }

    /// Whether nothing more is to be answered.
    pub(crate) const fn is_over(&self) -> bool {
        self.refused || self.given_up
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The same, to be kept when the session goes elsewhere.
    pub(crate) fn shared_by(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Body bytes that evaluation would have to go through; `None` where nothing of a body is evaluated.
    pub(crate) fn body_bytes(&self) -> Option<usize> {
        let inspector = self.inspector.as_deref();
        if let Some(socket) = &self.socket {
            return Some(socket.held_bytes());
        }
        if let Some(events) = &self.events {
            return Some(events.held_bytes());
        }
        if let Half::Messages(_) = self.request {
            return inspector.map(Inspector::pending_bytes);
        }
        inspector.filter(|_| self.awaits_body()).map(Inspector::body_bytes)
    }

    /// Bytes that are evaluated on a thread that serves other streams as well.
    pub(crate) fn inline_bytes(&self) -> usize {
        let bytes = self.shared.inline_body_bytes;
        let in_messages = self.socket.is_some() || self.events.is_some();
        if in_messages { bytes.min(INLINE_PIECE_BYTES_MAX) } else { bytes }
    }

    /// Whether bodies come in the mode in which Envoy gives them away.
    pub(crate) fn is_duplex(&self) -> bool {
        [self.modes.request, self.modes.response].contains(&BodyMode::FullDuplex)
    }

    /// Answers a message: mostly once, and not where Envoy does not listen.
    pub(crate) fn answer(&mut self, sent: Incoming) -> Result<Vec<Answer>, Status> {
        if self.request == Half::Headers {
            self.observed = sent.observability_mode;
            match sent.modes {
                Some(modes) => self.modes = modes,
                None => self.shared.alarm(Alarm::NoProtocolConfig),
            }
        }
        let began = Instant::now();
        let part = part(&sent.message);
        let answer = match &sent.message {
            Message::RequestHeaders(head) => self.request_headers(head)?,
            message => {
                self.awaited = None;
                self.record(message);
                self.later(message)?
            }
        };
        self.submit_when_complete();
        if let Some(metrics) = self.metrics() {
            metrics.evaluated(part, began.elapsed());
            self.shared.history.evaluated(began.elapsed(), now());
        }
        if let Some(traced) = &mut self.traced {
            traced.phase(phase_name(part), began, self.inspector.as_deref());
        }
        self.conclude_if_open();
        self.conclude_if_final();
        self.rest_if_many();
        if sent.observability_mode {
            return Ok(Vec::new());
        }
        let piece = match sent.message {
            Message::RequestBody(body) | Message::ResponseBody(body) => {
                let bytes = self.replaced.take().map_or(body.bytes, Bytes::from);
                Some((bytes, body.end_of_stream))
            }
            Message::RequestHeaders(head) => {
                self.keep_headers(head);
                None
            }
            _ => None,
        };
        let mut answers = self.give_back(Seen { part, piece, answer });
        if let Some(cut) = self.cut.take() {
            self.refused = true;
            answers.push(cut);
        }
        self.or_fail(answers)
    }

    /// Answers what comes behind the request's headers.
    fn later(&mut self, message: &Message) -> Result<Answer, Status> {
        if let Some(answer) = self.of_socket(message).or_else(|| self.of_events(message)) {
            return Ok(answer);
        }
        if self.concluded && part(message) == Part::ResponseHeaders {
            self.shared.unasked_response();
        }
        if self.watched.is_some() || self.concluded {
            return Ok(self.let_pass(message));
        }
        Ok(match message {
            Message::RequestHeaders(_) => return Err(Misordered::RequestHeadersTwice.into()),
            Message::RequestBody(body) => self.request_body(body)?,
            Message::RequestTrailers(trailers) => self.request_trailers(trailers)?,
            Message::ResponseHeaders(head) => self.response_headers(head)?,
            Message::ResponseBody(body) => self.response_body(body)?,
            Message::ResponseTrailers(trailers) => self.response_trailers(trailers)?,
        })
    }

    /// The metrics of its profile, once that is known.
    fn metrics(&self) -> Option<&ProfileMetrics> {
        self.profile.as_ref().and_then(|profile| profile.metrics())
    }

    /// What Envoy is answered, which depends on whether it has given the body away.
    fn give_back(&mut self, seen: Seen) -> Vec<Answer> {
        let (mode, half, held) = if seen.part.is_of_request() {
            (self.modes.request, self.request, &mut self.held_request)
        } else {
            (self.modes.response, self.response, &mut self.held_response)
        };
        let mode = if let Half::Socket(mode) | Half::Events(mode) = half { mode } else { mode };
        if mode != BodyMode::FullDuplex || self.refused {
            return vec![seen.answer];
        }
        let mut answers = held.answers(seen, matches!(half, Half::Body(_)));
        // The peer that has sent this piece is answered before the other one can end the connection.
        if let Some((part, bytes)) = self.answered.take() {
            answers.insert(0, reply::streamed(part, bytes, false));
        }
        answers
    }

    fn request_headers(&mut self, head: &Head) -> Result<Answer, Status> {
        if self.request != Half::Headers || self.response != Half::Headers {
            return Err(Misordered::RequestHeadersTwice.into());
        }
        let profile = self
            .shared
            .choose(hints(self.named.as_deref(), head))
            .map_err(|_| unknown_profile())?;
        let profile = Arc::clone(self.profile.insert(profile));
        let headers = head.headers();
        let id = request_id(&headers).map_or_else(random_id, str::to_owned);
        let (time, lots) = (now(), (lot(), lot()));
        self.begin_recording(&profile, head, &id, (time, lots.0));
        if profile.is_out_of_band() {
            self.watched = Some(id);
            self.check_settings(head.source.is_none());
            return Ok(self.let_headers_pass());
        }
        let traced = self.shared.tracer.begin(self.context.take(), &headers);
        self.traced = traced.map(Box::new);
        let inspector = self.inspector.insert(Box::new(profile.inspector()));
        let head_of = RequestHead {
            headers: &headers,
            protocol: head.protocol.as_deref(),
            end_of_stream: head.end_of_stream,
            id: &id,
            time,
            source: head.source,
            destination: head.destination,
            user: head.user.as_deref(),
            lot: lots.0,
            audit_lot: lots.1,
        };
        let mut decision = match self.turned_down {
            Some(rejection) => inspector.turn_down(&head_of, rejection),
            None => {
                inspector.set_deadline(deadline(self.due));
                inspector.request_headers(&head_of)
            }
        };
        let mut has_messages = decision == Decision::NeedBody && inspector.has_messages();
        if decision == Decision::NeedBody {
            (self.body_memory, self.waits) = shares(&self.shared, inspector);
            if has_messages {
                decision = inspector.begin_messages(&head_of);
                has_messages = inspector.awaits_messages();
            } else if let Err(rejection) = self.waits.add(1) {
                decision = inspector.body_not_awaited(rejection);
            }
        }
        let wants_response = inspector.wants_response();
        if decision == Decision::NeedBody && inspector.can_refuse_before_body() {
            self.awaited = Some(Box::new(Awaited::new(id.clone(), time, lots)));
        }
        self.request = match decision {
            Decision::NeedBody => Half::Body(Self::mode_for_body(self.modes.request)),
            Decision::Continue if has_messages => self.half_for_messages(),
            Decision::Continue | Decision::Reply(_) => Half::Done,
        };
        let extensions = self.open_socket(&decision, &head_of);
        self.check_settings(head.source.is_none());
        let mut answer = self.follow(&decision, Part::RequestHeaders, Vec::new());
        answer.change_header(EXTENSIONS_HEADER, &extensions);
        if !self.refused {
            let wants = wants_response || self.socket.is_some();
            answer.mode_override = self.request_override(wants).map(Into::into);
        }
        Ok(answer)
    }

    /// Whether Envoy is set up so that a verdict can have an effect.
    fn check_settings(&self, no_source: bool) {
        let blocks =
            self.inspector.as_deref().is_some_and(|inspector| inspector.mode() == Mode::Blocking);
        let streamed = self.request == Half::Body(BodyMode::Streamed);
        for (wrong, alarm) in [
            (no_source, Alarm::NoClientAddress),
            (blocks && self.observed, Alarm::ObservabilityMode),
            (blocks && !self.observed && streamed, Alarm::StreamedBody),
        ] {
            if wrong {
                self.shared.alarm(alarm);
            }
        }
    }

    fn request_body(&mut self, body: &Body) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_deref_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let mode = match self.request {
            Half::Headers => return Err(Misordered::BeforeRequestHeaders),
            Half::BodyDone => return Err(Misordered::BodyAfterItsEnd),
            Half::Done | Half::Socket(_) | Half::Events(_) => {
                return Ok(self.follow(&Decision::Continue, Part::RequestBody, Vec::new()));
            }
            Half::Messages(mode) => return Ok(self.messages(body, mode)),
            Half::Body(mode) => mode,
        };
        self.shared.body_came();
        let bytes = inspector.body_bytes().saturating_add(body.bytes.len());
        let is_whole = bytes <= self.shared.envoy_buffer_bytes || inspector.is_whole_body(bytes);
        let end = end_of(body, mode, is_whole, bytes > inspector.held_body_bytes(bytes));
        inspector.set_deadline(deadline(self.due));
        let decision = match self.body_memory.grow_to(inspector.held_body_bytes(bytes)) {
            Ok(()) => inspector.request_body(&body.bytes, end),
            Err(rejection) => inspector.request_body_overflow(rejection),
        };
        if decision != Decision::NeedBody {
            self.request = after_body(body, mode);
            self.waits.release();
        }
        Ok(self.follow(&decision, Part::RequestBody, Vec::new()))
    }

    fn request_trailers(&mut self, trailers: &Trailers) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_deref_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        if matches!(self.request, Half::Body(_) | Half::Messages(_)) {
            self.shared.body_came();
        }
        inspector.set_deadline(deadline(self.due));
        let (decision, are_seen) = inspector.request_trailers(&trailers.headers());
        let takes_out = !are_seen && inspector.mode() == Mode::Blocking;
        self.request = Half::BodyDone;
        self.waits.release();
        let remove = if takes_out { trailers.names() } else { Vec::new() };
        Ok(self.follow(&decision, Part::RequestTrailers, remove))
    }

    fn response_headers(&mut self, head: &Head) -> Result<Answer, Misordered> {
        let misses_body = self.misses_body();
        let inspector = self.inspector.as_deref_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        if self.response != Half::Headers {
            return Err(Misordered::ResponseHeadersTwice);
        }
        if misses_body {
            self.shared.alarm(Alarm::ModeOverrideIgnored);
        }
        inspector.set_deadline(deadline(self.due));
        let decision = inspector.response_headers(&ResponseHead {
            headers: &head.headers(),
            end_of_stream: head.end_of_stream,
        });
        self.response = match decision {
            Decision::NeedBody => Half::Body(Self::mode_for_body(self.modes.response)),
            Decision::Continue | Decision::Reply(_) => Half::Done,
        };
        let blocks = inspector.mode() == Mode::Blocking;
        let (rejected, extensions) = match decision {
            Decision::Reply(_) => (None, HeaderChange::Keep),
            Decision::Continue | Decision::NeedBody => self.socket_answered(head),
        };
        let decision = rejected.unwrap_or(decision);
        if decision == Decision::Continue {
            self.begin_events();
        }
        if blocks && !self.observed && self.response == Half::Body(BodyMode::Streamed) {
            self.shared.alarm(Alarm::StreamedResponse);
        }
        let mut answer = self.follow(&decision, Part::ResponseHeaders, Vec::new());
        answer.change_header(EXTENSIONS_HEADER, &extensions);
        if !self.refused {
            answer.mode_override = self.response_override().map(Into::into);
        }
        Ok(answer)
    }

    fn response_body(&mut self, body: &Body) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_deref_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let mode = match self.response {
            Half::Headers => return Err(Misordered::ResponseBodyBeforeHeaders),
            Half::BodyDone => return Err(Misordered::BodyAfterItsEnd),
            Half::Done | Half::Messages(_) | Half::Socket(_) | Half::Events(_) => {
                return Ok(self.follow(&Decision::Continue, Part::ResponseBody, Vec::new()));
            }
            Half::Body(mode) => mode,
        };
        let bytes = inspector.body_bytes().saturating_add(body.bytes.len());
        let held = self.held_response.bytes().saturating_add(body.bytes.len());
        let too_large = held > inspector.program().limits().response_body_bytes_max;
        let is_whole = bytes <= self.shared.envoy_buffer_bytes;
        inspector.set_deadline(deadline(self.due));
        let decision = match self.body_memory.grow_to(bytes) {
            Ok(()) => inspector.response_body(&body.bytes, end_of(body, mode, is_whole, too_large)),
            Err(_) => inspector.response_body_overflow(),
        };
        if decision != Decision::NeedBody {
            self.response = after_body(body, mode);
        }
        Ok(self.follow(&decision, Part::ResponseBody, Vec::new()))
    }

    fn response_trailers(&mut self, trailers: &Trailers) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_deref_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        inspector.set_deadline(deadline(self.due));
        let decision = inspector.response_trailers(&trailers.headers());
        self.response = Half::BodyDone;
        Ok(self.follow(&decision, Part::ResponseTrailers, Vec::new()))
    }

    /// The answer to `part` that a decision asks for, with the receipt as it is now.
    fn follow(&mut self, decision: &Decision, part: Part, remove: Vec<String>) -> Answer {
        let mut answer = match decision {
            Decision::Reply(reply) => {
                self.refused = true;
                reply::immediate(reply)
            }
            Decision::Continue | Decision::NeedBody => reply::pass(part, remove),
        };
        let receipt = self.receipt();
        if let Some(receipt) = &receipt {
            self.shared.metrics.receipt(receipt.verdict);
        }
        answer.dynamic_metadata = receipt.as_ref().map(reply::metadata).unwrap_or_default();
        answer
    }

    /// The receipt as it is now.
    fn receipt(&self) -> Option<Receipt<'_>> {
        match (&self.watched, &self.profile) {
            (Some(id), Some(profile)) => {
                Some(Receipt::observed(&profile.settings.profile, profile.program.hash(), id))
            }
            _ => self.inspector.as_deref().map(Inspector::receipt),
        }
    }
}

const fn part(message: &Message) -> Part {
    match message {
        Message::RequestHeaders(_) => Part::RequestHeaders,
        Message::RequestBody(_) => Part::RequestBody,
        Message::RequestTrailers(_) => Part::RequestTrailers,
        Message::ResponseHeaders(_) => Part::ResponseHeaders,
        Message::ResponseBody(_) => Part::ResponseBody,
        Message::ResponseTrailers(_) => Part::ResponseTrailers,
    }
}

/// The parts of a client of what all share for bodies: memory, and places among those that wait.
fn shares(shared: &Shared, inspector: &Inspector) -> (Share, Share) {
    let client = inspector.client().map(Client::from);
    let none = |pool| Share::none(Arc::clone(pool), client);
    (none(&shared.body_memory), none(&shared.waits))
}

/// What says to which profile a request belongs.
fn hints<'h>(named: Option<&'h str>, head: &'h Head) -> Hints<'h> {
    Hints {
        stream: named,
        route_metadata: head.route_profile.as_deref(),
        route: head.route.as_deref(),
    }
}

/// The deadline for the engine; none where nothing is due.
fn deadline(due: Option<Instant>) -> Option<Deadline> {
    due.map(|due| Deadline::new(clock::nanoseconds, clock::at(due)))
}

fn unknown_profile() -> Status {
    Status::failed_precondition("Envoy names a profile that is not in the configuration")
}
