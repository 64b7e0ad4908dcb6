//! One request through the engine, all phases in order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glacis_engine::{BodyRoom, Start, Transaction};

use crate::{
    bytes::Bytes,
    request::{Peer, Request, Response},
};

/// The port that requests came in on when it is not said.
const SERVER_PORT: u16 = 80;

/// The status that the client gets when nothing objects and no response is known.
const OK: u16 = 200;

/// Evaluates `request`; the transaction then holds verdict and matches. `body_chunk` is the size of
/// the pieces in which bodies are given.
pub(crate) fn inspect(
    transaction: &mut Transaction,
    request: &Request,
    unique_id: &str,
    body_chunk: usize,
) {
    transaction.start(&Start {
        unique_id,
        time: now(),
        client: Peer::endpoint(request.client, 0),
        server: Peer::endpoint(request.server, SERVER_PORT),
    });
    evaluate_request(transaction, request, body_chunk);
    if let Some(response) = &request.response
        && transaction.verdict().refusal().is_none()
    {
        evaluate_response(transaction, response, body_chunk);
    }
    transaction.finish(now());
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
        for chunk in body.chunks(body_chunk) {
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
        for chunk in body.chunks(body_chunk) {
            if transaction.response_body(chunk) == BodyRoom::Full {
                break;
            }
        }
    }
    transaction.evaluate_response_body();
}

/// The status that the client gets.
pub(crate) fn status(transaction: &Transaction, request: &Request) -> u16 {
    let refused = transaction.verdict().refusal().map(|refusal| refusal.status);
    let answered = || request.response.as_ref().map_or(OK, |response| response.status);
    refused.unwrap_or_else(answered)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
