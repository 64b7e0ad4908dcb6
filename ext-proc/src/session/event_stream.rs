//! Server-sent events that are inspected: Envoy is asked for the response as it comes, and each piece goes on as what the
//! stream makes of it. A refused event ends the response: Envoy resets the stream when it is to answer otherwise.

use std::{sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::{
    Decision, EventJudge, EventStreamHead, Inspector, MessageName, Mode, Passed, Rejection, Reply,
    StreamEvent,
};
use glacis_service::{Client, now};

use super::{Half, Session, deadline};
use crate::{
    profile::Profile,
    reply::{self, Answer, Part},
    shared::Shared,
    wire::{BodyMode, Message},
};

impl Session {
    /// The mode in which events come: pieces go on with their answers.
    const fn mode_for_events(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::FullDuplex => BodyMode::FullDuplex,
            BodyMode::None
            | BodyMode::Streamed
            | BodyMode::Buffered
            | BodyMode::BufferedPartial => BodyMode::Streamed,
        }
    }

    /// Begins with a stream of events whose headers have been judged, if there is one.
    pub(super) fn begin_events(&mut self) {
        let Some(inspector) = self.inspector.as_deref_mut() else { return };
        let Some(events) = inspector.take_event_stream() else { return };
        let client = inspector.client().map(Client::from);
        self.body_memory = Share::none(Arc::clone(&self.shared.body_memory), client);
        self.waits.release();
        self.events = Some(events);
        self.response = Half::Events(Self::mode_for_events(self.modes.response));
        // The response has begun: what is still to come of the request passes.
        self.request = Half::Done;
    }

    /// Answers what comes of a stream of events; `None` for everything else.
    pub(super) fn of_events(&mut self, message: &Message) -> Option<Answer> {
        let Half::Events(_) = self.response else { return None };
        let (part, bytes, ends) = match message {
            Message::ResponseBody(body) => (Part::ResponseBody, &*body.bytes, body.end_of_stream),
            // What is held of an event without its end is dropped here, as clients do.
            Message::ResponseTrailers(_) => (Part::ResponseTrailers, &[][..], false),
            Message::RequestHeaders(_)
            | Message::RequestBody(_)
            | Message::RequestTrailers(_)
            | Message::ResponseHeaders(_) => return None,
        };
        let mut events = self.events.take()?;
        let held = events.held_bytes().saturating_add(bytes.len());
        // An event is held as it came and as the text that is judged.
        let room = self.body_memory.grow_to(held.saturating_mul(2));
        let mut judge = Judging {
            shared: &self.shared,
            profile: self.profile.as_deref(),
            due: self.due,
            receipt: Vec::new(),
        };
        let Passed { bytes: passes, refused } = events.take(bytes, ends, (now(), room), &mut judge);
        let receipt = judge.receipt;
        self.body_memory.release();
        let _ = self.body_memory.grow_to(events.held_bytes());
        self.events = Some(events);
        Some(self.passed(part, passes, refused, receipt))
    }

    fn passed(
        &mut self,
        part: Part,
        passes: Option<Vec<u8>>,
        refused: Option<Box<Reply>>,
        receipt: Vec<u8>,
    ) -> Answer {
        let cut = refused.map(|reply| {
            let mut cut = reply::immediate(&reply);
            cut.dynamic_metadata = receipt;
            cut
        });
        let goes_on = passes.as_ref().is_none_or(|bytes| !bytes.is_empty());
        match cut {
            Some(cut) if !goes_on || part == Part::ResponseTrailers => {
                self.refused = true;
                return cut;
            }
            // The events before it go on first.
            cut => self.cut = cut,
        }
        match passes.filter(|_| part == Part::ResponseBody) {
            Some(bytes) => {
                let answer = reply::replaced(part, bytes.clone());
                self.replaced = Some(bytes);
                answer
            }
            None => reply::pass(part, Vec::new()),
        }
    }

    /// The answer to a message of a stream of events for which there is no verdict; `None` where rules may not block, or
    /// there is no such stream.
    pub(super) fn events_without_verdict(
        &self,
        rejection: Rejection,
    ) -> Option<(Answer, &'static str)> {
        let events = self.events.as_ref().filter(|events| events.blocks())?;
        let mut inspector = self.profile.as_ref()?.inspector();
        let request = &events.head().request;
        let headers = request.headers();
        let decision = inspector.turn_down(&request.of(&headers, now()), rejection);
        let Decision::Reply(reply) = decision else { return None };
        let mut answer = reply::immediate(&reply);
        let receipt = inspector.receipt();
        answer.dynamic_metadata = reply::metadata(&receipt);
        Some((answer, receipt.verdict))
    }
}

/// Judges the events of a piece with inspectors of the profile.
struct Judging<'s> {
    shared: &'s Shared,
    profile: Option<&'s Profile>,
    due: Option<Instant>,
    /// The receipt of the event that was refused, as metadata.
    receipt: Vec<u8>,
}

impl Judging<'_> {
    /// Judges one event, and leaves what there is to leave of it.
    fn judge(
        &mut self,
        judge: impl FnOnce(&mut Inspector) -> Option<Decision>,
    ) -> Option<Box<Reply>> {
        let profile = self.profile?;
        let mut inspector = profile.inspector();
        inspector.set_deadline(deadline(self.due));
        let decision = judge(&mut inspector);
        let receipt = inspector.receipt();
        self.shared.metrics.stream_event(receipt.verdict);
        let refused = match decision {
            Some(Decision::Reply(reply)) => Some(reply),
            Some(Decision::Continue | Decision::NeedBody) | None => None,
        };
        if refused.is_some() {
            self.shared.metrics.receipt(receipt.verdict);
            self.receipt = reply::metadata(&receipt);
        }
        if refused.is_some() || receipt.would_deny.is_some() {
            self.shared.conclude(profile, &mut inspector, None);
        } else if let Some(reason) = receipt.uninspected.filter(|_| inspector.mode() != Mode::Off) {
            self.shared.metrics.uninspected(reason);
        }
        profile.keep(inspector);
        refused
    }
}

impl EventJudge for Judging<'_> {
    fn event(&mut self, head: &EventStreamHead, event: &StreamEvent<'_>) -> Option<Box<Reply>> {
        self.judge(|inspector| Some(inspector.stream_event(head, now(), event)))
    }

    fn unread(
        &mut self,
        head: &EventStreamHead,
        name: MessageName,
        rejection: Rejection,
    ) -> Option<Box<Reply>> {
        self.judge(|inspector| inspector.events_unread(head, now(), (name, rejection)))
    }
}
