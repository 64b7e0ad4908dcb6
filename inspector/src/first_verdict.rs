//! The first verdict: what can be said of a request from its head alone, so that a clean one need not be
//! inspected again.
//!
//! The law: what is [`First::Clean`] is let through by an inspector with the same rules, scores zero there and
//! matches no rule that logs. It holds since the same program sees the same request, and since whatever it
//! would have to ask somebody else about makes the request [`First::Suspect`].

mod bundle;

use core::cell::Cell;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{
    Change, Collection, CollectionStore, Deadline, Flags, Geo, Lookup, Program, Scores, Variable,
};

use crate::{Decision, Inspector, RequestHead, Settings};
pub use bundle::{BundleError, RuleBundle};

/// What the head of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// There is no body, no rule that logs has matched, and the score is zero.
    Clean,
    /// The same as far as the head goes, but something follows it: a body, a tunnel, a WebSocket.
    Body,
    /// Anything else.
    Suspect,
}

impl First {
    /// `clean`, `body` or `suspect`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Body => "body",
            Self::Suspect => "suspect",
        }
    }
}

/// Gives first verdicts, one after the other. It keeps its memory between requests.
#[derive(Debug)]
pub struct FirstVerdict {
    inspector: Inspector,
    elsewhere: Arc<Elsewhere>,
}

/// Bytes of names and values of the header fields that rules are run on. A longer head is [`First::Suspect`]: it is
/// rare, and may take milliseconds.
pub const FIRST_VERDICT_HEAD_BYTES_MAX: usize = 8 << 10;

/// How often the engine may read its clock, which it does at the beginning of a phase and after every 2,048 steps of
/// rules: at most 32,768 steps.
const LOOKS_MAX: u64 = 16;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that counts how often it is read. It bounds the work for a head, whatever else the machine does, and
/// however slow code is that runs for the first time.
fn look() -> u64 {
    LOOKS.set(LOOKS.get() + 1);
    LOOKS.get()
}

impl FirstVerdict {
    /// First verdicts by these rules. `trusted_hops` as in [`Settings`].
    #[must_use]
    pub fn new(program: Arc<Program>, trusted_hops: usize) -> Self {
        let elsewhere = Arc::<Elsewhere>::default();
        let settings = Settings {
            trusted_hops,
            lookup: Some(Arc::clone(&elsewhere) as Arc<dyn Lookup>),
            collections: Some(Arc::clone(&elsewhere) as Arc<dyn CollectionStore>),
            ..Settings::default()
        };
        Self { inspector: Inspector::new(program, Arc::new(settings)), elsewhere }
    }

    /// What this head says. One that is long, or takes much work, is [`First::Suspect`].
    pub fn judge(&mut self, head: &RequestHead<'_>) -> First {
        let bytes = head.headers.iter().map(|header| header.name.len() + header.value.len());
        if bytes.sum::<usize>() > FIRST_VERDICT_HEAD_BYTES_MAX {
            return First::Suspect;
        }
        LOOKS.set(0);
        self.inspector.set_deadline(Some(Deadline::new(look, LOOKS_MAX)));
        // The user is in dynamic metadata, which the host of the full inspection is sent.
        let program = self.inspector.program();
        let is_partial = program.names_remote_user() || program.describes_api();
        self.elsewhere.asked.store(is_partial, Ordering::Relaxed);
        let decision = self.inspector.request_headers(head);
        let asked = self.elsewhere.asked.load(Ordering::Relaxed);
        let limits_hit = self.inspector.limits_hit();
        let receipt = self.inspector.receipt();
        let quiet = !asked
            && limits_hit == Flags::default()
            && receipt.scores == Scores::default()
            && receipt.rules.is_empty();
        match decision {
            Decision::Reply(_) => First::Suspect,
            _ if !quiet => First::Suspect,
            _ if !head.end_of_stream => First::Body,
            // What rules have not seen, for whatever reason, is not clean.
            Decision::Continue if receipt.uninspected.is_none() => First::Clean,
            _ => First::Suspect,
        }
    }

    /// The hash of the ruleset.
    #[must_use]
    pub fn ruleset(&self) -> &str {
        self.inspector.program().hash()
    }
}

/// Notices that rules ask what only the host of the full inspection knows: collections that outlive a request,
/// places and block lists. (Who the user is, and what the API is, is known of the rules as a whole.)
#[derive(Debug, Default)]
struct Elsewhere {
    asked: AtomicBool,
}

impl Lookup for Elsewhere {
    fn geo(&self, _address: IpAddr) -> Option<Geo> {
        self.asked.store(true, Ordering::Relaxed);
        None
    }

    fn rbl(&self, _name: &str) -> Option<bool> {
        self.asked.store(true, Ordering::Relaxed);
        None
    }
}

impl CollectionStore for Elsewhere {
    fn load(&self, _collection: Variable, _key: &[u8], _now: Duration) -> Collection {
        self.asked.store(true, Ordering::Relaxed);
        Collection::default()
    }

    fn apply(&self, _: Variable, _: &[u8], _: &[Change], _: Duration, _: Duration) {
        self.asked.store(true, Ordering::Relaxed);
    }
}
