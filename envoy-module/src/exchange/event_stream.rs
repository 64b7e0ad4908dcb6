//! Server-sent events that are inspected: each piece of the response goes on as what the stream makes of it. A refused
//! event ends the response: Envoy resets the stream when it is to answer otherwise.

use std::{sync::Arc, time::Instant};

use glacis_host::admission::Share;
use glacis_inspector::{
    Decision, EventJudge, EventStreamHead, Inspector, MessageName, Passed, Rejection, Reply,
    StreamEvent,
};
use glacis_service::{Client, now};

use super::{Exchange, Progress, receipt};
use crate::{
    filter::Filter,
    rulesets::Profile,
    stream::{Half, Next, Stream, Wake, Wakeup},
    waiting::waiting,
};

impl<W: Wake> Exchange<W> {
    /// Takes the stream of events that a response begins whose headers have been judged, if there is one.
    pub(super) fn begin_events(&mut self) {
        let Some(inspector) = &mut self.inspector else { return };
        let Some(events) = inspector.take_event_stream() else { return };
        let client = inspector.client().map(Client::from);
        let pool = &self.filter.engine.shared.body_memory;
        self.body_memory = Share::none(Arc::clone(pool), client);
        self.events = Some(events);
    }

    /// Takes a piece of the response.
    pub(super) fn events_piece<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        ends: bool,
    ) -> Next {
        // What ends the response is on its way.
        if let Some(cut) = self.cut.take() {
            self.cut_wait = None;
            return self.cut_off(cut);
        }
        let (Some(events), Some(profile)) = (&mut self.events, &self.profile) else {
            return Next::Continue;
        };
        let bytes = stream.body(Half::Response).concat();
        // An event is held as it came and as the text that is judged.
        let held = events.held_bytes().saturating_add(bytes.len());
        let room = self.body_memory.grow_to(held.saturating_mul(2));
        let (filter, profile) = (&*self.filter, &**profile);
        let began = Instant::now();
        let mut judge = Judging { filter, profile, stream, began };
        let passed = events.take(&bytes, ends, (now(), room), &mut judge);
        self.body_memory.release();
        // What was just given back is there, but for what others have taken since: it is asked for with the next piece.
        let _ = self.body_memory.grow_to(events.held_bytes());
        self.passed(stream, passed)
    }

    fn passed<S: Stream<Waker = W>>(&mut self, stream: &mut S, passed: Passed) -> Next {
        let Passed { bytes, refused } = passed;
        let goes_on = bytes.as_ref().is_none_or(|bytes| !bytes.is_empty());
        if let Some(cut) = refused {
            if !goes_on {
                return self.cut_off(cut);
            }
            // The events before it go on first. Without a waker, the next piece ends the response.
            self.cut = Some(cut);
            self.cut_wait = stream.waker(Wakeup::Cut).map(|waker| waiting(waker).0);
        }
        if let Some(bytes) = bytes {
            stream.replace_body(Half::Response, &bytes);
        }
        Next::Continue
    }

    /// Ends the response after the events that have gone on.
    pub(super) fn cut_when_woken(&mut self) -> Next {
        self.cut_wait = None;
        match self.cut.take() {
            Some(cut) => self.cut_off(cut),
            None => Next::Continue,
        }
    }

    fn cut_off(&mut self, cut: Box<Reply>) -> Next {
        self.answered = true;
        (self.request, self.response) = (Progress::Done, Progress::Done);
        Next::Reply(cut)
    }
}

/// Judges the events of a piece with inspectors of the profile.
struct Judging<'s, S> {
    filter: &'s Filter,
    profile: &'s Profile,
    stream: &'s mut S,
    began: Instant,
}

impl<S: Stream> Judging<'_, S> {
    /// Judges one event, and leaves what there is to leave of it.
    fn judge(
        &mut self,
        judge: impl FnOnce(&mut Inspector) -> Option<Decision>,
    ) -> Option<Box<Reply>> {
        let mut inspector = self.profile.pool.take();
        inspector.set_deadline(self.filter.engine.shared.deadline(self.began));
        let decision = judge(&mut inspector);
        let left = inspector.receipt();
        let metrics = &self.filter.metrics;
        metrics.stream_event(self.stream, left.verdict);
        let refused = match decision {
            Some(Decision::Reply(reply)) => Some(reply),
            Some(Decision::Continue | Decision::NeedBody) | None => None,
        };
        if refused.is_some() {
            metrics.receipt(self.stream, left.verdict);
            receipt::write(self.stream, &left);
        }
        if refused.is_some() || left.would_deny.is_some() {
            receipt::finish(self.filter, self.stream, &mut inspector);
        } else if let Some(reason) = left.uninspected {
            metrics.uninspected(self.stream, reason.name());
        }
        self.profile.pool.keep(inspector);
        refused
    }
}

impl<S: Stream> EventJudge for Judging<'_, S> {
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
