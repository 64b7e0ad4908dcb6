//! How late this machine wakes those who sleep: what it makes everybody wait, whatever is tested on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// How long each nap is meant to be.
const NAP: Duration = Duration::from_millis(2);
/// A request is woken for so often: its client, Envoy, who is asked, and back.
const WAKES: u32 = 4;

/// Naps all the time, until dropped.
#[derive(Debug)]
pub(super) struct Jitter {
    over: Arc<AtomicBool>,
    /// When each nap ended, and how late.
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
}

impl Jitter {
    pub(super) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let late = Arc::new(Mutex::new(Vec::new()));
        let (stop, noted) = (Arc::clone(&over), Arc::clone(&late));
        spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                sleep(NAP);
                let now = Instant::now();
                let late = now.duration_since(begun).saturating_sub(NAP);
                noted.lock().unwrap_or_else(PoisonError::into_inner).push((now, late));
            }
        });
        Self { over, late }
    }

    /// What 99 of 100 requests since then had to wait, at most, for nothing but this machine.
    pub(super) fn since(&self, moment: Instant) -> Duration {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let mut late: Vec<Duration> =
            { late.iter() }.filter(|(at, _)| *at >= moment).map(|(_, late)| *late).collect();
        late.sort_unstable();
        late.get(late.len() * 99 / 100).copied().unwrap_or_default() * WAKES
    }
}

impl Drop for Jitter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_nap_in_a_hundred_is_forgiven() {
        let now = Instant::now();
        let naps = |late_ms: u64, count: usize| vec![(now, Duration::from_millis(late_ms)); count];
        for (naps, expected_ms) in [
            (vec![], 0),
            (naps(1, 100), 4),
            ([naps(1, 199), naps(50, 1)].concat(), 4),
            ([naps(1, 90), naps(50, 10)].concat(), 200),
        ] {
            let jitter = Jitter { over: Arc::default(), late: Arc::new(Mutex::new(naps)) };
            assert_eq!(jitter.since(now), Duration::from_millis(expected_ms));
            // What was before is not asked for.
            assert_eq!(jitter.since(now + NAP), Duration::ZERO);
        }
    }
}
