//! The law of WebSockets: how the bytes of a peer are cut changes nothing, and nothing is lost. The input is a byte of
//! settings (1: a server sends, 2: messages may be compressed, 4: larger messages are cut, 8: lengths are made right), a
//! byte that says where the input is cut, and the bytes that a peer sends.

use glacis_inspector::{Event, Message, Peer, Reader, ReaderLimits};

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
