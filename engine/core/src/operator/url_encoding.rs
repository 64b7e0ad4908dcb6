//! `@validateUrlEncoding`.

/// Whether a `%` is not followed by two hexadecimal digits. An empty value is valid.
pub(crate) fn invalid(value: &[u8]) -> bool {
    // The digits of one escape are never the `%` of another, so each `%` can be judged alone.
    memchr::memchr_iter(b'%', value).any(|percent| {
        let digits = value.get(percent + 1..percent + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(value: &str, invalid: bool) {
        assert_eq!(super::invalid(value.as_bytes()), invalid, "{value}");
    }

    #[test]
    fn a_percent_needs_two_digits() {
        check("", false);
        check("plain+text", false);
        check("%00%7f%FF%aB", false);
        check("a%20b%2", true);
        check("100%", true);
        check("%2", true);
        check("%g0", true);
        check("%0g", true);
        check("%%41", true);
        check("%4%41", true);
        check("%u0041", true);
        check("%41%", true);
    }
}
