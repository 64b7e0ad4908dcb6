//! Decompression of one message (RFC 7692, 7.2.2), without anything of the messages before it.

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags},
};

use super::Fault;

/// Bytes that every compressor leaves out at the end of a message.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Bytes that a buffer begins with.
const BUFFER_BYTES_MIN: usize = 1 << 10;

/// Decompresses a message, or the first `bytes_max` bytes of it; returns whether there was more.
///
/// The output is one slice and not a ring, so that a distance to before the message is an error: a peer that has kept
/// its window reads there what nobody has inspected.
///
/// # Errors
/// [`Fault::Deflate`]. Of a message that is cut off (`is_cut`) the end may be missing.
pub(super) fn inflate(
    mut compressed: Vec<u8>,
    is_cut: bool,
    bytes_max: usize,
) -> Result<(Vec<u8>, bool), Fault> {
    let expected = compressed.len().saturating_mul(4);
    if !is_cut {
        compressed.extend(TAIL);
    }
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
        | inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
    let mut decompressor = Box::<DecompressorOxide>::default();
    let mut out = vec![0; BUFFER_BYTES_MIN.max(expected).min(bytes_max.saturating_add(1))];
    let (mut read, mut written) = (0, 0);
    loop {
        let rest = compressed.get(read..).unwrap_or_default();
        let (status, took, wrote) = decompress(&mut decompressor, rest, &mut out, written, flags);
        read += took;
        written += wrote;
        match status {
            TINFLStatus::HasMoreOutput if out.len() <= bytes_max => {
                out.resize(out.len().saturating_mul(2).min(bytes_max.saturating_add(1)), 0);
            }
            TINFLStatus::HasMoreOutput | TINFLStatus::NeedsMoreInput => break,
            // A final block is padded by the beginning of an empty one, whose end is the tail (RFC 7692, 7.2.3.4).
            // Decompressors differ in what they read after it, if they read on at all.
            TINFLStatus::Done => match compressed.get(read..) {
                Some([0, 0, 0xff, 0xff] | [0, 0, 0, 0xff, 0xff]) => break,
                Some([]) if is_cut => break,
                _ => return Err(Fault::Deflate),
            },
            _ => return Err(Fault::Deflate),
        }
    }
    out.truncate(written);
    let has_more = out.len() > bytes_max;
    out.truncate(bytes_max);
    Ok((out, has_more))
}
