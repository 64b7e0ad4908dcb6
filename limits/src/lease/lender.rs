//! The lender: who holds how much of which key, and how much more it may have.
//!
//! Tokens are taken from the limit itself before they are lent, so a lender cannot lend what is
//! not there. What it adds is the bound on what is lent at a time, and fairness.
//!
//! # Fairness
//!
//! No borrower of a key gets more than the *level* of the key: the height up to which all wishes
//! can be met from what may be outstanding (max-min fairness: who wants less than an equal share
//! gets all of it, and the rest is shared among the others). It is worked out anew four times in a
//! lifetime. Where the limit itself runs dry, nobody gets more than the level in each lifetime,
//! however often it asks. And since a limit never has more tokens at a time than its burst, nobody
//! gets more than an equal part of that with one answer.
//!
//! # Memory
//!
//! An entry leaves only when it has expired, so nothing that is asked can push out another's
//! lease. There are limits on keys, on leases, and on the leases of one borrower; what finds no
//! room is refused for a lifetime, and counted.

use super::{Answer, Ask, Key, Terms};
use std::collections::BTreeMap;

/// How many parts of a lifetime a level is good for.
const LEVELS_IN_A_LIFETIME: u64 = 4;

/// How often in a lifetime a borrower may ask that finds the limit dry. Where the burst is small, whoever asks first
/// gets all of it, and the others must not wait for long: the limit gains their share meanwhile.
const RETRIES_IN_A_LIFETIME: u64 = 16;

/// How much a lender keeps in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Keys of which something is lent, or owed.
    pub keys_max: usize,
    /// Leases, of all keys together.
    pub leases_max: usize,
    /// Leases of one borrower.
    pub leases_per_borrower_max: usize,
}

impl Default for Room {
    /// For each limit: 65 536 keys and 1 048 576 leases (some 60 MB when full), 16 384 of them of
    /// one borrower.
    fn default() -> Self {
        Self { keys_max: 65_536, leases_max: 1 << 20, leases_per_borrower_max: 16_384 }
    }
}

/// The lender of one limit.
#[derive(Debug)]
pub struct Lender {
    terms: Terms,
    room: Room,
    accounts: BTreeMap<Key, Account>,
    /// How many leases each borrower has, and how many there are.
    borrowers: BTreeMap<u64, usize>,
    leases: usize,
    swept_ns: u64,
    full: u64,
}

/// What is known of one key.
#[derive(Debug, Default)]
struct Account {
    leases: BTreeMap<u64, Lease>,
    /// The sum of what the leases hold.
    held: u64,
    /// Spent without a lease, and not collected from the limit yet.
    owed: u32,
    level: u32,
    levelled_ns: u64,
    touched_ns: u64,
    /// Until then the limit is taken to be dry.
    dry_until_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    held: u32,
    want: u32,
    expires_ns: u64,
    /// What it has been granted, less a level for each lifetime that has gone by until `since_ns`.
    granted: u32,
    since_ns: u64,
}

/// What to take from the limit for an [`Ask`]. It is reserved until [`Lender::settle`] is told how
/// much of it there was.
#[derive(Debug)]
#[must_use = "what is offered stays reserved until it is settled"]
pub struct Offer {
    key: Key,
    borrower: u64,
    owed: u32,
    tokens: u32,
    is_full: bool,
}

impl Offer {
    /// How many tokens to take from the limit, or as many of them as there are.
    #[must_use]
    pub const fn take(&self) -> u32 {
        self.owed.saturating_add(self.tokens)
    }

    /// Whether there was no room for the lease.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }
}

impl Lender {
    /// A lender that has not lent anything yet.
    #[must_use]
    pub const fn new(terms: Terms, room: Room) -> Self {
        Self {
            terms,
            room,
            accounts: BTreeMap::new(),
            borrowers: BTreeMap::new(),
            leases: 0,
            swept_ns: 0,
            full: 0,
        }
    }

    /// How many leases there are, expired ones that nobody has looked at since among them.
    #[must_use]
    pub const fn leases(&self) -> usize {
        self.leases
    }

    /// How many questions found no room.
    #[must_use]
    pub const fn full(&self) -> u64 {
        self.full
    }

    /// What all leases of a key hold, at most.
    #[cfg(test)]
    pub(super) fn outstanding(&self, key: &Key) -> u64 {
        self.accounts.get(key).map_or(0, |account| account.held)
    }

    /// What to take from the limit for a borrower, apart from what it returns.
    pub fn offer(&mut self, key: Key, borrower: u64, ask: &Ask, now_ns: u64) -> Offer {
        if !self.has_room(&key, borrower, now_ns) {
            self.full += 1;
            // Without a lease, but what was spent is collected all the same.
            let owed = ask.spent.min(self.terms.tokens);
            return Offer { key, borrower, owed, tokens: 0, is_full: true };
        }
        let terms = self.terms;
        let account = self.accounts.entry(key).or_default();
        let gone = account.level_at(&terms, now_ns);
        account.touched_ns = now_ns;
        account.owed = account.owed.saturating_add(ask.spent).min(terms.tokens);
        let owed = std::mem::take(&mut account.owed);
        let (tokens, change) = account.reserve(borrower, ask, &terms, now_ns);
        for borrower in gone {
            self.left(borrower);
        }
        match change {
            Change::None => {}
            Change::Opened => {
                self.leases += 1;
                *self.borrowers.entry(borrower).or_default() += 1;
            }
            Change::Closed => self.left(borrower),
        }
        Offer { key, borrower, owed, tokens, is_full: false }
    }

