//! As much of WebSocket (RFC 6455) as an echo needs: the handshake and short frames.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest payload of a frame whose length stands in one byte.
pub const PAYLOAD_BYTES_MAX: usize = 125;
const TEXT_FINAL: u8 = 0x81;
const MASKED: u8 = 0x80;

/// The value of `Sec-WebSocket-Accept` for that of `Sec-WebSocket-Key`.
pub fn accept(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// A text frame as a client sends it; what is longer than [`PAYLOAD_BYTES_MAX`] is cut off.
pub fn client_frame(text: &str, mask: [u8; 4]) -> Vec<u8> {
    let payload = text.as_bytes().iter().take(PAYLOAD_BYTES_MAX);
    let mut frame = head(payload.len(), MASKED).to_vec();
    frame.extend(mask);
    frame.extend(payload.zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A text frame as a server sends it; what is longer than [`PAYLOAD_BYTES_MAX`] is cut off.
pub fn server_frame(payload: &[u8]) -> Vec<u8> {
    let payload = payload.iter().take(PAYLOAD_BYTES_MAX);
    let mut frame = head(payload.len(), 0).to_vec();
    frame.extend(payload);
    frame
}

/// Takes the payload of a short frame of a client from the front of `bytes`, once it is there.
pub fn take_client_payload(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = usize::from(bytes.get(1)? & !MASKED);
    let mask: [u8; 4] = bytes.get(2..6)?.try_into().ok()?;
    let masked = bytes.get(6..6 + length)?;
    let payload = masked.iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let payload = payload.collect();
    bytes.drain(..6 + length);
    Some(payload)
}

fn head(length: usize, mask: u8) -> [u8; 2] {
    [TEXT_FINAL, mask | u8::try_from(length).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6455_examples() {
        // Section 1.3 and section 5.7.
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let frame = client_frame("Hello", [0x37, 0xfa, 0x21, 0x3d]);
        let expected = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(frame, expected);
        let mut bytes = [&expected[..], b"next"].concat();
        assert_eq!(take_client_payload(&mut bytes).as_deref(), Some(&b"Hello"[..]));
        assert_eq!(bytes, b"next");
        assert_eq!(server_frame(b"Hello"), *b"\x81\x05Hello");
    }

    #[test]
    fn an_incomplete_frame_stays() {
        let frame = client_frame("Hello", [1, 2, 3, 4]);
        for end in 0..frame.len() {
            let mut bytes = frame[..end].to_vec();
            assert_eq!(take_client_payload(&mut bytes), None);
            assert_eq!(bytes, &frame[..end]);
        }
    }
}
