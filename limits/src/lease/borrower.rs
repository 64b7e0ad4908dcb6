//! The borrower: what one process knows of one key, and what it lets through.
//!
//! # Laws
//!
//! 1. What is let through was granted and has not expired, or is one of the unleased tokens.
//! 2. Unleased tokens are at most `unleased` at once and so many in a window, and are told to the
//!    lender with the next question.
//! 3. A lender that has refused is believed until it says otherwise, or until it is away.
//! 4. A clock that goes back makes nothing live longer: a lease that would is forgotten.

use super::{Answer, Ask, longest_lifetime_ns};
use crate::gcra::Gcra;
use crate::meter::Meter as _;
use crate::token_bucket::BucketError;

/// While a lender is away it is asked again after so long: 1 s.
pub const RETRY_NS: u64 = 1_000_000_000;

/// No question is believed to be under way for longer: 10 s.
pub const ASKED_NS_MAX: u64 = 10_000_000_000;

/// A key whose lender had less than was wanted asks again when there is less left than it uses in
/// this part of a lifetime: a question waits up to a tenth ([`Borrower::patience_ns`]) for others,
/// and its answer takes time as well.
const SHORT_PARTS_OF_A_LIFETIME: u32 = 7;

/// How a limit is borrowed. A small plain value; the state is [`Borrowed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrower {
    unleased: Gcra,
    /// A key that owes more than this of its unleased tokens is hot: with the next it owes half.
    hot_ns: u64,
    lifetime_ns: u64,
}

/// What a lender has said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Word {
    /// Nothing yet, or that there are tokens.
    #[default]
    None,
    /// That there are none.
    Refused,
    /// It did not answer.
    Away,
}

/// What a process knows of one key.
///
/// Its byte form ([`Borrowed::write`]) has a fixed length; any bytes of that length are a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Borrowed {
    /// Left of the lease.
    tokens: u32,
    /// What there was when it was last granted.
    granted: u32,
    expires_ns: u64,
    /// The theoretical arrival time of the unleased tokens.
    unleased_ns: u64,
    /// Spent without a lease, and not told yet.
    unreported: u32,
    /// Tokens that requests wanted since `since_ns`, whether they got them or not.
    demand: u32,
    since_ns: u64,
    /// What it would have been in a lifetime, at the last question.
    pace: u32,
    /// Not to be asked before.
    next_ns: u64,
    /// A question is under way until its answer, or until then.
    asked_until_ns: u64,
    /// Whether it has been put, or hurried, since; of no account where none is under way.
    hurried: bool,
    /// Whether the lease is less than was wanted.
    short: bool,
    word: Word,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// It passes.
    Allowed {
        /// Tokens that are left here; the fleet may have more.
        remaining: u32,
    },
    /// There are no tokens for it.
    Refused {
        /// When it is worth trying again.
        retry_after_ns: u64,
    },
    /// There is no lender, so a policy decides.
    Away,
}

/// Whether the lender should be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// There is no need to.
    None,
    /// Soon: with the next call.
    Soon,
    /// Now: requests are refused for want of tokens.
    Now,
}

impl Borrower {
    /// A borrower of a limit with windows of `window_ns`, of which each key may spend `unleased`
    /// tokens in each window, in this process, without a lease.
    ///
    /// # Errors
    ///
    /// If one of the two is zero.
    pub const fn new(unleased: u32, window_ns: u64) -> Result<Self, BucketError> {
        match Gcra::new(unleased, unleased, window_ns) {
            Ok(gcra) => {
                let half = unleased as u64 - unleased as u64 / 2;
                let hot_ns = (half - 1).saturating_mul(window_ns / unleased as u64);
                Ok(Self { unleased: gcra, hot_ns, lifetime_ns: longest_lifetime_ns(window_ns) })
            }
            Err(error) => Err(error),
        }
    }

    /// The longest lifetime of a lease.
    #[must_use]
    pub const fn lifetime_ns(&self) -> u64 {
        self.lifetime_ns
    }

    /// How long a question that is not urgent may wait for others to go with it.
    #[must_use]
    pub const fn patience_ns(&self) -> u64 {
        self.lifetime_ns / 10
    }

    /// Lets a request through that costs so many tokens, or not. After a wish other than
    /// [`Wish::None`] the caller asks, and no other request wishes for `asks_within_ns`.
    #[must_use]
    pub fn spend(
        &self,
        state: Borrowed,
        now_ns: u64,
        cost: u32,
        asks_within_ns: u64,
    ) -> (Borrowed, Spent, Wish) {
        let mut state = self.settled(state, now_ns);
        state.demand = state.demand.saturating_add(cost);
        let spent = self.spend_settled(&mut state, now_ns, cost);
        let wish = self.wish(&state, now_ns, spent);
        if wish != Wish::None {
            state.asked_until_ns = now_ns.saturating_add(asks_within_ns.min(ASKED_NS_MAX));
            state.hurried = wish == Wish::Now;
        }
        (state, spent, wish)
    }

