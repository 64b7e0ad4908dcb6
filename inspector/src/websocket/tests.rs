//! Frames in, events out; each case whole, byte by byte and in pieces.

use std::io::Write as _;

use flate2::{Compress, Compression, FlushCompress, write::DeflateEncoder};

use super::{Event, Fault, Kind, Message, Peer, Reader, ReaderLimits, close_frame};

const LIMITS: ReaderLimits = ReaderLimits { message_bytes_max: 64, frames_max: 4, cuts: false };
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame of a client.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, 0x80, payload.len());
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A frame of a server.
fn plain(first: u8, payload: &[u8]) -> Vec<u8> {
    [head(first, 0, payload.len()), payload.to_vec()].concat()
}

fn head(first: u8, mask: u8, bytes: usize) -> Vec<u8> {
    match bytes {
        0..126 => vec![first, mask | u8::try_from(bytes).unwrap()],
        126..65_536 => {
            [&[first, mask | 126], &u16::try_from(bytes).unwrap().to_be_bytes()[..]].concat()
        }
        _ => [&[first, mask | 127], &(bytes as u64).to_be_bytes()[..]].concat(),
    }
}

/// A message compressed by itself (RFC 7692, 7.2.1).
fn deflated(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut compress = Compress::new(Compression::default(), false);
    compress.compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
    assert!(out.ends_with(&[0, 0, 0xff, 0xff]));
    out.truncate(out.len() - 4);
    out
}

/// All events, with what passes of a cut message as one, and bytes held at the end.
fn read(mut reader: Reader, input: &[u8], piece: usize) -> (Vec<Event>, usize) {
    let mut events: Vec<Event> = Vec::new();
    for mut piece in input.chunks(piece) {
        while let Some(event) = reader.read(&mut piece) {
            match (events.last_mut(), event) {
                (Some(Event::Rest(rest)), Event::Rest(more)) => rest.extend(more),
                (_, event) => events.push(event),
            }
        }
        assert!(piece.is_empty());
    }
    (events, reader.held_bytes())
}

#[track_caller]
fn check_as(from: Peer, limits: ReaderLimits, input: &[u8], expected: &[Event]) {
    let reader = || Reader::new(from, true, limits);
    for piece in [input.len().max(1), 1, 2, 3, 7, 64] {
        let (events, _) = read(reader(), input, piece);
        assert_eq!(events, expected, "in pieces of {piece}");
    }
}

#[track_caller]
fn check(input: &[u8], expected: &[Event]) {
    check_as(Peer::Client, LIMITS, input, expected);
}

fn text(payload: &str, frames: &[u8]) -> Event {
    message(Kind::Text, payload.as_bytes(), frames)
}

fn message(kind: Kind, payload: &[u8], frames: &[u8]) -> Event {
    let (payload, frames) = (payload.to_vec(), frames.to_vec());
    Event::Message(Message { kind, payload, frames, is_cut: false })
}

#[test]
fn messages() {
    let hello = masked(0x81, b"Hello");
    // RFC 6455, 5.7.
    assert_eq!(hello, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    check(&hello, &[text("Hello", &hello)]);
    let server = plain(0x81, b"Hello");
    check_as(Peer::Server, LIMITS, &server, &[text("Hello", &server)]);
    let two = [&hello[..], &hello].concat();
    check(&two, &[text("Hello", &hello), text("Hello", &hello)]);
    let bytes = masked(0x82, b"\xff\x00");
    check(&bytes, &[message(Kind::Binary, b"\xff\x00", &bytes)]);
    let empty = masked(0x81, b"");
    check(&empty, &[text("", &empty)]);
}

#[test]
fn fragments_with_control_frames_between() {
    let (one, two, three) = (masked(0x01, b"H\xc3"), masked(0x00, b""), masked(0x80, b"\xa4"));
    let (ping, pong) = (masked(0x89, b"are you there"), masked(0x8a, b""));
    let close = masked(0x88, b"\x03\xe8bye");
    let input = [&one[..], &ping, &two, &pong, &three, &close, &one].concat();
    check(
        &input,
        &[
            Event::Control(ping),
            Event::Control(pong),
            text("H\u{e4}", &[one, two, three].concat()),
            Event::Close { frame: close, code: Some(1000), reason: "bye".to_owned() },
        ],
    );
}

#[test]
fn lengths() {
    let limits = ReaderLimits { message_bytes_max: 70_000, ..LIMITS };
    for bytes in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        let payload = "a".repeat(bytes);
        let frame = masked(0x81, payload.as_bytes());
        check_as(Peer::Client, limits, &frame, &[text(&payload, &frame)]);
    }
}

