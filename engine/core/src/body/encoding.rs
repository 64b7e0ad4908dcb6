//! Content codings: from the bytes of a compressed body to those that the application reads.
//!
//! Everything here works on slices, and no output grows beyond the bound that the caller gives; what a
//! decoder keeps besides is its window: 32 KiB (deflate), 8 MiB (zstd, the bound of RFC 9659), 16 MiB
//! (brotli, without its extension for larger ones).
//!
//! A stream must fill the body: what is behind its end, or beside its content in a header of its own,
//! may be read by an application that looks at the body differently, and nobody would have inspected it.
//!
//! Sources: RFC 9110, 8.4.1; RFC 1950, 1951, 1952 (deflate, gzip); RFC 7932 (br); RFC 8878 (zstd).

use std::io::{ErrorKind, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{
    GzHeader,
    bufread::{DeflateDecoder, GzDecoder, ZlibDecoder},
};
use ruzstd::decoding::StreamingDecoder;

/// Bytes that zstd may look back.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;

/// Bytes that brotli decodes at a time.
const BROTLI_CHUNK_BYTES: usize = 16 << 10;

/// A content coding that can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// `gzip`, `x-gzip`.
    Gzip,
    /// `deflate`: in zlib's format, as the RFC has it, or raw, as some clients send it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

/// Why a body is not, or not wholly, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodingError {
    /// `SecRequestBodyDecompression Off`.
    Off,
    /// A coding that is not known.
    Unsupported,
    /// More codings, one over the other, than are undone.
    TooMany,
    /// The stream is not of its format.
    Malformed,
    /// The stream ends too early.
    Truncated,
    /// Something follows the stream.
    Trailing,
    /// The stream's header holds texts of its own.
    Fields,
    /// There is more than the caller takes.
    Full,
}

impl EncodingError {
    /// Whether it is a limit that the body has hit, and not its form.
    pub(crate) const fn is_limit(self) -> bool {
        matches!(self, Self::TooMany | Self::Full)
    }

    /// The text of `REQBODY_ERROR_MSG`.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Off => "Unsupported content coding: Bodies are not decoded.",
            Self::Unsupported => "Unsupported content coding.",
            Self::TooMany => "Unsupported content coding: Too many of them.",
            Self::Malformed => "Content decoding error: Invalid data.",
            Self::Truncated => "Content decoding error: Premature end of the data.",
            Self::Trailing => "Content decoding error: Data after the end.",
            Self::Fields => "Content decoding error: Texts in the header of the data.",
            Self::Full => "Content decoding error: Compressed too much.",
        }
    }
}

/// The codings that the values of `Content-Encoding` headers name, in the order they were applied.
pub(crate) fn codings<'v>(
    headers: impl Iterator<Item = &'v [u8]>,
    codings_max: usize,
) -> Result<Vec<Coding>, EncodingError> {
    let mut list = Vec::new();
    for name in headers.flat_map(|header| header.split(|&byte| byte == b',')) {
        let coding = match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => continue,
            b"gzip" | b"x-gzip" => Coding::Gzip,
            b"deflate" => Coding::Deflate,
            b"br" => Coding::Brotli,
            b"zstd" => Coding::Zstd,
            _ => return Err(EncodingError::Unsupported),
        };
        if list.len() >= codings_max {
            return Err(EncodingError::TooMany);
        }
        list.push(coding);
    }
    Ok(list)
}

/// Appends to `out` what `body` decodes to, at most `bytes_max` of it, whatever else is wrong.
///
/// # Errors
/// See [`EncodingError`]; what was decoded before is in `out`.
pub(crate) fn decode(
    coding: Coding,
    body: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodingError> {
    match coding {
        Coding::Gzip => gzip(body, bytes_max, out),
        Coding::Deflate if is_zlib(body) => {
            let mut decoder = ZlibDecoder::new(body);
            read(&mut decoder, bytes_max, out)?;
            filled(decoder.into_inner())
        }
        Coding::Deflate => {
            let mut decoder = DeflateDecoder::new(body);
            read(&mut decoder, bytes_max, out)?;
            filled(decoder.into_inner())
        }
        Coding::Brotli => brotli(body, bytes_max, out),
        Coding::Zstd => zstd(body, bytes_max, out),
    }
}

/// Reads a stream to its end, or `bytes_max` of it.
fn read(stream: &mut impl Read, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let end = out.len() + bytes_max;
    // One more, to see whether there is more.
    let ended = stream.take(bytes_max as u64 + 1).read_to_end(out);
    if out.len() > end {
        out.truncate(end);
        return Err(EncodingError::Full);
    }
    match ended {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(EncodingError::Truncated),
        Err(_) => Err(EncodingError::Malformed),
    }
}

/// Nothing may be left of the body.
const fn filled(rest: &[u8]) -> Result<(), EncodingError> {
    if rest.is_empty() { Ok(()) } else { Err(EncodingError::Trailing) }
}

fn gzip(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let mut decoder = GzDecoder::new(body);
    let decoded = read(&mut decoder, bytes_max, out);
    if decoder.header().is_some_and(has_texts) {
        return Err(EncodingError::Fields);
    }
    decoded?;
    filled(decoder.into_inner())
}

/// Whether a header holds more than the plain name of a file.
fn has_texts(header: &GzHeader) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._- ".contains(byte);
    header.extra().is_some()
        || header.comment().is_some()
        || header.filename().is_some_and(|name| !name.iter().all(plain))
}

/// The two bytes that a stream of zlib's format begins with: method, window, check.
fn is_zlib(body: &[u8]) -> bool {
    matches!(body, [method, flags, ..] if method & 0x0f == 8
        && method >> 4 <= 7
        && u16::from_be_bytes([*method, *flags]).is_multiple_of(31))
}

fn brotli(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let mut chunk = vec![0; BROTLI_CHUNK_BYTES];
    let (mut left, mut at, mut total) = (body.len(), 0, 0);
    let end = out.len() + bytes_max;
    loop {
        let (mut room, mut written) = (chunk.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut at,
            body,
            &mut room,
            &mut written,
            &mut chunk,
            &mut total,
            &mut state,
        );
        out.extend_from_slice(chunk.get(..written).unwrap_or_default());
        if out.len() > end {
            out.truncate(end);
            return Err(EncodingError::Full);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess => return filled(body.get(at..).unwrap_or_default()),
            BrotliResult::NeedsMoreInput => return Err(EncodingError::Truncated),
            BrotliResult::ResultFailure => return Err(EncodingError::Malformed),
        }
    }
}

fn zstd(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let mut rest = body;
    let stream = StreamingDecoder::new_with_max_window_size(&mut rest, ZSTD_WINDOW_BYTES_MAX);
    let Ok(mut stream) = stream else {
        return Err(truncated_or_malformed(rest));
    };
    match read(&mut stream, bytes_max, out) {
        Err(EncodingError::Malformed) => Err(truncated_or_malformed(rest)),
        Err(other) => Err(other),
        Ok(()) => filled(rest),
    }
}

/// The decoder does not tell, but for that it has read all that there was.
const fn truncated_or_malformed(rest: &[u8]) -> EncodingError {
    if rest.is_empty() { EncodingError::Truncated } else { EncodingError::Malformed }
}
