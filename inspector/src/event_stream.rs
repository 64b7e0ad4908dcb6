//! Server-sent events (the WHATWG's HTML, 9.2) under inspection: each goes on when it has been judged.
//!
//! [`EventReader`] returns the same events however the bytes are split. Whatever a client could read in an event is in
//! the text that is judged. After a refused event nothing goes on, and the host ends the response.

mod reader;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{
    decision::Reply,
    message::{Channel, KeptHead, KeptHeaders, MessageName},
    rejection::Rejection,
    request::{Header, ResponseHead, find},
    websocket::Peer,
};

pub use reader::{EventBlock, EventReader, StreamPart};

/// How events are inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventStreamSettings {
    /// Bytes of an event that are inspected, with the names of its fields and its blank line.
    pub event_bytes_max: usize,
    /// Events that one stream may send in a second of the clock.
    pub events_per_second_max: u32,
}

/// An event that is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct StreamEvent<'e> {
    /// Its place.
    pub name: MessageName,
    /// What is in it.
    pub text: &'e [u8],
    /// It goes on beyond what is inspected.
    pub is_cut: bool,
}

/// Judges events. `None` lets them pass.
pub trait EventJudge {
    /// Judges an event together with the headers of its exchange.
    fn event(&mut self, head: &EventStreamHead, event: &StreamEvent<'_>) -> Option<Box<Reply>>;

    /// Judges what no rule can see. With `None` the rest of the stream passes uninspected.
    fn unread(
        &mut self,
        head: &EventStreamHead,
        name: MessageName,
        rejection: Rejection,
    ) -> Option<Box<Reply>>;
}

/// The headers of a request and of the response to it.
#[derive(Debug)]
pub struct EventStreamHead {
    /// Those of the request.
    pub request: KeptHead,
    response: KeptHeaders,
    /// The status of the response.
    pub status: u16,
}

impl EventStreamHead {
    /// The headers of the response.
    #[must_use]
    pub fn response_headers(&self) -> Vec<Header<'_>> {
        self.response.headers()
    }
}

/// What goes on of a piece of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The bytes that go on in the place of those that have come; `None` for the same.
    pub bytes: Option<Vec<u8>>,
    /// The response has to end, after these bytes.
    pub refused: Option<Box<Reply>>,
}

/// One response whose events are inspected.
#[derive(Debug)]
pub struct EventStream {
    head: EventStreamHead,
    reader: EventReader,
    settings: EventStreamSettings,
    /// Whether rules may block.
    blocks: bool,
    /// Events that were judged.
    events: u64,
    /// The second in which the last one came, and how many came in it.
    second: u64,
    in_second: u32,
    /// What comes passes uninspected.
    passes: bool,
    /// An event was refused: nothing goes on.
    is_over: bool,
}

impl EventStream {
    /// A stream that `head` begins, in answer to `request`.
    #[must_use]
    pub fn new(
        request: KeptHead,
        (head, status): (&ResponseHead<'_>, u16),
        settings: EventStreamSettings,
        blocks: bool,
    ) -> Self {
        Self {
            head: EventStreamHead { request, response: KeptHeaders::new(head.headers), status },
            reader: EventReader::new(settings.event_bytes_max),
            settings,
            blocks,
            events: 0,
            second: 0,
            in_second: 0,
            passes: false,
            is_over: false,
        }
    }

    /// The headers of its exchange.
    #[must_use]
    pub const fn head(&self) -> &EventStreamHead {
        &self.head
    }

    /// Whether rules may block.
    #[must_use]
    pub const fn blocks(&self) -> bool {
        self.blocks
    }

    /// Bytes that are held of an event that is not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.reader.held_bytes()
    }

    /// Takes a piece of the response, and returns what goes on of it. `room` says whether the host has room for it;
    /// `ends`, whether nothing more comes; `now` is the time since 1970.
    pub fn take(
        &mut self,
        bytes: &[u8],
        ends: bool,
        (now, room): (Duration, Result<(), Rejection>),
        judge: &mut impl EventJudge,
    ) -> Passed {
        if self.is_over {
            return Passed { bytes: Some(Vec::new()), refused: None };
        }
        if self.passes {
            return Passed::default();
        }
        let mut input = bytes;
        let mut out = Vec::with_capacity(bytes.len());
        let mut refused = match room {
            Ok(()) => None,
            Err(rejection) => self.unread(rejection, judge, &mut out),
        };
        while refused.is_none() && !self.passes {
            let Some(part) = self.reader.read(&mut input) else { break };
            match part {
                StreamPart::Rest(rest) => out.extend(rest),
                StreamPart::Event(event) => refused = self.event(event, now, judge, &mut out),
            }
        }
        if refused.is_none()
            && ends
            && !self.passes
            && let Some(event) = self.reader.end()
        {
            refused = self.event(event, now, judge, &mut out);
        }
        if self.passes {
            out.extend_from_slice(input);
        }
        self.is_over = refused.is_some();
        Passed { bytes: (out != bytes).then_some(out), refused }
    }

    fn event(
        &mut self,
        event: EventBlock,
        now: Duration,
        judge: &mut impl EventJudge,
        out: &mut Vec<u8>,
    ) -> Option<Box<Reply>> {
        let EventBlock { raw, text, is_cut } = event;
        if !text.is_empty() {
            if !self.is_in_time(now) {
                let refused = self.unread(Rejection::EventRate, judge, out);
                if refused.is_none() {
                    out.extend(raw);
                }
                return refused;
            }
            self.events += 1;
            let event = StreamEvent { name: self.name(self.events), text: &text, is_cut };
            let refused = judge.event(&self.head, &event);
            if refused.is_some() {
                return refused;
            }
        }
        out.extend(raw);
        None
    }

    /// Counts an event; `false` where there are more than may be in a second.
    const fn is_in_time(&mut self, now: Duration) -> bool {
        if now.as_secs() != self.second {
            (self.second, self.in_second) = (now.as_secs(), 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        self.in_second <= self.settings.events_per_second_max
    }

    fn unread(
        &mut self,
        rejection: Rejection,
        judge: &mut impl EventJudge,
        out: &mut Vec<u8>,
    ) -> Option<Box<Reply>> {
        let refused = judge.unread(&self.head, self.name(self.events + 1), rejection);
        if refused.is_none() {
            self.passes = true;
            out.append(&mut self.reader.take_held());
        }
        refused
    }

    const fn name(&self, number: u64) -> MessageName {
        MessageName { channel: Channel::EventStream, from: Peer::Server, number }
    }
}

/// Whether the events can be read: nothing has compressed them.
pub(crate) fn is_readable(head: &ResponseHead<'_>) -> bool {
    find(head.headers, b"content-encoding")
        .is_none_or(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
}
