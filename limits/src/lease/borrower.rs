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
    /// Whether it has been put, or hurried, since.
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
        (state.asked_until_ns, state.hurried) = (0, false);
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
        Borrowed { asked_until_ns: 0, hurried: false, word: Word::Away, next_ns, ..state }
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
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;
    const MS_NS: u64 = 1_000_000;

    /// Four unleased tokens a minute; a lease lives six seconds at most.
    fn borrower() -> Borrower {
        Borrower::new(4, 60 * SECOND_NS).unwrap()
    }

    fn spend(state: &mut Borrowed, at_ms: u64) -> (Spent, Wish) {
        let now_ns = T0 + at_ms * MS_NS;
        let (next, spent, wish) = borrower().spend(*state, now_ns, 1, 500 * MS_NS);
        *state = next;
        (spent, wish)
    }

    fn ask(state: &mut Borrowed, at_ms: u64) -> Ask {
        let now_ns = T0 + at_ms * MS_NS;
        let (next, ask) = borrower().ask(*state, now_ns, now_ns + 500 * MS_NS);
        *state = next;
        ask
    }

    fn answer(state: &mut Borrowed, at_ms: u64, asked: &Ask, granted: u32, retry_ms: u64) {
        let answer =
            Answer { granted, lifetime_ns: 6 * SECOND_NS, retry_after_ns: retry_ms * MS_NS };
        let now_ns = T0 + at_ms * MS_NS;
        *state = borrower().answered(*state, now_ns, now_ns, asked, &answer);
    }

    const fn allowed(remaining: u32) -> Spent {
        Spent::Allowed { remaining }
    }

    const fn refused(after_ms: u64) -> Spent {
        Spent::Refused { retry_after_ns: after_ms * MS_NS }
    }

    #[test]
    fn only_a_hot_key_asks() {
        let mut state = Borrowed::default();
        assert_eq!(spend(&mut state, 0), (allowed(3), Wish::None));
        assert_eq!(spend(&mut state, 10), (allowed(2), Wish::Soon));
        // The question is under way; what is unleased bridges the time.
        assert_eq!(spend(&mut state, 20), (allowed(1), Wish::None));
        let mut burst = state;
        assert_eq!(spend(&mut burst, 21), (allowed(0), Wish::None));
        assert_eq!(spend(&mut burst, 22), (refused(488), Wish::Now), "it has waited enough");
        assert_eq!(spend(&mut burst, 23), (refused(499), Wish::None));
        let asked = ask(&mut state, 30);
        // Three in 30 ms, which is taken as an eighth of a lifetime, and a quarter more.
        assert_eq!(asked, Ask { want: 30, left: 0, returned: 0, spent: 3 });
        assert_eq!(spend(&mut state, 40), (allowed(0), Wish::None));
        assert_eq!(spend(&mut state, 41), (refused(489), Wish::None));
        answer(&mut state, 50, &asked, 30, 0);
        assert_eq!(spend(&mut state, 60), (allowed(29), Wish::None));
        // One that was spent meanwhile is told the next time.
        assert_eq!(ask(&mut state, 1_050).spent, 1);
    }

    /// A key with one request in twenty seconds costs the lender nothing, for ever.
    #[test]
    fn a_cold_key_never_asks() {
        let mut state = Borrowed::default();
        for i in 0..100 {
            let (spent, wish) = spend(&mut state, i * 20_000);
            assert!(matches!(spent, Spent::Allowed { .. }) && wish == Wish::None, "{i}");
        }
    }

    #[test]
    fn a_lease_is_spent_asked_for_and_expires() {
        let mut state = Borrowed::default();
        let asked = Ask { want: 9, ..Ask::default() };
        answer(&mut state, 0, &asked, 9, 0);
        for left in (3..9).rev() {
            assert_eq!(spend(&mut state, 100), (allowed(left), Wish::None));
        }
        assert_eq!(spend(&mut state, 100), (allowed(2), Wish::Soon), "less than a third");
        assert_eq!(spend(&mut state, 100), (allowed(1), Wish::None), "asked already");
        assert_eq!(spend(&mut state, 700), (allowed(0), Wish::Soon), "that was lost");
        assert_eq!(spend(&mut state, 5_999), (allowed(3), Wish::Soon), "unleased");
        let mut state = Borrowed::default();
        answer(&mut state, 0, &asked, 9, 0);
        assert_eq!(borrower().renewal_ns(&state), Some(T0 + 4_500 * MS_NS));
        assert_eq!(spend(&mut state, 5_999), (allowed(8), Wish::None));
        assert_eq!(spend(&mut state, 6_000), (allowed(3), Wish::None), "expired");
        // An answer that comes after its own end grants nothing.
        let mut late = Borrowed::default();
        let told = Answer { granted: 9, lifetime_ns: SECOND_NS, retry_after_ns: 0 };
        late = borrower().answered(late, T0 + SECOND_NS, T0, &asked, &told);
        assert_eq!(spend(&mut late, 1_000), (allowed(3), Wish::None));
    }

    #[test]
    fn what_is_not_used_is_given_back() {
        let mut state = Borrowed::default();
        let asked = Ask { want: 100, ..Ask::default() };
        answer(&mut state, 0, &asked, 100, 0);
        for _ in 0..8 {
            let _ = spend(&mut state, 100);
        }
        // Eight in four seconds of six: fifteen would do.
        assert_eq!(ask(&mut state, 4_000), Ask { want: 15, left: 15, returned: 77, spent: 0 });
        // Nothing since: all of it.
        answer(&mut state, 4_001, &Ask { want: 15, ..Ask::default() }, 1, 0);
        assert_eq!(ask(&mut state, 9_000), Ask { want: 0, left: 0, returned: 16, spent: 0 });
        answer(&mut state, 9_001, &Ask::default(), 0, 0);
        let settled = borrower().settled(state, T0 + 9_001 * MS_NS);
        assert!(borrower().is_blank(&settled, T0 + 9_001 * MS_NS), "{settled:?}");
    }

    #[test]
    fn a_refusal_holds_until_the_next_answer() {
        let mut state = Borrowed::default();
        let asked = Ask { want: 5, ..Ask::default() };
        answer(&mut state, 0, &asked, 0, 1_500);
        assert_eq!(spend(&mut state, 100), (refused(1_400), Wish::None));
        assert_eq!(spend(&mut state, 1_500), (refused(0), Wish::Soon));
        assert_eq!(spend(&mut state, 1_501), (refused(0), Wish::None));
        let asked = ask(&mut state, 1_510);
        assert!(asked.want > 0, "what was refused is wanted, too");
        answer(&mut state, 1_520, &asked, 2, 0);
        // Less than was wanted is soon gone, so more is asked for at once.
        assert_eq!(spend(&mut state, 1_530), (allowed(1), Wish::Soon));
        // No time that a lender names is too long to be mended.
        answer(&mut state, 1_540, &asked, 0, u64::MAX / MS_NS);
        assert_eq!(spend(&mut state, 1_550).0, allowed(0));
        assert_eq!(spend(&mut state, 1_550).0, refused(5_990));
    }

    #[test]
    fn without_a_lender_the_policy_decides() {
        let mut state = Borrowed::default();
        assert_eq!(spend(&mut state, 0).0, allowed(3));
        state = borrower().failed(state, T0 + MS_NS);
        assert_eq!(spend(&mut state, 2), (Spent::Away, Wish::None));
        assert_eq!(spend(&mut state, 1_001), (Spent::Away, Wish::Soon));
        assert_eq!(spend(&mut state, 1_002), (Spent::Away, Wish::None));
        // A lease that is there is spent first.
        let mut leased = Borrowed::default();
        answer(&mut leased, 0, &Ask { want: 1, ..Ask::default() }, 1, 0);
        leased = borrower().failed(leased, T0 + MS_NS);
        assert_eq!(spend(&mut leased, 2).0, allowed(0));
        assert_eq!(spend(&mut leased, 2).0, Spent::Away);
        // What was spent meanwhile is not forgotten.
        assert_eq!(ask(&mut state, 2_000).spent, 1);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nothing_alive() {
        let mut state = Borrowed::default();
        answer(&mut state, 100_000, &Ask { want: 9, ..Ask::default() }, 9, 0);
        let _ = spend(&mut state, 100_001);
        assert_eq!(spend(&mut state, 92_000), (allowed(2), Wish::Soon), "the lease is gone");
        let rest = [0xFF; Borrowed::BYTES];
        let hostile = Borrowed::read(&rest).unwrap();
        let (_, spent, _) = borrower().spend(hostile, T0, 1, 0);
        assert_eq!(spent, refused(0));
    }

    /// Any state is one, and is read as it was written.
    #[test]
    fn bytes_of_states() {
        let mut random = Xorshift::new(7);
        for _ in 0..1_000 {
            let bytes: Vec<u8> =
                (0..Borrowed::BYTES).map(|_| random.next().to_le_bytes()[1]).collect();
            let state = Borrowed::read(&bytes).unwrap();
            let mut written = Vec::new();
            state.write(&mut written);
            assert_eq!(Borrowed::read(&written), Some(state));
            for now_ns in [0, T0, u64::MAX] {
                let (next, ..) = borrower().spend(state, now_ns, 1 + random.next() as u32 / 2, 9);
                let (next, asked) = borrower().ask(next, now_ns, u64::MAX);
                let told =
                    Answer { granted: u32::MAX, lifetime_ns: u64::MAX, retry_after_ns: u64::MAX };
                let _ = borrower().answered(next, now_ns, now_ns, &asked, &told);
            }
        }
        assert_eq!(Borrowed::read(&[0; Borrowed::BYTES - 1]), None);
        assert_eq!(Borrowed::read(&[0; Borrowed::BYTES + 1]), None);
    }
}
