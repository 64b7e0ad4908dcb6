//! Requests of each kind, mostly as clients send them and sometimes otherwise: a grammar has both spellings.

mod cookie;
mod form;
mod json;
mod multipart;
mod xml;

use crate::case::{Case, Kind};
use crate::mark::MARKS;
use crate::mutation::{Tokens, joined, mutate};
use crate::random::Random;

/// The case of a seed, a kind and a number.
#[must_use]
pub fn case(seed: u64, kind: Kind, number: u64) -> Case {
    let mut random = Random::of(seed, kind.name(), number);
    // The first mark has nothing that needs an escape, so most decoders are reached with it.
    let mark = if random.once_in(2) { 0 } else { random.below(MARKS.len()) };
    let random = &mut random;
    let mut case = Case { mark, ..Case::default() };
    match kind {
        Kind::Query => case.query = mutated(form::pairs(case.mark(), random), form::ODD, random),
        Kind::Form => {
            case.content_type = media_type(form::content_type(random), random);
            case.body = form::body(case.mark(), random);
        }
        Kind::Multipart => multipart::fill(&mut case, random),
        Kind::Json => {
            case.content_type = media_type(json::content_type(random), random);
            case.body = json::body(case.mark(), random);
        }
        Kind::Xml => {
            case.content_type = media_type(xml::content_type(random), random);
            case.body = xml::body(case.mark(), random);
        }
        Kind::Cookie => {
            case.cookie = mutated(cookie::pairs(case.mark(), random), cookie::ODD, random)
        }
    }
    case.as_forwarded()
}

/// A media type is seldom changed: requests with an unknown one are blocked whatever is in them.
fn media_type(tokens: Tokens, random: &mut Random) -> Vec<u8> {
    if random.once_in(8) { mutated(tokens, MEDIA_TYPES_ODD, random) } else { joined(&tokens) }
}

fn mutated(mut tokens: Tokens, odd: &[&[u8]], random: &mut Random) -> Vec<u8> {
    mutate(&mut tokens, odd, random);
    joined(&tokens)
}

/// Tokens of a text.
fn tokens(parts: &[&str]) -> Tokens {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// Tokens that parsers of media types disagree about. Seldom used twice in a value: most values are rejected anyway.
const MEDIA_TYPES_ODD: &[&[u8]] = &[
    b";",
    b"; ",
    b" ;",
    b"=",
    b"\"",
    b",",
    b" ",
    b"\t",
    b"/",
    b"; charset=utf-8",
    b"; charset=utf-16",
    b"; charset=utf-7",
    b"; charset=ibm037",
    b"; charset=iso-8859-1",
    b"; charset=\"utf-8\"",
    b"+json",
    b"*",
    b"multipart/form-data",
    b"application/json",
    b"application/x-www-form-urlencoded",
    b"text/xml",
    b"text/plain",
    b"; boundary=x",
    b"; a=b",
    b"(c)",
    b"\\",
];

/// `text` in UTF-16 with a byte order mark or without, as `which` says.
fn utf_16(text: &[u8], which: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mark: &[u16] = if which & 1 == 0 { &[0xfeff] } else { &[] };
    let units = mark.iter().copied().chain(text.encode_utf16());
    if which & 2 == 0 {
        units.flat_map(u16::to_le_bytes).collect()
    } else {
        units.flat_map(u16::to_be_bytes).collect()
    }
}

/// `text` in UTF-7 (RFC 2152): what is not alphanumeric goes as base64.
fn utf_7(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    let mut out = Vec::new();
    for char in text.chars() {
        let is_odd = !char.is_ascii_alphanumeric() && !" \r\n=&;:,-./()'?".contains(char);
        if char == '+' {
            out.extend_from_slice(b"+-");
        } else if is_odd {
            let mut units = [0; 2];
            let bytes: Vec<u8> =
                char.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()).collect();
            out.push(b'+');
            let coded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes);
            out.extend_from_slice(coded.as_bytes());
            out.push(b'-');
        } else {
            out.extend(char.to_string().bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_follow_from_seed_kind_and_number() {
        for kind in Kind::ALL {
            let (one, other) = (case(7, kind, 3), case(7, kind, 3));
            assert_eq!(one, other);
            let all: Vec<Case> = (0..200).map(|number| case(7, kind, number)).collect();
            assert!(all.windows(2).any(|pair| pair[0] != pair[1]), "{kind:?}");
            assert!(all.iter().all(|case| !case.cookie.contains(&b'\n')), "{kind:?}");
        }
    }

    #[test]
    fn many_cases_have_the_mark_as_it_stands() {
        for kind in Kind::ALL {
            let has_mark = |number| {
                let case = case(1, kind, number);
                let text = [&case.query[..], &case.cookie, &case.body].concat();
                text.windows(3).any(|window| window == b"gq7")
            };
            let found = (0..1_000).filter(|&number| has_mark(number)).count();
            assert!(found > 300, "{kind:?}: {found}");
        }
    }
}
