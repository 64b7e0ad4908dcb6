//! Where a body ends, in each mode in which Envoy sends it.

use glacis_inspector::End;

use super::Half;
use crate::wire::{Body, BodyMode};

/// Whether a piece of a body is the last, which each mode tells differently.
///
/// | mode | next message from Envoy | how the verdict is reached |
/// |---|---|---|
/// | any | response headers | by rules without the body, as Envoy has answered itself; counted as `body_not_sent` |
/// | any | end of the stream | not at all: the stream ends with an error |
/// | any | trailers | by rules with what came of the body; they see the trailers |
/// | buffered, partially | body, which ends the stream | by rules with the body |
/// | buffered | body, and the stream goes on | by rules with the body: Envoy has sent all of it, and trailers follow |
/// | partially | body, and the stream goes on | by rules with the body if it is known to be whole (`is_whole`: trailers follow); else it is cut off, which `oversized_body` decides |
/// | streamed | a piece | not yet; at the last by rules with all pieces |
/// | full duplex | a piece | not yet; at the last, or as soon as there is more than is inspected (`too_large`) |
///
/// Trailers after the verdict are not seen by rules, and taken out of the request where rules may block.
pub(super) const fn end_of(body: &Body, mode: BodyMode, is_whole: bool, too_large: bool) -> End {
    match mode {
        BodyMode::Buffered => End::Last,
        _ if body.end_of_stream => End::Last,
        BodyMode::BufferedPartial if is_whole => End::Last,
        BodyMode::BufferedPartial => End::Truncated,
        BodyMode::FullDuplex if too_large => End::Truncated,
        BodyMode::Streamed | BodyMode::FullDuplex | BodyMode::None => End::More,
    }
}

/// What may come behind a piece of a body after which the verdict is reached.
pub(super) const fn after_body(body: &Body, mode: BodyMode) -> Half {
    match mode {
        BodyMode::FullDuplex if !body.end_of_stream => Half::Done,
        _ => Half::BodyDone,
    }
}
