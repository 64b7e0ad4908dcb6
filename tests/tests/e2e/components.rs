//! `cargo xtask bench components` in its shortest form: that it measures what it says.

use std::time::Duration;

use glacis_tests::components::{calls, round_trips};

#[test]
fn every_part_is_measured() {
    // The path of a socket has 107 bytes at most.
    let folder = std::env::temp_dir().join(format!("glacis-parts-{}", std::process::id()));
    let asked = round_trips(&folder, Duration::from_millis(100)).unwrap();
    let rows = [calls(2).unwrap(), asked.rows].concat();
    assert_eq!(rows.len(), 10, "{rows:#?}");
    for row in rows {
        let [p50, p95, p99] = row.percentiles_ns;
        assert!(row.count > 1 && row.mean_ns > 0.0 && p50 <= p95 && p95 <= p99, "{row:?}");
    }
    let small = asked.memory.iter().find(|(_, bytes)| *bytes < 1 << 20);
    assert!(asked.memory.len() == 5 && small.is_none(), "{:?}", asked.memory);
    std::fs::remove_dir_all(folder).unwrap();
}
