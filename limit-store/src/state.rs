//! What is kept of one counter, and what an ask makes of it.

use crate::limit::{Arithmetic, Limit};
use crate::store::{Answer, Ask, DecidedBy, Return};
use glacis_limits::token_bucket::Decision;
use glacis_limits::window::WindowState;
use std::time::Duration;

const NS_PER_US: u64 = 1_000;
const US_PER_MS: u64 = 1_000;

/// Where one counter stands. The kind of limit is part of its name, so that no counter is read by
/// another; if it were, it would count as unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was never used.
    Unused,
    /// The theoretical arrival time of GCRA in nanoseconds since 1970.
    Arrival(u64),
    /// What a window has counted.
    Window(WindowState),
}

impl State {
    /// What an ask makes of it, and what is answered.
    pub(crate) fn take(self, ask: &Ask, now_us: u64) -> (Self, Answer) {
        let mut cost = ask.cost;
        if ask.partial {
            // Where nothing is left, the answer says when there is one.
            let (_, look) = self.decide(&ask.limit, now_us, 0);
            cost = cost.min(look.remaining.max(1));
        }
        let (state, decision) = self.decide(&ask.limit, now_us, cost);
        (state, answer(&ask.limit, cost, &decision))
    }

    /// What is answered when nothing is taken, though this limit would allow it.
    pub(crate) fn look(self, limit: &Limit, now_us: u64) -> (Self, Answer) {
        let (state, decision) = self.decide(limit, now_us, 0);
        (state, answer(limit, 0, &decision))
    }

    /// What a return makes of it.
    pub(crate) fn give_back(self, given: &Return, now_us: u64) -> Self {
        let (now_ms, tokens) = (now_us / US_PER_MS, given.tokens);
        let age_ms = u64::try_from(given.age.as_millis()).unwrap_or(u64::MAX);
        match &given.limit.arithmetic {
            Arithmetic::Gcra(gcra) => {
                Self::Arrival(gcra.give_back(self.arrival_ns(), ns(now_us), tokens))
            }
            Arithmetic::Sliding(window) => {
                Self::Window(window.give_back(self.window(), now_ms, tokens, age_ms))
            }
            Arithmetic::Fixed(window) => {
                Self::Window(window.give_back(self.window(), now_ms, tokens, age_ms))
            }
        }
    }

    /// Whether it says no more than one that was never used.
    pub(crate) const fn is_whole(self, now_us: u64) -> bool {
        match self {
            Self::Unused => true,
            Self::Arrival(arrival_ns) => arrival_ns <= ns(now_us),
            Self::Window(state) => state.current == 0 && state.previous == 0,
        }
    }

    fn decide(self, limit: &Limit, now_us: u64, cost: u32) -> (Self, Decision) {
        let now_ms = now_us / US_PER_MS;
        match &limit.arithmetic {
            Arithmetic::Gcra(gcra) => {
                let (arrival_ns, decision) = gcra.take(self.arrival_ns(), ns(now_us), cost);
                (Self::Arrival(arrival_ns), decision)
            }
            Arithmetic::Sliding(window) => {
                let (state, decision) = window.take(self.window(), now_ms, cost);
                (Self::Window(state), decision)
            }
            Arithmetic::Fixed(window) => {
                let (state, decision) = window.take(self.window(), now_ms, cost);
                (Self::Window(state), decision)
            }
        }
    }

    const fn arrival_ns(self) -> u64 {
        match self {
            Self::Arrival(ns) => ns,
            Self::Unused | Self::Window(_) => 0,
        }
    }

    const fn window(self) -> WindowState {
        match self {
            Self::Window(state) => state,
            Self::Unused | Self::Arrival(_) => WindowState::EMPTY,
        }
    }
}

/// An answer in the words of callers.
fn answer(limit: &Limit, cost: u32, decision: &Decision) -> Answer {
    let retry_after = match decision.retry_after_ns {
        u64::MAX => Duration::MAX,
        ns => Duration::from_nanos(ns),
    };
    Answer {
        allowed: decision.allowed,
        taken: if decision.allowed { cost } else { 0 },
        remaining: decision.remaining,
        retry_after,
        reset_after: Duration::from_nanos(decision.reset_ns),
        limit: limit.burst(),
        decided_by: DecidedBy::Store,
    }
}

const fn ns(us: u64) -> u64 {
    us.saturating_mul(NS_PER_US)
}
