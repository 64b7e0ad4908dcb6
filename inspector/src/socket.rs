//! A WebSocket under inspection: what of the bytes of each peer goes on, and when both are sent a Close frame.
//!
//! A message goes on when it has been judged, and nothing of a refused one. After a refusal the peer to which the message
//! was to go gets a Close frame in its place, at once; the other one gets it in the place of what would be sent to it
//! next, which is the answer to the first Close frame at the latest. Everything else is dropped.
//!
//! Between messages a socket holds the headers of its request and two small readers: no transaction.

use core::time::Duration;

use glacis_engine::Endpoint;

use crate::{
    rejection::Rejection,
    request::{Header, RequestHead, find},
    websocket::{
        Event, Fault, Kind, Message, Peer, Reader, ReaderLimits, close_frame,
        extensions::{self, HeaderChange},
    },
};

/// The name of the header with extensions.
pub const EXTENSIONS_HEADER: &str = extensions::NAME;

/// The version of the protocol (RFC 6455, 4.1).
const VERSION: &[u8] = b"13";

/// How the messages of WebSockets are inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Bytes of a message that are inspected, both compressed and decompressed.
    pub message_bytes_max: usize,
    /// Frames of a message that are inspected.
    pub frames_max: usize,
}

/// The place of a message among those of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// Who has sent it.
    pub from: Peer,
    /// Its number, from 1 on.
    pub number: u64,
}

/// What is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct SocketMessage<'m> {
    /// Its place.
    pub name: MessageName,
    /// The content. Zero bytes of binary messages are spaces.
    pub payload: &'m [u8],
    /// It goes on beyond what is inspected.
    pub is_cut: bool,
}

/// Why a message is refused that no rule has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It cannot be read.
    Fault(Fault),
    /// There is no room for it.
    Rejected(Rejection),
}

/// The Close frame that a refusal comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The status code.
    pub code: u16,
    /// The reason: it names the request and nothing of the rules.
    pub reason: String,
}

/// Judges messages. `None` lets them pass.
pub trait Judge {
    /// Judges a message together with the headers of its request.
    fn message(&mut self, head: &SocketHead, message: &SocketMessage<'_>) -> Option<Closing>;

    /// Judges what no rule can see. With `None` everything that the peer sends from there on passes uninspected.
    fn unread(&mut self, head: &SocketHead, name: MessageName, unread: Unread) -> Option<Closing>;
}

/// What a server's answer to the request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Frames follow, and the header of extensions changes.
    Switched(HeaderChange),
    /// The server answers as to any request: no frames follow.
    NotSwitched,
    /// The server has accepted extensions with which messages cannot be inspected.
    Uninspectable,
}

/// The headers of a request, in one piece of memory.
#[derive(Debug)]
pub struct SocketHead {
    /// Length, name, length, value, one after the other.
    headers: Box<[u8]>,
    protocol: Option<Box<str>>,
    id: Box<str>,
    source: Option<Endpoint>,
    destination: Option<Endpoint>,
    user: Option<Box<str>>,
    lots: [u8; 2],
}

/// How far a socket has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The server has not answered.
    Asked,
    Open,
    /// The server has answered otherwise.
    NotSwitched,
}

/// The state of one direction.
#[derive(Debug)]
struct Direction {
    reader: Reader,
    /// Messages that have come.
    messages: u64,
    /// A Close frame has gone this way: nothing may follow it.
    is_closed: bool,
    /// What comes passes uninspected.
    passes: bool,
    /// Bytes have come.
    has_come: bool,
}

/// One socket, from its handshake to its last Close frame.
#[derive(Debug)]
pub struct Socket {
    head: SocketHead,
    stage: Stage,
    /// Whether rules may block.
    blocks: bool,
    settings: SocketSettings,
    /// Whether larger messages of the client are refused.
    rejects_long: bool,
    offered: bool,
    client: Direction,
    server: Direction,
    closing: Option<Box<Closing>>,
    /// The status code of the Close frame of the client that went on.
    client_code: Option<u16>,
}

