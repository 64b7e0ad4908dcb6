//! Messages of gRPC in their frames: a byte of flags, four of length, and the message, any number of times.
//!
//! Messages are protocol buffers, or JSON where the media type says so (`application/grpc+json`). Compressed ones are
//! decoded by the coding that the headers name. Decisions:
//!
//! - Flags other than "compressed" are an error: those of gRPC-Web and of Connect mark frames that only servers send.
//! - A message that cannot be decoded, or not wholly, is an error; what could be decoded is read.
//! - What is behind an error of a frame is reported as one argument: nobody knows where the next frame begins.
//! - Messages of gRPC-Web in base64 are decoded first; parts with padding of their own may follow each other.
//!
//! Sources: gRPC's `PROTOCOL-HTTP2.md` and `PROTOCOL-WEB.md`, and the Connect protocol, "Enveloped-Message".
#![deny(clippy::indexing_slicing)]

use super::{
    BodyError, BodyErrorKind, BodyScratch, BodySink, FirstError, Outcome, Room,
    encoding::{self, Coding, EncodingError},
    json,
    json::Values,
    protobuf::{self, Budgets, Buffers, Schema},
};
use crate::{limits::Limits, transform::base64};

/// Bytes before a message.
const PREFIX_BYTES: usize = 5;

/// The name of what is in no frame.
const UNREAD: &[u8] = b"message";

/// What is known of a call besides its body.
#[derive(Clone, Debug)]
pub(crate) struct Call<'d> {
    /// The coding of messages that say that they are compressed.
    pub(crate) coding: Result<Option<Coding>, EncodingError>,
    /// Bytes that all compressed messages together may decode to.
    pub(crate) decoded_bytes_max: usize,
    /// The type of the messages.
    pub(crate) schema: Option<Schema<'d>>,
}

/// Reads a body of frames.
pub(super) fn parse(
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    call: &Call<'_>,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Outcome {
    let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    let has = |text: &[u8]| {
        media_type.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text))
    };
    let mut decoded = Vec::new();
    let mut error = FirstError::default();
    let frames = if has(b"-web-text") {
        if !base64::decode_parts(body, &mut decoded) {
            error.set(BodyErrorKind::GrpcBase64, 0);
        }
        decoded.as_slice()
    } else {
        body
    };
    let mut reader = Reader {
        is_json: has(b"+json"),
        limits,
        call,
        decoded_left: call.decoded_bytes_max,
        message_bytes: 0,
        budgets: Budgets::of(body),
        scratch,
        sink,
        error,
    };
    reader.frames(frames);
    Outcome {
        error: reader
            .error
            .0
            .map(|error| BodyError { offset: error.offset.min(body.len()), ..error }),
        bytes_without_files: body.len().max(reader.message_bytes),
        ..Outcome::default()
    }
}

struct Reader<'p, 'd> {
    is_json: bool,
    limits: &'p Limits,
    call: &'p Call<'d>,
    decoded_left: usize,
    /// Bytes of messages, decoded.
    message_bytes: usize,
    budgets: Budgets,
    scratch: &'p mut BodyScratch,
    sink: &'p mut dyn BodySink,
    error: FirstError,
}

impl Reader<'_, '_> {
    fn frames(&mut self, body: &[u8]) {
        let mut at = 0;
        while at < body.len() {
            match frame(body.get(at..).unwrap_or_default()) {
                Ok(Frame { is_compressed, message }) => {
                    let start = at + PREFIX_BYTES;
                    at = start + message.len();
                    let is_full = if is_compressed {
                        self.compressed(message, start)
                    } else {
                        self.message(message, start)
                    };
                    if is_full {
                        return;
                    }
                }
                Err(kind) => {
                    self.error.set(kind, at);
                    let rest = body.get(at..).unwrap_or_default();
                    if self.sink.argument(UNREAD, rest) == Room::Full {
                        self.error.set(BodyErrorKind::ArgumentsFull, at);
                    }
                    return;
                }
            }
        }
    }

    /// Reads what a compressed message decodes to. Says whether no more can be reported.
    fn compressed(&mut self, message: &[u8], start: usize) -> bool {
        let coding = match self.call.coding {
            Ok(Some(coding)) => coding,
            Ok(None) => return self.undecoded(BodyErrorKind::GrpcCoding, message, start),
            Err(error) => return self.undecoded(error.into(), message, start),
        };
        let mut decoded = core::mem::take(&mut self.scratch.converted);
        decoded.clear();
        let result = encoding::decode(coding, message, self.decoded_left, &mut decoded);
        self.decoded_left = self.decoded_left.saturating_sub(decoded.len());
        let is_full = match result {
            Ok(()) => self.message(&decoded, start),
            Err(error) => {
                self.error.set(error.into(), start);
                self.message(&decoded, start) || self.undecoded(error.into(), message, start)
            }
        };
        self.scratch.converted = decoded;
        is_full
    }

    /// Reports a message that could not be decoded. Says whether no more can be reported.
    fn undecoded(&mut self, kind: BodyErrorKind, message: &[u8], start: usize) -> bool {
        self.error.set(kind, start);
        self.message_bytes = self.message_bytes.saturating_add(message.len());
        let is_full = self.sink.argument(UNREAD, message) == Room::Full;
        if is_full {
            self.error.set(BodyErrorKind::ArgumentsFull, start);
        }
        is_full
    }

    /// Reads a message. Says whether no more can be reported.
    fn message(&mut self, message: &[u8], start: usize) -> bool {
        self.message_bytes = self.message_bytes.saturating_add(message.len() + PREFIX_BYTES);
        let error = if message.is_empty() {
            None
        } else if self.is_json {
            json::parse(message, Values::One, self.limits.json_depth_max, self.scratch, self.sink)
        } else {
            let buffers = Buffers {
                name: &mut self.scratch.name,
                value: &mut self.scratch.value,
                open: &mut self.scratch.messages,
            };
            let depth_max = self.limits.protobuf_depth_max;
            let schema = self.call.schema;
            protobuf::parse(message, schema, depth_max, &mut self.budgets, buffers, self.sink)
        };
        let Some(error) = error else { return false };
        self.error.set(error.kind, start + error.offset);
        error.kind == BodyErrorKind::ArgumentsFull
    }
}

/// A message in its frame.
struct Frame<'b> {
    is_compressed: bool,
    message: &'b [u8],
}

/// The frame that `rest` begins with.
fn frame(rest: &[u8]) -> Result<Frame<'_>, BodyErrorKind> {
    let Some((&[flags, length @ ..], rest)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
        let is_flag = rest.first().is_some_and(|&flags| flags <= 1);
        return Err(if is_flag { BodyErrorKind::GrpcTruncated } else { BodyErrorKind::GrpcFlags });
    };
    if flags > 1 {
        return Err(BodyErrorKind::GrpcFlags);
    }
    let message = rest.get(..u32::from_be_bytes(length) as usize);
    let message = message.ok_or(BodyErrorKind::GrpcTruncated)?;
    Ok(Frame { is_compressed: flags == 1, message })
}

impl From<EncodingError> for BodyErrorKind {
    fn from(error: EncodingError) -> Self {
        match error {
            EncodingError::Off | EncodingError::Unsupported | EncodingError::TooMany => {
                Self::GrpcCoding
            }
            EncodingError::Malformed
            | EncodingError::Truncated
            | EncodingError::Trailing
            | EncodingError::Fields => Self::GrpcCompressed,
            EncodingError::Full => Self::GrpcDecodedSize,
        }
    }
}
