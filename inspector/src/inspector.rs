//! One exchange under inspection.

mod absent;
mod event_stream;
mod messages;
mod opinion;
mod outcome;
mod refusal;
mod socket;

use core::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};
use std::sync::Arc;

use glacis_engine::{
    Deadline, Endpoint, Flags, MatchedRule, Phase, Profile, ProfiledRule, Program, RuleEngine,
    RuleId, Start, Transaction,
};

use glacis_second_opinion::Opinion;

use crate::{
    client::client_of,
    decision::{Decision, Mode, OBSERVED, REJECT, Uninspected},
    event_stream::EventStream,
    message::{KeptHead, MessageName},
    rejection::Rejection,
    request::{
        Header, RequestHead, ResponseHead, content_length, find, is_chunked, is_event_stream,
        is_grpc, is_grpc_call, is_malformed_websocket, is_tunnel, is_websocket,
    },
    settings::{GrpcBodies, ResponseInspection, Settings, TruncatedBody},
    socket::Socket,
};

use messages::Messages;

pub use opinion::SECOND_OPINION_RULE;

/// Whether a piece of a body is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More is to come.
    More,
    /// It is the last.
    Last,
    /// It is the last that the host brings, and there was more.
    Truncated,
}

/// How far the exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Idle,
    RequestBody,
    RequestDone,
    ResponseBody,
    ResponseDone,
    Refused,
}

/// What is remembered of a request for its record; all of bounded length.
#[derive(Debug)]
struct Request {
    id: String,
    method: Vec<u8>,
    uri: Vec<u8>,
    host: Vec<u8>,
    client: Endpoint,
    server: Endpoint,
    protocol: &'static str,
    time: Duration,
    status: u16,
    audit_lot: u8,
    /// What the client accepts: only a refusal asks whether it prefers HTML.
    accept: Vec<u8>,
    /// Whether it is a call of gRPC.
    is_grpc: bool,
    /// The bytes that `Content-Length` announces.
    content_length: Option<usize>,
    /// The message of a WebSocket that is judged.
    message: Option<MessageName>,
}

/// An address that is not known.
const UNKNOWN: Endpoint = Endpoint { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };

/// Bytes remembered of method, URI, host and `Accept`.
const REMEMBERED_BYTES_MAX: usize = 1 << 10;

/// Inspects one exchange after the other; see the [crate's documentation](crate).
///
/// It keeps its memory between exchanges: pool it.
#[derive(Debug)]
pub struct Inspector {
    transaction: Transaction,
    /// The one of the two that messages of a call need beside that of its headers.
    spare: Option<Box<Transaction>>,
    /// The call whose messages are coming.
    messages: Option<Box<Messages>>,
    /// The socket that the request has opened.
    socket: Option<Box<Socket>>,
    /// The headers of the request, where its response may be a stream of events.
    kept_head: Option<Box<KeptHead>>,
    /// The stream of events that the response has begun.
    event_stream: Option<Box<EventStream>>,
    settings: Arc<Settings>,
    stage: Stage,
    request: Request,
    body_seen: bool,
    /// When the evaluation of a message has to end.
    deadline: Option<Deadline>,
    /// A rejection that is not the engine's: the host reached a limit.
    rejected: Option<(Rejection, Phase)>,
    /// Whether phase 2 has run: without it there is no verdict on the request.
    request_evaluated: bool,
    uninspected: Option<Uninspected>,
    body_bytes: usize,
    /// The second opinion, once the request has been evaluated.
    opinion: Option<Opinion>,
}

impl Inspector {
    /// An inspector that runs `program`.
    #[must_use]
    pub fn new(program: Arc<Program>, settings: Arc<Settings>) -> Self {
        let transaction = transaction(program, &settings);
        Self {
            transaction,
            spare: None,
            messages: None,
            socket: None,
            kept_head: None,
            event_stream: None,
            settings,
            stage: Stage::Idle,
            request: Request {
                id: String::new(),
                method: Vec::new(),
                uri: Vec::new(),
                host: Vec::new(),
                client: UNKNOWN,
                server: UNKNOWN,
                protocol: "HTTP/1.1",
                time: Duration::ZERO,
                status: 0,
                audit_lot: 0,
                accept: Vec::new(),
                is_grpc: false,
                content_length: None,
                message: None,
            },
            deadline: None,
            body_seen: false,
            rejected: None,
            request_evaluated: false,
            uninspected: None,
            body_bytes: 0,
            opinion: None,
        }
    }

