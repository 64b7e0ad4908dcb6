//! PCRE spelling → tree, for patterns that are matched by back-tracking.

use crate::{
    pattern::{
        posix,
        translate::{
            REPEATED_REPETITION, counted_repetition, ignored, octal_above_a_byte, unknown_escape,
        },
    },
    scan::ByteSet,
};

/// Which way a look-around looks, and what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pattern) struct Look {
    pub(in crate::pattern) behind: bool,
    pub(in crate::pattern) negative: bool,
}

/// A piece of a pattern.
#[derive(Clone, Debug)]
pub(in crate::pattern) enum Node {
    Set(ByteSet),
    Concat(Vec<Self>),
    Alternate(Vec<Self>),
    Group(usize, Box<Self>),
    Repeat { node: Box<Self>, min: u32, max: Option<u32>, greedy: bool, possessive: bool },
    Look(Look, Box<Self>),
    Atomic(Box<Self>),
    BackReference(usize, bool),
    StartOfText,
    EndOfText,
    StartOfLine,
    EndOfLine,
    WordBoundary(bool),
}

impl Node {
    /// The number of bytes that it matches, when that is always the same.
    pub(super) fn fixed_length(&self) -> Result<usize, String> {
        match self {
            Self::Set(_) => Ok(1),
            Self::Concat(nodes) => nodes.iter().try_fold(0_usize, |sum, node| {
                node.fixed_length().map(|length| sum.saturating_add(length))
            }),
            Self::Group(_, node) | Self::Atomic(node) => node.fixed_length(),
            Self::Repeat { node, min, max, .. } if Some(*min) == *max => {
                Ok(node.fixed_length()?.saturating_mul(*min as usize))
            }
            Self::Alternate(nodes) => {
                let lengths: Result<Vec<usize>, String> =
                    nodes.iter().map(Self::fixed_length).collect();
                let lengths = lengths?;
                match lengths.split_first() {
                    Some((first, rest)) if rest.iter().all(|length| length == first) => Ok(*first),
                    _ => Err(VARIABLE_LENGTH.to_owned()),
                }
            }
            Self::Repeat { .. } | Self::BackReference(..) => Err(VARIABLE_LENGTH.to_owned()),
            _ => Ok(0),
        }
    }
}

const VARIABLE_LENGTH: &str = "look-behind in the pattern needs alternatives of fixed length";

/// Repetitions that may be counted.
const REPEAT_MAX: u32 = 1_000;

/// How deep groups may nest. What is made of them is walked by recursion.
const DEPTH_MAX: u32 = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    fold: bool,
    multi_line: bool,
    no_dot_all: bool,
    extended: bool,
}

pub(super) struct Parser<'p> {
    input: &'p [u8],
    at: usize,
    flags: Flags,
    groups: usize,
    names: Vec<(Vec<u8>, usize)>,
    references: Vec<usize>,
    depth: u32,
}

impl<'p> Parser<'p> {
    pub(super) fn new(input: &'p [u8]) -> Self {
        Self {
            input,
            at: 0,
            flags: Flags::default(),
            groups: 1,
            names: Vec::new(),
            references: Vec::new(),
            depth: 0,
        }
    }

    /// Groups, the whole match included.
    pub(super) const fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn parse(&mut self) -> Result<Node, String> {
        let node = self.alternatives()?;
        if self.peek().is_some() {
            return self.error("a closing parenthesis has no opening one");
        }
        if self.references.iter().any(|&group| group >= self.groups) {
            return self.error("a back-reference names a group that is not there");
        }
        Ok(node)
    }

