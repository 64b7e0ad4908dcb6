//! Calls of gRPC whose messages are inspected one by one, as they come.
//!
//! Whether a client sends one message or many is not known, and it may wait for an answer to the first before it sends
//! the second: nobody can wait for the end of such a body. The headers are therefore judged alone, and go on. Then each
//! message is judged with the headers, like a separate request, before its last byte is forwarded.
//!
//! Judged together are messages that have come together and are short: an evaluation for each would cost more than
//! clients pay for sending them.

use core::mem;
use std::sync::Arc;

use glacis_engine::GrpcMessages;
use glacis_second_opinion::Opinion;

use super::{End, Inspector, Stage, transaction};
use crate::{
    decision::{Decision, Mode, Uninspected},
    rejection::Rejection,
    request::{Header, RequestHead},
    settings::{BodyOverflow, GrpcBodies, TruncatedBody},
};

/// Bytes before each message: flags, and four of length.
const PREFIX_BYTES: usize = 5;

/// Bytes of messages that are judged together; a longer one is judged alone.
const TOGETHER_BYTES_MAX: usize = 4 << 10;

/// Messages that are judged together.
const TOGETHER_MAX: usize = 64;

/// Bytes of memory for messages that are kept while none is coming.
const RETAINED_BYTES_MAX: usize = 16 << 10;

/// A call whose messages are coming.
#[derive(Debug, Default)]
pub(super) struct Messages {
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    user: Option<String>,
    /// What has come of messages that are not complete.
    pending: Vec<u8>,
    /// Bytes of a message to come that nobody looks at.
    left_out: usize,
    /// What comes is in no frames.
    is_broken: bool,
    /// Whether the transaction beside that of the headers has seen a message.
    is_evaluated: bool,
    opinion: Option<Opinion>,
}

/// What a body goes on with.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Messages of so many bytes in all.
    Whole(usize),
    /// A message of so many bytes, which is more than is inspected.
    TooLong(usize),
    /// No frame.
    Broken,
    /// A message that is not complete, or nothing.
    Incomplete,
}

