//! Each row is a body and everything that its processor says about it, as lines of text:
//! `a name=value` an argument, `f field/name=content` a file, `n field/name` a further name of a file,
//! `h part|line` a part's header, `t` an XML text, `@` an XML attribute, `%` invalid escapes,
//! `? …` the multipart flags, `! …` the error. Bytes are escaped as in Rust's byte strings.

mod graphql;
mod hostile;
mod json;
mod multipart;
mod protobuf;
mod text;
mod urlencoded;
mod xml;

use std::fmt::Write as _;

use super::{
    BodyScratch, BodySink, Outcome, Processor, Room, UnmatchedBoundary, from_content_type, process,
};
use crate::limits::Limits;

/// Writes down what it is given.
struct Recorder {
    text: String,
    /// Calls it takes before it is full.
    room: usize,
    /// Bytes it was given.
    bytes: usize,
}

impl Recorder {
    fn new(room: usize) -> Self {
        Self { text: String::new(), room, bytes: 0 }
    }

    fn record(&mut self, mark: &str, parts: &[(&str, &[u8])]) -> Room {
        let Some(room) = self.room.checked_sub(1) else { return Room::Full };
        self.room = room;
        self.text.push_str(mark);
        for (before, bytes) in parts {
            self.bytes += bytes.len();
            write!(self.text, "{before}{}", bytes.escape_ascii()).unwrap();
        }
        self.text.push('\n');
        Room::Left
    }
}

impl BodySink for Recorder {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.record("a", &[(" ", name), ("=", value)])
    }
    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.record("f", &[(" ", field), ("/", file_name), ("=", content)])
    }
    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.record("n", &[(" ", field), ("/", file_name)])
    }
    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.record("h", &[(" ", part), ("|", line)])
    }
    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.record("t", &[(" ", text)])
    }
    fn xml_attribute(&mut self, _name: &[u8], value: &[u8]) -> Room {
        self.record("@", &[(" ", value)])
    }
}

/// Counts without keeping, for bodies that are too large to write down.
#[derive(Default)]
struct Counter {
    bytes: usize,
    calls: usize,
    calls_max: usize,
}

impl Counter {
    fn count(&mut self, bytes: usize) -> Room {
        if self.calls >= self.calls_max {
            return Room::Full;
        }
        self.calls += 1;
        self.bytes += bytes;
        Room::Left
    }
}

impl BodySink for Counter {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.count(name.len() + value.len())
    }
    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.count(field.len() + file_name.len() + content.len())
    }
    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.count(field.len() + file_name.len())
    }
    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.count(part.len() + line.len())
    }
    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.count(text.len())
    }
    fn xml_attribute(&mut self, _name: &[u8], value: &[u8]) -> Room {
        self.count(value.len())
    }
}

/// Small enough for rows to reach them.
fn small_limits() -> Limits {
    Limits {
        json_depth_max: 4,
        protobuf_depth_max: 4,
        xml_depth_max: 4,
        xml_nodes_max: 8,
        xml_elements_max: 16,
        multipart_parts_max: 4,
        multipart_part_headers_max: 3,
        ..Limits::default()
    }
}

fn flags(outcome: &Outcome) -> Vec<&'static str> {
    let flags = &outcome.multipart;
    let names = [
        (flags.boundary_quoted, "boundary_quoted"),
        (flags.boundary_whitespace, "boundary_whitespace"),
        (flags.data_before, "data_before"),
        (flags.data_after, "data_after"),
        (flags.header_folding, "header_folding"),
        (flags.invalid_header_folding, "invalid_header_folding"),
        (flags.lf_line, "lf_line"),
        (flags.crlf_lf_lines(), "crlf_lf_lines"),
        (flags.missing_semicolon, "missing_semicolon"),
        (flags.invalid_quoting, "invalid_quoting"),
        (flags.invalid_part, "invalid_part"),
        (flags.file_limit_exceeded, "file_limit_exceeded"),
        (flags.unmatched_boundary == UnmatchedBoundary::Unresolved, "unmatched_boundary=1"),
        (flags.unmatched_boundary == UnmatchedBoundary::Resolved, "unmatched_boundary=2"),
        (flags.strict_error(), "strict"),
    ];
    names.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

