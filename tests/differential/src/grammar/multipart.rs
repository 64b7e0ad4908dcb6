//! `multipart/form-data` (RFC 7578, RFC 2046 section 5.1) in the spellings of clients, old standards and attackers.

use base64::Engine as _;

use super::{MEDIA_TYPES_ODD, tokens, utf_16};
use crate::case::Case;
use crate::mutation::{Tokens, joined, mutate};
use crate::random::Random;

/// Tokens that parsers of multipart bodies disagree about.
const ODD: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"\r\r",
    b"--",
    b"-",
    b"--x",
    b"--x--",
    b"--x\r\n",
    b"--x--\r\n",
    b"\r\n--x",
    b" ",
    b"\t",
    b"\0",
    b"\x0b",
    b"\x0c",
    b"\xa0",
    b":",
    b";",
    b"; ",
    b"=",
    b"\"",
    b"'",
    b"\\",
    b"\\\"",
    b"%22",
    b"%0d%0a",
    b",",
    b"Content-Disposition: form-data; name=\"a\"",
    b"Content-Disposition: form-data; name=\"a\"; filename=\"b\"",
    b"; name=\"a\"",
    b"; name=a",
    b"; filename=\"\"",
    b"; filename=\"b\"",
    b"; filename",
    b"; filename*=utf-8''b",
    b"; filename*0=\"b\"",
    b"; name*=utf-8''a",
    b"; name*0=a; name*1=b",
    b"Content-Type: text/plain\r\n",
    b"Content-Type: application/octet-stream\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Type: text/plain; charset=utf-16le\r\n",
    b"Content-Transfer-Encoding: base64\r\n",
    b"Content-Transfer-Encoding: quoted-printable\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Type: multipart/mixed; boundary=y\r\n",
    b"X: y\r\n",
    b"X\r\n",
    b" folded\r\n",
    b"=?utf-8?Q?a?=",
    b"form-data",
    b"attachment",
    b"\xff",
    b"\xc3\xa9",
    b"\r\n\r\nx\r\n--x\r\n",
    b"_charset_",
];

/// Tokens that parsers disagree about in the parameter that names the boundary.
const BOUNDARY_ODD: &[&[u8]] = &[
    b"; boundary=y",
    b"; boundary=\"x\"",
    b"; boundary=",
    b"; boundary*=utf-8''y",
    b"; boundary*0=x",
    b"; Boundary=y",
    b"; BOUNDARY=y",
    b"; a=\"; boundary=y\"",
    b"; a=\"\\\"; boundary=y; b=\"",
    b",",
    b"; ",
    b";",
    b"\"",
    b" ",
    b"\t",
    b"'",
    b"\\",
    b"=",
    b"boundary=y",
    b"; charset=utf-8",
    b"x",
    b", boundary=y",
    b"(c)",
];

/// The boundary of most bodies.
const BOUNDARY: &str = "x";

/// Sets the media type and the body.
pub(super) fn fill(case: &mut Case, random: &mut Random) {
    let mut media_type = content_type(random);
    if random.once_in(5) {
        let odd = if random.once_in(3) { MEDIA_TYPES_ODD } else { BOUNDARY_ODD };
        mutate(&mut media_type, odd, random);
    }
    case.content_type = joined(&media_type);
    let mut body = body(case.mark(), random);
    mutate(&mut body, ODD, random);
    case.body = joined(&body);
    if random.once_in(100) {
        let which = random.below(4);
        case.body = utf_16(&case.body, which);
    }
}

fn content_type(random: &mut Random) -> Tokens {
    let subtype = random
        .usually("form-data", &["mixed", "related", "Form-Data", "form-data-x", "alternative"]);
    let value = random.usually(
        BOUNDARY,
        &[
            "\"x\"",
            "x ",
            "\"x \"",
            "'x'",
            "x; charset=utf-8",
            "\"x\\\"",
            "x\"y",
            "x, y",
            "\"\\x\"",
            "X",
            "x;y",
            "\"x;y\"",
            "----x",
            "x--",
        ],
    );
    let separator = random.usually(
        "; ",
        &[";", " ; ", ", ", ";;", "; a=b; ", "; charset=utf-8; ", "; a=\"b\"; ", " "],
    );
    let name = random.usually(
        "boundary",
        &[
            "Boundary",
            "BOUNDARY",
            "boundary ",
            "boundary*",
            "boundary*0",
            "\"boundary\"",
            "xboundary",
        ],
    );
    tokens(&["multipart", "/", subtype, separator, name, "=", value])
}

