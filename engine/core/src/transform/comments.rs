//! `removeComments`, `removeCommentsChar`, `replaceComments`.

use memchr::{memchr, memmem};

/// `removeComments`: drops `/* … */` and `<!-- … -->`, and everything from `--` or `#` on.
///
/// ModSecurity's three surprises are kept, since rules were tuned with them. The byte after the
/// end of a comment is copied without being looked at, so `/*a*//*b*/` leaves `/*b*/`; when there
/// is no such byte, a NUL takes its place. Either kind of end closes either kind of comment. An
/// unterminated comment leaves a space.
pub(crate) fn remove(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(|byte| matches!(byte, b'/' | b'<' | b'-' | b'#')) {
        return false;
    }
    out.reserve(input.len());
    let mut rest = input;
    loop {
        rest = match rest {
            [b'/', b'*', text @ ..] | [b'<', b'!', b'-', b'-', text @ ..] => {
                let Some(after) = after_comment(text) else {
                    out.push(b' ');
                    return true;
                };
                let [next, tail @ ..] = after else {
                    out.push(0);
                    return true;
                };
                out.push(*next);
                tail
            }
            [b'-', b'-', ..] | [b'#', ..] | [] => return true,
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

/// What follows the first `*/` or `-->` of a comment's text; `None` if it has neither.
fn after_comment(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match text {
            [b'*', b'/', after @ ..] | [b'-', b'-', b'>', after @ ..] => return Some(after),
            [_, tail @ ..] => tail,
            [] => return None,
        }
    }
}

/// `removeCommentsChar`: drops `/*`, `*/`, `<!--`, `-->`, `--` and `#` and keeps the text.
pub(crate) fn remove_char(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(|byte| matches!(byte, b'*' | b'-' | b'#')) {
        return false;
    }
    out.reserve(input.len());
    let mut rest = input;
    loop {
        rest = match rest {
            [b'/', b'*', tail @ ..]
            | [b'*', b'/', tail @ ..]
            | [b'<', b'!', b'-', b'-', tail @ ..]
            | [b'-', b'-', b'>', tail @ ..]
            | [b'-', b'-', tail @ ..]
            | [b'#', tail @ ..] => tail,
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return true,
        }
    }
}

/// `replaceComments`: every `/* … */`, or `/*` to the end if unterminated, becomes one space.
pub(crate) fn replace(input: &[u8], out: &mut Vec<u8>) -> bool {
    // `/` is common in clean values, `*` is not.
    if memchr(b'*', input).is_none() {
        return false;
    }
    let mut rest = input;
    while let Some((text, tail)) = split_once(rest, b"/*") {
        out.extend_from_slice(text);
        out.push(b' ');
        let Some((_, after)) = split_once(tail, b"*/") else {
            return true;
        };
        rest = after;
    }
    out.extend_from_slice(rest);
    true
}

/// The parts before and after the first `mark`.
fn split_once<'a>(value: &'a [u8], mark: &[u8; 2]) -> Option<(&'a [u8], &'a [u8])> {
    let start = memmem::find(value, mark)?;
    Some((value.get(..start)?, value.get(start + mark.len()..)?))
}