fn describe(processor: Processor, content_type: &str, body: &[u8], room: usize) -> String {
    let mut sink = Recorder::new(room);
    let mut scratch = BodyScratch::default();
    let content_type = content_type.as_bytes();
    let limits = small_limits();
    let outcome = process(processor, content_type, body, &limits, b'&', &mut scratch, &mut sink);
    let mut text = sink.text;
    if outcome.invalid_escapes {
        text.push_str("%\n");
    }
    if !flags(&outcome).is_empty() {
        writeln!(text, "? {}", flags(&outcome).join(" ")).unwrap();
    }
    if let Some(error) = outcome.error {
        assert!(error.offset <= body.len(), "offset {} of {}", error.offset, body.len());
        writeln!(text, "! {:?}", error.kind).unwrap();
    }
    text
}

#[track_caller]
fn check(processor: Processor, content_type: &str, body: impl AsRef<[u8]>, expected: &[&str]) {
    let found = describe(processor, content_type, body.as_ref(), 100);
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, expected, "of {}", body.as_ref().escape_ascii());
}

/// Bytes that a sink may be given of a body: its own several times over, and names of JSON paths.
fn bytes_max(body_len: usize) -> usize {
    body_len * 16 + 2 * 1024 * 1024
}

#[test]
fn processors_have_names() {
    let names = ["URLENCODED", "MULTIPART", "JSON", "XML", "GRPC", "PROTOBUF", "RAW"];
    for name in names {
        let of = |name: &str| Processor::from_name(name.as_bytes()).map(Processor::name);
        assert_eq!(of(name), Some(name));
        assert_eq!(of(&name.to_lowercase()), Some(name));
    }
    assert_eq!(Processor::from_name(b"YAML"), None);
}

#[test]
fn forms_are_chosen_by_content_type() {
    let rows = [
        ("application/x-www-form-urlencoded", Some(Processor::UrlEncoded)),
        (" Application/X-WWW-Form-URLEncoded; charset=utf-8", Some(Processor::UrlEncoded)),
        ("application/x-www-form-urlencodedx", Some(Processor::UrlEncoded)),
        ("multipart/form-data", Some(Processor::Multipart)),
        ("MULTIPART/FORM-DATA;boundary=x", Some(Processor::Multipart)),
        ("multipart/mixed; boundary=x", None),
        ("application/json", None),
        ("text/xml", None),
        ("", None),
    ];
    for (value, processor) in rows {
        assert_eq!(from_content_type(value.as_bytes()), processor, "of {value}");
    }
}

#[test]
fn empty_and_raw_bodies_say_nothing() {
    for processor in Processor::ALL {
        check(processor, "", "", &[]);
    }
    check(Processor::Raw, "", "a=b", &[]);
}

#[test]
fn a_full_sink_is_an_error() {
    let rows = [
        (Processor::UrlEncoded, "a=1&b=2&c=3", "a a=1\na b=2\n! ArgumentsFull\n"),
        (Processor::Json, "[1,2,3]", "a json.array_0=1\na json.array_1=2\n! ArgumentsFull\n"),
        (Processor::Xml, "<a b='1' c='2' d='3'/>", "@ 1\n@ 2\n! XmlNodes\n"),
        (Processor::Xml, "<a><b>1</b><c>2</c>3</a>", "t 1\nt 2\n! XmlNodes\n"),
    ];
    for (processor, body, expected) in rows {
        assert_eq!(describe(processor, "", body.as_bytes(), 2), expected, "of {body}");
    }
    let file =
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"g\"\r\n\r\nx\r\n--b--";
    let found =
        describe(Processor::Multipart, "multipart/form-data; boundary=b", file.as_bytes(), 1);
    assert_eq!(
        found,
        "h f|Content-Disposition: form-data; name=\\\"f\\\"; filename=\\\"g\\\"\n\
         ? file_limit_exceeded strict\n! MultipartFilesFull\n"
    );
}
