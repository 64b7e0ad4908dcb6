//! One request through the engine, all phases in order.

use core::time::Duration;

use glacis_engine::{BodyRoom, RuleEngine, Start, Transaction};

use crate::{
    bytes::Bytes,
    request::{Peer, Request, Response},
};

/// The port that requests came in on when it is not said.
const SERVER_PORT: u16 = 80;

/// The status that the client gets when nothing objects and no response is known.
const OK: u16 = 200;

/// What the host says about an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// The time since 1970.
    pub time: Duration,
    /// Whether rules run, and may block, instead of what the rules say (`SecRuleEngine`).
    pub rule_engine: Option<RuleEngine>,
    /// The size of the pieces in which bodies are given; 0 is taken for 1.
    pub body_chunk: usize,
}

impl Occasion {
    /// An evaluation at this time, with bodies whole.
    #[must_use]
    pub const fn at(time: Duration) -> Self {
        Self { time, rule_engine: None, body_chunk: usize::MAX }
    }
}

/// Evaluates `request`, all phases in order; the transaction then holds verdict and matches.
pub fn inspect(
    transaction: &mut Transaction,
    request: &Request,
    unique_id: &str,
    occasion: &Occasion,
) {
    transaction.start(&Start {
        unique_id,
        time: occasion.time,
        client: Peer::endpoint(request.client, 0),
        server: Peer::endpoint(request.server, SERVER_PORT),
    });
    if let Some(mode) = occasion.rule_engine {
        transaction.set_rule_engine(mode);
    }
    evaluate_request(transaction, request, occasion.body_chunk);
    if let Some(response) = &request.response
        && transaction.verdict().refusal().is_none()
    {
        evaluate_response(transaction, response, occasion.body_chunk);
    }
    transaction.finish(occasion.time);
}

fn evaluate_request(transaction: &mut Transaction, request: &Request, body_chunk: usize) {
    transaction.request_line(&request.method.0, &request.uri.0, &request.protocol.0);
    for (Bytes(name), Bytes(value)) in &request.headers {
        transaction.request_header(name, value);
    }
    if transaction.evaluate_request_headers().refusal().is_some() {
        return;
    }
    if let Some(body) = request.body()
        && transaction.wants_request_body()
    {
        for chunk in body.chunks(body_chunk.max(1)) {
            if transaction.request_body(chunk) == BodyRoom::Full {
                break;
            }
        }
    }
    transaction.evaluate_request_body();
}

fn evaluate_response(transaction: &mut Transaction, response: &Response, body_chunk: usize) {
    transaction.response_line(response.status, &response.protocol.0);
    for (Bytes(name), Bytes(value)) in &response.headers {
        transaction.response_header(name, value);
    }
    if transaction.evaluate_response_headers().refusal().is_some() {
        return;
    }
    if let Some(body) = response.body()
        && transaction.wants_response_body()
    {
        for chunk in body.chunks(body_chunk.max(1)) {
            if transaction.response_body(chunk) == BodyRoom::Full {
                break;
            }
        }
    }
    transaction.evaluate_response_body();
}

/// The status that the client gets.
#[must_use]
pub fn status(transaction: &Transaction, request: &Request) -> u16 {
    let refused = transaction.verdict().refusal().map(|refusal| refusal.status);
    let answered = || request.response.as_ref().map_or(OK, |response| response.status);
    refused.unwrap_or_else(answered)
}
