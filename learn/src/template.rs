//! Texts with parts that vary: segments of paths, names of parameters, values.
//!
//! A part that looks like an identifier (a number, hexadecimal digits, a UUID, a token) is variable only when two
//! different ones were seen at the same place. Until then it is literal.

use std::collections::BTreeMap;

/// Kinds of variable parts, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Number,
    Hex,
    Uuid,
    Token,
}

impl Class {
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Number => "{number}",
            Self::Hex => "{hex}",
            Self::Uuid => "{uuid}",
            Self::Token => "{token}",
        }
    }

    /// The narrowest class that has both.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Number | Self::Hex, Self::Number | Self::Hex) => Self::Hex,
            _ => Self::Token,
        }
    }
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(String),
    Variable(Class, String),
}

/// Letters that a token has at least.
const TOKEN_MIN: usize = 16;

/// Letters of a token that mixes cases and digits.
const MIXED_TOKEN_MIN: usize = 10;

/// Hexadecimal digits that stand for more than a word.
const HEX_MIN: usize = 8;

/// Letters of a path segment that is a token with `-` and `_` in it.
const LONG_TOKEN_MIN: usize = 20;

const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Splits a text into literal parts and parts that look like identifiers.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    for (at, segment) in text.split('/').enumerate() {
        if at > 0 {
            literal(&mut out, "/");
        }
        let mut parts = Vec::new();
        split_segment(&mut parts, segment);
        let is_token =
            |piece: &Piece| matches!(piece, Piece::Variable(Class::Hex | Class::Token, _));
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_long = segment.len() >= LONG_TOKEN_MIN && segment.bytes().all(word);
        if parts.len() > 1 && is_long && parts.iter().any(is_token) {
            parts = vec![Piece::Variable(Class::Token, segment.to_owned())];
        }
        for piece in parts {
            match piece {
                Piece::Literal(text) => literal(&mut out, &text),
                variable @ Piece::Variable(..) => out.push(variable),
            }
        }
    }
    out
}

fn split_segment(out: &mut Vec<Piece>, segment: &str) {
    let mut rest = segment;
    while !rest.is_empty() {
        if let Some(uuid) = uuid(rest) {
            out.push(Piece::Variable(Class::Uuid, uuid.to_owned()));
            rest = rest.get(uuid.len()..).unwrap_or_default();
            continue;
        }
        let run = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (part, behind) = if run > 0 {
            rest.split_at(run)
        } else {
            let first = rest.chars().next().map_or(1, char::len_utf8);
            rest.split_at(first)
        };
        match class_of(part) {
            Some(class) => out.push(Piece::Variable(class, part.to_owned())),
            None => split_digits(out, part),
        }
        rest = behind;
    }
}

fn uuid(text: &str) -> Option<&str> {
    let length = UUID_GROUPS.iter().sum::<usize>() + UUID_GROUPS.len() - 1;
    let uuid = text.get(..length)?;
    let ends = text.as_bytes().get(length).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let groups: Vec<&str> = uuid.split('-').collect();
    let hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let shape = groups.iter().map(|group| group.len()).eq(UUID_GROUPS);
    (ends && shape && groups.iter().all(hex)).then_some(uuid)
}

fn class_of(run: &str) -> Option<Class> {
    let count = |is: fn(&u8) -> bool| run.as_bytes().iter().filter(|byte| is(byte)).count();
    let (digits, length) = (count(u8::is_ascii_digit), run.len());
    if digits == length {
        return (length > 0).then_some(Class::Number);
    }
    if digits == 0 {
        return None;
    }
    if length >= HEX_MIN && count(u8::is_ascii_hexdigit) == length {
        return Some(Class::Hex);
    }
    let mixed = count(u8::is_ascii_uppercase) > 0 && count(u8::is_ascii_lowercase) > 0;
    let is_token =
        length >= MIXED_TOKEN_MIN && mixed || length >= TOKEN_MIN && digits >= length / 6;
    is_token.then_some(Class::Token)
}

/// Numbers in a word, such as `item12`.
fn split_digits(out: &mut Vec<Piece>, text: &str) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|next: char| next.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        if is_digit {
            out.push(Piece::Variable(Class::Number, part.to_owned()));
        } else {
            literal(out, part);
        }
        rest = behind;
    }
}

fn literal(out: &mut Vec<Piece>, text: &str) {
    if let Some(Piece::Literal(last)) = out.last_mut() {
        last.push_str(text);
    } else {
        out.push(Piece::Literal(text.to_owned()));
    }
}