    fn spend_settled(&self, state: &mut Borrowed, now_ns: u64, cost: u32) -> Spent {
        if let Some(left) = state.tokens.checked_sub(cost) {
            state.tokens = left;
            return Spent::Allowed { remaining: left };
        }
        match state.word {
            Word::Refused => {
                return Spent::Refused { retry_after_ns: state.next_ns.saturating_sub(now_ns) };
            }
            Word::Away => return Spent::Away,
            Word::None => {}
        }
        let (unleased_ns, decision) = self.unleased.take(state.unleased_ns, now_ns, cost);
        state.unleased_ns = unleased_ns;
        if !decision.allowed {
            return Spent::Refused {
                retry_after_ns: state.asked_until_ns.saturating_sub(now_ns).min(RETRY_NS),
            };
        }
        state.unreported = state.unreported.saturating_add(cost);
        Spent::Allowed { remaining: decision.remaining }
    }

    fn wish(&self, state: &Borrowed, now_ns: u64, spent: Spent) -> Wish {
        if now_ns < state.next_ns {
            return Wish::None;
        }
        // A lender that had less than was wanted, nothing, or no answer need not be hurried.
        let is_urgent =
            matches!(spent, Spent::Refused { .. }) && state.word == Word::None && !state.short;
        if now_ns < state.asked_until_ns {
            // What waits for others to go with it must not wait while requests are refused.
            return if is_urgent && !state.hurried { Wish::Now } else { Wish::None };
        }
        let is_hot = state.unleased_ns.saturating_sub(now_ns) > self.hot_ns;
        let is_low = state.tokens < low(state);
        match spent {
            Spent::Allowed { .. } if state.granted > 0 => {
                if is_low {
                    Wish::Soon
                } else {
                    Wish::None
                }
            }
            Spent::Allowed { .. } => {
                if is_hot {
                    Wish::Soon
                } else {
                    Wish::None
                }
            }
            Spent::Refused { .. } | Spent::Away => {
                if is_urgent {
                    Wish::Now
                } else {
                    Wish::Soon
                }
            }
        }
    }

    /// The question about this key, now; its answer is waited for until `until_ns`.
    ///
    /// Tokens that are more than the key needs are given back with it.
    #[must_use]
    pub fn ask(&self, state: Borrowed, now_ns: u64, until_ns: u64) -> (Borrowed, Ask) {
        let mut state = self.settled(state, now_ns);
        let want = self.want(&state, now_ns);
        let returned = match state.tokens.saturating_sub(want) {
            // A little more than is needed is not worth a write.
            surplus if surplus <= want / 4 => 0,
            surplus => surplus,
        };
        state.tokens -= returned;
        if self.is_measured(&state, now_ns) {
            (state.demand, state.since_ns) = (0, now_ns);
        }
        state.pace = want;
        state.asked_until_ns = until_ns.min(now_ns.saturating_add(ASKED_NS_MAX));
        state.hurried = true;
        (state, Ask { want, left: state.tokens, returned, spent: state.unreported })
    }

    /// What the key would use in one lifetime, and a quarter more; after too short a time to know,
    /// no less than was measured before.
    fn want(&self, state: &Borrowed, now_ns: u64) -> u32 {
        let elapsed_ns = now_ns.saturating_sub(state.since_ns).max(self.lifetime_ns / 8).max(1);
        let tokens = u128::from(state.demand) * u128::from(self.lifetime_ns) * 5;
        let want = u32::try_from(tokens.div_ceil(u128::from(elapsed_ns) * 4)).unwrap_or(u32::MAX);
        if self.is_measured(state, now_ns) { want } else { want.max(state.pace) }
    }

    /// Whether demand was counted for long enough to tell the pace of a key.
    const fn is_measured(&self, state: &Borrowed, now_ns: u64) -> bool {
        now_ns.saturating_sub(state.since_ns) >= self.lifetime_ns / 4
    }

    /// Takes the answer to a question that was put at `asked_ns`.
    #[must_use]
    pub fn answered(
        &self,
        state: Borrowed,
        now_ns: u64,
        asked_ns: u64,
        asked: &Ask,
        answer: &Answer,
    ) -> Borrowed {
        let mut state = self.settled(state, now_ns);
        state.asked_until_ns = 0;
        state.unreported = state.unreported.saturating_sub(asked.spent);
        if asked.want == 0 && answer.granted == 0 {
            // It was to say that the key is not used any more.
            (state.word, state.granted, state.next_ns) = (Word::None, state.tokens, 0);
            return state;
        }
        state.short = answer.granted.saturating_add(asked.left) < asked.want;
        let lifetime_ns = answer.lifetime_ns.min(self.lifetime_ns);
        let expires_ns = asked_ns.saturating_add(lifetime_ns);
        if answer.granted == 0 && asked.want <= asked.left {
            // There was nothing to grant: what is left lives on.
            (state.word, state.next_ns) = (Word::None, 0);
        } else if answer.granted == 0 {
            state.word = Word::Refused;
            let wait_ns = answer.retry_after_ns.min(self.lifetime_ns.max(RETRY_NS));
            state.next_ns = now_ns.saturating_add(wait_ns);
        } else if expires_ns > now_ns {
            state.word = Word::None;
            state.next_ns = 0;
            state.tokens = state.tokens.saturating_add(answer.granted);
        }
        if state.tokens > 0 {
            state.expires_ns = state.expires_ns.max(expires_ns);
        }
        state.granted = state.tokens;
        state
    }

