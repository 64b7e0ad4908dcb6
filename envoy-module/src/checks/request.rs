//! One request of a filter that makes checks, and its response.

use std::{
    borrow::Cow,
    cell::OnceCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use glacis_inspector::{Header, Reply};
use glacis_limits::field::is_same_name;
use glacis_policy::{Answer, Arrival, Field, Note, PendingBody};

use super::{ChecksFilter, STORE, metrics::Counted, now_ns};
use crate::{
    exchange::{fault, is_grpc_for_envoy},
    metrics::Error,
    stream::{Attribute, FilterState, Half, HeaderMap, Next, Stream},
};

/// Where notes are in filter state: where the wasm-filter, of which Envoy prefixes all names, has them too.
const STATE_PREFIX: &str = "wasm.";
/// What a guard has found.
const GUARD: &str = "glacis.guard";
/// The first verdict, which a wasm-filter before this filter may have given.
const FIRST_VERDICT: &str = "wasm.glacis.first_verdict";

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Request {
    filter: Arc<ChecksFilter>,
    /// What the response of the upstream is to get; taken when it has got it.
    response_fields: Vec<Field>,
    /// What is counted while its body is awaited.
    pending: Option<PendingBody>,
    /// The request's headers have come.
    began: bool,
    /// The client has been answered here.
    answered: bool,
    is_grpc: bool,
}

/// The headers of a request, in Envoy's memory.
struct Head<'s, S> {
    stream: &'s S,
    headers: OnceCell<Vec<Header<'s>>>,
}

impl<'s, S: Stream> Head<'s, S> {
    fn fields(&self) -> &[Header<'s>] {
        self.headers.get_or_init(|| self.stream.headers(HeaderMap::Request))
    }

    fn request_id(&self) -> Option<Vec<u8>> {
        self.fields().iter().find(|field| field.name == b"x-request-id").map(|id| id.value.to_vec())
    }
}

impl<S: FilterState> glacis_policy::Request for Head<'_, S> {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let name = name_in_envoy(name);
        let field = self.fields().iter().find(|field| field.name == name);
        field.map(|field| Cow::Borrowed(field.value))
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        let name = name_in_envoy(name);
        let fields = self.fields().iter().filter(|field| field.name == name);
        fields.map(|field| field.value.to_vec()).collect()
    }

    fn headers_like(&self, name: &str) -> Vec<Vec<u8>> {
        let name = name_in_envoy(name);
        let fields = self.fields().iter().filter(|field| is_same_name(field.name, name));
        fields.map(|field| field.value.to_vec()).collect()
    }

    fn metadata(&self, keys: &[String]) -> Option<Vec<u8>> {
        let [namespace, key] = keys else { return None };
        self.stream.dynamic_metadata(namespace, key, |text| text.as_bytes().to_vec())
    }

    fn filter_state(&self, name: &str) -> Option<Vec<u8>> {
        self.stream.filter_state(name, <[u8]>::to_vec)
    }
}

/// Envoy has the host as `:authority`, and all names in lower case, as the configuration does.
fn name_in_envoy(name: &str) -> &[u8] {
    if name == "host" { b":authority" } else { name.as_bytes() }
}

impl Request {
    /// A stream of which nothing is known.
    pub(crate) fn new(filter: Arc<ChecksFilter>) -> Self {
        let (response_fields, pending) = (Vec::new(), None);
        Self { filter, response_fields, pending, began: false, answered: false, is_grpc: false }
    }

    /// Answers 503 after a panic.
    pub(crate) fn give_up(&mut self, error: Error) -> Next {
        // It may be what has made it panic.
        let ended = AssertUnwindSafe(|| self.end_pending());
        let _ = catch_unwind(ended);
        match core::mem::replace(&mut self.answered, true) {
            true => Next::Drop,
            false => Next::Reply(Box::new(self.in_grpc(fault(error)))),
        }
    }

    /// The request's headers have come.
    pub(crate) fn headers(&mut self, stream: &mut impl FilterState, end_of_stream: bool) -> Next {
        // Envoy never calls it twice, and no hook of a body before it.
        if core::mem::replace(&mut self.began, true) || self.answered {
            return self.give_up(Error::Fault);
        }
        if stream.route().is_some_and(|route| route.disabled) {
            return Next::Continue;
        }
        let filter = Arc::clone(&self.filter);
        filter.metrics.catch_up(stream, &filter.shared.untold);
        if filter.shared.checks.is_guard() {
            return self.guard(stream);
        }
        let source = stream.attribute(Attribute::SourceAddress, |text| text.as_bytes().to_vec());
        let arrival = Arrival { source: source.as_deref(), end_of_stream, now_ns: now_ns() };
        let head = Head { stream: &*stream, headers: OnceCell::new() };
        let mut judged = filter.shared.checks.judge(&head, &arrival, &*STORE, || head.request_id());
        let (answer, notes) = (judged.answer.take(), core::mem::take(&mut judged.notes));
        self.pending = judged.pending.take();
        self.response_fields = core::mem::take(&mut judged.response_fields);
        let (counted, verdict) = (Counted::of(&judged), judged.verdict.clone());
        drop(judged);
        self.is_grpc = answer.is_some() && is_grpc_for_envoy(head.fields());
        drop(head);
        if self.pending.is_some() {
            filter.shared.untold.pending(1);
        }
        notes.iter().for_each(|it| note(stream, it));
        filter.metrics.judged(stream, &counted);
        answer.map_or(Next::Continue, |answer| self.reply(answer, &verdict))
    }