#[test]
fn faults() {
    let compressed = |payload: &[u8]| masked(0xc1, payload);
    let (hello, end) = (masked(0x01, b"Hello"), masked(0x80, b"!"));
    for (name, input, fault) in [
        ("no mask", plain(0x81, b"Hello"), Fault::Mask),
        ("second bit", masked(0xa1, b"Hello"), Fault::ReservedBits),
        ("third bit", masked(0x91, b"Hello"), Fault::ReservedBits),
        ("compressed ping", masked(0xc9, b""), Fault::ReservedBits),
        ("compressed continuation", [&hello[..], &masked(0xc0, b"")].concat(), Fault::ReservedBits),
        ("opcode 3", masked(0x83, b""), Fault::Opcode),
        ("opcode 11", masked(0x8b, b""), Fault::Opcode),
        ("16 bits for 125", [&[0x81, 0xfe, 0, 125], &MASK[..]].concat(), Fault::Length),
        (
            "64 bits for 65535",
            [&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], &MASK[..]].concat(),
            Fault::Length,
        ),
        (
            "highest bit",
            [&[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0], &MASK[..]].concat(),
            Fault::Length,
        ),
        ("fragmented ping", masked(0x09, b""), Fault::Control),
        ("long ping", masked(0x89, &[0; 126]), Fault::Control),
        ("no beginning", end, Fault::Sequence),
        ("a message within", [&hello[..], &masked(0x81, b"")].concat(), Fault::Sequence),
        ("one byte of a code", masked(0x88, b"\x03"), Fault::CloseCode),
        ("code 999", masked(0x88, b"\x03\xe7"), Fault::CloseCode),
        ("code 1005", masked(0x88, b"\x03\xed"), Fault::CloseCode),
        ("code 1006", masked(0x88, b"\x03\xee"), Fault::CloseCode),
        ("code 5000", masked(0x88, b"\x13\x88"), Fault::CloseCode),
        ("reason", masked(0x88, b"\x03\xe8\xff"), Fault::Utf8),
        ("text", masked(0x81, b"a\xff"), Fault::Utf8),
        ("half a character", masked(0x81, b"a\xc3"), Fault::Utf8),
        ("no deflate", compressed(b"\xff\xff\xff"), Fault::Deflate),
        ("a distance to before", compressed(&[0x4b, 0x04, 0x22, 0x00]), Fault::Deflate),
        ("one byte too long", masked(0x81, &[b'a'; 65]), Fault::MessageTooLong),
        (
            "one byte too long in fragments",
            [masked(0x01, &[b'a'; 64]), masked(0x80, b"a")].concat(),
            Fault::MessageTooLong,
        ),
        ("one byte too much", compressed(&deflated(&[b'a'; 65])), Fault::MessageTooLong),
        ("a gigabyte", head(0x82, 0x80, 1 << 30), Fault::MessageTooLong),
        (
            "one fragment too many",
            [hello.clone(), masked(0x00, b"").repeat(3), masked(0x80, b"")].concat(),
            Fault::TooManyFrames,
        ),
    ] {
        let input = if name == "a gigabyte" { [input, MASK.to_vec()].concat() } else { input };
        for piece in [input.len(), 1, 3] {
            let reader = Reader::new(Peer::Client, true, LIMITS);
            let (events, _) = read(reader, &[&input[..], &hello].concat(), piece);
            assert_eq!(events, [Event::Fault(fault)], "{name} in pieces of {piece}");
        }
    }
    let masked_server = Reader::new(Peer::Server, true, LIMITS);
    assert_eq!(read(masked_server, &hello, 1).0, [Event::Fault(Fault::Mask)]);
    let no_extension = Reader::new(Peer::Client, false, LIMITS);
    let (events, _) = read(no_extension, &masked(0xc1, b""), 9);
    assert_eq!(events, [Event::Fault(Fault::ReservedBits)]);
    // At the limits.
    let most = masked(0x81, &[b'a'; 64]);
    check(&most, &[text(&"a".repeat(64), &most)]);
    let four = [masked(0x01, b"a"), masked(0, b"").repeat(2), masked(0x80, b"b")].concat();
    check(&four, &[text("ab", &four)]);
}

