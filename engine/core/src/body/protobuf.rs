//! Messages of protocol buffers as arguments.
//!
//! The name of an argument is the path of fields to it, joined by dots: their names where a descriptor set has them
//! (`user.name`), else their numbers (`1.2`). Every element of a repeated field has the name of the field.
//!
//! Without a descriptor, the wire format does not say which of text, bytes, a message and packed numbers a field of
//! variable length is. Decisions:
//!
//! - What does not read as a message is reported as it is.
//! - What reads as a message is taken for one, and its fields are reported. The outermost is also reported as it is, so
//!   that whatever it is, rules see all of its text in one piece; within it, so is everything that could be text.
//! - A zero byte is reported as a space in what is hardly text: what reads as a message, or is no UTF-8, or has no three
//!   printable characters in a row. Rules would take every binary value for an evasion otherwise.
//! - Numbers are reported only where a descriptor says of which type they are; packed ones joined by commas.
//!
//! A field whose wire type is not that of its descriptor is read as if it had none, as parsers keep it unknown.
#![deny(clippy::indexing_slicing)]

pub(crate) mod descriptor;
pub(crate) mod wire;

use std::{io::Write as _, ops::Range};

use super::{BodyError, BodyErrorKind, BodySink, FirstError, NameBudget, Room};
use descriptor::{DescriptorSet, Kind, MessageId, Number};
use wire::Value;

/// The name of what cannot be read as a message.
const UNREAD: &[u8] = b"message";

/// Printable characters in a row that make a value with a zero byte a text.
const TEXT_RUN: usize = 3;

/// Bytes of guessed messages within guessed messages that may be looked at: sixteen times the body, and this.
const GUESSED_BYTES_FREE: usize = 64 << 10;

/// What a byte that is reported once more counts as, of those that may be looked at.
const REPORTED_WEIGHT: usize = 8;

/// The type of a message, where there is a descriptor of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'d> {
    pub(crate) set: &'d DescriptorSet,
    pub(crate) message: MessageId,
}

/// A message or group that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Where it ends at the latest.
    end: usize,
    /// Length of the path to it.
    name_len: usize,
    message: Option<MessageId>,
    /// The number of the field, of a group.
    group: Option<u32>,
    /// Whether it only looks like a message.
    is_guessed: bool,
}

/// The buffers of a reader.
pub(super) struct Buffers<'p> {
    pub(super) name: &'p mut Vec<u8>,
    pub(super) value: &'p mut Vec<u8>,
    pub(super) open: &'p mut Vec<Open>,
}

/// What is left of what one body may have repeated, in all of its messages.
#[derive(Debug)]
pub(super) struct Budgets {
    names: NameBudget,
    guessed_bytes: usize,
}

impl Budgets {
    pub(super) fn of(body: &[u8]) -> Self {
        let guessed_bytes = body.len().saturating_mul(16).saturating_add(GUESSED_BYTES_FREE);
        Self { names: NameBudget::of(body), guessed_bytes }
    }

    fn guess(&mut self, bytes: usize) -> Result<(), BodyErrorKind> {
        let left = self.guessed_bytes.checked_sub(bytes);
        self.guessed_bytes = left.ok_or(BodyErrorKind::ProtobufNesting)?;
        Ok(())
    }
}

/// Reports the arguments of a message and returns the first error, with its place in the message.
pub(super) fn parse(
    message: &[u8],
    schema: Option<Schema<'_>>,
    depth_max: usize,
    budgets: &mut Budgets,
    buffers: Buffers<'_>,
    sink: &mut dyn BodySink,
) -> Option<BodyError> {
    let Buffers { name, value, open } = buffers;
    name.clear();
    open.clear();
    open.push(Open {
        end: message.len(),
        name_len: 0,
        message: schema.map(|schema| schema.message),
        group: None,
        is_guessed: false,
    });
    let set = schema.map(|schema| schema.set);
    let mut reader =
        Reader { bytes: message, at: 0, set, depth_max, budgets, name, value, open, sink };
    let kind = reader.message().err()?;
    let mut error = FirstError::default();
    error.set(kind, reader.at);
    if kind != BodyErrorKind::ArgumentsFull {
        reader.unread_rest(&mut error);
    }
    error.0
}

struct Reader<'p, 'd> {
    bytes: &'p [u8],
    at: usize,
    set: Option<&'d DescriptorSet>,
    depth_max: usize,
    budgets: &'p mut Budgets,
    /// The path to the field being read.
    name: &'p mut Vec<u8>,
    value: &'p mut Vec<u8>,
    open: &'p mut Vec<Open>,
    sink: &'p mut dyn BodySink,
}

