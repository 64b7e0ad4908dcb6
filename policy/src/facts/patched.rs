//! Virtual patches that describe a request.

use super::Facts;
use glacis_limits::patch::{Patch, Prepared};

/// Why virtual patches speak against a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patched {
    /// The patch in this place describes it.
    By(usize),
    /// The patch in this place describes it, and is in shadow mode.
    ShadowBy(usize),
    /// Its path or query are longer than patches look at.
    TooLong,
    /// They are, and all patches are in shadow mode.
    ShadowTooLong,
}

impl Facts<'_> {
    /// Looks for a patch that describes the request and has not expired. A patch in shadow mode, as all are with
    /// `shadow`, counts only if no other describes it.
    pub(crate) fn patch<'p>(
        &self,
        patches: impl Iterator<Item = &'p Patch>,
        shadow: bool,
        now_seconds: u64,
    ) -> Option<Patched> {
        let holding = patches.enumerate().filter(|(_, patch)| patch.holds(now_seconds));
        let mut holding = holding.peekable();
        holding.peek()?;
        let prepared = Prepared::new(self);
        if prepared.is_too_long() {
            let shadow = shadow || holding.all(|(_, patch)| patch.shadow);
            return Some(if shadow { Patched::ShadowTooLong } else { Patched::TooLong });
        }
        let mut first = None;
        for (place, patch) in holding.filter(|(_, patch)| patch.matches(&prepared)) {
            if !shadow && !patch.shadow {
                return Some(Patched::By(place));
            }
            first = first.or(Some(Patched::ShadowBy(place)));
            if shadow {
                break;
            }
        }
        first
    }
}
