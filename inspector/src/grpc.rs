//! What a client of gRPC is told of a refusal: a code and a message in trailers, instead of a page.

use crate::status::title;

/// The code (gRPC's `statuscodes`) for a refusal with an HTTP status.
///
/// For what is not in the table it is that of gRPC's table for answers that are none of gRPC. Where that table says
/// `INTERNAL` or `UNAVAILABLE` for something that is the request's own fault, a client would try again in vain:
/// 400, 413, 429 and 431 are therefore what they mean.
#[must_use]
pub const fn code(status: u16) -> u32 {
    const INVALID_ARGUMENT: u32 = 3;
    const PERMISSION_DENIED: u32 = 7;
    const RESOURCE_EXHAUSTED: u32 = 8;
    const UNIMPLEMENTED: u32 = 12;
    const UNAVAILABLE: u32 = 14;
    const UNAUTHENTICATED: u32 = 16;
    match status {
        400 => INVALID_ARGUMENT,
        401 => UNAUTHENTICATED,
        404 => UNIMPLEMENTED,
        413 | 429 | 431 => RESOURCE_EXHAUSTED,
        502..=504 => UNAVAILABLE,
        _ => PERMISSION_DENIED,
    }
}

/// The message: as much as the page says, and nothing of the rules.
pub(crate) fn message(status: u16, request_id: &str) -> String {
    format!("{}; request {request_id}", title(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for (status, expected) in [
            (403, 7),
            (400, 3),
            (413, 8),
            (431, 8),
            (401, 16),
            (503, 14),
            (302, 7),
            (500, 7),
            (451, 7),
        ] {
            assert_eq!(code(status), expected, "{status}");
        }
    }
}
