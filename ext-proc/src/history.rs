//! What happened in the last hour, in slots of ten seconds: verdicts, anomaly scores and times, for the plots of the
//! admin page. The memory is taken at the start and never grows.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use glacis_inspector::{REJECT, Receipt};
use serde::Serialize;

/// Seconds that one slot covers.
pub(crate) const SLOT_SECONDS: u64 = 10;

/// Slots that are kept: an hour.
pub(crate) const SLOTS: u64 = 360;

/// Scores that have a count of their own; the last counts all above.
const SCORES: usize = 41;

/// Upper bounds of the counts of times, in microseconds; one more counts all above.
const TIMES_US: [u32; 16] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000,
];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Allowed,
    /// It passed, and rules would have blocked it.
    WouldBlock,
    Blocked,
    /// It reached a limit.
    Rejected,
    /// It ended before there was a verdict.
    Unfinished,
}

impl Fate {
    const COUNT: usize = 5;

    fn of(receipt: &Receipt<'_>) -> Self {
        match receipt.verdict {
            _ if receipt.would_deny.is_some() => Self::WouldBlock,
            "deny" | "redirect" | "drop" => Self::Blocked,
            REJECT => Self::Rejected,
            "pending" => Self::Unfinished,
            _ => Self::Allowed,
        }
    }
}

/// Ten seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    fates: [u32; Fate::COUNT],
    uninspected: u32,
    scores: [u32; SCORES],
    times: [u32; TIMES_US.len() + 1],
}

impl Slot {
    const EMPTY: Self = Self {
        fates: [0; Fate::COUNT],
        uninspected: 0,
        scores: [0; SCORES],
        times: [0; TIMES_US.len() + 1],
    };

    fn add(&mut self, other: &Self) {
        let all = |sums: &mut [u32], counts: &[u32]| {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        };
        all(&mut self.fates, &other.fates);
        all(&mut self.scores, &other.scores);
        all(&mut self.times, &other.times);
        self.uninspected = self.uninspected.saturating_add(other.uninspected);
    }

    /// The bound below which so many of a hundred times lie; `None` without times, the last bound for what is above.
    fn percentile_us(&self, percent: u64) -> Option<u32> {
        let total: u64 = self.times.iter().copied().map(u64::from).sum();
        let mut seen = 0;
        for (index, count) in self.times.iter().enumerate() {
            seen += u64::from(*count);
            if total > 0 && seen * 100 >= percent * total {
                return TIMES_US.get(index).or(TIMES_US.last()).copied();
            }
        }
        None
    }
}

fn count(counts: &mut [u32], index: usize) {
    if let Some(count) = counts.get_mut(index) {
        *count = count.saturating_add(1);
    }
}

/// The last hour.
#[derive(Debug)]
pub(crate) struct History {
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    /// The number of the newest slot: seconds since 1970 in tens.
    newest: u64,
    /// The slot of a number is at the number's remainder.
    slots: Vec<Slot>,
}

impl Default for History {
    fn default() -> Self {
        let slots = vec![Slot::EMPTY; usize::try_from(SLOTS).unwrap_or_default()];
        Self { ring: Mutex::new(Ring { newest: 0, slots }) }
    }
}

impl Ring {
    /// Makes `number` one of the slots that are kept. A clock that was set back by more than the hour begins anew.
    fn advance(&mut self, number: u64) {
        if number > self.newest {
            let missing = (number - self.newest).min(SLOTS);
            for cleared in number.saturating_sub(missing.saturating_sub(1))..=number {
                self.clear(cleared);
            }
            self.newest = number;
        } else if self.newest - number >= SLOTS {
            self.slots.fill(Slot::EMPTY);
            self.newest = number;
        }
    }

    fn clear(&mut self, number: u64) {
        if let Some(slot) = self.slot(number) {
            *slot = Slot::EMPTY;
        }
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(number % SLOTS).ok()?)
    }

    fn now(&mut self, now: Duration) -> Option<&mut Slot> {
        let number = now.as_secs() / SLOT_SECONDS;
        self.advance(number);
        self.slot(number)
    }
}