#[test]
fn compressed_messages() {
    let limits = ReaderLimits { message_bytes_max: 4 << 10, ..LIMITS };
    let json = br#"{"name":"value","other":"value"}"#.repeat(20);
    let small = deflated(&json);
    let whole = masked(0xc1, &small);
    let json = String::from_utf8(json).unwrap();
    check_as(Peer::Client, limits, &whole, &[text(&json, &whole)]);
    let (first, second) = small.split_at(9);
    let parts = [masked(0x41, first), masked(0x89, b""), masked(0x80, second)].concat();
    let frames = [masked(0x41, first), masked(0x80, second)].concat();
    let expected = [Event::Control(masked(0x89, b"")), text(&json, &frames)];
    check_as(Peer::Client, limits, &parts, &expected);
    // Twice the same: nothing is left of the first.
    let twice = whole.repeat(2);
    check_as(Peer::Client, limits, &twice, &[text(&json, &whole), text(&json, &whole)]);
    // RFC 7692, 7.2.3.
    for hello in [
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
        &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
    ] {
        let frame = masked(0xc1, hello);
        check(&frame, &[text("Hello", &frame)]);
    }
    // Something behind a final block, which some decompressors read and others do not.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"Hello").unwrap();
    let ended = encoder.finish().unwrap();
    let frame = masked(0xc1, &[&ended[..], &deflated(b"attack")].concat());
    check(&frame, &[Event::Fault(Fault::Deflate)]);
    // A compressor that goes on with its window: the second message is made of distances to the first.
    let mut compress = Compress::new(Compression::default(), false);
    let mut goes_on = || {
        let mut out = Vec::with_capacity(256);
        let text = b"an attack that both messages have in common";
        compress.compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
        out.truncate(out.len() - 4);
        masked(0xc1, &out)
    };
    let (first, second) = (goes_on(), goes_on());
    assert!(second.len() < first.len() / 2);
    check(
        &[&first[..], &second].concat(),
        &[
            text("an attack that both messages have in common", &first),
            Event::Fault(Fault::Deflate),
        ],
    );
    // At the limit, and a megabyte of zeros in a kilobyte.
    let frame = masked(0xc1, &deflated(&[b'a'; 64]));
    check(&frame, &[text(&"a".repeat(64), &frame)]);
    let bomb = masked(0xc2, &deflated(&vec![0; 1 << 20]));
    check_as(Peer::Client, limits, &bomb, &[Event::Fault(Fault::MessageTooLong)]);
    let not_text = masked(0xc1, &deflated(b"a\xff"));
    check(&not_text, &[Event::Fault(Fault::Utf8)]);
}

