//! JSON (RFC 8259) with what lenient parsers accept beside it.

use super::{tokens, utf_16};
use crate::mutation::{Tokens, joined, mutate};
use crate::random::Random;

/// Tokens that parsers of JSON disagree about.
const ODD: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\x67",
    b"\\/",
    b"\0",
    b"\n",
    b"\t",
    b"\x0b",
    b"\xc2\xa0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"//x\n",
    b"/*x*/",
    b"#x\n",
    b"<!--",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"undefined",
    b"null",
    b"true",
    b"0x1",
    b"1e999",
    b"01",
    b"+1",
    b".5",
    b"-0",
    b"1.",
    b"\"a\":\"b\",",
    b"\"a\":",
    b",,",
    b"\x1e",
    b"{\"a\":1}",
    b"\"__proto__\":",
    b"\"constructor\":",
    b")]}',\n",
    b"while(1);",
    b"a:",
    b"'a':",
    b"\r",
];

/// A media type of JSON.
pub(super) fn content_type(random: &mut Random) -> Tokens {
    let subtype = random.usually(
        "json",
        &[
            "vnd.api+json",
            "problem+json",
            "x-json",
            "json5",
            "csp-report",
            "ld+json",
            "scim+json",
            "x-ndjson",
            "jsonp",
        ],
    );
    let charset = random.usually(
        "",
        &[
            "; charset=utf-8",
            ";charset=UTF-8",
            "; charset=utf-16",
            "; charset=utf-16le",
            "; charset=utf-32",
            "; charset=utf-7",
            "; charset=us-ascii",
        ],
    );
    tokens(&[random.usually("application", &["text", "Application"]), "/", subtype, charset])
}

/// A document with the mark in a name or a string.
pub(super) fn body(mark: &str, random: &mut Random) -> Vec<u8> {
    let mut found = Tokens::new();
    let depth = random.below(4);
    value(mark, depth, random, &mut found);
    mutate(&mut found, ODD, random);
    let body = joined(&found);
    match random.below(50) {
        0 => {
            let which = random.below(4);
            utf_16(&body, which)
        }
        1 => body.iter().flat_map(|&byte| [byte, 0, 0, 0]).collect(),
        2 => [b"\xef\xbb\xbf", &body[..]].concat(),
        _ => body,
    }
}

fn value(mark: &str, depth: usize, random: &mut Random, out: &mut Tokens) {
    if depth == 0 {
        string(mark, random, out);
        return;
    }
    if random.once_in(3) {
        out.push(b"[".to_vec());
        if random.once_in(3) {
            out.push(random.pick(&["1,", "null,", "\"a\",", "{},", "[],"]).into());
        }
        value(mark, depth - 1, random, out);
        out.push(b"]".to_vec());
        return;
    }
    out.push(b"{".to_vec());
    if random.once_in(3) {
        out.push(
            random
                .pick(&["\"a\":1,", "\"a\":\"b\",", "\"a\":{},", "\"b\":[1,2],", "\"a\":null,"])
                .into(),
        );
    }
    if random.once_in(4) {
        string(mark, random, out);
        out.push(b":".to_vec());
        out.push(random.pick(&["1", "\"x\"", "{}", "null"]).into());
    } else {
        out.push(
            random
                .usually(
                    "\"a\"",
                    &[
                        "\"\"",
                        "a",
                        "'a'",
                        "\"a.b\"",
                        "\"\\u0061\"",
                        "1",
                        "\"__proto__\"",
                        "\"a\\u0000\"",
                    ],
                )
                .into(),
        );
        out.push(b":".to_vec());
        value(mark, depth - 1, random, out);
    }
    if random.once_in(4) {
        out.push(random.pick(&[",\"a\":2", ",\"b\":\"c\"", ",\"a\":\"d\"", ","]).into());
    }
    out.push(b"}".to_vec());
}

fn string(mark: &str, random: &mut Random, out: &mut Tokens) {
    let style = random.below(8);
    let quote = random.usually("\"", &["'", "`", ""]);
    let mut text = String::new();
    for char in mark.chars() {
        match style {
            0 => text.push_str(&format!("\\u{:04x}", u32::from(char))),
            1 if random.once_in(3) => text.push_str(&format!("\\u{:04X}", u32::from(char))),
            2 if random.once_in(3) => text.push_str(&format!("\\x{:02x}", u32::from(char))),
            3 if random.once_in(3) => text.push_str(&format!("\\{:03o}", u32::from(char))),
            4 if random.once_in(4) => text.extend(['\\', char]),
            _ if char == '"' => text.push_str("\\\""),
            _ => text.push(char),
        }
    }
    out.extend([quote.into(), text.into_bytes(), quote.into()]);
}
