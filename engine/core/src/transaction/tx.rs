//! The collection `TX`: members with a slot, and members whose names came up at run time.

use crate::id::TxSlot;

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
    /// Of the name: there may be thousands of members, and rules that set one for each argument.
    hash: u64,
    /// In lower case.
    name: Vec<u8>,
    value: Vec<u8>,
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
    /// Members without a slot.
    others: Vec<Other>,
    /// The room of members that were, empty, for those to come.
    spare: Vec<Other>,
}

/// Bytes of a member that a reused transaction keeps.
const VALUE_BYTES_KEPT: usize = 4 << 10;

/// Members without a slot whose room is kept, and bytes of each name and value of theirs.
const SPARE_KEPT: usize = 256;
const SPARE_BYTES_KEPT: usize = 256;

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
        self.others.iter().position(|other| other.hash == hash && other.name == name)
    }

    pub(super) fn other(&self, name: &[u8]) -> Option<&[u8]> {
        let at = self.position(hash(name), name)?;
        self.others.get(at).map(|other| &*other.value)
    }

    /// Sets a member without a slot. Gives `false` when there are `members_max` already.
    pub(super) fn set_other(&mut self, name: &[u8], value: &[u8], members_max: usize) -> bool {
        let hash = hash(name);
        if let Some(other) = self.position(hash, name).and_then(|at| self.others.get_mut(at)) {
            other.value.clear();
            other.value.extend_from_slice(value);
            return true;
        }
        if self.others.len() >= members_max {
            return false;
        }
        let mut other = self.spare.pop().unwrap_or_default();
        other.hash = hash;
        other.name.extend_from_slice(name);
        other.value.extend_from_slice(value);
        self.others.push(other);
        true
    }

    pub(super) fn unset_other(&mut self, name: &[u8]) {
        if let Some(at) = self.position(hash(name), name) {
            let member = self.others.remove(at);
            self.keep(member);
        }
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
        slots.chain(self.others.iter().map(|other| (&*other.name, &*other.value)))
    }
}
