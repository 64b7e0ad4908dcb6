//! Rules that are replaced under load: the short form of `cargo xtask reload`, with and without `--module`.

use glacis_tests::native;
use glacis_tests::reload::{NATIVE_KEYS, PATIENT, PATIENT_KEYS, under_load};
use glacis_tests::stack::{Ports, Processor};

use crate::support::{Own, folder};

#[test]
fn no_request_of_the_native_module_fails() {
    let stack =
        native::start_with_file(&folder("native-reloads"), Ports::free().unwrap(), &NATIVE_KEYS);
    let mut own = Own(stack.unwrap());
    under_load(&mut own.0, 5).unwrap();
    let uninspected = own.0.envoy.stats("dynamicmodulescustom.glacis_uninspected").unwrap();
    assert!(uninspected.values().all(|count| *count == 0), "{uninspected:?}");
}

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
