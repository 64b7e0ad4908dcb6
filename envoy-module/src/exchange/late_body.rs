//! Requests whose body does not come: their headers may suffice for a refusal.
//!
//! Until its body is complete, a client holds a stream here and a connection in Envoy. Bodies that come at once cost
//! nothing more: the headers are evaluated alone when the body keeps Envoy waiting for longer than most bodies do.

use core::time::Duration;

use glacis_engine::Endpoint;
use glacis_inspector::{Decision, Header, Inspector, RequestHead, parse_endpoint};

use super::{Exchange, NAMESPACE, Progress, known_protocol};
use crate::{
    rulesets::Profile,
    stream::{Attribute, Half, HeaderMap, Next, Stream, Wake, Wakeup},
    waiting::waiting,
};

/// How long a body may keep Envoy waiting before the headers are evaluated without it; as in ext-proc.
const HEADERS_PATIENCE: Duration = Duration::from_millis(50);

/// The name of the user in the metadata, where another filter has verified it.
const USER: &str = "user";

/// What is drawn by chance or read from the clock for a request, once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    pub(super) time: Duration,
    /// For sampling, and for the audit log.
    pub(super) lots: [u8; 2],
}

/// What Envoy knows of a request besides its headers.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) protocol: Option<&'static str>,
    source: Option<Endpoint>,
    destination: Option<Endpoint>,
    user: Option<String>,
}

impl Known {
    pub(super) fn of(stream: &impl Stream, profile: &Profile) -> Self {
        let address = |attribute| stream.attribute(attribute, parse_endpoint).flatten();
        let names_user = profile.pool.program().names_remote_user();
        let user = names_user.then(|| stream.dynamic_metadata(NAMESPACE, USER, str::to_owned));
        Self {
            protocol: stream.attribute(Attribute::Protocol, known_protocol).flatten(),
            source: address(Attribute::SourceAddress),
            destination: address(Attribute::DestinationAddress),
            user: user.flatten(),
        }
    }
}

impl Begun {
    /// The headers, and what is known beside them, for the inspector.
    pub(super) fn head<'r>(
        self,
        headers: &'r [Header<'r>],
        end_of_stream: bool,
        id: &'r str,
        known: &'r Known,
    ) -> RequestHead<'r> {
        let [lot, audit_lot] = self.lots;
        RequestHead {
            headers,
            protocol: known.protocol,
            end_of_stream,
            id,
            time: self.time,
            source: known.source,
            destination: known.destination,
            user: known.user.as_deref(),
            lot,
            audit_lot,
        }
    }
}

impl<W: Wake> Exchange<W> {
    /// Has the stream woken if the body does not come, where the headers may suffice for a refusal. Headers that are
    /// evaluated on another thread wait for their body.
    pub(super) fn expect_body<S: Stream<Waker = W>>(
        &mut self,
        stream: &mut S,
        inspector: &Inspector,
    ) {
        let Some(timer) = self.filter.engine.timer() else { return };
        if !inspector.can_refuse_before_body() {
            return;
        }
        if let Some(waker) = stream.waker(Wakeup::LateBody) {
            let (waiting, late) = waiting(waker);
            // Without room for it, the request waits for its body.
            if timer.after(HEADERS_PATIENCE, move || drop(late)) {
                self.late_body = Some(waiting);
            }
        }
    }

    /// The body has not come: refuses the request if its headers suffice for it.
    pub(super) fn body_is_late(&mut self, stream: &mut impl Stream) -> Next {
        if self.late_body.take().is_none() || self.request != Progress::Body {
            return Next::Continue;
        }
        let (Some(profile), Some(waits)) = (&self.profile, &self.inspector) else {
            return Next::Continue;
        };
        let headers = stream.headers(HeaderMap::Request);
        let (known, receipt) = (Known::of(stream, profile), waits.receipt());
        let head = self.begun.head(&headers, false, receipt.request_id, &known);
        let mut inspector = Box::new(profile.pool.take());
        inspector.set_deadline(self.filter.engine.shared.deadline(std::time::Instant::now()));
        let refusal = match inspector.request_headers(&head) {
            Decision::NeedBody => inspector.refuse_before_body(),
            Decision::Continue | Decision::Reply(_) => None,
        };
        let Some(refusal) = refusal else {
            profile.pool.keep(*inspector);
            return Next::Continue;
        };
        drop(headers);
        let profile = std::sync::Arc::clone(profile);
        if let Some(waits) = self.inspector.replace(inspector) {
            profile.pool.keep(*waits);
        }
        self.decided(stream, Half::Request, &refusal)
    }
}
