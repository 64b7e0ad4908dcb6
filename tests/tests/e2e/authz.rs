//! `cargo xtask bench authz` in its shortest form: that it measures what it says. How fast something is, it says itself, on
//! a quiet machine.

use std::time::Duration;

use glacis_tests::authz::{Bench, Kept, Over, Question, leased};

const SLICE: Duration = Duration::from_millis(150);

#[test]
fn what_asking_costs_is_measured() {
    // The path of a socket may have 107 bytes: cargo's folder can be longer.
    let folder = std::env::temp_dir().join(format!("glacis-e2e-authz-{}", std::process::id()));
    for (name, kept) in [("memory", Kept::InMemory), ("redis", Kept::InRedis)] {
        let mut bench = Bench::start(&folder.join(name), kept, None).unwrap();
        let before = bench.round_trips().unwrap();
        let mut count = 0;
        for (question, over) in [
            (Question::Check, Over::Unix),
            (Question::Check, Over::Tcp),
            (Question::RateLimit, Over::Tcp),
        ] {
            let seen = bench.ask(question, over, SLICE).unwrap();
            assert!(seen.count > 10 && seen.p99_us >= seen.p50_us, "{name} {over:?}: {seen:?}");
            count += u64::try_from(seen.count).unwrap();
        }
        let trips = bench.round_trips().unwrap() - before;
        // Each is one round trip, and so are those of the warm-up.
        assert!(if kept == Kept::InRedis { trips >= count } else { trips == 0 }, "{name}: {trips}");
    }
    let seen = leased(&folder.join("leased"), 300, 150, Duration::from_secs(3)).unwrap();
    assert!(seen.requests > 100 && (seen.passed as f64) <= seen.bound, "{seen:?}");
    assert!(seen.calls > 0 && (1..=2 * seen.calls + 1).contains(&seen.round_trips), "{seen:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
