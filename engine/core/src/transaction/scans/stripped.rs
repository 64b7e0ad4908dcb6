//! What is known of long values without separators, which spares most chains of transformations.

use super::{LONG_BYTES_MIN, Scans, UNKNOWN, VIEWS_KEPT, ViewId, lookup, remember};
use crate::{
    id::LaneId,
    program::{Lane, Program},
    scan::Marks,
    store::{Slice, ValueId},
    transaction::Transaction,
};

/// A long value without separators.
#[derive(Clone, Copy, Debug)]
struct StrippedValue {
    /// The row of rules whose texts are in it.
    row: u32,
    marks: Marks,
}

/// Those of one transaction: at most one for each [`LONG_BYTES_MIN`] bytes of the request.
#[derive(Debug, Default)]
pub(super) struct StrippedValues {
    /// By value: its place in `values`.
    pub(super) places: Vec<u32>,
    values: Vec<StrippedValue>,
    /// For the stripped text.
    text: Vec<u8>,
}

impl StrippedValues {
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.places.shrink_to(VIEWS_KEPT);
        self.values.clear();
        self.values.shrink_to(VIEWS_KEPT);
        self.text = Vec::new();
    }
}

impl Transaction {
    /// Whether a long value, stripped of what the lane would change, has none of the texts that the lane's rules need:
    /// then it need not be changed.
    pub(super) fn is_told_by_stripped(
        &mut self,
        program: &Program,
        id: LaneId,
        lane: &Lane,
        text: Slice,
        value: ValueId,
        raw: ViewId,
    ) -> bool {
        if text.len() < LONG_BYTES_MIN {
            return false;
        }
        let Some(rules) = program.index.stripped.of_lane(id) else { return false };
        let Some(StrippedValue { row, marks }) = self.stripped(program, text, value, raw) else {
            return false;
        };
        if !lane.keeps_stripped(marks) {
            return false;
        }
        let (named, rules) = (self.scans.row(row), rules.words());
        named.len() >= rules.len()
            && named.iter().zip(rules).all(|(named, rules)| named & rules == 0)
    }

    /// What is known of a long value without separators.
    #[inline(never)]
    fn stripped(
        &mut self,
        program: &Program,
        text: Slice,
        value: ValueId,
        raw: ViewId,
    ) -> Option<StrippedValue> {
        let at = value.0 as usize;
        if let Some(known) = lookup(&self.scans.stripped.places, at) {
            return self.scans.stripped.values.get(known as usize).copied();
        }
        if self.budget.scans(text.len()) {
            return None;
        }
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let bytes = self.scans.view(raw).bytes;
        let Scans { row, stripped, .. } = &mut self.scans;
        let index = &program.index.stripped;
        let marks = index.scan(self.store.bytes(text), bytes, &mut stripped.text, row);
        if let Some(profile) = &mut self.profile {
            profile.indexed(text.len());
        }
        let known = StrippedValue { row: self.scans.keep_row(true), marks };
        let values = &mut self.scans.stripped;
        let place = u32::try_from(values.values.len()).unwrap_or(UNKNOWN);
        values.values.push(known);
        remember(&mut values.places, at, place);
        Some(known)
    }
}
