//! The end of an exchange: with a verdict or without one, at the end of the stream or before.

use glacis_inspector::{Inspector, Mode};
use glacis_service::{Client, now};

use super::{Half, Session};
use crate::wire::BodyMode;

impl Drop for Session {
    /// The end of the exchange, however it came.
    fn drop(&mut self) {
        self.shared.metrics.streams_open.dec();
        // A panic is under way: the engine's state is not to be trusted.
        if std::thread::panicking() {
            return;
        }
        self.submit();
        self.note_missed_messages();
        // Where the response has come it was said then.
        if self.misses_body() && self.response == Half::Headers && !self.is_over() && !self.observed
        {
            let client = self.inspector.as_deref().and_then(Inspector::client).map(Client::from);
            self.shared.body_missed(client);
        }
        self.note_missed_pieces();
        self.conclude();
    }
}

impl Session {
    /// Takes note of a socket of which nothing has come: neither the answer to its request nor a byte.
    fn note_missed_pieces(&self) {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.observed && !self.is_over())
        else {
            return;
        };
        if self.modes.request == BodyMode::None && !socket.has_seen_bytes() {
            let client = self.inspector.as_deref().and_then(Inspector::client);
            self.shared.body_missed(client.map(Client::from));
        }
    }

    /// Whether a body that was asked for has not come.
    pub(super) const fn misses_body(&self) -> bool {
        matches!(self.request, Half::Body(_)) && matches!(self.modes.request, BodyMode::None)
    }

    /// Takes note of a call of whose messages nothing has come, neither a piece nor the end.
    fn note_missed_messages(&self) {
        let awaited = matches!(self.request, Half::Messages(_)) && !self.is_over();
        if let Some(inspector) = self.inspector.as_deref().filter(|_| awaited && !self.observed)
            && !inspector.has_seen_body()
            && self.modes.request == BodyMode::None
        {
            self.shared.body_missed(inspector.client().map(Client::from));
        }
    }

    /// Ends the exchange before Envoy ends the stream, where nothing can come that matters: what is open has no
    /// inspector then. With few streams the answer goes out first.
    pub(super) fn conclude_if_final(&mut self) {
        let of_request = matches!(self.request, Half::Done | Half::BodyDone);
        if !of_request
            || self.refused
            || self.traced.is_some()
            || self.is_duplex()
            || self.shared.has_room_for_idle_inspectors()
        {
            return;
        }
        let of_response = match self.response {
            Half::Headers => self.inspector.as_deref().is_some_and(|seen| !seen.wants_response()),
            Half::Body(_) | Half::Messages(_) | Half::Socket(_) | Half::Events(_) => false,
            Half::Done | Half::BodyDone => true,
        };
        if of_response {
            self.conclude();
        }
    }

    /// While many streams wait for something, an inspector for each holds no more than it has to.
    pub(super) fn rest_if_many(&mut self) {
        if let Some(inspector) = &mut self.inspector
            && self.shared.has_many_streams()
        {
            inspector.rest();
        }
    }

    /// Counts the exchange, and gives the inspector back.
    pub(super) fn conclude(&mut self) {
        let Some(mut inspector) = self.inspector.take() else { return };
        self.takes_trailers_out = inspector.mode() == Mode::Blocking;
        if let Some(profile) = &self.profile {
            self.shared.conclude(profile, &mut inspector, self.traced.take());
            profile.keep(*inspector);
        }
        // The stream may stay open for long, as Envoy waits for the upstream.
        self.body_memory.release();
        self.waits.release();
        self.concluded = true;
    }

    /// Ends the exchange without a verdict: nobody waits for one any more, or a panic has kept it from coming. What
    /// the inspector has is not to be trusted then, and goes.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        if self.inspector.take().is_some() {
            self.shared.metrics.no_verdict(self.metrics());
            self.shared.history.no_verdict(now());
        }
    }
}
