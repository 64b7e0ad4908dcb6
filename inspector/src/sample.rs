//! Which requests the rules run for.

/// A share of all requests, in percent. Everything else passes without inspection, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    percent: u8,
}

impl Default for Sample {
    /// All requests.
    fn default() -> Self {
        Self { percent: 100 }
    }
}

impl Sample {
    /// So many of a hundred requests; `None` for more than there are.
    #[must_use]
    pub const fn percent(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self { percent }) } else { None }
    }

    /// Whether a request that has drawn `lot`, a number from 0 to 99, is in it.
    #[must_use]
    pub const fn has(self, lot: u8) -> bool {
        lot < self.percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lots_win() {
        for percent in [0, 1, 50, 99, 100] {
            let sample = Sample::percent(percent).unwrap();
            let winners = (0..100).filter(|&lot| sample.has(lot)).count();
            assert_eq!(winners, usize::from(percent));
        }
        assert_eq!(Sample::percent(101), None);
        assert_eq!(Sample::default(), Sample::percent(100).unwrap());
    }
}
