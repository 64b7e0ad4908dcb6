//! Messages of gRPC, which are inspected as they come.
//!
//! The headers go on when they have been judged alone, and then each piece of the body: one with the end of a message
//! when the message has been judged, others at once, as no server reads half a message.

use glacis_host::admission::Share;
use glacis_inspector::{Decision, End, Inspector, Rejection};
use glacis_service::Client;

use super::{
    Exchange, Progress,
    evaluation::{Early, Evaluation},
};
use crate::{
    metrics::Error,
    stream::{Half, HeaderMap, Next, Stream, Wake},
};

/// What has come of a call while its messages are evaluated on another thread. Envoy holds it too.
#[derive(Debug, Default)]
pub(super) struct Meanwhile {
    piece: Vec<u8>,
    is_ended: bool,
    /// There was no room for it.
    overflow: Option<Rejection>,
}

/// The end that a piece is.
const fn end(is_last: bool) -> End {
    if is_last { End::Last } else { End::More }
}

impl<W: Wake> Exchange<W> {
    /// Has the memory for messages be that of the client.
    pub(super) fn begin_messages(&mut self, inspector: &Inspector) {
        let pool = &self.filter.engine.shared.body_memory;
        self.body_memory =
            Share::none(std::sync::Arc::clone(pool), inspector.client().map(Client::from));
    }

    /// Begins with a call of which something has come while its headers were evaluated elsewhere.
    pub(super) fn begin_early_messages<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        inspector: Box<Inspector>,
        early: &Early,
    ) -> Next {
        self.begin_messages(&inspector);
        self.inspector = Some(inspector);
        self.leave_receipt(stream);
        let piece = stream.held_body().concat();
        if early.trailers.is_some() {
            self.take_out(stream, Half::Request, HeaderMap::RequestTrailers);
        }
        self.request = Progress::Messages;
        self.judge_messages(stream, piece, end(early.is_ended || early.trailers.is_some()))
    }

    /// A piece of what the client sends has come.
    pub(super) fn messages<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        end_of_stream: bool,
    ) -> Next {
        let piece = stream.body(Half::Request).concat();
        self.judge_messages(stream, piece, end(end_of_stream))
    }

    /// Judges the messages that are complete with a piece.
    pub(super) fn judge_messages<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        piece: Vec<u8>,
        end: End,
    ) -> Next {
        let Some(mut inspector) = self.inspector.take() else {
            return self.fail(stream, Error::Fault);
        };
        let bytes = inspector.pending_bytes().saturating_add(piece.len());
        if let Err(rejection) = self.body_memory.grow_to(bytes) {
            let decision = inspector.messages_overflow(rejection);
            self.inspector = Some(inspector);
            return self.judged(stream, Half::Request, &decision);
        }
        self.meanwhile = Some(Meanwhile::default());
        self.evaluate(stream, inspector, Evaluation::Messages { piece, end })
    }

    /// Goes on after an evaluation, with what has come of a call meanwhile.
    pub(super) fn judged<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        half: Half,
        decision: &Decision,
    ) -> Next {
        let meanwhile = self.meanwhile.take_if(|_| half == Half::Request);
        let Some(meanwhile) = meanwhile else { return self.decided(stream, half, decision) };
        let pending = self.inspector.as_ref().map_or(0, |seen| seen.pending_bytes());
        self.body_memory.release();
        // What was just given back is there, but for what others have taken since: it is asked for with the next piece.
        let _ = self.body_memory.grow_to(pending);
        let next = self.decided(stream, half, decision);
        let Meanwhile { piece, is_ended, overflow } = meanwhile;
        if self.request != Progress::Messages || piece.is_empty() && !is_ended && overflow.is_none()
        {
            return next;
        }
        match (overflow, &mut self.inspector) {
            (Some(rejection), Some(inspector)) => {
                let decision = inspector.messages_overflow(rejection);
                self.decided(stream, half, &decision)
            }
            _ => self.judge_messages(stream, piece, end(is_ended)),
        }
    }

    /// Takes a copy of what comes while messages are evaluated elsewhere.
    pub(super) fn comes_meanwhile(&mut self, stream: &impl Stream, half: Half, is_ended: bool) {
        let Some(meanwhile) = self.meanwhile.as_mut().filter(|_| half == Half::Request) else {
            return;
        };
        meanwhile.is_ended |= is_ended;
        let pieces = stream.body(half);
        let more = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        match self.body_memory.add(more) {
            Ok(()) => pieces.iter().for_each(|piece| meanwhile.piece.extend_from_slice(piece)),
            Err(rejection) => meanwhile.overflow = Some(rejection),
        }
    }

    /// Takes note that nothing more comes.
    pub(super) fn ends_meanwhile(&mut self, half: Half) {
        if let Some(meanwhile) = self.meanwhile.as_mut().filter(|_| half == Half::Request) {
            meanwhile.is_ended = true;
        }
    }
}
