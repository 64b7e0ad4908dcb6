//! Messages of protocol buffers, and frames of gRPC around them.

use super::{Counter, check};
use crate::{
    body::{BodyErrorKind, BodyScratch, Processor, process},
    limits::Limits,
};

#[track_caller]
fn message(body: &[u8], expected: &[&str]) {
    check(Processor::Protobuf, "", body, expected);
}

#[track_caller]
fn frames(body: &[u8], expected: &[&str]) {
    check(Processor::Grpc, "application/grpc", body, expected);
}

/// A field of variable length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend_from_slice(content);
    field
}

#[test]
fn texts_are_arguments() {
    message(b"\x0a\x02hi\x12\x00", &["a 1=hi", "a 2="]);
    message(b"\x0a\x01a\x0a\x01b", &["a 1=a", "a 1=b"]);
    message(b"\x0a\x03a\xff\n", &["a 1=a\\xff\\n"]);
    // Numbers say nothing without their type.
    message(b"\x08\x96\x01\x11\0\0\0\0\0\0\0\0\x1d\0\0\0\0\x22\x01x", &["a 4=x"]);
    // The largest number of a field.
    message(b"\xfa\xff\xff\xff\x0f\x01x", &["a 536870911=x"]);
    // Fields of a group, which ends with its own number.
    message(b"\x0b\x12\x01x\x0c\x1a\x01y", &["a 1.2=x", "a 3=y"]);
    message(b"\x0b\x13\x14\x0c", &[]);
}

#[test]
fn what_reads_as_a_message_is_shown_as_it_is_and_by_its_fields() {
    message(b"\x0a\x04\x0a\x02hi", &["a 1=\\n\\x02hi", "a 1.1=hi"]);
    // Two levels down: shown once, as its first byte is no text.
    let inner = field(2, &field(2, b"deep"));
    message(&field(1, &inner), &["a 1=\\x12\\x06\\x12\\x04deep", "a 1.2.2=deep"]);
    // Two levels down: shown on each, as all of it could be text.
    let printable = "0".repeat(40);
    let inner = field(4, &field(4, printable.as_bytes()));
    message(
        &field(1, &inner),
        &[
            &*format!("a 1=\\\"*\\\"({printable}"),
            &*format!("a 1.4=\\\"({printable}"),
            &*format!("a 1.4.4={printable}"),
        ],
    );
    // Numbers within hide nothing: the whole is there.
    message(b"\x0a\x0b\x08\x01!<script>", &["a 1=\\x08\\x01!<script>"]);
    // Not to its end, or with a group: no message.
    message(b"\x0a\x03\x0a\x02h", &["a 1=\\n\\x02h"]);
    message(b"\x0a\x02\x0b\x0c", &["a 1=\\x0b\\x0c"]);
}

#[test]
fn zero_bytes_stay_in_texts_only() {
    message(b"\x0a\x05\0abcd", &["a 1=\\x00abcd"]);
    message(b"\x0a\x04\0abc", &["a 1=\\x00abc"]);
    message(b"\x0a\x03\0ab", &["a 1= ab"]);
    message(b"\x0a\x06\0abcd\xff", &["a 1= abcd\\xff"]);
    message(b"\x0a\x03\0\x01\x02", &["a 1= \\x01\\x02"]);
    message(b"\x0a\x08\x09\0\0\0\0\0\0\0", &["a 1=\\t       "]);
}

#[test]
fn malformed_messages_are_errors_and_show_what_is_left() {
    message(
        b"\x0a\x02hi\x0a\x09<script>",
        &["a 1=hi", "a message=\\n\\t<script>", "! ProtobufSyntax"],
    );
    message(b"\x07", &["a message=\\x07", "! ProtobufSyntax"]);
    // Groups that do not end, end twice, or with another number.
    message(b"\x0b\x0a\x01x", &["a 1.1=x", "! ProtobufSyntax"]);
    message(b"\x0c\x0a\x01x", &["a message=\\x0c\\n\\x01x", "! ProtobufSyntax"]);
    message(b"\x0b\x14", &["a message=\\x14", "! ProtobufSyntax"]);
}

#[test]
fn frames_hold_messages() {
    frames(b"\0\0\0\0\x04\x0a\x02hi", &["a 1=hi"]);
    frames(b"\0\0\0\0\x03\x0a\x01a\0\0\0\0\0\0\0\0\0\x03\x12\x01b", &["a 1=a", "a 2=b"]);
    frames(
        b"\0\0\0\0\x01\x07\0\0\0\0\x03\x12\x01b",
        &["a message=\\x07", "a 2=b", "! ProtobufSyntax"],
    );
    check(Processor::Grpc, "application/grpc+json; a=b", b"\0\0\0\0\x07{\"a\":1}", &["a json.a=1"]);
    check(
        Processor::Grpc,
        "Application/gRPC+JSON",
        b"\0\0\0\0\x01{",
        &["a json=", "! JsonTruncated"],
    );
}