impl SocketHead {
    fn new(head: &RequestHead<'_>) -> Self {
        let mut headers = Vec::new();
        for part in head.headers.iter().flat_map(|header| [header.name, header.value]) {
            headers.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            headers.extend_from_slice(part);
        }
        Self {
            headers: headers.into_boxed_slice(),
            protocol: head.protocol.map(Into::into),
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
        let mut rest = &*self.headers;
        let mut part = || {
            let (length, behind) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (part, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(part)
        };
        core::iter::from_fn(|| Some(Header { name: part()?, value: part()? })).collect()
    }

    /// The head of the request, for a message that has come at `time`.
    #[must_use]
    pub fn of<'h>(&'h self, headers: &'h [Header<'h>], time: Duration) -> RequestHead<'h> {
        let [lot, audit_lot] = self.lots;
        RequestHead {
            headers,
            protocol: self.protocol.as_deref(),
            end_of_stream: false,
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

/// Whether a handshake is one of the version whose frames are known here.
pub(crate) fn has_known_version(headers: &[Header<'_>]) -> bool {
    find(headers, b"sec-websocket-version").is_some_and(|version| version == VERSION)
}

impl Socket {
    /// A socket that `head` asks for. `rejects_long` has larger messages of the client refused, if rules may block.
    #[must_use]
    pub fn new(
        head: &RequestHead<'_>,
        settings: SocketSettings,
        blocks: bool,
        rejects_long: bool,
    ) -> Self {
        let rejects_long = rejects_long && blocks;
        Self {
            head: SocketHead::new(head),
            stage: Stage::Asked,
            blocks,
            settings,
            rejects_long,
            offered: false,
            client: Direction::new(Peer::Client, false, settings, rejects_long),
            server: Direction::new(Peer::Server, false, settings, false),
            closing: None,
            client_code: None,
        }
    }

    /// What has to happen to the extensions that the client offers.
    pub fn offer(&mut self) -> HeaderChange {
        let change = extensions::offer(&self.head.headers());
        self.offered = matches!(change, HeaderChange::Set(_));
        change
    }

    /// Takes the headers of the server's answer.
    pub fn answered(&mut self, headers: &[Header<'_>]) -> Switch {
        if find(headers, b":status") != Some(b"101") {
            self.stage = Stage::NotSwitched;
            return Switch::NotSwitched;
        }
        self.stage = Stage::Open;
        let Some((compresses, change)) = extensions::accept(headers, self.offered) else {
            return Switch::Uninspectable;
        };
        let settings = self.settings;
        self.client.reader =
            Direction::reader(Peer::Client, compresses, settings, self.rejects_long);
        self.server.reader = Direction::reader(Peer::Server, compresses, settings, false);
        Switch::Switched(change)
    }

    /// Has everything pass from here on.
    pub fn pass_all(&mut self) {
        (self.client.passes, self.server.passes) = (true, true);
    }

    /// The headers of its request.
    #[must_use]
    pub const fn head(&self) -> &SocketHead {
        &self.head
    }

    /// Whether rules may block.
    #[must_use]
    pub const fn blocks(&self) -> bool {
        self.blocks
    }

    /// Whether the server has agreed to speak in frames.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether a peer has sent something.
    #[must_use]
    pub const fn has_seen_bytes(&self) -> bool {
        self.client.has_come || self.server.has_come
    }

    /// Bytes that are held of messages and frames that are not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.client.reader.held_bytes() + self.server.reader.held_bytes()
    }

    /// Takes what a peer sends and returns what goes on in its place: `None` for the same bytes. `room` says whether
    /// the host has room for it.
    pub fn take(
        &mut self,
        from: Peer,
        bytes: &[u8],
        room: Result<(), Rejection>,
        judge: &mut impl Judge,
    ) -> Option<Vec<u8>> {
        let mut input = bytes;
        let mut out = Vec::with_capacity(bytes.len());
        let direction = self.direction(from);
        direction.has_come |= !bytes.is_empty();
        if direction.passes {
            return None;
        }
        if let Err(rejection) = room {
            let name = MessageName { from, number: direction.messages + 1 };
            self.unread(name, Unread::Rejected(rejection), judge, &mut out);
        }
        while !self.is_done(from, &mut out) {
            let Some(event) = self.direction(from).reader.read(&mut input) else { break };
            self.on(from, event, judge, &mut out);
        }
        if self.direction(from).passes {
            out.extend_from_slice(input);
        }
        (out != bytes).then_some(out)
    }

    /// What can be sent to the peer from which bytes were taken, without waiting for bytes of the other: the Close frame
    /// for a message of it, or the answer to its own. A host whose answers take time sends it: the other peer ends the
    /// connection when it has answered, and what is on its way to the host then is lost. `None` before the other peer has
    /// sent something: Envoy takes nothing for a half of which it has brought nothing.
    pub fn answer(&mut self, to: Peer) -> Option<Vec<u8>> {
        let answered = Closing { code: self.client_code.unwrap_or(0), reason: String::new() };
        let closing = match &self.closing {
            Some(closing) => Some(&**closing),
            None => self.client_code.is_some().then_some(&answered),
        };
        let (from, direction) = match to {
            Peer::Client => (Peer::Server, &mut self.server),
            Peer::Server => (Peer::Client, &mut self.client),
        };
        let closing = closing.filter(|_| !direction.is_closed && !direction.passes)?;
        if !direction.has_come || direction.reader.is_within_frame() {
            return None;
        }
        direction.is_closed = true;
        Some(close_frame(from, closing.code, &closing.reason))
    }

    /// What is left of a peer's bytes when no more of them come: nothing that has not been judged, where rules may block.
    pub fn end(&mut self, from: Peer) -> Vec<u8> {
        if self.blocks { Vec::new() } else { self.direction(from).reader.take_held() }
    }

    /// Takes an event.
    fn on(&mut self, from: Peer, event: Event, judge: &mut impl Judge, out: &mut Vec<u8>) {
        match event {
            Event::Control(frame) | Event::Rest(frame) => out.extend(frame),
            Event::Message(message) => self.message(from, message, judge, out),
            Event::Close { frame, code, reason } => {
                // A reason is for people to read, and applications write it to their logs.
                if !reason.is_empty() {
                    let (kind, payload) = (Kind::Text, reason.into_bytes());
                    let message = Message { kind, payload, frames: frame, is_cut: false };
                    self.message(from, message, judge, out);
                } else {
                    out.extend(frame);
                }
                if self.closing.is_none() {
                    self.direction(from).is_closed = true;
                    self.client_code = code.filter(|_| from == Peer::Client);
                }
            }
            Event::Fault(fault) => {
                let name = MessageName { from, number: self.direction(from).messages + 1 };
                self.unread(name, Unread::Fault(fault), judge, out);
            }
        }
    }

    fn message(
        &mut self,
        from: Peer,
        mut message: Message,
        judge: &mut impl Judge,
        out: &mut Vec<u8>,
    ) {
        let direction = self.direction(from);
        direction.messages += 1;
        let name = MessageName { from, number: direction.messages };
        if message.kind == Kind::Binary {
            message.payload.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        }
        let Message { payload, frames, is_cut, .. } = message;
        let judged = judge.message(&self.head, &SocketMessage { name, payload: &payload, is_cut });
        match judged {
            None => out.extend(frames),
            Some(closing) => self.close(from, closing, out),
        }
    }

    fn unread(
        &mut self,
        name: MessageName,
        unread: Unread,
        judge: &mut impl Judge,
        out: &mut Vec<u8>,
    ) {
        match judge.unread(&self.head, name, unread) {
            Some(closing) => self.close(name.from, closing, out),
            None => {
                let direction = self.direction(name.from);
                direction.passes = true;
                out.append(&mut direction.reader.take_held());
            }
        }
    }

    /// Sends a Close frame in the place of a message that has not begun to go on.
    fn close(&mut self, from: Peer, closing: Closing, out: &mut Vec<u8>) {
        out.extend(close_frame(from, closing.code, &closing.reason));
        self.direction(from).is_closed = true;
        self.closing = Some(Box::new(closing));
    }

    /// Whether nothing more of what a peer sends goes on; it is a Close frame that goes last.
    fn is_done(&mut self, from: Peer, out: &mut Vec<u8>) -> bool {
        let direction = match from {
            Peer::Client => &mut self.client,
            Peer::Server => &mut self.server,
        };
        if let Some(closing) = self.closing.as_ref().filter(|_| !direction.is_closed)
            && !direction.reader.is_within_frame()
        {
            direction.is_closed = true;
            out.extend(close_frame(from, closing.code, &closing.reason));
        }
        direction.is_closed || direction.passes
    }

    const fn direction(&mut self, from: Peer) -> &mut Direction {
        match from {
            Peer::Client => &mut self.client,
            Peer::Server => &mut self.server,
        }
    }
}

impl Direction {
    const fn new(from: Peer, compresses: bool, settings: SocketSettings, rejects: bool) -> Self {
        let reader = Self::reader(from, compresses, settings, rejects);
        Self { reader, messages: 0, is_closed: false, passes: false, has_come: false }
    }

    const fn reader(
        from: Peer,
        compresses: bool,
        settings: SocketSettings,
        rejects: bool,
    ) -> Reader {
        let SocketSettings { message_bytes_max, frames_max } = settings;
        Reader::new(
            from,
            compresses,
            ReaderLimits { message_bytes_max, frames_max, cuts: !rejects },
        )
    }
}
