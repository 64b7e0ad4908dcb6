//! Header fields and cookies as limits compare them: in one form, whatever way a client has written them.
//!
//! Servers disagree about which of two fields or cookies of a name counts, about quotes, escapes and
//! blanks in values, and about `_` and `-` in names. A client that is limited by a value must not get a
//! fresh limit for each way to write it. So two values that some server reads as one are one here. The
//! price is that values which differ only in such a way share a limit; case counts.

use crate::path::percent_decoded;
use std::borrow::Cow;

/// The longest values of one name that tell clients apart, in bytes, all together; longer ones are
/// [`Given::Several`].
pub const VALUE_BYTES_MAX: usize = 8 << 10;
/// The most elements in the fields of one name; with more it is [`Given::Several`].
pub const ELEMENTS_MAX: usize = 64;
/// The most cookies of a request; with more, each cookie is [`Given::Several`].
pub const COOKIES_MAX: usize = 256;
/// The most pieces between `;` and `,` in cookies, empty ones too; with more, each cookie is [`Given::Several`].
pub const COOKIE_PIECES_MAX: usize = 1_024;

/// What a request has of something that should be in it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// One value, in one form.
    One(Vec<u8>),
    /// None, or only empty ones: these are as cheap to send as none.
    Nothing,
    /// Several different values, of which nobody can say which one the upstream takes, or one that is too long.
    Several,
}

impl Given {
    /// What these values are together.
    fn of(values: impl Iterator<Item = Option<Vec<u8>>>) -> Self {
        let mut found = Self::Nothing;
        for value in values {
            match (&found, value) {
                (_, None) => return Self::Several,
                (_, Some(value)) if value.is_empty() => {}
                (Self::One(known), Some(value)) if *known == value => {}
                (Self::Nothing, Some(value)) => found = Self::One(value),
                (Self::One(_) | Self::Several, Some(_)) => return Self::Several,
            }
        }
        found
    }
}

/// Whether two names of header fields are one to a server that hands fields on as variables of the
/// environment (CGI, WSGI, PHP), which have neither case nor `-`.
#[must_use]
pub fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    let folded = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().map(folded).eq(other.iter().map(folded))
}

/// What a request has in its fields of this name, whose values are given. Quotes, escapes and blanks do
/// not matter, nor do the case of the scheme and the padding of credentials. A list is several values,
/// unless fields of this name are lists by definition. Linear in the length of the values.
#[must_use]
pub fn header<'v>(name: &str, values: impl Iterator<Item = &'v [u8]>) -> Given {
    let is = |wanted: &str| is_same_name(name.as_bytes(), wanted.as_bytes());
    let is_credentials = is("authorization") || is("proxy-authorization");
    let is_list = ["accept", "sec-ch-"].iter().any(|prefix| {
        name.as_bytes()
            .get(..prefix.len())
            .is_some_and(|start| is_same_name(start, prefix.as_bytes()))
    });
    let elements = values.flat_map(|value| Elements { rest: Some(value), whole: is_list });
    let mut bytes_left = VALUE_BYTES_MAX;
    Given::of(elements.enumerate().map(|(place, element)| {
        bytes_left = bytes_left.checked_sub(element.len()).filter(|_| place < ELEMENTS_MAX)?;
        let element = single_blanks(element);
        let value = plain(&element);
        Some(if is_credentials { credentials(&value) } else { value.into_owned() })
    }))
}

/// The cookies of a request.
#[derive(Clone, Debug, Default)]
pub struct Cookies {
    /// Names in one form, and values as they were sent.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    too_many: bool,
}

