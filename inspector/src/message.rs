//! Messages that are judged as exchanges of their own, with the headers of the exchange that has opened their channel.

use core::{fmt, time::Duration};

use glacis_engine::Endpoint;

use crate::{
    request::{Header, RequestHead},
    websocket::Peer,
};

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A WebSocket.
    WebSocket,
    /// A response of the media type `text/event-stream`.
    EventStream,
}

/// The place of a message among those of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// What carries it.
    pub channel: Channel,
    /// Who has sent it. Events come from the server.
    pub from: Peer,
    /// Its number, from 1 on.
    pub number: u64,
}

impl fmt::Display for MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.channel {
            Channel::WebSocket => write!(f, "{} {}", self.from.name(), self.number),
            Channel::EventStream => write!(f, "event {}", self.number),
        }
    }
}

/// Headers, in one piece of memory: length, name, length, value, one after the other.
#[derive(Debug)]
pub(crate) struct KeptHeaders(Box<[u8]>);

/// The head of a request, kept for the messages that follow it.
#[derive(Debug)]
pub struct KeptHead {
    headers: KeptHeaders,
    protocol: Option<Box<str>>,
    end_of_stream: bool,
    id: Box<str>,
    source: Option<Endpoint>,
    destination: Option<Endpoint>,
    user: Option<Box<str>>,
    lots: [u8; 2],
}

impl KeptHeaders {
    pub(crate) fn new(headers: &[Header<'_>]) -> Self {
        let mut bytes = Vec::new();
        for part in headers.iter().flat_map(|header| [header.name, header.value]) {
            bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self(bytes.into_boxed_slice())
    }

    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        let mut rest = &*self.0;
        let mut part = || {
            let (length, behind) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (part, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(part)
        };
        core::iter::from_fn(|| Some(Header { name: part()?, value: part()? })).collect()
    }
}

impl KeptHead {
    /// Keeps a head.
    #[must_use]
    pub fn new(head: &RequestHead<'_>) -> Self {
        Self {
            headers: KeptHeaders::new(head.headers),
            protocol: head.protocol.map(Into::into),
            end_of_stream: head.end_of_stream,
            id: head.id.into(),
            source: head.source,
            destination: head.destination,
            user: head.user.map(Into::into),
            lots: [head.lot, head.audit_lot],
        }
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> Vec<Header<'_>> {
        self.headers.headers()
    }

    /// The head of the request, for a message that has come at `time`.
    #[must_use]
    pub fn of<'h>(&'h self, headers: &'h [Header<'h>], time: Duration) -> RequestHead<'h> {
        let [lot, audit_lot] = self.lots;
        RequestHead {
            headers,
            protocol: self.protocol.as_deref(),
            end_of_stream: self.end_of_stream,
            id: &self.id,
            time,
            source: self.source,
            destination: self.destination,
            user: self.user.as_deref(),
            lot,
            audit_lot,
        }
    }

    /// The name of the request.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}
