//! Streams, what is judged of them, and what goes on.

use super::*;
use crate::request::RequestHead;

/// What a stream returns in pieces of one size, with the rests joined to what they belong to.
fn read(bytes: &[u8], bytes_max: usize, piece: usize) -> Vec<(String, String, bool)> {
    let mut reader = EventReader::new(bytes_max);
    let mut out: Vec<(String, String, bool)> = Vec::new();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let event = |EventBlock { raw, text: data, is_cut }| (text(raw), text(data), is_cut);
    for mut piece in bytes.chunks(piece) {
        while let Some(part) = reader.read(&mut piece) {
            match part {
                StreamPart::Event(block) => out.push(event(block)),
                StreamPart::Rest(rest) => out.last_mut().unwrap().0 += &text(rest),
            }
        }
        assert!(piece.is_empty() && reader.held_bytes() <= bytes_max);
    }
    out.extend(reader.end().map(event));
    out
}

#[track_caller]
fn check(stream: &str, expected: &[(&str, &str)]) {
    for piece in 1..=stream.len() {
        let seen = read(stream.as_bytes(), 1_000, piece);
        let seen: Vec<_> = seen.iter().map(|(raw, text, _)| (&**raw, &**text)).collect();
        assert_eq!(seen, expected, "{stream:?} in pieces of {piece}");
    }
}

#[test]
fn fields_and_line_ends() {
    check("data: a\n\n", &[("data: a\n\n", "a")]);
    check("data:a\n\ndata:  b\n\n", &[("data:a\n\n", "a"), ("data:  b\n\n", " b")]);
    check("data: a\ndata\ndata:b\n\n", &[("data: a\ndata\ndata:b\n\n", "a\n\nb")]);
    check("data: a\r\ndata: b\r\n\r\n", &[("data: a\r\ndata: b\r\n\r\n", "a\nb")]);
    check("data: a\r\rdata: b\r\r", &[("data: a\r\r", "a"), ("data: b\r\r", "b")]);
    check("data: a\n\r\ndata: b\r\n\n", &[("data: a\n\r\n", "a"), ("data: b\r\n\n", "b")]);
    check(
        "event: add\nid: 7\ndata: a\nretry: 10\n\n",
        &[("event: add\nid: 7\ndata: a\nretry: 10\n\n", "a\nadd\n7")],
    );
    check(
        ": note\nretry: 1x\nother: b\nalone\n\n",
        &[(": note\nretry: 1x\nother: b\nalone\n\n", "note\nretry: 1x\nother: b\nalone")],
    );
    check(
        ":\n\nid\n\nretry:\n\n\n",
        &[(":\n\n", ""), ("id\n\n", ""), ("retry:\n\n", ""), ("\n", "")],
    );
    // The mark goes at the beginning of the stream only.
    let stream = "\u{feff}data: a\n\n\u{feff}data: b\n\n";
    check(stream, &[("\u{feff}data: a\n\n", "a"), ("\u{feff}data: b\n\n", "\u{feff}data: b")]);
    check("\u{feff}\ndata: a\n\n", &[("\u{feff}\n", ""), ("data: a\n\n", "a")]);
    // Without its blank line.
    check("data: a\n\ndata: b\n", &[("data: a\n\n", "a"), ("data: b\n", "b")]);
    check("data: b", &[("data: b", "b")]);
    check("", &[]);
}

#[test]
fn an_event_at_the_limit_and_one_byte_above() {
    for (data, is_cut) in [(92, false), (93, true), (94, true), (300, true)] {
        for end in ["\n\n", "\r\r", "\n\r\n"] {
            let stream = format!("data: {}{end}data: b\n\n", "a".repeat(data));
            for piece in [1, 7, stream.len()] {
                let seen = read(stream.as_bytes(), 100, piece);
                let texts: Vec<_> = seen.iter().map(|it| (it.1.len(), it.2)).collect();
                assert_eq!(texts, [(data.min(94), is_cut), (1, false)], "{data} {end:?} {piece}");
                let raw: String = seen.into_iter().map(|it| it.0).collect();
                assert_eq!(raw, stream);
            }
        }
    }
}

/// Refuses events with `leak` in them, and what cannot be read if it may block.
struct Judged {
    blocks: bool,
    seen: Vec<String>,
}

fn reply() -> Option<Box<Reply>> {
    Some(Box::new(Reply {
        status: 403,
        action: "deny",
        headers: Vec::new(),
        body: String::new(),
        grpc_status: None,
        rule: None,
        details: String::new(),
    }))
}

impl EventJudge for Judged {
    fn event(&mut self, _: &EventStreamHead, event: &StreamEvent<'_>) -> Option<Box<Reply>> {
        let text = String::from_utf8_lossy(event.text);
        self.seen.push(format!("{} {text}", event.name));
        (self.blocks && text.contains("leak")).then(reply).flatten()
    }

