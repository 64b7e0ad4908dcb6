//! Values at the end of a chain of transformations, each made once and kept as long as there is room.

use super::{Transaction, UNKNOWN, values::ValueRef};
use crate::{
    id::LaneId,
    program::{Lane, Program, Step},
    scan::ByteSet,
    store::{Region, Slice, ValueId},
};

/// Bytes of a result that are looked at to see what else may change it: of more, that costs more than to
/// try.
const SMALL: usize = 128;

/// Bytes of a result from which on it is compared with what other chains made of the same value. Chains differ in
/// steps that change nothing in most values, and a result of megabytes is then stored once for all of them.
const SHARED_BYTES_MIN: usize = 4 << 10;

impl Transaction {
    /// The value at the end of a chain of transformations.
    pub(super) fn transformed(
        &mut self,
        program: &Program,
        lane: LaneId,
        value: &ValueRef,
    ) -> Slice {
        if lane == LaneId::NONE {
            return value.value;
        }
        let Some(ValueId(id)) = value.id else {
            return self.transform(program, lane, value.value, ByteSet::ALL, None);
        };
        let cell = id as usize;
        let cached = self.transformed.get(lane.get()).and_then(|cells| cells.get(cell));
        if let Some(&slice) = cached.filter(|&&slice| slice != UNKNOWN) {
            return slice;
        }
        let bytes = self.known_bytes(ValueId(id));
        let before = self.budget;
        let slice = self.transform(program, lane, value.value, bytes, Some(cell));
        self.pay_once(before, value.id);
        // There was no room to keep it: the next rule transforms it anew.
        if slice.region == Region::Temporary {
            return slice;
        }
        if let Some(cells) = self.transformed.get_mut(lane.get()) {
            if cells.len() <= cell {
                cells.resize(cell + 1, UNKNOWN);
            }
            if let Some(place) = cells.get_mut(cell) {
                *place = slice;
            }
        }
        slice
    }

    /// Runs a chain of transformations. A value that nothing changes is not copied. With `keep`, the
    /// place of the value, the result stays for the whole transaction, if there is room for it.
    pub(super) fn transform(
        &mut self,
        program: &Program,
        lane: LaneId,
        value: Slice,
        mut bytes: ByteSet,
        keep: Option<usize>,
    ) -> Slice {
        let steps = program.lanes.get(lane.get()).map_or(&[][..], |lane| &lane.steps);
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        let mut changed = false;
        for step in steps {
            changed |= self.transform_step(program, step, value, changed, &mut bytes);
        }
        if let Some(profile) = &mut self.profile {
            profile.transformed(lane, value.len(), changed);
        }
        if !changed {
            return value;
        }
        let result = core::mem::take(&mut self.scratch.transform_in);
        let bytes_max = program.limits.transformed_bytes_max;
        let kept = keep.and_then(|cell| {
            let known = self.same_result(cell, &result);
            known.or_else(|| self.store.push_transformed(&result, bytes_max))
        });
        self.flags.views_dropped |= keep.is_some() && kept.is_none();
        let slice = kept.unwrap_or_else(|| self.store.push_temporary(&result));
        self.scratch.transform_in = result;
        slice
    }

    /// The same bytes as another chain made them of the value at `cell`, if they are many.
    fn same_result(&self, cell: usize, result: &[u8]) -> Option<Slice> {
        if result.len() < SHARED_BYTES_MIN {
            return None;
        }
        let others = self.transformed.iter().filter_map(|cells| cells.get(cell).copied());
        others
            .filter(|other| *other != UNKNOWN && other.region == Region::Transformed)
            .find(|&other| self.store.bytes(other) == result)
    }

    /// One transformation of `value`, or of the result so far; the result is left in `transform_in`.
    /// Says whether it changed anything.
    ///
    /// What cannot change a value with these `bytes`, in one case or the other, is not run. They are
    /// then those of the result.
    fn transform_step(
        &mut self,
        program: &Program,
        step: &Step,
        value: Slice,
        changed_before: bool,
        bytes: &mut ByteSet,
    ) -> bool {
        let transformation = step.transformation;
        let triggered = bytes.intersects(step.triggers);
        if !triggered && !transformation.changes_case() {
            return false;
        }
        let scratch = &mut self.scratch;
        let input = if changed_before { &scratch.transform_in } else { self.store.bytes(value) };
        self.budget.charge(input.len());
        let map = program.settings.unicode_map.as_deref();
        if !transformation.apply_mapped(input, map, &mut scratch.transform_out) {
            return false;
        }
        let max = program.limits.transform_bytes_max;
        if scratch.transform_out.len() > max {
            scratch.transform_out.truncate(max);
            self.flags.values_cut = true;
        }
        core::mem::swap(&mut scratch.transform_in, &mut scratch.transform_out);
        *bytes = match (triggered, transformation.keeps_bytes()) {
            (true, false) if (1..=SMALL).contains(&scratch.transform_in.len()) => {
                ByteSet::of(&scratch.transform_in).folded()
            }
            (true, false) => ByteSet::ALL,
            (true, true) => bytes.union(ByteSet::of(b" ")),
            // Nothing but case, and that of all bytes is known.
            (false, _) => *bytes,
        };
        true
    }

    /// `multiMatch`: the value as it is, and after each transformation that changes it.
    pub(super) fn stages(
        &mut self,
        program: &Program,
        id: LaneId,
        lane: &Lane,
        value: Slice,
        mut bytes: ByteSet,
        stages: &mut Vec<Slice>,
    ) {
        if let Some(profile) = &mut self.profile {
            profile.begin_shared();
        }
        stages.clear();
        stages.push(value);
        let mut changed = false;
        for step in &lane.steps {
            if self.transform_step(program, step, value, changed, &mut bytes) {
                changed = true;
                let result = core::mem::take(&mut self.scratch.transform_in);
                stages.push(self.store.push_temporary(&result));
                self.scratch.transform_in = result;
            }
        }
        if let Some(profile) = &mut self.profile {
            profile.transformed(id, value.len(), changed);
        }
    }
}
