//! `@validateUtf8Encoding`.

/// Whether the value is not UTF-8 (RFC 3629): a truncated character, a stray or missing
/// continuation byte, an overlong form, a surrogate, or a number above U+10FFFF.
///
/// The one departure from ModSecurity: it accepts U+110000 to U+13FFFF (first byte 0xF4), which
/// the RFC forbids and its own comment means to exclude.
pub(crate) fn invalid(value: &[u8]) -> bool {
    str::from_utf8(value).is_err()
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(value: &[u8], invalid: bool) {
        assert_eq!(super::invalid(value), invalid, "{value:x?}");
    }

    #[test]
    fn judges_by_rfc_3629() {
        check(b"", false);
        check(b"plain\0ascii\x7f", false);
        check("\u{80} \u{7ff} \u{800} \u{ffff} \u{10000} \u{10ffff}".as_bytes(), false);
        check(b"\xc0\x80", true);
        check(b"\xc1\xbf", true);
        check(b"\xe0\x9f\xbf", true);
        check(b"\xf0\x8f\xbf\xbf", true);
        check(b"\xed\x9f\xbf", false);
        check(b"\xed\xa0\x80", true);
        check(b"\xed\xbf\xbf", true);
        check(b"\xee\x80\x80", false);
        check(b"\xf4\x8f\xbf\xbf", false);
        check(b"\xf4\x90\x80\x80", true);
        check(b"\xf5\x80\x80\x80", true);
        check(b"\xff", true);
        check(b"\x80", true);
        check(b"a\xc3", true);
        check(b"\xc3(", true);
        check(b"\xe2\x82", true);
        check(b"\xe2(\xa1", true);
        check(b"\xf0\x9f\x98", true);
    }
}
