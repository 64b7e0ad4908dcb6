//! What of the bytes of both peers goes on, and which Close frames they get.

use super::*;
use crate::{
    request::ResponseHead,
    websocket::{Peer::Client, Peer::Server},
};

/// Refuses messages with `bad` in them, and what cannot be read, if it may block.
struct Judged {
    blocks: bool,
    seen: Vec<String>,
}

impl Judge for Judged {
    fn message(&mut self, _: &KeptHead, message: &SocketMessage<'_>) -> Option<Closing> {
        let text = String::from_utf8_lossy(message.payload);
        self.seen.push(format!("{} {text}", message.name));
        self.closing(text.contains("bad"), 1008)
    }

    fn unread(&mut self, _: &KeptHead, name: MessageName, unread: Unread) -> Option<Closing> {
        self.seen.push(format!("{name} {unread:?}"));
        self.closing(true, 1002)
    }
}

impl Judged {
    fn closing(&self, refuses: bool, code: u16) -> Option<Closing> {
        (refuses && self.blocks).then(|| Closing { code, reason: "r".to_owned() })
    }
}

/// An open socket.
fn open(blocks: bool) -> (Socket, Judged) {
    let headers = [Header { name: b":path", value: b"/" }];
    let head = RequestHead {
        headers: &headers,
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
    let settings = SocketSettings { message_bytes_max: 200, frames_max: 3 };
    let mut socket = Socket::new(&head, settings, blocks, true);
    let answer = [Header { name: b":status", value: b"101" }];
    let answer = ResponseHead { headers: &answer, end_of_stream: false };
    assert_eq!(socket.answered(answer.headers), Switch::Switched(HeaderChange::Keep));
    (socket, Judged { blocks, seen: Vec::new() })
}

/// A frame of a server, or of a client with a mask of zeros.
fn frame(from: Peer, first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    match from {
        Client => [&[first, 0x80 | length, 0, 0, 0, 0], payload].concat(),
        Server => [&[first, length], payload].concat(),
    }
}

fn text(from: Peer, payload: &str) -> Vec<u8> {
    frame(from, 0x81, payload.as_bytes())
}

fn close(from: Peer, code: u16) -> Vec<u8> {
    close_frame(from, code, "r")
}

/// What goes on of what a peer sends, in pieces of one size.
fn sent(
    socket: &mut Socket,
    judge: &mut Judged,
    from: Peer,
    bytes: &[u8],
    piece: usize,
) -> Vec<u8> {
    let take =
        |piece: &[u8]| socket.take(from, piece, Ok(()), judge).unwrap_or_else(|| piece.to_vec());
    bytes.chunks(piece).flat_map(take).collect()
}

/// How the bytes are cut changes nothing of what goes on.
#[test]
fn messages_go_on_and_refused_ones_are_closed() {
    let ping = |from| frame(from, 0x89, b"p");
    for from in [Client, Server] {
        let good = [text(from, "a"), ping(from), text(from, "b")].concat();
        let refused = [text(from, "a"), text(from, "bad"), text(from, "c"), ping(from)].concat();
        let fragments = [frame(from, 0x01, b"b"), ping(from), frame(from, 0x80, b"ad")].concat();
        let malformed = [text(from, "a"), frame(from, 0x83, b"x"), text(from, "c")].concat();
        for (bytes, blocks, expected) in [
            (&good, true, good.clone()),
            (&refused, true, [text(from, "a"), close(from, 1008)].concat()),
            (&fragments, true, [ping(from), close(from, 1008)].concat()),
            (&malformed, true, [text(from, "a"), close(from, 1002)].concat()),
            (&refused, false, refused.clone()),
            (&malformed, false, malformed.clone()),
        ] {
            for piece in 1..=bytes.len() {
                let (mut socket, mut judge) = open(blocks);
                let seen = sent(&mut socket, &mut judge, from, bytes, piece);
                assert_eq!(seen, expected, "{from:?} {blocks} in pieces of {piece}");
                assert_eq!(socket.is_refused(), blocks && *bytes != good);
            }
        }
    }
}

/// The other peer gets its Close frame in the place of what would be sent to it next, and nothing more.
#[test]
fn both_peers_are_closed_once() {
    for (from, other) in [(Client, Server), (Server, Client)] {
        let (mut socket, mut judge) = open(true);
        let refused = sent(&mut socket, &mut judge, from, &text(from, "bad"), 100);
        assert_eq!(refused, close(from, 1008));
        let more = sent(&mut socket, &mut judge, other, &text(other, "more"), 100);
        assert_eq!(more, close(other, 1008));
        for (from, bytes) in [(from, text(from, "x")), (other, frame(other, 0x88, b"\x03\xf0"))] {
            assert_eq!(sent(&mut socket, &mut judge, from, &bytes, 100), b"", "{from:?}");
        }
        assert_eq!(judge.seen.len(), 1, "{:?}", judge.seen);
    }
}

/// A host that can send at any time answers a Close frame of the client with its own code, whatever the server sends.
#[test]
fn the_client_is_answered_with_its_own_code() {
    let ends = |from, code: u16| frame(from, 0x88, &code.to_be_bytes());
    for (server_first, expected) in [(false, Some(1001)), (true, None)] {
        let (mut socket, mut judge) = open(true);
        // Nothing can be sent to the client before the server has sent something.
        assert_eq!(socket.answer(Client), None);
        sent(&mut socket, &mut judge, Server, &text(Server, "a"), 100);
        if server_first {
            sent(&mut socket, &mut judge, Server, &ends(Server, 1000), 100);
        }
        sent(&mut socket, &mut judge, Client, &ends(Client, 1001), 100);
        let answer = socket.answer(Client);
        assert_eq!(answer, expected.map(|code| close_frame(Server, code, "")), "{server_first}");
        assert_eq!(socket.answer(Client), None, "once");
        assert_eq!(socket.client_code, Some(1001));
    }
    // A Close frame of the server after that of the client does not take its code.
    let (mut socket, mut judge) = open(true);
    sent(&mut socket, &mut judge, Client, &ends(Client, 1001), 100);
    sent(&mut socket, &mut judge, Server, &ends(Server, 1000), 100);
    assert_eq!(socket.client_code, Some(1001));
}

#[test]
fn no_room_and_no_end() {
    let none = Err(Rejection::BodyOverflow);
    let (bytes, half) = (text(Client, "a"), &text(Client, "a")[..4]);
    for blocks in [true, false] {
        let (mut socket, mut judge) = open(blocks);
        let seen = socket.take(Client, &bytes, none, &mut judge);
        assert_eq!(seen, blocks.then(|| close(Client, 1002)));
        // What is left of a frame goes on only where rules look on.
        let (mut socket, mut judge) = open(blocks);
        sent(&mut socket, &mut judge, Client, half, 100);
        assert_eq!(socket.end(Client), if blocks { Vec::new() } else { half.to_vec() });
    }
}

/// Binary messages reach rules with spaces in the place of zero bytes, and go on as they came.
#[test]
fn bytes_and_reasons_are_judged() {
    let (mut socket, mut judge) = open(true);
    let binary = frame(Client, 0x82, b"a\0b");
    assert_eq!(sent(&mut socket, &mut judge, Client, &binary, 100), binary);
    let reason = frame(Client, 0x88, b"\x03\xe8bad");
    assert_eq!(sent(&mut socket, &mut judge, Client, &reason, 100), close(Client, 1008));
    assert_eq!(judge.seen, ["client 1 a b", "client 2 bad"]);
}
