//! Exclusions learned from recorded requests: `glacis learn`, and the proposals of services in detection mode.
//!
//! A [`Learner`] is given requests one after the other, evaluates each with the rules in blocking mode, and keeps those
//! that are blocked. In the end it proposes the smallest set of narrow exclusions (rule × parameter × path) with which
//! ordinary requests pass:
//!
//! 1. Requests with signs of an attack are no evidence, and neither are others of the same client.
//! 2. What is the same but for numbers and identifiers is put together, where more than one of them was seen.
//! 3. An exclusion needs requests, clients and days.
//! 4. Known attacks are put where an exclusion would apply. Where too many would no longer be found, it is narrowed to
//!    the values that were seen, or declined.
//! 5. The requests are evaluated again with all exclusions, and the attacks, too.
//!
//! Invariants: no I/O and no clock; what is kept of the input is bounded by [`Options`] and by constants.

mod attacks;
mod candidate;
mod check;
mod inject;
mod learner;
mod observation;
mod observe;
mod paths;
mod poison;
mod report;
mod select;
mod target;
mod template;
mod values;
mod view;

pub use learner::{Learner, Options, Totals};
pub use report::{Declined, Learned};
