//! The law of WebSockets: how the bytes of a peer are cut changes nothing, and nothing is lost. The input is a byte of
//! settings (1: a server sends, 2: messages may be compressed, 4: larger messages are cut, 8: lengths are made right), a
//! byte that says where the input is cut, and the bytes that a peer sends.

use core::time::Duration;

use glacis_inspector::{
    Closing, Event, Header, Judge, KeptHead, Message, MessageName, Peer, Reader, ReaderLimits,
    RequestHead, Socket, SocketMessage, SocketSettings, Unread,
};

/// Small, so that inputs reach them.
const MESSAGE_BYTES_MAX: usize = 300;
const FRAMES_MAX: usize = 3;

/// Bytes that a reader may hold: a message as it came, with the headers of its frames, and without its mask; and a
/// control frame.
const HELD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX + (FRAMES_MAX + 1) * 14 + 139;

/// Whatever a peer sends, and however it is cut: the same events, within the limits, and every byte is in one of them,
/// unless it is held, or comes after an event that is the last.
pub fn websocket(input: &[u8]) {
    let Some((&[settings, piece], bytes)) = input.split_first_chunk() else { return };
    let from = if settings & 1 == 0 { Peer::Client } else { Peer::Server };
    let limits = ReaderLimits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        frames_max: FRAMES_MAX,
        cuts: settings & 4 != 0,
    };
    let reader = || Reader::new(from, settings & 2 != 0, limits);
    let mended = if settings & 8 == 0 { bytes.to_vec() } else { mend(from, bytes) };
    let whole = read(reader(), &mended, mended.len().max(1));
    for piece in [1, usize::from(piece).max(1)] {
        assert_eq!(read(reader(), &mended, piece), whole, "in pieces of {piece}");
    }
    let ends = whole.iter().any(|event| matches!(event, Event::Close { .. } | Event::Fault(_)));
    let passed: usize = whole.iter().map(bytes_of).sum();
    assert!(passed <= mended.len(), "{passed} bytes of {}", mended.len());
    let held = mended.len() - passed;
    assert!(
        ends || held <= MESSAGE_BYTES_MAX + (FRAMES_MAX + 1) * 14 + 139,
        "{held} bytes are lost"
    );
    let closes = whole.iter().any(|event| matches!(event, Event::Close { .. }));
    for blocks in [true, false] {
        let whole = play(&mended, mended.len().max(1), (from, settings, blocks));
        for piece in [1, usize::from(piece).max(1)] {
            let seen = play(&mended, piece, (from, settings, blocks));
            assert_eq!(seen, whole, "what goes on in pieces of {piece}");
        }
        // A control frame overtakes the fragments between which it came, and nothing follows a Close frame.
        assert!(blocks || closes || sorted(&whole) == sorted(&mended), "bytes are lost on the way");
    }
}

fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}

/// Refuses messages with a letter in them, and what cannot be read.
struct Refusing {
    blocks: bool,
}

impl Refusing {
    fn closing(&self, refuses: bool, code: u16) -> Option<Closing> {
        (refuses && self.blocks).then(|| Closing { code, reason: "no".to_owned() })
    }
}

impl Judge for Refusing {
    fn message(&mut self, _: &KeptHead, message: &SocketMessage<'_>) -> Option<Closing> {
        self.closing(message.payload.contains(&b'e'), 1008)
    }

    fn unread(&mut self, _: &KeptHead, _: MessageName, _: Unread) -> Option<Closing> {
        self.closing(true, 1002)
    }
}

/// What of a peer's bytes goes on through a socket; where nothing is refused, with what is left at the end.
fn play(bytes: &[u8], piece: usize, (from, settings, blocks): (Peer, u8, bool)) -> Vec<u8> {
    let header = |name: &'static str, value: &'static str| Header {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    let compresses = settings & 2 != 0;
    let (mut asked, mut answered) = (Vec::new(), vec![header(":status", "101")]);
    if compresses {
        asked.push(header("sec-websocket-extensions", "permessage-deflate"));
        let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        answered.push(header("sec-websocket-extensions", agreed));
    }
    let head = RequestHead {
        headers: &asked,
        protocol: None,
        end_of_stream: false,
        id: "1",
        time: Duration::ZERO,
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    };
    let limits = SocketSettings { message_bytes_max: MESSAGE_BYTES_MAX, frames_max: FRAMES_MAX };
    let mut socket = Socket::new(&head, limits, blocks, settings & 4 == 0);
    socket.offer();
    socket.answered(&answered);
    assert!(socket.is_open());
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        let passed = socket.take(from, piece, Ok(()), &mut Refusing { blocks });
        out.extend(passed.unwrap_or_else(|| piece.to_vec()));
    }
    out.extend(socket.end(from));
    out
}

/// Sets the bit of the mask as the peer has to, and makes lengths small: most inputs are frames then.
fn mend(from: Peer, bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    let mut at = 0;
    while let Some([first, second, ..]) = mended.get_mut(at..) {
        *first &= 0xcf;
        let length = *second & 0x7f;
        let length = if *first & 8 == 0 && length == 126 { 125 } else { length % 126 };
        *second = if from == Peer::Client { 0x80 } else { 0 } | length;
        at += 2 + usize::from(length) + if from == Peer::Client { 4 } else { 0 };
    }
    mended
}

/// All events. What passes of a message that is cut is one.
fn read(mut reader: Reader, bytes: &[u8], piece: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while let Some(event) = reader.read(&mut piece) {
            if let Event::Message(Message { payload, .. }) = &event {
                assert!(payload.len() <= MESSAGE_BYTES_MAX);
            }
            match (events.last_mut(), event) {
                (Some(Event::Rest(rest)), Event::Rest(more)) => rest.extend(more),
                (_, event) => events.push(event),
            }
        }
        assert!(piece.is_empty(), "a piece is not read to its end");
        assert!(reader.held_bytes() <= HELD_BYTES_MAX, "{} bytes are held", reader.held_bytes());
    }
    events
}

/// Bytes that go on with an event.
fn bytes_of(event: &Event) -> usize {
    match event {
        Event::Control(frame) | Event::Rest(frame) | Event::Close { frame, .. } => frame.len(),
        Event::Message(message) => message.frames.len(),
        Event::Fault(_) => 0,
    }
}
