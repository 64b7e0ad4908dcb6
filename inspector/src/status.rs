//! HTTP statuses of refusals.

/// The reason phrase (RFC 9110, section 15) of a status that a client can be refused with.
pub(crate) const fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        406 => "Not Acceptable",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Refused",
    }
}