    /// What to say to the borrower, of the `taken` tokens that the limit had.
    #[expect(clippy::needless_pass_by_value, reason = "an offer is settled once")]
    pub fn settle(&mut self, offer: Offer, taken: u32, now_ns: u64) -> Answer {
        let lifetime_ns = self.terms.lifetime_ns();
        let granted = taken.saturating_sub(offer.owed).min(offer.tokens);
        if let Some(account) = self.accounts.get_mut(&offer.key) {
            account.settle(&offer, taken, granted, now_ns, lifetime_ns);
        }
        // Those that were refused together shall not all come back together.
        let retry_ns = lifetime_ns / RETRIES_IN_A_LIFETIME;
        let spread_ns = (offer.borrower ^ now_ns) % (retry_ns / 2).max(1);
        let retry_after_ns = match (granted, offer.is_full) {
            (_, true) => lifetime_ns,
            (0, false) => retry_ns + spread_ns,
            _ => 0,
        };
        Answer { granted, lifetime_ns, retry_after_ns }
    }

    /// Nobody knows what the limit has: nothing was taken, and nothing is reserved any more.
    #[expect(clippy::needless_pass_by_value, reason = "an offer is settled once")]
    pub fn give_up(&mut self, offer: Offer) {
        if let Some(account) = self.accounts.get_mut(&offer.key) {
            let dry_until_ns = account.dry_until_ns;
            account.settle(&offer, 0, 0, 0, 0);
            account.dry_until_ns = dry_until_ns;
        }
    }

    fn has_room(&mut self, key: &Key, borrower: u64, now_ns: u64) -> bool {
        let account = self.accounts.get(key);
        if account.is_some_and(|account| account.leases.contains_key(&borrower)) {
            return true;
        }
        let (is_new, room) = (account.is_none(), self.room);
        let has_room = |lender: &Self| {
            let own = lender.borrowers.get(&borrower).copied().unwrap_or(0);
            !(is_new && lender.accounts.len() >= room.keys_max)
                && lender.leases < room.leases_max
                && own < room.leases_per_borrower_max
        };
        has_room(self) || self.swept(now_ns) && has_room(self)
    }

    /// Forgets all that has expired; not more often than four times in a lifetime, since it goes
    /// through everything.
    fn swept(&mut self, now_ns: u64) -> bool {
        let pause_ns = self.terms.lifetime_ns() / LEVELS_IN_A_LIFETIME;
        if now_ns >= self.swept_ns && now_ns - self.swept_ns < pause_ns {
            return false;
        }
        self.swept_ns = now_ns;
        let terms = self.terms;
        let mut gone = Vec::new();
        self.accounts.retain(|_, account| {
            gone.extend(account.expire(&terms, now_ns));
            !account.is_blank(&terms, now_ns)
        });
        for borrower in gone {
            self.left(borrower);
        }
        true
    }

    fn left(&mut self, borrower: u64) {
        self.leases = self.leases.saturating_sub(1);
        if let Some(own) = self.borrowers.get_mut(&borrower) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.borrowers.remove(&borrower);
            }
        }
    }
}

enum Change {
    None,
    Opened,
    Closed,
}