impl Inspector {
    /// Whether the body that is needed is one of messages that can be inspected one by one: see
    /// [`Self::begin_messages`]. A host that cannot do so brings the body as any other.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        self.stage == Stage::RequestBody
            && !self.body_seen
            && self.request.is_grpc
            && self.settings.grpc == GrpcBodies::Inspect
            && self.transaction.grpc_messages() == Some(GrpcMessages::Any)
    }

    /// Judges the headers of a call alone. With [`Decision::Continue`] they go on, and the host brings what the client
    /// sends by [`Self::messages`]. `head` is what [`Self::request_headers`] was given.
    pub fn begin_messages(&mut self, head: &RequestHead<'_>) -> Decision {
        let decision = self.evaluate_request();
        if decision == Decision::Continue && self.mode() != Mode::Off {
            let own = |header: &Header<'_>| (header.name.to_vec(), header.value.to_vec());
            self.messages = Some(Box::new(Messages {
                headers: head.headers.iter().map(own).collect(),
                user: head.user.map(str::to_owned),
                ..Messages::default()
            }));
        }
        decision
    }

    /// Takes a piece of what the client sends, and judges the messages that are complete with it. With
    /// [`Decision::Continue`] the piece goes on; the last bytes of a message go on only when it was judged.
    pub fn messages(&mut self, piece: &[u8], end: End) -> Decision {
        let Some(mut messages) = self.messages.take() else { return Decision::Continue };
        // The response was refused.
        if self.stage == Stage::Refused {
            return Decision::Continue;
        }
        self.body_seen = true;
        self.body_bytes = self.body_bytes.saturating_add(piece.len());
        messages.take(piece);
        let decision = self.judge(&mut messages, end);
        if decision != Decision::Continue {
            return decision;
        }
        if end == End::More {
            // Where rules look on, the first attack is the record of the call.
            if !self.would_refuse() {
                self.messages = Some(messages);
            }
            return decision;
        }
        self.keep_last(&mut messages);
        if end == End::Truncated {
            self.uninspected = Some(Uninspected::BodyTruncated);
            return self.cut_off();
        }
        decision
    }

    /// Says that the host has no room for (the rest of) a message: none at all, or none for this client. Where the call
    /// is not rejected for it, none of its further messages is inspected.
    pub fn messages_overflow(&mut self, rejection: Rejection) -> Decision {
        let Some(mut messages) = self.messages.take() else { return Decision::Continue };
        self.uninspected = Some(Uninspected::BodyOverflow);
        if self.settings.body_overflow == BodyOverflow::Reject
            && let Some(rejected) = self.reject(rejection)
        {
            return rejected;
        }
        self.keep_last(&mut messages);
        Decision::Continue
    }

    /// Makes the last messages the record of a call that has ended.
    pub(super) fn end_messages(&mut self) {
        let Some(mut messages) = self.messages.take() else { return };
        if !self.body_seen {
            self.uninspected = self.uninspected.or(Some(Uninspected::BodyNotSent));
        }
        self.keep_last(&mut messages);
    }

    /// Gives back the memory for messages. The record of the call is then that of its headers, or of a later message.
    pub(super) fn rest_between_messages(&mut self) {
        self.spare = None;
        if let Some(messages) = &mut self.messages {
            messages.is_evaluated = false;
        }
    }

    /// Bytes that are held of messages that are not complete.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.messages.as_ref().map_or(0, |messages| messages.pending.len())
    }

    /// Whether messages of a call are awaited.
    #[must_use]
    pub const fn awaits_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// Judges what is complete; at the end, everything.
    fn judge(&mut self, messages: &mut Messages, end: End) -> Decision {
        let mut at = 0;
        let bytes_max = self.transaction.program().limits().request_body_bytes_max;
        let mut decision = Decision::Continue;
        while decision == Decision::Continue && !self.would_refuse() {
            let rest = messages.pending.len() - at;
            let (bytes, is_cut) = match messages.next(at, bytes_max) {
                Next::Whole(bytes) => (bytes, false),
                Next::TooLong(bytes) => match self.too_long(rest) {
                    TooLong::Refused(refused) => {
                        decision = refused;
                        break;
                    }
                    TooLong::LeftOut => {
                        messages.left_out = bytes;
                        messages.leave_out(&mut at);
                        continue;
                    }
                    TooLong::Cut => {
                        messages.left_out = bytes - bytes_max;
                        (bytes_max, true)
                    }
                    TooLong::Incomplete if end == End::More => break,
                    TooLong::Incomplete => (rest, true),
                },
                Next::Broken => (rest, false),
                Next::Incomplete if end == End::More || rest == 0 => break,
                Next::Incomplete => (rest, end == End::Truncated),
            };
            decision = self.evaluate_messages(messages, at, bytes, is_cut);
            at += bytes;
            if is_cut {
                messages.leave_out(&mut at);
            }
        }
        messages.forget(at);
        decision
    }

    /// Evaluates `bytes` of what has come, from `at` on, with the headers of the call.
    fn evaluate_messages(
        &mut self,
        messages: &mut Messages,
        at: usize,
        bytes: usize,
        is_cut: bool,
    ) -> Decision {
        self.swap(messages);
        let headers: Vec<Header<'_>> =
            messages.headers.iter().map(|(name, value)| Header { name, value }).collect();
        self.start(&headers, messages.user.as_deref(), false);
        if let Some(mode) = self.settings.rule_engine {
            self.transaction.set_rule_engine(mode);
        }
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_request_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        self.transaction.request_body(messages.pending.get(at..at + bytes).unwrap_or_default());
        if is_cut {
            self.transaction.request_body_cut();
        }
        self.transaction.evaluate_request_body();
        self.form_opinion();
        messages.is_evaluated = true;
        if let Some(reply) = self.refusal() {
            return reply;
        }
        if !self.would_refuse() {
            self.swap(messages);
        } else if self.stage > Stage::RequestDone {
            // This transaction knows nothing of the response.
            self.stage = Stage::ResponseDone;
        }
        Decision::Continue
    }

    /// Exchanges the transaction of the headers, which sees the response, and that of messages.
    fn swap(&mut self, messages: &mut Messages) {
        let spare = self.spare.get_or_insert_with(|| {
            let program = self.transaction.program();
            Box::new(transaction(Arc::clone(program), &self.settings))
        });
        mem::swap(&mut self.transaction, spare);
        mem::swap(&mut self.opinion, &mut messages.opinion);
    }

    /// Makes the last messages the record of the call, unless its response has begun to come.
    fn keep_last(&mut self, messages: &mut Messages) {
        if messages.is_evaluated && self.stage == Stage::RequestDone && !self.would_refuse() {
            self.swap(messages);
        }
    }

    /// A message is longer than what is inspected, and so much of it has come.
    fn too_long(&mut self, has_come: usize) -> TooLong {
        let policy = self.settings.truncated_body;
        if policy == TruncatedBody::Reject
            && let Some(refused) = self.reject(Rejection::BodyTooLarge)
        {
            return TooLong::Refused(refused);
        }
        if policy == TruncatedBody::Pass {
            self.uninspected = Some(Uninspected::BodyTooLarge);
            return TooLong::LeftOut;
        }
        self.uninspected = Some(Uninspected::BodyTruncated);
        let bytes_max = self.transaction.program().limits().request_body_bytes_max;
        if has_come >= bytes_max { TooLong::Cut } else { TooLong::Incomplete }
    }
}