#[test]
fn malformed_frames_are_errors_and_show_what_is_left() {
    frames(
        b"\0\0\0\0\x05\x0a\x02hi",
        &["a message=\\x00\\x00\\x00\\x00\\x05\\n\\x02hi", "! GrpcTruncated"],
    );
    frames(b"\x01\0\0", &["a message=\\x01\\x00\\x00", "! GrpcTruncated"]);
    frames(b"\x02\0\0\0\0", &["a message=\\x02\\x00\\x00\\x00\\x00", "! GrpcFlags"]);
    frames(b"{}", &["a message={}", "! GrpcFlags"]);
    frames(
        b"\0\0\0\0\x03\x0a\x01a\x80\0\0\0\0",
        &["a 1=a", "a message=\\x80\\x00\\x00\\x00\\x00", "! GrpcFlags"],
    );
    frames(b"\0\xff\xff\xff\xff", &["a message=\\x00\\xff\\xff\\xff\\xff", "! GrpcTruncated"]);
    // Compressed, by no coding.
    frames(b"\x01\0\0\0\x02hi\0\0\0\0\x03\x12\x01b", &["a message=hi", "a 2=b", "! GrpcCoding"]);
}

#[test]
fn grpc_web_in_base64() {
    let text = |body: &[u8], expected: &[&str]| {
        check(Processor::Grpc, "application/grpc-web-text+proto", body, expected);
    };
    text(b"AAAAAAQKAmhp", &["a 1=hi"]);
    // In two parts, each with its padding.
    text(b"AAAAAAQ=CgJoaQ==", &["a 1=hi"]);
    text(b"AAAAAAQKAmhp!", &["a 1=hi", "! GrpcBase64"]);
    text(b"AAAAAAQKAmh", &["a message=\\x00\\x00\\x00\\x00\\x04\\n\\x02h", "! GrpcBase64"]);
}

/// Nesting is read up to its limit, and one more is an error.
#[test]
fn depth_is_limited() {
    let nested = |depth| (0..depth).fold(b"\x08\x01".to_vec(), |inner, _| field(1, &inner));
    let depth_max = super::small_limits().protobuf_depth_max;
    let of = |depth| super::describe(Processor::Protobuf, "", &nested(depth), 100);
    assert!(!of(depth_max).contains('!'), "{}", of(depth_max));
    assert!(of(depth_max + 1).contains("! ProtobufDepth"), "{}", of(depth_max + 1));
    let groups = |depth| [vec![0x0b; depth], vec![0x0c; depth]].concat();
    let of = |depth| super::describe(Processor::Protobuf, "", &groups(depth), 100);
    assert!(!of(depth_max).contains('!'), "{}", of(depth_max));
    assert!(of(depth_max + 1).contains("! ProtobufDepth"), "{}", of(depth_max + 1));
}

/// Whatever the nesting, what is reported is a small multiple of the body.
#[test]
fn what_is_reported_is_bounded() {
    // Lengths and tags that are text, too, as varints that are longer than they need to be.
    let wrap = |inner: Vec<u8>| {
        let length = inner.len();
        let low = |shift: usize| u8::try_from(length >> shift & 0x7f).unwrap() | 0x80;
        let mut outer = vec![b'"', low(0), low(7), u8::try_from(length >> 14).unwrap()];
        outer.extend_from_slice(&inner);
        outer
    };
    let mut body = vec![b'z'; 300_000];
    for _ in 0..90 {
        body = wrap(body);
    }
    let mut counter = Counter { calls_max: usize::MAX, ..Counter::default() };
    let mut scratch = BodyScratch::default();
    let limits = Limits::default();
    let outcome =
        process(Processor::Protobuf, b"", &body, &limits, b'&', &mut scratch, &mut counter);
    assert_eq!(outcome.error.map(|error| error.kind), Some(BodyErrorKind::ProtobufNesting));
    assert!(counter.bytes <= 5 * body.len() + 65_536, "{} of {}", counter.bytes, body.len());
    // Long paths to many small things.
    let path = (0..99).fold(b"\x0a\x00".repeat(100_000), |inner, _| {
        let tag = b"\xfa\xff\xff\xff\x0f";
        let with_number = field(1, &inner);
        [tag, with_number.split_first().unwrap().1].concat()
    });
    let mut counter = Counter { calls_max: usize::MAX, ..Counter::default() };
    let outcome =
        process(Processor::Protobuf, b"", &path, &limits, b'&', &mut scratch, &mut counter);
    let kind = outcome.error.map(|error| error.kind);
    assert!(
        matches!(kind, Some(BodyErrorKind::ProtobufNames | BodyErrorKind::ProtobufNesting)),
        "{kind:?}"
    );
    assert!(counter.bytes <= super::bytes_max(path.len()), "{} of {}", counter.bytes, path.len());
}
