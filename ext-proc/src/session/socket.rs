//! WebSockets whose messages are inspected.
//!
//! Envoy is asked for the bytes of both directions in pieces. Each piece is answered with what goes on in its
//! place: nothing while a message is not complete, and all of its frames when it has been judged. Between messages the
//! stream has no inspector.

use std::{sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::{
    Closing, Decision, HeaderChange, Inspector, Judge, KeptHead, MessageName, Mode, Peer,
    Rejection, RequestHead, Socket, SocketMessage, Switch, Uninspected, Unread, unclosed,
};
use glacis_service::{Client, now};

use super::{Half, Session, deadline, part};
use crate::{
    profile::Profile,
    reply::{self, Answer, Part},
    shared::Shared,
    wire::{Body, BodyMode, Head, Message},
};

/// Bytes of a piece that are evaluated at once. The shortest message has six, and each costs an evaluation.
pub(super) const INLINE_PIECE_BYTES_MAX: usize = 2 << 10;

impl Session {
    /// The mode in which the bytes of a socket come. In `FULL_DUPLEX_STREAMED` a peer can be sent a Close frame at any
    /// time. Where Envoy is set to a mode that needs answers of another kind, it may not take the override.
    const fn mode_for_socket(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::None | BodyMode::FullDuplex => BodyMode::FullDuplex,
            BodyMode::Streamed | BodyMode::Buffered | BodyMode::BufferedPartial => {
                BodyMode::Streamed
            }
        }
    }

    /// Opens the socket that a request asks for, if its messages are inspected.
    pub(super) fn open_socket(
        &mut self,
        decision: &Decision,
        head: &RequestHead<'_>,
    ) -> HeaderChange {
        let is_done = *decision == Decision::Continue && self.request == Half::Done;
        let Some(inspector) = self.inspector.as_deref_mut().filter(|_| is_done) else {
            return HeaderChange::Keep;
        };
        let Some(mut socket) = inspector.open_socket(head) else { return HeaderChange::Keep };
        let client = inspector.client().map(Client::from);
        self.body_memory = Share::none(Arc::clone(&self.shared.body_memory), client);
        let change = socket.offer();
        self.socket = Some(Box::new(socket));
        self.request = Half::Socket(Self::mode_for_socket(self.modes.request));
        change
    }

    /// Takes the answer to the request for a socket: with the decision, if there is one.
    pub(super) fn socket_answered(&mut self, head: &Head) -> (Option<Decision>, HeaderChange) {
        let Some(socket) = &mut self.socket else { return (None, HeaderChange::Keep) };
        let change = match socket.answered(&head.headers()) {
            Switch::NotSwitched => return (None, HeaderChange::Keep),
            Switch::Switched(change) => change,
            Switch::Uninspectable => {
                let inspector = self.inspector.as_deref_mut();
                let rejected = inspector.and_then(|it| it.reject(Rejection::UninspectableUpgrade));
                if rejected.is_some() {
                    return (rejected, HeaderChange::Keep);
                }
                socket.pass_all();
                self.shared.metrics.uninspected(Uninspected::WebSocket);
                HeaderChange::Keep
            }
        };
        self.response = Half::Socket(Self::mode_for_socket(self.modes.response));
        (None, change)
    }

    /// Answers what comes of an open socket; `None` for everything else.
    pub(super) fn of_socket(&mut self, message: &Message) -> Option<Answer> {
        let from = match (message, self.request, self.response) {
            (Message::RequestBody(_), Half::Socket(_), _) => Peer::Client,
            (Message::ResponseBody(_), _, Half::Socket(_)) => Peer::Server,
            _ => return None,
        };
        let (Message::RequestBody(body) | Message::ResponseBody(body)) = message else {
            return None;
        };
        Some(self.piece(from, body, part(message)))
    }

    fn piece(&mut self, from: Peer, body: &Body, part: Part) -> Answer {
        let Some(mut socket) = self.socket.take() else { return reply::pass(part, Vec::new()) };
        self.shared.body_came();
        if !socket.is_open() && !body.bytes.is_empty() {
            return self.unasked(socket, part);
        }
        let held = socket.held_bytes();
        // A message is held as it came and without its mask.
        let room =
            self.body_memory.grow_to(held.saturating_add(body.bytes.len().saturating_mul(2)));
        let mut judge = Judging {
            shared: &self.shared,
            profile: self.profile.as_deref(),
            due: self.due,
            receipt: Vec::new(),
        };
        let mut passes = socket.take(from, &body.bytes, room, &mut judge);
        let receipt = judge.receipt;
        if body.end_of_stream {
            let rest = socket.end(from);
            if !rest.is_empty() {
                passes.get_or_insert_with(|| body.bytes.to_vec()).extend(rest);
            }
        }
        let (to, back) = match from {
            Peer::Client => (self.response, Part::ResponseBody),
            Peer::Server => (self.request, Part::RequestBody),
        };
        if to == Half::Socket(BodyMode::FullDuplex) {
            self.answered = socket.answer(from).map(|bytes| (back, bytes));
        }
        self.body_memory.release();
        let _ = self.body_memory.grow_to(socket.held_bytes());
        self.socket = Some(socket);
        self.replaced_piece(part, passes, receipt)
    }

    /// Answers bytes of a client to whom the server has not agreed to listen.
    fn unasked(&mut self, mut socket: Box<Socket>, part: Part) -> Answer {
        let is_answered = self.response != Half::Headers;
        if is_answered && socket.blocks() {
            // They would be the next request to a server that goes on with HTTP.
            self.socket = Some(socket);
            return self.replaced_piece(part, Some(Vec::new()), Vec::new());
        }
        let inspector = self.inspector.as_deref_mut();
        let rejected = inspector.and_then(|it| it.reject(Rejection::MalformedUpgrade));
        if rejected.is_none() {
            socket.pass_all();
            self.shared.metrics.uninspected(Uninspected::WebSocket);
        }
        self.socket = Some(socket);
        self.follow(&rejected.unwrap_or(Decision::Continue), part, Vec::new())
    }

    fn replaced_piece(&mut self, part: Part, by: Option<Vec<u8>>, receipt: Vec<u8>) -> Answer {
        let mut answer = match &by {
            Some(bytes) => reply::replaced(part, bytes.clone()),
            None => reply::pass(part, Vec::new()),
        };
        answer.dynamic_metadata = receipt;
        self.replaced = by;
        answer
    }

    /// Whether a message was refused, and the peers are to end the connection.
    pub(crate) fn awaits_close(&self) -> bool {
        !self.refused && self.socket.as_ref().is_some_and(|socket| socket.is_refused())
    }

    /// Ends a connection that its peers do not end.
    pub(crate) fn close(&mut self) -> Answer {
        self.refused = true;
        reply::immediate(&unclosed())
    }

    /// Ends the exchange that has opened the socket or the stream of events: its messages are exchanges of their own.
    pub(super) fn conclude_if_open(&mut self) {
        let is_open = matches!(self.response, Half::Socket(_)) && self.socket.is_some();
        if is_open || matches!(self.response, Half::Events(_)) {
            self.conclude();
            // The headers of a socket are there, and nothing else is read of them.
            self.named = None;
        }
    }

    /// The answer to a message of a socket for which there is no verdict; `None` where rules may not block, or there is
    /// no socket.
    pub(super) fn socket_without_verdict(
        &self,
        rejection: Rejection,
    ) -> Option<(Answer, &'static str)> {
        let socket = self.socket.as_ref().filter(|socket| socket.blocks() && socket.is_open())?;
        let profile = self.profile.as_ref()?;
        let mut inspector = profile.inspector();
        let headers = socket.head().headers();
        let decision = inspector.turn_down(&socket.head().of(&headers, now()), rejection);
        let Decision::Reply(reply) = decision else { return None };
        let mut answer = reply::immediate(&reply);
        let receipt = inspector.receipt();
        answer.dynamic_metadata = reply::metadata(&receipt);
        Some((answer, receipt.verdict))
    }
}

