//! One gRPC stream: Envoy's state machine, seen from the other side (`CallbackState` in Envoy's
//! `processor_state.h`).
//!
//! Laws: each message is answered once, with an answer of its own type or an immediate response (in full
//! duplex once the verdict is there, see `duplex`); a message out of order is an error of the stream,
//! which Envoy treats by its failure mode, and never an answer that lets something pass.

mod end;
mod watched;

use std::{sync::Arc, time::Instant};

use glacis_inspector::{
    Decision, End, Hints, Inspector, Mode, Receipt, RequestHead, ResponseHead, request_id,
};
use glacis_service::{
    chance::{lot, random_id},
    now,
};
use tonic::Status;

use crate::{
    admission::{Share, UNANNOUNCED_BYTES},
    alarm::Alarm,
    duplex::{Held, Seen},
    metrics::{ProfileMetrics, phase_name},
    profile::Profile,
    recording::Recorder,
    reply::{self, Answer, ModeOverride, Part},
    shared::Shared,
    trace::{Context, Exchange},
    wire::{Body, BodyMode, Head, Incoming, Message, Modes},
    work::Pass,
};

/// Request headers that only Glacis may set: a client's are taken out before the request goes on.
const OWN_HEADERS: &str = "x-glacis-";

/// How far one half of the exchange, request or response, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Its headers have not come.
    Headers,
    /// Its body is awaited, in the mode that Envoy was asked for or is configured to.
    Body(BodyMode),
    /// The verdict is reached without a body; pieces of it may come all the same, and pass.
    Done,
    /// The verdict is reached on the whole body: no more of it can come.
    BodyDone,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Its part of the room for bodies.
    share: Share,
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
    inspector: Option<Inspector>,
    /// The name of a request that is evaluated out of band only.
    watched: Option<String>,
    /// Writes down what is to be evaluated when it has been answered; and whether a shadow looks at it too.
    recorder: Option<(Recorder, bool)>,
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
    ) -> Self {
        shared.metrics.streams_open.inc();
        Self {
            share: Share::none(Arc::clone(&shared.body_room)),
            shared,
            named,
            context,
            traced: None,
            profile: None,
            inspector: None,
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
        }
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
        let inspector = self.inspector.as_ref().filter(|_| self.awaits_body());
        inspector.map(Inspector::body_bytes)
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
                self.record(message);
                self.later(message)?
            }
        };
        self.submit_when_complete();
        if let Some(metrics) = self.metrics() {
            metrics.evaluated(part, began.elapsed());
        }
        if let Some(traced) = &mut self.traced {
            traced.phase(phase_name(part), began, self.inspector.as_ref());
        }
        self.conclude_if_final();
        self.rest_if_many();
        if sent.observability_mode {
            return Ok(Vec::new());
        }
        let piece = match sent.message {
            Message::RequestBody(body) | Message::ResponseBody(body) => {
                Some((body.bytes, body.end_of_stream))
            }
            _ => None,
        };
        Ok(self.give_back(Seen { part, piece, answer }))
    }

    /// Answers what comes behind the request's headers.
    fn later(&mut self, message: &Message) -> Result<Answer, Status> {
        if self.concluded && part(message) == Part::ResponseHeaders {
            self.shared.unasked_response();
        }
        if self.watched.is_some() || self.concluded {
            return Ok(self.let_pass(message));
        }
        Ok(match message {
            Message::RequestHeaders(_) => return Err(Misordered::RequestHeadersTwice.into()),
            Message::RequestBody(body) => self.request_body(body)?,
            Message::RequestTrailers => self.request_trailers()?,
            Message::ResponseHeaders(head) => self.response_headers(head)?,
            Message::ResponseBody(body) => self.response_body(body)?,
            Message::ResponseTrailers => self.response_trailers()?,
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
        if mode != BodyMode::FullDuplex || self.refused {
            return vec![seen.answer];
        }
        held.answers(seen, matches!(half, Half::Body(_)))
    }

    /// The answer to a message for whose verdict Envoy cannot wait, if rules may not block: a profile that
    /// only looks on must not refuse anything because it is slow.
    pub(crate) fn pass_without_verdict(&self, message: &Message) -> Option<Pass> {
        // The end of the stream would be the end of the body.
        if self.is_duplex() {
            return None;
        }
        let receipt = self.inspector.as_ref()?.receipt_without_verdict()?;
        let mut answer = reply::pass(part(message), Vec::new());
        answer.dynamic_metadata = reply::metadata(&receipt);
        Some(Pass { answer, verdict: receipt.verdict })
    }

    fn request_headers(&mut self, head: &Head) -> Result<Answer, Status> {
        if self.request != Half::Headers || self.response != Half::Headers {
            return Err(Misordered::RequestHeadersTwice.into());
        }
        let hints = Hints {
            stream: self.named.as_deref(),
            route_metadata: head.route_profile.as_deref(),
            route: head.route.as_deref(),
        };
        let profile = self.shared.choose(hints).map_err(|_| unknown_profile())?;
        let profile = Arc::clone(self.profile.insert(profile));
        let headers = head.headers();
        let id = request_id(&headers).map_or_else(random_id, str::to_owned);
        let (time, lot, audit_lot) = (now(), lot(), lot());
        self.begin_recording(&profile, head, &id, (time, lot));
        if profile.is_out_of_band() {
            self.watched = Some(id);
            self.check_settings(head.source.is_none());
            return Ok(self.let_headers_pass(head));
        }
        let traced = self.shared.tracer.begin(self.context.take(), &headers);
        self.traced = traced.map(Box::new);
        let inspector = self.inspector.insert(profile.inspector());
        let mut decision = inspector.request_headers(&RequestHead {
            headers: &headers,
            protocol: head.protocol.as_deref(),
            end_of_stream: head.end_of_stream,
            id: &id,
            time,
            source: head.source,
            destination: head.destination,
            lot,
            audit_lot,
        });
        if decision == Decision::NeedBody {
            let announced = inspector.announced_body_bytes(&headers);
            let bytes = announced.unwrap_or_else(|| inspector.held_body_bytes(UNANNOUNCED_BYTES));
            if !self.share.grow_to(bytes) {
                decision = inspector.request_body_overflow();
            }
        }
        let wants_response = inspector.wants_response();
        self.request = match decision {
            Decision::NeedBody => Half::Body(Self::mode_for_body(self.modes.request)),
            Decision::Continue | Decision::Reply(_) => Half::Done,
        };
        self.check_settings(head.source.is_none());
        let remove = head.names_with_prefix(OWN_HEADERS);
        let mut answer = self.follow(&decision, Part::RequestHeaders, remove);
        if !self.refused {
            answer.mode_override = self.request_override(wants_response).map(Into::into);
        }
        Ok(answer)
    }

    /// Whether Envoy is set up so that a verdict can have an effect.
    fn check_settings(&self, no_source: bool) {
        let blocks =
            self.inspector.as_ref().is_some_and(|inspector| inspector.mode() == Mode::Blocking);
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

    /// The mode in which a needed body comes: as configured in Envoy, or as asked for.
    ///
    /// `BUFFERED` is not asked for: Envoy 1.40 then waits for ever, if more of the body than it can
    /// buffer came before the answer to the headers. Partially buffered, such a body comes cut off,
    /// and is refused or not as configured here.
    const fn mode_for_body(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::None => BodyMode::BufferedPartial,
            mode => mode,
        }
    }

    /// What Envoy has to send differently from its configuration, after the request's headers.
    ///
    /// A mode that is configured is kept where a body is needed: whether Envoy obeys an override is
    /// not known (`allow_mode_override`), and the end of a body is told differently in each mode.
    fn request_override(&self, wants_response: bool) -> Option<ModeOverride> {
        // Envoy takes none in this mode.
        if self.is_duplex() {
            return None;
        }
        let body = match self.request {
            Half::Body(mode) => mode,
            _ => self.mode_for_recording(self.modes.request, |recorder| {
                recorder.wanted().request_body_bytes > 0
            }),
        };
        let wants_response = wants_response || self.records(|recorder| recorder.wanted().response);
        let as_configured = body == self.modes.request
            && body != BodyMode::Streamed
            && !wants_response
            && self.modes.response == BodyMode::None;
        let response_body = if wants_response { self.modes.response } else { BodyMode::None };
        (!as_configured).then_some(ModeOverride {
            request_body: body,
            // A streamed body that has trailers is over when they come.
            request_trailers: body == BodyMode::Streamed,
            response_headers: wants_response,
            response_body,
            response_trailers: false,
        })
    }

    fn request_body(&mut self, body: &Body) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let mode = match self.request {
            Half::Headers => return Err(Misordered::BeforeRequestHeaders),
            Half::BodyDone => return Err(Misordered::BodyAfterItsEnd),
            Half::Done => {
                return Ok(self.follow(&Decision::Continue, Part::RequestBody, Vec::new()));
            }
            Half::Body(mode) => mode,
        };
        self.shared.body_came();
        let bytes = inspector.body_bytes().saturating_add(body.bytes.len());
        let end = end_of(body, mode, bytes > inspector.held_body_bytes(bytes));
        let decision = if self.share.grow_to(inspector.held_body_bytes(bytes)) {
            inspector.request_body(&body.bytes, end)
        } else {
            inspector.request_body_overflow()
        };
        if decision != Decision::NeedBody {
            self.request = after_body(body, mode);
        }
        Ok(self.follow(&decision, Part::RequestBody, Vec::new()))
    }

    fn request_trailers(&mut self) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let decision = match self.request {
            Half::Body(_) => inspector.request_body(&[], End::Last),
            _ => Decision::Continue,
        };
        self.request = Half::BodyDone;
        Ok(self.follow(&decision, Part::RequestTrailers, Vec::new()))
    }

    fn response_headers(&mut self, head: &Head) -> Result<Answer, Misordered> {
        let misses_body = self.misses_body();
        let inspector = self.inspector.as_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        if self.response != Half::Headers {
            return Err(Misordered::ResponseHeadersTwice);
        }
        if misses_body {
            self.shared.alarm(Alarm::ModeOverrideIgnored);
        }
        let decision = inspector.response_headers(&ResponseHead {
            headers: &head.headers(),
            end_of_stream: head.end_of_stream,
        });
        self.response = match decision {
            Decision::NeedBody => Half::Body(Self::mode_for_body(self.modes.response)),
            Decision::Continue | Decision::Reply(_) => Half::Done,
        };
        let blocks = inspector.mode() == Mode::Blocking;
        if blocks && !self.observed && self.response == Half::Body(BodyMode::Streamed) {
            self.shared.alarm(Alarm::StreamedResponse);
        }
        let mut answer = self.follow(&decision, Part::ResponseHeaders, Vec::new());
        if !self.refused {
            answer.mode_override = self.response_override().map(Into::into);
        }
        Ok(answer)
    }

    fn response_override(&self) -> Option<ModeOverride> {
        if self.is_duplex() {
            return None;
        }
        let body = match self.response {
            Half::Body(mode) => mode,
            _ => self.mode_for_recording(self.modes.response, |recorder| {
                recorder.wanted().response_body_bytes > 0
            }),
        };
        let as_configured = body == self.modes.response && body != BodyMode::Streamed;
        let request_body = match self.request {
            Half::Body(mode) => mode,
            _ => self.mode_for_recording(self.modes.request, |recorder| {
                !recorder.has_request() && recorder.wanted().request_body_bytes > 0
            }),
        };
        (!as_configured).then_some(ModeOverride {
            request_body,
            request_trailers: request_body == BodyMode::Streamed,
            response_headers: true,
            response_body: body,
            response_trailers: body == BodyMode::Streamed,
        })
    }

    fn response_body(&mut self, body: &Body) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let mode = match self.response {
            Half::Headers => return Err(Misordered::ResponseBodyBeforeHeaders),
            Half::BodyDone => return Err(Misordered::BodyAfterItsEnd),
            Half::Done => {
                return Ok(self.follow(&Decision::Continue, Part::ResponseBody, Vec::new()));
            }
            Half::Body(mode) => mode,
        };
        let bytes = inspector.body_bytes().saturating_add(body.bytes.len());
        let held = self.held_response.bytes().saturating_add(body.bytes.len());
        let too_large = held > inspector.program().limits().response_body_bytes_max;
        let decision = if self.share.grow_to(bytes) {
            inspector.response_body(&body.bytes, end_of(body, mode, too_large))
        } else {
            inspector.response_body_overflow()
        };
        if decision != Decision::NeedBody {
            self.response = after_body(body, mode);
        }
        Ok(self.follow(&decision, Part::ResponseBody, Vec::new()))
    }

    fn response_trailers(&mut self) -> Result<Answer, Misordered> {
        let inspector = self.inspector.as_mut().ok_or(Misordered::BeforeRequestHeaders)?;
        let decision = match self.response {
            Half::Body(_) => inspector.response_body(&[], End::Last),
            _ => Decision::Continue,
        };
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
            _ => self.inspector.as_ref().map(Inspector::receipt),
        }
    }
}

