//! JSON.

use super::{Counter, bytes_max, check, describe};
use crate::{
    body::{BodyErrorKind, BodyScratch, Processor, process},
    limits::Limits,
};

#[track_caller]
fn json(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::Json, "", body, expected);
}

#[test]
fn json_values() {
    json("{\"a\":{\"b\":[10,true]}}", &["a json.a.b.array_0=10", "a json.a.b.array_1=true"]);
    json(
        " [ 1 , [ null , false ] ] ",
        &["a json.array_0=1", "a json.array_1.array_0=", "a json.array_1.array_1=false"],
    );
    json("\"x\"", &["a json=x"]);
    json("-0.5e+10", &["a json=-0.5e+10"]);
    json("null", &["a json="]);
    json("\u{feff}{\"a\":1}", &["a json.a=1"]);
    json("{\"a\":1,\"a\":2}", &["a json.a=1", "a json.a=2"]);
    json("{\"a.b\":1,\"\":2}", &["a json.a.b=1", "a json.=2"]);
    json(
        "[{\"a\":1},{\"a\":2},3]",
        &["a json.array_0.a=1", "a json.array_1.a=2", "a json.array_2=3"],
    );
}

#[test]
fn json_empty_containers_show_their_names() {
    json("{}", &["a json="]);
    json("[ ]", &["a json="]);
    json("{\"<script>\":{}}", &["a json.<script>="]);
    json("{\"a\":[],\"b\":[{}]}", &["a json.a=", "a json.b.array_0="]);
}

