//! SQL text to tokens, lenient as databases are: every byte is part of some token or white space.

use memchr::{memchr, memmem};

use super::keyword;

/// What a token is; one printable letter each, as fingerprints write them.
pub(super) mod kind {
    pub(crate) const BACKSLASH: u8 = b'\\';
    pub(crate) const BAREWORD: u8 = b'n';
    pub(crate) const COLLATE: u8 = b'A';
    pub(crate) const COLON: u8 = b':';
    pub(crate) const COMMA: u8 = b',';
    pub(crate) const COMMENT: u8 = b'c';
    pub(crate) const DOT: u8 = b'.';
    /// Read differently by different databases.
    pub(crate) const EVIL: u8 = b'X';
    pub(crate) const EXPRESSION: u8 = b'E';
    /// Not a token: the dictionary's entry for a known fingerprint.
    pub(crate) const FINGERPRINT: u8 = b'F';
    pub(crate) const FUNCTION: u8 = b'f';
    pub(crate) const GROUP: u8 = b'B';
    pub(crate) const KEYWORD: u8 = b'k';
    pub(crate) const LEFT_BRACE: u8 = b'{';
    pub(crate) const LEFT_PAREN: u8 = b'(';
    pub(crate) const LOGIC: u8 = b'&';
    pub(crate) const NUMBER: u8 = b'1';
    pub(crate) const OPERATOR: u8 = b'o';
    pub(crate) const RIGHT_BRACE: u8 = b'}';
    pub(crate) const RIGHT_PAREN: u8 = b')';
    pub(crate) const SEMICOLON: u8 = b';';
    pub(crate) const SQL_TYPE: u8 = b't';
    pub(crate) const STRING: u8 = b's';
    pub(crate) const TSQL: u8 = b'T';
    pub(crate) const UNION: u8 = b'U';
    pub(crate) const UNKNOWN: u8 = b'?';
    pub(crate) const VARIABLE: u8 = b'v';
}

/// The most bytes of a token that are kept; no word of the dictionary is longer.
pub(super) const VALUE_MAX: usize = 31;

/// Bytes that end a word. A NUL ends one as well.
static WORD_ENDS: ByteTable = ByteTable::of(b" []{}<>:\\?=@!#~+-*/&|^%(),';\t\n\x0b\x0c\r\"\xa0\0");

/// Bytes that end the name of a variable.
static VARIABLE_ENDS: ByteTable = ByteTable::of(b" <>:\\?=@!#~+-*/&|^%(),';\t\n\x0b\x0c\r'`\"\0");

/// A set of bytes that is asked for each byte of a value.
struct ByteTable([bool; 256]);

impl ByteTable {
    const fn of(bytes: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut at = 0;
        while at < bytes.len() {
            table[bytes[at] as usize] = true;
            at += 1;
        }
        Self(table)
    }

    const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }
}

/// The quote that a value is read as standing in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Single,
    Double,
}

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Ansi,
    MySql,
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// A letter of [`kind`]; 0 for no token.
    pub(super) kind: u8,
    /// The mark that opened a text, 0 if it was open from the start.
    pub(super) open: u8,
    /// The mark that closed a text, 0 if it ran to the end.
    pub(super) close: u8,
    len: usize,
    bytes: [u8; VALUE_MAX],
}

impl Token {
    pub(super) const EMPTY: Self =
        Self { kind: 0, open: 0, close: 0, len: 0, bytes: [0; VALUE_MAX] };

    fn new(kind: u8, text: &[u8]) -> Self {
        let mut token = Self { kind, ..Self::EMPTY };
        token.assign(kind, text);
        token
    }

    /// Sets kind and text and keeps the marks.
    pub(super) fn assign(&mut self, kind: u8, text: &[u8]) {
        self.kind = kind;
        self.bytes = [0; VALUE_MAX];
        self.len = text.len().min(VALUE_MAX);
        for (place, byte) in self.bytes.iter_mut().zip(text) {
            *place = *byte;
        }
    }

    fn marked(self, open: u8, close: u8) -> Self {
        Self { open, close, ..self }
    }

    fn of_kind(self, kind: u8) -> Self {
        Self { kind, ..self }
    }

