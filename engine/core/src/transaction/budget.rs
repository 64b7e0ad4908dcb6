//! The deadline of a transaction, in steps of work instead of time: the engine reads no clock.
//!
//! A step is the running of a rule, the look at a value, or 64 bytes that an operator or a transformation
//! reads: a rule on a value of 1 KiB takes some 17 steps, and one more for each transformation's 64
//! bytes. Patterns matched by back-tracking pay for the instructions they run. What is not charged is
//! bounded by limits of its own: the parsing of bodies, macros, the fast path's scan of each value, and
//! what is learned of texts for later ([`crate::recall`]). A text that is recalled saves the steps of the rules
//! that are known not to match it, some hundreds: by so much a limit may be reached later.

/// Bytes that are read in one step, and instructions of a back-tracking pattern.
const UNITS_PER_STEP: u64 = 64;

/// What is left of [`crate::Limits::rule_steps_max`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    max: u64,
    spent: u64,
}

impl Budget {
    pub(super) fn new(steps_max: usize) -> Self {
        Self { max: steps_max as u64, spent: 0 }
    }

    /// Gives room for as many steps again as the limit says, whatever was spent before.
    pub(super) fn renew(&mut self, steps_max: usize) {
        self.max = self.spent.saturating_add(steps_max as u64);
    }

    /// Pays for one step and for `units` of bytes or instructions. Says whether there is something left.
    pub(super) fn charge(&mut self, units: usize) -> bool {
        self.charge_steps(1 + units as u64 / UNITS_PER_STEP)
    }

    /// Pays for steps that were counted before. Says whether there is something left.
    pub(super) fn charge_steps(&mut self, steps: u64) -> bool {
        self.spent = self.spent.saturating_add(steps);
        !self.is_spent()
    }

    /// Whether more was charged than there was: no further rule may run.
    pub(super) const fn is_spent(&self) -> bool {
        self.spent > self.max
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
}
