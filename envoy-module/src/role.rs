//! What a filter of the module does, which its `filter_name` says: run rules, or make checks.

use std::sync::Arc;

use crate::{
    checks::{self, ChecksFilter},
    exchange::Exchange,
    filter::Filter,
    metrics::Error,
    stream::{Called, Calls, FilterState, Half, Next, Setup, Stream, Wake, Wakeup},
};

/// The `filter_name` of a filter that makes checks. Any other name is one of a filter that runs rules.
const CHECKS: &[u8] = b"checks";

/// A configuration.
#[derive(Debug)]
pub(crate) enum Role {
    /// Rules.
    Rules(Arc<Filter>),
    /// Lists, limits and what else the wasm-filter has.
    Checks(Arc<ChecksFilter>),
}

impl Role {
    /// Reads a configuration of the filter with this name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(name: &[u8], text: &[u8], envoy: &mut impl Setup) -> Result<Self, String> {
        match name {
            CHECKS => ChecksFilter::new(text, envoy).map(Self::Checks),
            _ => Filter::new(text, envoy).map(Self::Rules),
        }
    }

    /// A stream of which nothing is known.
    pub(crate) fn stream<W: Wake>(&self) -> OneStream<W> {
        match self {
            Self::Rules(filter) => OneStream::Rules(Box::new(Exchange::new(Arc::clone(filter)))),
            Self::Checks(filter) => OneStream::Checks(checks::Request::new(Arc::clone(filter))),
        }
    }

    /// A tick that the configuration has asked for.
    pub(crate) fn scheduled(&self, envoy: &mut impl Calls) {
        if let Self::Checks(filter) = self {
            filter.tick(envoy);
        }
    }

    /// The answer to a call of the configuration.
    pub(crate) fn called(&self, envoy: &mut impl Calls, called: &Called<'_>) {
        if let Self::Checks(filter) = self {
            filter.called(envoy, called);
        }
    }
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) enum OneStream<W: Wake> {
    /// Of a filter that runs rules.
    Rules(Box<Exchange<W>>),
    /// Of a filter that makes checks.
    Checks(checks::Request),
}

impl<W: Wake> OneStream<W> {
    /// Ends the stream without a verdict, after a panic.
    pub(crate) fn give_up(&mut self, error: Error) -> Next {
        match self {
            Self::Rules(exchange) => exchange.give_up(error),
            Self::Checks(request) => request.give_up(error),
        }
    }

    /// Headers have come.
    pub(crate) fn headers<S>(&mut self, stream: &mut S, half: Half, end_of_stream: bool) -> Next
    where
        S: Stream<Waker = W> + FilterState,
    {
        match (self, half) {
            (Self::Rules(exchange), _) => exchange.headers(stream, half, end_of_stream),
            (Self::Checks(request), Half::Request) => request.headers(stream, end_of_stream),
            (Self::Checks(request), Half::Response) => request.response_headers(stream),
        }
    }

    /// A piece of a body has come.
    pub(crate) fn body<S>(&mut self, stream: &mut S, half: Half, end_of_stream: bool) -> Next
    where
        S: Stream<Waker = W> + FilterState,
    {
        match (self, half) {
            (Self::Rules(exchange), _) => exchange.body(stream, half, end_of_stream),
            (Self::Checks(request), Half::Request) => request.body(stream, end_of_stream),
            (Self::Checks(_), Half::Response) => Next::Continue,
        }
    }

    /// Trailers have come.
    pub(crate) fn trailers<S>(&mut self, stream: &mut S, half: Half) -> Next
    where
        S: Stream<Waker = W> + FilterState,
    {
        match (self, half) {
            (Self::Rules(exchange), _) => exchange.trailers(stream, half),
            (Self::Checks(request), Half::Request) => request.trailers(),
            (Self::Checks(_), Half::Response) => Next::Continue,
        }
    }

    /// Another thread wakes the stream.
    pub(crate) fn woken<S: Stream<Waker = W>>(&mut self, stream: &mut S, reason: Wakeup) -> Next {
        match self {
            Self::Rules(exchange) => exchange.woken(stream, reason),
            Self::Checks(_) => Next::Continue,
        }
    }

    /// The stream is over.
    pub(crate) fn complete(&mut self, stream: &mut impl Stream) -> Next {
        match self {
            Self::Rules(exchange) => exchange.complete(stream),
            Self::Checks(request) => request.complete(),
        }
    }
}
