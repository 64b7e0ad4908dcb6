//! `Cookie` headers (RFC 6265, section 4.2; RFC 2109 for what older clients sent).

use super::form::escaped;
use crate::mutation::Tokens;
use crate::random::Random;

/// Tokens that parsers of cookies disagree about.
pub(super) const ODD: &[&[u8]] = &[
    b";",
    b"; ",
    b",",
    b", ",
    b"=",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\073",
    b"\\147",
    b" ",
    b"\t",
    b"%3B",
    b"%22",
    b"%",
    b"$Version=1; ",
    b"$Path=/",
    b"; $Domain=\"x\"",
    b"a=",
    b"=a",
    b"a=b",
    b"a=\"",
    b"\";",
    b"j:",
    b"j%3A",
    b"s:",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[a]",
    b"\xff",
    b"\xc3\xa9",
    b"expires=x",
    b"__Host-a=",
    b":",
    b"(",
    b")",
    b"'",
    b"+",
    b"%2B",
    b"/",
    b"@",
];

/// Pairs, one of which has the mark.
pub(super) fn pairs(mark: &str, random: &mut Random) -> Tokens {
    let mut found = Tokens::new();
    if random.once_in(10) {
        found.push(random.pick(&["$Version=1; ", "$Version=\"1\", ", "$Version=1;"]).into());
    }
    let count = 1 + random.below(3);
    let marked = random.below(count);
    for index in 0..count {
        if index > 0 {
            found.push(random.usually("; ", &[";", ", ", ",", " ;  ", ";;", "& ", " "]).into());
        }
        let in_name = index == marked && random.once_in(5);
        if in_name {
            found.push(spelled(mark, random));
        } else {
            let name = random.usually(
                "a",
                &["", "a b", "$a", "a[]", "a[b]", "\"a\"", "__Host-a", "a%5B%5D", " "],
            );
            found.push(name.into());
        }
        found.push(random.usually("=", &["", " = ", "==", "=\"", "= "]).into());
        found.push(if index == marked && !in_name { value(mark, random) } else { b"1".to_vec() });
    }
    found
}

fn value(mark: &str, random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 | 1 => quoted(mark, random),
        2 => [b"j:{\"a\":\"", mark.replace('"', "\\\"").as_bytes(), b"\"}"].concat(),
        3 => {
            let json = format!("j:[\"{}\"]", mark.replace('"', "\\\""));
            escaped(&json, random)
        }
        _ => spelled(mark, random),
    }
}

fn spelled(mark: &str, random: &mut Random) -> Vec<u8> {
    if random.once_in(2) { mark.into() } else { escaped(mark, random) }
}

/// A quoted string, with escapes of one style or another (RFC 2109, and octal ones as Python writes them).
fn quoted(mark: &str, random: &mut Random) -> Vec<u8> {
    let style = random.below(5);
    let mut out = b"\"".to_vec();
    for byte in mark.bytes() {
        let must = matches!(byte, b'"' | b'\\' | b';' | b',');
        match style {
            0 if must => out.extend([b'\\', byte]),
            1 if must || random.once_in(3) => out.extend(format!("\\{byte:03o}").bytes()),
            2 if must || random.once_in(3) => out.extend([b'\\', byte]),
            3 if must => out.extend(format!("%{byte:02X}").bytes()),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(random.usually("\"", &["", "\"x", "\" ", "\\\""]).as_bytes());
    out
}
