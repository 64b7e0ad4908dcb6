//! One HTTP stream: Envoy's filter state machine, and the inspector's decisions.
//!
//! Laws: a message goes on only after a verdict that lets it; a message that Envoy must not send here ends in a 503; what
//! was decided is written down once.

mod evaluation;
mod event_stream;
mod late_body;
mod messages;
mod readiness;
mod receipt;
mod socket;

use std::{sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::{
    Decision, End, EventStream, Header, HeaderChange, Hints, Inspector, Mode, Reply, ResponseHead,
    Socket, Uninspected, find, grpc_code, request_id,
};
use glacis_service::{
    Client,
    chance::{lot, random_id},
    now,
};

use self::{
    evaluation::{Done, Early, Evaluation, OwnedHead, begin, own_fields},
    late_body::{Begun, Known},
    messages::Meanwhile,
};
use crate::{
    filter::Filter,
    in_use::Rules,
    metrics::Error,
    rulesets::Profile,
    stream::{Attribute, Half, HeaderMap, Next, Stream, Wake},
    waiting::Waiting,
};

/// The namespace of receipts, and of the profile in a route's metadata.
const NAMESPACE: &str = "glacis";

/// How far one half has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its headers have not come.
    Headers,
    /// Its body is awaited.
    Body,
    /// Messages of gRPC are inspected as they come.
    Messages,
    /// Messages of a WebSocket are inspected as they come.
    Socket,
    /// Events are inspected as they come.
    Events,
    /// Another thread evaluates it.
    Evaluation,
    /// There is a verdict on it, or it is not inspected.
    Done,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Exchange<W: Wake> {
    filter: Arc<Filter>,
    profile: Option<Arc<Profile>>,
    /// `None` before the request's headers, while another thread has it, and when the exchange is concluded.
    inspector: Option<Box<Inspector>>,
    /// The WebSocket that the request has opened, where its messages are inspected.
    socket: Option<Box<Socket>>,
    /// The response whose events are inspected.
    events: Option<Box<EventStream>>,
    /// What ends the response after the events that have gone on, or a socket whose peers do not, and the wait for that.
    cut: Option<Box<Reply>>,
    cut_wait: Option<Waiting<W, ()>>,
    waiting: Option<Waiting<W, Done>>,
    /// The wait for the first rules of the filter.
    rules_wait: Option<Waiting<W, ()>>,
    /// The wait for a body that may be late.
    late_body: Option<Waiting<W, ()>>,
    /// What two evaluations of the same headers have in common.
    begun: Begun,
    /// What has come behind the request's headers while these are evaluated elsewhere, or wait for rules.
    early: Option<Early>,
    /// What has come of a call while its messages are evaluated elsewhere.
    meanwhile: Option<Meanwhile>,
    request: Progress,
    response: Progress,
    /// The client was answered by us.
    answered: bool,
    /// Whether rules may block.
    blocks: bool,
    /// Whether Envoy answers the client in the words of gRPC, which it does by the media type alone.
    answers_grpc: bool,
    body_memory: Share,
    place: Share,
    /// Bytes of the response's body.
    response_bytes: usize,
}

/// The answer to a request that could not be judged, for no reason of its own.
pub(crate) fn fault(error: Error) -> Reply {
    Reply {
        status: 503,
        action: "fault",
        headers: vec![
            ("cache-control", "no-store".to_owned()),
            ("content-type", "application/problem+json".to_owned()),
            ("retry-after", "1".to_owned()),
        ],
        body: "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
               \"detail\":\"The request could not be checked. Try again later.\"}\n"
            .to_owned(),
        grpc_status: None,
        rule: None,
        details: error.details().to_owned(),
    }
}

impl<W: Wake> Exchange<W> {
    /// A stream of which nothing is known.
    pub(crate) fn new(filter: Arc<Filter>) -> Self {
        let shared = &filter.engine.shared;
        let body_memory = Share::none(Arc::clone(&shared.body_memory), None);
        let place = Share::none(Arc::clone(&shared.places), None);
        Self {
            profile: None,
            inspector: None,
            socket: None,
            events: None,
            cut: None,
            cut_wait: None,
            waiting: None,
            rules_wait: None,
            late_body: None,
            begun: Begun::default(),
            early: None,
            meanwhile: None,
            request: Progress::Headers,
            response: Progress::Headers,
            answered: false,
            blocks: false,
            answers_grpc: false,
            body_memory,
            place,
            response_bytes: 0,
            filter,
        }
    }

    /// Ends the exchange without a verdict, after a panic: what the inspector has is not to be trusted.
    pub(crate) fn give_up(&mut self, error: Error) -> Next {
        (self.waiting, self.rules_wait, self.late_body) = (None, None, None);
        (self.cut, self.cut_wait) = (None, None);
        // Its memory may be what has made it panic. It is lost, rather than touched again.
        let inspector = self.inspector.take();
        let dropped = std::panic::AssertUnwindSafe(|| drop(inspector));
        let _ = std::panic::catch_unwind(dropped);
        (self.request, self.response) = (Progress::Done, Progress::Done);
        if self.answered {
            return Next::Drop;
        }
        self.answered = true;
        Next::Reply(Box::new(self.in_grpc(fault(error))))
    }

    /// Answers 503 to what Envoy must not send here, or what cannot be evaluated.
    fn fail(&mut self, stream: &mut impl Stream, error: Error) -> Next {
        self.filter.metrics.error(stream, error);
        self.give_up(error)
    }

    /// Headers have come.
    pub(crate) fn headers<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        half: Half,
        end_of_stream: bool,
    ) -> Next {
        match half {
            Half::Request if self.request != Progress::Headers => self.fail(stream, Error::Fault),
            Half::Request => self.request_headers(stream, end_of_stream),
            Half::Response => self.response_headers(stream, end_of_stream),
        }
    }

    fn request_headers<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        end_of_stream: bool,
    ) -> Next {
        let began = Instant::now();
        let route = stream.route();
        if route.as_ref().is_some_and(|route| route.disabled) {
            self.request = Progress::Done;
            return Next::Continue;
        }
        let rulesets = match self.filter.engine.shared.rules.rules() {
            Rules::Ready(rulesets) => rulesets,
            Rules::Awaited => return self.await_rules(stream, end_of_stream),
            Rules::Failed => return self.fail(stream, Error::NotReady),
        };
        let metadata = stream.route_metadata(NAMESPACE, "profile", str::to_owned);
        let name =
            rulesets.has_routes.then(|| stream.attribute(Attribute::RouteName, str::to_owned));
        let choice = rulesets.profiles.choose(Hints {
            stream: route.as_ref().and_then(|route| route.profile.as_deref()),
            route_metadata: metadata.as_deref(),
            route: name.flatten().as_deref(),
        });
        let (profile, unknown) = match choice {
            Ok(choice) => (Arc::clone(choice.profile), choice.unknown),
            Err(_) => return self.fail(stream, Error::UnknownProfile),
        };
        if unknown {
            self.filter.metrics.unknown_profile(stream);
        }
        let judged = self.judge_headers(stream, &profile, end_of_stream);
        self.blocks = profile.may_block();
        self.profile = Some(profile);
        let (mut inspector, decision) = match judged {
            (inspector, Ok(decision)) => (inspector, decision),
            (inspector, Err(head)) => {
                self.early.get_or_insert_with(|| Early::new(end_of_stream));
                return self.evaluate(stream, inspector, Evaluation::Headers(Box::new(head)));
            }
        };
        if self.early.is_some() {
            self.measure(stream, "request_headers", began);
            return self.evaluated(stream, Done { inspector, half: Half::Request, decision });
        }
        self.blocks = inspector.mode() == Mode::Blocking;
        if inspector.awaits_messages() {
            self.begin_messages(&inspector);
        }
        let decision = match decision {
            Decision::NeedBody => {
                self.expect_body(stream, &inspector);
                self.begin_wait(stream, &mut inspector)
            }
            decision => decision,
        };
        self.begin_socket(stream, &mut inspector);
        self.inspector = Some(inspector);
        self.measure(stream, "request_headers", began);
        self.decided(stream, Half::Request, &decision)
    }

    /// Runs the rules for headers, unless there is so much of them that it is not for this thread.
    fn judge_headers(
        &mut self,
        stream: &impl Stream,
        profile: &Profile,
        end_of_stream: bool,
    ) -> (Box<Inspector>, Result<Decision, OwnedHead>) {
        let headers = stream.headers(HeaderMap::Request);
        self.answers_grpc = is_grpc_for_envoy(&headers);
        self.begun = Begun { time: now(), lots: [lot(), lot()] };
        let id = request_id(&headers);
        let made_up = if id.is_none() { random_id() } else { String::new() };
        let known = Known::of(stream, profile);
        let protocol = known.protocol;
        let head = self.begun.head(&headers, end_of_stream, id.unwrap_or(&made_up), &known);
        let mut inspector = Box::new(profile.pool.take());
        let shared = &self.filter.engine.shared;
        let bytes: usize = headers.iter().map(|it| it.name.len() + it.value.len()).sum();
        if bytes > shared.inline_header_bytes {
            return (inspector, Err(OwnedHead::new(&head, protocol, profile.trusted_hops())));
        }
        inspector.set_deadline(shared.deadline(Instant::now()));
        let decision = begin(&mut inspector, &head);
        (inspector, Ok(decision))
    }

    /// Takes a place among the requests that wait for their bodies, and has Envoy hold the body.
    fn begin_wait<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        inspector: &mut Inspector,
    ) -> Decision {
        let shared = &self.filter.engine.shared;
        let client = inspector.client().map(Client::from);
        self.body_memory = Share::none(Arc::clone(&shared.body_memory), client);
        self.place = Share::none(Arc::clone(&shared.places), client);
        if let Err(rejection) = self.place.add(1) {
            return inspector.body_not_awaited(rejection);
        }
        // One piece more than is inspected may come before it is known to be too much.
        stream.buffer_at_least(inspector.held_body_bytes(usize::MAX));
        Decision::NeedBody
    }

    fn response_headers<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        end_of_stream: bool,
    ) -> Next {
        if self.answered || self.response != Progress::Headers {
            return Next::Continue;
        }
        let Some(inspector) = &mut self.inspector else {
            // Envoy answers on its own behalf, the exchange is concluded, or a long message of the call is evaluated.
            if self.meanwhile.is_some() {
                let reason = Uninspected::NotEvaluated.name();
                self.filter.metrics.uninspected(stream, reason);
            }
            self.response = Progress::Done;
            return Next::Continue;
        };
        let began = Instant::now();
        let headers = stream.headers(HeaderMap::Response);
        inspector.set_deadline(self.filter.engine.shared.deadline(began));
        let decision =
            inspector.response_headers(&ResponseHead { headers: &headers, end_of_stream });
        let mut extensions = HeaderChange::Keep;
        let mut decision = decision;
        let mut socket = self.socket.take();
        if let Some(socket) = socket.as_mut().filter(|_| !matches!(decision, Decision::Reply(_))) {
            let (rejected, change) = self.socket_answered(socket, &headers);
            decision = rejected.unwrap_or(decision);
            extensions = change;
        }
        drop(headers);
        self.socket = socket;
        let Some(inspector) = &self.inspector else { return self.fail(stream, Error::Fault) };
        if decision == Decision::NeedBody {
            let bytes_max = inspector.program().limits().response_body_bytes_max;
            stream.buffer_at_least(bytes_max);
        }
        // The request cannot come any further, unless it is a call that goes on.
        if !matches!(self.request, Progress::Messages | Progress::Evaluation | Progress::Socket) {
            self.request = Progress::Done;
        }
        self.measure(stream, "response_headers", began);
        self.begin_events();
        let next = self.decided(stream, Half::Response, &decision);
        if self.socket.as_ref().is_some_and(|socket| socket.is_open()) && next == Next::Continue {
            self.socket_opened(stream, &extensions);
        }
        if self.events.is_some() && next == Next::Continue {
            self.response = Progress::Events;
        }
        next
    }

    /// A piece of a body has come.
    pub(crate) fn body<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        half: Half,
        end_of_stream: bool,
    ) -> Next {
        match self.progress(half) {
            Progress::Headers if half == Half::Request => {
                return self.fail(stream, Error::Fault);
            }
            Progress::Done if self.answered && half == Half::Request => return Next::Drop,
            Progress::Headers | Progress::Done => return Next::Continue,
            Progress::Evaluation => {
                if let Some(early) = &mut self.early {
                    early.is_ended |= end_of_stream;
                }
                self.comes_meanwhile(stream, half, end_of_stream);
                return Next::HoldAndSlowDown;
            }
            Progress::Messages => return self.messages(stream, end_of_stream),
            Progress::Socket => return self.socket_piece(stream, half, end_of_stream),
            Progress::Events => return self.events_piece(stream, end_of_stream),
            Progress::Body => {}
        }
        let began = Instant::now();
        let Some(mut inspector) = self.inspector.take() else {
            return self.fail(stream, Error::Fault);
        };
        let pieces = stream.body(half);
        let taken = self.take_body(&mut inspector, half, &pieces, end_of_stream);
        drop(pieces);
        match taken {
            Err(decision) => {
                self.inspector = Some(inspector);
                self.measure(stream, phase(half, "body"), began);
                self.decided(stream, half, &decision)
            }
            Ok(End::More) => {
                self.inspector = Some(inspector);
                Next::HoldAndSlowDown
            }
            Ok(end) => self.evaluate(stream, inspector, Evaluation::Body { half, end }),
        }
    }

    /// Hands a piece of a body over. What is left to do is the end of the body, unless there is a decision already.
    fn take_body(
        &mut self,
        inspector: &mut Inspector,
        half: Half,
        pieces: &[&[u8]],
        end_of_stream: bool,
    ) -> Result<End, Decision> {
        let more = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let bytes = inspector.body_bytes().saturating_add(more);
        self.response_bytes += if half == Half::Response { more } else { 0 };
        let (held, too_large) = match half {
            Half::Request => {
                let held = inspector.held_body_bytes(bytes);
                (held, bytes > held)
            }
            Half::Response => {
                let bytes_max = inspector.program().limits().response_body_bytes_max;
                (bytes, self.response_bytes > bytes_max)
            }
        };
        let end = match (end_of_stream, too_large) {
            (true, _) => End::Last,
            (false, true) => End::Truncated,
            (false, false) => End::More,
        };
        if let Err(rejection) = self.body_memory.grow_to(held) {
            return Err(match half {
                Half::Request => inspector.request_body_overflow(rejection),
                Half::Response => inspector.response_body_overflow(),
            });
        }
        // The first piece is too large, and such bodies pass: nothing of it is looked at.
        if end == End::Truncated && inspector.body_bytes() == 0 && self.passes_too_large() {
            return Ok(end);
        }
        for piece in pieces {
            let decision = match half {
                Half::Request => inspector.request_body(piece, End::More),
                Half::Response => inspector.response_body(piece, End::More),
            };
            if decision != Decision::NeedBody {
                return Err(decision);
            }
        }
        Ok(end)
    }

    fn passes_too_large(&self) -> bool {
        let profile = self.profile.as_ref();
        profile.is_some_and(|profile| profile.passes_too_large())
    }

    /// Trailers have come.
    pub(crate) fn trailers<S: Stream<Waker = W>>(&mut self, stream: &mut S, half: Half) -> Next {
        let map = match half {
            Half::Request => HeaderMap::RequestTrailers,
            Half::Response => HeaderMap::ResponseTrailers,
        };
        match self.progress(half) {
            Progress::Headers if half == Half::Request => {
                return self.fail(stream, Error::Fault);
            }
            Progress::Done if self.answered && half == Half::Request => return Next::Drop,
            Progress::Evaluation => {
                match &mut self.early {
                    Some(early) => early.trailers = Some(own_fields(&stream.headers(map))),
                    None => self.take_out(stream, half, map),
                }
                self.ends_meanwhile(half);
                return Next::Hold;
            }
            Progress::Events if self.cut.is_some() => return self.cut_when_woken(),
            Progress::Headers | Progress::Done | Progress::Socket | Progress::Events => {
                self.late_trailers(stream, half, map);
                return Next::Continue;
            }
            Progress::Messages => {
                self.take_out(stream, half, map);
                return self.judge_messages(stream, Vec::new(), End::Last);
            }
            Progress::Body => {}
        }
        let Some(inspector) = self.inspector.take() else {
            return self.fail(stream, Error::Fault);
        };
        let own = |bytes: &[u8]| bytes.to_vec();
        let trailers = stream.headers(map);
        let trailers = trailers.iter().map(|field| (own(field.name), own(field.value))).collect();
        self.evaluate(stream, inspector, Evaluation::Trailers { half, trailers })
    }

    /// Trailers have come after the verdict: rules do not see them.
    fn late_trailers(&mut self, stream: &mut impl Stream, half: Half, map: HeaderMap) {
        if let Some(inspector) = &mut self.inspector {
            let trailers = stream.headers(map);
            match half {
                Half::Request if inspector.request_trailers(&trailers).1 => return,
                Half::Request => {}
                Half::Response => {
                    inspector.response_trailers(&trailers);
                }
            }
        }
        self.take_out(stream, half, map);
    }

    /// Removes trailers of a request that rules have not seen, where rules may block.
    fn take_out(&self, stream: &mut impl Stream, half: Half, map: HeaderMap) {
        if half == Half::Response || !self.blocks {
            return;
        }
        let names: Vec<Vec<u8>> =
            stream.headers(map).iter().map(|field| field.name.to_vec()).collect();
        if !names.is_empty() && self.inspector.is_none() {
            self.filter.metrics.uninspected(stream, Uninspected::RequestTrailers.name());
        }
        for name in names {
            stream.remove_header(map, &name);
        }
    }

    const fn progress(&self, half: Half) -> Progress {
        match half {
            Half::Request => self.request,
            Half::Response => self.response,
        }
    }

    const fn progress_mut(&mut self, half: Half) -> &mut Progress {
        match half {
            Half::Request => &mut self.request,
            Half::Response => &mut self.response,
        }
    }

    /// Does what a decision asks for, and leaves the receipt as it is now.
    fn decided(&mut self, stream: &mut impl Stream, half: Half, decision: &Decision) -> Next {
        self.leave_receipt(stream);
        if *decision != Decision::NeedBody {
            self.late_body = None;
        }
        let goes_on = self.inspector.as_ref().is_some_and(|seen| seen.awaits_messages());
        *self.progress_mut(half) = match decision {
            Decision::NeedBody => Progress::Body,
            Decision::Continue if goes_on && half == Half::Request => Progress::Messages,
            Decision::Continue if self.socket.is_some() && half == Half::Request => {
                Progress::Socket
            }
            Decision::Continue | Decision::Reply(_) => Progress::Done,
        };
        match decision {
            Decision::NeedBody => Next::Hold,
            Decision::Continue => {
                self.place.release();
                let wants_response = half == Half::Request
                    && self.inspector.as_ref().is_some_and(|seen| seen.wants_response());
                let awaits_switch = self.socket.is_some() && half == Half::Request;
                if !wants_response && !goes_on && !awaits_switch {
                    self.conclude(stream);
                }
                Next::Continue
            }
            Decision::Reply(reply) => {
                self.answered = true;
                self.conclude(stream);
                Next::Reply(Box::new(self.in_grpc(Reply::clone(reply))))
            }
        }
    }

    /// A reply with the code that Envoy has to be given where it answers in the words of gRPC: its own would be 0, which
    /// means that all is well.
    fn in_grpc(&self, mut reply: Reply) -> Reply {
        if self.answers_grpc {
            reply.grpc_status = reply.grpc_status.or_else(|| Some(grpc_code(reply.status)));
        }
        reply
    }

    /// The stream is over.
    pub(crate) fn complete(&mut self, stream: &mut impl Stream) -> Next {
        let was_evaluated = self.waiting.take().is_some();
        (self.rules_wait, self.late_body, self.cut_wait) = (None, None, None);
        if was_evaluated && let Some(profile) = &self.profile {
            self.filter.metrics.no_verdict(stream, profile.name());
        }
        self.conclude(stream);
        (self.request, self.response) = (Progress::Done, Progress::Done);
        Next::Continue
    }
}

/// Whether Envoy takes a request for one of gRPC (`Grpc::Common::isGrpcRequestHeaders`).
pub(crate) fn is_grpc_for_envoy(headers: &[Header<'_>]) -> bool {
    let media_type = find(headers, b"content-type").unwrap_or_default();
    let rest = media_type.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// The protocol as the inspector knows it, which needs no memory; `None` for any other.
fn known_protocol(name: &str) -> Option<&'static str> {
    const KNOWN: [&str; 4] = ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"];
    KNOWN.into_iter().find(|known| *known == name)
}

/// The part of an exchange, as metrics name it.
const fn phase(half: Half, part: &'static str) -> &'static str {
    match (half, part.as_bytes()) {
        (Half::Request, b"body") => "request_body",
        (Half::Request, _) => "request_trailers",
        (Half::Response, b"body") => "response_body",
        (Half::Response, _) => "response_trailers",
    }
}
