//! The `Cookie` header: names and values for `REQUEST_COOKIES` and `REQUEST_COOKIES_NAMES`.

use crate::ascii::is_space;

/// The cookies of one `Cookie` header, in order, as slices of it.
///
/// The rules are those of ModSecurity 3 (`Transaction::addRequestHeader`): pairs end at `;`, white
/// space before a name is dropped, the name ends at the first `=`, a pair without `=` is a name with
/// an empty value. Nothing is percent-decoded and quotes stay: servers differ in both, so rules undo
/// them with transformations. A value without a name (`=value`) has an empty name, where ModSecurity skips
/// it: browsers send such cookies (RFC 6265bis, section 5.7), and applications read them.
///
/// How many cookies are kept is the caller's choice ([`crate::limits::Limits::cookies_max`]); the
/// iterator itself holds no memory.
pub(crate) fn pairs(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    header.split(|&byte| byte == b';').filter_map(|pair| {
        let mut halves = pair.splitn(2, |&byte| byte == b'=');
        let name = trim_start(halves.next().unwrap_or_default());
        let value = halves.next().unwrap_or_default();
        (!name.is_empty() || !value.is_empty()).then_some((name, value))
    })
}

fn trim_start(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|&byte| !is_space(byte)).unwrap_or(name.len());
    name.get(start..).unwrap_or_default()
}

/// The cookies whose values are quoted strings that hold something else than what is between their quotes: names, and
/// what the strings stand for.
///
/// Python's parsers (Werkzeug, Django, Starlette, Tornado, aiohttp) read `"\147"` and `"\g"` as `g`, and some a semicolon
/// within quotes as a part of the value (RFC 2109; the octal form is that of `http.cookies`). `found` gets each cookie's
/// name and value; time is linear in the header, since each quote ends the string before it.
pub(crate) fn quoted(header: &[u8], out: &mut Vec<u8>, mut found: impl FnMut(&[u8], &[u8])) {
    let (mut at, mut closed) = (0, 0);
    for pair in header.split(|&byte| byte == b';') {
        let start = at;
        at += pair.len() + 1;
        if !pair.contains(&b'"') {
            continue;
        }
        // Without a `=` the pair is a value for some servers.
        let equals = pair.iter().position(|&byte| byte == b'=');
        let name = trim_start(equals.and_then(|equals| pair.get(..equals)).unwrap_or_default());
        let value = pair.get(equals.map_or(0, |equals| equals + 1)..).unwrap_or_default();
        let quoted =
            value.trim_ascii().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        if let Some(inside) = quoted.filter(|inside| inside.contains(&b'\\')) {
            unescape(inside, out);
            found(name, out);
        }
        // White space and commas end a cookie for some, so a string may begin behind any `=`.
        let quotes = pair.iter().enumerate().filter(|&(_, &byte)| byte == b'"');
        let begins = quotes.filter(|&(quote, _)| begins_value(pair.get(..quote)));
        for (index, (quote, _)) in begins.enumerate() {
            let opened = start + quote + 1;
            let inside = header.get(opened..).and_then(up_to_quote).unwrap_or_default();
            // A quote that ended a string begins none, but for servers that skip a malformed pair up to its semicolon: for
            // them the string before has not begun.
            let is_outside = opened > closed || index == 0;
            if is_outside {
                closed = opened + inside.len() + 1;
            }
            let is_new = inside.contains(&b'\\') && quoted != Some(inside);
            if is_new || (is_outside && inside.contains(&b';')) {
                unescape(inside, out);
                found(name, out);
            }
        }
    }
}

/// Whether a value begins behind these bytes of a pair.
fn begins_value(before: Option<&[u8]>) -> bool {
    matches!(before.unwrap_or_default().trim_ascii_end(), [] | [.., b'='])
}

/// What stands before the first quote that is not escaped.
fn up_to_quote(text: &[u8]) -> Option<&[u8]> {
    let mut is_escaped = false;
    let end = text.iter().position(|&byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.and_then(|end| text.get(..end))
}

/// Puts into `out` what `text` stands for: a backslash quotes a character, or begins three octal digits.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
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
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{pairs, quoted};

    #[track_caller]
    fn check(header: &str, expected: &str) {
        let found: Vec<String> = pairs(header.as_bytes())
            .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(found.join("|"), expected, "of {header:?}");
    }

    #[test]
    fn quoted_strings_stand_for_something_else() {
        let check = |header: &str, expected: &str| {
            let (mut out, mut all) = (b"before".to_vec(), Vec::new());
            quoted(header.as_bytes(), &mut out, |name, value| {
                all.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()));
            });
            assert_eq!(all.join("|"), expected, "of {header}");
        };
        check(r#"a="\147\q"; b=1"#, "a=gq");
        check(r#"a= "a\073b" ;b="\"" "#, r#"a=a;b|b=\""#);
        check(r#"a="\377\400\8\\""#, r"a=\xff4008\\");
        check(r#"a="x;y=z"; b="1;2"#, "a=x;y=z");
        check(r#"a=" "#, "");
        check(r#"a="x\;y"; b="#, "a=x;y");
        check(r#"a="'"\147""#, r#"a=\'\"g"#);
        check(r#"a="; b="; c=""#, "a=; b=|b=; c=");
        check(r#"a=1a="; a="x;y""#, "a=; a=|a=x;y");
        check(r#"a=1; a="1;;a="x;y""#, "a=1;;a=|a=x;y");
        check(r#""a" = 1; a[b]="1; a="x;y""#, "a[b]=1; a=|a=x;y");
        check(r#"a="\";b="x;y""#, r#"a=\\|a=\";b=|b=x;y"#);
        check(r#"a="x="; b=""; c="y""#, "");
        check(r#"a=1, b="\147"; c=1 d="\"\"""#, r#"a=g|c=\"\""#);
        check(r#"a="a"; b="\"; c=\147; d=x""#, r#"b=\\|b=\"; c=g; d=x"#);
        check(r#"a=; "\147""#, "=g");
        check("", "");
    }

    #[test]
    fn cookies_are_split_as_modsecurity_does_and_none_is_skipped() {
        check("a=1; b=2", "a=1|b=2");
        check("a=1;b=2;", "a=1|b=2");
        check("a", "a=");
        check("a=", "a=");
        check("a=b=c", "a=b=c");
        check("  a=1;\t\r\n\u{b}b=2", "a=1|b=2");
        check("a =1; b= 2 ", "a =1|b= 2 ");
        check("a='x; y'", r"a=\'x|y\'=");
        check("a=%41+b", "a=%41+b");
        check("=1; =; ;;   ; =2=3", "=1|=2=3");
        check("", "");
        check("a=1; a=2", "a=1|a=2");
        check("a=\0x", "a=\\x00x");
    }
}
