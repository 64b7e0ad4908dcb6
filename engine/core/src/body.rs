//! Body processors: a request body in, arguments, files and XML values out.
//!
//! The whole body is one slice, already cut at its limit, so what is found cannot depend on how the
//! body was chunked on its way here. A processor pushes what it finds into a [`BodySink`] and says what
//! was wrong in an [`Outcome`].
//!
//! Two promises hold for every processor and every input:
//!
//! - **Nothing is hidden.** A body that is cut off or malformed is an error, and whatever could be read
//!   before, after or instead is still reported. Where servers are known to disagree on the reading, the
//!   error is set and the reading that shows more is taken.
//! - **Cost is linear.** No recursion, no back-tracking; nesting, nodes, parts and part headers are
//!   bounded by [`Limits`], arguments by the sink, and what is reported is at most a small multiple
//!   of the body.
#![deny(clippy::indexing_slicing)]

pub(crate) mod encoding;
pub(crate) mod graphql;
pub(crate) mod grpc;
mod json;
mod multipart;
pub(crate) mod protobuf;
#[cfg(test)]
mod tests;
mod text;
pub mod urlencoded;
mod xml;

use std::ops::Range;

use crate::limits::Limits;
use grpc::Call;
use json::Values;

pub use multipart::{MultipartFlags, UnmatchedBoundary};

/// Where a processor puts what it finds.
///
/// The slices live as long as the call. Each method says whether there is room for more;
/// [`Room::Full`] means that *this* one was not kept.
///
/// ```
/// use glacis_engine::Limits;
/// use glacis_engine::body::{
///     BodyError, BodyErrorKind, BodyScratch, BodySink, Processor, Room, process, urlencoded,
/// };
///
/// /// Keeps the names of arguments.
/// #[derive(Default)]
/// struct Names(Vec<String>);
///
/// impl BodySink for Names {
///     fn argument(&mut self, name: &[u8], _value: &[u8]) -> Room {
///         self.0.push(String::from_utf8_lossy(name).into_owned());
///         Room::Left
///     }
///     // The others keep nothing.
/// #     fn file(&mut self, _: &[u8], _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn file_name(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn part_header(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn xml_text(&mut self, _: &[u8]) -> Room { Room::Left }
/// #     fn xml_attribute(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// }
///
/// let (mut names, mut scratch) = (Names::default(), BodyScratch::default());
/// urlencoded::parse(b"id=1&id=2", b'&', &mut scratch, &mut names);
/// // This body is cut off. That is an error, and what there is of it is reported none the less.
/// let (body, limits) = (br#"{"user":"x","role":"#, Limits::default());
/// let outcome =
///     process(Processor::Json, b"text/json", body, &limits, b'&', &mut scratch, &mut names);
/// let BodyError { kind, offset } = outcome.error.expect("it is cut off");
/// assert_eq!((kind, offset), (BodyErrorKind::JsonTruncated, body.len()));
/// assert_eq!(names.0, ["id", "id", "json.user", "json.role"]);
/// ```
pub trait BodySink {
    /// One argument (`ARGS_POST`, `ARGS_POST_NAMES`, and `MULTIPART_NAME` for multipart bodies).
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room;

    /// One uploaded file: the form's field (`FILES_NAMES`), the client's name for the file (`FILES`,
    /// `MULTIPART_FILENAME`), and its content (`FILES_SIZES`, `FILES_COMBINED_SIZE`,
    /// `FILES_TMP_CONTENT`).
    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room;

    /// A further name (`FILES`) of a file that is, or is about to be, reported with another one: servers
    /// differ in which of `filename`, a second `filename` and `filename*` they take.
    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room;

    /// One header line of a part of a multipart body, without its line end and with foldings undone
    /// (`MULTIPART_PART_HEADERS:part`).
    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room;

    /// One text of an XML body (`XML:/*`).
    fn xml_text(&mut self, text: &[u8]) -> Room;

    /// One attribute value of an XML body (`XML://@*`).
    fn xml_attribute(&mut self, name: &[u8], value: &[u8]) -> Room;

    /// An element of an XML body begins: what follows is inside, its attributes first. Only a sink that
    /// looks at paths needs to know.
    fn xml_open(&mut self, _name: &[u8]) {}

