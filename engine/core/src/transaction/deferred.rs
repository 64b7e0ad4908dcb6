//! Operators that need more than a value: those that ask the host, and patterns that are known only
//! when their macros are expanded.

use core::net::IpAddr;
use std::sync::Arc;

use super::Transaction;
use crate::{
    lookup::{self, Lookup},
    operator::{self, Deferred},
    pattern::Found,
    store::{List, Slice},
};

impl Transaction {
    /// Whether the operator holds for a value. `parameter` is the expansion of the operator's.
    pub(super) fn answer(
        &mut self,
        operator: &Deferred,
        parameter: &[u8],
        value: Slice,
        capturing: bool,
    ) -> Found {
        self.scratch.capture.clear();
        match operator {
            Deferred::GeoLookup => Found::from(self.geo_lookup(value)),
            Deferred::Rbl(_) => Found::from(self.rbl(parameter, value, capturing)),
            Deferred::Rx(_, global) => self.expanded_rx(parameter, *global, value, capturing),
        }
    }

    /// `@rx` and `@rxGlobal` with macros.
    fn expanded_rx(&mut self, text: &[u8], global: bool, value: Slice, capturing: bool) -> Found {
        let Some(pattern) = self.patterns.find(text, &self.program.limits) else {
            self.flags.patterns_failed = true;
            return Found::No;
        };
        let value = self.store.bytes(value);
        let (capture, meter) = (&mut self.scratch.capture, self.budget.meter());
        operator::search(pattern, global, value, capturing, capture, meter)
    }

    /// `@geoLookup`: fills `GEO` anew.
    fn geo_lookup(&mut self, value: Slice) -> bool {
        self.store.clear_list(List::Geo);
        let text = core::str::from_utf8(self.store.bytes(value)).unwrap_or_default();
        let Ok(address) = text.trim().parse::<IpAddr>() else { return false };
        let Some(lookup) = self.lookup() else { return false };
        let Some(geo) = lookup.geo(address.to_canonical()) else { return false };
        for (name, value) in geo.members() {
            self.store.add_pair(List::Geo, name.as_bytes(), value.as_bytes());
        }
        true
    }

    /// `@rbl`: captures the value that is listed.
    fn rbl(&mut self, zone: &[u8], value: Slice, capturing: bool) -> bool {
        let bytes = self.store.bytes(value);
        let length = bytes.len();
        let Some(name) = lookup::listed_name(bytes, zone) else { return false };
        let listed = self.lookup().is_some_and(|lookup| lookup.rbl(&name) == Some(true));
        if listed && capturing {
            self.scratch.capture.groups[0] = Some((0, length));
        }
        listed
    }

    /// The host's look-up, as long as it may be asked.
    fn lookup(&mut self) -> Option<Arc<dyn Lookup>> {
        let lookup = self.lookup.clone()?;
        match self.lookups_left.checked_sub(1) {
            Some(left) => self.lookups_left = left,
            None => {
                self.flags.lookups_dropped = true;
                return None;
            }
        }
        Some(lookup)
    }
}