impl<'d> Reader<'_, 'd> {
    /// Reads the whole message. On an error `at` is where the field begins that was not understood.
    fn message(&mut self) -> Result<(), BodyErrorKind> {
        while let Some(&open) = self.open.last() {
            if self.at >= open.end {
                if open.group.is_some() {
                    return Err(BodyErrorKind::ProtobufSyntax);
                }
                self.open.pop();
                continue;
            }
            let Some((field, next)) = wire::field(self.bytes, self.at, open.end) else {
                return Err(BodyErrorKind::ProtobufSyntax);
            };
            if field.value == Value::GroupEnd {
                if open.group != Some(field.number) {
                    return Err(BodyErrorKind::ProtobufSyntax);
                }
                self.open.pop();
                self.at = next;
                continue;
            }
            self.field(open, field, next)?;
        }
        Ok(())
    }

    fn field(&mut self, open: Open, field: wire::Field, next: usize) -> Result<(), BodyErrorKind> {
        let known = self.known(open, field.number);
        self.name.truncate(open.name_len);
        if open.name_len > 0 {
            self.name.push(b'.');
        }
        match known {
            Some(known) => self.name.extend_from_slice(known.name.as_bytes()),
            // Writing to a vector does not fail.
            None => drop(write!(self.name, "{}", field.number)),
        }
        let kind = known.map(|known| known.kind);
        match field.value {
            Value::Bytes(content) => {
                let repeated = known.is_some_and(|known| known.repeated);
                return self.content(open, content, kind, repeated);
            }
            Value::GroupStart => {
                let message = match kind {
                    Some(Kind::Group(message)) => Some(message),
                    _ => None,
                };
                self.at = next;
                return self.enter(Open { message, group: Some(field.number), ..open });
            }
            Value::GroupEnd => {}
            Value::Varint(bits) => self.number(kind, bits, Width::Varint)?,
            Value::Fixed64(bits) => self.number(kind, bits, Width::Eight)?,
            Value::Fixed32(bits) => self.number(kind, u64::from(bits), Width::Four)?,
        }
        self.at = next;
        Ok(())
    }

    fn known(&self, open: Open, number: u32) -> Option<&'d descriptor::Field> {
        self.set?.field(open.message?, number)
    }

    /// Reads what is inside of a field; its path is `name`.
    fn enter(&mut self, open: Open) -> Result<(), BodyErrorKind> {
        // The outermost is the message itself.
        if self.open.len() > self.depth_max {
            return Err(BodyErrorKind::ProtobufDepth);
        }
        self.open.push(Open { name_len: self.name.len(), ..open });
        Ok(())
    }

    /// A field of variable length.
    fn content(
        &mut self,
        open: Open,
        content: Range<usize>,
        kind: Option<Kind>,
        repeated: bool,
    ) -> Result<(), BodyErrorKind> {
        let bytes = self.bytes.get(content.clone()).unwrap_or_default();
        let inside = Open { end: content.end, message: None, group: None, ..open };
        match kind {
            Some(Kind::Text) => self.report(bytes)?,
            Some(Kind::Message(message)) => {
                self.at = content.start;
                return self.enter(Open { message: Some(message), is_guessed: false, ..inside });
            }
            Some(Kind::Number(number)) if repeated => {
                self.packed(number, bytes)?;
            }
            Some(Kind::Number(_) | Kind::Bytes | Kind::Group(_)) | None => {
                return self.guess(inside, content.start, bytes);
            }
        }
        self.at = content.end;
        Ok(())
    }

    /// A field of variable length whose type is not known.
    fn guess(&mut self, inside: Open, start: usize, bytes: &[u8]) -> Result<(), BodyErrorKind> {
        if inside.is_guessed {
            self.budgets.guess(bytes.len())?;
        }
        if !wire::is_message(bytes) {
            if has_text(bytes) { self.report(bytes) } else { self.report_spaced(bytes) }?;
            self.at = inside.end;
            return Ok(());
        }
        let is_too_deep = self.open.len() > self.depth_max;
        if !inside.is_guessed {
            self.report_spaced(bytes)?;
        } else if is_too_deep || is_text(bytes) {
            self.budgets.guess(bytes.len().saturating_mul(REPORTED_WEIGHT))?;
            self.report_spaced(bytes)?;
        }
        self.enter(Open { is_guessed: true, ..inside })?;
        self.at = start;
        Ok(())
    }

    /// Packed numbers (or ones that claim to be).
    fn packed(&mut self, number: Number, bytes: &[u8]) -> Result<(), BodyErrorKind> {
        self.value.clear();
        let mut at = 0;
        while at < bytes.len() {
            let read = match number.width() {
                Width::Varint => wire::varint(bytes, at),
                Width::Four => wire::array(bytes, at)
                    .map(|array| (u64::from(u32::from_le_bytes(array)), at + 4)),
                Width::Eight => {
                    wire::array(bytes, at).map(|array| (u64::from_le_bytes(array), at + 8))
                }
            };
            let Some((bits, next)) = read else { return Err(BodyErrorKind::ProtobufSyntax) };
            if at > 0 {
                self.value.push(b',');
            }
            number.write(bits, self.value);
            at = next;
        }
        self.argument()
    }

    /// A single number, if its type is known.
    fn number(&mut self, kind: Option<Kind>, bits: u64, width: Width) -> Result<(), BodyErrorKind> {
        match kind {
            Some(Kind::Number(number)) if number.width() == width => {
                self.value.clear();
                number.write(bits, self.value);
                self.argument()
            }
            Some(
                Kind::Number(_) | Kind::Text | Kind::Bytes | Kind::Message(_) | Kind::Group(_),
            )
            | None => Ok(()),
        }
    }

    fn report(&mut self, bytes: &[u8]) -> Result<(), BodyErrorKind> {
        self.value.clear();
        self.value.extend_from_slice(bytes);
        self.argument()
    }

    /// Reports bytes with spaces in the place of zero bytes.
    fn report_spaced(&mut self, bytes: &[u8]) -> Result<(), BodyErrorKind> {
        self.value.clear();
        self.value.extend(bytes.iter().map(|&byte| if byte == 0 { b' ' } else { byte }));
        self.argument()
    }

    /// Reports `value` under `name`.
    fn argument(&mut self) -> Result<(), BodyErrorKind> {
        if !self.budgets.names.take(self.name) {
            return Err(BodyErrorKind::ProtobufNames);
        }
        match self.sink.argument(self.name, self.value) {
            Room::Left => Ok(()),
            Room::Full => Err(BodyErrorKind::ArgumentsFull),
        }
    }

    /// Reports what was not read, so that rules still see it.
    fn unread_rest(&mut self, error: &mut FirstError) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.is_empty() && self.sink.argument(UNREAD, rest) == Room::Full {
            error.set(BodyErrorKind::ArgumentsFull, self.at);
        }
    }
}