    /// The element that was opened last ends. Called once for each [`Self::xml_open`], but for elements
    /// that do not end.
    fn xml_close(&mut self) {}

    /// Whether all elements of a JSON array are numbered in names. Otherwise every element from number 1000 on is named
    /// `array_1000`.
    fn tells_elements_apart(&self) -> bool {
        false
    }
}

/// Whether a sink took what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It was kept.
    Left,
    /// It was not kept, and nothing more of its kind will be.
    Full,
}

/// How a body is read. The names are the values of `REQBODY_PROCESSOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processor {
    /// `URLENCODED`: a form's arguments.
    UrlEncoded,
    /// `MULTIPART`: a form with files.
    Multipart,
    /// `JSON`.
    Json,
    /// `JSONLINES`: any number of JSON values, one after the other (NDJSON, RFC 7464). Not in ModSecurity.
    JsonLines,
    /// `XML`.
    Xml,
    /// `TEXT`: text of any kind, read as what it looks like: JSON, a form, or one argument. Not in ModSecurity.
    Text,
    /// `GRPC`: messages of gRPC in their frames, as protocol buffers or JSON. Not in ModSecurity.
    Grpc,
    /// `PROTOBUF`: one message of protocol buffers. Not in ModSecurity.
    Protobuf,
    /// `RAW`: not read; rules see `REQUEST_BODY` only.
    Raw,
}

impl Processor {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::UrlEncoded,
        Self::Multipart,
        Self::Json,
        Self::JsonLines,
        Self::Xml,
        Self::Text,
        Self::Grpc,
        Self::Protobuf,
        Self::Raw,
    ];

    /// The processor of a name as rules write it (`ctl:requestBodyProcessor`), in any case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|processor| processor.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The value of `REQBODY_PROCESSOR`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UrlEncoded => "URLENCODED",
            Self::Multipart => "MULTIPART",
            Self::Json => "JSON",
            Self::JsonLines => "JSONLINES",
            Self::Xml => "XML",
            Self::Text => "TEXT",
            Self::Grpc => "GRPC",
            Self::Protobuf => "PROTOBUF",
            Self::Raw => "RAW",
        }
    }
}

/// The processor that the engine chooses without a rule: the two form types, as in ModSecurity 3
/// (`Transaction::addRequestHeader`). Rules choose the others with `ctl:requestBodyProcessor`.
///
/// `value` is a `Content-Type` header; only its beginning counts, so a malformed parameter cannot keep
/// a form from being read.
///
/// ```
/// use glacis_engine::body::{Processor, from_content_type};
///
/// assert_eq!(from_content_type(b"multipart/form-data; boundary"), Some(Processor::Multipart));
/// // A rule has to choose this one: `ctl:requestBodyProcessor=JSON`.
/// assert_eq!(from_content_type(b"application/json"), None);
/// assert_eq!(Processor::from_name(b"json"), Some(Processor::Json));
/// ```
#[must_use]
pub fn from_content_type(value: &[u8]) -> Option<Processor> {
    let value = value.trim_ascii_start();
    let begins = |media_type: &[u8]| {
        value.get(..media_type.len()).is_some_and(|start| start.eq_ignore_ascii_case(media_type))
    };
    if begins(b"application/x-www-form-urlencoded") {
        Some(Processor::UrlEncoded)
    } else if begins(multipart::MEDIA_TYPE) {
        Some(Processor::Multipart)
    } else {
        None
    }
}

/// What a processor says about a body, beside what it reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The first thing that was wrong (`REQBODY_ERROR`, `REQBODY_PROCESSOR_ERROR`).
    pub error: Option<BodyError>,
    /// A `%` that begins no escape was seen (`URLENCODED_ERROR`).
    pub invalid_escapes: bool,
    /// The `MULTIPART_*` variables; all clear for other bodies.
    pub multipart: MultipartFlags,
    /// Bytes of the body that are no file's content, for `SecRequestBodyNoFilesLimit`.
    pub bytes_without_files: usize,
}

/// An error of a body processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// What was wrong.
    pub kind: BodyErrorKind,
    /// Where: bytes from the start of the body; 0 for an error of the `Content-Type` header.
    pub offset: usize,
}