    /// Its text, of which at most [`VALUE_MAX`] bytes are kept.
    pub(super) fn value(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first byte of its text, 0 if it has none.
    pub(super) fn first_byte(&self) -> u8 {
        let [first, ..] = self.bytes;
        first
    }

    pub(super) fn is_word(&self, word: &[u8]) -> bool {
        self.value().eq_ignore_ascii_case(word)
    }

    pub(super) fn is_open_empty_tick(&self) -> bool {
        self.kind == kind::BAREWORD && self.open == b'`' && self.close == 0 && self.len == 0
    }

    pub(super) fn is_arithmetic(&self) -> bool {
        self.kind == kind::OPERATOR && matches!(self.value(), [b'*' | b'/' | b'-' | b'+' | b'%'])
    }

    pub(super) fn is_unary(&self) -> bool {
        self.kind == kind::OPERATOR
            && (matches!(self.value(), [b'+' | b'-' | b'!' | b'~'] | b"!!") || self.is_word(b"NOT"))
    }
}

/// The reader. Each parser takes what starts at `pos` and returns the token and where the next
/// one starts, always further on.
pub(super) struct Lexer<'a> {
    input: &'a [u8],
    pos: usize,
    quote: Quote,
    dialect: Dialect,
    /// How many tokens were read, comments and folded ones included.
    pub(super) tokens_read: usize,
    /// Whether a `#` or a `--` was met that MySQL reads differently.
    pub(super) mysql_may_differ: bool,
}