/// How many bytes a number takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Varint,
    Four,
    Eight,
}

impl Number {
    const fn width(self) -> Width {
        match self {
            Self::Bool | Self::Signed | Self::Unsigned | Self::ZigZag => Width::Varint,
            Self::Fixed32 | Self::SignedFixed32 | Self::Float => Width::Four,
            Self::Fixed64 | Self::SignedFixed64 | Self::Double => Width::Eight,
        }
    }

    /// Appends the number as JSON would have it.
    fn write(self, bits: u64, out: &mut Vec<u8>) {
        let low = bits as u32;
        // Writing to a vector does not fail.
        let _ = match self {
            Self::Bool => write!(out, "{}", bits != 0),
            Self::Signed | Self::SignedFixed64 => write!(out, "{}", bits.cast_signed()),
            Self::Unsigned | Self::Fixed64 | Self::Fixed32 => write!(out, "{bits}"),
            Self::ZigZag => {
                write!(out, "{}", (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
            }
            Self::SignedFixed32 => write!(out, "{}", low.cast_signed()),
            Self::Float => write_float(f64::from(f32::from_bits(low)), out),
            Self::Double => write_float(f64::from_bits(bits), out),
        };
    }
}

/// With an exponent where it would be long without.
fn write_float(number: f64, out: &mut Vec<u8>) -> std::io::Result<()> {
    let is_plain = number == 0.0 || (1e-5..1e16).contains(&number.abs());
    if is_plain { write!(out, "{number}") } else { write!(out, "{number:e}") }
}

/// Whether bytes could be text: UTF-8 without control characters but white space.
fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < b' ' && !(b'\t'..=b'\r').contains(byte) || *byte == 0x7f;
    !bytes.iter().any(is_control) && core::str::from_utf8(bytes).is_ok()
}

/// Whether a zero byte in a value is one in a text.
fn has_text(bytes: &[u8]) -> bool {
    let is_printable = |byte: &u8| (b' '..0x7f).contains(byte);
    memchr::memchr(0, bytes).is_none()
        || bytes.windows(TEXT_RUN).any(|run| run.iter().all(is_printable))
            && core::str::from_utf8(bytes).is_ok()
}
