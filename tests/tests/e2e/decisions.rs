//! `cargo xtask bench decisions` in its shortest form: that it measures what it says. How fast something is, it says
//! itself, on a quiet machine.

use std::time::Duration;

use glacis_tests::decisions::{Bench, ratio};

#[test]
fn decisions_are_measured() {
    // The path of a socket may have 107 bytes: cargo's folder can be longer.
    let folder = std::env::temp_dir().join(format!("glacis-e2e-decisions-{}", std::process::id()));
    let mut bench = Bench::start(&folder, "").unwrap();
    let seen = bench.headers_only(2, 2, Duration::from_millis(150)).unwrap();
    assert!(seen.iter().all(|seen| seen.count > 10), "{seen:?}");
    // Of a processor that nobody asks no CPU time is taken.
    assert!(seen[0].cpu_us < 1e-9 && seen[1].cpu_us > 1.0 && seen[2].cpu_us > 1.0, "{seen:?}");
    assert!(ratio(&seen, |seen| seen.mean_us).is_finite(), "{seen:?}");
    let counted = bench.decisions().unwrap();
    assert!(counted >= seen[2].count, "{counted} of {seen:?}");
    let (count, most, now) = bench.mixed(20, Duration::from_millis(500)).unwrap();
    assert!(count > 20 && most >= now && now > 1 << 20, "{count}, {most}, {now}");
    drop(bench);
    std::fs::remove_dir_all(&folder).unwrap();
}