    fn guard(&mut self, stream: &mut impl FilterState) -> Next {
        let head = Head { stream: &*stream, headers: OnceCell::new() };
        let first = || stream.filter_state(FIRST_VERDICT, <[u8]>::to_vec);
        let route = || stream.attribute(Attribute::RouteName, |name| name.as_bytes().to_vec());
        let Some(found) = self.filter.shared.checks.guard(&head, first, route) else {
            return Next::Continue;
        };
        let answer = Answer::of_guard(found, || head.request_id());
        self.is_grpc = answer.is_some() && is_grpc_for_envoy(head.fields());
        drop(head);
        let text = found.name().to_owned();
        note(stream, &Note { state: Some(GUARD), header: None, text });
        self.filter.metrics.found(stream, found);
        answer.map_or(Next::Continue, |answer| self.reply(answer, "guard"))
    }

    /// A piece of the request's body has come.
    pub(crate) fn body(&mut self, stream: &mut impl FilterState, end_of_stream: bool) -> Next {
        if self.answered || !self.began {
            return self.give_up(Error::Fault);
        }
        if end_of_stream {
            self.end_pending();
            return Next::Continue;
        }
        let Some(pending) = &mut self.pending else { return Next::Continue };
        let bytes = stream.body(Half::Request).iter().map(|piece| piece.len()).sum();
        let filter = Arc::clone(&self.filter);
        let head = Head { stream: &*stream, headers: OnceCell::new() };
        let id = || head.request_id();
        let Some(grown) = filter.shared.checks.grow_pending(pending, bytes, now_ns(), &*STORE, id)
        else {
            return Next::Continue;
        };
        self.is_grpc = grown.answer.is_some() && is_grpc_for_envoy(head.fields());
        drop(head);
        filter.metrics.event(stream, "body_cut");
        let Some(answer) = grown.answer else { return Next::Continue };
        self.end_pending();
        self.reply(answer, &grown.verdict)
    }

    /// The request's trailers have come.
    pub(crate) fn trailers(&mut self) -> Next {
        if self.answered || !self.began {
            return self.give_up(Error::Fault);
        }
        self.end_pending();
        Next::Continue
    }

    /// The response's headers have come.
    pub(crate) fn response_headers(&mut self, stream: &mut impl FilterState) -> Next {
        // A handshake of a WebSocket, or another tunnel, has no body that ends: it is answered.
        self.end_pending();
        for (name, value) in core::mem::take(&mut self.response_fields) {
            stream.add_header(HeaderMap::Response, name, &value);
        }
        Next::Continue
    }

    /// The stream is over.
    pub(crate) fn complete(&mut self) -> Next {
        self.end_pending();
        Next::Continue
    }

    /// The request is pending no more, if it was: its body is there, its answer has begun, or it is over.
    fn end_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.filter.shared.checks.end_pending(&pending, now_ns(), &*STORE);
            self.filter.shared.untold.pending(-1);
        }
    }

    fn reply(&mut self, answer: Answer, verdict: &str) -> Next {
        self.answered = true;
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
        let details = format!("glacis_{}", verdict.chars().map(plain).collect::<String>());
        let reply = Reply {
            status: u16::try_from(answer.status).unwrap_or(503),
            action: "deny",
            headers: answer.fields,
            body: answer.body,
            grpc_status: None,
            rule: None,
            details,
        };
        Next::Reply(Box::new(self.in_grpc(reply)))
    }

    /// A reply with the code that Envoy has to be given where it answers in the words of gRPC.
    fn in_grpc(&self, mut reply: Reply) -> Reply {
        reply.grpc_status = self.is_grpc.then_some(grpc_code(reply.status));
        reply
    }
}

impl Drop for Request {
    /// However a request ends.
    fn drop(&mut self) {
        self.end_pending();
    }
}

/// The code of gRPC that Envoy gives to an answer of the wasm-filter (`Grpc::Utility::httpToGrpcStatus`).
const fn grpc_code(status: u16) -> u32 {
    match status {
        403 => 7,
        429 | 503 => 14,
        _ => 2,
    }
}

/// Writes a note down.
fn note(stream: &mut impl FilterState, note: &Note) {
    if let Some(name) = note.state {
        stream.set_filter_state(&[STATE_PREFIX, name].concat(), &note.text);
    }
    if let Some(name) = note.header {
        stream.set_header(HeaderMap::Request, name.as_bytes(), note.text.as_bytes());
    }
}
