//! The last refused requests, for the admin port: records as the audit log has them, with the same things
//! masked, in memory only.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of records that are kept, whatever their number: one record can be 512 KiB.
const BYTES_MAX: usize = 4 << 20;

/// The last refused requests.
#[derive(Debug)]
pub(crate) struct Recent {
    requests_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last one: they are counted from 1.
    last: u64,
    bytes: usize,
    records: VecDeque<Refused>,
}

/// A refused request.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) number: u64,
    /// A line of JSON.
    pub(crate) record: Arc<str>,
}

impl Recent {
    /// Room for so many.
    pub(crate) fn new(requests_max: usize) -> Self {
        Self { requests_max, kept: Mutex::default() }
    }

    /// Keeps a record, in the place of the oldest if there is no more room.
    pub(crate) fn push(&self, record: String) {
        if self.requests_max == 0 || record.len() > BYTES_MAX {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        kept.bytes += record.len();
        let number = kept.last;
        kept.records.push_back(Refused { number, record: record.into() });
        while kept.records.len() > self.requests_max || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.records.pop_front() else { return };
            kept.bytes = kept.bytes.saturating_sub(oldest.record.len());
        }
    }

    /// Those behind the number `after`, the oldest first. Whoever names one that has not been given yet has it from
    /// the process before this one, and knows none of them.
    pub(crate) fn after(&self, after: u64) -> Vec<Refused> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let after = if after > kept.last { 0 } else { after };
        kept.records.iter().filter(|refused| refused.number > after).cloned().collect()
    }

    /// The one of this number, if it is still there.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<str>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.records.iter().find(|refused| refused.number == number);
        found.map(|refused| Arc::clone(&refused.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(recent: &Recent, after: u64) -> Vec<u64> {
        recent.after(after).iter().map(|refused| refused.number).collect()
    }

    #[test]
    fn the_oldest_goes_first() {
        let recent = Recent::new(3);
        for text in ["a", "b", "c", "d"] {
            recent.push(text.to_owned());
        }
        assert_eq!((numbers(&recent, 0), numbers(&recent, 3)), (vec![2, 3, 4], vec![4]));
        assert_eq!((numbers(&recent, 4), numbers(&recent, 5)), (vec![], vec![2, 3, 4]));
        assert_eq!((recent.get(1), recent.get(4).as_deref()), (None, Some("d")));
        // Bytes are bounded as well, and what is larger than all of them is not kept.
        recent.push("e".repeat(BYTES_MAX));
        assert_eq!(numbers(&recent, 0), [5]);
        recent.push("f".repeat(BYTES_MAX + 1));
        recent.push("g".to_owned());
        assert_eq!(numbers(&recent, 0), [6]);
        let none = Recent::new(0);
        none.push("a".to_owned());
        assert!(numbers(&none, 0).is_empty());
    }
}
