//! Event streams: which responses are inspected event by event, and the verdict on each event.
//!
//! Each event is evaluated like a separate exchange: phases 1 and 3 see the headers of the exchange that it is part of, and
//! phase 4 sees the event as a response's body. Scores are those of one event.

use core::time::Duration;

use super::{Inspector, Stage, plain};
use crate::{
    decision::{Decision, Mode, Uninspected},
    event_stream::{EventStream, EventStreamHead, StreamEvent, is_readable},
    message::{KeptHead, MessageName},
    rejection::Rejection,
    request::{RequestHead, ResponseHead},
    settings::ResponseInspection,
};

impl Inspector {
    /// The stream that a response begins whose headers were judged with [`Decision::Continue`], if its events are
    /// inspected: the host brings them to [`EventStream::take`].
    pub const fn take_event_stream(&mut self) -> Option<Box<EventStream>> {
        self.event_stream.take()
    }

    /// Keeps the headers of a request whose response may be a stream of events.
    pub(super) fn keep_head(&mut self, head: &RequestHead<'_>) {
        let keeps = self.settings.event_stream.is_some() && self.wants_response();
        self.kept_head = keeps.then(|| Box::new(KeptHead::new(head)));
    }

    /// Begins with a stream whose headers have been judged.
    pub(super) fn begin_event_stream(&mut self, head: &ResponseHead<'_>) {
        let kept = self.kept_head.take();
        let (Some(settings), Some(kept)) = (self.settings.event_stream, kept) else {
            if self.settings.response == ResponseInspection::Full {
                self.uninspected = self.uninspected.or(Some(Uninspected::EventStream));
            }
            return;
        };
        if !is_readable(head) {
            self.uninspected = self.uninspected.or(Some(Uninspected::ResponseEncoded));
        } else if self.would_deny().is_some() {
            // Where rules look on: every event would be refused for the same headers.
            self.uninspected = self.uninspected.or(Some(Uninspected::EventStream));
        } else {
            let blocks = self.mode() == Mode::Blocking;
            let answer = (head, self.request.status);
            self.event_stream = Some(Box::new(EventStream::new(*kept, answer, settings, blocks)));
        }
    }

    /// Judges an event that has come at `time`.
    pub fn stream_event(
        &mut self,
        head: &EventStreamHead,
        time: Duration,
        event: &StreamEvent<'_>,
    ) -> Decision {
        self.begin_event(head, time, event.name);
        (self.body_seen, self.body_bytes) = (true, event.text.len());
        if event.is_cut {
            self.uninspected = Some(Uninspected::ResponseTruncated);
        }
        self.transaction.set_deadline(self.deadline);
        self.transaction.evaluate_request_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        (self.stage, self.request_evaluated) = (Stage::RequestDone, true);
        self.transaction.response_line(head.status, b"HTTP/1.1");
        for header in plain(&head.response_headers()) {
            self.transaction.response_header(header.name, header.value);
        }
        self.transaction.evaluate_response_headers();
        if let Some(reply) = self.refusal() {
            return reply;
        }
        self.transaction.response_is_message();
        self.transaction.response_body(event.text);
        self.evaluate_response()
    }

    /// Rejects events that no rule can see; `None` where rules may not block.
    pub fn events_unread(
        &mut self,
        head: &EventStreamHead,
        time: Duration,
        (name, rejection): (MessageName, Rejection),
    ) -> Option<Decision> {
        self.begin_event(head, time, name);
        self.uninspected = Some(Uninspected::EventStream);
        (self.stage, self.request_evaluated) = (Stage::ResponseDone, true);
        self.reject(rejection)
    }

    fn begin_event(&mut self, head: &EventStreamHead, time: Duration, name: MessageName) {
        let headers = head.request.headers();
        let request = head.request.of(&headers, time);
        self.begin(&request);
        self.request.message = Some(name);
        self.request.status = head.status;
        self.set_mode(request.lot);
    }
}
