//! `base64Decode`, `base64DecodeExt`, `base64Encode` (RFC 4648 section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The six bits a byte of the alphabet stands for.
fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Gathers sextets into bytes.
#[derive(Default)]
struct Group {
    bits: u32,
    sextets: u8,
}

impl Group {
    /// Adds one sextet and writes the three bytes of a full group.
    fn push(&mut self, sextet: u8, out: &mut Vec<u8>) {
        self.bits = (self.bits << 6) | u32::from(sextet);
        self.sextets += 1;
        if self.sextets == 4 {
            let [_, bytes @ ..] = self.bits.to_be_bytes();
            out.extend_from_slice(&bytes);
            *self = Self::default();
        }
    }

    /// Writes the whole bytes of an unfinished group.
    fn finish(&self, out: &mut Vec<u8>) {
        let [_, first, second, _] =
            (self.bits << (6 * (4 - u32::from(self.sextets)))).to_be_bytes();
        match self.sextets {
            2 => out.push(first),
            3 => out.extend_from_slice(&[first, second]),
            _ => {}
        }
    }
}

/// Both alphabets of RFC 4648 (sections 4 and 5) at once, without padding; line ends are skipped, and a space is a `+`
/// that a form has decoded. False, and nothing more is written, at any other character, or where the last group has
/// one character.
pub(crate) fn decode_any_alphabet(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut group = Group::default();
    for &byte in input {
        let byte = match byte {
            b'-' | b' ' => b'+',
            b'_' => b'/',
            b'\r' | b'\n' => continue,
            other => other,
        };
        let Some(sextet) = sextet(byte) else { return false };
        group.push(sextet, out);
    }
    group.finish(out);
    group.sextets != 1
}

/// Base64 whose parts have padding of their own, as clients of gRPC-Web send it. False, and nothing more is written,
/// where it is not.
pub(crate) fn decode_parts(input: &[u8], out: &mut Vec<u8>) -> bool {
    for part in input.chunks(4) {
        let padding = part.iter().rev().take_while(|&&byte| byte == b'=').count();
        let mut group = Group::default();
        for &byte in part.get(..part.len() - padding).unwrap_or_default() {
            let Some(sextet) = sextet(byte) else { return false };
            group.push(sextet, out);
        }
        group.finish(out);
        if part.len() < 4 || padding > 2 {
            return false;
        }
    }
    true
}

/// `base64Decode`: strict, as the mbed TLS decoder behind ModSecurity 3.
///
/// The input ends at its first NUL byte. LF, CRLF and trailing spaces are skipped; any other byte
/// outside the alphabet, data after `=` or a third `=` makes the result empty. A last group that
/// is short of four characters (padding counts) is dropped.
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    if input.is_empty() {
        return false;
    }
    let end = memchr::memchr(0, input).unwrap_or(input.len());
    let mut group = Group::default();
    let mut pads = 0_u8;
    let mut after_space = false;
    let mut rest = input.get(..end).unwrap_or_default();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b' ', _) => {
                after_space = true;
                continue;
            }
            (b'\n', _) => {}
            (b'\r', [b'\n', tail @ ..]) => rest = tail,
            _ if after_space => return reject(out),
            (b'=', _) => {
                pads += 1;
                if pads > 2 {
                    return reject(out);
                }
                finish_padded(&mut group, pads, out);
            }
            _ => match sextet(*byte) {
                Some(sextet) if pads == 0 => group.push(sextet, out),
                _ => return reject(out),
            },
        }
        after_space = false;
    }
    true
}

/// The result of a strict decoder for what is not Base64: nothing.
fn reject(out: &mut Vec<u8>) -> bool {
    out.clear();
    true
}

/// Writes the last group once its padding makes it four characters long.
fn finish_padded(group: &mut Group, pads: u8, out: &mut Vec<u8>) {
    if group.sextets + pads == 4 {
        group.finish(out);
        *group = Group::default();
    }
}

/// `base64DecodeExt`: forgiving; bytes outside the alphabet and `=` are skipped.
///
/// One thing empties the result, as in ModSecurity 3: an `=` right after the first character of a
/// group that no second `=` follows. A group short of four characters gives its whole bytes.
///
/// Departure: ModSecurity also empties the result when a `9` ends the value as the first character
/// of a group, because it compares the digit's value (61) with the code of `=` (61 as well). That
/// would let one trailing character hide a payload, so here the rest of the value stays decoded.
pub(crate) fn decode_ext(input: &[u8], out: &mut Vec<u8>) -> bool {
    if input.is_empty() {
        return false;
    }
    let mut group = Group::default();
    let mut bytes = input.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte == b'=' {
            // A second `=` is passed over here and judged when its own turn comes.
            if group.sextets == 1 && bytes.peek() != Some(&&b'=') {
                return reject(out);
            }
        } else if let Some(sextet) = sextet(byte) {
            group.push(sextet, out);
        }
    }
    group.finish(out);
    true
}

/// `base64Encode`: with padding, without line breaks.
pub(crate) fn encode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let letter = |bits: u32| {
        let index = usize::from((bits & 63) as u8);
        ALPHABET.get(index).copied().unwrap_or(b'=')
    };
    out.reserve(input.len().div_ceil(3) * 4);
    for chunk in input.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        let mut quad = [letter(bits >> 18), letter(bits >> 12), letter(bits >> 6), letter(bits)];
        // One byte fills two characters, two fill three; padding stands for the others.
        if let Some(padding) = quad.get_mut(chunk.len() + 1..) {
            padding.fill(b'=');
        }
        out.extend_from_slice(&quad);
    }
    !input.is_empty()
}