/// Judges the messages of a piece with inspectors of the profile.
struct Judging<'s> {
    shared: &'s Shared,
    profile: Option<&'s Profile>,
    due: Option<Instant>,
    /// The receipt of the last message that was refused, as metadata.
    receipt: Vec<u8>,
}

impl Judging<'_> {
    /// Judges one message, and leaves what there is to leave of it.
    fn judge(
        &mut self,
        head: &KeptHead,
        name: MessageName,
        unread: Option<Unread>,
        judge: impl FnOnce(&mut Inspector, &RequestHead<'_>) -> Option<Decision>,
    ) -> Option<Closing> {
        let profile = self.profile?;
        let mut inspector = profile.inspector();
        inspector.set_deadline(deadline(self.due));
        let headers = head.headers();
        let decision = judge(&mut inspector, &head.of(&headers, now()));
        let receipt = inspector.receipt();
        self.shared.metrics.socket_message(name.from, receipt.verdict);
        let refused = matches!(decision, Some(Decision::Reply(_)));
        if refused {
            self.receipt = reply::metadata(&receipt);
        }
        if refused || receipt.would_deny.is_some() {
            self.shared.conclude(profile, &mut inspector, None);
        } else if let Some(reason) = receipt.uninspected.filter(|_| inspector.mode() != Mode::Off) {
            self.shared.metrics.uninspected(reason);
        }
        let closing = refused.then(|| inspector.closing(unread));
        profile.keep(inspector);
        closing
    }
}

impl Judge for Judging<'_> {
    fn message(&mut self, head: &KeptHead, message: &SocketMessage<'_>) -> Option<Closing> {
        self.judge(head, message.name, None, |inspector, head| {
            Some(inspector.socket_message(head, message))
        })
    }

    fn unread(&mut self, head: &KeptHead, name: MessageName, unread: Unread) -> Option<Closing> {
        self.judge(head, name, Some(unread), |inspector, head| {
            inspector.socket_unread(head, name, unread)
        })
    }
}
