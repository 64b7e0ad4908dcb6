//! The modes in which Envoy is asked to send bodies.

use super::{Half, Session};
use crate::{reply::ModeOverride, wire::BodyMode};

impl Session {
    /// The mode in which a needed body comes: as configured in Envoy, or as asked for.
    ///
    /// `BUFFERED` is not asked for: Envoy 1.40 then waits for ever, if more of the body than it can
    /// buffer came before the answer to the headers. Partially buffered, such a body comes cut off,
    /// and is refused or not as configured here.
    pub(super) const fn mode_for_body(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::None => BodyMode::BufferedPartial,
            mode => mode,
        }
    }

    /// What Envoy has to send differently from its configuration, after the request's headers.
    ///
    /// A mode that is configured is kept where a body is needed: whether Envoy obeys an override is
    /// not known (`allow_mode_override`), and the end of a body is told differently in each mode.
    pub(super) fn request_override(&self, wants_response: bool) -> Option<ModeOverride> {
        // Envoy takes none in this mode.
        if self.is_duplex() {
            return None;
        }
        let body = match self.request {
            Half::Body(mode) | Half::Messages(mode) | Half::Socket(mode) => mode,
            _ => self.mode_for_recording(self.modes.request, |recorder| {
                recorder.wanted().request_body_bytes > 0
            }),
        };
        let wants_response = wants_response || self.records(|recorder| recorder.wanted().response);
        // Whether Envoy is configured to send trailers is not known, and they are part of what is waited for.
        let as_configured = body == self.modes.request
            && body != BodyMode::Streamed
            && !matches!(self.request, Half::Body(_) | Half::Messages(_))
            && !wants_response
            && self.modes.response == BodyMode::None;
        let response_body = if wants_response { self.modes.response } else { BodyMode::None };
        (!as_configured).then_some(ModeOverride {
            request_body: body,
            // They are what follows where there is no body after all.
            request_trailers: body != BodyMode::None,
            response_headers: wants_response,
            response_body,
            response_trailers: false,
        })
    }

    /// What Envoy has to send differently after the response's headers.
    pub(super) fn response_override(&self) -> Option<ModeOverride> {
        if self.is_duplex() {
            return None;
        }
        let body = match self.response {
            Half::Body(mode) | Half::Socket(mode) | Half::Events(mode) => mode,
            _ => self.mode_for_recording(self.modes.response, |recorder| {
                recorder.wanted().response_body_bytes > 0
            }),
        };
        let as_configured = body == self.modes.response
            && body != BodyMode::Streamed
            && !matches!(self.response, Half::Body(_));
        let request_body = match self.request {
            Half::Body(mode) | Half::Messages(mode) | Half::Socket(mode) => mode,
            _ => self.mode_for_recording(self.modes.request, |recorder| {
                !recorder.has_request() && recorder.wanted().request_body_bytes > 0
            }),
        };
        (!as_configured).then_some(ModeOverride {
            request_body,
            request_trailers: request_body != BodyMode::None,
            response_headers: true,
            response_body: body,
            response_trailers: body != BodyMode::None,
        })
    }
}