/// The text with every variable part left out: texts that are the same but for those have the same skeleton.
pub(crate) fn skeleton(pieces: &[Piece]) -> String {
    let part = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Variable(..) => "\0".to_owned(),
    };
    pieces.iter().map(part).collect()
}

/// Texts with the same skeleton.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    parts: Vec<(Piece, bool)>,
}

impl Template {
    pub(crate) fn new(pieces: Vec<Piece>) -> Self {
        Self { parts: pieces.into_iter().map(|piece| (piece, false)).collect() }
    }

    /// Takes another text of the same skeleton into account.
    pub(crate) fn absorb(&mut self, pieces: &[Piece]) {
        for ((own, varied), other) in self.parts.iter_mut().zip(pieces) {
            if let (Piece::Variable(class, text), Piece::Variable(other, seen)) = (own, other) {
                *class = class.join(*other);
                *varied |= text != seen;
            }
        }
    }

    /// The parts: a literal text, or the class of what varies.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<&str, Class>> {
        self.parts.iter().map(|(piece, varied)| match piece {
            Piece::Variable(class, _) if *varied => Err(*class),
            Piece::Literal(text) | Piece::Variable(_, text) => Ok(text.as_str()),
        })
    }

    /// The text with placeholders for what varies.
    pub(crate) fn text(&self) -> String {
        self.parts().map(|part| part.unwrap_or_else(|class| class.placeholder())).collect()
    }
}

/// Templates by an owner (such as a host) and skeleton, with a bound.
#[derive(Debug)]
pub(crate) struct Templates {
    known: BTreeMap<(String, String), Template>,
    max: usize,
}

impl Templates {
    pub(crate) const fn new(max: usize) -> Self {
        Self { known: BTreeMap::new(), max }
    }

    /// Takes a text into account. Beyond the bound a text of a new skeleton is left out, and stays literal.
    pub(crate) fn add(&mut self, owner: &str, text: &str) {
        let pieces = pieces(text);
        let key = (owner.to_owned(), skeleton(&pieces));
        if let Some(template) = self.known.get_mut(&key) {
            template.absorb(&pieces);
        } else if self.known.len() < self.max {
            self.known.insert(key, Template::new(pieces));
        }
    }

    /// The text with placeholders for what varies among those that were added.
    pub(crate) fn text(&self, owner: &str, text: &str) -> String {
        let key = (owner.to_owned(), skeleton(&pieces(text)));
        self.known.get(&key).map_or_else(|| text.to_owned(), Template::text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is learned from texts.
    fn check(texts: &[&str], expected: &str) {
        let mut templates = Templates::new(10);
        for text in texts {
            templates.add("", text);
        }
        assert_eq!(templates.text("", texts[0]), expected, "{texts:?}");
    }

    #[test]
    fn what_varies_becomes_a_placeholder_and_what_does_not_stays() {
        check(&["/a/1"], "/a/1");
        check(&["/a/1", "/a/1"], "/a/1");
        check(&["/a/1", "/a/22"], "/a/{number}");
        check(&["/a/1/b/7", "/a/2/b/7"], "/a/{number}/b/7");
        check(&["/v1/12345678", "/v1/1a2b3c4d"], "/v1/{hex}");
        check(&["/c/3f9a8b7c6d5e4f3a2b1c0d9e", "/c/00aa8b7c6d5e4f3a2b1c0d9e"], "/c/{hex}");
        check(&["/js/app.3f9a8b7c.js", "/js/app.12ab34cd.js"], "/js/app.{hex}.js");
        check(
            &["/o/550e8400-e29b-41d4-a716-446655440000", "/o/123e4567-e89b-12d3-a456-426614174000"],
            "/o/{uuid}",
        );
        check(&["/t/aB3dE5fG7hI9", "/t/zY8xW6vU4tS2"], "/t/{token}");
        check(&["/t/x-Ab3_dE5fG7hI9kLmN4", "/t/Ab3dE5f-G7hI9kLmN4_00"], "/t/{token}");
        check(&["items[3].name", "items[12].name"], "items[{number}].name");
        check(&["json.rows.array_0.q", "json.rows.array_1.q"], "json.rows.array_{number}.q");
        check(&["/article/how-to-select", "/article/how-to-drop"], "/article/how-to-select");
        check(&["/\u{e4}/1", "/\u{e4}/2"], "/\u{e4}/{number}");
    }

    #[test]
    fn the_bound_leaves_texts_literal() {
        let mut templates = Templates::new(1);
        for text in ["/a/1", "/a/2", "/b/1", "/b/2"] {
            templates.add("", text);
        }
        assert_eq!(templates.text("", "/a/3"), "/a/{number}");
        assert_eq!(templates.text("", "/b/1"), "/b/1");
    }
}
