//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692): from the bytes of one direction to whole messages.
//!
//! [`Reader`] parses frames as they come. It returns the same events however the bytes are split, and it holds no
//! window of a compressor between messages: [`extensions`] has both ends agree to start each message anew.

mod event;
pub(crate) mod extensions;
mod fault;
mod frame;
mod inflate;
mod message;
mod reader;
#[cfg(test)]
mod tests;

pub use event::{Event, Kind, Message, Peer};
pub use extensions::HeaderChange;
pub use fault::Fault;
pub use frame::close_frame;
pub use reader::{Reader, ReaderLimits};
