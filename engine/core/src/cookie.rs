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

#[cfg(test)]
mod tests {
    use super::pairs;

    #[track_caller]
    fn check(header: &str, expected: &str) {
        let found: Vec<String> = pairs(header.as_bytes())
            .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(found.join("|"), expected, "of {header:?}");
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
