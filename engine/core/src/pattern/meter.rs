//! The account of searches: what they may still do, what they have done, and whether one of them gave up.

/// Units in one step of a transaction's budget: bytes that are read, or instructions of a back-tracking pattern.
pub(crate) const UNITS_PER_STEP: u64 = 64;

/// More than this is not counted: an account that is spent can be renewed none the less.
const SPENT_MAX: u64 = u64::MAX / 2;

/// What searches may do together, in units.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    max: u64,
    spent: u64,
    gave_up: bool,
}

impl Meter {
    /// An account of so many units.
    pub(crate) const fn new(units_max: u64) -> Self {
        Self { max: units_max, spent: 0, gave_up: false }
    }

    /// An account for a search that no request has a part in, such as of rules while they are compiled.
    pub(crate) const fn at_compile_time() -> Self {
        Self::new(1 << 24)
    }

    /// Makes room for so many units more, whatever was spent before.
    pub(crate) const fn renew(&mut self, units_max: u64) {
        self.max = self.spent.saturating_add(units_max);
    }

    /// Pays for units that were used.
    pub(crate) const fn pay(&mut self, units: u64) {
        let spent = self.spent.saturating_add(units);
        self.spent = if spent < SPENT_MAX { spent } else { SPENT_MAX };
    }

    /// Whether more was spent than there was.
    pub(crate) const fn is_spent(&self) -> bool {
        self.spent > self.max
    }

    /// Units spent so far.
    pub(crate) const fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes back what was spent since `before`. That a search gave up since then is not forgotten.
    pub(crate) const fn take_back(&mut self, before: Self) {
        self.spent = before.spent;
    }

    /// The part of `units` that is left.
    pub(super) fn allowance(&self, units: usize) -> usize {
        let left = self.max.saturating_sub(self.spent).saturating_add(UNITS_PER_STEP);
        units.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Notes that a search ended before its answer was known.
    pub(super) const fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Whether a search ended before its answer was known.
    pub(crate) const fn gave_up(&self) -> bool {
        self.gave_up
    }
}
