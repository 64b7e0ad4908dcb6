//! Query strings and forms (WHATWG URL, section 5).

use super::{tokens, utf_7, utf_16};
use crate::mutation::{Tokens, joined, mutate};
use crate::random::Random;

/// Tokens that parsers of forms disagree about.
pub(super) const ODD: &[&[u8]] = &[
    b"&",
    b"=",
    b";",
    b"+",
    b"%",
    b"%00",
    b"%26",
    b"%3D",
    b"%3d",
    b"%3B",
    b"%25",
    b"%2",
    b"%zz",
    b"%u0067",
    b"%u003d",
    b"[",
    b"]",
    b"[]",
    b"[a]",
    b"[0]",
    b"%5B",
    b"%5D",
    b".",
    b"?",
    b"\xef\xbb\xbf",
    b"%EF%BB%BF",
    b"%C0%BD",
    b"\xc0\xbd",
    b"\xff",
    b"%FF",
    b"amp;",
    b"&amp;",
    b"%0D%0A",
    b"\r\n",
    b" ",
    b"a",
    b"a=",
    b"&a=b&",
    b"_charset_=utf-16&",
    b"_method=x&",
    b"utf8=%E2%9C%93&",
    b"__proto__",
    b"constructor",
    b"\"",
    b"'",
    b"\\",
    b"|",
    b",",
];

/// A media type of a form.
pub(super) fn content_type(random: &mut Random) -> Tokens {
    let charset = random.usually(
        "",
        &[
            "; charset=utf-8",
            ";charset=UTF-8",
            "; charset=utf-16",
            "; charset=utf-7",
            "; charset=ibm037",
            "; charset=iso-8859-1",
        ],
    );
    tokens(&["application", "/", "x-www-form-urlencoded", charset])
}

/// Pairs, one of which has the mark in its name or its value.
pub(super) fn pairs(mark: &str, random: &mut Random) -> Tokens {
    let mut found = Tokens::new();
    let count = 1 + random.below(3);
    let marked = random.below(count);
    for index in 0..count {
        if index > 0 {
            found.push(random.usually("&", &[";", "&&", "&amp;", "%26", "|", ","]).into());
        }
        let in_name = index == marked && random.once_in(4);
        let name = if in_name { escaped(mark, random) } else { name(random).into() };
        found.push(name);
        if index != marked && random.once_in(8) {
            continue;
        }
        found.push(random.usually("=", &["==", "%3D", "", " = ", ":"]).into());
        found.push(if index == marked && !in_name { escaped(mark, random) } else { b"1".to_vec() });
    }
    found
}

/// A body: pairs as bytes of one character set or another.
pub(super) fn body(mark: &str, random: &mut Random) -> Vec<u8> {
    let mut found = pairs(mark, random);
    mutate(&mut found, ODD, random);
    let body = joined(&found);
    match random.below(40) {
        0 => {
            let which = random.below(4);
            utf_16(&body, which)
        }
        1 => utf_7(&String::from_utf8_lossy(&body)),
        2 => [b"\xef\xbb\xbf", &body[..]].concat(),
        _ => body,
    }
}

fn name(random: &mut Random) -> &'static str {
    random.usually(
        "a",
        &[
            "a[]",
            "a[b]",
            "a[b][c]",
            "a.b",
            "a%5Bb%5D",
            "",
            " ",
            "+a",
            "_charset_",
            "__proto__",
            "a[",
            "a]b",
            "a%00b",
            "%61",
        ],
    )
}

/// `text` with URL escapes, of one style or another.
pub(super) fn escaped(text: &str, random: &mut Random) -> Vec<u8> {
    let style = random.below(10);
    let mut out = Vec::new();
    for byte in text.bytes() {
        let must = !byte.is_ascii_alphanumeric();
        match style {
            0 => out.extend(format!("%{byte:02x}").bytes()),
            1 if must || random.once_in(2) => out.extend(format!("%{byte:02X}").bytes()),
            2 => out.push(byte),
            3 if must || random.once_in(3) => out.extend(format!("%u{byte:04x}").bytes()),
            4 if must || random.once_in(3) => {
                out.extend(
                    format!("%{:02X}%{:02X}", 0xc0 | (byte >> 6), 0x80 | (byte & 0x3f)).bytes(),
                );
            }
            5 if must || random.once_in(3) => out.extend(format!("%25{byte:02X}").bytes()),
            _ if byte == b' ' => out.push(b'+'),
            _ if must => out.extend(format!("%{byte:02X}").bytes()),
            _ => out.push(byte),
        }
    }
    out
}
