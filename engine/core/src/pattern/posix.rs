//! POSIX classes, such as `[[:alpha:]]`. Source: PCRE2, "POSIX CHARACTER CLASSES".

/// Bytes of a POSIX class around its name.
pub(super) const BRACKETS: usize = b"[::]".len();

/// The name of the POSIX class at the start of `rest`, such as `alpha` or `^alpha`. Where what follows is no name, the
/// bracket is a member like any other: `[[:]` has two.
pub(super) fn name(rest: &[u8]) -> Option<&[u8]> {
    let inner = rest.strip_prefix(b"[:")?;
    let name = inner.get(..inner.windows(2).position(|pair| pair == b":]")?)?;
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'^';
    (!name.is_empty() && name.iter().all(is_name)).then_some(name)
}

/// The bytes of the class of that name.
pub(super) fn members(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alpha" => u8::is_ascii_alphabetic,
        b"digit" => u8::is_ascii_digit,
        b"alnum" => u8::is_ascii_alphanumeric,
        b"upper" => u8::is_ascii_uppercase,
        b"lower" => u8::is_ascii_lowercase,
        b"punct" => u8::is_ascii_punctuation,
        b"xdigit" => u8::is_ascii_hexdigit,
        b"cntrl" => u8::is_ascii_control,
        b"graph" => u8::is_ascii_graphic,
        b"ascii" => u8::is_ascii,
        b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        b"space" => |byte| matches!(byte, b'\t'..=b'\r' | b' '),
        b"blank" => |byte| matches!(byte, b'\t' | b' '),
        b"word" => |byte| byte.is_ascii_alphanumeric() || *byte == b'_',
        _ => return None,
    })
}
