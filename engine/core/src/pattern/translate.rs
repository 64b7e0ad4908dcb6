//! PCRE spelling → the syntax of `regex-syntax` in byte mode, with the same meaning.

use super::posix;
use crate::ascii::hex_number;

/// Rewrites a PCRE pattern in the syntax of `regex-syntax`, byte mode.
///
/// # Errors
/// What is malformed, or what no automaton can do, with its place.
pub(super) fn translate(pcre: &[u8]) -> Result<String, Refusal> {
    let mut translator =
        Translator { input: pcre, at: 0, out: String::new(), extended: false, outer: Vec::new() };
    translator.run()?;
    Ok(translator.out)
}

/// Why a pattern cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no pattern.
    Malformed(String),
    /// It is one, but needs more than an automaton; the name of what it uses.
    NotRegular(&'static str),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Malformed(message)
    }
}

struct Translator<'p> {
    input: &'p [u8],
    at: usize,
    out: String,
    /// Whether `(?x)` is in force. It is done here, since `regex-syntax` would skip white space in classes
    /// and behind backslashes too.
    extended: bool,
    /// The same outside of each group that is open.
    outer: Vec<bool>,
}

/// A member of a bracketed class: a byte, which may begin a range, or a whole class such as `\d`.
enum Member {
    Byte(u8),
    Class(&'static str),
}

impl Translator<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.input.get(self.at + ahead).copied()
    }

    fn rest_starts_with(&self, prefix: &[u8]) -> bool {
        self.input.get(self.at..).is_some_and(|rest| rest.starts_with(prefix))
    }

    const fn unsupported<T>(what: &'static str) -> Result<T, Refusal> {
        Err(Refusal::NotRegular(what))
    }

    fn run(&mut self) -> Result<(), Refusal> {
        loop {
            self.skip_extended();
            let Some(byte) = self.peek(0) else { return Ok(()) };
            match byte {
                b'\\' => self.escape()?,
                b'[' => self.class()?,
                b'(' => self.group()?,
                b'{' => self.brace()?,
                b'*' | b'+' | b'?' => self.repetition(byte)?,
                b')' => {
                    self.extended = self.outer.pop().unwrap_or_default();
                    self.out.push(')');
                    self.at += 1;
                }
                b'.' | b'^' | b'$' | b'|' => {
                    self.out.push(char::from(byte));
                    self.at += 1;
                }
                _ => {
                    self.literal(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// `(?x)`: white space and comments mean nothing.
    fn skip_extended(&mut self) {
        let rest = self.input.get(self.at..).unwrap_or_default();
        self.at += if self.extended { ignored(rest) } else { 0 };
    }

    fn literal(&mut self, byte: u8) {
        push_literal(&mut self.out, byte);
    }

    fn repetition(&mut self, byte: u8) -> Result<(), Refusal> {
        self.out.push(char::from(byte));
        self.at += 1;
        self.repetition_suffix()
    }

    fn repetition_suffix(&mut self) -> Result<(), Refusal> {
        self.skip_extended();
        match self.peek(0) {
            Some(b'+') => return Self::unsupported("possessive repetition"),
            Some(b'?') => {
                self.out.push('?');
                self.at += 1;
            }
            _ => {}
        }
        self.skip_extended();
        let rest = self.input.get(self.at..).unwrap_or_default();
        let is_repeated = matches!(rest.first(), Some(b'*' | b'+' | b'?'))
            || rest.first() == Some(&b'{') && counted_repetition(rest).is_some();
        if is_repeated { Err(REPEATED_REPETITION.to_owned().into()) } else { Ok(()) }
    }

    /// `{` begins a counted repetition only when it is spelled as one; else PCRE takes it literally.
    fn brace(&mut self) -> Result<(), Refusal> {
        let Some(length) = counted_repetition(self.input.get(self.at..).unwrap_or_default()) else {
            self.literal(b'{');
            self.at += 1;
            return Ok(());
        };
        for &byte in self.input.get(self.at..self.at + length).unwrap_or_default() {
            self.out.push(char::from(byte));
        }
        self.at += length;
        self.repetition_suffix()
    }

    fn group(&mut self) -> Result<(), Refusal> {
        if self.rest_starts_with(b"(?#") {
            while let Some(byte) = self.peek(0) {
                self.at += 1;
                if byte == b')' {
                    return Ok(());
                }
            }
            return Err("a comment in the pattern has no end".to_owned().into());
        }
        for (prefix, what) in [
            (&b"(?="[..], "look-ahead"),
            (b"(?!", "negative look-ahead"),
            (b"(?<=", "look-behind"),
            (b"(?<!", "negative look-behind"),
            (b"(?>", "an atomic group"),
            (b"(?(", "a conditional group"),
            (b"(?R", "recursion"),
            (b"(?&", "recursion"),
            (b"(?|", "a branch reset"),
            (b"(*", "a control verb"),
        ] {
            if self.rest_starts_with(prefix) {
                return Self::unsupported(what);
            }
        }
        self.outer.push(self.extended);
        if self.rest_starts_with(b"(?'") {
            self.out.push_str("(?P<");
            self.at += 3;
            while let Some(byte) = self.peek(0) {
                self.at += 1;
                if byte == b'\'' {
                    break;
                }
                self.out.push(char::from(byte));
            }
            self.out.push('>');
            return Ok(());
        }
        let mut start = String::from("(");
        self.at += 1;
        if self.peek(0) == Some(b'?') {
            // Flags or a name: copied up to what ends them.
            while let Some(byte) = self.peek(0) {
                start.push(char::from(byte));
                self.at += 1;
                if matches!(byte, b':' | b'>' | b')') {
                    break;
                }
            }
            start = self.without_extended(start);
        }
        self.out.push_str(&start);
        Ok(())
    }

    /// Takes `x` out of the flags, if that is what a group starts with, and obeys it.
    fn without_extended(&mut self, start: String) -> String {
        let is_group = start.ends_with(':');
        let flags = start.strip_prefix("(?").and_then(|rest| rest.strip_suffix([':', ')']));
        let is_flag = |char: char| char.is_ascii_alphabetic() || char == '-';
        let Some(flags) = flags.filter(|flags| flags.chars().all(is_flag)) else { return start };
        let (on, off) = flags.split_once('-').unwrap_or((flags, ""));
        if !is_group {
            self.outer.pop();
        }
        self.extended = (self.extended || on.contains('x')) && !off.contains('x');
        if !flags.contains('x') {
            return start;
        }
        // Switched off, as it is: so there is a group, or something that cannot be repeated, as before.
        let end = if is_group { ':' } else { ')' };
        format!("(?{}-{}x{end}", on.replace('x', ""), off.replace('x', ""))
    }

    fn escape(&mut self) -> Result<(), Refusal> {
        let Some(kind) = self.peek(1) else {
            return Err("the pattern ends in a backslash".to_owned().into());
        };
        if let Some(class) = outside_class(kind) {
            self.out.push_str(class);
            self.at += 2;
            return Ok(());
        }
        match kind {
            b'Q' => {
                self.quoted();
                return Ok(());
            }
            b'E' => {
                self.at += 2;
                return Ok(());
            }
            // Two digits and more are a byte in octal, unless there are as many groups.
            b'1'..=b'7' if self.peek(2).is_some_and(|next| matches!(next, b'0'..=b'7')) => {}
            b'1'..=b'9' | b'g' | b'k' => return Self::unsupported("a back-reference"),
            b'G' | b'K' | b'C' | b'X' => return Self::unsupported("an assertion about the search"),
            b'p' | b'P' => return Self::unsupported("a Unicode property"),
            _ => {}
        }
        let (byte, length) = self.byte_escape()?;
        self.literal(byte);
        self.at += length;
        Ok(())
    }

    /// `\Q…\E`: everything in between is literal.
    fn quoted(&mut self) {
        self.at += 2;
        while let Some(byte) = self.peek(0) {
            if self.rest_starts_with(b"\\E") {
                self.at += 2;
                return;
            }
            self.literal(byte);
            self.at += 1;
        }
    }

    /// The byte that the escape at the cursor stands for, and the escape's length.
    fn byte_escape(&self) -> Result<(u8, usize), Refusal> {
        let Some(kind) = self.peek(1) else {
            return Err("the pattern ends in a backslash".to_owned().into());
        };
        Ok(match kind {
            b'n' => (b'\n', 2),
            b'r' => (b'\r', 2),
            b't' => (b'\t', 2),
            b'f' => (0x0C, 2),
            b'a' => (0x07, 2),
            b'e' => (0x1B, 2),
            b'c' => match self.peek(2) {
                Some(control) if control.is_ascii() => (control.to_ascii_uppercase() ^ 0x40, 3),
                _ => return Err("\\c in the pattern needs an ASCII character".to_owned().into()),
            },
            b'x' => self.hex_escape()?,
            b'0'..=b'7' => self.octal_escape()?,
            other if other.is_ascii_alphanumeric() => return Err(unknown_escape(other).into()),
            other => (other, 2),
        })
    }

    fn hex_escape(&self) -> Result<(u8, usize), Refusal> {
        if self.peek(2) == Some(b'{') {
            let digits: Vec<u8> = self
                .input
                .get(self.at + 3..)
                .unwrap_or_default()
                .iter()
                .copied()
                .take_while(|&byte| byte != b'}')
                .take(9)
                .collect();
            return match hex_number(&digits).and_then(|number| u8::try_from(number).ok()) {
                Some(byte) => Ok((byte, digits.len() + 4)),
                None => Err(format!(
                    "\\x{{{}}} in the pattern is no byte; patterns are matched byte by byte",
                    String::from_utf8_lossy(&digits)
                )
                .into()),
            };
        }
        let mut value = 0u8;
        let mut length = 2;
        while length < 4 {
            let Some(digit) = self.peek(length).and_then(|byte| char::from(byte).to_digit(16))
            else {
                break;
            };
            value = value << 4 | u8::try_from(digit).unwrap_or(0);
            length += 1;
        }
        Ok((value, length))
    }

    fn octal_escape(&self) -> Result<(u8, usize), Refusal> {
        let mut value = 0u32;
        let mut length = 1;
        while length < 4 {
            match self.peek(length) {
                Some(digit @ b'0'..=b'7') => value = value * 8 + u32::from(digit - b'0'),
                _ => break,
            }
            length += 1;
        }
        match u8::try_from(value) {
            Ok(byte) => Ok((byte, length)),
            Err(_) => Err(octal_above_a_byte(value).into()),
        }
    }

    fn class(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        self.out.push('[');
        self.at += 1;
        if self.peek(0) == Some(b'^') {
            self.out.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            match self.peek(0) {
                None => {
                    return Err(format!("the class that begins at byte {start} has no end").into());
                }
                Some(b']') if !first => {
                    self.at += 1;
                    self.out.push(']');
                    return Ok(());
                }
                Some(_) => self.class_item()?,
            }
            first = false;
        }
    }

    fn class_item(&mut self) -> Result<(), Refusal> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        if let Some(name) = posix::name(rest) {
            let class = format!("[:{}:]", String::from_utf8_lossy(name));
            if posix::members(name.strip_prefix(b"^").unwrap_or(name)).is_none() {
                return Err(format!("{class} in the pattern is no POSIX class").into());
            }
            self.out.push_str(&class);
            self.at += name.len() + posix::BRACKETS;
            return Ok(());
        }
        if self.rest_starts_with(b"\\E") {
            self.at += 2;
            return Ok(());
        }
        match self.class_member()? {
            Member::Class(class) => self.out.push_str(class),
            Member::Byte(low) => {
                self.literal(low);
                if self.peek(0) == Some(b'-') && self.peek(1).is_some_and(|next| next != b']') {
                    self.class_range(low)?;
                }
            }
        }
        Ok(())
    }

    /// After `low`, at a hyphen: a range when a byte follows, else a literal hyphen.
    fn class_range(&mut self, low: u8) -> Result<(), Refusal> {
        self.at += 1;
        match self.class_member()? {
            Member::Byte(high) if high < low => Err(format!(
                "the range \\x{low:02X}-\\x{high:02X} in a class of the pattern runs backwards"
            )
            .into()),
            Member::Byte(high) => {
                self.out.push('-');
                self.literal(high);
                Ok(())
            }
            Member::Class(class) => {
                self.literal(b'-');
                self.out.push_str(class);
                Ok(())
            }
        }
    }

    fn class_member(&mut self) -> Result<Member, Refusal> {
        let Some(byte) = self.peek(0) else {
            return Err("a class in the pattern has no end".to_owned().into());
        };
        if self.rest_starts_with(b"\\Q") {
            return Err("\\Q in a class of the pattern is not supported".to_owned().into());
        }
        if byte != b'\\' {
            self.at += 1;
            return Ok(Member::Byte(byte));
        }
        if let Some(class) = self.peek(1).and_then(inside_class) {
            self.at += 2;
            return Ok(Member::Class(class));
        }
        if self.peek(1) == Some(b'b') {
            self.at += 2;
            return Ok(Member::Byte(0x08));
        }
        if matches!(self.peek(1), Some(b'p' | b'P')) {
            return Self::unsupported("a Unicode property");
        }
        let (byte, length) = self.byte_escape()?;
        self.at += length;
        Ok(Member::Byte(byte))
    }
}

/// Escapes that stand for a class or an assertion, outside of brackets.
const fn outside_class(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'A' => r"\A",
        b'B' => r"\B",
        b'b' => r"\b",
        // PCRE's \Z also matches before a last line feed; for values of a request that is no difference
        // worth a second automaton: the very end is what rules mean.
        b'Z' | b'z' => r"\z",
        b'R' => r"(?:\r\n|[\n\x0B\x0C\r\x85])",
        b'N' => r"[^\n]",
        _ => return inside_class(kind),
    })
}

/// Escapes that stand for a class, within brackets too: a nested bracket is a union in `regex-syntax`.
const fn inside_class(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'd' => r"\d",
        b'D' => r"\D",
        b's' => r"\s",
        b'S' => r"\S",
        b'w' => r"\w",
        b'W' => r"\W",
        b'h' => r"[\t \xA0]",
        b'H' => r"[^\t \xA0]",
        b'v' => r"[\n\x0B\x0C\r\x85]",
        b'V' => r"[^\n\x0B\x0C\r\x85]",
        _ => return None,
    })
}

