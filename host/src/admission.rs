//! What all requests share, and what one client may hold of it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use glacis_inspector::Rejection;
use glacis_service::Client;

/// Parts of a pool that a client may always hold while the pool is not full: one of so many.
const LEAST_PART: usize = 256;

/// Something of which there is so much: body memory in bytes, requests that wait for their bodies, places in the queue
/// of evaluations.
///
/// A client may hold a percentage of what the others leave. One client alone never takes everything, and `n` clients
/// that take what they can leave something to the next: with 50 %, each has one part of `n + 1`. A client that holds
/// nothing may take what there is, so that a small pool still serves large bodies.
#[derive(Debug)]
pub struct Pool {
    max: usize,
    percent: usize,
    /// Why there is nothing left.
    full: Rejection,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// No entry for nothing: there are never more entries than shares that hold something.
    by_client: HashMap<Client, usize>,
}

impl Pool {
    /// `percent` is what a client may hold of what the others leave; 100 for all of it.
    #[must_use]
    pub fn new(max: usize, percent: u8, full: Rejection) -> Self {
        Self { max, percent: percent.min(100).into(), full, held: Mutex::default() }
    }

    /// How much is held now.
    pub fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `more` for a share that has `own`.
    fn take(&self, client: Option<Client>, own: usize, more: usize) -> Result<(), Rejection> {
        let mut held = self.lock();
        let all = held.all.checked_add(more).filter(|&all| all <= self.max).ok_or(self.full)?;
        if let Some(client) = client {
            let mine = held.by_client.get(&client).copied().unwrap_or_default();
            let wanted = mine.saturating_add(more);
            if mine > own && wanted > self.share(held.all - mine) {
                return Err(Rejection::ClientShare);
            }
            if wanted > 0 {
                held.by_client.insert(client, wanted);
            }
        }
        held.all = all;
        Ok(())
    }

    /// What a client may hold, when the others hold so much.
    fn share(&self, others: usize) -> usize {
        let left = self.max.saturating_sub(others);
        let share = left / 100 * self.percent + left % 100 * self.percent / 100;
        share.max(self.max / LEAST_PART).max(1)
    }

    fn give_back(&self, client: Option<Client>, amount: usize) {
        if amount == 0 {
            return;
        }
        let mut held = self.lock();
        held.all = held.all.saturating_sub(amount);
        if let Some(client) = client
            && let Some(mine) = held.by_client.get_mut(&client)
        {
            *mine = mine.saturating_sub(amount);
            if *mine == 0 {
                held.by_client.remove(&client);
            }
        }
    }
}

/// The part of a pool that one request has; it is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    pool: Arc<Pool>,
    /// Whose it is; `None` where clients are not known.
    client: Option<Client>,
    amount: usize,
}

impl Share {
    /// Nothing of it yet.
    #[must_use]
    pub const fn none(pool: Arc<Pool>, client: Option<Client>) -> Self {
        Self { pool, client, amount: 0 }
    }

    /// Makes it larger by `amount`.
    ///
    /// # Errors
    /// When there is not so much left, or not for this client: nothing changes.
    pub fn add(&mut self, amount: usize) -> Result<(), Rejection> {
        self.grow_to(self.amount.saturating_add(amount))
    }

    /// Makes it at least `amount`.
    ///
    /// # Errors
    /// When there is not so much left, or not for this client: nothing changes.
    pub fn grow_to(&mut self, amount: usize) -> Result<(), Rejection> {
        let more = amount.saturating_sub(self.amount);
        self.pool.take(self.client, self.amount, more)?;
        self.amount += more;
        Ok(())
    }

