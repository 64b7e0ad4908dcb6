//! Reasons for which a WebSocket cannot be read any further.

/// The first thing that is wrong with the frames of one direction. No frame can be found after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A client has sent a frame without a mask, or a server one with a mask (RFC 6455, 5.1).
    Mask,
    /// A reserved bit is set that no agreed extension defines (RFC 6455, 5.2).
    ReservedBits,
    /// A reserved opcode.
    Opcode,
    /// A length that is not in its shortest form, or has its highest bit set (RFC 6455, 5.2).
    Length,
    /// A control frame that is fragmented, or longer than 125 bytes (RFC 6455, 5.5).
    Control,
    /// A continuation without a message, or a message within another (RFC 6455, 5.4).
    Sequence,
    /// The payload of a Close frame has one byte, or a code that may not be sent (RFC 6455, 7.4).
    CloseCode,
    /// Text, or the reason in a Close frame, is not UTF-8 (RFC 6455, 8.1).
    Utf8,
    /// A compressed message cannot be decompressed from its own bytes (RFC 7692, 7.2.2).
    Deflate,
    /// A message is longer than is inspected.
    MessageTooLong,
    /// A message has more frames than are inspected.
    TooManyFrames,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 11] = [
        Self::Mask,
        Self::ReservedBits,
        Self::Opcode,
        Self::Length,
        Self::Control,
        Self::Sequence,
        Self::CloseCode,
        Self::Utf8,
        Self::Deflate,
        Self::MessageTooLong,
        Self::TooManyFrames,
    ];

    /// The status code of the Close frame (RFC 6455, 7.4.1).
    #[must_use]
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Mask
            | Self::ReservedBits
            | Self::Opcode
            | Self::Length
            | Self::Control
            | Self::Sequence
            | Self::CloseCode => 1002,
            Self::Utf8 | Self::Deflate => 1007,
            Self::MessageTooLong | Self::TooManyFrames => 1009,
        }
    }

    /// Whether the message is larger than is inspected, and not malformed.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::MessageTooLong | Self::TooManyFrames)
    }

    /// The fault in words, for the Close frame.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Mask => "wrong mask",
            Self::ReservedBits => "reserved bits",
            Self::Opcode => "reserved opcode",
            Self::Length => "malformed length",
            Self::Control => "malformed control frame",
            Self::Sequence => "fragments out of order",
            Self::CloseCode => "malformed close frame",
            Self::Utf8 => "text is not UTF-8",
            Self::Deflate => "malformed compressed message",
            Self::MessageTooLong => "message too long",
            Self::TooManyFrames => "too many fragments",
        }
    }
}