type Parsed = (Token, usize);

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a [u8], quote: Quote, dialect: Dialect) -> Self {
        Self { input, pos: 0, quote, dialect, tokens_read: 0, mysql_may_differ: false }
    }

    /// The next token.
    pub(super) fn next_token(&mut self) -> Option<Token> {
        let opened_before = match self.quote {
            Quote::None => None,
            Quote::Single => Some(b'\''),
            Quote::Double => Some(b'"'),
        };
        let (token, next) = match opened_before {
            Some(delimiter) if self.pos == 0 => self.text(0, 0, delimiter),
            _ => {
                while is_blank(self.at(self.pos)) && self.pos < self.input.len() {
                    self.pos += 1;
                }
                let first = *self.input.get(self.pos)?;
                self.parse(first)
            }
        };
        self.pos = next;
        self.tokens_read += 1;
        Some(token)
    }

    /// Chooses the parser by the first byte.
    fn parse(&mut self, first: u8) -> Parsed {
        match first {
            b'!' | b'&' | b'*' | b':' | b'<' | b'=' | b'>' | b'|' => self.operator(),
            b'\'' | b'"' => self.text(self.pos, 1, first),
            b'#' => self.hash(),
            b'$' => self.money(),
            b'%' | b'+' | b'^' | b'~' => self.single(kind::OPERATOR),
            b'(' | b')' | b',' | b';' | b'{' | b'}' => self.single(first),
            b'-' => self.dash(),
            b'.' | b'0'..=b'9' => self.number(),
            b'/' => self.slash(),
            b'?' | b']' => self.single(kind::UNKNOWN),
            b'@' => self.variable(),
            b'B' | b'b' => self.literal(|byte| matches!(byte, b'0' | b'1')),
            b'X' | b'x' => self.literal(|byte| byte.is_ascii_hexdigit()),
            b'E' | b'e' => self.escape_text(),
            b'N' | b'n' => self.national_text(),
            b'Q' | b'q' => self.oracle_text(0),
            b'U' | b'u' => self.unicode_text(),
            b'[' => self.bracket_word(),
            b'\\' => self.backslash(),
            b'`' => self.tick(self.pos),
            _ => self.word(),
        }
    }

    /// The byte at `index`, 0 behind the end.
    fn at(&self, index: usize) -> u8 {
        self.input.get(index).copied().unwrap_or(0)
    }

    fn has(&self, index: usize) -> bool {
        index < self.input.len()
    }

    fn from(&self, start: usize) -> &'a [u8] {
        self.input.get(start..).unwrap_or_default()
    }

    fn range(&self, start: usize, end: usize) -> &'a [u8] {
        self.input.get(start..end).unwrap_or_default()
    }

    /// A token of the bytes from `pos` to `end`.
    fn until(&self, kind: u8, end: usize) -> Parsed {
        (Token::new(kind, self.range(self.pos, end)), end)
    }

    fn single(&self, kind: u8) -> Parsed {
        self.until(kind, self.pos + 1)
    }

    /// How many bytes from `start` on are in a set. A NUL counts as one of every set, a slip of
    /// libinjection's that its answers depend on.
    fn span(&self, start: usize, is_in: impl Fn(u8) -> bool) -> usize {
        self.from(start).iter().take_while(|&&byte| byte == 0 || is_in(byte)).count()
    }

    fn comment_to_end_of_line(&self) -> Parsed {
        match memchr(b'\n', self.from(self.pos)) {
            Some(length) => {
                let (token, end) = self.until(kind::COMMENT, self.pos + length);
                (token, end + 1)
            }
            None => self.until(kind::COMMENT, self.input.len()),
        }
    }

    /// `#` is an operator, in MySQL a comment.
    fn hash(&mut self) -> Parsed {
        self.mysql_may_differ = true;
        match self.dialect {
            Dialect::MySql => self.comment_to_end_of_line(),
            Dialect::Ansi => self.single(kind::OPERATOR),
        }
    }

    /// `--` is a comment; in MySQL only if white space or the end follows.
    fn dash(&mut self) -> Parsed {
        let after = self.pos + 2;
        if !self.has(self.pos + 1) || self.at(self.pos + 1) != b'-' {
            self.single(kind::OPERATOR)
        } else if !self.has(after) || is_white(self.at(after)) {
            self.comment_to_end_of_line()
        } else if self.dialect == Dialect::Ansi {
            self.mysql_may_differ = true;
            self.comment_to_end_of_line()
        } else {
            self.single(kind::OPERATOR)
        }
    }

    /// `/` or a comment. One with `/*` inside, which PostgreSQL nests, and MySQL's `/*!`, which it
    /// executes, are evil.
    fn slash(&self) -> Parsed {
        if self.at(self.pos + 1) != b'*' {
            return self.single(kind::OPERATOR);
        }
        let text = self.from(self.pos + 2);
        let close = memmem::find(text, b"*/");
        let nested = close
            .and_then(|close| text.get(..=close))
            .is_some_and(|inside| memmem::find(inside, b"/*").is_some());
        let evil = nested || text.first() == Some(&b'!');
        let end = close.map_or(self.input.len(), |close| self.pos + 2 + close + 2);
        self.until(if evil { kind::EVIL } else { kind::COMMENT }, end)
    }

    /// `\N` is MySQL's NULL.
    fn backslash(&self) -> Parsed {
        if self.at(self.pos + 1) == b'N' {
            self.until(kind::NUMBER, self.pos + 2)
        } else {
            self.single(kind::BACKSLASH)
        }
    }

    fn operator(&self) -> Parsed {
        let two = self.range(self.pos, self.pos + 2);
        if self.range(self.pos, self.pos + 3) == b"<=>" {
            return self.until(kind::OPERATOR, self.pos + 3);
        }
        match keyword(two) {
            Some(kind) => self.until(kind, self.pos + 2),
            None if two.first() == Some(&b':') => self.single(kind::COLON),
            // At the very end a colon stands alone and counts as an operator.
            None => self.single(kind::OPERATOR),
        }
    }

    /// A text that starts `offset` bytes after `start`, behind its opening mark if that is real.
    /// A delimiter counts unless an odd number of backslashes precedes it or it is doubled.
    fn text(&self, start: usize, offset: usize, delimiter: u8) -> Parsed {
        let open = if offset > 0 { delimiter } else { 0 };
        let begin = start + offset;
        let mut search = begin;
        while let Some(length) = memchr(delimiter, self.from(search)) {
            let end = search + length;
            let before = self.range(begin, end).iter().rev();
            let escapes = before.take_while(|&&byte| byte == b'\\').count();
            if escapes % 2 == 1 {
                search = end + 1;
            } else if self.has(end + 1) && self.at(end + 1) == delimiter {
                search = end + 2;
            } else {
                let token = Token::new(kind::STRING, self.range(begin, end));
                return (token.marked(open, delimiter), end + 1);
            }
        }
        (Token::new(kind::STRING, self.from(begin)).marked(open, 0), self.input.len())
    }

    /// `E'…'` of PostgreSQL, `N'…'` of MySQL.
    fn escape_text(&self) -> Parsed {
        if self.has(self.pos + 2) && self.at(self.pos + 1) == b'\'' {
            self.text(self.pos, 2, b'\'')
        } else {
            self.word()
        }
    }

    /// `N'…'`, or Oracle's `NQ'…'`.
    fn national_text(&self) -> Parsed {
        if self.has(self.pos + 2) && self.at(self.pos + 1) == b'\'' {
            self.escape_text()
        } else {
            self.oracle_text(1)
        }
    }

    /// `U&'…'`.
    fn unicode_text(&self) -> Parsed {
        if self.range(self.pos + 1, self.pos + 3) != b"&'" {
            return self.word();
        }
        let (token, end) = self.text(self.pos + 2, 1, b'\'');
        let close = if token.close == b'\'' { b'u' } else { token.close };
        (token.marked(b'u', close), end)
    }

    /// Oracle's `Q'(…)'` with any mark, brackets in pairs; `offset` bytes precede the `Q`.
    fn oracle_text(&self, offset: usize) -> Parsed {
        let start = self.pos + offset;
        let [b'q' | b'Q', b'\'', mark @ 33..=127] = *self.range(start, start + 3) else {
            return self.word();
        };
        let close = match mark {
            b'(' => b')',
            b'[' => b']',
            b'{' => b'}',
            b'<' => b'>',
            other => other,
        };
        let begin = start + 3;
        match memmem::find(self.from(begin), &[close, b'\'']) {
            Some(length) => {
                let token = Token::new(kind::STRING, self.range(begin, begin + length));
                (token.marked(b'q', b'q'), begin + length + 2)
            }
            None => (Token::new(kind::STRING, self.from(begin)).marked(b'q', 0), self.input.len()),
        }
    }

    /// `B'01'` and `X'1f'`.
    fn literal(&self, is_digit: impl Fn(u8) -> bool) -> Parsed {
        if !self.has(self.pos + 2) || self.at(self.pos + 1) != b'\'' {
            return self.word();
        }
        let end = self.pos + 2 + self.span(self.pos + 2, is_digit);
        if self.at(end) == b'\'' { self.until(kind::NUMBER, end + 1) } else { self.word() }
    }

    /// SQL Server's `[name]`.
    fn bracket_word(&self) -> Parsed {
        let end = memchr(b']', self.from(self.pos)).map_or(self.input.len(), |n| self.pos + n + 1);
        self.until(kind::BAREWORD, end)
    }

    /// What a token keeps of a word tells whether it is split, so that is asked before the rest is looked
    /// at: else each part of `like.like.like…` would be read together with all that follow it.
    fn word(&self) -> Parsed {
        let text = self.from(self.pos);
        let length =
            |text: &[u8]| text.iter().position(|&byte| WORD_ENDS.has(byte)).unwrap_or(text.len());
        let kept = text.get(..VALUE_MAX).unwrap_or(text);
        let kept = kept.get(..length(kept)).unwrap_or_default();
        // A dot or a backtick may end a keyword: "SELECT.1", "SELECT`column`".
        for (i, byte) in kept.iter().enumerate() {
            if matches!(byte, b'.' | b'`')
                && let Some(kind) = kept.get(..i).and_then(keyword)
                && kind != kind::BAREWORD
            {
                return self.until(kind, self.pos + i);
            }
        }
        let is_cut = kept.len() == VALUE_MAX;
        let more = if is_cut { text.get(VALUE_MAX..).map_or(0, length) } else { 0 };
        let mut token = Token::new(kind::BAREWORD, kept);
        if more == 0 {
            token.kind = keyword(kept).unwrap_or(kind::BAREWORD);
        }
        (token, self.pos + kept.len() + more)
    }

    /// MySQL's backticks: a name, or a function if the dictionary knows one.
    fn tick(&self, start: usize) -> Parsed {
        let (token, end) = self.text(start, 1, b'`');
        let function = keyword(token.value()) == Some(kind::FUNCTION);
        (token.of_kind(if function { kind::FUNCTION } else { kind::BAREWORD }), end)
    }

    /// `@name`, `@@name`, and the same with a quoted name.
    fn variable(&self) -> Parsed {
        let mut start = self.pos + 1;
        if self.at(start) == b'@' {
            start += 1;
        }
        let (token, end) = match self.at(start) {
            b'`' => self.tick(start),
            quote @ (b'\'' | b'"') => self.text(start, 1, quote),
            _ => {
                let text = self.from(start);
                let ends = text.iter().position(|&byte| VARIABLE_ENDS.has(byte));
                let end = start + ends.unwrap_or(text.len());
                (Token::new(kind::VARIABLE, self.range(start, end)), end)
            }
        };
        (token.of_kind(kind::VARIABLE), end)
    }

    /// `$1,000.00`, or PostgreSQL's `$$…$$` and `$tag$…$tag$`.
    fn money(&self) -> Parsed {
        let next = self.pos + 1;
        let digits = self.span(next, |byte| matches!(byte, b'0'..=b'9' | b'.' | b','));
        if digits == 1 && self.at(next) == b'.' {
            return self.word();
        }
        if digits > 0 {
            return self.until(kind::NUMBER, next + digits);
        }
        let tag =
            if self.at(next) == b'$' { 0 } else { self.span(next, |b| b.is_ascii_alphabetic()) };
        if self.at(next + tag) != b'$' {
            return self.single(kind::BAREWORD);
        }
        let begin = next + tag + 1;
        match memmem::find(self.from(begin), self.range(self.pos, begin)) {
            Some(length) => {
                let token = Token::new(kind::STRING, self.range(begin, begin + length));
                (token.marked(b'$', b'$'), begin + length + tag + 2)
            }
            None => (Token::new(kind::STRING, self.from(begin)).marked(b'$', 0), self.input.len()),
        }
    }

    fn number(&self) -> Parsed {
        if let Some(parsed) = self.prefixed_number() {
            return parsed;
        }
        let mut end = self.digits_end(self.pos);
        if self.at(end) == b'.' {
            end = self.digits_end(end + 1);
            if end == self.pos + 1 {
                return self.single(kind::DOT);
            }
        }
        let mut bare_exponent = false;
        if matches!(self.at(end), b'e' | b'E') {
            end += 1;
            if matches!(self.at(end), b'+' | b'-') {
                end += 1;
            }
            let digits_end = self.digits_end(end);
            bare_exponent = digits_end == end;
            end = digits_end;
        }
        // Oracle's suffixes of floats, but not the start of "123FROM".
        if matches!(self.at(end), b'd' | b'D' | b'f' | b'F') {
            let after = self.at(end + 1);
            if !self.has(end + 1) || is_white(after) || matches!(after, b';' | b'u' | b'U') {
                end += 1;
            }
        }
        // "1234.e" is a word.
        self.until(if bare_exponent { kind::BAREWORD } else { kind::NUMBER }, end)
    }

    /// `0x1f` and `0b01`; without digits such a prefix is a word.
    fn prefixed_number(&self) -> Option<Parsed> {
        let start = self.pos + 2;
        let digits = match self.range(self.pos, start) {
            [b'0', b'x' | b'X'] => self.span(start, |byte| byte.is_ascii_hexdigit()),
            [b'0', b'b' | b'B'] => self.span(start, |byte| matches!(byte, b'0' | b'1')),
            _ => return None,
        };
        Some(self.until(if digits == 0 { kind::BAREWORD } else { kind::NUMBER }, start + digits))
    }

    fn digits_end(&self, start: usize) -> usize {
        start + self.from(start).iter().take_while(|byte| byte.is_ascii_digit()).count()
    }
}

/// White space after `--` and after a float's suffix: NUL for Oracle, 0xA0 for Latin-1.
fn is_white(byte: u8) -> bool {
    matches!(byte, 0 | b'\t'..=b'\r' | b' ' | 0xa0)
}

/// Bytes between tokens: white space and all control characters.
fn is_blank(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | 0x7f | 0xa0)
}

#[cfg(test)]
mod tests;
