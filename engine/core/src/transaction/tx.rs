//! The collection `TX`: members with a slot, and members whose names came up at run time.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{RuleIndex, TxSlot};

/// A member's value: absent, or bytes.
#[derive(Debug, Default)]
struct Member {
    present: bool,
    /// Whether it is in the order of members.
    listed: bool,
    value: Vec<u8>,
}

/// A member without a slot.
#[derive(Debug, Default)]
struct Other {
    /// Whether it is set: one that was unset keeps its place until half of all are such.
    present: bool,
    /// Of the name: there may be thousands of members, and rules that set one for each argument.
    hash: u64,
    /// In lower case.
    name: Vec<u8>,
    value: Vec<u8>,
    /// The rule that created it; `None` for the host.
    creator: Option<RuleIndex>,
}

/// The FNV-1a hash. Names of one hash cost a comparison more.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// What rules have set in one transaction.
#[derive(Debug, Default)]
pub(super) struct TxCollection {
    slots: Vec<Member>,
    /// The slots that were set, sorted, to clear them and to list them. The order in which they were set would
    /// tell which of them were set when the rules were loaded.
    set: Vec<TxSlot>,
    /// Members without a slot, in the order set.
    others: Vec<Other>,
    /// How many of them were unset.
    absent: usize,
    /// How many of them each creator has: a rule that names members by what clients send takes no room from others.
    created: BTreeMap<Option<RuleIndex>, usize>,
    /// Where the others are, by hash and place, once there are [`INDEXED_MIN`] of them; empty before.
    places: BTreeSet<(u64, usize)>,
    /// The room of members that were, empty, for those to come.
    spare: Vec<Other>,
}

/// Bytes of a member that a reused transaction keeps.
const VALUE_BYTES_KEPT: usize = 4 << 10;

/// Members without a slot whose room is kept, and bytes of each name and value of theirs.
const SPARE_KEPT: usize = 256;
const SPARE_BYTES_KEPT: usize = 256;

/// Members without a slot from which on they are looked up in an index. Fewer are compared faster.
const INDEXED_MIN: usize = 64;