    fn unread(
        &mut self,
        _: &EventStreamHead,
        name: MessageName,
        rejection: Rejection,
    ) -> Option<Box<Reply>> {
        self.seen.push(format!("{name} {}", rejection.name()));
        self.blocks.then(reply).flatten()
    }
}

fn stream(blocks: bool) -> (EventStream, Judged) {
    let headers = [Header { name: b":path", value: b"/" }];
    let request = KeptHead::new(&RequestHead {
        headers: &headers,
        protocol: None,
        end_of_stream: true,
        id: "1",
        time: Duration::ZERO,
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    });
    let settings = EventStreamSettings { event_bytes_max: 1_000, events_per_second_max: 3 };
    let response = ResponseHead { headers: &headers, end_of_stream: false };
    let stream = EventStream::new(request, (&response, 200), settings, blocks);
    (stream, Judged { blocks, seen: Vec::new() })
}

/// The pieces that go on, each with whether the response ends after it, and what was judged.
fn play(
    blocks: bool,
    pieces: &[(u64, &str, Result<(), Rejection>)],
) -> (Vec<(String, bool)>, Vec<String>) {
    let (mut stream, mut judge) = stream(blocks);
    let passed = pieces.iter().enumerate().map(|(at, (second, piece, room))| {
        let ends = at + 1 == pieces.len();
        let when = Duration::from_millis(second * 1_000 + 500);
        let passed = stream.take(piece.as_bytes(), ends, (when, *room), &mut judge);
        let bytes = passed.bytes.unwrap_or_else(|| piece.as_bytes().to_vec());
        (String::from_utf8(bytes).unwrap(), passed.refused.is_some())
    });
    (passed.collect(), judge.seen)
}

#[track_caller]
fn passes(blocks: bool, pieces: &[&str], expected: &[(&str, bool)]) {
    let pieces: Vec<_> = pieces.iter().map(|piece| (0, *piece, Ok(()))).collect();
    let (seen, _) = play(blocks, &pieces);
    let seen: Vec<_> = seen.iter().map(|(bytes, ends)| (&**bytes, *ends)).collect();
    assert_eq!(seen, expected, "{pieces:?}");
}

#[test]
fn an_event_goes_on_with_its_last_byte_and_nothing_after_a_refused_one() {
    let (leak, more) = ("data: leak\n\n", "data: b\n\n");
    passes(
        true,
        &["data: a\n", "\ndata", ": b\n\n"],
        &[("", false), ("data: a\n\n", false), ("data: b\n\n", false)],
    );
    passes(
        true,
        &["data: a\r\n\r", "\n", "x"],
        &[("data: a\r\n\r", false), ("\n", false), ("x", false)],
    );
    passes(true, &[leak, more], &[("", true), ("", false)]);
    let before = format!("{more}{leak}{more}");
    passes(true, &[&before, more], &[(more, true), ("", false)]);
    // Without its end, at the end.
    passes(true, &["data: a\n\n", "data: leak"], &[("data: a\n\n", false), ("", true)]);
    passes(false, &[&before, leak], &[(&before, false), (leak, false)]);
}

#[test]
fn events_in_a_second_at_the_limit_and_one_above() {
    let event = "data: a\n\n";
    let three = event.repeat(3);
    let four = event.repeat(4);
    let (passed, seen) = play(true, &[(5, &three, Ok(())), (6, &three, Ok(())), (7, "", Ok(()))]);
    assert!(passed.iter().all(|(_, ends)| !ends) && seen.len() == 6, "{seen:?}");
    let (passed, seen) = play(true, &[(5, &four, Ok(())), (6, event, Ok(()))]);
    assert_eq!(passed, [(three, true), (String::new(), false)]);
    assert_eq!(seen[3], "event 4 event_rate");
    // Where rules look on, the rest passes.
    let (passed, seen) = play(false, &[(5, &four, Ok(())), (6, event, Ok(()))]);
    assert_eq!(passed, [(four, false), (event.to_owned(), false)]);
    assert_eq!((seen.len(), &*seen[3]), (4, "event 4 event_rate"));
    // Nothing is in these, and they cost no evaluation.
    let (passed, seen) = play(true, &[(5, &":\n\n".repeat(50), Ok(()))]);
    assert!(!passed[0].1 && seen.is_empty());
}

#[test]
fn no_room_for_an_event() {
    let none = Err(Rejection::BodyOverflow);
    let (passed, _) = play(true, &[(0, "data: a", Ok(())), (0, "b\n\n", none), (0, "c", Ok(()))]);
    assert_eq!(passed, [(String::new(), false), (String::new(), true), (String::new(), false)]);
    let (passed, _) = play(false, &[(0, "data: a", Ok(())), (0, "b\n\n", none), (0, "c", Ok(()))]);
    let expected = ["", "data: ab\n\n", "c"].map(|bytes| (bytes.to_owned(), false));
    assert_eq!(passed, expected);
}
