//! What no body may do, whatever its processor.

use super::{Counter, Recorder, bytes_max, describe, small_limits};
use crate::{
    body::{BodyScratch, Processor, process},
    limits::Limits,
    xorshift::Xorshift,
};

/// Well-formed bodies of every kind, to be damaged.
const SAMPLES: [(Processor, &str, &str); 5] = [
    (Processor::UrlEncoded, "", "a=1&b%5b%5d=%20x+y&c&=d&e=%e2%82%ac"),
    (
        Processor::Json,
        "",
        r#"{"a":[1,-2.5e3,true,null,"\u0041\ud83d\ude00\n"],"b":{"c":{},"d":[]},"e":"x"}"#,
    ),
    (
        Processor::Xml,
        "",
        "<?xml version='1.0' encoding='utf-8'?><!DOCTYPE a [<!ENTITY e 'f'>]>\
         <a b=\"c&amp;\" d='e'>x<!-- y --><![CDATA[z]]>&#65;&e;<f/><?g h?></a>",
    ),
    (
        Processor::Multipart,
        "multipart/form-data; boundary=bc",
        "--bc\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--bc\r\n\
         Content-Disposition: form-data; name=\"f\\\"\"; filename='g'; filename*=utf-8''%41\r\n\
         Content-Type:\r\n text/plain\r\n\r\n--b\r\ny--bc\r\n\r\n--bc--\r\n",
    ),
    // The header is damaged as well, see below.
    (
        Processor::Multipart,
        "multipart/form-data; charset=utf-8; boundary=\"bc\"; x=y",
        "--bc\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--bc--",
    ),
];

/// Cuts, doubles, exchanges or overwrites something.
fn damage(random: &mut Xorshift, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len());
    let length = random.below(8).min(bytes.len() - at);
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + length)),
        2 => bytes.extend_from_within(at..at + length),
        3 if !bytes.is_empty() => {
            let other = random.below(bytes.len());
            bytes.swap(at, other);
        }
        _ => {
            const BYTES: &[u8] = b"\0\r\n\t &=%+;:\"'\\<>[]{}/!?-,.xu0b*\xff\xc3";
            let byte = BYTES.get(random.below(BYTES.len())).copied().unwrap();
            bytes.insert(at, byte);
        }
    }
}

#[test]
fn damaged_bodies_are_read_without_panic() {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut scratch = BodyScratch::default();
    let limits = small_limits();
    let mut errors = 0;
    for (processor, content_type, body) in SAMPLES {
        for _ in 0..20_000 {
            let mut body = body.as_bytes().to_vec();
            let mut content_type = content_type.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                damage(&mut random, &mut body);
            }
            if !content_type.is_empty() && random.below(4) == 0 {
                damage(&mut random, &mut content_type);
            }
            let mut used = Recorder::new(usize::MAX);
            let outcome =
                process(processor, &content_type, &body, &limits, b'&', &mut scratch, &mut used);
            errors += usize::from(outcome.error.is_some());
            assert!(used.bytes <= bytes_max(body.len()), "of {}", body.escape_ascii());
            assert!(outcome.bytes_without_files <= body.len());
            // What a scratch was used for before changes nothing.
            let mut fresh = Recorder::new(usize::MAX);
            let again = process(
                processor,
                &content_type,
                &body,
                &limits,
                b'&',
                &mut BodyScratch::default(),
                &mut fresh,
            );
            assert_eq!((used.text, outcome), (fresh.text, again), "of {}", body.escape_ascii());
        }
    }
    // The damage is such that both outcomes occur often.
    assert!((20_000..95_000).contains(&errors), "{errors} errors");
}

