//! What time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that shows microseconds since 1970, which is what Redis shows.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// That of the machine; of the server, for Redis.
    #[default]
    Real,
    /// One that a test sets, in microseconds.
    Given(Arc<AtomicU64>),
}

impl Clock {
    /// Microseconds since 1970.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        match self {
            Self::Real => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                u64::try_from(since.unwrap_or(Duration::ZERO).as_micros()).unwrap_or(u64::MAX)
            }
            Self::Given(us) => us.load(Ordering::Relaxed),
        }
    }
}
