//! `cargo xtask bench filter` in its shortest form: that it measures what it says. How fast something is, it says
//! itself, on a quiet machine.

use std::time::Duration;

use glacis_tests::filter_bench::{Bench, share};

use crate::support::folder;

#[test]
fn the_filter_is_measured() {
    let mut bench = Bench::start(&folder("filter-bench")).unwrap();
    // Each answer is held against 200: whoever refuses or breaks something fails here.
    let seen = bench.run(2, 1, Duration::from_millis(200)).unwrap();
    assert!(seen.iter().all(|row| row.seen.count > 10 && row.cpu_us > 0.0), "{seen:?}");
    assert!(share(&seen, 3, 1).is_finite(), "{seen:?}");
    assert!(bench.memory().unwrap() > 1 << 20);
}
