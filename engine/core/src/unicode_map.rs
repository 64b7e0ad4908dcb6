//! `SecUnicodeMapFile`: which byte a server takes for a character beyond its code page.
//!
//! Source: ModSecurity reference manual, `SecUnicodeMapFile`; the file is the `unicode.mapping` that
//! comes with ModSecurity: for each code page its number and a description, then pairs such as
//! `00a1:21`, both hexadecimal.

use crate::ascii::hex_number;

/// The characters of one code page that are replaced, and by what.
///
/// Where a server takes `’` for an apostrophe, rules have to do so, too:
///
/// ```
/// use glacis_engine::{UnicodeMap, transform::Transformation};
///
/// let file = "20127 (US-ASCII)\n00e9:65 2019:27\n";
/// let map = UnicodeMap::parse(file, 20127).expect("it has that code page");
/// assert_eq!(map.byte(0x2019), Some(b'\''));
/// let (decode, mut out) = (Transformation::UrlDecodeUni, Vec::new());
/// decode.apply_mapped(b"%u2019 or 1=1", Some(&map), &mut out);
/// assert_eq!(out, b"' or 1=1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnicodeMap {
    /// Sorted by character.
    pairs: Box<[(u16, u8)]>,
}

impl UnicodeMap {
    /// Reads the pairs of `code_page` from the text of a map file.
    ///
    /// # Errors
    /// When the file has no such code page, or one of its pairs is not of its form.
    pub fn parse(text: &str, code_page: u32) -> Result<Self, String> {
        let mut pairs = Vec::new();
        let mut current = None;
        for line in text.lines() {
            for (position, word) in line.split_ascii_whitespace().enumerate() {
                // Numbers stand in descriptions too, but not at the beginning.
                match (position, word.parse::<u32>()) {
                    (0, Ok(number)) => current = Some(number),
                    _ if current == Some(code_page) && word.contains(':') => {
                        pairs.push(pair(word)?)
                    }
                    _ => {}
                }
            }
        }
        if pairs.is_empty() {
            return Err(format!("the file has no code page {code_page}"));
        }
        // The first of two pairs for a character counts.
        pairs.sort_by_key(|&(character, _)| character);
        pairs.dedup_by_key(|&mut (character, _)| character);
        Ok(Self { pairs: pairs.into() })
    }

    /// The byte for a character, if it is replaced.
    #[must_use]
    pub fn byte(&self, character: u16) -> Option<u8> {
        let at = self.pairs.binary_search_by_key(&character, |&(known, _)| known).ok()?;
        self.pairs.get(at).map(|&(_, byte)| byte)
    }
}

fn pair(word: &str) -> Result<(u16, u8), String> {
    let number = |digits: &str| hex_number(digits.as_bytes());
    let parts = word.split_once(':').and_then(|(character, byte)| {
        Some((u16::try_from(number(character)?).ok()?, u8::try_from(number(byte)?).ok()?))
    });
    parts.ok_or_else(|| format!("`{word}` is no pair such as 00a1:21"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "(A - Page)\n\n\n1250  (ANSI - Central 20127 Europe)\n00a1:21 2018:27\n\n\
                        20127 (US-ASCII)\n00a1:3f 00e9:65\n00e9:66\n932 0434:64 bad:pair\n1251 00a1:+f\n";

    #[test]
    fn code_pages_are_kept_apart() {
        for (code_page, character, expected) in [
            (1250, 0xa1, Some(0x21)),
            (1250, 0x2018, Some(0x27)),
            (1250, 0xe9, None),
            (20127, 0xa1, Some(0x3f)),
            (20127, 0xe9, Some(0x65)),
            (20127, 0x2018, None),
        ] {
            let map = UnicodeMap::parse(FILE, code_page).unwrap();
            assert_eq!(map.byte(character), expected, "{code_page} {character:x}");
        }
        for (code_page, message) in [
            (1, "the file has no code page 1"),
            (932, "`bad:pair` is no pair such as 00a1:21"),
            (1251, "`00a1:+f` is no pair such as 00a1:21"),
        ] {
            assert_eq!(UnicodeMap::parse(FILE, code_page).unwrap_err(), message);
        }
    }
}