/// Declares what can be wrong with a body, with the text that rules and logs see.
macro_rules! body_error_kinds {
    ($($kind:ident: $message:literal,)*) => {
        /// What was wrong with a body.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "`message` says it, in the words that rules and logs see")]
        pub enum BodyErrorKind {
            $($kind,)*
        }

        impl BodyErrorKind {
            /// See [`BodyError::message`]. The beginnings are ModSecurity's, since logs are searched for them.
            #[must_use]
            pub fn message(self) -> &'static str {
                match self {
                    $(Self::$kind => $message,)*
                }
            }
        }
    };
}

body_error_kinds! {
    ArgumentsFull: "Request body has more arguments than are kept.",
    GrpcBase64: "gRPC parsing error: Invalid base64.",
    GrpcCoding: "gRPC parsing error: Unsupported message coding.",
    GrpcCompressed: "gRPC parsing error: Invalid compressed message.",
    GrpcDecodedSize: "gRPC parsing error: Compressed too much.",
    GrpcFlags: "gRPC parsing error: Invalid flags of a message.",
    GrpcTruncated: "gRPC parsing error: Premature end of a message.",
    JsonDepth: "JSON parsing error: Parsing depth limit exceeded.",
    JsonNames: "JSON parsing error: Names are too long for the size of the body.",
    JsonString: "JSON parsing error: Invalid escape or control character in a string.",
    JsonSyntax: "JSON parsing error: Invalid JSON.",
    JsonTrailing: "JSON parsing error: Data after the end of the document.",
    JsonTruncated: "JSON parsing error: Premature end of the document.",
    MultipartBoundaryCharacters: "Multipart parsing error: Multipart: Invalid boundary in C-T (characters).",
    MultipartBoundaryLength: "Multipart parsing error: Multipart: Invalid boundary in C-T (length).",
    MultipartBoundaryLine: "Multipart parsing error: Multipart: Invalid boundary.",
    MultipartBoundaryMalformed: "Multipart parsing error: Multipart: Invalid boundary in C-T (malformed).",
    MultipartBoundaryMissing: "Multipart parsing error: Multipart: Boundary not found in C-T.",
    MultipartBoundaryQuote: "Multipart parsing error: Multipart: Invalid boundary in C-T (quote).",
    MultipartBoundaryRepeated: "Multipart parsing error: Multipart: Multiple boundary parameters in C-T.",
    MultipartDisposition: "Multipart parsing error: Multipart: Invalid Content-Disposition header.",
    MultipartDispositionMissing: "Multipart parsing error: Multipart: Part missing Content-Disposition header.",
    MultipartDispositionRepeated: "Multipart parsing error: Multipart: Duplicate Content-Disposition parameter.",
    MultipartFileNameExtended: "Multipart parsing error: Multipart: filename* without filename.",
    MultipartFilesFull: "Multipart parsing error: Multipart: Upload file limit exceeded.",
    MultipartFinalBoundary: "Multipart parsing error: Multipart: Final boundary missing.",
    MultipartHeaderColon: "Multipart parsing error: Multipart: Invalid part header (colon missing).",
    MultipartHeaderFolding: "Multipart parsing error: Multipart: Invalid part header (folding error).",
    MultipartHeaderLength: "Multipart parsing error: Multipart: Part header line over 4096 bytes long.",
    MultipartHeaderName: "Multipart parsing error: Multipart: Invalid part header (contains invalid character).",
    MultipartHeaderNul: "Multipart parsing error: Multipart: Nul byte in part headers.",
    MultipartHeaderRepeated: "Multipart parsing error: Multipart: Duplicate part header.",
    MultipartHeaders: "Multipart parsing error: Multipart: Too many headers in a part.",
    MultipartMediaType: "Multipart parsing error: Multipart: Invalid MIME type.",
    MultipartName: "Multipart parsing error: Multipart: Content-Disposition header missing name field.",
    MultipartNames: "Multipart parsing error: Multipart: Names are too long for the size of the body.",
    MultipartNoBoundaries: "Multipart parsing error: Multipart: No boundaries found in payload.",
    MultipartParts: "Multipart parsing error: Multipart: Too many parts.",
    ProtobufDepth: "Protobuf parsing error: Parsing depth limit exceeded.",
    ProtobufNames: "Protobuf parsing error: Names are too long for the size of the body.",
    ProtobufNesting: "Protobuf parsing error: Messages within messages are too long for the size of the body.",
    ProtobufSyntax: "Protobuf parsing error: Invalid message.",
    XmlDepth: "XML parsing error: XML: Parsing depth limit exceeded.",
    XmlEncoding: "XML parsing error: XML: Unsupported encoding.",
    XmlEntities: "XML parsing error: XML: A DOCTYPE that is not a published one.",
    XmlNodes: "XML parsing error: XML: Too many nodes.",
    XmlReference: "XML parsing error: XML: Unknown or invalid reference.",
    XmlSyntax: "XML parsing error: XML: Failed parsing document.",
    XmlTruncated: "XML parsing error: XML: Premature end of the document.",
}

