//! WebSockets: which requests open one that is inspected, and the verdict on each message.
//!
//! Each message is evaluated like a separate request: phase 1 sees the headers of the request that has opened the socket. Phase
//! 2 sees a message of the client as it sees a text of any kind in a body. Phase 4 sees a message of the server as a
//! response's body. Scores are those of one message.

use super::{Inspector, Stage};
use crate::{
    decision::{Decision, Mode, Uninspected},
    message::MessageName,
    rejection::Rejection,
    request::{RequestHead, find, is_websocket},
    settings::TruncatedBody,
    socket::{Closing, Socket, SocketMessage, SocketSettings, Unread, has_known_version},
    websocket::Peer,
};

/// "Try Again Later" (the registry of RFC 6455, 11.7).
const LATER: u16 = 1013;

/// "Policy Violation".
const POLICY: u16 = 1008;

/// "Message Too Big".
const TOO_BIG: u16 = 1009;

impl Inspector {
    /// The socket that a request opens whose headers were judged with [`Decision::Continue`], if its messages are
    /// inspected. `head` is what [`Self::request_headers`] was given.
    #[must_use]
    pub fn open_socket(&mut self, head: &RequestHead<'_>) -> Option<Socket> {
        let settings = self.inspected_socket(head)?;
        if self.stage != Stage::RequestDone || self.mode() == Mode::Off {
            return None;
        }
        // Where rules look on: every message would be refused for the same headers, or is in frames of another kind.
        if self.would_refuse() || !has_known_version(head.headers) {
            self.uninspected = Some(Uninspected::WebSocket);
            return None;
        }
        let rejects_long = self.settings.truncated_body == TruncatedBody::Reject;
        Some(Socket::new(head, settings, self.mode() == Mode::Blocking, rejects_long))
    }

    /// Keeps what [`Self::open_socket`] returns for [`Self::take_socket`], for a host that has the headers now only.
    pub fn prepare_socket(&mut self, head: &RequestHead<'_>) {
        self.socket = self.open_socket(head).map(Box::new);
    }

    /// The socket that was prepared.
    pub const fn take_socket(&mut self) -> Option<Box<Socket>> {
        self.socket.take()
    }

    /// How the messages are inspected that follow the headers of a request, if any do and are.
    pub(super) fn inspected_socket(&self, head: &RequestHead<'_>) -> Option<SocketSettings> {
        self.settings.socket.filter(|_| !head.end_of_stream && is_websocket(head))
    }

    /// The verdict on a handshake of a version whose frames nobody knows here.
    pub(super) fn unknown_version(&mut self, head: &RequestHead<'_>) -> Option<Decision> {
        let is_unknown = self.inspected_socket(head).is_some() && !has_known_version(head.headers);
        is_unknown.then(|| self.malformed_websocket())
    }

    /// Evaluates a message of a WebSocket like a separate request.
    pub fn socket_message(
        &mut self,
        head: &RequestHead<'_>,
        message: &SocketMessage<'_>,
    ) -> Decision {
        self.begin_message(head, message.name);
        self.body_seen = true;
        self.body_bytes = message.payload.len();
        if message.is_cut {
            self.uninspected = Some(match message.name.from {
                Peer::Client => Uninspected::BodyTruncated,
                Peer::Server => Uninspected::ResponseTruncated,
            });
        }
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_request_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        match message.name.from {
            Peer::Client => {
                self.transaction.request_is_message();
                self.transaction.request_body(message.payload);
                if message.is_cut {
                    self.transaction.request_body_cut();
                }
                self.evaluate_request()
            }
            Peer::Server => {
                (self.stage, self.request_evaluated) = (Stage::RequestDone, true);
                self.transaction.response_line(101, b"HTTP/1.1");
                self.transaction.response_header(b"Content-Type", b"text/plain");
                self.transaction.evaluate_response_headers();
                if let Some(reply) = self.refusal() {
                    return reply;
                }
                self.transaction.response_is_message();
                self.transaction.response_body(message.payload);
                self.evaluate_response()
            }
        }
    }

    /// Rejects a message that no rule can see; `None` where rules may not block.
    pub fn socket_unread(
        &mut self,
        head: &RequestHead<'_>,
        name: MessageName,
        unread: Unread,
    ) -> Option<Decision> {
        self.begin_message(head, name);
        self.uninspected = Some(Uninspected::WebSocket);
        let rejection = match unread {
            Unread::Rejected(rejection) => rejection,
            Unread::Fault(fault) if fault.is_limit() => Rejection::BodyTooLarge,
            Unread::Fault(_) => Rejection::MalformedFrames,
        };
        self.stage = match name.from {
            Peer::Client => Stage::RequestDone,
            Peer::Server => Stage::ResponseDone,
        };
        self.request_evaluated = true;
        self.reject(rejection)
    }

    /// The Close frame for a message that was refused.
    #[must_use]
    pub fn closing(&self, unread: Option<Unread>) -> Closing {
        let code = match (unread, self.rejection()) {
            (Some(Unread::Fault(fault)), _) => fault.close_code(),
            (_, Some(Rejection::BodyTooLarge | Rejection::ResponseTooLarge)) => TOO_BIG,
            (_, Some(rejection)) if rejection.is_of_load() => LATER,
            _ => POLICY,
        };
        let what = match unread {
            Some(Unread::Fault(fault)) => fault.reason(),
            Some(Unread::Rejected(_)) | None => "blocked",
        };
        Closing { code, reason: format!("{what}; request {}", self.request.id) }
    }

    fn begin_message(&mut self, head: &RequestHead<'_>, name: MessageName) {
        self.begin(head);
        self.request.message = Some(name);
        self.set_mode(head.lot);
        // Rules object to content without a media type, and this is one that they know. How a message is read does not
        // depend on it.
        if name.from == Peer::Client && find(head.headers, b"content-type").is_none() {
            self.transaction.request_header(b"Content-Type", b"application/json");
        }
    }
}
