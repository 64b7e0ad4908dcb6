//! Headers of frames (RFC 6455, 5.2).

use super::{Fault, Peer};

/// Bytes of the longest header: two, eight of length, four of mask.
pub(super) const HEADER_BYTES_MAX: usize = 14;

/// Bytes of the longest payload of a control frame (RFC 6455, 5.5).
pub(super) const CONTROL_BYTES_MAX: u64 = 125;

/// Bytes of the longest reason in a Close frame.
const REASON_BYTES_MAX: usize = 123;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) is_last: bool,
    pub(super) is_compressed: bool,
    pub(super) opcode: Opcode,
    /// `[0; 4]` for a server, which leaves the payload as it is.
    pub(super) mask: [u8; 4],
    /// Bytes of payload.
    pub(super) length: u64,
}

/// Bytes of the header that begins with these two.
pub(super) const fn header_bytes(second: u8) -> usize {
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    2 + length + mask
}

/// Checks what the first two bytes of a header say, so that nothing is awaited of a frame that cannot be.
pub(super) fn check(first: u8, second: u8, from: Peer, compresses: bool) -> Result<Opcode, Fault> {
    let (is_last, reserved) = (first & 0x80 != 0, first & 0x70);
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(Fault::Opcode),
    };
    // The first frame of a compressed message has the first bit, and no other frame has one (RFC 7692, 6).
    let may_be_compressed = compresses && matches!(opcode, Opcode::Text | Opcode::Binary);
    if reserved & !(if may_be_compressed { 0x40 } else { 0 }) != 0 {
        return Err(Fault::ReservedBits);
    }
    if (second & 0x80 != 0) != (from == Peer::Client) {
        return Err(Fault::Mask);
    }
    if opcode.is_control() && (!is_last || u64::from(second & 0x7f) > CONTROL_BYTES_MAX) {
        return Err(Fault::Control);
    }
    Ok(opcode)
}

/// Reads a header that [`check`] has passed, with all of its bytes.
pub(super) fn header(bytes: &[u8], opcode: Opcode) -> Result<Header, Fault> {
    let (&[first, second], rest) = bytes.split_first_chunk().ok_or(Fault::Length)?;
    let (length, rest) = match second & 0x7f {
        126 => {
            let (length, rest) = rest.split_first_chunk().ok_or(Fault::Length)?;
            let length = u64::from(u16::from_be_bytes(*length));
            (Some(length).filter(|length| *length >= 126), rest)
        }
        127 => {
            let (length, rest) = rest.split_first_chunk().ok_or(Fault::Length)?;
            let length = u64::from_be_bytes(*length);
            (Some(length).filter(|length| (1 << 16..1 << 63).contains(length)), rest)
        }
        length => (Some(u64::from(length)), rest),
    };
    Ok(Header {
        is_last: first & 0x80 != 0,
        is_compressed: first & 0x40 != 0,
        opcode,
        mask: rest.first_chunk().copied().unwrap_or_default(),
        length: length.ok_or(Fault::Length)?,
    })
}

/// Checks the payload of a Close frame, and returns its reason.
pub(super) fn close_reason(payload: &[u8]) -> Result<&str, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok("") } else { Err(Fault::CloseCode) };
    };
    match u16::from_be_bytes(*code) {
        1000..=1003 | 1007..=1014 | 3000..=4999 => {}
        _ => return Err(Fault::CloseCode),
    }
    core::str::from_utf8(reason).map_err(|_| Fault::Utf8)
}

/// A Close frame with a status code and a reason, of which the first 123 bytes are kept, as `from` has to send it.
///
/// The mask of a client is there so that what scripts choose to send is not foreseen by proxies. Nothing here is chosen
/// by a script: the mask is zero.
#[must_use]
pub fn close_frame(from: Peer, code: u16, reason: &str) -> Vec<u8> {
    let end =
        (0..=reason.len().min(REASON_BYTES_MAX)).rev().find(|at| reason.is_char_boundary(*at));
    let reason = reason.get(..end.unwrap_or(0)).unwrap_or_default();
    let length = u8::try_from(reason.len() + 2).unwrap_or(2);
    let mut frame = vec![0x88];
    match from {
        Peer::Client => frame.extend([0x80 | length, 0, 0, 0, 0]),
        Peer::Server => frame.push(length),
    }
    frame.extend(code.to_be_bytes());
    frame.extend(reason.bytes());
    frame
}
