//! The desk of a borrower: what it is going to ask about, and when.
//!
//! Requests wish that the lender be asked, and each lease is looked at before it ends. A question
//! that is not urgent waits a little, so that others go with it: one call asks about many keys.
//! There is one call at a time. Memory is bounded: what finds no room is not asked about until a
//! request wishes for it again, and a lease that is not looked at expires.

use super::Key;
use super::borrower::Wish;
use std::collections::BTreeSet;

/// The most keys that one call asks about.
pub const ASKS_MAX: usize = 256;
/// The most wishes that wait for a call.
pub const WISHES_MAX: usize = 2_048;
/// The most leases that are looked at before they end.
pub const BOOKED_MAX: usize = 16_384;

/// A key of a limit, and where its state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The limit, by its place in the configuration.
    pub limit: usize,
    /// By which the process finds the key.
    pub fingerprint: u64,
    /// By which the lender does.
    pub key: Key,
}

/// What waits to be asked, and what is under way.
#[derive(Debug, Default)]
pub struct Desk {
    wishes: Vec<Slot>,
    /// Leases, by when they should be looked at.
    booked: BTreeSet<(u64, Slot)>,
    /// When the wishes are to be put.
    ready_ns: Option<u64>,
    /// No other call is made before its answer, or before that.
    calling_until_ns: u64,
}

impl Desk {
    /// Notes a wish of a request; one that is not urgent may wait for `patience_ns`.
    pub fn wish(&mut self, slot: Slot, wish: Wish, now_ns: u64, patience_ns: u64) {
        let ready_ns = match wish {
            Wish::None => return,
            Wish::Soon => now_ns.saturating_add(patience_ns),
            Wish::Now => now_ns,
        };
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push(slot);
            self.ready_ns = Some(self.ready_ns.map_or(ready_ns, |before| before.min(ready_ns)));
        }
    }

    /// Has a lease looked at when it is time to renew it or give it back.
    pub fn book(&mut self, slot: Slot, at_ns: u64) {
        if self.booked.len() < BOOKED_MAX {
            self.booked.insert((at_ns, slot));
        }
    }

    /// What to ask about now, with one call; nothing while a call is under way or nothing is due.
    ///
    /// The caller says with [`Desk::called`] that it has made a call.
    pub fn due(&mut self, now_ns: u64, patience_ns: u64) -> Vec<Slot> {
        let far_ns = now_ns.saturating_add(super::borrower::ASKED_NS_MAX);
        // A clock that was set back must not stop the questions.
        let calling = (now_ns..=far_ns).contains(&self.calling_until_ns);
        let first = self.booked.first().map(|(at_ns, _)| *at_ns);
        let wished = self.ready_ns.is_some_and(|at_ns| at_ns <= now_ns || at_ns > far_ns);
        if calling || !(wished || first.is_some_and(|at_ns| at_ns <= now_ns)) {
            return Vec::new();
        }
        let taken = self.wishes.len().min(ASKS_MAX);
        let mut slots: Vec<Slot> = self.wishes.drain(..taken).collect();
        self.ready_ns = (!self.wishes.is_empty()).then_some(now_ns);
        let soon_ns = now_ns.saturating_add(patience_ns);
        while slots.len() < ASKS_MAX
            && self.booked.first().is_some_and(|(at_ns, _)| *at_ns <= soon_ns)
        {
            slots.extend(self.booked.pop_first().map(|(_, slot)| slot));
        }
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// A call is under way; without an answer it is given up at `until_ns`.
    pub fn called(&mut self, until_ns: u64) {
        self.calling_until_ns = until_ns;
    }

    /// The call is over.
    pub fn answered(&mut self) {
        self.calling_until_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(fingerprint: u64) -> Slot {
        Slot { limit: 0, fingerprint, key: [0; 16] }
    }

    #[track_caller]
    fn check(desk: &mut Desk, now_ns: u64, expected: &[u64]) {
        let due: Vec<u64> = desk.due(now_ns, 100).iter().map(|slot| slot.fingerprint).collect();
        assert_eq!(due, expected, "at {now_ns}");
    }

    #[test]
    fn questions_wait_for_each_other() {
        let mut desk = Desk::default();
        check(&mut desk, 1_000, &[]);
        desk.wish(slot(1), Wish::Soon, 1_000, 100);
        desk.wish(slot(2), Wish::Soon, 1_050, 100);
        desk.wish(slot(9), Wish::None, 1_050, 100);
        check(&mut desk, 1_099, &[]);
        check(&mut desk, 1_100, &[1, 2]);
        check(&mut desk, 1_200, &[]);
        desk.wish(slot(3), Wish::Soon, 2_000, 100);
        desk.wish(slot(4), Wish::Now, 2_001, 100);
        desk.book(slot(5), 2_100);
        desk.book(slot(6), 2_200);
        desk.book(slot(3), 2_050);
        check(&mut desk, 2_001, &[3, 4, 5]);
        check(&mut desk, 2_199, &[]);
        check(&mut desk, 2_200, &[6]);
        // Leases that end a patience later go with the first.
        desk.book(slot(7), 3_000);
        desk.book(slot(8), 3_100);
        desk.book(slot(9), 3_101);
        check(&mut desk, 2_999, &[]);
        check(&mut desk, 3_000, &[7, 8]);
        check(&mut desk, 3_100, &[]);
        check(&mut desk, 3_101, &[9]);
    }

    #[test]
    fn one_call_at_a_time_and_not_for_ever() {
        let mut desk = Desk::default();
        desk.called(2_000);
        desk.wish(slot(1), Wish::Now, 1_000, 100);
        check(&mut desk, 1_999, &[]);
        check(&mut desk, 2_000, &[]);
        check(&mut desk, 2_001, &[1]);
        desk.called(9_000);
        desk.answered();
        desk.wish(slot(2), Wish::Now, 3_000, 100);
        check(&mut desk, 3_000, &[2]);
        // The clock is set back by more than any call takes.
        desk.called(u64::MAX / 2);
        desk.wish(slot(3), Wish::Soon, u64::MAX / 2, 100);
        check(&mut desk, 3_000, &[3]);
        // Ten seconds are not more, and a nanosecond on top of them is.
        let most_ns = 3_000 + super::super::borrower::ASKED_NS_MAX;
        desk.called(0);
        desk.wish(slot(4), Wish::Now, most_ns, 100);
        check(&mut desk, 3_000, &[]);
        check(&mut desk, 2_999, &[4]);
        desk.called(most_ns);
        desk.wish(slot(5), Wish::Now, 1_000, 100);
        check(&mut desk, 3_000, &[]);
        check(&mut desk, 2_999, &[5]);
    }

    #[test]
    fn there_is_room_for_so_much() {
        let mut desk = Desk::default();
        for i in 0..(2 * WISHES_MAX as u64) {
            desk.wish(slot(i), Wish::Now, 0, 0);
            desk.book(slot(i), 10 + i);
        }
        assert_eq!(desk.wishes.len(), WISHES_MAX);
        for _ in 0..(2 * BOOKED_MAX as u64) {
            desk.book(slot(7), 1);
        }
        let mut asked = 0;
        for _ in 0..1_000 {
            let due = desk.due(u64::MAX / 4, 0);
            assert!(due.len() <= ASKS_MAX);
            asked += due.len();
        }
        assert!((WISHES_MAX..=WISHES_MAX + BOOKED_MAX).contains(&asked), "{asked}");
        for i in 0..(2 * BOOKED_MAX as u64) {
            desk.book(slot(i), i);
        }
        assert_eq!(desk.booked.len(), BOOKED_MAX);
    }
}
