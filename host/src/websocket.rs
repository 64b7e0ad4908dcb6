//! The key `websocket` of a profile.

use glacis_inspector::SocketSettings;
use serde::Deserialize;

/// The highest limit of bytes: both copies of a message are held while its frames come, and again while it is judged.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The highest limit of frames.
const FRAMES_MAX: usize = 1 << 20;

/// Whether messages of WebSockets are inspected, and how large they may be.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct WebsocketConfig {
    pub inspect: bool,
    pub message_bytes_max: usize,
    pub frames_max: usize,
}

impl Default for WebsocketConfig {
    fn default() -> Self {
        Self { inspect: false, message_bytes_max: 64 << 10, frames_max: 1_000 }
    }
}

impl WebsocketConfig {
    /// What makes no sense, as key and message.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        if !(125..=MESSAGE_BYTES_MAX).contains(&self.message_bytes_max) {
            return Some(("websocket.message_bytes_max", "write a number from 125 to 16777216"));
        }
        let is_limit = (1..=FRAMES_MAX).contains(&self.frames_max);
        (!is_limit).then_some(("websocket.frames_max", "write a number from 1 to 1048576"))
    }

    /// The settings of the inspector.
    pub(crate) fn settings(&self) -> Option<SocketSettings> {
        let Self { inspect, message_bytes_max, frames_max } = *self;
        inspect.then_some(SocketSettings { message_bytes_max, frames_max })
    }
}
