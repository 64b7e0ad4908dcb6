//! Descriptor sets: the names and types of fields, as `protoc --descriptor_set_out --include_imports` writes them.
//!
//! Read once, when rules are loaded. Only what naming arguments needs is read: packages, messages, fields, and the
//! methods of services.
//!
//! Source: `google/protobuf/descriptor.proto`.

use std::{collections::HashMap, ops::Range};

use super::wire::{self, Field as Encoded, Value};

/// A set of descriptors, ready to be looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorSet {
    /// By `package.Service/Method`.
    methods: HashMap<Box<[u8]>, Method>,
    messages: Vec<Message>,
}

/// A method of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// The type of what the client sends.
    pub(crate) input: MessageId,
    /// Whether the client may send several messages.
    pub(crate) client_streaming: bool,
}

/// A message of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(usize);

/// Its fields, by number.
#[derive(Clone, Debug, Default)]
struct Message(Vec<Field>);

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    number: u32,
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
    pub(crate) repeated: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Message(MessageId),
    Group(MessageId),
    Number(Number),
}

/// How a number is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Bool,
    Signed,
    Unsigned,
    ZigZag,
    Fixed32,
    SignedFixed32,
    Float,
    Fixed64,
    SignedFixed64,
    Double,
}

/// Nested types of descriptors within descriptors: more than any compiler writes.
const NESTING_MAX: usize = 64;

/// What is read before names can be resolved.
#[derive(Default)]
struct Names {
    /// Messages by their full name, with a leading dot.
    ids: HashMap<Vec<u8>, MessageId>,
    /// Where each message's fields are.
    fields: Vec<Vec<Range<usize>>>,
    /// Methods: path, type of the input, whether the client streams.
    methods: Vec<(Vec<u8>, Range<usize>, bool)>,
}

impl DescriptorSet {
    /// Reads a `FileDescriptorSet`.
    ///
    /// # Errors
    /// When the bytes are no such message, or name a type that is not in it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let malformed = || "it is no FileDescriptorSet".to_owned();
        let mut names = Names::default();
        for file in embedded(bytes, 0..bytes.len(), 1).ok_or_else(malformed)? {
            names.file(bytes, &file).ok_or_else(malformed)?;
        }
        if names.ids.is_empty() {
            return Err("it has no messages".to_owned());
        }
        let resolve = |name: &[u8]| {
            names.ids.get(name).copied().ok_or_else(|| {
                let name = String::from_utf8_lossy(name).into_owned();
                format!("there is no type {name}: write the set with --include_imports")
            })
        };
        let mut messages = Vec::new();
        for ranges in &names.fields {
            let mut fields = Vec::new();
            for range in ranges {
                fields.push(field(bytes, range, &resolve)?.ok_or_else(malformed)?);
            }
            fields.sort_by_key(|field: &Field| field.number);
            messages.push(Message(fields));
        }
        let mut methods = HashMap::new();
        for (path, input, client_streaming) in &names.methods {
            let input = resolve(bytes.get(input.clone()).unwrap_or_default())?;
            let method = Method { input, client_streaming: *client_streaming };
            methods.insert(path.as_slice().into(), method);
        }
        Ok(Self { methods, messages })
    }

    /// The method that a path calls: its last two segments.
    pub(crate) fn method(&self, path: &[u8]) -> Option<Method> {
        let mut slashes = memchr::memrchr_iter(b'/', path);
        let (_, service) = (slashes.next()?, slashes.next()?);
        self.methods.get(path.get(service + 1..)?).copied()
    }

    /// The field of a message with a number.
    pub(crate) fn field(&self, message: MessageId, number: u32) -> Option<&Field> {
        let Message(fields) = self.messages.get(message.0)?;
        let at = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        fields.get(at)
    }
}

impl Names {
    fn file(&mut self, bytes: &[u8], file: &Range<usize>) -> Option<()> {
        let package = last_text(bytes, file, 2)?.unwrap_or_default();
        let mut prefix = Vec::new();
        if !package.is_empty() {
            prefix.push(b'.');
            prefix.extend_from_slice(package);
        }
        for message in embedded(bytes, file.clone(), 4)? {
            self.message(bytes, &message, &prefix, NESTING_MAX)?;
        }
        for service in embedded(bytes, file.clone(), 6)? {
            self.service(bytes, &service, &prefix)?;
        }
        Some(())
    }