/// Where larger messages are cut, the beginning is an event, and what comes then passes.
#[test]
fn messages_that_are_cut() {
    let cuts = ReaderLimits { cuts: true, ..LIMITS };
    let hello = masked(0x81, b"Hello");
    let cut = |payload: &[u8], frames: &[u8]| {
        let (payload, frames) = (payload.to_vec(), frames.to_vec());
        Event::Message(Message { kind: Kind::Text, payload, frames, is_cut: true })
    };
    let (long, ping) = (masked(0x01, &[b'a'; 100]), masked(0x89, b"x"));
    let (more, end) = (masked(0x00, b"more"), masked(0x80, b"end"));
    let input = [&long[..], &more, &ping, &end, &hello].concat();
    check_as(
        Peer::Client,
        cuts,
        &input,
        &[
            cut(&[b'a'; 64], &long[..6 + 64]),
            Event::Rest([&long[6 + 64..], &more].concat()),
            Event::Control(ping),
            Event::Rest(end),
            text("Hello", &hello),
        ],
    );
    // The beginning of a character is no error there.
    let long = masked(0x81, &[&[b'a'; 63][..], "\u{e4}".as_bytes(), b"b"].concat());
    let expected = [
        cut(&[&[b'a'; 63][..], b"\xc3"].concat(), &long[..6 + 64]),
        Event::Rest(long[6 + 64..].to_vec()),
    ];
    check_as(Peer::Client, cuts, &long, &expected);
    let small = masked(0xc1, &deflated(&[b'a'; 100]));
    check_as(
        Peer::Client,
        cuts,
        &[&small[..], &hello].concat(),
        &[cut(&[b'a'; 64], &small), text("Hello", &hello)],
    );
    let many = [masked(0x01, b"a"), masked(0x00, b"b").repeat(4), masked(0x80, b"c")].concat();
    let (frames, rest) = many.split_at(4 * 7 + 6);
    check_as(Peer::Client, cuts, &many, &[cut(b"abbb", frames), Event::Rest(rest.to_vec())]);
}

/// What nobody acts on passes as it came.
#[test]
fn what_is_held_is_given_back() {
    let (begin, ping) = (masked(0x01, b"Hel"), masked(0x89, b"x"));
    for (wrong, left) in [
        (vec![0xf1, 0x85], vec![]),
        (masked(0x81, b"abc"), b"abc".iter().zip(MASK).map(|(byte, mask)| byte ^ mask).collect()),
    ] {
        let mut reader = Reader::new(Peer::Client, false, LIMITS);
        let input = [&begin[..], &ping, &wrong].concat();
        let mut rest = &input[..];
        assert_eq!(reader.read(&mut rest), Some(Event::Control(ping.clone())));
        assert!(matches!(reader.read(&mut rest), Some(Event::Fault(_))));
        assert_eq!(rest, left);
        let held = reader.take_held();
        assert_eq!([&held[..], rest].concat(), [&begin[..], &wrong].concat());
        assert!(reader.take_held().is_empty());
    }
}

#[test]
fn idle_readers_hold_nothing() {
    let mut reader = Reader::new(Peer::Client, true, LIMITS);
    let input = [masked(0xc1, &deflated(b"Hello")), masked(0x89, b"x")].concat();
    let mut rest = &input[..];
    while reader.read(&mut rest).is_some() {}
    assert_eq!(reader.held_bytes(), 0);
    assert!(size_of::<Reader>() <= 192, "{}", size_of::<Reader>());
}

#[test]
fn close_frames() {
    for from in [Peer::Client, Peer::Server] {
        for (reason, expected) in
            [("", ""), ("no", "no"), (&*"\u{e4}".repeat(70), &*"\u{e4}".repeat(61))]
        {
            let frame = close_frame(from, 1008, reason);
            let (code, reason) = (Some(1008), expected.to_owned());
            let expected = [Event::Close { frame: frame.clone(), code, reason }];
            check_as(from, LIMITS, &frame, &expected);
        }
    }
    assert_eq!(close_frame(Peer::Server, 1008, "x"), [0x88, 3, 0x03, 0xf0, b'x']);
    for fault in Fault::ALL {
        assert_eq!(fault.is_limit(), fault.close_code() == 1009, "{fault:?}");
    }
}