    /// Begins a new exchange, whatever became of the one before, and runs phase 1; phase 2 as well
    /// when there is no body to wait for.
    pub fn request_headers(&mut self, head: &RequestHead<'_>) -> Decision {
        self.begin(head);
        self.set_mode(head.lot);
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_request_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        self.keep_head(head);
        if !head.end_of_stream {
            if is_malformed_websocket(head) {
                return self.malformed_websocket();
            }
            if let Some(rejected) = self.unknown_version(head) {
                return rejected;
            }
            let opens_socket = self.mode() != Mode::Off && self.inspected_socket(head).is_some();
            self.uninspected = if opens_socket { None } else { self.body_left_out(head) };
            if self.uninspected.is_none() && !opens_socket {
                self.stage = Stage::RequestBody;
                return Decision::NeedBody;
            }
        } else if self.mode() == Mode::Off {
            self.uninspected = self.uninspected.or(Some(Uninspected::EngineOff));
        }
        self.evaluate_request()
    }

    /// Whether the request can be refused before its body has come, see [`Self::refuse_before_body`].
    #[must_use]
    pub fn can_refuse_before_body(&self) -> bool {
        self.stage == Stage::RequestBody
            && !self.body_seen
            && self.mode() == Mode::Blocking
            && self.transaction.program().can_refuse_before_body()
    }

    /// Refuses the request if rules do so on its headers alone, and would do so with any body. `None` where the body
    /// has to be waited for; the request then has to [begin anew](Self::request_headers).
    pub fn refuse_before_body(&mut self) -> Option<Decision> {
        if !self.can_refuse_before_body() {
            return None;
        }
        self.transaction.set_deadline(self.deadline);
        if !self.transaction.refuses_before_body() {
            return None;
        }
        self.request_evaluated = true;
        self.refusal()
    }