/// What is shown of a part of the hour; each list has one number for each slot, the oldest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Series {
    /// When the first slot began, in seconds since 1970.
    pub(crate) start: u64,
    pub(crate) slot_seconds: u64,
    pub(crate) allowed: Vec<u32>,
    pub(crate) would_block: Vec<u32>,
    pub(crate) blocked: Vec<u32>,
    pub(crate) rejected: Vec<u32>,
    pub(crate) unfinished: Vec<u32>,
    pub(crate) uninspected: Vec<u32>,
    /// Time spent on a message; `null` where there was none.
    pub(crate) p50_us: Vec<Option<u32>>,
    pub(crate) p99_us: Vec<Option<u32>>,
    /// Times of all slots together: `[upper bound, count]`; the last has no bound.
    pub(crate) times: Vec<(Option<u32>, u32)>,
    pub(crate) all_p50_us: Option<u32>,
    pub(crate) all_p99_us: Option<u32>,
    /// Requests of all slots by inbound score, from 0; the last counts all above.
    pub(crate) scores: Vec<u32>,
}

impl History {
    fn with<T>(&self, what: impl FnOnce(&mut Ring) -> T) -> T {
        what(&mut self.ring.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an exchange that is over.
    pub(crate) fn finished(&self, receipt: &Receipt<'_>, now: Duration) {
        let score = usize::try_from(receipt.scores.inbound.max(0)).unwrap_or(usize::MAX);
        let fate = Fate::of(receipt);
        self.with(|ring| {
            let Some(slot) = ring.now(now) else { return };
            count(&mut slot.fates, fate as usize);
            count(&mut slot.scores, score.min(SCORES - 1));
            if receipt.uninspected.is_some() {
                slot.uninspected = slot.uninspected.saturating_add(1);
            }
        });
    }

    /// Counts an exchange that has no verdict, and will have none.
    pub(crate) fn no_verdict(&self, now: Duration) {
        self.with(|ring| {
            let Some(slot) = ring.now(now) else { return };
            count(&mut slot.fates, Fate::Unfinished as usize);
        });
    }

    /// Counts the time spent on a message.
    pub(crate) fn evaluated(&self, time: Duration, now: Duration) {
        let time = time.as_micros();
        let index = TIMES_US.partition_point(|bound| u128::from(*bound) < time);
        self.with(|ring| {
            let Some(slot) = ring.now(now) else { return };
            count(&mut slot.times, index);
        });
    }

    /// The last `slots` slots, the present one included.
    pub(crate) fn series(&self, slots: u64, now: Duration) -> Series {
        let newest = now.as_secs() / SLOT_SECONDS;
        let first = (newest + 1).saturating_sub(slots.clamp(1, SLOTS));
        let kept: Vec<Slot> = self.with(|ring| {
            ring.advance(newest);
            (first..=newest).filter_map(|number| ring.slot(number).cloned()).collect()
        });
        let mut all = Slot::EMPTY;
        kept.iter().for_each(|slot| all.add(slot));
        let fate = |fate: Fate| {
            kept.iter().filter_map(|slot| slot.fates.get(fate as usize).copied()).collect()
        };
        let bounds = TIMES_US.iter().copied().map(Some).chain([None]);
        Series {
            start: first * SLOT_SECONDS,
            slot_seconds: SLOT_SECONDS,
            allowed: fate(Fate::Allowed),
            would_block: fate(Fate::WouldBlock),
            blocked: fate(Fate::Blocked),
            rejected: fate(Fate::Rejected),
            unfinished: fate(Fate::Unfinished),
            uninspected: kept.iter().map(|slot| slot.uninspected).collect(),
            p50_us: kept.iter().map(|slot| slot.percentile_us(50)).collect(),
            p99_us: kept.iter().map(|slot| slot.percentile_us(99)).collect(),
            times: bounds.zip(all.times).collect(),
            all_p50_us: all.percentile_us(50),
            all_p99_us: all.percentile_us(99),
            scores: all.scores.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use glacis_engine::{Phase, RuleId, Scores};
    use glacis_inspector::WouldDeny;

    use super::*;

    const HOUR: u64 = SLOTS * SLOT_SECONDS;
    const START: u64 = 1_700_000_000;

    fn receipt(verdict: &'static str, inbound: i64) -> Receipt<'static> {
        let scores = Scores { inbound, outbound: 0 };
        Receipt { verdict, scores, ..Receipt::observed("p", "h", "id") }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(START + seconds)
    }

    fn allowed(history: &History, seconds: u64) -> u32 {
        history.series(SLOTS, at(seconds)).allowed.iter().sum()
    }

    #[test]
    fn an_hour_is_kept_and_not_a_slot_more() {
        let history = History::default();
        history.finished(&receipt("allow", 0), at(0));
        let series = history.series(SLOTS, at(HOUR - SLOT_SECONDS));
        assert_eq!((series.allowed.len(), series.allowed.first()), (360, Some(&1)));
        assert_eq!(series.start, START);
        assert_eq!(allowed(&history, HOUR), 0);
        // However much time is asked for, and however much has passed.
        assert_eq!(history.series(u64::MAX, at(HOUR)).allowed.len(), 360);
        assert_eq!(history.series(0, at(HOUR)).allowed.len(), 1);
        history.finished(&receipt("allow", 0), at(HOUR));
        history.finished(&receipt("allow", 0), at(1_000 * HOUR));
        assert_eq!(allowed(&history, 1_000 * HOUR), 1);
        let slots = history.with(|ring| ring.slots.len());
        assert_eq!(slots, 360);
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let history = History::default();
        history.finished(&receipt("allow", 0), at(HOUR));
        // By a little: it counts where it says.
        history.finished(&receipt("allow", 0), at(HOUR - 30));
        assert_eq!(allowed(&history, HOUR), 2);
        // By an hour.
        history.finished(&receipt("allow", 0), at(0));
        assert_eq!(allowed(&history, 0), 1);
    }

    #[test]
    fn fates_scores_and_times() {
        let history = History::default();
        let would_deny = Some(WouldDeny { phase: Phase::RequestBody, rule: RuleId(1) });
        for (verdict, score) in [
            ("allow", 0),
            ("observed", 3),
            ("deny", 40),
            ("redirect", 41),
            ("drop", i64::MAX),
            (REJECT, -1),
            ("pending", 5),
        ] {
            history.finished(&receipt(verdict, score), at(0));
        }
        history.finished(&Receipt { would_deny, ..receipt("allow", 5) }, at(0));
        history.no_verdict(at(0));
        for micros in [10, 11, 1_000_000, 1_000_001] {
            history.evaluated(Duration::from_micros(micros), at(0));
        }
        let series = history.series(1, at(0));
        assert_eq!((&*series.allowed, &*series.would_block), (&[2][..], &[1][..]));
        assert_eq!((&*series.blocked, &*series.rejected), (&[3][..], &[1][..]));
        assert_eq!(series.unfinished, [2]);
        let scores: Vec<usize> = (0..SCORES).filter(|&score| series.scores[score] > 0).collect();
        assert_eq!(scores, [0, 3, 5, 40]);
        assert_eq!((series.scores[40], series.scores[5]), (3, 2));
        let times: Vec<_> = series.times.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(times, [&(Some(10), 1), &(Some(20), 1), &(Some(1_000_000), 1), &(None, 1)]);
        assert_eq!((series.p50_us[0], series.p99_us[0]), (Some(20), Some(1_000_000)));
        assert_eq!(History::default().series(1, at(0)).p50_us, [None]);
    }
}
