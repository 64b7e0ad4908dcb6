//! XML 1.0 with what parsers expand, merge and overlook.

use super::{tokens, utf_7, utf_16};
use crate::mutation::{Tokens, joined, mutate};
use crate::random::Random;

/// Tokens that parsers of XML disagree about.
const ODD: &[&[u8]] = &[
    b"<",
    b">",
    b"</",
    b"/>",
    b"&",
    b"&amp;",
    b"&lt;",
    b"&#0;",
    b"&#x67;",
    b"&#103",
    b"&x;",
    b"<!--",
    b"-->",
    b"<!-- x -->",
    b"<![CDATA[",
    b"]]>",
    b"<?x y?>",
    b"<?",
    b"?>",
    b"<!DOCTYPE a>",
    b"<!DOCTYPE a [<!ENTITY x 'y'>]>",
    b"]>",
    b"\xef\xbb\xbf",
    b"\0",
    b" ",
    b"\n",
    b"\r",
    b"\"",
    b"'",
    b"=",
    b"<b>",
    b"</b>",
    b"<b/>",
    b"<x:b xmlns:x='u'>",
    b"</a>",
    b"<a>",
    b" b=\"c\"",
    b" xmlns='u'",
    b" xml:space='preserve'",
    b"<?xml version='1.0'?>",
    b"\xff",
    b"\xc2\x85",
    b"<a",
    b"<script>",
    b"%x;",
];

/// A media type of XML.
pub(super) fn content_type(random: &mut Random) -> Tokens {
    let main = random.usually("text", &["application", "Text", "image"]);
    let subtype = random.usually(
        "xml",
        &["soap+xml", "atom+xml", "xhtml+xml", "svg+xml", "xml-dtd", "xml-external-parsed-entity"],
    );
    let charset = random.usually(
        "",
        &[
            "; charset=utf-8",
            ";charset=UTF-8",
            "; charset=utf-16",
            "; charset=utf-7",
            "; charset=iso-8859-1",
            "; charset=ebcdic-cp-us",
        ],
    );
    tokens(&[main, "/", subtype, charset])
}

/// A document with the mark in a text or an attribute.
pub(super) fn body(mark: &str, random: &mut Random) -> Vec<u8> {
    let mut found = Tokens::new();
    let declared = random.usually(
        "",
        &[
            "<?xml version=\"1.0\"?>",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
            "<?xml version='1.0' encoding='utf-16'?>",
            "<?xml version='1.0' encoding='UTF-7'?>",
            "<?xml version='1.0' encoding='iso-8859-1'?>",
            "<?xml version='1.1'?>",
            "<?xml version='1.0' encoding='cp037'?>",
        ],
    );
    found.push(declared.into());
    let entity = random.once_in(8);
    if entity {
        found.push(random.pick(&["<!DOCTYPE a [", "<!DOCTYPE a SYSTEM 'x' ["]).into());
        found.push(random.pick(&["<!ENTITY e '", "<!ENTITY  e\n\"", "<!ENTITY % p '"]).into());
        text(mark, random, &mut found);
        found.push(random.pick(&["'>", "\">"]).into());
        found.push(b"]>".to_vec());
    } else if random.once_in(20) {
        found.push(b"<!DOCTYPE a [<!ATTLIST a b CDATA \"".to_vec());
        text(mark, random, &mut found);
        found.push(b"\">]>".to_vec());
    }
    let depth = random.below(3);
    for _ in 0..=depth {
        found.push(b"<a".to_vec());
        if random.once_in(4) {
            found.extend([random.pick(&[" b=\"", " b='", " x:b=\"", " b = \""]).into()]);
            text(mark, random, &mut found);
            found.push(random.pick(&["\"", "'"]).into());
        }
        found.push(b">".to_vec());
    }
    if entity {
        found.push(random.pick(&["&e;", "&e;&e;", "%p;"]).into());
    } else {
        text(mark, random, &mut found);
    }
    for _ in 0..=depth {
        found.push(b"</a>".to_vec());
    }
    mutate(&mut found, ODD, random);
    encoded(&joined(&found), random)
}

fn encoded(body: &[u8], random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 | 1 => {
            let which = random.below(4);
            utf_16(body, which)
        }
        2 => utf_7(&String::from_utf8_lossy(body)),
        3 => [b"\xef\xbb\xbf", body].concat(),
        4 => body.iter().flat_map(|&byte| [0, 0, 0, byte]).collect(),
        5 => body.iter().map(|&byte| in_ebcdic(byte)).collect(),
        _ => body.to_vec(),
    }
}

/// Code page 37, as far as documents of this grammar need it.
fn in_ebcdic(byte: u8) -> u8 {
    const FROM: &[u8] = b" .<(+&!$*);-/|,%_>?`:#@'=\"";
    const TO: &[u8] = b"\x40\x4b\x4c\x4d\x4e\x50\x5a\x5b\x5c\x5d\x5e\x60\x61\x4f\x6b\x6c\x6d\x6e\x6f\x79\x7a\x7b\x7c\x7d\x7e\x7f";
    match byte {
        b'a'..=b'i' => byte - b'a' + 0x81,
        b'j'..=b'r' => byte - b'j' + 0x91,
        b's'..=b'z' => byte - b's' + 0xa2,
        b'A'..=b'I' => byte - b'A' + 0xc1,
        b'J'..=b'R' => byte - b'J' + 0xd1,
        b'S'..=b'Z' => byte - b'S' + 0xe2,
        b'0'..=b'9' => byte - b'0' + 0xf0,
        b'[' => 0xba,
        b']' => 0xbb,
        _ => FROM
            .iter()
            .position(|&from| from == byte)
            .and_then(|at| TO.get(at))
            .copied()
            .unwrap_or(0x6f),
    }
}

fn text(mark: &str, random: &mut Random, out: &mut Tokens) {
    let style = random.below(9);
    let middle = 1 + random.below(mark.len() - 1);
    for (index, char) in mark.chars().enumerate() {
        let split = index == middle;
        let number = u32::from(char);
        match style {
            0 => out.push(format!("&#{number};").into_bytes()),
            1 => out.push(format!("&#x{number:x};").into_bytes()),
            2 if random.once_in(3) => out.push(format!("&#x{number:08X};").into_bytes()),
            3 if split => out.push(b"<!-- x -->".to_vec()),
            4 if split => out.push(b"<?x y?>".to_vec()),
            5 if split => {
                out.push(random.pick(&["<![CDATA[", "<![CDATA[]]>", "<![CDATA[ ]]>"]).into())
            }
            6 if split => out.push(random.pick(&["<b/>", "<b>x</b>", "<b></b>"]).into()),
            _ => {}
        }
        if style > 1 {
            out.push(match char {
                '<' => b"&lt;".to_vec(),
                '&' => b"&amp;".to_vec(),
                '"' => b"&quot;".to_vec(),
                '\'' => b"&apos;".to_vec(),
                _ => char.to_string().into_bytes(),
            });
        }
    }
    if style == 5 {
        out.push(b"]]>".to_vec());
    }
}
