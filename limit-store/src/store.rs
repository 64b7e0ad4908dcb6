//! What a store is asked, and what it answers.

use crate::key::Key;
use crate::limit::Limit;
use std::fmt::{self, Debug};
use std::pin::Pin;
use std::time::Duration;

/// The most asks, or returns, in one call; see [`StoreError::TooMany`].
pub const ASKS_MAX: usize = 64;

/// An ask for tokens of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whose counter. Limits of different kinds or periods have counters of their own under one
    /// key.
    pub key: Key,
    /// What is allowed.
    pub limit: Limit,
    /// How many tokens; 0 only looks.
    pub cost: u32,
    /// Whether fewer will do where `cost` are not there, but at least one. This is how a lender of
    /// tokens asks.
    pub partial: bool,
    /// What is answered when the store is not there. Only [`Guarded`](crate::Guarded) looks at it.
    pub on_store_failure: OnStoreFailure,
}

impl Ask {
    /// An ask for all of `cost`, which an approximate limit in memory answers when the store is
    /// away.
    #[must_use]
    pub const fn new(key: Key, limit: Limit, cost: u32) -> Self {
        Self { key, limit, cost, partial: false, on_store_failure: OnStoreFailure::Local }
    }
}

/// What becomes of an ask when the store is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// It is allowed: a limit is not worth an outage.
    Allow,
    /// It is refused: better nothing than too much.
    Deny,
    /// This process counts alone, with its share of the limit.
    #[default]
    Local,
}

/// How several asks of one call belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Tokens are taken only if every ask is allowed; a request that one limit refuses costs the
    /// others nothing. An answer then still says what its own limit alone says.
    AllOrNothing,
    /// Each ask is decided, and counted, on its own.
    EachForItself,
}

/// Tokens that were taken and not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Whose counter.
    pub key: Key,
    /// The limit under which they were taken.
    pub limit: Limit,
    /// How many.
    pub tokens: u32,
    /// How long ago they were taken. A window in which they no longer count gets nothing back.
    pub age: Duration,
}

/// What came of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether this limit allows it.
    pub allowed: bool,
    /// How many tokens were taken: none if it was refused, or if another ask was and it was all or
    /// nothing; fewer than asked for if that was enough.
    pub taken: u32,
    /// Whole tokens left.
    pub remaining: u32,
    /// Until the same cost would be allowed, if nobody else is faster: 0 if it was,
    /// [`Duration::MAX`] if it never will be.
    pub retry_after: Duration,
    /// Until the counter is as if unused, if nothing else is taken.
    pub reset_after: Duration,
    /// The most at once: the burst, or the amount of a window.
    pub limit: u32,
    /// Who has decided.
    pub decided_by: DecidedBy,
}

/// Who has decided on an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecidedBy {
    /// The store.
    Store,
    /// Nobody: the store was not there, and [`OnStoreFailure`] says what then.
    StoreFailure(OnStoreFailure),
    /// An [`OverLimitCache`](crate::OverLimitCache), which knows that the store refuses it.
    OverLimitCache,
    /// Nobody: another ask of an all-or-nothing call is known to be refused. The answer says nothing of this limit.
    NotAsked,
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// More than [`ASKS_MAX`] in one call; the caller is to blame.
    TooMany,
    /// There is no connection, or there was one until now.
    Unavailable,
    /// No answer within the deadline. Tokens may have been taken.
    Late,
    /// Too many others were asking.
    Crowded,
    /// The store has answered with an error, whose first word this is (`LOADING`, `OOM`,
    /// `READONLY`, …).
    Refused(String),
    /// The store has answered what nobody understands.
    Unreadable,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "more than {ASKS_MAX} limits in one call"),
            Self::Unavailable => f.write_str("there is no connection to the store"),
            Self::Late => f.write_str("the store did not answer in time"),
            Self::Crowded => f.write_str("too many requests to the store at once"),
            Self::Refused(code) => write!(f, "the store answers {code}"),
            Self::Unreadable => f.write_str("the store's answer is not one of ours"),
        }
    }
}

impl std::error::Error for StoreError {}

/// An answer of a [`Store`] to come. Dropping it does not undo what may have been sent.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where counters are kept.
pub trait Store: Debug + Send + Sync {
    /// Takes tokens: one answer for each ask, in their order, in one round trip. Asks of one
    /// counter see each other, in their order.
    ///
    /// # Errors
    ///
    /// If there are more than [`ASKS_MAX`], or if the store did not answer.
    fn take<'a>(&'a self, asks: &'a [Ask], taking: Taking) -> Pending<'a, Vec<Answer>>;

    /// Gives tokens back.
    ///
    /// # Errors
    ///
    /// If there are more than [`ASKS_MAX`], or if the store did not answer.
    fn give_back<'a>(&'a self, returns: &'a [Return]) -> Pending<'a, ()>;
}
