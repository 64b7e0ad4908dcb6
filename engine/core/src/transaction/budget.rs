//! What the rules of a transaction may take: steps of work, and time where a host sets a [`Deadline`].
//!
//! A step is the running of a rule, the look at a value, or 64 bytes that an operator or a transformation
//! reads: a rule on a value of 1 KiB takes some 17 steps, and one more for each transformation's 64
//! bytes. Patterns matched by back-tracking pay for the instructions they run. What is not charged is
//! bounded by limits of its own: the parsing of bodies, macros, and the fast path's scan of each value.
//!
//! A text of which something may be known from earlier transactions ([`crate::recall`]) has a fixed price, whether
//! something is known or not: the steps of a request do not depend on the requests before it.

/// Bytes that are read in one step, and instructions of a back-tracking pattern.
const UNITS_PER_STEP: u64 = 64;

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

/// What is left of [`crate::Limits::rule_steps_max`], and of the time until the [`Deadline`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    max: u64,
    spent: u64,
    deadline: Option<Deadline>,
    /// Work since the clock was last read, in steps, scans included.
    since_look: u64,
    late: bool,
}

impl Budget {
    pub(super) fn new(steps_max: usize) -> Self {
        Self { max: steps_max as u64, ..Self::default() }
    }

    /// Ends what follows at a time, or at none.
    pub(super) const fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
        self.late = false;
    }

    /// Gives room for as many steps again as the limit says, whatever was spent before, and for any time.
    pub(super) fn renew(&mut self, steps_max: usize) {
        self.max = self.spent.saturating_add(steps_max as u64);
        self.deadline = None;
        self.late = false;
    }

    /// Whether the deadline has passed; reads the clock.
    pub(super) fn look(&mut self) -> bool {
        self.since_look = 0;
        self.late |= self.deadline.as_ref().is_some_and(Deadline::has_passed);
        self.late
    }

    /// Counts work towards the next look at the clock. Says whether the deadline has passed.
    fn work(&mut self, steps: u64) -> bool {
        self.since_look = self.since_look.saturating_add(steps);
        if self.deadline.is_some() && self.since_look >= STEPS_PER_LOOK {
            self.look()
        } else {
            self.late
        }
    }

    /// Takes note that `bytes` are about to be scanned, which is free but takes time. Says whether the deadline
    /// has passed.
    pub(super) fn scans(&mut self, bytes: usize) -> bool {
        self.work(bytes as u64 / UNITS_PER_STEP)
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
        self.spent = self.spent.saturating_add(steps);
        self.work(steps);
        !self.is_spent()
    }

    /// Whether more was charged than there was, or the deadline has passed: no further rule may run.
    pub(super) const fn is_spent(&self) -> bool {
        self.late || self.spent > self.max
    }

    /// Steps charged so far.
    pub(super) const fn spent(&self) -> u64 {
        self.spent
    }
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
            (&[usize::MAX, usize::MAX], 1 << 59, false),
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
        assert!(!budget.scans(bytes - 1) && budget.scans(64) && budget.is_spent());
        assert_eq!(budget.spent(), 0, "scans are free");

        let mut budget = Budget::new(1 << 20);
        budget.set_deadline(Some(Deadline::new(|| 7, 8)));
        assert!(!budget.look() && budget.charge_steps(1 << 20) && !budget.charge(0));
        assert!(!budget.is_late(), "the steps are spent, the time is not");
    }
}
