//! Rules that are exchanged under load: the short form of `cargo xtask reload`.

use glacis_tests::reload::{PATIENT, PATIENT_KEYS, under_load};
use glacis_tests::stack::Processor;

use crate::support::Own;

#[test]
fn no_request_fails_or_passes_uninspected() {
    let with = Processor::ExtProcWith(PATIENT_KEYS);
    let mut own = Own::start("reload", with, PATIENT);
    under_load(&mut own.0, 5).unwrap();
    let uninspected = own.0.ext_proc.as_ref().unwrap().metrics().unwrap();
    let uninspected: f64 = uninspected
        .iter()
        .filter(|(name, _)| name.starts_with("glacis_uninspected_total"))
        .map(|(_, value)| value)
        .sum();
    assert_eq!(uninspected, 0.0);
}
