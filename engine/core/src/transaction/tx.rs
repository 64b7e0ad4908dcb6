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
    /// Members without a slot, their names in lower case.
    others: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many of `others` are in use: the rest is kept for its memory.
    used: usize,
}

/// Bytes of a member that a reused transaction keeps.
const VALUE_BYTES_KEPT: usize = 4 << 10;

/// Members without a slot whose memory a reused transaction keeps.
const OTHERS_KEPT: usize = 64;

impl TxCollection {
    pub(super) fn new(slots: usize) -> Self {
        let mut members = Vec::new();
        members.resize_with(slots, Member::default);
        Self { slots: members, set: Vec::new(), others: Vec::new(), used: 0 }
    }

    pub(super) fn clear(&mut self) {
        for slot in self.set.drain(..) {
            if let Some(member) = self.slots.get_mut(slot.get()) {
                member.present = false;
                member.value.clear();
                member.value.shrink_to(VALUE_BYTES_KEPT);
            }
        }
        for (name, value) in self.others.iter_mut().take(self.used) {
            name.shrink_to(VALUE_BYTES_KEPT);
            value.shrink_to(VALUE_BYTES_KEPT);
        }
        self.others.truncate(OTHERS_KEPT);
        self.used = 0;
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

    fn others(&self) -> &[(Vec<u8>, Vec<u8>)] {
        self.others.get(..self.used).unwrap_or_default()
    }

    pub(super) fn other(&self, name: &[u8]) -> Option<&[u8]> {
        self.others().iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    /// Sets a member without a slot. Gives `false` when there are `members_max` already.
    pub(super) fn set_other(&mut self, name: &[u8], value: &[u8], members_max: usize) -> bool {
        let known = self.others().iter().position(|(key, _)| key == name);
        if known.is_none() && self.used >= members_max {
            return false;
        }
        let at = known.unwrap_or(self.used);
        if self.others.len() <= at {
            self.others.resize_with(at + 1, Default::default);
        }
        self.used = self.used.max(at + 1);
        if let Some((key, current)) = self.others.get_mut(at) {
            key.clear();
            key.extend_from_slice(name);
            current.clear();
            current.extend_from_slice(value);
        }
        true
    }

    pub(super) fn unset_other(&mut self, name: &[u8]) {
        if let Some(at) = self.others().iter().position(|(key, _)| key == name)
            && let Some(rest) = self.others.get_mut(at..self.used)
        {
            rest.rotate_left(1);
            self.used -= 1;
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
        slots.chain(self.others().iter().map(|(name, value)| (name.as_slice(), value.as_slice())))
    }
}