impl Cookies {
    /// Reads all fields `cookie` (RFC 6265, section 4.2.1). A comma separates cookies as well, as it did in
    /// RFC 2965, but does not end a value.
    #[must_use]
    pub fn read<'v>(fields: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut cookies = Self::default();
        let pairs = fields.flat_map(|field| field.split(|byte| *byte == b';'));
        let pieces = pairs
            .flat_map(|pair| [pair].into_iter().chain(pair.split(|byte| *byte == b',').skip(1)));
        for (place, piece) in pieces.enumerate() {
            let named = name_and_value(piece);
            let is_one_more = named.is_some() && cookies.pairs.len() == COOKIES_MAX;
            if is_one_more || place == COOKIE_PIECES_MAX {
                cookies.too_many = true;
                return cookies;
            }
            cookies.pairs.extend(named.map(|(name, value)| (cookie_name(name), value.to_vec())));
        }
        cookies
    }

    /// What a request has in its cookies of this name. Case and `.` for `_` in the name do not matter, nor do quotes,
    /// escapes and blanks in the value. Linear in the number of cookies and the length of these values.
    #[must_use]
    pub fn given(&self, name: &[u8]) -> Given {
        let name = cookie_name(name);
        if self.too_many {
            return Given::Several;
        }
        let named = self.pairs.iter().filter(|(known, _)| *known == name);
        let mut bytes_left = VALUE_BYTES_MAX;
        Given::of(named.map(|(_, value)| {
            bytes_left = bytes_left.checked_sub(value.len())?;
            let mut value = plain(value).into_owned();
            // PHP reads a plus as a blank; base64 in cookies has some.
            value.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
            Some(value)
        }))
    }
}

fn name_and_value(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
    Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
}

/// A name as PHP, Rack and ASP.NET compare it.
fn cookie_name(name: &[u8]) -> Vec<u8> {
    let folded = |byte: u8| match byte {
        b'.' | b' ' | b'+' | b'[' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    percent_decoded(name).into_iter().map(folded).collect()
}

/// A value without quotes and escapes, and without blanks around it.
fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    let value = value.trim_ascii();
    // Nearly all values are plain already.
    if !value.starts_with(b"\"") && !value.contains(&b'%') {
        return Cow::Borrowed(value);
    }
    Cow::Owned(percent_decoded(&unquoted(value)).trim_ascii().to_vec())
}

/// A value without its quotes, and what `\` in them stands for: a character, or its number in three octal digits as
/// Python writes it.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let inside = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let Some(mut rest) = inside else { return value.to_vec() };
    let mut out = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]) => {
                out.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// A value with one blank for each run of blanks.
fn single_blanks(value: &[u8]) -> Cow<'_, [u8]> {
    let is_run = |pair: &[u8]| matches!(pair, b"  ");
    if !value.contains(&b'\t') && !value.windows(2).any(is_run) {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b' ' | b'\t' if out.last() == Some(&b' ') => {}
            b' ' | b'\t' => out.push(b' '),
            byte => out.push(*byte),
        }
    }
    Cow::Owned(out)
}

/// Credentials (RFC 9110, section 11.4): the scheme in lower case, then what follows without padding. Of `Basic` the
/// bytes that lenient readers decode, who skip what is not base64.
fn credentials(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at_checked(end).unwrap_or((value, b""));
    let mut out = scheme.to_ascii_lowercase();
    let rest = rest.trim_ascii();
    out.push(b' ');
    match out.as_slice() {
        b"basic " => out.extend(base64_decoded(rest)),
        _ => {
            let padding = rest.iter().rev().take_while(|byte| **byte == b'=').count();
            out.extend_from_slice(rest.get(..rest.len() - padding).unwrap_or(rest));
        }
    }
    out
}

/// Base64 of either alphabet, without what does not belong to it and what fills no byte.
fn base64_decoded(text: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut filled) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0u32);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(six);
        filled += 6;
        if let Some(left) = filled.checked_sub(8) {
            out.push((bits >> left) as u8);
            filled = left;
        }
    }
    out
}

/// The elements of a value that is a list (RFC 9110, section 5.6.1): commas in quotes and comments separate nothing.
struct Elements<'v> {
    rest: Option<&'v [u8]>,
    /// Whether the value is one element, with all its commas.
    whole: bool,
}