impl TxCollection {
    pub(super) fn new(slots: usize) -> Self {
        let mut members = Vec::new();
        members.resize_with(slots, Member::default);
        Self { slots: members, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        for slot in self.set.drain(..) {
            if let Some(member) = self.slots.get_mut(slot.get()) {
                member.present = false;
                member.listed = false;
                member.value.clear();
                member.value.shrink_to(VALUE_BYTES_KEPT);
            }
        }
        while let Some(member) = self.others.pop() {
            self.keep(member);
        }
        self.absent = 0;
        self.created.clear();
        self.places.clear();
    }

    fn keep(&mut self, mut member: Other) {
        if self.spare.len() < SPARE_KEPT {
            for bytes in [&mut member.name, &mut member.value] {
                bytes.clear();
                bytes.shrink_to(SPARE_BYTES_KEPT);
            }
            self.spare.push(member);
        }
    }

    pub(super) fn slot(&self, slot: TxSlot) -> Option<&[u8]> {
        self.slots.get(slot.get()).filter(|member| member.present).map(|member| &*member.value)
    }

    pub(super) fn set_slot(&mut self, slot: TxSlot, value: &[u8]) {
        let Some(member) = self.slots.get_mut(slot.get()) else { return };
        member.value.clear();
        member.value.extend_from_slice(value);
        member.present = true;
        if !member.listed {
            member.listed = true;
            let at = self.set.partition_point(|&other| other < slot);
            self.set.insert(at, slot);
        }
    }

    pub(super) fn unset_slot(&mut self, slot: TxSlot) {
        if let Some(member) = self.slots.get_mut(slot.get()) {
            member.present = false;
            member.value.clear();
        }
    }

    fn position(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let is_it = |other: &Other| other.present && other.hash == hash && other.name == name;
        if self.places.is_empty() {
            return self.others.iter().position(is_it);
        }
        let mut places = self.places.range((hash, 0)..=(hash, usize::MAX)).map(|&(_, at)| at);
        places.find(|&at| self.others.get(at).is_some_and(is_it))
    }

    /// Puts the last member into the index, once there is one.
    fn index_last(&mut self) {
        let count = self.others.len();
        let first = match self.places.is_empty() {
            true if count < INDEXED_MIN => return,
            true => 0,
            false => count - 1,
        };
        let members = self.others.iter().enumerate().skip(first);
        let present = members.filter(|(_, other)| other.present);
        self.places.extend(present.map(|(at, other)| (other.hash, at)));
    }

    /// Closes the gaps of members that were unset, when they are more than half.
    fn close_gaps(&mut self) {
        if self.absent > self.others.len() / 2 {
            self.others.retain(|other| other.present);
            self.absent = 0;
            self.places.clear();
            self.index_last();
        }
    }

    pub(super) fn other(&self, name: &[u8]) -> Option<&[u8]> {
        let at = self.position(hash(name), name)?;
        self.others.get(at).map(|other| &*other.value)
    }

    /// Sets a member without a slot, for a rule or, with `None`, for the host. Gives `false` when that creator has
    /// `members_max` already.
    pub(super) fn set_other(
        &mut self,
        creator: Option<RuleIndex>,
        name: &[u8],
        value: &[u8],
        members_max: usize,
    ) -> bool {
        let hash = hash(name);
        if let Some(other) = self.position(hash, name).and_then(|at| self.others.get_mut(at)) {
            other.value.clear();
            other.value.extend_from_slice(value);
            return true;
        }
        let created = self.created.entry(creator).or_default();
        if *created >= members_max {
            return false;
        }
        *created += 1;
        let mut other = self.spare.pop().unwrap_or_default();
        other.present = true;
        other.hash = hash;
        other.creator = creator;
        other.name.extend_from_slice(name);
        other.value.extend_from_slice(value);
        self.others.push(other);
        self.index_last();
        true
    }

    pub(super) fn unset_other(&mut self, name: &[u8]) {
        let Some(at) = self.position(hash(name), name) else { return };
        let Some(member) = self.others.get_mut(at).map(core::mem::take) else { return };
        self.places.remove(&(member.hash, at));
        self.absent += 1;
        if let Some(created) = self.created.get_mut(&member.creator) {
            *created = created.saturating_sub(1);
        }
        self.keep(member);
        self.close_gaps();
    }

    /// All members that are set: those with a slot in the order in which the rules name them, then the others in the
    /// order set.
    pub(super) fn members<'m>(
        &'m self,
        names: &'m [Box<str>],
    ) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        let slots = self.set.iter().filter_map(move |&slot| {
            let name = names.get(slot.get())?;
            Some((name.as_bytes(), self.slot(slot)?))
        });
        let others = self.others.iter().filter(|other| other.present);
        slots.chain(others.map(|other| (&*other.name, &*other.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xorshift::Xorshift;

    /// The members are those of a list that is searched from its start, whatever is set and unset, before and behind
    /// the index, and each creator has its own room.
    #[test]
    fn members_are_those_of_a_list() {
        const MEMBERS_MAX: usize = 100;
        let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
        for names in [8, INDEXED_MIN, 1_000] {
            let mut tx = TxCollection::new(0);
            for round in 0..2 {
                let mut model: Vec<(Option<RuleIndex>, Vec<u8>, Vec<u8>)> = Vec::new();
                for step in 0..4_000_u32 {
                    let name = format!("name_{}", random.below(names)).into_bytes();
                    let value = step.to_string().into_bytes();
                    let creator = random.below(4);
                    let creator = u32::try_from(creator).ok().filter(|&at| at != 0).map(RuleIndex);
                    let known = model.iter().position(|(_, known, _)| *known == name);
                    if random.below(5) < 2 {
                        tx.unset_other(&name);
                        known.map(|at| model.remove(at));
                    } else {
                        let of_creator = model.iter().filter(|(by, ..)| *by == creator).count();
                        let fits = known.is_some() || of_creator < MEMBERS_MAX;
                        assert_eq!(tx.set_other(creator, &name, &value, MEMBERS_MAX), fits);
                        match known {
                            Some(at) => model[at].2 = value,
                            None if fits => model.push((creator, name.clone(), value)),
                            None => {}
                        }
                    }
                    let found = model.iter().find(|(_, known, _)| *known == name);
                    assert_eq!(tx.other(&name), found.map(|(.., value)| &**value));
                    assert!(tx.others.len() <= 2 * model.len() + 1, "gaps are closed");
                }
                let members: Vec<_> = tx.members(&[]).collect();
                let expected: Vec<_> =
                    model.iter().map(|(_, name, value)| (&**name, &**value)).collect();
                assert_eq!(members, expected, "{names} names, round {round}");
                tx.clear();
                assert_eq!(tx.members(&[]).count(), 0);
            }
        }
    }
}