fn body(mark: &str, random: &mut Random) -> Tokens {
    let mut out = tokens(&[random.usually("", &["preamble\r\n", "\r\n", "--y\r\n", " "])]);
    let count = 1 + random.below(3);
    let marked = random.below(count);
    for index in 0..count {
        delimiter("", random, &mut out);
        if index == marked {
            marked_part(mark, random, &mut out);
        } else if random.once_in(3) {
            out.extend(tokens(&[
                "Content-Disposition: form-data; name=\"f\"; filename=\"t.txt\"",
                "\r\n",
                "Content-Type: text/plain",
                "\r\n",
                "\r\n",
                "x",
                "\r\n",
            ]));
        } else {
            out.extend(tokens(&[
                "Content-Disposition: form-data; name=\"o\"",
                "\r\n",
                "\r\n",
                "1",
                "\r\n",
            ]));
        }
    }
    delimiter(random.usually("--", &["", "-", " --", "-- ", "--x"]), random, &mut out);
    out.extend(tokens(&[random.usually(
        "",
        &[
            "epilogue",
            "\r\n",
            "--x\r\nContent-Disposition: form-data; name=\"e\"\r\n\r\ngq7mark\r\n--x--\r\n",
        ],
    )]));
    out
}

fn delimiter(end: &str, random: &mut Random, out: &mut Tokens) {
    out.extend(tokens(&[
        "--",
        random.usually(BOUNDARY, &["X", "x ", "\"x\"", "y", "xx", "--x", " x"]),
        end,
        line_end(random),
    ]));
}

fn line_end(random: &mut Random) -> &'static str {
    if random.once_in(24) {
        random.pick(&["\n", "\r", " \r\n", "\t\r\n", "\r\r\n", "\x0b\r\n", "\0\r\n", "\x0c\n"])
    } else {
        "\r\n"
    }
}

fn marked_part(mark: &str, random: &mut Random, out: &mut Tokens) {
    let place = random.below(6);
    let header = random.usually(
        "Content-Disposition",
        &[
            "content-disposition",
            "CONTENT-DISPOSITION",
            "Content-Disposition ",
            " Content-Disposition",
            "Content_Disposition",
            "Content-disposition\t",
            "\tContent-Disposition",
            "Content-Disposition\0",
        ],
    );
    if random.once_in(16) {
        out.extend(tokens(&[
            random.pick(&[
                "X: y",
                "Content-Disposition: form-data; name=\"z\"",
                "Content-Disposition: attachment",
                "X",
                ": y",
                " ",
            ]),
            "\r\n",
        ]));
    }
    out.extend(tokens(&[
        header,
        random.usually(": ", &[":", " : ", ":\t", "=", ":\r\n "]),
        random.usually(
            "form-data",
            &[
                "Form-Data",
                "attachment",
                "inline",
                "file",
                "",
                "\"form-data\"",
                "form-data;",
                "form-data ",
            ],
        ),
    ]));
    parameters(mark, place, random, out);
    out.push(line_end(random).into());
    let coding = content_headers(random, out);
    out.push(line_end(random).into());
    out.push(content(if place > 1 { mark } else { "v" }, coding, random));
    out.push(line_end(random).into());
}

