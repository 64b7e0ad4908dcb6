//! Framings in each mode in which an operator can have Envoy send bodies.

use glacis_tests::stack::Processor;

use super::requests::{Framing, Trailers, over_http2};
use super::{UPSTREAM, check, without_a_guard};
use crate::body_modes::{CLOSED, OF_REQUESTS, routes};
use crate::support::Own;

/// The routes of the modes in which a body is inspected before any of it goes on.
const HELD: [&str; 4] = ["/none", "/buffered", "/partial", "/duplex"];
/// Headers and pieces of the body go on before the verdict: the guard refuses them, but for what comes all at once.
const STREAMED: [&str; 1] = ["/streamed"];

/// What is not over with the headers: a body, trailers, or both.
fn with_an_end_of_their_own() -> Vec<Framing> {
    let framings = over_http2().into_iter();
    framings.filter(|framing| framing.has_body || framing.trailers != Trailers::None).collect()
}

#[test]
fn every_body_mode_with_the_guard() {
    let edits = [(CLOSED, &*routes(OF_REQUESTS)), UPSTREAM];
    let own = Own::start("framing-modes", Processor::ExtProc, &edits);
    check(&own.0, &with_an_end_of_their_own(), &HELD);
}

#[test]
fn every_body_mode_without_the_guard() {
    let edits = [(CLOSED, &*routes(OF_REQUESTS)), UPSTREAM];
    let own = without_a_guard("framing-modes-no-guard", Processor::ExtProc, &edits);
    check(&own.0, &with_an_end_of_their_own(), &[&HELD[..], &STREAMED].concat());
}
