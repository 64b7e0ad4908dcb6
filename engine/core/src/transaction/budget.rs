//! What the rules of a transaction may take: steps of work, and time where a host sets a [`Deadline`].
//!
//! A step is the running of a rule, the look at a value, or 64 bytes that an operator or a transformation
//! reads: a rule on a value of 1 KiB takes some 17 steps, and one more for each transformation's 64
//! bytes. Patterns matched by back-tracking pay for the instructions they run. What is not charged is
//! bounded by limits of its own: the parsing of bodies, macros, and the fast path's scan of each value.
//!
//! A text of which something may be known from earlier transactions ([`crate::recall`]) has a fixed price, whether
//! something is known or not: the steps of a request do not depend on the requests before it.

use crate::pattern::meter::{Meter, UNITS_PER_STEP};

/// Steps between two looks at the clock of a [`Deadline`]: 128 KiB that operators read, or so many rules.
const STEPS_PER_LOOK: u64 = 2_048;

/// The time at which evaluation has to end, on a clock of the host: the engine itself reads none.
///
/// The clock is read every 2,048 steps and for every 128 KiB that the prefilter scans. Evaluation therefore ends
/// some milliseconds after the deadline: what a machine needs to read these bytes, or one value in one operator.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    clock: fn() -> u64,
    at: u64,
}

impl Deadline {
    /// A deadline that has passed when `clock` returns `at` or more. The unit is the clock's affair.
    #[must_use]
    pub const fn new(clock: fn() -> u64, at: u64) -> Self {
        Self { clock, at }
    }

    fn has_passed(&self) -> bool {
        (self.clock)() >= self.at
    }
}

/// What is left of [`crate::Limits::rule_steps_max`], and of the time until the [`Deadline`]. Patterns charge the same
/// account, by its meter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    meter: Meter,
    deadline: Option<Deadline>,
    /// What was spent when the clock was last read, in units.
    spent_at_look: u64,
    /// What was scanned since then, which is free, in units.
    scanned: u64,
    late: bool,
}

impl Budget {
    pub(super) fn new(steps_max: usize) -> Self {
        Self { meter: Meter::new(units(steps_max as u64)), ..Self::default() }
    }

    /// Ends what follows at a time, or at none.
    pub(super) const fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
        self.late = false;
    }

    /// Gives room for as many steps again as the limit says, whatever was spent before, and for any time.
    pub(super) fn renew(&mut self, steps_max: usize) {
        self.meter.renew(units(steps_max as u64));
        self.deadline = None;
        self.late = false;
    }

    /// Whether the deadline has passed; reads the clock.
    pub(super) fn look(&mut self) -> bool {
        self.spent_at_look = self.meter.spent();
        self.scanned = 0;
        self.late |= self.deadline.as_ref().is_some_and(Deadline::has_passed);
        self.late
    }

    /// Reads the clock where enough was done since it was last read. Says whether the deadline has passed.
    fn look_in_time(&mut self) -> bool {
        let done = self.meter.spent().saturating_sub(self.spent_at_look);
        let is_due = done.saturating_add(self.scanned) >= units(STEPS_PER_LOOK);
        if self.deadline.is_some() && is_due { self.look() } else { self.late }
    }

    /// Takes note that `bytes` are about to be scanned, which is free but takes time. Says whether the deadline
    /// has passed.
    pub(super) fn scans(&mut self, bytes: usize) -> bool {
        self.scanned = self.scanned.saturating_add(bytes as u64);
        self.look_in_time()
    }

    /// Whether the deadline had passed when the clock was last read.
    pub(super) const fn is_late(&self) -> bool {
        self.late
    }

    /// Pays for one step and for `units` of bytes or instructions. Says whether there is something left.
    pub(super) fn charge(&mut self, units: usize) -> bool {
        self.charge_steps(1 + units as u64 / UNITS_PER_STEP)
    }

    /// Pays for steps that were counted before. Says whether there is something left.
    pub(super) fn charge_steps(&mut self, steps: u64) -> bool {
        self.meter.pay(units(steps));
        self.look_in_time();
        !self.is_spent()
    }

    /// Whether more was charged than there was, or the deadline has passed: no further rule may run.
    pub(super) const fn is_spent(&self) -> bool {
        self.late || self.meter.is_spent()
    }

    /// Steps charged so far.
    pub(super) const fn spent(&self) -> u64 {
        self.meter.spent() / UNITS_PER_STEP
    }

    /// The account for searches.
    pub(super) const fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// Takes back what was charged since `before`. Neither that a search gave up since then is forgotten, nor time.
    pub(super) const fn take_back(&mut self, before: Self) {
        self.meter.take_back(before.meter);
    }

    /// Takes back what was charged since `before`, and that a search gave up since then.
    pub(super) const fn forget_since(&mut self, before: Self) {
        self.meter = before.meter;
    }

    /// Whether a search by a pattern ended before its answer was known.
    pub(super) const fn gave_up(&self) -> bool {
        self.meter.gave_up()
    }
}

const fn units(steps: u64) -> u64 {
    steps.saturating_mul(UNITS_PER_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_up_to_the_limit() {
        for (charges, spent, left) in [
            (&[][..], 0, true),
            (&[0, 0, 0], 3, true),
            (&[63], 1, true),
            (&[64], 2, true),
            (&[64, 0], 3, true),
            (&[64, 0, 0], 4, false),
            (&[192], 4, false),
            (&[1 << 40, 1 << 40], 2 + (2 << 34), false),
        ] {
            let mut budget = Budget::new(3);
            let mut room = true;
            for &units in charges {
                room = budget.charge(units);
            }
            let seen = (budget.spent(), room, !budget.is_spent());
            assert_eq!(seen, (spent, left, left), "{charges:?}");
            budget.renew(1);
            assert_eq!([budget.charge(0), budget.charge(0)], [true, false], "{charges:?}");
        }
    }

    #[test]
    fn the_clock_is_read_after_so_much_work() {
        let passed = || Deadline::new(|| 7, 7);
        let mut budget = Budget::new(1 << 20);
        budget.set_deadline(Some(passed()));
        assert!(budget.charge_steps(STEPS_PER_LOOK - 1) && !budget.is_late());
        assert!(!budget.charge(0) && budget.is_late() && budget.is_spent());
        budget.renew(1);
        assert!(budget.charge(0) && !budget.look());

        let mut budget = Budget::new(1 << 20);
        budget.set_deadline(Some(passed()));
        let bytes = (STEPS_PER_LOOK * UNITS_PER_STEP) as usize;
        assert!(!budget.scans(bytes - 1) && budget.scans(1) && budget.is_spent());
        assert_eq!(budget.spent(), 0, "scans are free");

        let mut budget = Budget::new(1 << 20);
        budget.set_deadline(Some(Deadline::new(|| 7, 8)));
        assert!(!budget.look() && budget.charge_steps(1 << 20) && !budget.charge(0));
        assert!(!budget.is_late(), "the steps are spent, the time is not");
    }
}