/// The parameters: 0 has the mark in the name, 1 in the file name, 2 has a file name without it, others have none.
fn parameters(mark: &str, place: usize, random: &mut Random, out: &mut Tokens) {
    let name = if place == 0 {
        mark
    } else {
        random.usually("a", &["", "a[]", "a[b]", "_charset_", "a b", "a;b", "__proto__", "\u{e9}"])
    };
    let separator = random.usually("; ", &[";", " ; ", ", ", " ", ";;", ";\r\n ", ";\t"]);
    out.push(separator.into());
    out.extend(parameter("name", name, random));
    if place == 2 && random.once_in(2) {
        return;
    }
    if place == 1 || place == 2 {
        let file =
            if place == 1 { mark } else { random.usually("", &["b", "b.txt", "a/b", "C:\\b"]) };
        out.push(random.usually("; ", &[";", " ; ", ", ", " ", ";;", ";\r\n "]).into());
        let spelling = random.usually(
            "filename",
            &[
                "Filename",
                "FILENAME",
                "filename*",
                "filename*0",
                "filename ",
                "file",
                "filenames",
                "filename*0*",
            ],
        );
        out.extend(parameter(spelling, file, random));
    }
}

fn parameter(name: &str, value: &str, random: &mut Random) -> Tokens {
    let name = if name == "name" {
        random.usually(
            name,
            &["Name", "NAME", "name*", "name*0", "name ", " name", "n\\ame", "name*0*", "\"name\""],
        )
    } else {
        name
    };
    let percent = || value.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let value = if name.ends_with('*') && !random.once_in(4) {
        format!(
            "{}''{}",
            random.usually("utf-8", &["UTF-8", "iso-8859-1", "utf-16", "utf-7", "", "x"]),
            percent()
        )
    } else {
        spelled(value, &percent, random)
    };
    tokens(&[name, random.usually("=", &[" = ", "= ", " =", "==", ":", ""]), &value])
}

fn spelled(value: &str, percent: &dyn Fn() -> String, random: &mut Random) -> String {
    let escaped = || value.replace('\\', "\\\\").replace('"', "\\\"");
    match random.below(20) {
        0 => value.to_owned(),
        1 => format!("'{value}'"),
        2 => format!("\"{}\"", percent()),
        3 => format!("\"{}\"", value.replace('"', "%22")),
        4 => format!("=?utf-8?B?{}?=", base64::engine::general_purpose::STANDARD.encode(value)),
        5 => format!("\"=?utf-8?Q?{}?=\"", percent().replace('%', "=")),
        6 => format!("\"{}\"", value.chars().flat_map(|char| ['\\', char]).collect::<String>()),
        7 => format!("\"{}", escaped()),
        8 => format!("\"{value}\""),
        9 => format!("\"{}\"x", escaped()),
        10 => {
            let half = value.len() / 2;
            format!(
                "\"{}\"\"{}\"",
                value.get(..half).unwrap_or_default(),
                value.get(half..).unwrap_or_default()
            )
        }
        _ => format!("\"{}\"", escaped()),
    }
}

/// How the content of a part is written.
#[derive(Clone, Copy)]
enum Coding {
    Plain,
    Base64,
    QuotedPrintable,
    Utf16,
}

fn content_headers(random: &mut Random, out: &mut Tokens) -> Coding {
    let (header, coding) = match random.below(24) {
        0 => ("Content-Transfer-Encoding: base64", Coding::Base64),
        1 => ("Content-Transfer-Encoding: quoted-printable", Coding::QuotedPrintable),
        2 => ("Content-Type: text/plain; charset=utf-16le", Coding::Utf16),
        3 => ("Content-Type: text/plain", Coding::Plain),
        4 => ("Content-Type: application/octet-stream", Coding::Plain),
        5 => ("Content-Type: application/json", Coding::Plain),
        6 => ("content-transfer-encoding:BASE64", Coding::Base64),
        7 => ("Content-Type: text/plain; charset=utf-7", Coding::Plain),
        _ => return Coding::Plain,
    };
    out.extend(tokens(&[header, line_end(random)]));
    coding
}

fn content(text: &str, coding: Coding, random: &mut Random) -> Vec<u8> {
    match coding {
        Coding::Plain => random.usually(text, &[text, "", "\r\n", "--", "--y\r\n"]).into(),
        Coding::Base64 => base64::engine::general_purpose::STANDARD.encode(text).into_bytes(),
        Coding::QuotedPrintable => {
            text.bytes().flat_map(|byte| format!("={byte:02X}").into_bytes()).collect()
        }
        Coding::Utf16 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    }
}
