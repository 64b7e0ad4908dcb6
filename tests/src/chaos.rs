//! What happens when it breaks: scenarios as data (`tests/chaos/`), played on a whole fleet under load.
//!
//! A scenario says what is broken, when, and what must be seen: by the clients, in Envoy's statistics, in our
//! metrics, and on the receipts in the access log.

mod jitter;
mod play;
mod report;
mod scenario;

pub use play::{Player, Verdict};
pub use report::{report, result};
pub use scenario::{Scenario, read};