/// What is wrong with `a**`. PCRE2 refuses it, too.
pub(super) const REPEATED_REPETITION: &str =
    "a repetition in the pattern is repeated; put what is repeated into a group, such as (?:a*)*";

/// What is wrong with `\y`. PCRE2 refuses it, too.
pub(super) fn unknown_escape(kind: u8) -> String {
    let kind = char::from(kind);
    format!(
        "there is no escape \\{kind} in patterns; write {kind} without the backslash if you mean the character"
    )
}

/// What is wrong with `\400`.
pub(super) fn octal_above_a_byte(value: u32) -> String {
    format!("\\{value:o} in the pattern is no byte: octal codes end at \\377")
}

/// The length of a counted repetition `{n}`, `{n,}` or `{n,m}` at the start of `rest`.
pub(super) fn counted_repetition(rest: &[u8]) -> Option<usize> {
    let end = rest.iter().position(|&byte| byte == b'}')?;
    let inner = rest.get(1..end)?;
    let mut parts = inner.splitn(2, |&byte| byte == b',');
    let low = parts.next()?;
    let high = parts.next().unwrap_or_default();
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    (!low.is_empty() && digits(low) && digits(high)).then_some(end + 1)
}

/// The length of what `(?x)` has ignored at the start of `rest`: white space, and comments up to a line end.
/// Source: PCRE2, "PCRE2_EXTENDED".
pub(super) fn ignored(rest: &[u8]) -> usize {
    let mut in_comment = false;
    let is_ignored = |byte: &u8| {
        in_comment = if in_comment { *byte != b'\n' } else { *byte == b'#' };
        in_comment || byte.is_ascii_whitespace() || *byte == 0x0b
    };
    rest.iter().copied().take_while(is_ignored).count()
}

/// Bytes that mean only themselves are written as they are, all others in hexadecimal.
fn push_literal(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b' ' | b'_'
                | b'/'
                | b','
                | b':'
                | b';'
                | b'"'
                | b'\''
                | b'<'
                | b'>'
                | b'='
                | b'%'
                | b'@'
                | b'!'
        )
    {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("\\x{byte:02X}"));
    }
}
