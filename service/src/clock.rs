//! The time of day.

use core::time::Duration;
use std::time::SystemTime;

/// The time since 1970; none of it where the machine's clock is set before that.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
