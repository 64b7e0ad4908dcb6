//! `compressWhitespace` and `removeWhitespace`.

/// White space of the C locale: space, tab, LF, VT, FF, CR. (Rust's notion of ASCII white space
/// lacks the vertical tab, which shells and databases accept.)
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

/// `compressWhitespace`: every run of white space becomes one space.
pub(crate) fn compress(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut after_space = false;
    let first = input.iter().position(|&byte| {
        let change = is_space(byte) && (byte != b' ' || after_space);
        after_space = byte == b' ';
        change
    });
    let Some((same, rest)) = first.map(|first| input.split_at(first)) else {
        return false;
    };
    out.reserve(input.len());
    out.extend_from_slice(same);
    let mut in_run = same.last() == Some(&b' ');
    for &byte in rest {
        if !is_space(byte) {
            out.push(byte);
        } else if !in_run {
            out.push(b' ');
        }
        in_run = is_space(byte);
    }
    true
}

/// `removeWhitespace`: white space, and the bytes 0xA0 and 0xC2 wherever they stand: together they
/// are a no-break space in UTF-8, and ModSecurity removes each on its own.
pub(crate) fn remove(input: &[u8], out: &mut Vec<u8>) -> bool {
    let removed = |byte: u8| is_space(byte) || byte == 0xa0 || byte == 0xc2;
    if !input.iter().any(|&byte| removed(byte)) {
        return false;
    }
    out.extend(input.iter().copied().filter(|&byte| !removed(byte)));
    true
}