impl<'v> Iterator for Elements<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.rest?;
        if self.whole || !rest.contains(&b',') {
            return self.rest.take();
        }
        let (mut quoted, mut depth) = (false, 0usize);
        let mut escaped = false;
        let comma = rest.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = quoted || depth > 0,
                b'"' if depth == 0 => quoted = !quoted,
                b'(' if !quoted => depth += 1,
                b')' if !quoted => depth = depth.saturating_sub(1),
                b',' => return !quoted && depth == 0,
                _ => {}
            }
            false
        });
        self.rest = comma.and_then(|comma| rest.get(comma + 1..));
        rest.get(..comma.unwrap_or(rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Given {
        Given::One(value.as_bytes().to_vec())
    }

    #[test]
    fn names_that_servers_fold() {
        for (one, other, expected) in [
            ("x-api-key", "X_Api_Key", true),
            ("x-api-key", "x-api_key", true),
            ("x-api-key", "x-apikey", false),
            ("x-api-key", "x-api.key", false),
            ("", "", true),
        ] {
            assert_eq!(is_same_name(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
    }

    #[test]
    fn headers() {
        let long = "x".repeat(VALUE_BYTES_MAX);
        let longer = format!("{long}x");
        let rows: &[(&str, &[&str], Given)] = &[
            ("x-key", &[], Given::Nothing),
            ("x-key", &["", " ", ",,", "\"\"", "%20"], Given::Nothing),
            ("x-key", &["real"], one("real")),
            ("x-key", &["\"real\"", " re%61l ", "\"re\\141l\"", "\"r\\eal\""], one("real")),
            ("x-key", &["real", "", "real"], one("real")),
            ("x-key", &["real, real"], one("real")),
            ("x-key", &["real", "junk"], Given::Several),
            ("x-key", &["real,junk"], Given::Several),
            ("x-key", &["REAL", "real"], Given::Several),
            ("x-key", &["a \t b"], one("a b")),
            ("x-key", &["\"a, b\""], one("a, b")),
            ("x-key", &["\"a\\\", b\""], one("a\", b")),
            ("x-key", &["\"a, b"], one("\"a, b")),
            ("x-key", &[&long], one(&long)),
            ("x-key", &[&longer], Given::Several),
            ("x-key", &[&long[1..], "x"], Given::Several),
            ("x-key", &[&long, "x"], Given::Several),
            (
                "x-key",
                &[&long[..VALUE_BYTES_MAX / 2], &long[VALUE_BYTES_MAX / 2..]],
                one(&long[..VALUE_BYTES_MAX / 2]),
            ),
            (
                "x-key",
                &[&long[..VALUE_BYTES_MAX / 2], &long[VALUE_BYTES_MAX / 2..], "x"],
                Given::Several,
            ),
            // Comments of user-agents, and fields that are lists, are one value.
            ("user-agent", &["M (K, like \"G) S"], one("M (K, like \"G) S")),
            ("user-agent", &["M (a (b, c), d) S, x"], Given::Several),
            ("accept-language", &["de, en;q=0.7"], one("de, en;q=0.7")),
            ("Sec_CH-UA", &["\"A\";v=1, \"B\";v=2"], one("\"A\";v=1, \"B\";v=2")),
            ("acc", &["a,b"], Given::Several),
            ("authorization", &["Bearer tok"], one("bearer tok")),
            ("Authorization", &["bEARER   tok==", "bearer\ttok="], one("bearer tok")),
            ("authorization", &["Bearer tok, Bearer junk"], Given::Several),
            ("authorization", &["Bearer tok,BEARER tok"], one("bearer tok")),
            ("authorization", &["Bearer TOK", "Bearer tok"], Given::Several),
            (
                "authorization",
                &["Basic YTpi", "basic  YTpi====", "BASIC Y*T p\ri"],
                one("basic a:b"),
            ),
            ("authorization", &["Basic YTpiYw==", "basic YTpiYx"], one("basic a:bc")),
            ("proxy_authorization", &["Basic -_-_", "Basic +/+/"], {
                Given::One(b"basic \xfb\xff\xbf".to_vec())
            }),
            ("authorization", &["Bearer"], one("bearer ")),
            ("x-key", &["Bearer tok"], one("Bearer tok")),
        ];
        for (name, values, expected) in rows {
            let given = header(name, values.iter().map(|value| value.as_bytes()));
            assert_eq!(given, *expected, "{name}: {values:?}");
        }
    }

    #[test]
    fn cookies() {
        let rows: &[(&[&str], Given)] = &[
            (&["id=7"], one("7")),
            (&["a=b;id = 7 ;c"], one("7")),
            (&["a=b; id=7; id=7", "id=7"], one("7")),
            (&["id=\"7\"; id=%37; id=\"\\067\""], one("7")),
            (&["id=junk1; id=real"], Given::Several),
            (&["id=real", "id=junk"], Given::Several),
            (&["id=a+b; id=a%20b; id=a%2bb"], one("a b")),
            (&["id="], Given::Nothing),
            (&["id=; id=\"\"; id=7"], one("7")),
            (&["id=a=b"], one("a=b")),
            (&["id=a,b"], one("a,b")),
            (&["a=b, id=7"], one("7")),
            (&["a=b, id=7; id=8"], Given::Several),
            (&["ID=7; %69d=7"], one("7")),
            (&["xid=7; id"], Given::Nothing),
            (&[";;=;,=,"], Given::Nothing),
            (&[""], Given::Nothing),
            (&[], Given::Nothing),
        ];
        for (fields, expected) in rows {
            let cookies = Cookies::read(fields.iter().map(|field| field.as_bytes()));
            assert_eq!(cookies.given(b"id"), *expected, "{fields:?}");
        }
        let folded = Cookies::read([&b"PHP.session=7; php session=7"[..]].into_iter());
        assert_eq!(folded.given(b"php_session"), one("7"));
    }

    #[test]
    fn bounds_of_headers() {
        for (elements, expected) in [(ELEMENTS_MAX, one("a")), (ELEMENTS_MAX + 1, Given::Several)] {
            let list = vec!["a"; elements].join(",");
            assert_eq!(header("x-key", [list.as_bytes()].into_iter()), expected, "{elements}");
        }
    }

    #[test]
    fn bounds_of_cookies() {
        for (bytes, expected) in [
            (VALUE_BYTES_MAX, one(&"x".repeat(VALUE_BYTES_MAX))),
            (VALUE_BYTES_MAX + 1, Given::Several),
        ] {
            let field = format!("id={}", "x".repeat(bytes));
            assert_eq!(Cookies::read([field.as_bytes()].into_iter()).given(b"id"), expected);
        }
        for (more, expected) in [(COOKIES_MAX - 1, one("7")), (COOKIES_MAX, Given::Several)] {
            let field = format!("{}id=7", "a=b;".repeat(more));
            let cookies = Cookies::read([field.as_bytes()].into_iter());
            assert_eq!(cookies.given(b"id"), expected, "{more} others");
        }
        for (pieces, expected) in
            [(COOKIE_PIECES_MAX - 1, one("7")), (COOKIE_PIECES_MAX, Given::Several)]
        {
            for field in
                [format!("{}id=7", ";".repeat(pieces)), format!("id=7;a{}", ",".repeat(pieces - 1))]
            {
                let cookies = Cookies::read([field.as_bytes()].into_iter());
                assert_eq!(cookies.given(b"id"), expected, "{pieces} others");
            }
        }
        let many = ",=,".repeat(20 << 10);
        let cookies = Cookies::read([many.as_bytes()].into_iter());
        assert_eq!((cookies.pairs.len(), cookies.given(b"id")), (COOKIES_MAX, Given::Several));
    }
}
