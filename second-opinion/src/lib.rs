//! The second opinion: learned weights over the rules that matched, beside the anomaly score.
//!
//! [`Evidence`] collects which rules matched on which value, [`Weights`] is the file of learned weights, and
//! [`Weights::opinion`] adds them up to an [`Opinion`]: a score, the reasons it consists of, and whether it reaches the
//! threshold. [`training`] learns weights from labelled evidence.
//!
//! Invariants: no I/O and no clock. Scores are integers in thousandths, so that the order of addition is irrelevant.
//! Rules have no negative weights: whatever a client adds to a request never lowers its score. The work for a request
//! is bounded by the engine's `matched_rules_max` times `matches_per_rule_max`; without a match there is none.

mod evidence;
mod opinion;
pub mod training;
mod weights;

pub use evidence::{Evidence, is_excluded};
pub use opinion::{Opinion, Reason};
pub use weights::{
    FORMAT, Figures, PROVENANCE_MAX, Provenance, RULES_MAX, Source, WEIGHTS_BYTES_MAX, Weights,
    WeightsError,
};

/// A weight or a score in thousandths of the natural logarithm of the odds.
pub type Milli = i32;