impl Account {
    /// Nothing is lent, and what is owed is a window old: the limit has gained as much since.
    fn is_blank(&self, terms: &Terms, now_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.touched_ns);
        self.leases.is_empty() && (self.owed == 0 || age_ns >= terms.window_ns)
    }

    /// Removes leases that have expired, and says whose they were. Their tokens have been taken
    /// from the limit and are not given back.
    fn expire(&mut self, terms: &Terms, now_ns: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        self.leases.retain(|borrower, lease| {
            // A clock that was set back makes nothing live longer.
            let lives = lease.expires_ns > now_ns
                && lease.expires_ns - now_ns <= terms.lifetime_ns.saturating_mul(2);
            if !lives {
                gone.push(*borrower);
            }
            lives
        });
        if !gone.is_empty() {
            self.held = self.leases.values().map(|lease| u64::from(lease.held)).sum();
        }
        gone
    }

    /// Works out the level anew, if it is time for that; says whose leases have expired.
    fn level_at(&mut self, terms: &Terms, now_ns: u64) -> Vec<u64> {
        let good_ns = terms.lifetime_ns / LEVELS_IN_A_LIFETIME;
        let is_good = now_ns >= self.levelled_ns && now_ns - self.levelled_ns < good_ns;
        if is_good {
            return Vec::new();
        }
        let gone = self.expire(terms, now_ns);
        let mut wants: Vec<u32> = self.leases.values().map(|lease| lease.want).collect();
        self.level = level(&mut wants, terms.outstanding_max);
        self.levelled_ns = now_ns;
        gone
    }

    /// Notes what a borrower holds and wants, and reserves what it may have on top.
    fn reserve(&mut self, borrower: u64, ask: &Ask, terms: &Terms, now_ns: u64) -> (u32, Change) {
        let before = self.leases.remove(&borrower);
        let mut lease = before.unwrap_or(Lease {
            held: 0,
            want: 0,
            expires_ns: 0,
            granted: 0,
            since_ns: now_ns,
        });
        self.held = self.held.saturating_sub(u64::from(lease.held));
        if ask.want == 0 && ask.left == 0 {
            return (0, if before.is_some() { Change::Closed } else { Change::None });
        }
        lease.forget_grants(self.level, terms.lifetime_ns, now_ns);
        let left = ask.left.min(terms.outstanding_max);
        let tokens = self.allowance(&lease, ask.want, left, terms, now_ns);
        lease.held = left.saturating_add(tokens);
        lease.want = ask.want;
        lease.expires_ns = now_ns.saturating_add(terms.lifetime_ns);
        self.held = self.held.saturating_add(u64::from(lease.held));
        self.leases.insert(borrower, lease);
        (tokens, if before.is_some() { Change::None } else { Change::Opened })
    }

    /// How many tokens a borrower may have on top of what is left to it; the others hold
    /// `self.held`.
    fn allowance(
        &mut self,
        lease: &Lease,
        want: u32,
        left: u32,
        terms: &Terms,
        now_ns: u64,
    ) -> u32 {
        let free = u64::from(terms.outstanding_max).saturating_sub(self.held);
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        let is_dry = self.dry_until_ns > now_ns && self.dry_until_ns - now_ns <= terms.lifetime_ns;
        let part = self.part_of_the_burst(terms, left, is_dry);
        let tokens = want.min(self.level).min(free).saturating_sub(left).min(part);
        let share = self.level.saturating_sub(lease.granted);
        if !is_dry || tokens <= share {
            return tokens;
        }
        // As long as shares hold somebody back there is less than is wanted.
        self.dry_until_ns = now_ns.saturating_add(terms.lifetime_ns);
        share
    }

    /// How many tokens one borrower may have at once, beside the others: where the burst is small,
    /// whoever asks first would have all of it. Who still has some gets less while there are not
    /// enough, and leaves the rest to those who have none.
    fn part_of_the_burst(&self, terms: &Terms, left: u32, is_dry: bool) -> u32 {
        let borrowers = u32::try_from(self.leases.len() + 1).unwrap_or(u32::MAX);
        let part = terms.burst / borrowers;
        let spared = if is_dry { left / 4 } else { 0 };
        part.saturating_sub(spared).max(1)
    }

    fn settle(&mut self, offer: &Offer, taken: u32, granted: u32, now_ns: u64, lifetime_ns: u64) {
        self.owed = self.owed.saturating_add(offer.owed.saturating_sub(taken));
        let missing = offer.tokens - granted;
        if missing > 0 {
            self.dry_until_ns = now_ns.saturating_add(lifetime_ns);
        }
        if let Some(lease) = self.leases.get_mut(&offer.borrower) {
            lease.granted = lease.granted.saturating_add(granted);
            let unused = missing.min(lease.held);
            lease.held -= unused;
            self.held = self.held.saturating_sub(u64::from(unused));
        }
    }
}

impl Lease {
    /// What was granted is forgotten evenly, a level in a lifetime.
    fn forget_grants(&mut self, level: u32, lifetime_ns: u64, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns).min(lifetime_ns);
        let forgotten = u128::from(level) * u128::from(elapsed_ns) / u128::from(lifetime_ns);
        let forgotten = u32::try_from(forgotten).unwrap_or(u32::MAX);
        if forgotten >= self.granted || self.since_ns > now_ns {
            (self.granted, self.since_ns) = (0, now_ns);
        } else if forgotten > 0 {
            self.granted -= forgotten;
            // The time of a part of a token is not lost.
            let used_ns = u128::from(forgotten) * u128::from(lifetime_ns) / u128::from(level);
            let used_ns = u64::try_from(used_ns).unwrap_or(elapsed_ns);
            self.since_ns = self.since_ns.saturating_add(used_ns);
        }
    }
}

/// The height up to which all wishes can be met from `supply`; at least one token, and no height
/// at all if every wish can be met. Sorts the wishes.
fn level(wants: &mut [u32], supply: u32) -> u32 {
    wants.sort_unstable();
    let mut left = u64::from(supply);
    for (i, want) in wants.iter().enumerate() {
        let share = left / (wants.len() - i) as u64;
        if u64::from(*want) > share {
            return u32::try_from(share).unwrap_or(u32::MAX).max(1);
        }
        left -= u64::from(*want);
    }
    u32::MAX
}

#[cfg(test)]
mod tests;