impl BodyError {
    /// The text of `REQBODY_ERROR_MSG` and `REQBODY_PROCESSOR_ERROR_MSG`. It holds no byte of the body.
    #[must_use]
    pub fn message(self) -> &'static str {
        self.kind.message()
    }
}

impl BodyErrorKind {
    /// Whether it is a limit that the body has hit, and not its form.
    pub(crate) const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::ArgumentsFull
                | Self::GrpcDecodedSize
                | Self::JsonDepth
                | Self::JsonNames
                | Self::MultipartFilesFull
                | Self::MultipartHeaderLength
                | Self::MultipartHeaders
                | Self::MultipartNames
                | Self::MultipartParts
                | Self::ProtobufDepth
                | Self::ProtobufNames
                | Self::ProtobufNesting
                | Self::XmlDepth
                | Self::XmlNodes
        )
    }
}

/// Buffers that processors work in. Keep one per worker: once warm, ordinary bodies allocate nothing.
///
/// Between bodies a buffer keeps at most [`BodyScratch::RETAINED_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct BodyScratch {
    /// The name of what is being read.
    name: Vec<u8>,
    /// Its value.
    value: Vec<u8>,
    /// One line, with foldings undone.
    line: Vec<u8>,
    /// `filename`.
    file_name: Vec<u8>,
    /// `filename*`.
    file_name_extended: Vec<u8>,
    /// A body converted to UTF-8, or a message decoded.
    converted: Vec<u8>,
    /// Open objects and arrays.
    containers: Vec<json::Container>,
    /// Open messages of protocol buffers.
    messages: Vec<protobuf::Open>,
    /// Names of open elements, as ranges of the body.
    elements: Vec<Range<usize>>,
    /// Texts of open elements.
    pieces: xml::Pieces,
}

impl BodyScratch {
    /// Bytes that each buffer may keep between bodies, so that one large upload does not hold its size
    /// in memory for good.
    pub const RETAINED_BYTES_MAX: usize = 64 * 1024;

    /// Gives back what a large body made the buffers grow to.
    fn shrink(&mut self) {
        for buffer in [
            &mut self.name,
            &mut self.value,
            &mut self.line,
            &mut self.file_name,
            &mut self.file_name_extended,
            &mut self.converted,
            self.pieces.buffer(),
        ] {
            if buffer.capacity() > Self::RETAINED_BYTES_MAX {
                buffer.clear();
                buffer.shrink_to(Self::RETAINED_BYTES_MAX);
            }
        }
    }
}

/// Bytes of names that may be reported more than once: four times the body, and this.
///
/// JSON paths repeat the keys that they begin with, and part headers come with the name of their
/// part. Without a bound, a long name over many small things would cost the product of the two.
const REPEATED_NAME_BYTES_FREE: usize = 1024 * 1024;

/// What is left of the names that may be repeated.
#[derive(Debug)]
struct NameBudget(usize);

impl NameBudget {
    fn of(body: &[u8]) -> Self {
        Self::of_bytes(body.len())
    }

    fn of_bytes(bytes: usize) -> Self {
        Self(bytes.saturating_mul(4).saturating_add(REPEATED_NAME_BYTES_FREE))
    }

