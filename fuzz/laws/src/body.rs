//! Laws of the body processors. The input is a byte that chooses the processor, one that chooses the
//! limits (its lowest bit) and a content coding (the rest), the `Content-Type` up to a line end, and the
//! body.

use glacis_engine::Limits;
use glacis_engine::body::{
    BodyErrorKind, BodyScratch, BodySink, Outcome, Processor, Room, from_content_type, process,
};
use serde::de::IgnoredAny;

use crate::encoded::{CHOICES, decoding};

/// In an order that the inputs on file know.
const PROCESSORS: [Processor; 9] = [
    Processor::UrlEncoded,
    Processor::Multipart,
    Processor::Json,
    Processor::Xml,
    Processor::Raw,
    Processor::JsonLines,
    Processor::Text,
    Processor::Grpc,
    Processor::Protobuf,
];

/// Names may be repeated in what is reported up to this many bytes, whatever the length of a body.
const REPEATED_NAME_BYTES_FREE: usize = 1 << 20;

/// Whatever the body and its type: no panic, what is reported is bounded by the limits and the length of
/// the body, buffers that were used before change nothing, and nor does it that a body was compressed.
pub fn body_processors(input: &[u8]) {
    let Some((&[processor, choice], rest)) = input.split_first_chunk() else { return };
    let processor = PROCESSORS[usize::from(processor) % PROCESSORS.len()];
    let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    let (content_type, body) = rest.split_at(end);
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let _ = from_content_type(content_type);
    decoding(usize::from(choice >> 1) % CHOICES, processor, content_type, body);

    let limits = if choice.is_multiple_of(2) { Limits::default() } else { small() };
    let mut scratch = BodyScratch::default();
    let first = read(processor, content_type, body, &limits, &mut scratch);
    check(&first, processor, body, &limits);
    let again = read(processor, content_type, body, &limits, &mut scratch);
    assert_eq!(again, first, "what is in the buffers changes what is found");
    if processor == Processor::Json && !body.is_empty() {
        check_json(&first.outcome, body, &limits);
    }
}

/// Limits that a short body can reach.
fn small() -> Limits {
    Limits {
        arguments_max: 3,
        json_depth_max: 3,
        protobuf_depth_max: 3,
        xml_depth_max: 3,
        xml_nodes_max: 4,
        multipart_parts_max: 3,
        multipart_part_headers_max: 2,
        ..Limits::default()
    }
}

/// What a processor said, and how much it reported.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    outcome: Outcome,
    reported: Reported,
}

/// A sink with room for as many arguments as the limits allow.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reported {
    room: usize,
    arguments: usize,
    files: usize,
    part_headers: usize,
    xml_values: usize,
    xml_depth: usize,
    xml_depth_most: usize,
    name_bytes: usize,
    value_bytes: usize,
    /// All that was reported, in order, as a number.
    hash: u64,
}

impl Reported {
    fn note(&mut self, what: u8, name: &[u8], value: &[u8]) {
        self.name_bytes += name.len();
        self.value_bytes += value.len();
        // FNV-1a: two readings are compared by it, nothing else.
        for &byte in [&[what], name, b"=", value, b"\n"].into_iter().flatten() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl BodySink for Reported {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        if self.arguments == self.room {
            return Room::Full;
        }
        self.arguments += 1;
        self.note(b'a', name, value);
        Room::Left
    }

    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.files += 1;
        self.note(b'f', field, content);
        self.file_name(field, file_name)
    }

    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.note(b'n', field, file_name);
        Room::Left
    }

    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.part_headers += 1;
        self.note(b'h', part, line);
        Room::Left
    }

    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.xml_values += 1;
        self.note(b't', b"", text);
        Room::Left
    }

    fn xml_attribute(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.xml_values += 1;
        self.note(b'v', name, value);
        Room::Left
    }

    fn xml_open(&mut self, name: &[u8]) {
        self.xml_depth += 1;
        self.xml_depth_most = self.xml_depth_most.max(self.xml_depth);
        self.note(b'o', name, b"");
    }

    fn xml_close(&mut self) {
        assert!(self.xml_depth > 0, "an element ends that has not begun");
        self.xml_depth -= 1;
        self.note(b'c', b"", b"");
    }
}

fn read(
    processor: Processor,
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    scratch: &mut BodyScratch,
) -> Reading {
    let mut reported = Reported { room: limits.arguments_max, ..Reported::default() };
    let outcome = process(processor, content_type, body, limits, b'&', scratch, &mut reported);
    Reading { outcome, reported }
}

fn check(reading: &Reading, processor: Processor, body: &[u8], limits: &Limits) {
    let Reading { outcome, reported } = reading;
    if let Some(error) = outcome.error {
        assert!(error.offset <= body.len(), "{error:?} behind the end");
        assert!(!error.message().is_empty());
    }
    assert!(outcome.bytes_without_files <= body.len());
    let parts_max = limits.multipart_parts_max;
    at_most(reported.files, parts_max, "files");
    at_most(reported.part_headers, parts_max * limits.multipart_part_headers_max, "part headers");
    at_most(reported.xml_values, limits.xml_nodes_max, "values of XML");
    // An element that is one too deep is announced before it is known to have content.
    at_most(reported.xml_depth_most, limits.xml_depth_max + 1, "depth of XML");
    // UTF-16 becomes up to one and a half times as long, and what cannot be understood is reported
    // both in parts and as a whole; text that is no JSON after all once more, and messages within messages.
    let copies = match processor {
        Processor::Text | Processor::Grpc | Processor::Protobuf => 5,
        Processor::UrlEncoded
        | Processor::Multipart
        | Processor::Json
        | Processor::JsonLines
        | Processor::Xml
        | Processor::Raw => 4,
    };
    let free = match processor {
        // Of messages that only look like messages, an eighth of what may be looked at.
        Processor::Grpc | Processor::Protobuf => 8 << 10,
        Processor::UrlEncoded
        | Processor::Multipart
        | Processor::Json
        | Processor::JsonLines
        | Processor::Xml
        | Processor::Text
        | Processor::Raw => 0,
    };
    at_most(reported.value_bytes, copies * body.len() + free, "bytes of values");
    at_most(reported.name_bytes, 8 * body.len() + REPEATED_NAME_BYTES_FREE, "bytes of names");
    if processor == Processor::Raw {
        assert_eq!(reported.hash, 0, "a raw body is not read");
    }
}

fn at_most(count: usize, max: usize, what: &str) {
    assert!(count <= max, "{count} {what}, more than {max}");
}

/// A second opinion: what a strict reader takes for JSON is no error here, and the other way round.
fn check_json(outcome: &Outcome, body: &[u8], limits: &Limits) {
    let limited = outcome.error.is_some_and(|error| {
        matches!(
            error.kind,
            BodyErrorKind::ArgumentsFull | BodyErrorKind::JsonDepth | BodyErrorKind::JsonNames
        )
    });
    // A byte order mark is skipped here and refused there, and so is what is deeper than its limit.
    if limited || body.starts_with(b"\xef\xbb\xbf") || limits.json_depth_max > 128 {
        return;
    }
    let strict = serde_json::from_slice::<IgnoredAny>(body);
    let is_deep = strict.as_ref().is_err_and(|error| error.to_string().contains("recursion"));
    if !is_deep {
        assert_eq!(outcome.error.is_none(), strict.is_ok(), "{:?} and {strict:?}", outcome.error);
    }
}
