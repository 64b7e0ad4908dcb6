//! A message whose frames are coming.

use super::{Event, Fault, Kind, Message, inflate::inflate};

/// A message that is not complete, or that passes after its beginning was returned.
#[derive(Debug)]
pub(super) struct Coming {
    pub(super) kind: Kind,
    pub(super) is_compressed: bool,
    /// Frames that have begun.
    pub(super) frames: usize,
    /// The frames as they came.
    pub(super) raw: Vec<u8>,
    /// Their payload without the mask.
    pub(super) payload: Vec<u8>,
    /// The beginning was returned, and the rest passes.
    pub(super) is_passing: bool,
}

impl Coming {
    pub(super) const fn new(kind: Kind, is_compressed: bool) -> Self {
        Self {
            kind,
            is_compressed,
            frames: 0,
            raw: Vec::new(),
            payload: Vec::new(),
            is_passing: false,
        }
    }

    /// Makes what has come an event: the whole message, or its beginning.
    pub(super) fn event(
        &mut self,
        is_cut: bool,
        bytes_max: usize,
        cuts: bool,
    ) -> Result<Event, Fault> {
        let (payload, frames) = (core::mem::take(&mut self.payload), &mut self.raw);
        let (payload, has_more) = if self.is_compressed {
            inflate(payload, is_cut, bytes_max)?
        } else {
            (payload, false)
        };
        if has_more && !cuts {
            return Err(Fault::MessageTooLong);
        }
        let is_cut = is_cut || has_more;
        if self.kind == Kind::Text
            && let Err(error) = core::str::from_utf8(&payload)
            && (!is_cut || error.error_len().is_some())
        {
            return Err(Fault::Utf8);
        }
        let frames = core::mem::take(frames);
        Ok(Event::Message(Message { kind: self.kind, payload, frames, is_cut }))
    }
}
