//! Requests whose body does not come.
//!
//! Envoy sends a body when it is complete, or has filled Envoy's buffer. Until then a client holds a stream here, and a
//! connection in Envoy, with headers that may suffice for a refusal. They are evaluated alone when the body keeps
//! Envoy waiting for longer than most bodies do: bodies that come at once cost nothing more.

use core::time::Duration;

use glacis_inspector::{Decision, RequestHead};

use super::{Half, Session, deadline};
use crate::{
    reply::{Answer, Part},
    wire::Head,
};

/// Bytes of headers that are evaluated at once. Larger ones are rare, and may take milliseconds.
pub(crate) const INLINE_HEAD_BYTES_MAX: usize = 16 << 10;

/// How long a body may keep Envoy waiting before the headers are evaluated without it.
pub(crate) const HEAD_PATIENCE: Duration = Duration::from_millis(50);

/// A request that waits for its body.
#[derive(Debug)]
pub(super) struct Awaited {
    id: String,
    time: Duration,
    lots: (u8, u8),
    head: Option<Head>,
}

impl Awaited {
    pub(super) const fn new(id: String, time: Duration, lots: (u8, u8)) -> Self {
        Self { id, time, lots, head: None }
    }
}

impl Session {
    /// Keeps the headers until the body comes. Those that are evaluated on a thread for long work are not kept: such a
    /// request waits for its body.
    pub(super) fn keep_headers(&mut self, head: Head) {
        let keeps = !self.observed && !self.is_duplex() && head.bytes() <= INLINE_HEAD_BYTES_MAX;
        match &mut self.awaited {
            Some(awaited) if keeps => awaited.head = Some(head),
            _ => self.awaited = None,
        }
    }

    /// Whether [`Self::refuse_before_body`] is to be asked when the body keeps Envoy waiting.
    pub(crate) const fn can_refuse_before_body(&self) -> bool {
        self.awaited.is_some()
    }

    /// Refuses the request if its headers suffice for it. To be asked once.
    pub(crate) fn refuse_before_body(&mut self) -> Option<Answer> {
        let awaited = self.awaited.take()?;
        let (head, profile) = (awaited.head.as_ref()?, self.profile.as_ref()?);
        let mut inspector = profile.inspector();
        inspector.set_deadline(deadline(self.due));
        let headers = head.headers();
        let decision = inspector.request_headers(&RequestHead {
            headers: &headers,
            protocol: head.protocol.as_deref(),
            end_of_stream: head.end_of_stream,
            id: &awaited.id,
            time: awaited.time,
            source: head.source,
            destination: head.destination,
            user: head.user.as_deref(),
            lot: awaited.lots.0,
            audit_lot: awaited.lots.1,
        });
        let refusal = match decision {
            Decision::NeedBody => inspector.refuse_before_body(),
            Decision::Continue | Decision::Reply(_) => None,
        };
        let Some(refusal) = refusal else {
            profile.keep(inspector);
            return None;
        };
        if let Some(waiting) = self.inspector.replace(Box::new(inspector)) {
            profile.keep(*waiting);
        }
        self.request = Half::Done;
        self.waits.release();
        Some(self.follow(&refusal, Part::RequestBody, Vec::new()))
    }
}