const fn part(message: &Message) -> Part {
    match message {
        Message::RequestHeaders(_) => Part::RequestHeaders,
        Message::RequestBody(_) => Part::RequestBody,
        Message::RequestTrailers => Part::RequestTrailers,
        Message::ResponseHeaders(_) => Part::ResponseHeaders,
        Message::ResponseBody(_) => Part::ResponseBody,
        Message::ResponseTrailers => Part::ResponseTrailers,
    }
}

/// Whether a piece of a body is the last, which each mode tells differently.
///
/// Buffered: there is one piece, also when trailers follow and Envoy says that the stream goes on.
/// Buffered partially: there is one piece, and if the stream goes on it is not the whole body (or
/// trailers follow; the two look alike). In full duplex everything is held here: no more than is inspected.
const fn end_of(body: &Body, mode: BodyMode, too_large: bool) -> End {
    match mode {
        BodyMode::Buffered => End::Last,
        _ if body.end_of_stream => End::Last,
        BodyMode::BufferedPartial => End::Truncated,
        BodyMode::FullDuplex if too_large => End::Truncated,
        BodyMode::Streamed | BodyMode::FullDuplex | BodyMode::None => End::More,
    }
}

/// What may come behind a piece of a body after which the verdict is reached.
const fn after_body(body: &Body, mode: BodyMode) -> Half {
    match mode {
        BodyMode::FullDuplex if !body.end_of_stream => Half::Done,
        _ => Half::BodyDone,
    }
}

fn unknown_profile() -> Status {
    Status::failed_precondition("Envoy names a profile that is not in the configuration")
}
