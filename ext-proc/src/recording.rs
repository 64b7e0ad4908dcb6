//! A copy of an exchange, for evaluations that nobody waits for.

use core::time::Duration;

use glacis_inspector::{Decision, End, Inspector, RequestHead, ResponseHead};
use glacis_service::chance::lot;

use glacis_host::admission::Share;

use crate::wire::Head;

/// What an exchange was, as far as it has come and as much as is kept of it.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) time: Duration,
    /// Draws the sample; see [`RequestHead::lot`].
    pub(crate) lot: u8,
    request: Half,
    response: Option<Half>,
    /// Its part of the room for recordings.
    share: Share,
}

/// Request or response.
#[derive(Debug)]
struct Half {
    head: Head,
    body: Vec<u8>,
    /// How the body ended; `None` as long as more is to come, or where none was asked for.
    end: Option<End>,
}

impl Half {
    const fn new(head: Head) -> Self {
        Self { head, body: Vec::new(), end: None }
    }

    /// Takes a piece of the body as far as `bytes_max` goes. `false` when there is no room.
    fn take(&mut self, bytes: &[u8], end: End, bytes_max: usize, share: &mut Share) -> bool {
        if self.end.is_some() {
            return true;
        }
        let left = bytes_max.saturating_sub(self.body.len());
        let kept = bytes.get(..left).unwrap_or(bytes);
        if share.add(kept.len()).is_err() {
            return false;
        }
        self.body.extend_from_slice(kept);
        self.end = match end {
            _ if kept.len() < bytes.len() => Some(End::Truncated),
            End::More => None,
            End::Last | End::Truncated => Some(end),
        };
        true
    }
}

/// There is no room for (more of) a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// What is kept of an exchange besides the request's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Bytes of the request's body; 0 for none of it.
    pub(crate) request_body_bytes: usize,
    /// The response's headers.
    pub(crate) response: bool,
    /// Bytes of the response's body; 0 for none of it.
    pub(crate) response_body_bytes: usize,
}

impl Wanted {
    /// What is wanted by one or the other.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            request_body_bytes: self.request_body_bytes.max(other.request_body_bytes),
            response: self.response || other.response,
            response_body_bytes: self.response_body_bytes.max(other.response_body_bytes),
        }
    }
}

/// Writes a [`Recording`] while the exchange goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    wanted: Wanted,
}

impl Recorder {
    /// Begins with the head of a request; a body that is no body to wait for is not wanted.
    pub(crate) fn begin(
        head: Head,
        (id, time, lot): (String, Duration, u8),
        wanted: Wanted,
        mut share: Share,
    ) -> Result<Self, NoRoom> {
        if share.add(head.bytes()).is_err() {
            return Err(NoRoom);
        }
        let has_body = head.has_body();
        let mut request = Half::new(head);
        request.end = request.head.end_of_stream.then_some(End::Last);
        let request_body_bytes = if has_body { wanted.request_body_bytes } else { 0 };
        let wanted = Wanted { request_body_bytes, ..wanted };
        Ok(Self { recording: Recording { id, time, lot, request, response: None, share }, wanted })
    }

    /// What is still to come, if it comes.
    pub(crate) const fn wanted(&self) -> Wanted {
        self.wanted
    }

    pub(crate) fn request_body(&mut self, bytes: &[u8], end: End) -> Result<(), NoRoom> {
        let Recording { request, share, .. } = &mut self.recording;
        let bytes_max = self.wanted.request_body_bytes;
        if bytes_max == 0 || request.take(bytes, end, bytes_max, share) {
            Ok(())
        } else {
            Err(NoRoom)
        }
    }

    pub(crate) fn response_head(&mut self, head: Head) -> Result<(), NoRoom> {
        if !self.wanted.response || self.recording.response.is_some() {
            return Ok(());
        }
        if self.recording.share.add(head.bytes()).is_err() {
            return Err(NoRoom);
        }
        if !head.has_response_body() {
            self.wanted.response_body_bytes = 0;
        }
        self.recording.response = Some(Half::new(head));
        Ok(())
    }

    pub(crate) fn response_body(&mut self, bytes: &[u8], end: End) -> Result<(), NoRoom> {
        let Recording { response: Some(response), share, .. } = &mut self.recording else {
            return Ok(());
        };
        let bytes_max = self.wanted.response_body_bytes;
        if bytes_max == 0 || response.take(bytes, end, bytes_max, share) {
            Ok(())
        } else {
            Err(NoRoom)
        }
    }

    /// Whether the request's body has come to its end.
    pub(crate) const fn has_request(&self) -> bool {
        self.recording.request.end.is_some()
    }

    /// Whether nothing more is to come that is wanted.
    pub(crate) fn is_complete(&self) -> bool {
        let Recording { request, response, .. } = &self.recording;
        let request = self.wanted.request_body_bytes == 0 || request.end.is_some();
        let response = match response {
            None => !self.wanted.response,
            Some(half) => self.wanted.response_body_bytes == 0 || half.end.is_some(),
        };
        request && response
    }

    /// What was written. What was cut short stays so.
    pub(crate) fn finish(mut self) -> Recording {
        let Recording { request, response, .. } = &mut self.recording;
        for half in [Some(request), response.as_mut()].into_iter().flatten() {
            if !half.body.is_empty() {
                half.end = half.end.or(Some(End::Truncated));
            }
        }
        self.recording
    }
}

impl Recording {
    /// Lets an inspector see it all.
    pub(crate) fn show(&self, inspector: &mut Inspector) {
        let headers = self.request.head.headers();
        let decision = inspector.request_headers(&RequestHead {
            headers: &headers,
            protocol: self.request.head.protocol.as_deref(),
            end_of_stream: self.request.head.end_of_stream,
            id: &self.id,
            time: self.time,
            source: self.request.head.source,
            destination: self.request.head.destination,
            user: self.request.head.user.as_deref(),
            lot: self.lot,
            audit_lot: lot(),
        });
        let mut refused = matches!(decision, Decision::Reply(_));
        if decision == Decision::NeedBody
            && let Some(end) = self.request.end
        {
            let decision = inspector.request_body(&self.request.body, end);
            refused = matches!(decision, Decision::Reply(_));
        }
        if !refused && let Some(response) = &self.response {
            response.show(inspector);
        }
    }
}

impl Half {
    /// Shows a response.
    fn show(&self, inspector: &mut Inspector) {
        let decision = inspector.response_headers(&ResponseHead {
            headers: &self.head.headers(),
            end_of_stream: self.head.end_of_stream,
        });
        if decision == Decision::NeedBody
            && let Some(end) = self.end
        {
            inspector.response_body(&self.body, end);
        }
    }
}