    /// The lender did not answer, or not with anything of use.
    #[must_use]
    pub fn failed(&self, state: Borrowed, now_ns: u64) -> Borrowed {
        let state = self.settled(state, now_ns);
        let next_ns = now_ns.saturating_add(RETRY_NS);
        Borrowed { asked_until_ns: 0, word: Word::Away, next_ns, ..state }
    }

    /// The state as it stands now: what has expired is gone, and so is what a clock that was set
    /// would keep for too long.
    #[must_use]
    pub fn settled(&self, mut state: Borrowed, now_ns: u64) -> Borrowed {
        state.unleased_ns = self.unleased.settled(state.unleased_ns, now_ns);
        let ahead_ns = |time_ns: u64| time_ns.saturating_sub(now_ns);
        if ahead_ns(state.expires_ns) == 0 || ahead_ns(state.expires_ns) > self.lifetime_ns {
            (state.tokens, state.granted, state.expires_ns) = (0, 0, 0);
            state.short = false;
        }
        if ahead_ns(state.asked_until_ns) > ASKED_NS_MAX {
            state.asked_until_ns = 0;
        }
        if ahead_ns(state.next_ns) > self.lifetime_ns.max(RETRY_NS) {
            state.next_ns = 0;
        }
        if state.since_ns == 0 || state.since_ns > now_ns {
            state.since_ns = now_ns;
        }
        state
    }

    /// Whether a settled state says no more than its absence.
    #[must_use]
    pub fn is_blank(&self, state: &Borrowed, now_ns: u64) -> bool {
        let (unleased_ns, asked_ns) = (state.unleased_ns, state.asked_until_ns);
        state.tokens == 0 && unleased_ns.max(asked_ns).max(state.next_ns) <= now_ns
    }

    /// When the lease of a settled state should be renewed or given back; `None` if there is none.
    #[must_use]
    pub fn renewal_ns(&self, state: &Borrowed) -> Option<u64> {
        (state.tokens > 0).then(|| state.expires_ns.saturating_sub(self.lifetime_ns / 4))
    }
}

/// Below so many tokens more are asked for.
fn low(state: &Borrowed) -> u32 {
    let third = state.granted.div_ceil(3);
    if state.short { third.max(state.pace / SHORT_PARTS_OF_A_LIFETIME) } else { third }
}

impl Borrowed {
    /// The length of the byte form.
    pub const BYTES: usize = 61;

    /// What a newcomer takes over from whom it pushes out: what is owed, and nothing else.
    #[must_use]
    pub fn debt_alone(&self) -> Self {
        Self { unleased_ns: self.unleased_ns, ..Self::default() }
    }

    /// By what the state to be pushed out is chosen, the least first: one without a lease before
    /// one with, fewer tokens before more, less debt before more.
    #[must_use]
    pub const fn worth(&self) -> (u32, u64) {
        (self.tokens, self.unleased_ns)
    }

    /// Appends the byte form, [`Borrowed::BYTES`] long, little-endian.
    pub fn write(&self, out: &mut Vec<u8>) {
        for small in [self.tokens, self.granted, self.unreported, self.demand, self.pace] {
            out.extend_from_slice(&small.to_le_bytes());
        }
        let times =
            [self.expires_ns, self.unleased_ns, self.since_ns, self.next_ns, self.asked_until_ns];
        for time in times {
            out.extend_from_slice(&time.to_le_bytes());
        }
        let word = match self.word {
            Word::None => 0,
            Word::Refused => 1,
            Word::Away => 2,
        };
        out.push(word | u8::from(self.hurried) << 7 | u8::from(self.short) << 6);
    }

    /// Reads the byte form; `None` if there are not exactly [`Borrowed::BYTES`] bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (small, rest) = bytes.split_first_chunk::<20>()?;
        let (times, rest) = rest.split_first_chunk::<40>()?;
        let [word] = rest else { return None };
        let (small, []) = small.as_chunks::<4>() else { return None };
        let (times, []) = times.as_chunks::<8>() else { return None };
        let [tokens, granted, unreported, demand, pace] = *small else { return None };
        let [expires, unleased, since, next, asked] = *times else { return None };
        Some(Self {
            tokens: u32::from_le_bytes(tokens),
            granted: u32::from_le_bytes(granted),
            unreported: u32::from_le_bytes(unreported),
            demand: u32::from_le_bytes(demand),
            pace: u32::from_le_bytes(pace),
            expires_ns: u64::from_le_bytes(expires),
            unleased_ns: u64::from_le_bytes(unleased),
            since_ns: u64::from_le_bytes(since),
            next_ns: u64::from_le_bytes(next),
            asked_until_ns: u64::from_le_bytes(asked),
            hurried: word & 0x80 != 0,
            short: word & 0x40 != 0,
            word: match word & 0x3f {
                1 => Word::Refused,
                2 => Word::Away,
                _ => Word::None,
            },
        })
    }
}

#[cfg(test)]
mod tests;
