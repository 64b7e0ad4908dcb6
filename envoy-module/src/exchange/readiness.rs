//! Requests that come before there are rules: they wait, for a while.

use core::time::Duration;
use std::sync::Arc;

use glacis_host::admission::Share;
use glacis_inspector::parse_endpoint;
use glacis_service::Client;

use super::{Exchange, Progress, evaluation::Early};
use crate::{
    in_use::Rules,
    metrics::Error,
    stream::{Attribute, Half, Next, Stream, Wake, Wakeup},
    waiting::waiting,
};

/// How long a request waits for the first rules. They take less than a second; what takes longer is a fault, such as a
/// file system that does not answer.
const RULES_WAIT_MAX: Duration = Duration::from_secs(5);

impl<W: Wake> Exchange<W> {
    /// Has the request wait for the first rules. It takes one of the places of requests that wait.
    pub(super) fn await_rules<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        end_of_stream: bool,
    ) -> Next {
        let shared = &self.filter.engine.shared;
        let client = stream.attribute(Attribute::SourceAddress, parse_endpoint).flatten();
        let client = client.map(|client| Client::from(client.address));
        self.place = Share::none(Arc::clone(&shared.places), client);
        let waker = self.place.add(1).ok().and_then(|()| stream.waker(Wakeup::Rules));
        let Some(waker) = waker else { return self.fail(stream, Error::NotReady) };
        let (waiting, known) = waiting(waker);
        // The second of both to wake the stream finds nobody who waits.
        let late = known.another();
        let has_end = self.filter.engine.timer();
        if !has_end.is_some_and(|timer| timer.after(RULES_WAIT_MAX, move || drop(late))) {
            return self.fail(stream, Error::NotReady);
        }
        shared.rules.when_known(move || drop(known));
        self.rules_wait = Some(waiting);
        self.early = Some(Early::new(end_of_stream));
        self.request = Progress::Evaluation;
        Next::HoldAndSlowDown
    }

    /// The first rules are there, or have failed, or take too long.
    pub(super) fn rules_known<S: Stream<Waker = W>>(&mut self, stream: &mut S) -> Next {
        if self.rules_wait.take().is_none() {
            return Next::Continue;
        }
        self.place.release();
        self.request = Progress::Headers;
        let is_headers_only = self.early.as_ref().is_some_and(|early| early.is_headers_only);
        if !matches!(self.filter.engine.shared.rules.rules(), Rules::Ready(_)) {
            return self.fail(stream, Error::NotReady);
        }
        match self.request_headers(stream, is_headers_only) {
            Next::Continue => Next::Resume(Half::Request),
            next => next,
        }
    }
}
