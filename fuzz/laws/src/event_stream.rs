//! The law of event streams: how the bytes are cut changes nothing, nothing is lost, and what a client reads was judged.
//! The input is a byte of settings (1: rules may block), a byte that says where the input is cut, and the stream. Bytes
//! above 0x7f are line ends of all kinds, so that most inputs are events.

use core::time::Duration;

use glacis_inspector::{
    EventJudge, EventReader, EventStream, EventStreamHead, EventStreamSettings, Header, KeptHead,
    MessageName, Rejection, Reply, RequestHead, ResponseHead, StreamEvent, StreamPart,
};

/// Small, so that inputs reach it.
const EVENT_BYTES_MAX: usize = 60;

/// What is refused.
const LEAK: &[u8] = b"~";

/// Whatever a server sends, and however it is cut: the same events within the limits, every byte in one of them, and in
/// their texts whatever a client would read by the rules of WHATWG.
pub fn event_stream(input: &[u8]) {
    let Some((&[settings, piece], bytes)) = input.split_first_chunk() else { return };
    let stream = with_line_ends(bytes);
    let pieces = [1, usize::from(piece).max(1), stream.len().max(1)];
    let [one, some, whole] = pieces.map(|piece| read(&stream, piece));
    assert_eq!(one, whole, "byte by byte");
    assert_eq!(some, whole, "in pieces of {piece}");
    let passed: Vec<u8> = whole.iter().flat_map(|event| event.raw.clone()).collect();
    assert_eq!(passed, stream, "bytes are lost");
    if whole.iter().all(|event| !event.is_cut) {
        let texts = whole.iter().map(|event| &*event.text).collect::<Vec<_>>();
        for dispatched in dispatched(&stream) {
            let is_judged = texts.iter().any(|text| text.starts_with(&dispatched));
            assert!(is_judged, "a client reads {:?}", String::from_utf8_lossy(&dispatched));
        }
    }
    let blocks = settings & 1 != 0;
    let [one, some, whole] = pieces.map(|piece| play(&stream, piece, blocks));
    assert_eq!((&one, &some), (&whole, &whole), "what goes on depends on how it is cut");
    if blocks {
        assert!(stream.starts_with(&whole), "something else goes on");
    } else {
        assert_eq!(whole, stream, "where rules look on, something is changed");
    }
}

/// Has line ends take the place of bytes that are rare in text.
fn with_line_ends(bytes: &[u8]) -> Vec<u8> {
    let ends: [&[u8]; 8] =
        [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\ndata:", b"\xef\xbb\xbf"];
    let of = |byte: &u8| match byte.checked_sub(0x80) {
        Some(end) => ends[usize::from(end) % ends.len()].to_vec(),
        None => vec![*byte],
    };
    bytes.iter().flat_map(of).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    raw: Vec<u8>,
    text: Vec<u8>,
    is_cut: bool,
}

/// All events, each with what follows it.
fn read(bytes: &[u8], piece: usize) -> Vec<Seen> {
    let mut reader = EventReader::new(EVENT_BYTES_MAX);
    let mut events: Vec<Seen> = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while let Some(part) = reader.read(&mut piece) {
            match part {
                StreamPart::Event(event) => {
                    assert!(event.raw.len() <= EVENT_BYTES_MAX);
                    assert!(event.text.len() <= event.raw.len(), "a text that nobody has sent");
                    let (raw, text, is_cut) = (event.raw, event.text, event.is_cut);
                    events.push(Seen { raw, text, is_cut });
                }
                StreamPart::Rest(rest) => events.last_mut().expect("an event").raw.extend(rest),
            }
        }
        assert!(piece.is_empty(), "a piece is not read to its end");
        assert!(reader.held_bytes() <= EVENT_BYTES_MAX);
    }
    let last = reader.end();
    events.extend(last.map(|it| Seen { raw: it.raw, text: it.text, is_cut: it.is_cut }));
    events
}

/// The data that a client dispatches: the algorithm of the standard, line by line on the whole stream.
fn dispatched(stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut lines, mut line, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(&byte) = stream.get(at) {
        at += 1;
        match byte {
            b'\r' | b'\n' => {
                at += usize::from(byte == b'\r' && stream.get(at) == Some(&b'\n'));
                lines.push(core::mem::take(&mut line));
            }
            byte => line.push(byte),
        }
    }
    let (mut data, mut out) = (Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            // One line feed goes at the end; an empty buffer is no event.
            if data.pop().is_some() && !data.is_empty() {
                out.push(core::mem::take(&mut data));
            }
            data.clear();
        } else if line == b"data" || line.starts_with(b"data:") {
            let value = line.get(5..).unwrap_or_default();
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            data.push(b'\n');
        }
    }
    out
}

/// Refuses what has a tilde in it.
struct Judge {
    blocks: bool,
}

impl EventJudge for Judge {
    fn event(&mut self, _: &EventStreamHead, event: &StreamEvent<'_>) -> Option<Box<Reply>> {
        let leaks = event.text.windows(LEAK.len()).any(|part| part == LEAK);
        (leaks && self.blocks).then(refusal)
    }

    fn unread(
        &mut self,
        _: &EventStreamHead,
        _: MessageName,
        rejection: Rejection,
    ) -> Option<Box<Reply>> {
        panic!("there is room: {rejection:?}")
    }
}

fn refusal() -> Box<Reply> {
    Box::new(Reply {
        status: 403,
        action: "deny",
        headers: Vec::new(),
        body: String::new(),
        grpc_status: None,
        rule: None,
        details: String::new(),
    })
}

/// What goes on.
fn play(bytes: &[u8], piece: usize, blocks: bool) -> Vec<u8> {
    let headers: [Header<'_>; 0] = [];
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
    let response = ResponseHead { headers: &headers, end_of_stream: false };
    let settings =
        EventStreamSettings { event_bytes_max: EVENT_BYTES_MAX, events_per_second_max: u32::MAX };
    let mut stream = EventStream::new(request, (&response, 200), settings, blocks);
    let mut out = Vec::new();
    let mut pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
    pieces.push(&[]);
    let count = pieces.len();
    for (at, piece) in pieces.into_iter().enumerate() {
        let when = (Duration::from_secs(1), Ok(()));
        let passed = stream.take(piece, at + 1 == count, when, &mut Judge { blocks });
        out.extend(passed.bytes.unwrap_or_else(|| piece.to_vec()));
    }
    out
}