#[test]
fn every_beginning_of_a_body_shows_what_it_has() {
    let marker = "MARKER";
    let rows = [
        (Processor::UrlEncoded, "", "a=1&b=MARKER&c=2"),
        (Processor::Json, "", r#"{"a":1,"b":["MARKER"],"c":2}"#),
        (Processor::Json, "", r#"{"a":1,"MARKER":{"c":2}}"#),
        (Processor::Xml, "", "<a><b>MARKER</b><c/></a>"),
        (Processor::Xml, "", "<a><b c=\"MARKER\"/></a>"),
        (Processor::Xml, "", "<a><b><![CDATA[MARKER]]></b></a>"),
        (
            Processor::Multipart,
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nMARKER\r\n--b--\r\n",
        ),
        (
            Processor::Multipart,
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=MARKER\r\n\r\nx\r\n--b--\r\n",
        ),
    ];
    for (processor, content_type, body) in rows {
        let shown_from = body.find(marker).unwrap() + marker.len();
        for length in shown_from..=body.len() {
            let cut = body.get(..length).unwrap();
            let found = describe(processor, content_type, cut.as_bytes(), 100);
            assert!(found.contains(marker), "of {cut}: {found}");
        }
    }
}

/// Nanoseconds for each byte of `body`: the best of three, so that a busy machine does not count.
#[expect(clippy::disallowed_methods, reason = "the cost is what is tested")]
fn nanoseconds_per_byte(processor: Processor, content_type: &str, body: &[u8]) -> f64 {
    let mut scratch = BodyScratch::default();
    let mut best = f64::MAX;
    for _ in 0..3 {
        let mut sink = Counter { calls_max: usize::MAX, ..Counter::default() };
        let start = std::time::Instant::now();
        process(
            processor,
            content_type.as_bytes(),
            body,
            &Limits::default(),
            b'&',
            &mut scratch,
            &mut sink,
        );
        best = best.min(start.elapsed().as_nanos() as f64);
        assert!(sink.bytes <= bytes_max(body.len()), "{} bytes reported", sink.bytes);
    }
    best / body.len() as f64
}

#[test]
fn hostile_bodies_cost_no_more_than_a_small_multiple_of_plain_ones() {
    const SIZE: usize = 1024 * 1024;
    let fill = |start: &str, repeated: &str, end: &str| {
        format!("{start}{}{end}", repeated.repeat(SIZE / repeated.len()))
    };
    let multipart = "multipart/form-data; boundary=boundary";
    let part = "--boundary\r\nContent-Disposition: form-data; name=a";
    let header = "Content-Disposition: form-data";
    let long_key = format!("{{\"{}\":[{}", "k".repeat(SIZE / 2), "1,".repeat(SIZE / 4));
    let rows: Vec<(Processor, String, String)> = [
        (Processor::UrlEncoded, fill("", "&", "")),
        (Processor::UrlEncoded, fill("", "=&", "")),
        (Processor::UrlEncoded, fill("", "%", "")),
        (Processor::UrlEncoded, fill("", "%+", "")),
        (Processor::Json, fill("", "[", "")),
        (Processor::Json, fill("", "{\"a\":", "")),
        (Processor::Json, fill("[", "[],", "")),
        (Processor::Json, fill("\"", "\\", "")),
        (Processor::Json, fill("\"", "\\ud800", "")),
        (Processor::Json, fill("", " ", "")),
        (Processor::Json, fill("", "1", "")),
        (Processor::Json, fill("{", "\"a\":1,", "")),
        (Processor::Json, long_key),
        (Processor::Xml, fill("", "<a>", "")),
        (Processor::Xml, fill("", "<", "")),
        (Processor::Xml, fill("<a>", "&", "")),
        (Processor::Xml, fill("<a>&#", "0", ";")),
        (Processor::Xml, fill("<a>", "&#1", "")),
        (Processor::Xml, fill("<a ", "b='", "")),
        (Processor::Xml, fill("<a ", "b ", "")),
        (Processor::Xml, fill("", "<!--", "")),
        (Processor::Xml, fill("", "<!---->", "")),
        (Processor::Xml, fill("", "<![CDATA[", "")),
        (Processor::Xml, fill("", "<!DOCTYPE [\"", "")),
        (Processor::Xml, fill("<!DOCTYPE a [<!ENTITY b ", "\"c\"", "]>")),
        (Processor::Xml, fill("<a>", "</", "")),
        (Processor::Xml, fill("<a>", "</b>", "")),
        (Processor::Xml, fill("", "<?xml ", "")),
    ]
    .into_iter()
    .map(|(processor, body)| (processor, String::new(), body))
    .chain(
        [
            fill("", "\r\n--bounda", ""),
            fill(part, "\r\n--bounda", ""),
            fill("", "--boundary", ""),
            fill("", "--boundary\n", ""),
            fill("", "--boundary\r\n\r\n", ""),
            fill("", "\n", ""),
            fill("", "-", ""),
            fill("--boundary\r\nA: ", "b", "\r\n\r\n"),
            fill("--boundary\r\nA: ", "b\r\n ", "\r\n\r\n"),
            fill("--boundary\r\n", "A: b\r\n", "\r\n"),
            fill("--boundary\r\n", header, ""),
            fill(part, ";", "\r\n\r\nx"),
            fill(part, ";name=b", "\r\n\r\nx"),
            fill(part, ";filename=b", "\r\n\r\nx"),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(SIZE / 2), ";filename=b".repeat(SIZE / 22)),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(SIZE), "\r\nA: b".repeat(30)),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(900), "\r\nA:".repeat(30)).repeat(1_000),
            fill(part, "\\\"", "\r\n\r\nx"),
            fill(&format!("{part};filename=\""), "\\", "\r\n\r\nx"),
            fill(&format!("{part}; filename*=a''"), "%", "\r\n\r\nx"),
        ]
        .map(|body| (Processor::Multipart, multipart.to_owned(), body)),
    )
    .chain([(
        Processor::Multipart,
        fill("multipart/form-data; ", "boundary=", ""),
        fill("", "\n--", ""),
    )])
    .collect();
    // A plain body of arguments that all have to be decoded.
    let plain = fill("", "name=a+plain+value%20of+some+length&", "");
    let plain = nanoseconds_per_byte(Processor::UrlEncoded, "", plain.as_bytes()).max(1.0);
    for (processor, content_type, body) in rows {
        let cost = nanoseconds_per_byte(processor, &content_type, body.as_bytes());
        let start: String = body.chars().take(40).collect();
        assert!(cost < plain * 100.0, "{processor:?} {start:?}: {cost} ns/byte, plain is {plain}");
    }
}

#[test]
fn large_buffers_are_given_back() {
    let mut scratch = BodyScratch::default();
    let body = format!("\"{}\"", "x".repeat(2 * BodyScratch::RETAINED_BYTES_MAX));
    let mut sink = Counter { calls_max: 1, ..Counter::default() };
    let limits = Limits::default();
    process(Processor::Json, b"", body.as_bytes(), &limits, b'&', &mut scratch, &mut sink);
    assert_eq!(sink.bytes, "json".len() + body.len() - 2);
    assert!(scratch.value.capacity() <= BodyScratch::RETAINED_BYTES_MAX);
}
