//! A document as YAML or JSON.

use serde_json::Value;

use crate::{
    error::DocumentError,
    json::{self, JsonError},
    limits::Limits,
};

/// Values in a document: more than any within `document_bytes_max` has reason to have.
const VALUES_MAX: usize = 4_000_000;

/// Arrays and objects within each other in a document: schemas within each other are two levels each.
const DEPTH_MAX: usize = 120;

/// Reads a document: one that begins with a brace is JSON, any other is YAML.
pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Value, DocumentError> {
    let whole = |message: String| DocumentError::of_text("", message);
    if text.len() > limits.document_bytes_max {
        let max = limits.document_bytes_max;
        return Err(whole(format!("it is longer than {max} bytes")));
    }
    let text = core::str::from_utf8(text).map_err(|_| whole("it is not UTF-8".to_owned()))?;
    if text.trim_start().starts_with('{') {
        let limits = Limits {
            body_bytes_max: limits.document_bytes_max,
            body_values_max: VALUES_MAX,
            body_depth_max: DEPTH_MAX,
            ..*limits
        };
        return json::parse(text.as_bytes(), &limits).map_err(|error| match error {
            JsonError::Malformed(message) => whole(message),
            JsonError::Limit(limit) => whole(limit.replace("compared", "read")),
        });
    }
    let options = serde_saphyr::options! {
        // `n`, `no` and `on` are texts, as in YAML 1.2.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(limits.document_bytes_max),
            max_events: VALUES_MAX,
            max_nodes: VALUES_MAX,
            max_depth: DEPTH_MAX,
            max_total_scalar_bytes: 2 * limits.document_bytes_max,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        // The first line has the place and the reason; an excerpt follows.
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        whole(message.trim_start_matches("error: ").to_owned())
    })
}
