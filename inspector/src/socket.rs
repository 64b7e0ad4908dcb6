//! A WebSocket under inspection: what of the bytes of each peer goes on, and when both are sent a Close frame.
//!
//! A message goes on when it has been judged, and nothing of a refused one. After a refusal the peer to which the message
//! was to go gets a Close frame in its place, at once; the other one gets it in the place of what would be sent to it
//! next, which is the answer to the first Close frame at the latest. Everything else is dropped.
//!
//! Between messages a socket holds the headers of its request and two small readers: no transaction.

use core::time::Duration;

use crate::{
    decision::Reply,
    message::{Channel, KeptHead, MessageName},
    rejection::Rejection,
    request::{Header, RequestHead, find},
    websocket::{
        Event, Fault, Kind, Message, Peer, Reader, ReaderLimits, close_frame,
        extensions::{self, HeaderChange},
    },
};

/// The name of the header with extensions.
pub const EXTENSIONS_HEADER: &str = extensions::NAME;

/// The time from the Close frame for a refused message to the end of the connection, where peers do not end it.
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// The answer by which a host ends such a connection. Nobody reads it: Envoy resets a stream that has been answered.
#[must_use]
pub fn unclosed() -> Reply {
    Reply {
        status: 403,
        action: "drop",
        headers: Vec::new(),
        body: String::new(),
        grpc_status: None,
        rule: None,
        details: "glacis_websocket_not_closed".to_owned(),
    }
}

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
    fn message(&mut self, head: &KeptHead, message: &SocketMessage<'_>) -> Option<Closing>;

    /// Judges what no rule can see. With `None` everything that the peer sends from there on passes uninspected.
    fn unread(&mut self, head: &KeptHead, name: MessageName, unread: Unread) -> Option<Closing>;
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
    head: KeptHead,
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
            head: KeptHead::new(head),
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
    pub const fn head(&self) -> &KeptHead {
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

    /// Whether a message was refused: both peers are to end the connection within [`CLOSE_GRACE`].
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        self.closing.is_some()
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
            let name =
                MessageName { channel: Channel::WebSocket, from, number: direction.messages + 1 };
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
                    if from == Peer::Client {
                        self.client_code = code;
                    }
                }
            }
            Event::Fault(fault) => {
                let name = MessageName {
                    channel: Channel::WebSocket,
                    from,
                    number: self.direction(from).messages + 1,
                };
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
        let name = MessageName { channel: Channel::WebSocket, from, number: direction.messages };
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

#[cfg(test)]
mod tests;