#[test]
fn json_strings() {
    json(r#""\"\\\/\b\f\n\r\t""#, &[r#"a json=\"\\/\x08\x0c\n\r\t"#]);
    json(r#""\u0041\u00e9\u20ac\ud83d\ude00""#, &[r"a json=A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"]);
    json(r#""$\u007bjndi\u007D\u0000""#, &[r"a json=${jndi}\x00"]);
    json(r#""\ud800x""#, &[r"a json=\xed\xa0\x80x"]);
    json(r#""\ud800\u0041\udc00""#, &[r"a json=\xed\xa0\x80A\xed\xb0\x80"]);
    json(r#""\udc00\udc00""#, &[r"a json=\xed\xb0\x80\xed\xb0\x80"]);
    json(r#"{"\u0061\n":1}"#, &[r"a json.a\n=1"]);
    json(b"\"\xff\xc0\xaf\x7f\"", &[r"a json=\xff\xc0\xaf\x7f"]);
}

#[test]
fn json_errors_keep_what_was_read() {
    // In strings, where reading goes on.
    json("[\"a\tb\",1]", &["a json.array_0=a\\tb", "a json.array_1=1", "! JsonString"]);
    json("\"\u{1f}\"", &["a json=\\x1f", "! JsonString"]);
    json(r#"["\x41\u12",1]"#, &[r"a json.array_0=\\x41\\u12", "a json.array_1=1", "! JsonString"]);
    // Everywhere else, where the rest is shown as it is.
    json("[1 2]", &["a json.array_0=1", "a json.array_0=2]", "! JsonSyntax"]);
    json("{\"a\" 1}", &["a json.a=1}", "! JsonSyntax"]);
    json("[1}", &["a json.array_0=1", "a json.array_0=}", "! JsonSyntax"]);
    json("{\"a\":1]", &["a json.a=1", "a json.a=]", "! JsonSyntax"]);
    json("/*x*/1", &["a json=/*x*/1", "! JsonSyntax"]);
    json(
        r#"{"a" "\u0041\x"}"#,
        &[r#"a json.a=\"\\u0041\\x\"}"#, r#"a json.a=\"A\\x\"}"#, "! JsonSyntax"],
    );
    json("{\"a\":1} {\"b\":2}", &["a json.a=1", r#"a json={\"b\":2}"#, "! JsonTrailing"]);
    json("{\"a\":1}\n{\"b\":2}\n", &["a json.a=1", r#"a json={\"b\":2}"#, "! JsonTrailing"]);
    json("1 \0", &["a json=1", "a json=\\x00", "! JsonTrailing"]);
}

/// What lenient readers take is read as they do, so that nothing behind it stays escaped.
#[test]
fn lenient_json_is_read_on() {
    for word in ["01", "1.", "-", "1e", "NaN", "-Infinity", "+1", ".5", "0x1F", "tru", "nullx", "é"]
    {
        let shown = word.as_bytes().escape_ascii();
        json(
            format!(r#"{{"a":{word},"b":"f\u006fo"}}"#),
            &[&format!("a json.a={shown}"), "a json.b=foo", "! JsonSyntax"],
        );
        json(format!("[{word}]"), &[&format!("a json.array_0={shown}"), "! JsonSyntax"]);
    }
    json("test", &["a json=test", "! JsonSyntax"]);
    json("{\"a\":1,}", &["a json.a=1", "! JsonSyntax"]);
    json("[1,]", &["a json.array_0=1", "! JsonSyntax"]);
    json(
        "[{\"a\":[1,],},\"\\u0041\"]",
        &["a json.array_0.a.array_0=1", "a json.array_1=A", "! JsonSyntax"],
    );
    json("[,]", &["a json.array_0=,]", "! JsonSyntax"]);
    json("{\"a\":]", &["a json.a=]", "! JsonSyntax"]);
    json(
        r#"{'a"':"<x>",b_$:'\u0041\'\"','c':{d:1}}"#,
        &[r#"a json.a\"=<x>"#, r#"a json.b_$=A\'\""#, "a json.c.d=1", "! JsonSyntax"],
    );
    json("{'a", &["a json.a=", "! JsonSyntax"]);
}

#[test]
fn json_that_was_cut_shows_its_end() {
    json("{\"a\":\"<script", &["a json.a=<script", "! JsonTruncated"]);
    json("{\"a\":\"x\\", &[r"a json.a=x\\", "! JsonString"]);
    json("{\"<script", &["a json.<script=", "! JsonTruncated"]);
    json("{\"a\"", &["a json.a=", "! JsonTruncated"]);
    json("{\"a\":", &["a json.a=", "! JsonTruncated"]);
    json("{", &["a json=", "! JsonTruncated"]);
    json("{\"a\":[", &["a json.a=", "! JsonTruncated"]);
    json("{\"a\":1,", &["a json.a=1", "! JsonTruncated"]);
    json("[1,", &["a json.array_0=1", "! JsonTruncated"]);
    json("[1", &["a json.array_0=1", "! JsonTruncated"]);
    json(" ", &["! JsonTruncated"]);
}

#[test]
fn json_nesting_is_limited() {
    json("[[[[1]]]]", &["a json.array_0.array_0.array_0.array_0=1"]);
    json("[[[[[1]]]]]", &["a json.array_0.array_0.array_0.array_0=[1]]]]]", "! JsonDepth"]);
    json("[[[[{}]]]]", &["a json.array_0.array_0.array_0.array_0={}]]]]", "! JsonDepth"]);
}

#[test]
fn json_names_are_bounded() {
    // Each of the elements repeats the key in its name.
    let body = format!("{{\"{}\":[{}1]}}", "k".repeat(500_000), "1,".repeat(900));
    let mut sink = Counter { calls_max: usize::MAX, ..Counter::default() };
    let mut scratch = BodyScratch::default();
    let limits = Limits::default();
    let outcome =
        process(Processor::Json, b"", body.as_bytes(), &limits, b'&', &mut scratch, &mut sink);
    assert_eq!(outcome.error.map(|error| error.kind), Some(BodyErrorKind::JsonNames));
    assert!(sink.bytes <= bytes_max(body.len()));
}

#[test]
fn elements_behind_the_first_thousand_share_a_name() {
    let body = format!("[{}1]", "1,".repeat(1_002));
    let names = (0..1_003).map(|at: usize| format!("a json.array_{}=1\n", at.min(1_000)));
    assert_eq!(describe(Processor::Json, "", body.as_bytes(), 2_000), names.collect::<String>());
}
