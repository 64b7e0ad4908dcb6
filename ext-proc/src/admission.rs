//! What is let in: how many bytes of bodies are held at once, and what was turned away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Bytes that are set aside for a body whose size is not announced; more when it turns out to be larger.
pub(crate) const UNANNOUNCED_BYTES: usize = 64 << 10;

/// The room for bodies, of all exchanges together.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    bytes_max: usize,
    taken: AtomicUsize,
}

impl BodyRoom {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, taken: AtomicUsize::new(0) }
    }

    /// Bytes that are set aside now.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they are there.
    fn take(&self, bytes: usize) -> bool {
        let add = |taken: usize| taken.checked_add(bytes).filter(|&taken| taken <= self.bytes_max);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

/// The part of the room that one exchange has; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<BodyRoom>,
    bytes: usize,
}

impl Share {
    pub(crate) const fn none(room: Arc<BodyRoom>) -> Self {
        Self { room, bytes: 0 }
    }

    /// Makes it `bytes` larger; `false` when there is no room.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        self.grow_to(self.bytes.saturating_add(bytes))
    }

    /// Makes it at least `bytes`; `false` when there is no room.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = self.room.take(more);
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        self.room.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// What was turned away since it was last asked for.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    streams: AtomicBool,
    evaluations: AtomicBool,
}

impl TurnedAway {
    pub(crate) fn stream(&self) {
        self.streams.store(true, Ordering::Relaxed);
    }

    pub(crate) fn evaluation(&self) {
        self.evaluations.store(true, Ordering::Relaxed);
    }

    /// What it was, in words, and begins anew.
    pub(crate) fn take(&self) -> Option<&'static str> {
        let streams = self.streams.swap(false, Ordering::Relaxed);
        let evaluations = self.evaluations.swap(false, Ordering::Relaxed);
        match (streams, evaluations) {
            (true, _) => Some("max_streams exchanges are under inspection"),
            (_, true) => Some("evaluations are late, or find no place in the queue"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_given_back() {
        let room = Arc::new(BodyRoom::new(100));
        let mut one = Share::none(Arc::clone(&room));
        let mut two = Share::none(Arc::clone(&room));
        assert!(one.grow_to(60) && one.grow_to(50) && !two.grow_to(41) && two.grow_to(40));
        assert!(!one.grow_to(61) && !two.grow_to(usize::MAX));
        assert_eq!(room.taken(), 100);
        drop(one);
        assert!(two.grow_to(100));
        two.release();
        assert!(room.taken() == 0 && two.grow_to(70));
        drop(two);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn what_was_turned_away_is_said_once() {
        let streams = Some("max_streams exchanges are under inspection");
        let evaluations = Some("evaluations are late, or find no place in the queue");
        let turned_away = TurnedAway::default();
        assert_eq!(turned_away.take(), None);
        for (stream, evaluation, expected) in
            [(true, false, streams), (false, true, evaluations), (true, true, streams)]
        {
            if stream {
                turned_away.stream();
            }
            if evaluation {
                turned_away.evaluation();
            }
            assert_eq!((turned_away.take(), turned_away.take()), (expected, None));
        }
    }
}
