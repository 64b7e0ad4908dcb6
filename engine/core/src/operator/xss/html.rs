//! HTML to tokens, as lenient as old browsers: after the tokenizer of the HTML standard (section
//! 13.2.5) with libinjection's additions.

use memchr::{memchr, memmem};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AttributeName,
    AttributeValue,
    Comment,
    Doctype,
    /// The name behind `<`; also that behind `</` if no `>` follows it at once.
    TagOpen,
    /// Text, and the ends of tags.
    Other,
}

/// A token: what it is, and which bytes of the input it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    AfterAttributeName,
    AfterQuotedValue,
    BeforeAttributeName,
    BeforeAttributeValue,
    Data,
    End,
    /// Inside a value that this quote ends.
    QuotedValue(u8),
    SelfClosing,
    TagEnd,
    TagOpen,
}

/// Reads one value from front to back; every state moves forward, so it is linear.
pub(super) struct Reader<'a> {
    input: &'a [u8],
    pos: usize,
    state: State,
    /// The tag began with `</`.
    closing: bool,
}

/// White space, to which old browsers count NUL.
fn is_white(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t'..=b'\r')
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8], start: State) -> Self {
        Self { input, pos: 0, state: start, closing: false }
    }

    /// The next token; `None` at the end, and where nothing more can follow.
    pub(super) fn next_token(&mut self) -> Option<Token> {
        match self.state {
            State::AfterAttributeName => self.after_attribute_name(),
            State::AfterQuotedValue => self.after_quoted_value(),
            State::BeforeAttributeName => self.before_attribute_name(),
            State::BeforeAttributeValue => self.before_attribute_value(),
            State::Data => self.data(),
            State::End => None,
            State::QuotedValue(quote) => Some(self.quoted_value(quote)),
            State::SelfClosing => self.self_closing(),
            State::TagEnd => Some(self.tag_end()),
            State::TagOpen => self.tag_open(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.pos).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.input.get(self.pos..).unwrap_or_default()
    }

    /// A token from `pos` to `end`; reading goes on at `next` in `state`.
    fn token(&mut self, kind: Kind, end: usize, next: usize, state: State) -> Token {
        let token = Token { kind, start: self.pos, len: end.saturating_sub(self.pos) };
        self.pos = next;
        self.state = state;
        token
    }

    /// A token of all the rest.
    fn last(&mut self, kind: Kind) -> Token {
        let end = self.input.len();
        self.token(kind, end, end, State::End)
    }

    /// A token up to `length` bytes further on, where `skip` bytes end it; all the rest without.
    fn delimited(&mut self, kind: Kind, length: Option<usize>, skip: usize) -> Token {
        match length {
            Some(length) => {
                let end = self.pos + length;
                self.token(kind, end, end + skip, State::Data)
            }
            None => self.last(kind),
        }
    }

    fn data(&mut self) -> Option<Token> {
        match memchr(b'<', self.rest()) {
            None if self.rest().is_empty() => None,
            None => Some(self.last(Kind::Other)),
            Some(0) => {
                self.pos += 1;
                self.tag_open()
            }
            Some(length) => {
                let end = self.pos + length;
                Some(self.token(Kind::Other, end, end + 1, State::TagOpen))
            }
        }
    }

    /// Behind a `<`.
    fn tag_open(&mut self) -> Option<Token> {
        match self.peek()? {
            b'!' => {
                self.pos += 1;
                Some(self.declaration())
            }
            b'/' => {
                self.pos += 1;
                self.closing = true;
                self.end_tag_open()
            }
            b'?' => {
                self.pos += 1;
                Some(self.bogus_comment())
            }
            // Comments of Internet Explorer up to 9 and Safari up to 4.
            b'%' => {
                self.pos += 1;
                let length = memmem::find(self.rest(), b"%>");
                Some(self.delimited(Kind::Comment, length, 2))
            }
            0 => Some(self.tag_name()),
            letter if letter.is_ascii_alphabetic() => Some(self.tag_name()),
            _ => {
                let here = self.pos;
                Some(self.token(Kind::Other, here, here, State::Data))
            }
        }
    }

    fn end_tag_open(&mut self) -> Option<Token> {
        match self.peek()? {
            b'>' => self.data(),
            letter if letter.is_ascii_alphabetic() => Some(self.tag_name()),
            _ => {
                self.closing = false;
                Some(self.bogus_comment())
            }
        }
    }

    fn tag_name(&mut self) -> Token {
        let ends = |&byte: &u8| byte != 0 && (is_white(byte) || matches!(byte, b'/' | b'>'));
        let Some(end) = self.rest().iter().position(ends).map(|length| self.pos + length) else {
            return self.last(Kind::TagOpen);
        };
        match self.input.get(end) {
            Some(b'/') => self.token(Kind::TagOpen, end, end + 1, State::SelfClosing),
            Some(b'>') if self.closing => {
                self.closing = false;
                self.token(Kind::Other, end, end + 1, State::Data)
            }
            Some(b'>') => self.token(Kind::TagOpen, end, end, State::TagEnd),
            _ => self.token(Kind::TagOpen, end, end + 1, State::BeforeAttributeName),
        }
    }

    /// At the `>` that ends a tag.
    fn tag_end(&mut self) -> Token {
        self.closing = false;
        let end = self.pos + 1;
        self.token(Kind::Other, end, end, State::Data)
    }

    /// Behind a `/` inside a tag.
    fn self_closing(&mut self) -> Option<Token> {
        if self.peek()? == b'>' {
            let end = self.pos + 1;
            return Some(self.token(Kind::Other, end, end, State::Data));
        }
        self.before_attribute_name()
    }

    /// The next byte that is no white space. The byte 0xFF counts as the end: in C it is -1, as
    /// the end is.
    fn skip_white(&mut self) -> Option<u8> {
        self.pos += self.rest().iter().take_while(|&&byte| is_white(byte)).count();
        self.peek().filter(|&byte| byte != 0xff)
    }

    fn before_attribute_name(&mut self) -> Option<Token> {
        loop {
            match self.skip_white()? {
                b'/' => {
                    self.pos += 1;
                    if self.peek()? == b'>' {
                        return self.self_closing();
                    }
                }
                b'>' => {
                    let end = self.pos + 1;
                    return Some(self.token(Kind::Other, end, end, State::Data));
                }
                _ => return Some(self.attribute_name()),
            }
        }
    }

    /// A name; its first byte may be anything.
    fn attribute_name(&mut self) -> Token {
        let ends = |&byte: &u8| is_white(byte) || matches!(byte, b'/' | b'=' | b'>');
        let rest = self.rest().get(1..).unwrap_or_default();
        let Some(end) = rest.iter().position(ends).map(|length| self.pos + 1 + length) else {
            return self.last(Kind::AttributeName);
        };
        let (next, state) = match self.input.get(end) {
            Some(b'/') => (end + 1, State::SelfClosing),
            Some(b'=') => (end + 1, State::BeforeAttributeValue),
            Some(b'>') => (end, State::TagEnd),
            _ => (end + 1, State::AfterAttributeName),
        };
        self.token(Kind::AttributeName, end, next, state)
    }

    fn after_attribute_name(&mut self) -> Option<Token> {
        match self.skip_white()? {
            b'/' => {
                self.pos += 1;
                self.self_closing()
            }
            b'=' => {
                self.pos += 1;
                self.before_attribute_value()
            }
            b'>' => Some(self.tag_end()),
            _ => Some(self.attribute_name()),
        }
    }

    fn before_attribute_value(&mut self) -> Option<Token> {
        Some(match self.skip_white()? {
            quote @ (b'"' | b'\'' | b'`') => self.quoted_value(quote),
            _ => self.unquoted_value(),
        })
    }

    /// A value behind its quote; at the very start of the input the quote stands before it.
    fn quoted_value(&mut self, quote: u8) -> Token {
        if self.pos > 0 {
            self.pos += 1;
        }
        match memchr(quote, self.rest()) {
            Some(length) => {
                let end = self.pos + length;
                self.token(Kind::AttributeValue, end, end + 1, State::AfterQuotedValue)
            }
            None => self.last(Kind::AttributeValue),
        }
    }

    fn unquoted_value(&mut self) -> Token {
        let ends = |&byte: &u8| is_white(byte) || byte == b'>';
        let Some(end) = self.rest().iter().position(ends).map(|length| self.pos + length) else {
            return self.last(Kind::AttributeValue);
        };
        let (next, state) = match self.input.get(end) {
            Some(b'>') => (end, State::TagEnd),
            _ => (end + 1, State::BeforeAttributeName),
        };
        self.token(Kind::AttributeValue, end, next, state)
    }

    fn after_quoted_value(&mut self) -> Option<Token> {
        if self.peek()? == b'/' {
            self.pos += 1;
            return self.self_closing();
        }
        self.before_attribute_name()
    }

    /// Behind `<!`.
    fn declaration(&mut self) -> Token {
        let rest = self.rest();
        let start = rest.get(..7).unwrap_or_default();
        if start.eq_ignore_ascii_case(b"doctype") {
            let length = memchr(b'>', rest);
            self.delimited(Kind::Doctype, length, 1)
        } else if start == b"[CDATA[" {
            self.pos += 7;
            let length = memmem::find(self.rest(), b"]]>");
            self.delimited(Kind::Other, length, 3)
        } else if rest.starts_with(b"--") {
            self.pos += 2;
            self.comment()
        } else {
            self.bogus_comment()
        }
    }

    fn bogus_comment(&mut self) -> Token {
        let length = memchr(b'>', self.rest());
        self.delimited(Kind::Comment, length, 1)
    }

    /// A comment ends in `-->` or `-!>`, with any number of NUL bytes behind the first dash.
    fn comment(&mut self) -> Token {
        let text = self.rest();
        let mut search = 0;
        while let Some(at) = text.get(search..).and_then(|tail| memchr(b'-', tail)) {
            let dash = search + at;
            // An end has three bytes at least.
            if dash + 3 > text.len() {
                break;
            }
            let behind = text.get(dash + 1..).unwrap_or_default();
            let nulls = behind.iter().take_while(|&&byte| byte == 0).count();
            match behind.get(nulls..) {
                Some([b'-' | b'!', b'>', ..]) => {
                    return self.delimited(Kind::Comment, Some(dash), 1 + nulls + 2);
                }
                // Nothing but NUL bytes, or a mark that ends the input: no end can follow.
                Some([] | [b'-' | b'!']) | None => break,
                Some(_) => search = dash + 1,
            }
        }
        self.last(Kind::Comment)
    }
}

#[cfg(test)]
mod tests;
