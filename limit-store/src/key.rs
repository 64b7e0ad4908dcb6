//! Whose counter it is.

use sha2::{Digest, Sha256};
use std::fmt;

/// The longest part of a key that is kept as it is.
const PART_BYTES_MAX: usize = 64;

/// Bytes of a digest that stands for a longer part, or for one with other bytes than names have.
const DIGEST_BYTES: usize = 20;

/// The name of a counter: of which limit, and of whom.
///
/// A part of up to 64 letters, digits and `-._:/@=|,+` is kept as it is, so that an operator can
/// find it in Redis; any other is replaced by `#` and a SHA-256, cut to 160 bits. A client that
/// chooses its own key can thus neither make it long nor collide with another's.
///
/// In a Redis Cluster all keys of one `subject` are on one node: limits of one client are taken
/// together there.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// `{subject}name`
    text: String,
    subject_bytes: usize,
}

impl Key {
    /// The counter of the limit `name` for `subject`: an address, an API key, a descriptor; empty
    /// where the limit is one for all.
    #[must_use]
    pub fn new(name: &[u8], subject: &[u8]) -> Self {
        let mut text = String::with_capacity(name.len().min(64) + subject.len().min(64) + 2);
        text.push('{');
        // An empty tag is none to Redis: the limit itself is the subject then.
        push_part(&mut text, if subject.is_empty() { name } else { subject });
        text.push('}');
        let subject_bytes = text.len();
        if !subject.is_empty() {
            push_part(&mut text, name);
        }
        Self { text, subject_bytes }
    }

    /// As it stands in a store, after a prefix: at most 132 bytes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part that decides on the slot in a cluster, with its braces.
    #[must_use]
    pub fn tag(&self) -> &str {
        self.text.get(..self.subject_bytes).unwrap_or_default()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn push_part(text: &mut String, part: &[u8]) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:/@=|,+".contains(byte);
    if part.len() <= PART_BYTES_MAX && !part.is_empty() && part.iter().all(is_plain) {
        // Every byte is ASCII.
        text.extend(part.iter().map(|byte| char::from(*byte)));
        return;
    }
    text.push('#');
    for byte in Sha256::digest(part).iter().take(DIGEST_BYTES) {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_cannot_be_steered() {
        let a64 = "a".repeat(64);
        let digest = |text: &[u8]| {
            let digest = Sha256::digest(text);
            let hex: String = digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
            format!("#{hex}")
        };
        let a65 = digest("a".repeat(65).as_bytes());
        for (name, subject, expected) in [
            ("login", "192.0.2.1".as_bytes(), "{192.0.2.1}login".to_owned()),
            ("all", b"", "{all}".to_owned()),
            ("", b"x", format!("{{x}}{}", digest(b""))),
            ("n", a64.as_bytes(), format!("{{{a64}}}n")),
            ("n", "a".repeat(65).as_bytes(), format!("{{{a65}}}n")),
            ("n", a65.as_bytes(), format!("{{{}}}n", digest(a65.as_bytes()))),
            ("n", b"a}b", format!("{{{}}}n", digest(b"a}b"))),
            ("n", b"\xff\r\n", format!("{{{}}}n", digest(b"\xff\r\n"))),
        ] {
            let key = Key::new(name.as_bytes(), subject);
            assert_eq!(key.as_str(), expected);
            assert!(key.as_str().len() <= 132);
            assert!(expected.starts_with(key.tag()) && key.tag().ends_with('}'));
        }
    }
}
