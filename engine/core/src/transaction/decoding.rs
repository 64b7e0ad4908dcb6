//! Compressed bodies, of requests and of responses: what they decode to is put in their place.

use core::mem;

use super::Transaction;
use crate::{
    body::{
        self,
        encoding::{self, Coding, EncodingError},
    },
    id::Phase,
    settings::LimitAction,
    store::List,
};

/// Bytes that any compressed body may decode to, however short it is.
pub(super) const RATIO_BYTES_FREE: usize = 64 << 10;

/// Whose body is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Request,
    Response,
}

impl Half {
    const fn headers(self) -> List {
        match self {
            Self::Request => List::RequestHeaders,
            Self::Response => List::ResponseHeaders,
        }
    }
}

impl Transaction {
    /// Puts what a compressed request body decodes to in its place. Of a body that cannot be decoded, what could be is
    /// inspected; if that is nothing, the body as it is.
    pub(super) fn decode_request_body(&mut self) -> Result<(), EncodingError> {
        self.decode_body(Half::Request)
    }

    /// The same of a response.
    pub(super) fn decode_response_body(&mut self) -> Result<(), EncodingError> {
        self.decode_body(Half::Response)
    }

    fn body_of(&mut self, half: Half) -> &mut Vec<u8> {
        match half {
            Half::Request => &mut self.store.request_body,
            Half::Response => &mut self.store.response_body,
        }
    }

    fn is_cut(&self, half: Half) -> bool {
        match half {
            Half::Request => self.flags.request_body_truncated,
            Half::Response => self.flags.response_body_truncated,
        }
    }

    fn decode_body(&mut self, half: Half) -> Result<(), EncodingError> {
        let bytes = self.body_of(half).len();
        if bytes == 0 {
            return Ok(());
        }
        let headers = self.store.list(half.headers()).iter();
        let named = headers
            .filter(|pair| self.store.bytes(pair.name).eq_ignore_ascii_case(b"content-encoding"))
            .map(|pair| self.store.bytes(pair.value));
        let codings = encoding::codings(named, self.program.limits.content_codings_max)?;
        let settings = &self.program.settings;
        let (is_on, inspected_bytes_max) = match half {
            Half::Request => {
                (settings.request_body_decompression, self.control.request_body_bytes_max)
            }
            Half::Response => {
                (settings.response_body_decompression, self.control.response_body_bytes_max)
            }
        };
        if !codings.is_empty() && !is_on {
            return Err(EncodingError::Off);
        }
        let by_ratio = bytes.saturating_mul(self.program.limits.decoded_ratio_max);
        let ratio_max = by_ratio.max(RATIO_BYTES_FREE);
        let bytes_max = ratio_max.min(inspected_bytes_max);
        // The coding named last was applied last. What is cut off in one is truncated in the next.
        let mut result = Ok(());
        for coding in codings.into_iter().rev() {
            match self.undo_coding(half, coding, bytes_max) {
                Ok(()) => {}
                // As a body that is cut off without being compressed: that it is can be seen.
                Err(EncodingError::Truncated) if self.is_cut(half) => {}
                Err(EncodingError::Full) => {
                    let too_long = self.decoded_too_long(half, bytes_max == ratio_max);
                    result = result.and(too_long);
                }
                Err(other) => return result.and(Err(other)),
            }
        }
        result
    }

    fn undo_coding(
        &mut self,
        half: Half,
        coding: Coding,
        bytes_max: usize,
    ) -> Result<(), EncodingError> {
        let mut decoded = mem::take(&mut self.scratch.decoded);
        let body = self.body_of(half);
        let result = encoding::decode(coding, body, bytes_max, &mut decoded);
        if result.is_ok() || !decoded.is_empty() {
            mem::swap(body, &mut decoded);
        }
        decoded.clear();
        decoded.shrink_to(body::BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.decoded = decoded;
        result
    }

    /// A body decodes to more than is inspected: more than its size allows for, or too much at all.
    fn decoded_too_long(&mut self, half: Half, by_ratio: bool) -> Result<(), EncodingError> {
        let settings = &self.program.settings;
        let (action, status, phase) = match half {
            Half::Request => {
                self.flags.request_body_truncated = true;
                (settings.request_body_limit_action, 413, Phase::RequestBody)
            }
            Half::Response => {
                self.flags.response_body_truncated = true;
                (settings.response_body_limit_action, 500, Phase::ResponseBody)
            }
        };
        if by_ratio {
            return Err(EncodingError::Full);
        }
        if action == LimitAction::Reject {
            self.refuse_for_limit(status, phase);
        }
        Ok(())
    }
}
