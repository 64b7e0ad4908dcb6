//! Messages of gRPC, which are inspected as they come.
//!
//! Envoy is asked for pieces of the body, and each goes on with its answer: that to a piece with the end of a message
//! comes when the message has been judged. A piece without one goes on at once, as no server reads half a message.

use glacis_inspector::{Decision, End};

use super::{Half, Session, deadline};
use crate::{
    reply::{Answer, Part},
    wire::{Body, BodyMode},
};

impl Session {
    /// The mode in which pieces come. Where Envoy buffers bodies, it is asked to stream this one.
    const fn mode_for_messages(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::FullDuplex => BodyMode::FullDuplex,
            BodyMode::None
            | BodyMode::Streamed
            | BodyMode::Buffered
            | BodyMode::BufferedPartial => BodyMode::Streamed,
        }
    }

    /// The half of a request whose messages come.
    pub(super) const fn half_for_messages(&self) -> Half {
        Half::Messages(Self::mode_for_messages(self.modes.request))
    }

    /// Answers a piece of what the client sends.
    pub(super) fn messages(&mut self, body: &Body, mode: BodyMode) -> Answer {
        self.shared.body_came();
        let Some(inspector) = self.inspector.as_deref_mut() else {
            return self.follow(&Decision::Continue, Part::RequestBody, Vec::new());
        };
        // An Envoy that takes no overrides sends what fits into its buffer, and nothing of the rest.
        let is_cut = self.modes.request == BodyMode::BufferedPartial
            && body.bytes.len() > self.shared.envoy_buffer_bytes;
        let end = match (body.end_of_stream, is_cut) {
            (true, _) => End::Last,
            (false, true) => End::Truncated,
            (false, false) => End::More,
        };
        inspector.set_deadline(deadline(self.due));
        let bytes = inspector.pending_bytes().saturating_add(body.bytes.len());
        let decision = match self.body_memory.grow_to(bytes) {
            Ok(()) => inspector.messages(&body.bytes, end),
            Err(rejection) => inspector.messages_overflow(rejection),
        };
        self.body_memory.release();
        // What was just given back is there, but for what others have taken since: it is asked for again with the next.
        let _ = self.body_memory.grow_to(inspector.pending_bytes());
        let goes_on = inspector.awaits_messages();
        self.request = match (goes_on, end) {
            (true, _) => Half::Messages(mode),
            (false, End::Last) => Half::BodyDone,
            (false, End::More | End::Truncated) => Half::Done,
        };
        self.follow(&decision, Part::RequestBody, Vec::new())
    }
}