/// What becomes of a message that is longer than what is inspected.
enum TooLong {
    Refused(Decision),
    /// It passes.
    LeftOut,
    /// Its beginning is inspected.
    Cut,
    /// Its beginning is not complete.
    Incomplete,
}

impl Messages {
    /// Takes a piece, but for what is left out.
    fn take(&mut self, piece: &[u8]) {
        let left_out = self.left_out.min(piece.len());
        self.left_out -= left_out;
        self.pending.extend_from_slice(piece.get(left_out..).unwrap_or_default());
    }

    /// Leaves out what has come of a message that nobody looks at, or no further.
    fn leave_out(&mut self, at: &mut usize) {
        let left_out = self.left_out.min(self.pending.len() - *at);
        self.left_out -= left_out;
        *at += left_out;
    }

    /// Forgets what was judged.
    fn forget(&mut self, bytes: usize) {
        self.pending.drain(..bytes.min(self.pending.len()));
        if self.pending.is_empty() {
            self.pending.shrink_to(RETAINED_BYTES_MAX);
        }
    }

    /// What the body goes on with at `at`.
    fn next(&mut self, at: usize, bytes_max: usize) -> Next {
        let pending = self.pending.get(at..).unwrap_or_default();
        let (mut bytes, mut count) = (0, 0);
        while !self.is_broken {
            let rest = pending.get(bytes..).unwrap_or_default();
            let Some(&flags) = rest.first() else { break };
            // As the engine sees it; which error it is, is for the engine to say.
            self.is_broken = flags > 1 && count == 0;
            let Some(&[_, length @ ..]) = rest.first_chunk::<PREFIX_BYTES>() else { break };
            let frame = PREFIX_BYTES.saturating_add(u32::from_be_bytes(length) as usize);
            if count == 0 && flags <= 1 && frame > bytes_max {
                return Next::TooLong(frame);
            }
            let fits = count == 0
                || count < TOGETHER_MAX && bytes.saturating_add(frame) <= TOGETHER_BYTES_MAX;
            if flags > 1 || !fits || frame > rest.len() {
                break;
            }
            bytes += frame;
            count += 1;
        }
        match (self.is_broken && !pending.is_empty(), count) {
            (true, _) => Next::Broken,
            (false, 0) => Next::Incomplete,
            (false, _) => Next::Whole(bytes),
        }
    }
}
