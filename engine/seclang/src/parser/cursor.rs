//! A position in the text of one argument.

use std::ops::Range;

use crate::error::SyntaxError;
use crate::span::Text;
use crate::traced::{Traced, is_blank};

/// Reads an argument from left to right. It stops only before ASCII bytes, so every position it
/// takes is between two characters.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a Traced,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a Traced) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_str().as_bytes().get(self.at).copied()
    }

    /// Whether the next byte is `byte`, which is then taken.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        while self.peek().is_some_and(&accept) {
            self.at += 1;
        }
        start..self.at
    }

    pub(super) fn skip_blank(&mut self) {
        self.take_while(is_blank);
    }

    /// Up to the next `quote` that is not escaped, which is taken too: the part before it with
    /// `\quote` turned into `quote`, other backslashes kept. `None` if there is none.
    pub(super) fn take_quoted(&mut self, quote: u8) -> Option<Text> {
        let start = self.at;
        let bytes = self.text.as_str().as_bytes();
        let mut escapes = 0_usize;
        loop {
            match self.peek()? {
                b'\\' if self.at + 1 < bytes.len() => {
                    escapes += usize::from(bytes.get(self.at + 1) == Some(&quote));
                    self.at += 2;
                }
                byte if byte == quote => break,
                _ => self.at += 1,
            }
        }
        let mut found = self.text.text(start..self.at);
        if escapes > 0 {
            found.text = unescaped(&found.text, char::from(quote));
        }
        self.at += 1;
        Some(found)
    }

    /// An error about a part of the argument.
    pub(super) fn error(&self, range: Range<usize>, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text.span(range), message)
    }

    /// The range of the character at the position; empty at the end of the text.
    pub(super) fn character(&self) -> Range<usize> {
        let rest = self.text.as_str().get(self.at..).unwrap_or_default();
        self.at..self.at + rest.chars().next().map_or(0, char::len_utf8)
    }
}

/// `text` with `\quote` turned into `quote`. `\\` is two backslashes and escapes nothing after it.
pub(super) fn unescaped(text: &str, quote: char) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            meant.push(character);
            continue;
        }
        match characters.next() {
            Some(next) if next == quote => meant.push(quote),
            Some(next) => meant.extend([character, next]),
            None => meant.push(character),
        }
    }
    meant
}
