//! What time it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When this process first asked, and what the clock on the wall said then.
static BEGAN: OnceLock<(Instant, Duration)> = OnceLock::new();

/// A clock that shows microseconds since 1970, which is what Redis shows.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// That of the machine when it was first asked, and from then on what has passed: nobody's counters are lost
    /// when that clock is set. That of the server, for Redis.
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
                let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let (began, at) = BEGAN.get_or_init(|| (Instant::now(), wall()));
                u64::try_from((*at + began.elapsed()).as_micros()).unwrap_or(u64::MAX)
            }
            Self::Given(us) => us.load(Ordering::Relaxed),
        }
    }
}