    /// Takes the bytes of a name; false, and nothing taken, if they are more than are left.
    fn take(&mut self, name: &[u8]) -> bool {
        let left = self.0.checked_sub(name.len());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Keeps the first error of a body: later ones are often only its consequences.
#[derive(Debug, Default)]
struct FirstError(Option<BodyError>);

impl FirstError {
    fn set(&mut self, kind: BodyErrorKind, offset: usize) {
        self.0.get_or_insert(BodyError { kind, offset });
    }
}

/// Reads `body` as `processor` says and reports what it holds to `sink`.
///
/// `content_type` is the value of the request's header, empty if there is none; only
/// [`Processor::Multipart`] looks at it. `argument_separator` is `SecArgumentSeparator`'s, for
/// [`Processor::UrlEncoded`]. An empty body is never an error, as in ModSecurity 3.
///
/// ```
/// # use glacis_engine::{Limits, body::{BodyScratch, BodySink, MultipartFlags, Processor, Room}};
/// # use glacis_engine::body::{UnmatchedBoundary, process};
/// # struct Nowhere;
/// # impl BodySink for Nowhere {
/// #     fn argument(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn file(&mut self, _: &[u8], _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn file_name(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn part_header(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// #     fn xml_text(&mut self, _: &[u8]) -> Room { Room::Left }
/// #     fn xml_attribute(&mut self, _: &[u8], _: &[u8]) -> Room { Room::Left }
/// # }
/// # let (limits, mut scratch, mut sink) = (Limits::default(), BodyScratch::default(), Nowhere);
/// let content_type = b"multipart/form-data; boundary=\"XX\"";
/// let body = b"--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--XX--\r\n";
/// # let (scratch, sink) = (&mut scratch, &mut sink);
/// let outcome =
///     process(Processor::Multipart, content_type, body, &limits, b'&', scratch, sink);
/// // It can be read, and yet no browser writes it so: rules can tell by the flags.
/// assert_eq!(outcome.error, None);
/// assert!(outcome.multipart.strict_error());
/// let MultipartFlags { boundary_quoted, unmatched_boundary, .. } = outcome.multipart;
/// assert_eq!((boundary_quoted, unmatched_boundary), (true, UnmatchedBoundary::None));
/// ```
pub fn process(
    processor: Processor,
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    argument_separator: u8,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Outcome {
    let plain = |error| Outcome { error, bytes_without_files: body.len(), ..Outcome::default() };
    if body.is_empty() {
        return plain(None);
    }
    let outcome = match processor {
        Processor::UrlEncoded => urlencoded::parse(body, argument_separator, scratch, sink),
        Processor::Multipart => multipart::parse(content_type, body, limits, scratch, sink),
        Processor::Json => {
            plain(json::parse(body, Values::One, limits.json_depth_max, scratch, sink))
        }
        Processor::JsonLines => {
            plain(json::parse(body, Values::Any, limits.json_depth_max, scratch, sink))
        }
        Processor::Xml => plain(xml::parse(body, limits, scratch, sink)),
        Processor::Text => {
            plain(text::parse(content_type, body, limits, argument_separator, scratch, sink))
        }
        Processor::Grpc | Processor::Protobuf => {
            let decoded_bytes_max = limits.request_body_bytes_max;
            let call = Call { coding: Ok(None), decoded_bytes_max, schema: None };
            process_messages(processor, content_type, body, limits, &call, scratch, sink)
        }
        Processor::Raw => plain(None),
    };
    scratch.shrink();
    outcome
}

/// Reads `body` as [`Processor::Grpc`] does, or [`Processor::Protobuf`], with what is known of the call.
pub(crate) fn process_messages(
    processor: Processor,
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    call: &Call<'_>,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Outcome {
    if processor == Processor::Grpc {
        let outcome = grpc::parse(content_type, body, limits, call, scratch, sink);
        scratch.shrink();
        return outcome;
    }
    let buffers = protobuf::Buffers {
        name: &mut scratch.name,
        value: &mut scratch.value,
        open: &mut scratch.messages,
    };
    let mut budgets = protobuf::Budgets::of(body);
    let depth_max = limits.protobuf_depth_max;
    let error = protobuf::parse(body, call.schema, depth_max, &mut budgets, buffers, sink);
    scratch.shrink();
    Outcome { error, bytes_without_files: body.len(), ..Outcome::default() }
}