    /// Gives all of it back.
    pub fn release(&mut self) {
        self.pool.give_back(self.client, core::mem::take(&mut self.amount));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// Counts open streams up to twice `max`: those beyond `max` are answered with a rejection, and only those beyond twice
/// as many with an error.
#[derive(Debug)]
pub struct Streams {
    max: usize,
    open: AtomicUsize,
}

/// One open stream.
#[derive(Debug)]
pub struct OpenStream {
    streams: Arc<Streams>,
    /// Whether it is beyond `max`.
    pub is_surplus: bool,
}

impl Streams {
    /// At most `max` that are answered by a verdict.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { max, open: AtomicUsize::new(0) }
    }

    /// Opens a stream, unless there are twice as many as there may be.
    pub fn open(streams: &Arc<Self>) -> Option<OpenStream> {
        let before = streams.open.fetch_add(1, Ordering::Relaxed);
        let stream = OpenStream { streams: Arc::clone(streams), is_surplus: before >= streams.max };
        (before < streams.max.saturating_mul(2)).then_some(stream)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    const FULL: Result<(), Rejection> = Err(Rejection::BodyOverflow);
    const SHARE: Result<(), Rejection> = Err(Rejection::ClientShare);

    fn client(last: u8) -> Option<Client> {
        Some(IpAddr::from([192, 0, 2, last]).into())
    }

    fn pool(max: usize, percent: u8) -> Arc<Pool> {
        Arc::new(Pool::new(max, percent, Rejection::BodyOverflow))
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let pool = pool(100, 50);
        let mut one = Share::none(Arc::clone(&pool), None);
        let mut two = Share::none(Arc::clone(&pool), None);
        assert_eq!([one.grow_to(60), one.grow_to(50), two.grow_to(41)], [Ok(()), Ok(()), FULL]);
        assert_eq!(
            [two.grow_to(40), one.grow_to(61), two.grow_to(usize::MAX)],
            [Ok(()), FULL, FULL]
        );
        assert_eq!(pool.taken(), 100);
        drop(one);
        assert_eq!(two.add(60), Ok(()));
        two.release();
        assert_eq!((pool.taken(), two.grow_to(70)), (0, Ok(())));
        drop(two);
        assert_eq!(pool.taken(), 0);
    }

    /// How many requests of one unit each client holds, when they take turns until each has been rejected.
    fn greedy(clients: u8, max: usize, percent: u8) -> Vec<usize> {
        let pool = pool(max, percent);
        let mut held: Vec<Vec<Share>> = (0..clients).map(|_| Vec::new()).collect();
        let mut rejected = 0;
        while rejected < usize::from(clients) {
            rejected = 0;
            for (last, shares) in (0..).zip(&mut held) {
                let mut share = Share::none(Arc::clone(&pool), client(last));
                match share.add(1) {
                    Ok(()) => shares.push(share),
                    Err(_) => rejected += 1,
                }
            }
        }
        held.iter().map(Vec::len).collect()
    }

    #[test]
    fn clients_that_take_what_they_can_leave_something() {
        assert_eq!(greedy(1, 120, 50), [60]);
        assert_eq!(greedy(2, 120, 50), [40, 40]);
        assert_eq!(greedy(5, 120, 50), [20, 20, 20, 20, 20]);
        assert_eq!(greedy(1, 120, 25), [30]);
        assert_eq!(greedy(1, 120, 100), [120]);
        assert_eq!(greedy(3, 120, 100), [40, 40, 40]);
    }

    #[test]
    fn a_client_with_nothing_may_take_what_there_is() {
        let pool = pool(100, 50);
        let mut large = Share::none(Arc::clone(&pool), client(1));
        assert_eq!([large.grow_to(30), large.grow_to(90)], [Ok(()), Ok(())]);
        let mut small = Share::none(Arc::clone(&pool), client(1));
        assert_eq!(small.grow_to(1), SHARE);
        let mut other = Share::none(Arc::clone(&pool), client(2));
        assert_eq!([other.grow_to(11), other.grow_to(10)], [FULL, Ok(())]);
        drop((large, other));
        assert_eq!([small.grow_to(51), pool.take(client(1), 0, 1)], [Ok(()), SHARE]);
        drop(small);
        assert!(pool.lock().by_client.is_empty() && pool.taken() == 0);
    }

    #[test]
    fn every_client_may_hold_a_little() {
        let pool = pool(2_560, 50);
        let mut others = Share::none(Arc::clone(&pool), None);
        assert_eq!(others.grow_to(2_550), Ok(()));
        let shares = (0..11).map(|_| {
            let mut share = Share::none(Arc::clone(&pool), client(1));
            (share.add(1), share)
        });
        let shares: Vec<_> = shares.collect();
        assert_eq!(shares.iter().filter(|(taken, _)| taken.is_ok()).count(), 10);
    }

    #[test]
    fn streams_up_to_the_limit_and_beyond() {
        let streams = Arc::new(Streams::new(2));
        let open = || Streams::open(&streams);
        let held: Vec<_> = (0..5).map(|_| open()).collect();
        let seen: Vec<_> =
            held.iter().map(|stream| stream.as_ref().map(|stream| stream.is_surplus)).collect();
        assert_eq!(seen, [Some(false), Some(false), Some(true), Some(true), None]);
        drop(held);
        assert_eq!(open().map(|stream| stream.is_surplus), Some(false));
    }
}
