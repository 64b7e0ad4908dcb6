//! The boundary between Envoy and the filter, free of `unsafe` code: what a filter may do with a stream while one of its
//! hooks runs, and what Envoy does after the hook. `abi` implements it for Envoy, tests implement it for themselves.

use std::{sync::Arc, time::Duration};

use glacis_inspector::{Header, Reply};

use crate::route::Route;

/// One of the header maps of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderMap {
    Request,
    RequestTrailers,
    Response,
    ResponseTrailers,
}

/// A property of a stream that Envoy knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// `HTTP/1.1`, `HTTP/2`.
    Protocol,
    /// Address and port of the client's connection.
    SourceAddress,
    /// Address and port that the client connected to.
    DestinationAddress,
    /// The name of the route.
    RouteName,
}

/// A value of dynamic metadata.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'v> {
    Text(&'v str),
    Number(f64),
    Texts(&'v [String]),
}

/// The request or the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Request,
    Response,
}

/// A metric that was defined with the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricId(pub(crate) usize);

/// A stream of Envoy, for the time of one hook.
///
/// What the getters return borrows Envoy's memory. The borrow ends with the next call that changes the stream, and with
/// the hook at the latest; the compiler holds callers to it.
pub(crate) trait Stream {
    /// Wakes the stream from other threads.
    type Waker: Wake;

    /// The headers of a map, in the order received; empty where there is no such map yet.
    fn headers(&self, map: HeaderMap) -> Vec<Header<'_>>;

    /// The pieces of the body that the running body hook was called for.
    fn body(&self, half: Half) -> Vec<&[u8]>;

    /// The pieces of the request's body that Envoy holds.
    fn held_body(&self) -> Vec<&[u8]>;

    /// What `read` makes of an attribute, if Envoy knows it and it is text. The text of the last attribute may be gone when
    /// the next is asked for.
    fn attribute<T>(&self, attribute: Attribute, read: impl FnOnce(&str) -> T) -> Option<T>;

    /// What `read` makes of a text in the metadata of the route.
    fn route_metadata<T>(
        &self,
        namespace: &str,
        key: &str,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T>;

    /// What `read` makes of a text in the metadata that filters have set for this stream.
    fn dynamic_metadata<T>(
        &self,
        namespace: &str,
        key: &str,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T>;

    /// What the most specific route says of this filter.
    fn route(&self) -> Option<Arc<Route>>;

    /// Removes all headers of this name.
    fn remove_header(&mut self, map: HeaderMap, name: &[u8]);

    /// Sets a header: it is there once, with this value.
    fn set_header(&mut self, map: HeaderMap, name: &[u8], value: &[u8]);

    /// Has other bytes go on in the place of what the running body hook was called for.
    fn replace_body(&mut self, half: Half, bytes: &[u8]);

    /// Makes Envoy buffer at least this many bytes of a body. It never lowers the limit.
    fn buffer_at_least(&mut self, bytes: usize);

    /// Sets entries of dynamic metadata. Entries that are already there are replaced.
    fn set_metadata(&mut self, namespace: &str, entries: &[(&str, Value<'_>)]);

    /// Adds to a counter. The number of labels is that of its definition.
    fn count(&mut self, metric: MetricId, labels: &[&str], by: u64);

    /// Sets a gauge.
    fn set(&mut self, metric: MetricId, labels: &[&str], value: u64);

    /// Adds a value to a histogram.
    fn record(&mut self, metric: MetricId, labels: &[&str], value: u64);

    /// Wakes this stream for `reason`; `None` if Envoy has no scheduler for it.
    fn waker(&mut self, reason: Wakeup) -> Option<Self::Waker>;
}

/// Filter state of a stream, and what else the checks need of one.
pub(crate) trait FilterState: Stream {
    /// What `read` makes of a text in filter state.
    fn filter_state<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T>;

    /// Sets a text in filter state. Envoy's ABI makes it read-only: a text that is there already stays.
    fn set_filter_state(&mut self, name: &str, text: &str);

    /// Adds a header beside those of the same name.
    fn add_header(&mut self, map: HeaderMap, name: &str, value: &str);
}

/// Envoy's side of a configuration, while one of its own hooks runs: on Envoy's main thread.
pub(crate) trait Calls {
    /// Makes an HTTP call to a cluster. Returns its number, which the answer has; `None` if Envoy makes no call.
    fn call(
        &mut self,
        cluster: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Option<u64>;
}

/// The answer to an HTTP call, in Envoy's memory.
#[derive(Debug)]
pub(crate) struct Called<'h> {
    /// The number of the call.
    pub(crate) number: u64,
    /// Headers, with `:status`; empty if there was no answer.
    pub(crate) headers: Vec<Header<'h>>,
    /// The pieces of the body.
    pub(crate) body: Vec<&'h [u8]>,
}

/// Why a stream is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// An evaluation on another thread is done.
    Evaluation,
    /// The first rules of the filter are ready, have failed, or take too long.
    Rules,
    /// The body of the request has not come for a while.
    LateBody,
    /// The response ends after the events that have gone on, or a socket whose peers do not end it.
    Cut,
}

/// Calls the hook `woken` of one stream on the thread of the stream.
pub(crate) trait Wake: Send + 'static {
    /// Calls it soon. The stream must still exist: see [`crate::waiting::Waiting`].
    fn wake(&self);
}

/// Defines metrics, while a configuration is made.
pub(crate) trait Metrics {
    /// Defines a counter with labels; `None` if Envoy refuses it.
    fn counter(&mut self, name: &str, labels: &[&str]) -> Option<MetricId>;

    /// Defines a gauge with labels; `None` if Envoy refuses it.
    fn gauge(&mut self, name: &str, labels: &[&str]) -> Option<MetricId>;

    /// Defines a histogram with labels; `None` if Envoy refuses it.
    fn histogram(&mut self, name: &str, labels: &[&str]) -> Option<MetricId>;
}

/// What the configuration of checks needs of Envoy while it is made.
pub(crate) trait Setup: Metrics {
    /// Wakes the configuration from other threads.
    type Waker: Wake;

    /// Calls the hook `scheduled` of the configuration on Envoy's main thread; `None` if Envoy has no scheduler for it.
    fn waker(&mut self) -> Option<Self::Waker>;
}

/// What Envoy does after a hook.
///
/// A reply and the end of a wait can destroy the filter before they return. They are therefore no methods of [`Stream`],
/// but results of a hook: `abi` acts on them when no code of the filter runs any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The message goes on.
    Continue,
    /// The message and what was held before it wait.
    Hold,
    /// As `Hold`; Envoy stops reading from the peer when its buffer is full, instead of failing the stream.
    HoldAndSlowDown,
    /// The message is dropped: the stream has been answered.
    Drop,
    /// The client is answered.
    Reply(Box<Reply>),
    /// The wait of this half is over.
    Resume(Half),
}

/// How severe a line of Envoy's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}