    /// Has the evaluation of each further message end by `deadline`; without one it ends by its limit of steps alone.
    /// An evaluation that ends so is rejected where rules may block ([`Rejection::Late`]).
    pub const fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
    }

    /// Gives back the memory of what can be found out again, while the host waits for a body.
    pub fn rest(&mut self) {
        self.transaction.rest();
        self.rest_between_messages();
    }

    /// Whether rules run on this exchange, and may block.
    fn set_mode(&mut self, lot: u8) {
        if !self.settings.sample.has(lot) {
            self.transaction.set_rule_engine(RuleEngine::Off);
            self.uninspected = Some(Uninspected::NotSampled);
        } else if let Some(mode) = self.settings.rule_engine {
            self.transaction.set_rule_engine(mode);
        }
    }

    fn begin(&mut self, head: &RequestHead<'_>) {
        let method = find(head.headers, b":method").unwrap_or(b"GET");
        let path = find(head.headers, b":path").unwrap_or(b"/");
        let host = find(head.headers, b"host").or_else(|| find(head.headers, b":authority"));
        let client = client_of(head.source, head.headers, self.settings.trusted_hops);
        self.stage = Stage::Idle;
        self.body_seen = false;
        self.rejected = None;
        self.request_evaluated = false;
        self.uninspected = None;
        self.body_bytes = 0;
        self.opinion = None;
        self.messages = None;
        self.socket = None;
        (self.kept_head, self.event_stream) = (None, None);
        head.id.clone_into(&mut self.request.id);
        remember(&mut self.request.method, method);
        remember(&mut self.request.uri, path);
        remember(&mut self.request.host, host.unwrap_or_default());
        remember(&mut self.request.accept, find(head.headers, b"accept").unwrap_or_default());
        self.request.client = client.unwrap_or(UNKNOWN);
        self.request.server = head.destination.unwrap_or(UNKNOWN);
        self.request.protocol = protocol(head.protocol);
        self.request.time = head.time;
        self.request.audit_lot = head.audit_lot;
        self.request.status = 0;
        self.request.message = None;
        self.request.is_grpc = is_grpc_call(head);
        self.request.content_length = content_length(head.headers);
        self.start(head.headers, head.user, is_chunked(head));
    }

    /// Begins a transaction for the request.
    fn start(&mut self, headers: &[Header<'_>], user: Option<&str>, is_chunked: bool) {
        let method = find(headers, b":method").unwrap_or(b"GET");
        let path = find(headers, b":path").unwrap_or(b"/");
        self.transaction.start(&Start {
            unique_id: &self.request.id,
            time: self.request.time,
            client: self.request.client,
            server: self.request.server,
        });
        if let Some(user) = user {
            self.transaction.remote_user(user.as_bytes());
        }
        self.transaction.request_line(method, path, self.request.protocol.as_bytes());
        // Rules look for `Host`, in all versions of HTTP.
        if find(headers, b"host").is_none()
            && let Some(authority) = find(headers, b":authority")
        {
            self.transaction.request_header(b"Host", authority);
        }
        for header in plain(headers) {
            self.transaction.request_header(header.name, header.value);
        }
        if is_chunked {
            self.transaction.request_header(b"Transfer-Encoding", b"chunked");
        }
    }

    /// Why the body of a request is not waited for, if it is not.
    fn body_left_out(&self, head: &RequestHead<'_>) -> Option<Uninspected> {
        if self.mode() == Mode::Off {
            self.uninspected.or(Some(Uninspected::EngineOff))
        } else if is_websocket(head) {
            Some(Uninspected::WebSocket)
        } else if is_tunnel(head.headers) {
            Some(Uninspected::Tunnel)
        } else if !self.transaction.wants_request_body() {
            Some(Uninspected::BodyNotWanted)
        } else if self.settings.grpc == GrpcBodies::Pass && self.request.is_grpc {
            Some(Uninspected::GrpcBody)
        } else if self.passes_for_size(self.request.content_length) {
            Some(Uninspected::BodyTooLarge)
        } else {
            None
        }
    }

    /// Whether a body of this announced size is one to be passed without a look at it.
    fn passes_for_size(&self, bytes: Option<usize>) -> bool {
        let bytes_max = self.transaction.program().limits().request_body_bytes_max;
        self.settings.truncated_body == TruncatedBody::Pass
            && bytes.is_some_and(|bytes| bytes > bytes_max)
    }

    /// Takes a piece of the request body; runs phase 2 at its end.
    pub fn request_body(&mut self, chunk: &[u8], end: End) -> Decision {
        if self.stage != Stage::RequestBody {
            return Decision::Continue;
        }
        // Known to be cut off before anything of it was looked at: it can be left out as a whole.
        if end == End::Truncated
            && !self.body_seen
            && self.settings.truncated_body == TruncatedBody::Pass
        {
            self.uninspected = Some(Uninspected::BodyTooLarge);
            return self.evaluate_request();
        }
        self.body_seen = true;
        self.body_bytes = self.body_bytes.saturating_add(chunk.len());
        self.transaction.request_body(chunk);
        // A body beyond the limit may be refused before it is complete.
        if let Some(reply) = self.refusal() {
            return reply;
        }
        match end {
            End::More => return Decision::NeedBody,
            End::Last => {}
            End::Truncated => {
                self.transaction.request_body_cut();
                self.uninspected = Some(Uninspected::BodyTruncated);
            }
        }
        let decision = self.evaluate_request();
        if decision == Decision::Continue && end == End::Truncated {
            self.cut_off()
        } else {
            decision
        }
    }

    /// Takes the trailers behind the request's body, or behind its headers where there is none, and runs phase 2 if
    /// it has waited for the body: rules see them among `REQUEST_HEADERS`.
    ///
    /// When the verdict was reached before, rules do not see them, and [`Decision::Continue`] does not mean that they
    /// are good: `false` beside it says so.
    pub fn request_trailers(&mut self, trailers: &[Header<'_>]) -> (Decision, bool) {
        let decision = self.messages(&[], End::Last);
        if decision != Decision::Continue {
            return (decision, true);
        }
        if self.stage != Stage::RequestBody {
            let seen = trailers.is_empty() || self.mode() == Mode::Off || self.stage == Stage::Idle;
            if !seen {
                self.uninspected = self.uninspected.or(Some(Uninspected::RequestTrailers));
            }
            return (Decision::Continue, seen);
        }
        for trailer in plain(trailers) {
            self.transaction.request_trailer(trailer.name, trailer.value);
        }
        (self.request_body(&[], End::Last), true)
    }

    /// Takes the trailers behind the response's body, as [`Self::request_trailers`] takes those of the request: rules
    /// see them among `RESPONSE_HEADERS`.
    pub fn response_trailers(&mut self, trailers: &[Header<'_>]) -> Decision {
        if self.stage != Stage::ResponseBody {
            if !trailers.is_empty() && self.wants_response() {
                self.uninspected = self.uninspected.or(Some(Uninspected::ResponseTrailers));
            }
            return Decision::Continue;
        }
        for trailer in plain(trailers) {
            self.transaction.response_trailer(trailer.name, trailer.value);
        }
        self.response_body(&[], End::Last)
    }

    /// Whether `bytes` of the request's body are all that its headers announce.
    #[must_use]
    pub fn is_whole_body(&self, bytes: usize) -> bool {
        self.request.content_length == Some(bytes)
    }

    /// Bytes that are held of a request body of this size.
    #[must_use]
    pub fn held_body_bytes(&self, bytes: usize) -> usize {
        bytes.min(self.transaction.program().limits().request_body_bytes_max)
    }

    /// Whether there is a verdict on the request.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.request_evaluated || self.stage == Stage::Refused
    }

    fn verdict_name(&self) -> &'static str {
        match () {
            () if self.settings.out_of_band => OBSERVED,
            () if self.rejection().is_some() => REJECT,
            () if self.transaction.verdict().refusal().is_none()
                && self.refused_by_opinion().is_some() =>
            {
                "deny"
            }
            () => self.transaction.verdict().name(),
        }
    }

    fn evaluate_request(&mut self) -> Decision {
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_request_body();
        self.request_evaluated = true;
        self.form_opinion();
        if self.transaction.flags().request_body_truncated {
            self.uninspected = self.uninspected.or(Some(Uninspected::BodyTruncated));
        }
        self.stage = Stage::RequestDone;
        self.refusal().unwrap_or(Decision::Continue)
    }

    /// Whether the host should bring the response: known after the request's headers.
    #[must_use]
    pub fn wants_response(&self) -> bool {
        self.settings.response != ResponseInspection::Off
            && self.mode() != Mode::Off
            && self.stage < Stage::Refused
            && self.transaction.program().inspects_response()
    }

    /// Takes the head of the response and runs phase 3; phase 4 as well when no body is needed.
    pub fn response_headers(&mut self, head: &ResponseHead<'_>) -> Decision {
        let status =
            find(head.headers, b":status").and_then(|text| core::str::from_utf8(text).ok());
        self.request.status = status.and_then(|text| text.parse().ok()).unwrap_or(0);
        if !matches!(self.stage, Stage::RequestBody | Stage::RequestDone) || !self.wants_response()
        {
            return Decision::Continue;
        }
        if self.stage == Stage::RequestBody {
            self.uninspected = Some(Uninspected::BodyNotSent);
        }
        self.transaction.response_line(self.request.status, b"HTTP/1.1");
        for header in plain(head.headers) {
            self.transaction.response_header(header.name, header.value);
        }
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_response_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        let is_stream = is_event_stream(head.headers);
        let endless = self.request.status == 101 || is_stream || is_grpc(head.headers);
        if !head.end_of_stream
            && !endless
            && self.settings.response == ResponseInspection::Full
            && self.transaction.wants_response_body()
        {
            self.stage = Stage::ResponseBody;
            return Decision::NeedBody;
        }
        let decision = self.evaluate_response();
        if decision == Decision::Continue && is_stream && !head.end_of_stream {
            self.begin_event_stream(head);
        }
        decision
    }

    /// Takes a piece of the response body; runs phase 4 at its end.
    pub fn response_body(&mut self, chunk: &[u8], end: End) -> Decision {
        if self.stage != Stage::ResponseBody {
            return Decision::Continue;
        }
        self.body_bytes = self.body_bytes.saturating_add(chunk.len());
        self.transaction.response_body(chunk);
        if let Some(reply) = self.refusal() {
            return reply;
        }
        match end {
            End::More => return Decision::NeedBody,
            End::Last => {}
            End::Truncated => self.uninspected = Some(Uninspected::ResponseTruncated),
        }
        self.evaluate_response()
    }

    fn evaluate_response(&mut self) -> Decision {
        self.transaction.evaluate_response_body();
        self.stage = Stage::ResponseDone;
        self.refusal().unwrap_or(Decision::Continue)
    }

    /// Whether rules may block this exchange.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::from(self.transaction.rule_engine())
    }

    /// The program in use.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        self.transaction.program()
    }

    /// The rules that matched so far and log.
    pub fn matched_rules(&self) -> impl Iterator<Item = MatchedRule<'_>> {
        self.transaction.matched_rules()
    }

    /// The rules that have taken rules or targets out of this exchange: see [`Transaction::excluding_rules`].
    pub fn excluding_rules(&self) -> impl Iterator<Item = RuleId> {
        self.transaction.excluding_rules()
    }

    /// Has what evaluation costs counted from now on: see [`Transaction::with_profile`].
    #[must_use]
    pub fn with_profile(self, clock: fn() -> u64) -> Self {
        Self { transaction: self.transaction.with_profile(clock), ..self }
    }

    /// Counts no more, and forgets what was counted.
    pub fn without_profile(&mut self) {
        self.transaction.without_profile();
    }

    /// What evaluation has cost so far; `None` where it is not counted.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.transaction.profile()
    }

    /// What each rule and each link has cost so far; empty where it is not counted.
    pub fn profiled_rules(&self) -> impl Iterator<Item = ProfiledRule<'_>> {
        self.transaction.profiled_rules()
    }

    /// The limits that were hit so far.
    #[must_use]
    pub const fn limits_hit(&self) -> Flags {
        self.transaction.flags()
    }

    /// Bytes of bodies taken in this exchange: a measure of the memory that is kept.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Whether a piece of the request's body has come.
    #[must_use]
    pub const fn has_seen_body(&self) -> bool {
        self.body_seen
    }

    /// The status of the response, as the upstream sent it; 0 where no response was seen.
    #[must_use]
    pub const fn response_status(&self) -> u16 {
        self.request.status
    }

    /// The address of the client, where the host knows it.
    #[must_use]
    pub fn client(&self) -> Option<IpAddr> {
        let address = self.request.client.address;
        (address != UNKNOWN.address).then_some(address)
    }
}

