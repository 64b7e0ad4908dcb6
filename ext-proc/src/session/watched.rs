//! Exchanges, or copies of them, that are evaluated when they have been answered.

use core::time::Duration;
use std::sync::Arc;

use glacis_inspector::{Decision, End, Uninspected};
use glacis_service::chance;

use super::{Half, Session, framing::end_of, part};
use crate::{
    out_of_band::{Dropped, OutOfBand, Task, left_out},
    profile::Profile,
    recording::{NoRoom, Recorder},
    reply::{Answer, Part},
    shadow::Shadow,
    wire::{Body, BodyMode, Head, Message},
};

impl Session {
    /// Begins to write down what somebody is to look at afterwards.
    pub(super) fn begin_recording(
        &mut self,
        profile: &Profile,
        head: &Head,
        id: &str,
        (time, lot): (Duration, u8),
    ) {
        let watch = &profile.watch;
        let drawn = |shadow: &Shadow| shadow.sample.has(chance::lot());
        let shadowed = watch.shadow.as_ref().is_some_and(drawn);
        let Some(wanted) = watch.wanted(lot, shadowed) else { return };
        let share = self.shared.out_of_band.share();
        match Recorder::begin(head.detached(), (id.to_owned(), time, lot), wanted, share) {
            Ok(recorder) => self.recorder = Some(Box::new((recorder, shadowed))),
            Err(NoRoom) => left_out(&self.shared, watch, shadowed, Dropped::Room),
        }
    }

    /// Writes down a further part.
    pub(super) fn record(&mut self, message: &Message) {
        let Some((recorder, shadowed)) = self.recorder.as_deref_mut() else { return };
        let whole_max = self.shared.envoy_buffer_bytes;
        let end = |body: &Body, mode| end_of(body, mode, body.bytes.len() <= whole_max, false);
        let (request, response) = (self.modes.request, self.modes.response);
        let written = match message {
            Message::RequestHeaders(_) => Ok(()),
            Message::RequestBody(body) => {
                let mode = match self.request {
                    Half::Body(mode) | Half::Messages(mode) => mode,
                    _ => Self::mode_let_pass(request),
                };
                recorder.request_body(&body.bytes, end(body, mode))
            }
            Message::RequestTrailers(_) => recorder.request_body(&[], End::Last),
            Message::ResponseHeaders(head) => recorder.response_head(head.detached()),
            Message::ResponseBody(body) => {
                let mode = match self.response {
                    Half::Body(mode) => mode,
                    _ => Self::mode_let_pass(response),
                };
                recorder.response_body(&body.bytes, end(body, mode))
            }
            Message::ResponseTrailers(_) => recorder.response_body(&[], End::Last),
        };
        if let (Err(NoRoom), Some(profile)) = (written, &self.profile) {
            left_out(&self.shared, &profile.watch, *shadowed, Dropped::Room);
            self.recorder = None;
        }
    }

    /// Has evaluated what was written down, as soon as nothing more is to come.
    pub(super) fn submit_when_complete(&mut self) {
        if self.records(Recorder::is_complete) {
            self.submit();
        }
    }

    /// Has evaluated what was written down.
    pub(super) fn submit(&mut self) {
        let (Some((recorder, shadowed)), Some(profile)) =
            (self.recorder.take().map(|it| *it), &self.profile)
        else {
            return;
        };
        let (shared, watch) = (Arc::clone(&self.shared), Arc::clone(&profile.watch));
        OutOfBand::submit(Task { shared, watch, shadowed, recording: recorder.finish() });
    }

    pub(super) fn records(&self, what: impl Fn(&Recorder) -> bool) -> bool {
        self.recorder.as_deref().is_some_and(|(recorder, _)| what(recorder))
    }

    /// The mode in which a body comes that nobody waits for.
    pub(super) const fn mode_let_pass(configured: BodyMode) -> BodyMode {
        match configured {
            BodyMode::None => BodyMode::Streamed,
            mode => mode,
        }
    }

    /// The mode to ask for where no verdict waits for a body, but somebody wants to see it, perhaps.
    pub(super) fn mode_for_recording(
        &self,
        configured: BodyMode,
        wanted: impl Fn(&Recorder) -> bool,
    ) -> BodyMode {
        if self.records(wanted) { Self::mode_let_pass(configured) } else { BodyMode::None }
    }

    /// The answer to a request's headers that are evaluated out of band only.
    pub(super) fn let_headers_pass(&mut self) -> Answer {
        self.request = Half::Done;
        let mut answer = self.follow(&Decision::Continue, Part::RequestHeaders, Vec::new());
        answer.mode_override = self.request_override(false).map(Into::into);
        answer
    }

    /// The answer to a message that nobody looks at.
    pub(super) fn let_pass(&mut self, message: &Message) -> Answer {
        let part = part(message);
        let remove = match message {
            Message::RequestTrailers(trailers) if self.takes_trailers_out => trailers.names(),
            _ => Vec::new(),
        };
        if !remove.is_empty() {
            self.shared.metrics.uninspected(Uninspected::RequestTrailers);
        }
        let mut answer = self.follow(&Decision::Continue, part, remove);
        if part == Part::ResponseHeaders {
            self.response = Half::Done;
            answer.mode_override = self.response_override().map(Into::into);
        }
        answer
    }
}
