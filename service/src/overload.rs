//! Notices that a service cannot keep up, and holds its readiness back until it can.
//!
//! The only sign is how late tasks run. What is rejected is no sign: a limit that one client has reached would take the
//! service from all others.

use core::time::Duration;

use tokio::time::Instant;

use crate::Readiness;

/// What holds readiness back.
const CAUSE: &str = "overload";

/// How often the service is looked at.
const TICK: Duration = Duration::from_millis(100);

/// When a service counts as overloaded, and when no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// How late a task may run that should run now: the time that each message waits for a thread.
    pub lag_max: Duration,
    /// How long it has to last before the service is not ready.
    pub after: Duration,
    /// How long it has to be over before the service is ready again: the longer of the two, so that
    /// readiness does not flutter.
    pub clear: Duration,
}

/// Two thresholds in time: what lasts becomes true, and what has been over for long false.
#[derive(Clone, Copy, Debug)]
struct Hysteresis {
    after: u32,
    clear: u32,
    overloaded: bool,
    /// Looks in a row that speak against `overloaded`.
    against: u32,
}

impl Hysteresis {
    fn new(overload: &Overload) -> Self {
        let ticks = |time: Duration| {
            u32::try_from(time.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u32::MAX).max(1)
        };
        Self {
            after: ticks(overload.after),
            clear: ticks(overload.clear),
            overloaded: false,
            against: 0,
        }
    }

    /// Takes a look into account; says whether the service is overloaded.
    const fn look(&mut self, strained: bool) -> bool {
        if strained == self.overloaded {
            self.against = 0;
            return self.overloaded;
        }
        self.against = self.against.saturating_add(1);
        let limit = if self.overloaded { self.clear } else { self.after };
        if self.against >= limit {
            self.overloaded = strained;
            self.against = 0;
        }
        self.overloaded
    }
}

/// Measures how late a task runs for as long as the runtime runs, and gives each lag to `report`.
pub fn watch(
    overload: Overload,
    readiness: &Readiness,
    report: impl Fn(Duration) + Send + 'static,
) {
    let readiness = readiness.clone();
    let mut hysteresis = Hysteresis::new(&overload);
    tokio::spawn(async move {
        loop {
            let due = Instant::now() + TICK;
            tokio::time::sleep_until(due).await;
            let lag = due.elapsed();
            report(lag);
            let is_late = lag > overload.lag_max;
            if !hysteresis.look(is_late) {
                if readiness.release(CAUSE) {
                    tracing::info!("no longer overloaded: ready");
                }
            } else if is_late && readiness.hold(CAUSE, "messages wait too long for a thread") {
                tracing::warn!("messages wait too long for a thread: not ready");
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_counts() {
        let overload = Overload {
            lag_max: Duration::ZERO,
            after: Duration::from_millis(250),
            clear: Duration::from_millis(400),
        };
        for (looks, expected) in [
            ("....", "...."),
            ("!!.!!.", "......"),
            ("!!!!!", "..!!!"),
            ("!!!....", "..!!!!."),
            ("!!!...!...", "..!!!!!!!!"),
            ("!!!....!!!", "..!!!!...!"),
        ] {
            let mut hysteresis = Hysteresis::new(&overload);
            let found =
                looks.chars().map(|look| if hysteresis.look(look == '!') { '!' } else { '.' });
            assert_eq!(found.collect::<String>(), expected, "{looks}");
        }
    }
}
