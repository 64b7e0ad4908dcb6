//! WebSockets whose messages are inspected: each piece of either direction goes on as what the socket makes of it. Between
//! messages a stream has no inspector.

use std::{sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::{
    CLOSE_GRACE, Closing, Decision, EXTENSIONS_HEADER, Header, HeaderChange, Inspector, Judge,
    KeptHead, MessageName, Peer, Rejection, RequestHead, Socket, SocketMessage, Switch,
    Uninspected, Unread, unclosed,
};
use glacis_service::{Client, now};

use super::{Exchange, Progress, receipt};
use crate::{
    filter::Filter,
    rulesets::Profile,
    stream::{Half, HeaderMap, Next, Stream, Wake, Wakeup},
    waiting::waiting,
};

/// Changes the header with extensions.
fn change(stream: &mut impl Stream, map: HeaderMap, change: &HeaderChange) {
    match change {
        HeaderChange::Keep => {}
        HeaderChange::Remove => stream.remove_header(map, EXTENSIONS_HEADER.as_bytes()),
        HeaderChange::Set(value) => {
            stream.set_header(map, EXTENSIONS_HEADER.as_bytes(), value.as_bytes());
        }
    }
}

impl<W: Wake> Exchange<W> {
    /// Opens the socket that a request asks for whose headers have been judged.
    pub(super) fn begin_socket(&mut self, stream: &mut impl Stream, inspector: &mut Inspector) {
        let Some(mut socket) = inspector.take_socket() else { return };
        let pool = &self.filter.engine.shared.body_memory;
        self.body_memory = Share::none(Arc::clone(pool), inspector.client().map(Client::from));
        change(stream, HeaderMap::Request, &socket.offer());
        self.socket = Some(socket);
    }

    /// Takes the answer to the request for a socket; the decision is another one where the server has accepted what
    /// cannot be inspected.
    pub(super) fn socket_answered(
        &mut self,
        socket: &mut Socket,
        headers: &[Header<'_>],
    ) -> (Option<Decision>, HeaderChange) {
        match socket.answered(headers) {
            Switch::NotSwitched => (None, HeaderChange::Keep),
            Switch::Switched(change) => (None, change),
            Switch::Uninspectable => {
                let inspector = self.inspector.as_mut();
                let rejected = inspector.and_then(|it| it.reject(Rejection::UninspectableUpgrade));
                if rejected.is_none() {
                    socket.pass_all();
                }
                (rejected, HeaderChange::Keep)
            }
        }
    }

    /// Goes on after the headers of a response that opens a socket.
    pub(super) fn socket_opened(&mut self, stream: &mut impl Stream, extensions: &HeaderChange) {
        change(stream, HeaderMap::Response, extensions);
        self.conclude(stream);
        (self.request, self.response) = (Progress::Socket, Progress::Socket);
    }

    /// Takes a piece of what a peer sends.
    pub(super) fn socket_piece<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        half: Half,
        end: bool,
    ) -> Next {
        let Some(mut socket) = self.socket.take() else { return Next::Continue };
        let bytes = stream.body(half).concat();
        if !socket.is_open() && !bytes.is_empty() {
            return self.unasked(stream, socket);
        }
        let from = match half {
            Half::Request => Peer::Client,
            Half::Response => Peer::Server,
        };
        // A message is held as it came and without its mask.
        let held = socket.held_bytes().saturating_add(bytes.len().saturating_mul(2));
        let room = self.body_memory.grow_to(held);
        let mut passes = match &self.profile {
            Some(profile) => {
                let (filter, profile) = (&*self.filter, &**profile);
                let began = Instant::now();
                socket.take(from, &bytes, room, &mut Judging { filter, profile, stream, began })
            }
            None => None,
        };
        if end {
            let rest = socket.end(from);
            if !rest.is_empty() {
                passes.get_or_insert_with(|| bytes.clone()).extend(rest);
            }
        }
        if let Some(passes) = passes {
            stream.replace_body(half, &passes);
        }
        if socket.is_refused() && self.cut.is_none() {
            self.expect_close(stream);
        }
        self.body_memory.release();
        // What was just given back is there, but for what others have taken since: it is asked for with the next piece.
        let _ = self.body_memory.grow_to(socket.held_bytes());
        self.socket = Some(socket);
        Next::Continue
    }

    /// Has the stream woken if its peers do not end it after a Close frame.
    fn expect_close<S: Stream<Waker = W>>(&mut self, stream: &mut S) {
        let (Some(timer), Some(waker)) = (self.filter.engine.timer(), stream.waker(Wakeup::Cut))
        else {
            return;
        };
        let (wait, late) = waiting(waker);
        if timer.after(CLOSE_GRACE, move || drop(late)) {
            self.cut = Some(Box::new(unclosed()));
            self.cut_wait = Some(wait);
        }
    }

    /// Takes bytes of a client to whom the server has not agreed to listen.
    pub(super) fn unasked(&mut self, stream: &mut impl Stream, mut socket: Box<Socket>) -> Next {
        if self.response != Progress::Headers && socket.blocks() {
            // They would be the next request to a server that goes on with HTTP.
            stream.replace_body(Half::Request, &[]);
            self.socket = Some(socket);
            return Next::Continue;
        }
        let inspector = self.inspector.as_mut();
        let rejected = inspector.and_then(|it| it.reject(Rejection::MalformedUpgrade));
        match rejected {
            Some(decision) => self.decided(stream, Half::Request, &decision),
            None => {
                socket.pass_all();
                self.filter.metrics.uninspected(stream, Uninspected::WebSocket.name());
                self.socket = Some(socket);
                Next::Continue
            }
        }
    }
}

/// Judges the messages of a piece with inspectors of the profile.
struct Judging<'s, S> {
    filter: &'s Filter,
    profile: &'s Profile,
    stream: &'s mut S,
    began: Instant,
}

impl<S: Stream> Judging<'_, S> {
    /// Judges one message, and leaves what there is to leave of it.
    fn judge(
        &mut self,
        head: &KeptHead,
        name: MessageName,
        unread: Option<Unread>,
        judge: impl FnOnce(&mut Inspector, &RequestHead<'_>) -> Option<Decision>,
    ) -> Option<Closing> {
        let mut inspector = self.profile.pool.take();
        inspector.set_deadline(self.filter.engine.shared.deadline(self.began));
        let headers = head.headers();
        let decision = judge(&mut inspector, &head.of(&headers, now()));
        let left = inspector.receipt();
        let metrics = &self.filter.metrics;
        metrics.socket_message(self.stream, name.from.name(), left.verdict);
        let refused = matches!(decision, Some(Decision::Reply(_)));
        if refused {
            receipt::write(self.stream, &left);
        }
        if refused || left.would_deny.is_some() {
            receipt::finish(self.filter, self.stream, &mut inspector);
        } else if let Some(reason) = left.uninspected {
            metrics.uninspected(self.stream, reason.name());
        }
        let closing = refused.then(|| inspector.closing(unread));
        self.profile.pool.keep(inspector);
        closing
    }
}

impl<S: Stream> Judge for Judging<'_, S> {
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
