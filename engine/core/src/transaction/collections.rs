//! Persistent collections in a transaction: opened by a key, changed by rules, handed to the store.

use core::time::Duration;
use std::sync::Arc;

use super::Transaction;
use crate::{
    collection::{Change, Collection, CollectionLimits, CollectionStore, Step},
    expand::Expression,
    operator::leading_integer,
    program::{self, Program, SetVar, TxKey},
    variable::Variable,
};

/// The collections that `initcol` opens.
pub(crate) const PERSISTENT: [Variable; 5] =
    [Variable::Global, Variable::Ip, Variable::Resource, Variable::Session, Variable::User];

/// Bytes of a key that is used as it is; a longer one is replaced by its digest.
const KEY_BYTES_MAX: usize = 256;

/// Changes kept for each member that a collection may have: one of each kind, `Set` and `Unset` being
/// alternatives.
const CHANGES_PER_MEMBER: usize = 4;

/// A collection that `initcol` has opened, or not yet.
#[derive(Debug, Default)]
pub(super) struct PersistentCollection {
    pub(super) key: Option<Vec<u8>>,
    pub(super) collection: Collection,
    /// What the store has yet to be told.
    changes: Vec<Change>,
}

impl PersistentCollection {
    /// Applies a change, and notes it for the store. Gives `false` when the limits did not allow it.
    fn change(&mut self, change: Change, limits: CollectionLimits, now: Duration) -> bool {
        self.collection.apply(&change, limits, now) && self.note(change, limits)
    }

    /// Notes a change so that there are never more than a few for a member.
    fn note(&mut self, change: Change, limits: CollectionLimits) -> bool {
        let same_kind = |noted: &Change| {
            noted.member == change.member
                && core::mem::discriminant(&noted.step) == core::mem::discriminant(&change.step)
        };
        match &change.step {
            Step::Set(_) | Step::Unset => self.changes.retain(|n| n.member != change.member),
            Step::Add(number) => {
                let noted = self.changes.iter_mut().find(|noted| same_kind(noted));
                if let Some(Change { step: Step::Add(sum), .. }) = noted {
                    *sum = sum.saturating_add(*number);
                    return true;
                }
            }
            Step::ExpireAt(_) | Step::Decay { .. } => self.changes.retain(|n| !same_kind(n)),
        }
        let room = self.changes.len() < limits.members_max.saturating_mul(CHANGES_PER_MEMBER);
        if room {
            self.changes.push(change);
        }
        room
    }
}

impl Transaction {
    /// Has `store` keep `IP`, `SESSION` and so on between transactions; without it they end with the
    /// transaction that opened them. Changes are handed over by [`Self::finish`].
    #[must_use]
    pub fn with_collections(mut self, store: Arc<dyn CollectionStore>) -> Self {
        self.collections = Some(store);
        self
    }

    pub(super) fn persistent(&self, variable: Variable) -> Option<&PersistentCollection> {
        let at = PERSISTENT.iter().position(|&known| known == variable)?;
        self.persistent.get(at)
    }

    fn persistent_mut(&mut self, variable: Variable) -> Option<&mut PersistentCollection> {
        let at = PERSISTENT.iter().position(|&known| known == variable)?;
        self.persistent.get_mut(at)
    }

    /// `initcol`. The first key stands: a collection is opened once in a transaction.
    pub(super) fn open_collection(
        &mut self,
        program: &Program,
        collection: Variable,
        key: &Expression,
    ) {
        if self.persistent(collection).is_none_or(|opened| opened.key.is_some()) {
            return;
        }
        let mut text = Vec::new();
        self.expand(program, key, &mut text);
        if text.len() > KEY_BYTES_MAX {
            let digest: [u8; 20] = <sha1::Sha1 as sha1::Digest>::digest(&text).into();
            text = digest.to_vec();
        }
        let now = self.start_time;
        let kept = self.collections.as_ref().map(|store| store.load(collection, &text, now));
        if let Some(opened) = self.persistent_mut(collection) {
            opened.collection = kept.unwrap_or_default();
            opened.key = Some(text);
        }
    }

    /// `setvar` of a persistent collection; nothing happens where it has not been opened.
    pub(super) fn set_member(&mut self, program: &Program, setvar: &SetVar) {
        if self.persistent(setvar.collection).is_none_or(|opened| opened.key.is_none()) {
            return;
        }
        let TxKey::Expression(name) = &setvar.key else { return };
        let mut value = Vec::new();
        let step = match &setvar.change {
            program::Change::Unset => Step::Unset,
            program::Change::Set(expression) => {
                self.expand(program, expression, &mut value);
                Step::Set(value)
            }
            program::Change::Add(expression) => {
                self.expand(program, expression, &mut value);
                Step::Add(leading_integer(&value))
            }
            program::Change::Subtract(expression) => {
                self.expand(program, expression, &mut value);
                Step::Add(leading_integer(&value).saturating_neg())
            }
            program::Change::ExpireAfter(expression) => {
                self.expand(program, expression, &mut value);
                let seconds = u64::try_from(leading_integer(&value)).unwrap_or(0);
                Step::ExpireAt(self.start_time.saturating_add(Duration::from_secs(seconds)))
            }
            program::Change::Decay { amount, period } => {
                Step::Decay { amount: *amount, period: *period }
            }
        };
        let mut member = Vec::new();
        self.expand(program, name, &mut member);
        member.make_ascii_lowercase();
        let (limits, now) = (program.limits.collections(), self.start_time);
        let Some(opened) = self.persistent_mut(setvar.collection) else { return };
        let kept = opened.change(Change { member, step }, limits, now);
        self.flags.collection_members_dropped |= !kept;
    }

    /// Tells the store what has changed.
    pub(super) fn save_collections(&mut self) {
        let timeout = self.program.settings.collection_timeout;
        for (variable, opened) in PERSISTENT.into_iter().zip(&mut self.persistent) {
            let changes = core::mem::take(&mut opened.changes);
            if let (Some(store), Some(key), false) =
                (&self.collections, &opened.key, changes.is_empty())
            {
                store.apply(variable, key, &changes, self.start_time, timeout);
            }
        }
    }
}