/// A transaction with what the settings give it.
fn transaction(program: Arc<Program>, settings: &Settings) -> Transaction {
    let mut transaction = Transaction::new(program);
    if let Some(lookup) = &settings.lookup {
        transaction = transaction.with_lookup(Arc::clone(lookup));
    }
    if let Some(store) = &settings.collections {
        transaction = transaction.with_collections(Arc::clone(store));
    }
    transaction
}

/// The protocol as rules name it. Envoy calls 2 and 3 so; where the host does not say it is not
/// guessed from the headers, which look alike in all versions.
fn protocol(name: Option<&str>) -> &'static str {
    match name {
        Some("HTTP/1.0") => "HTTP/1.0",
        Some("HTTP/2" | "HTTP/2.0") => "HTTP/2",
        Some("HTTP/3" | "HTTP/3.0") => "HTTP/3",
        _ => "HTTP/1.1",
    }
}

/// Headers without pseudo headers.
fn plain<'h, 'a>(headers: &'h [Header<'a>]) -> impl Iterator<Item = &'h Header<'a>> {
    headers.iter().filter(|header| header.name.first() != Some(&b':'))
}

fn remember(place: &mut Vec<u8>, bytes: &[u8]) {
    place.clear();
    place.extend_from_slice(bytes.get(..bytes.len().min(REMEMBERED_BYTES_MAX)).unwrap_or_default());
}