    fn message(
        &mut self,
        bytes: &[u8],
        message: &Range<usize>,
        prefix: &[u8],
        depth_left: usize,
    ) -> Option<()> {
        let depth_left = depth_left.checked_sub(1)?;
        let mut name = prefix.to_vec();
        name.push(b'.');
        name.extend_from_slice(last_text(bytes, message, 1)??);
        for nested in embedded(bytes, message.clone(), 3)? {
            self.message(bytes, &nested, &name, depth_left)?;
        }
        let fields = embedded(bytes, message.clone(), 2)?;
        self.ids.insert(name, MessageId(self.fields.len()));
        self.fields.push(fields);
        Some(())
    }

    fn service(&mut self, bytes: &[u8], service: &Range<usize>, prefix: &[u8]) -> Option<()> {
        let service_name = last_text(bytes, service, 1)??;
        for method in embedded(bytes, service.clone(), 2)? {
            let mut path = prefix.get(1..).unwrap_or_default().to_vec();
            if !path.is_empty() {
                path.push(b'.');
            }
            path.extend_from_slice(service_name);
            path.push(b'/');
            path.extend_from_slice(last_text(bytes, &method, 1)??);
            let input = embedded(bytes, method.clone(), 2)?.pop()?;
            let client_streaming = last_number(bytes, &method, 5)? == Some(1);
            self.methods.push((path, input, client_streaming));
        }
        Some(())
    }
}

/// A `FieldDescriptorProto`. `Ok(None)` where it is malformed.
fn field(
    bytes: &[u8],
    range: &Range<usize>,
    resolve: &impl Fn(&[u8]) -> Result<MessageId, String>,
) -> Result<Option<Field>, String> {
    let number = |wanted| last_number(bytes, range, wanted).flatten();
    let text = |wanted| last_text(bytes, range, wanted).flatten();
    let (Some(name), Some(field_number), Some(kind)) = (text(1), number(3), number(5)) else {
        return Ok(None);
    };
    let message = || resolve(text(6).unwrap_or_default());
    let kind = match kind {
        1 => Kind::Number(Number::Double),
        2 => Kind::Number(Number::Float),
        // int64, int32, enum
        3 | 5 | 14 => Kind::Number(Number::Signed),
        // uint64, uint32
        4 | 13 => Kind::Number(Number::Unsigned),
        6 => Kind::Number(Number::Fixed64),
        7 => Kind::Number(Number::Fixed32),
        8 => Kind::Number(Number::Bool),
        9 => Kind::Text,
        10 => Kind::Group(message()?),
        11 => Kind::Message(message()?),
        12 => Kind::Bytes,
        15 => Kind::Number(Number::SignedFixed32),
        16 => Kind::Number(Number::SignedFixed64),
        // sint32, sint64
        17 | 18 => Kind::Number(Number::ZigZag),
        _ => return Ok(None),
    };
    let Ok(field_number) = u32::try_from(field_number) else { return Ok(None) };
    let name = String::from_utf8_lossy(name).into();
    Ok(Some(Field { number: field_number, name, kind, repeated: number(4) == Some(3) }))
}

/// Where the contents of all fields with a number are, in the message at `range`. `None` where it is malformed.
fn embedded(bytes: &[u8], range: Range<usize>, wanted: u32) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    each(bytes, &range, |field| {
        if let Encoded { number, value: Value::Bytes(content) } = field
            && number == wanted
        {
            found.push(content);
        }
    })?;
    Some(found)
}

/// The last text with a number, as parsers take it. The outer `None` is a malformed message.
fn last_text<'b>(bytes: &'b [u8], range: &Range<usize>, wanted: u32) -> Option<Option<&'b [u8]>> {
    let content = embedded(bytes, range.clone(), wanted)?.pop();
    Some(content.and_then(|content| bytes.get(content)))
}

/// The last varint with a number. The outer `None` is a malformed message.
fn last_number(bytes: &[u8], range: &Range<usize>, wanted: u32) -> Option<Option<u64>> {
    let mut found = None;
    each(bytes, range, |field| {
        if let Encoded { number, value: Value::Varint(value) } = field
            && number == wanted
        {
            found = Some(value);
        }
    })?;
    Some(found)
}

fn each(bytes: &[u8], range: &Range<usize>, mut take: impl FnMut(Encoded)) -> Option<()> {
    let mut at = range.start;
    while at < range.end {
        let (field, next) = wire::field(bytes, at, range.end)?;
        take(field);
        at = next;
    }
    Some(())
}
