//! Bodies in Envoy's mode `FULL_DUPLEX_STREAMED`: Envoy gives headers and body away, and passes on what it
//! gets back. So nothing is given back before the verdict, and then all of it.

use bytes::Bytes;

use crate::reply::{self, Answer, Part};

/// Bytes of a body that one answer gives back.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// What is held of one half of an exchange, request or response.
#[derive(Debug, Default)]
pub(crate) struct Held {
    headers: Option<Answer>,
    body: Vec<u8>,
}

/// A message that was looked at.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) part: Part,
    /// The piece of a body in it, and whether it is the last.
    pub(crate) piece: Option<(Bytes, bool)>,
    /// What it would be answered in every other mode.
    pub(crate) answer: Answer,
}

impl Held {
    /// Bytes of the body that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.body.len()
    }

    /// What is answered to a message: nothing as long as a verdict is awaited, then everything that was
    /// held, with the receipt of the verdict.
    pub(crate) fn answers(&mut self, seen: Seen, awaited: bool) -> Vec<Answer> {
        let Seen { part, piece, answer } = seen;
        let is_headers = matches!(part, Part::RequestHeaders | Part::ResponseHeaders);
        let (bytes, end) = piece.unwrap_or_default();
        self.body.extend_from_slice(&bytes);
        if awaited {
            if is_headers {
                self.headers = Some(answer);
            }
            return Vec::new();
        }
        let mut answers = Vec::new();
        if let Some(mut headers) = self.headers.take() {
            headers.dynamic_metadata.clone_from(&answer.dynamic_metadata);
            answers.push(headers);
        }
        let is_body = matches!(part, Part::RequestBody | Part::ResponseBody);
        let body = core::mem::take(&mut self.body);
        if is_body || !body.is_empty() {
            let half = if part.is_of_request() { Part::RequestBody } else { Part::ResponseBody };
            let mut pieces = pieces(half, &body, is_body && end);
            if let (Some(piece), true) = (pieces.first_mut(), is_body && answers.is_empty()) {
                piece.dynamic_metadata.clone_from(&answer.dynamic_metadata);
            }
            answers.extend(pieces);
        }
        if !is_body {
            answers.push(answer);
        }
        answers
    }
}

/// A body as answers; an empty one is one as well, as it may say that it is the end.
fn pieces(part: Part, body: &[u8], end: bool) -> Vec<Answer> {
    let count = body.len().div_ceil(PIECE_BYTES_MAX).max(1);
    let piece = |number: usize| {
        let bytes = body.chunks(PIECE_BYTES_MAX).nth(number).unwrap_or_default();
        reply::streamed(part, bytes.to_vec(), end && number + 1 == count)
    };
    (0..count).map(piece).collect()
}