    fn error<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{what}, at byte {} of the pattern", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn eat(&mut self, text: &[u8]) -> bool {
        let there = self.input.get(self.at..).is_some_and(|rest| rest.starts_with(text));
        if there {
            self.at += text.len();
        }
        there
    }

    fn bump(&mut self) -> Result<u8, String> {
        let Some(byte) = self.peek() else { return self.error("the pattern ends too early") };
        self.at += 1;
        Ok(byte)
    }

    fn alternatives(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.error("groups are nested too deeply");
        }
        let flags = self.flags;
        let mut branches = vec![self.sequence()?];
        while self.eat(b"|") {
            branches.push(self.sequence()?);
        }
        self.flags = flags;
        self.depth -= 1;
        Ok(match branches.pop() {
            Some(only) if branches.is_empty() => only,
            Some(last) => {
                branches.push(last);
                Node::Alternate(branches)
            }
            None => Node::Concat(Vec::new()),
        })
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        loop {
            self.skip_extended();
            if matches!(self.peek(), None | Some(b'|' | b')')) {
                break;
            }
            if let Some(node) = self.atom()? {
                let node = self.repetition(node)?;
                nodes.push(node);
            }
        }
        Ok(Node::Concat(nodes))
    }

    /// `(?x)`: white space and comments mean nothing.
    fn skip_extended(&mut self) {
        let rest = self.input.get(self.at..).unwrap_or_default();
        self.at += if self.flags.extended { ignored(rest) } else { 0 };
    }

    /// One atom; `None` for what matches nothing by itself, such as `(?i)`.
    fn atom(&mut self) -> Result<Option<Node>, String> {
        Ok(Some(match self.bump()? {
            b'(' => return self.group(),
            b'[' => Node::Set(self.class()?),
            b'\\' => return self.escape(),
            b'.' => Node::Set(self.dot()),
            b'^' if self.flags.multi_line => Node::StartOfLine,
            b'^' => Node::StartOfText,
            b'$' if self.flags.multi_line => Node::EndOfLine,
            b'$' => Node::EndOfText,
            b'*' | b'+' | b'?' => return self.error("there is nothing to repeat"),
            byte => self.literal(byte),
        }))
    }

    fn dot(&self) -> ByteSet {
        let mut set = ByteSet::default();
        if self.flags.no_dot_all {
            set.insert(b'\n');
        }
        set.negated()
    }

    fn literal(&self, byte: u8) -> Node {
        let mut set = ByteSet::default();
        set.insert(byte);
        if self.flags.fold {
            set = set.folded();
        }
        Node::Set(set)
    }

    fn repetition(&mut self, node: Node) -> Result<Node, String> {
        let Some((min, max)) = self.counts()? else { return Ok(node) };
        self.skip_extended();
        let possessive = self.eat(b"+");
        let greedy = possessive || !self.eat(b"?");
        match self.counts()? {
            None => Ok(Node::Repeat { node: Box::new(node), min, max, greedy, possessive }),
            Some(_) => self.error(REPEATED_REPETITION),
        }
    }

    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        self.skip_extended();
        Ok(match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Some((0, None))
            }
            Some(b'+') => {
                self.at += 1;
                Some((1, None))
            }
            Some(b'?') => {
                self.at += 1;
                Some((0, Some(1)))
            }
            Some(b'{') => self.braces()?,
            _ => None,
        })
    }

    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let Some(length) = counted_repetition(rest) else { return Ok(None) };
        let inner = rest.get(1..length - 1).unwrap_or_default();
        let number = |digits: &[u8]| {
            let text = core::str::from_utf8(digits).unwrap_or_default();
            text.parse::<u32>().ok().filter(|&count| count <= REPEAT_MAX)
        };
        let mut parts = inner.splitn(2, |&byte| byte == b',');
        let low = parts.next().and_then(number);
        let high = match parts.next() {
            None => low.map(Some),
            Some(b"") => Some(None),
            Some(digits) => number(digits).map(Some),
        };
        match (low, high) {
            (Some(low), Some(high)) if high.is_none_or(|high| low <= high) => {
                self.at += length;
                Ok(Some((low, high)))
            }
            _ => self.error(&format!(
                "a repetition is counted up to {REPEAT_MAX}, the lower bound first"
            )),
        }
    }

    fn group(&mut self) -> Result<Option<Node>, String> {
        if self.eat(b"*") {
            return self.error("control verbs are not supported");
        }
        if !self.eat(b"?") {
            return self.capture().map(Some);
        }
        if self.eat(b"#") {
            while self.bump()? != b')' {}
            return Ok(None);
        }
        for (prefix, behind, negative) in [
            (&b"="[..], false, false),
            (b"!", false, true),
            (b"<=", true, false),
            (b"<!", true, true),
        ] {
            if self.eat(prefix) {
                let inner = self.closed()?;
                return Ok(Some(Node::Look(Look { behind, negative }, Box::new(inner))));
            }
        }
        if self.eat(b">") {
            return Ok(Some(Node::Atomic(Box::new(self.closed()?))));
        }
        if self.eat(b"P<") || self.eat(b"<") {
            return self.named(b'>').map(Some);
        }
        if self.eat(b"'") {
            return self.named(b'\'').map(Some);
        }
        self.flag_group()
    }

    fn capture(&mut self) -> Result<Node, String> {
        let index = self.groups;
        self.groups += 1;
        Ok(Node::Group(index, Box::new(self.closed()?)))
    }

    fn named(&mut self, end: u8) -> Result<Node, String> {
        let mut name = Vec::new();
        loop {
            match self.bump()? {
                byte if byte == end => break,
                byte => name.push(byte),
            }
        }
        self.names.push((name, self.groups));
        self.capture()
    }

    /// The rest of a group, with its closing parenthesis.
    fn closed(&mut self) -> Result<Node, String> {
        let node = self.alternatives()?;
        if !self.eat(b")") {
            return self.error("a group has no end");
        }
        Ok(node)
    }

    /// `(?i)`, `(?i:…)`, `(?-i)`.
    fn flag_group(&mut self) -> Result<Option<Node>, String> {
        let before = self.flags;
        let mut on = true;
        loop {
            match self.bump()? {
                b'-' => on = false,
                b'^' => self.flags = Flags::default(),
                b'i' => self.flags.fold = on,
                b'm' => self.flags.multi_line = on,
                b's' => self.flags.no_dot_all = !on,
                b'x' => self.flags.extended = on,
                b')' => return Ok(None),
                b':' => {
                    let node = self.closed()?;
                    self.flags = before;
                    return Ok(Some(node));
                }
                _ => {
                    return self.error(
                        "recursion, conditionals and other groups of this kind are not supported",
                    );
                }
            }
        }
    }

    fn escape(&mut self) -> Result<Option<Node>, String> {
        let kind = self.bump()?;
        if let Some(set) = class_escape(kind) {
            return Ok(Some(Node::Set(set)));
        }
        Ok(Some(match kind {
            b'A' => Node::StartOfText,
            b'z' | b'Z' => Node::EndOfText,
            b'b' => Node::WordBoundary(true),
            b'B' => Node::WordBoundary(false),
            b'N' => {
                let mut set = ByteSet::default();
                set.insert(b'\n');
                Node::Set(set.negated())
            }
            b'R' => self.line_break(),
            b'Q' => return self.quoted().map(Some),
            b'E' => return Ok(None),
            b'1'..=b'9' if !self.octal_follows(kind) => self.back_reference(kind)?,
            b'k' | b'g' => self.named_reference()?,
            b'K' | b'G' | b'C' | b'X' | b'p' | b'P' => {
                return self.error("this escape is not supported");
            }
            _ => {
                let byte = self.byte_escape(kind)?;
                self.literal(byte)
            }
        }))
    }

    /// Two digits and more are a byte in octal, unless there are as many groups.
    fn octal_follows(&self, first: u8) -> bool {
        first <= b'7' && self.peek().is_some_and(|next| matches!(next, b'0'..=b'7'))
    }

    fn line_break(&self) -> Node {
        let mut single = ByteSet::default();
        for byte in [b'\n', 0x0B, 0x0C, b'\r', 0x85] {
            single.insert(byte);
        }
        let both = Node::Concat(vec![self.literal(b'\r'), self.literal(b'\n')]);
        Node::Alternate(vec![both, Node::Set(single)])
    }

    fn quoted(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while self.peek().is_some() && !self.eat(b"\\E") {
            let byte = self.bump()?;
            nodes.push(self.literal(byte));
        }
        Ok(Node::Concat(nodes))
    }

    fn back_reference(&mut self, first: u8) -> Result<Node, String> {
        let group = usize::from(first - b'0');
        self.references.push(group);
        Ok(Node::BackReference(group, self.flags.fold))
    }

    /// `\k<name>`, `\k{name}`, `\k'name'`, `\g1`, `\g{1}`.
    fn named_reference(&mut self) -> Result<Node, String> {
        let end = match self.bump()? {
            b'<' => b'>',
            b'{' => b'}',
            b'\'' => b'\'',
            digit @ b'1'..=b'9' => return self.back_reference(digit),
            _ => return self.error("a reference needs a name or number"),
        };
        let mut name = Vec::new();
        loop {
            match self.bump()? {
                byte if byte == end => break,
                byte => name.push(byte),
            }
        }
        let number = core::str::from_utf8(&name).ok().and_then(|text| text.parse::<usize>().ok());
        let named = self.names.iter().find(|(known, _)| *known == name).map(|(_, group)| *group);
        match number.or(named) {
            Some(group) => {
                self.references.push(group);
                Ok(Node::BackReference(group, self.flags.fold))
            }
            None => self.error("a reference names a group that is not there"),
        }
    }

    fn byte_escape(&mut self, kind: u8) -> Result<u8, String> {
        Ok(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'f' => 0x0C,
            b'a' => 0x07,
            b'e' => 0x1B,
            b'c' => self.bump()?.to_ascii_uppercase() ^ 0x40,
            b'x' => return self.hexadecimal(),
            b'0'..=b'7' => {
                let mut value = u32::from(kind - b'0');
                for _ in 0..2 {
                    match self.peek() {
                        Some(digit @ b'0'..=b'7') => value = value * 8 + u32::from(digit - b'0'),
                        _ => break,
                    }
                    self.at += 1;
                }
                u8::try_from(value).map_err(|_| octal_above_a_byte(value))?
            }
            other if other.is_ascii_alphanumeric() => return Err(unknown_escape(other)),
            other => other,
        })
    }

    fn hexadecimal(&mut self) -> Result<u8, String> {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let mut value = 0;
        if self.eat(b"{") {
            while let Some(next) = digit(self.peek()) {
                value = (value << 4 | next).min(0x1000);
                self.at += 1;
            }
            return match (self.eat(b"}"), u8::try_from(value)) {
                (true, Ok(byte)) => Ok(byte),
                _ => self.error("\\x{…} is no byte"),
            };
        }
        for _ in 0..2 {
            let Some(next) = digit(self.peek()) else { break };
            value = value << 4 | next;
            self.at += 1;
        }
        Ok(u8::try_from(value).unwrap_or(0))
    }

    fn class(&mut self) -> Result<ByteSet, String> {
        let negated = self.eat(b"^");
        let mut set = ByteSet::default();
        let mut first = true;
        loop {
            match self.bump()? {
                b']' if !first => break,
                b'[' => self.bracket(&mut set)?,
                byte => self.class_item(byte, &mut set)?,
            }
            first = false;
        }
        if self.flags.fold {
            set = set.folded();
        }
        Ok(if negated { set.negated() } else { set })
    }

    fn class_item(&mut self, byte: u8, set: &mut ByteSet) -> Result<(), String> {
        let Some(low) = self.class_byte(byte, set)? else { return Ok(()) };
        let range = self.peek() == Some(b'-')
            && self.input.get(self.at + 1).is_some_and(|&next| next != b']');
        if !range {
            set.insert(low);
            return Ok(());
        }
        self.at += 1;
        let byte = self.bump()?;
        match self.class_byte(byte, set)? {
            Some(high) if high < low => self.error("a range runs backwards"),
            Some(high) => {
                (low..=high).for_each(|byte| set.insert(byte));
                Ok(())
            }
            None => {
                set.insert(low);
                set.insert(b'-');
                Ok(())
            }
        }
    }

    /// A byte of a class; `None` when it was a whole class, which is added to `set`.
    fn class_byte(&mut self, byte: u8, set: &mut ByteSet) -> Result<Option<u8>, String> {
        if byte != b'\\' {
            return Ok(Some(byte));
        }
        let kind = self.bump()?;
        if let Some(class) = class_escape(kind) {
            *set = set.union(class);
            return Ok(None);
        }
        match kind {
            b'b' => Ok(Some(0x08)),
            b'E' => Ok(None),
            b'Q' => self.error("\\Q in a class is not supported"),
            b'p' | b'P' => self.error("Unicode properties are not supported"),
            _ => self.byte_escape(kind).map(Some),
        }
    }

    /// A bracket in a class, with the cursor behind it: the beginning of a POSIX class, or a member.
    fn bracket(&mut self, set: &mut ByteSet) -> Result<(), String> {
        let rest = self.input.get(self.at.saturating_sub(1)..).unwrap_or_default();
        let Some(name) = posix::name(rest) else { return self.class_item(b'[', set) };
        let (negated, member) = match name.split_first() {
            Some((b'^', rest)) => (true, rest),
            _ => (false, name),
        };
        let Some(member) = posix::members(member) else {
            return self.error("an unknown POSIX class");
        };
        let mut class = ByteSet::default();
        (0..=u8::MAX).filter(member).for_each(|byte| class.insert(byte));
        *set = set.union(if negated { class.negated() } else { class });
        self.at += name.len() + posix::BRACKETS - 1;
        Ok(())
    }
}

/// `\d` and its like.
fn class_escape(kind: u8) -> Option<ByteSet> {
    let member: fn(&u8) -> bool = match kind.to_ascii_lowercase() {
        b'd' => u8::is_ascii_digit,
        b's' => |byte| matches!(byte, b'\t'..=b'\r' | b' '),
        b'w' => |byte| byte.is_ascii_alphanumeric() || *byte == b'_',
        b'h' => |byte| matches!(byte, b'\t' | b' ' | 0xA0),
        b'v' => |byte| matches!(byte, b'\n'..=b'\r' | 0x85),
        _ => return None,
    };
    let mut set = ByteSet::default();
    (0..=u8::MAX).filter(member).for_each(|byte| set.insert(byte));
    Some(if kind.is_ascii_uppercase() { set.negated() } else { set })
}
