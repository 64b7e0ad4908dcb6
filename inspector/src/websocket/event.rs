//! Peers, their messages, and what the bytes of a direction come to.

use super::Fault;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Its frames have masks.
    Client,
    /// Its frames have none.
    Server,
}

impl Peer {
    /// `client` or `server`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What a message is, as its first frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Text or bytes.
    pub kind: Kind,
    /// The content, without masks and decompressed.
    pub payload: Vec<u8>,
    /// The frames as they came.
    pub frames: Vec<u8>,
    /// It goes on beyond what is read.
    pub is_cut: bool,
}

/// What the bytes of a direction come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A Ping or a Pong, as it came.
    Control(Vec<u8>),
    /// A Close frame, as it came, with its status code and its reason. Nothing is read after it.
    Close {
        /// The frame.
        frame: Vec<u8>,
        /// The status code, if there is one.
        code: Option<u16>,
        /// The reason in it.
        reason: String,
    },
    /// A message.
    Message(Message),
    /// What follows the beginning of a message that is cut, as it came.
    Rest(Vec<u8>),
    /// No frame can be found any more.
    Fault(Fault),
}
