//! One request through the engine, at the time that it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glacis_engine::Transaction;
use glacis_explain::{Occasion, Request};

pub(crate) use glacis_explain::status;

/// Evaluates `request`; the transaction then holds verdict and matches. `body_chunk` is the size of
/// the pieces in which bodies are given.
pub(crate) fn inspect(
    transaction: &mut Transaction,
    request: &Request,
    unique_id: &str,
    body_chunk: usize,
) {
    let occasion = Occasion { body_chunk, ..Occasion::at(now()) };
    glacis_explain::inspect(transaction, request, unique_id, &occasion);
}

/// The time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
