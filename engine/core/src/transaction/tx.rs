//! The collection `TX`: members with a slot, and members whose names came up at run time.

use crate::id::TxSlot;

/// A member's value: absent, or bytes.
#[derive(Debug, Default)]
struct Member {
    present: bool,
    value: Vec<u8>,
}

/// What rules have set in one transaction.
#[derive(Debug, Default)]
pub(super) struct TxCollection {
    slots: Vec<Member>,
    /// Slots in the order in which they were first set, to clear them and to list them.
    set: Vec<TxSlot>,
    /// Members without a slot, in lower case.
    others: Vec<(Vec<u8>, Vec<u8>)>,
    /// The room of members that were, empty, for those to come.
    spare: Vec<(Vec<u8>, Vec<u8>)>,
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
                member.value.clear();
                member.value.shrink_to(VALUE_BYTES_KEPT);
            }
        }
        while let Some(member) = self.others.pop() {
            self.keep(member);
        }
    }

    fn keep(&mut self, (mut name, mut value): (Vec<u8>, Vec<u8>)) {
        if self.spare.len() < SPARE_KEPT {
            for bytes in [&mut name, &mut value] {
                bytes.clear();
                bytes.shrink_to(SPARE_BYTES_KEPT);
            }
            self.spare.push((name, value));
        }
    }

    pub(super) fn slot(&self, slot: TxSlot) -> Option<&[u8]> {
        self.slots.get(slot.get()).filter(|member| member.present).map(|member| &*member.value)
    }

    pub(super) fn set_slot(&mut self, slot: TxSlot, value: &[u8]) {
        let Some(member) = self.slots.get_mut(slot.get()) else { return };
        member.value.clear();
        member.value.extend_from_slice(value);
        if !member.present {
            member.present = true;
            if !self.set.contains(&slot) {
                self.set.push(slot);
            }
        }
    }

    pub(super) fn unset_slot(&mut self, slot: TxSlot) {
        if let Some(member) = self.slots.get_mut(slot.get()) {
            member.present = false;
            member.value.clear();
        }
    }

    pub(super) fn other(&self, name: &[u8]) -> Option<&[u8]> {
        self.others.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    /// Sets a member without a slot. Gives `false` when there are `members_max` already.
    pub(super) fn set_other(&mut self, name: &[u8], value: &[u8], members_max: usize) -> bool {
        if let Some((_, current)) = self.others.iter_mut().find(|(key, _)| key == name) {
            current.clear();
            current.extend_from_slice(value);
            return true;
        }
        if self.others.len() >= members_max {
            return false;
        }
        let (mut key, mut room) = self.spare.pop().unwrap_or_default();
        key.extend_from_slice(name);
        room.extend_from_slice(value);
        self.others.push((key, room));
        true
    }

    pub(super) fn unset_other(&mut self, name: &[u8]) {
        if let Some(at) = self.others.iter().position(|(key, _)| key == name) {
            let member = self.others.remove(at);
            self.keep(member);
        }
    }

    /// All members that are set: those with a slot, then the others, each in the order set.
    pub(super) fn members<'m>(
        &'m self,
        names: &'m [Box<str>],
    ) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        let slots = self.set.iter().filter_map(move |&slot| {
            let name = names.get(slot.get())?;
            Some((name.as_bytes(), self.slot(slot)?))
        });
        slots.chain(self.others.iter().map(|(name, value)| (name.as_slice(), value.as_slice())))
    }
}
