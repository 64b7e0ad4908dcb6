//! Text that is read as what it looks like, and sequences of JSON values.

use super::{check, describe};
use crate::body::Processor;

#[test]
fn sequences_of_json_values() {
    for (body, expected) in [
        ("{\"a\":1}\n{\"a\":\"x y\"}\n", &["a json.a=1", "a json.a=x y"][..]),
        ("1 [2]\r\n", &["a json=1", "a json.array_0=2"]),
        ("\u{1e}{\"a\":1}\n\u{1e}{\"b\":[]}\n", &["a json.a=1", "a json.b="]),
        ("{\"a\":1}{\"b\":2}", &["a json.a=1", "a json.b=2"]),
        ("\n\n", &["! JsonTruncated"]),
        ("{\"a\":1}\n}", &["a json.a=1", "a json=}", "! JsonSyntax"]),
    ] {
        check(Processor::JsonLines, "", body, expected);
    }
    // Of one value, what follows it is an error.
    check(Processor::Json, "", "1 2", &["a json=1", "a json=2", "! JsonTrailing"]);
}

#[test]
fn text_is_read_as_what_it_looks_like() {
    let name = "n".repeat(256);
    let long = format!("{name}n=1");
    for (body, expected) in [
        ("{\"a\":\"1 or 2\"}", &["a json.a=1 or 2".to_owned()][..]),
        ("\u{feff} \r\n[\"x\"]", &["a json.array_0=x".to_owned()]),
        ("{\"a\":1}\n{\"a\":2}", &["a json.a=1".to_owned(), "a json.a=2".to_owned()]),
        // No JSON after all: nothing is hidden, and nothing is wrong.
        ("{b} c=d", &["a json.b=} c=d".to_owned(), "a text={b} c=d".to_owned()]),
        ("[LATER", &["a json.array_0=LATER".to_owned(), "a text=[LATER".to_owned()]),
        ("a=1&b%5B%5D=%3Cx%3E+y", &["a a=1".to_owned(), "a b[]=<x> y".to_owned()]),
        (&format!("{name}=1"), &[format!("a {name}=1")]),
        (&long, &[format!("a text={long}")]),
        ("=1", &["a text==1".to_owned()]),
        ("a b=1&c", &["a text=a b=1&c".to_owned()]),
        (
            "<script>alert(1)</script>",
            &["t alert(1)".to_owned(), "a text=<script>alert(1)</script>".to_owned()],
        ),
        ("plain", &["a text=plain".to_owned()]),
        ("100%", &["a text=100%".to_owned()]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(Processor::Text, "", body, &expected);
    }
}

/// Bytes of no type are text as long as they have no NUL; in text a NUL is for rules to see.
#[test]
fn bytes_are_no_text() {
    let bytes = "application/octet-stream; a=b";
    check(Processor::Text, bytes, "plain", &["a text=plain"]);
    check(Processor::Text, bytes, "plain\0", &[]);
    check(Processor::Text, bytes, "{\"a\":\"x\0\"}", &["a json.a=x\\x00"]);
    check(Processor::Text, "text/plain", "plain\0", &["a text=plain\\x00"]);
}

#[test]
fn limits_of_text_are_errors() {
    for body in ["a=1&b=2&c=3", "[1,2,3]"] {
        assert!(describe(Processor::Text, "", body.as_bytes(), 2).ends_with("! ArgumentsFull\n"));
    }
    assert!(describe(Processor::Text, "", b"plain", 0).ends_with("! ArgumentsFull\n"));
    let deep = "[".repeat(1_000);
    assert!(describe(Processor::Text, "", deep.as_bytes(), 9).ends_with("! JsonDepth\n"));
}
